"""Small models of one operator each, by name: what `record` asks litert of, and the tests import.

Scales, zero points and weights come from a generator seeded by the name, so that a case does not change with
its neighbours.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.tflite.writer import Array, Op, T, model

NUMPY = {"INT8": np.int8, "UINT8": np.uint8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64}
INTEGERS = ("INT8", "UINT8", "INT16")
UNIT = {
    ("LOGISTIC", "INT8"): (1 / 256, -128),
    ("LOGISTIC", "UINT8"): (1 / 256, 0),
    ("LOGISTIC", "INT16"): (1 / 32768, 0),
    ("TANH", "INT8"): (1 / 128, 0),
    ("TANH", "UINT8"): (1 / 128, 128),
    ("TANH", "INT16"): (1 / 32768, 0),
    ("SOFTMAX", "INT8"): (1 / 256, -128),
    ("SOFTMAX", "UINT8"): (1 / 256, 0),
    ("SOFTMAX", "INT16"): (1 / 32768, 0),
    ("LOG_SOFTMAX", "INT8"): (1 / 16, 127),
    ("L2_NORMALIZATION", "INT8"): (1 / 128, 0),
    ("L2_NORMALIZATION", "UINT8"): (1 / 128, 128),
    ("HARD_SWISH", "INT8"): (1 / 32, 3),
    ("HARD_SWISH", "UINT8"): (1 / 32, 100),
}
"""The scales that an operator's result has, by definition."""


class Draw:
    """Scales and elements of one case."""

    def __init__(self, name: str) -> None:
        self.random = np.random.default_rng(zlib.crc32(name.encode()))

    def scale(self, low: float, high: float) -> float:
        return float(np.float32(np.exp(self.random.uniform(np.log(low), np.log(high)))))

    def like(self, kind: str, shape: tuple[int, ...], **more: Any) -> T:
        """A tensor with a scale that suits its type."""
        if kind == "INT16":
            return T(kind, shape, scale=self.scale(1e-4, 1e-3), **more)
        zero = int(self.random.integers(-128, 128)) + (128 if kind == "UINT8" else 0)
        return T(kind, shape, scale=self.scale(0.005, 0.1), zero=zero, **more)

    def weights(self, kind: str, shape: tuple[int, ...], axis: int, count: int, bits: int = 8) -> T:
        """int8, or int4 packed, with `count` scales; of a uint8 model uint8."""
        scales = [self.scale(0.002, 0.02) for _ in range(count)]
        if kind == "UINT8":
            data = self.random.integers(0, 256, shape).astype(np.uint8)
            return T(kind, shape, scale=scales, zero=int(self.random.integers(0, 256)), data=data)
        if bits == 8:
            data = self.random.integers(-127, 128, shape).astype(np.int8)
            return T("INT8", shape, scale=scales, axis=axis, data=data)
        return T("INT4", shape, scale=scales, axis=axis, data=packed(self.random.integers(-7, 8, shape)))

    def bias(self, x: T, w: T, count: int) -> T:
        kind = "INT64" if x.kind == "INT16" else "INT32"
        assert isinstance(x.scale, float) and not isinstance(w.scale, float)
        scales = [x.scale * s for s in w.scale]
        data = self.random.integers(-2000, 2000, count).astype(NUMPY[kind])
        return T(kind, (count,), scale=scales, data=data)

    def sum_of(self, kind: str, shape: tuple[int, ...]) -> T:
        """The result of a product."""
        t = self.like(kind, shape)
        t.scale = self.scale(0.001, 0.003) if kind == "INT16" else self.scale(0.05, 0.3)
        return t


def packed(values: Array) -> bytes:
    """int4, the first in the low bits of a byte."""
    flat = values.reshape(-1).astype(np.int8)
    flat = np.append(flat, 0) if flat.size % 2 else flat
    return bytes(((flat[0::2] & 15) | ((flat[1::2] & 15) << 4)).astype(np.uint8))


def ints(*values: int) -> T:
    return T("INT32", (len(values),), data=np.array(values, np.int32))


def same(t: T, shape: tuple[int, ...], kind: str = "") -> T:
    return T(kind or t.kind, shape, scale=t.scale, zero=t.zero)


Made = tuple[str, bytes]


def two_operands(kind: str) -> Iterator[Made]:
    for name, options in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")):
        for shape in ((2, 3, 4), (2, 1, 4)):
            label = f"{name}_{kind}_{shape[1]}"
            d = Draw(label)
            fields: dict[str, Any] = {"fused_activation_function": 1 if shape[1] == 1 else 0}
            fields |= {} if name == "MUL" else {"pot_scale_int16": False}
            tensors = [d.like(kind, (2, 3, 4)), d.like(kind, shape), d.like(kind, (2, 3, 4))]
            yield label, model(tensors, [Op(name, [0, 1], [2], options, fields)], [0, 1], [2])
    if kind == "INT8":
        d = Draw("SQUARED_DIFFERENCE")
        tensors = [d.like(kind, (5, 8)) for _ in range(3)]
        yield "SQUARED_DIFFERENCE", model(tensors, [Op("SQUARED_DIFFERENCE", [0, 1], [2])], [0, 1], [2])
    if kind != "INT16":
        for name in ("LESS", "GREATER_EQUAL", "EQUAL"):
            d = Draw(name + kind)
            tensors = [d.like(kind, (40,)), d.like(kind, (40,)), T("BOOL", (40,))]
            yield f"{name}_{kind}", model(tensors, [Op(name, [0, 1], [2])], [0, 1], [2])


def one_operand(kind: str) -> Iterator[Made]:
    plain: list[tuple[str, str, dict[str, Any]]] = [
        ("LEAKY_RELU", "LeakyReluOptions", {"alpha": 0.3}),
        ("RELU", "", {}),
        ("RELU6", "", {}),
        ("LOGISTIC", "", {}),
        ("TANH", "", {}),
        ("SOFTMAX", "SoftmaxOptions", {"beta": 1.0}),
    ]
    plain += [("HARD_SWISH", "", {}), ("L2_NORMALIZATION", "", {})] if kind != "INT16" else []
    plain += [(n, "", {}) for n in ("EXP", "RSQRT", "ABS", "LOG_SOFTMAX")] if kind == "INT8" else []
    for name, options, fields in plain:
        label = f"{name}_{kind}"
        d = Draw(label)
        tensors = [d.like(kind, (4, 40)), d.like(kind, (4, 40))]
        if name == "RSQRT":
            tensors[0].zero = -128
        if (name, kind) in UNIT:
            tensors[1].scale, tensors[1].zero = UNIT[name, kind]
        yield label, model(tensors, [Op(name, [0], [1], options, fields)], [0], [1])


def reshaped(kind: str) -> Iterator[Made]:
    for to in INTEGERS:
        if (kind, to) != ("INT16", "UINT8"):
            d = Draw(f"QUANTIZE_{kind}_{to}")
            tensors = [d.like(kind, (50,)), d.like(to, (50,))]
            yield f"QUANTIZE_{kind}_{to}", model(tensors, [Op("QUANTIZE", [0], [1])], [0], [1])
    d = Draw(f"edges {kind}")
    tensors = [T("FLOAT32", (200,)), d.like(kind, (200,))]
    yield f"QUANTIZE_{kind}", model(tensors, [Op("QUANTIZE", [0], [1])], [0], [1])
    yield f"DEQUANTIZE_{kind}", model(tensors[::-1], [Op("DEQUANTIZE", [0], [1])], [0], [1])
    x = d.like(kind, (2, 3))
    padded = [x, T("INT32", (2, 2), data=np.array([[1, 0], [2, 1]], np.int32)), same(x, (3, 6))]
    yield f"PAD_{kind}", model(padded, [Op("PAD", [0, 1], [2])], [0], [2])
    places = [x, ints(1, -2), ints(2, 3), ints(1, 1), same(x, (3,))]
    fields = {"begin_mask": 3, "shrink_axis_mask": 1}  # the first row: it has an open beginning
    cut = Op("STRIDED_SLICE", [0, 1, 2, 3], [4], "StridedSliceOptions", fields)
    yield f"STRIDED_SLICE_{kind}", model(places, [cut], [0], [4])
    parts = [d.like(kind, (2, 3)), d.like(kind, (2, 4)), d.like(kind, (2, 7))]
    if kind != "UINT8":
        parts[1:] = [same(parts[0], (2, 4)), same(parts[0], (2, 7))]
    joined = Op("CONCATENATION", [0, 1], [2], "ConcatenationOptions", {"axis": 1})
    yield f"CONCATENATION_{kind}", model(parts, [joined], [0, 1], [2])
    for name in ("MEAN", "REDUCE_MAX"):
        x = d.like(kind, (2, 6, 5, 3))
        to = d.like(kind, (2, 3)) if name == "MEAN" else same(x, (2, 3))
        yield (
            f"{name}_{kind}",
            model([x, ints(1, 2), to], [Op(name, [0, 1], [2], "ReducerOptions")], [0], [2]),
        )


def factors(kind: str) -> Iterator[Made]:
    """Products of six numbers along axes that are apart, and of five. litert has none of uint8."""
    for axes, keep_dims, result in (
        (((1, 3), True, (2, 1, 5, 1)), ((2,), False, (2, 3, 2))) if kind != "UINT8" else ()
    ):
        label = f"REDUCE_PROD_{kind}_{len(axes)}"
        d = Draw(label)
        count = 6 if len(axes) == 2 else 5
        x = T(kind, (2, 3, 5, 2), scale=d.scale(0.009, 0.02) / (256 if kind == "INT16" else 1), zero=0)
        to = T(kind, result, scale=d.scale(0.5, 1) ** count / 127, zero=0 if kind == "INT16" else -9)
        op = Op("REDUCE_PROD", [0, 1], [2], "ReducerOptions", {"keep_dims": keep_dims})
        yield label, model([x, ints(*axes), to], [op], [0], [2])


def images(kind: str) -> Iterator[Made]:
    d = Draw(f"images {kind}")
    x = d.like(kind, (1, 7, 6, 3))
    window = {"stride_w": 2, "stride_h": 2, "filter_width": 3, "filter_height": 3}
    for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        op = Op(name, [0], [1], "Pool2DOptions", {**window, "padding": 0, "fused_activation_function": 1})
        yield f"{name}_{kind}", model([x, same(x, (1, 4, 3, 3))], [op], [0], [1])
    for corners, half in ((False, False), (True, False), (False, True)):
        how = {"align_corners": corners, "half_pixel_centers": half}
        tensors = [x, ints(9, 4), same(x, (1, 9, 4, 3))]
        op = Op("RESIZE_NEAREST_NEIGHBOR", [0, 1], [2], "ResizeNearestNeighborOptions", how)
        yield f"{op.kind}_{kind}_{corners:d}{half:d}", model(tensors, [op], [0], [2])
        op = Op("RESIZE_BILINEAR", [0, 1], [2], "ResizeBilinearOptions", how)
        yield f"{op.kind}_{kind}_{corners:d}{half:d}", model(tensors, [op], [0], [2])


def products(kind: str) -> Iterator[Made]:
    for bits, count in ((8, 0), (8, 1), (4, 1)) if kind != "UINT8" else ((8, 0),):
        label = f"{kind}_{bits}_{count}"
        d = Draw(label)
        x = d.like(kind, (1, 7, 6, 4))
        w = d.weights(kind, (6, 3, 2, 4), 0, 6 if count else 1, bits)
        to = d.sum_of(kind, (1, 4, 3, 6))
        how = {"padding": 0, "stride_w": 2, "stride_h": 2, "fused_activation_function": 1}
        op = Op("CONV_2D", [0, 1, 2], [3], "Conv2DOptions", how)
        yield f"CONV_2D_{label}", model([x, w, d.bias(x, w, 6), to], [op], [0], [3])
        if kind != "INT16":
            w = d.weights(kind, (1, 3, 3, 8), 3, 8 if count else 1, bits)
            how = {"padding": 0, "stride_w": 1, "stride_h": 1, "depth_multiplier": 2}
            op = Op("DEPTHWISE_CONV_2D", [0, 1, 2], [3], "DepthwiseConv2DOptions", how)
            to = d.sum_of(kind, (1, 7, 6, 8))
            yield f"DEPTHWISE_CONV_2D_{label}", model([x, w, d.bias(x, w, 8), to], [op], [0], [3])
        x, w = d.like(kind, (3, 50)), d.weights(kind, (20, 50), 0, 20 if count else 1, bits)
        op = Op("FULLY_CONNECTED", [0, 1, 2], [3], "FullyConnectedOptions", {})
        to = d.sum_of(kind, (3, 20))
        yield f"FULLY_CONNECTED_{label}", model([x, w, d.bias(x, w, 20), to], [op], [0], [3])
        if kind == "INT8":
            yield from hybrid(d, w, label)
        if bits == 8:
            x, w = d.like(kind, (1, 4, 5, 4)), d.weights(kind, (3, 3, 3, 4), 0, 3 if count else 1)
            to = d.sum_of(kind, (1, 8, 10, 3))
            how = {"padding": 0, "stride_w": 2, "stride_h": 2}
            op = Op("TRANSPOSE_CONV", [0, 1, 2, 3], [4], "TransposeConvOptions", how)
            tensors = [ints(1, 8, 10, 3), w, x, d.bias(x, w, 3), to]
            yield f"TRANSPOSE_CONV_{label}", model(tensors, [op], [2], [4])


def hybrid(d: Draw, w: T, label: str) -> Iterator[Made]:
    """Numbers by the integers of a layer."""
    bias = T("FLOAT32", (20,), data=d.random.standard_normal(20).astype(np.float32))
    for asymmetric in (False, True):
        how = {"asymmetric_quantize_inputs": asymmetric}
        op = Op("FULLY_CONNECTED", [0, 1, 2], [3], "FullyConnectedOptions", how)
        tensors = [T("FLOAT32", (3, 50)), w, bias, T("FLOAT32", (3, 20))]
        yield f"HYBRID_{label}_{asymmetric:d}", model(tensors, [op], [0], [3])


def recurrent(kind: str) -> Iterator[Made]:
    """Layers with a state, from its first content on: of int8, and with the first kind of numbers."""
    if kind != "INT8":
        return
    for clip in (0.0, 0.3):
        yield f"LSTM_{clip}", lstm(Draw(f"LSTM {clip}"), clip)
    yield "LSTM_INT8", integer_lstm(Draw("LSTM"))
    d = Draw("SVDF")
    weights = [d.random.standard_normal(s).astype(np.float32) for s in ((8, 5), (8, 3), (4,))]
    state = T("FLOAT32", (2, 24), is_variable=True)
    tensors = [T("FLOAT32", (2, 5)), *(T("FLOAT32", w.shape, data=w) for w in weights), state]
    op = Op("SVDF", [0, 1, 2, 3, 4], [5], "SVDFOptions", {"rank": 2, "fused_activation_function": 1})
    yield "SVDF", model([*tensors, T("FLOAT32", (2, 4))], [op], [0], [5])
    feature = d.weights(kind, (8, 5), 0, 1)
    wide = T("INT16", (8, 3), scale=0.001, data=d.random.integers(-9999, 9999, (8, 3)).astype(np.int16))
    bias = T("INT32", (4,), scale=0.001 * 0.002, data=np.array([5000, -9000, 0, 70000], np.int32))
    state = T("INT16", (2, 24), scale=0.002, is_variable=True)
    tensors = [d.like(kind, (2, 5)), feature, wide, bias, state, d.like(kind, (2, 4))]
    tensors[5].scale = 0.05
    yield "SVDF_INT8", model(tensors, [op], [0], [5])


def gates(weights: list[int], recurrent: list[int], biases: list[int], hidden: int, cell: int) -> list[int]:
    """The 24 inputs of an LSTM, most of them absent."""
    return [0, *weights, *recurrent, -1, -1, -1, *biases, -1, -1, hidden, cell, -1, -1, -1, -1]


def lstm(d: Draw, clip: float) -> bytes:
    """Two sequences of four steps, three inputs and five units."""
    shapes = [(5, 3)] * 4 + [(5, 5)] * 4 + [(5,)] * 4
    made = [T("FLOAT32", s, data=d.random.standard_normal(s).astype(np.float32)) for s in shapes]
    states = [T("FLOAT32", (2, 5), is_variable=True) for _ in range(2)]
    tensors = [T("FLOAT32", (2, 4, 3)), *made, *states, T("FLOAT32", (2, 4, 5))]
    every = gates([1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], 13, 14)
    fields = {"fused_activation_function": 4, "cell_clip": clip}
    op = Op("UNIDIRECTIONAL_SEQUENCE_LSTM", every, [15], "UnidirectionalSequenceLSTMOptions", fields)
    return model(tensors, [op], [0], [15])


def integer_lstm(d: Draw, kind: str = "INT8", clip: float = 0.0, dense: int = 0) -> bytes:
    """The same of int8 or int16; the converter's intermediate tensors say the scales of the gates.

    With `dense` a fully connected layer of so many outputs is behind it.
    """
    scale, zero, to_scale, to_zero = (0.02, 3, 0.0078, 2) if kind == "INT8" else (2e-4, 0, 2.0**-15, 0)
    matrices = [d.weights("INT8", s, 0, 1) for s in [(5, 3)] * 4 + [(5, 5)] * 4]
    biases, wide = [], "INT32" if kind == "INT8" else "INT64"
    for w in matrices[:4]:
        assert not isinstance(w.scale, float)
        data = d.random.integers(-3000, 3000, 5).astype(NUMPY[wide])
        biases.append(T(wide, (5,), scale=scale * w.scale[0], data=data))
    hidden = T(kind, (2, 5), scale=to_scale, zero=to_zero, is_variable=True)
    cell = T("INT16", (2, 5), scale=2.0**-11, is_variable=True)
    between = [*(T("INT16", (0,), scale=2.0**-12) for _ in range(4)), same(hidden, (0,))]
    x = T(kind, (2, 4, 3), scale=scale, zero=zero)
    tensors = [x, *matrices, *biases, hidden, cell, same(hidden, (2, 4, 5)), *between]
    every = gates([1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], 13, 14)
    fields = {"fused_activation_function": 4, "cell_clip": clip}
    name = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    op = Op(name, every, [15], "UnidirectionalSequenceLSTMOptions", fields, intermediates=range(16, 21))
    if not dense:
        return model(tensors, [op], [0], [15])
    w, y = d.weights("INT8", (dense, 5), 0, 1), T(kind, (8, dense), scale=to_scale, zero=to_zero)
    assert not isinstance(w.scale, float)
    data = d.random.integers(-3000, 3000, dense).astype(NUMPY[wide])
    bias = T(wide, (dense,), scale=to_scale * w.scale[0], data=data)
    behind = Op("FULLY_CONNECTED", [15, 21, 22], [23], "FullyConnectedOptions")
    return model([*tensors, w, bias, y], [op, behind], [0], [23])


FAMILIES: tuple[Callable[[str], Iterator[Made]], ...] = (
    two_operands,
    one_operand,
    reshaped,
    images,
    products,
    factors,
    recurrent,
)


def cases() -> dict[str, bytes]:
    """Every model by its name."""
    return dict(made for family in FAMILIES for kind in INTEGERS for made in family(kind))


def drawn(name: str, dtype: Any, shape: tuple[int, ...]) -> Array:
    """Elements for an input: of integers all there are."""
    random = np.random.default_rng(zlib.crc32(name.encode()) + 1)
    if np.dtype(dtype).kind == "f":
        return random.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return random.integers(info.min, int(info.max) + 1, shape).astype(dtype)
