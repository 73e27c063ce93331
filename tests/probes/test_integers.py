"""Integer networks: a quantised convolution through dot4, and weights as 4-bit codes into a table."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from ingot.formula.compute import Formula
from ingot.formula.expr import (
    Array,
    Cast,
    Const,
    Expr,
    Load,
    Tensor,
    Unary,
    Var,
    cast,
    constant,
    maximum,
    minimum,
    with_lanes,
)
from ingot.formula.statements import For, Instruction, Let, Statement, Store
from ingot.formula.types import FLOAT32, INDEX, INT32, UINT8
from ingot.loops.program import Call, Kernel, Program
from tests.oracles import exact_session
from tests.probes.levels import agree, agree_from_loops, builder, floats

C, OC, SIZE = 8, 8, 6
ZERO_X, ZERO_Y, SCALE_X, SCALE_W, SCALE_Y = 119, 128, 0.02, 0.01, 0.05


def data() -> tuple[Array, Array, Array]:
    """x (NCHW), w (OIHW), bias."""
    rng = np.random.default_rng(5)
    return (
        rng.integers(0, 256, (1, C, SIZE, SIZE), np.uint8),
        rng.integers(-128, 128, (OC, C, 3, 3), np.int8),
        rng.integers(-1000, 1000, OC, np.int32),
    )


def qlinear_conv(x: Array, w: Array, bias: Array) -> Array:
    """onnxruntime's answer."""
    scalars = {
        "sx": np.float32(SCALE_X),
        "zx": np.uint8(ZERO_X),
        "sw": np.float32(SCALE_W),
        "zw": np.int8(0),
        "sy": np.float32(SCALE_Y),
        "zy": np.uint8(ZERO_Y),
    }
    constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in {**scalars, "w": w, "b": bias}.items()]
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"]
    node = helper.make_node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1])
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, OC, SIZE, SIZE])]
    graph = helper.make_graph([node], "g", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = exact_session(model)
    found: Array = session.run(None, {"x": x})[0]
    return found


def requantised(total: Expr) -> Expr:
    """int32 to uint8: scaled, rounded half to even, shifted by the zero point, clipped."""
    factor = Const(float(np.float32(SCALE_X) * np.float32(SCALE_W) / np.float32(SCALE_Y)), FLOAT32)
    moved = Unary("round", cast(total, FLOAT32) * factor) + float(ZERO_Y)
    return Cast(Cast(minimum(maximum(moved, 0), 255), INT32), UINT8)


def test_a_quantised_convolution_as_it_is_defined() -> None:
    """Every product takes its zero point off; outside the image stands the zero point."""
    image, weights, bias = data()
    x, w, b = Tensor("x", UINT8, image.shape), constant(weights, "w"), constant(bias, "b")
    f = builder()
    n, oc, oh, ow = f.axes((1, OC, SIZE, SIZE), "n oc oh ow")
    ic, kh, kw = f.axes((C, 3, 3), "ic kh kw")
    read = x.at((n, ic, oh + kh - 1, ow + kw - 1), outside=ZERO_X)
    term = (cast(read, INT32) - ZERO_X) * cast(w[oc, ic, kh, kw], INT32)
    y = f.reduce("sum", (n, oc, oh, ow), (ic, kh, kw), term, post=lambda acc: requantised(acc + b[oc]))
    agree(Formula((x,), tuple(f.stages), (y,)), [image], [qlinear_conv(image, weights, bias)], tolerance=0)


def test_a_quantised_convolution_through_dot4() -> None:
    """What a generator will make of it: zero point folded into bias and halo, channels in groups of four."""
    image, weights, bias = data()
    wanted = qlinear_conv(image, weights, bias).transpose(0, 2, 3, 1)
    packed = (
        weights.transpose(2, 3, 1, 0)
        .reshape(3, 3, C // 4, 4, OC)
        .swapaxes(3, 4)
        .reshape(3, 3, C // 4, OC * 4)
    )
    folded = (bias - ZERO_X * weights.astype(np.int32).sum((1, 2, 3))).astype(np.int32)
    x, y = Tensor("x", UINT8, (1, SIZE, SIZE, C)), Tensor("y", UINT8, (1, SIZE, SIZE, OC))
    padded = Tensor("padded", UINT8, (SIZE + 2, SIZE + 2, C))
    w, b = constant(np.ascontiguousarray(packed), "w"), constant(folded, "b")
    pad = Kernel("pad", (x, padded), fill(x, padded), ("pad",))
    conv = Kernel("conv", (padded, w, b, y), contraction(padded, w, b, y), ("conv",))
    steps = (Call(pad, (x, padded)), Call(conv, (padded, w, b, y)))
    program = Program("probe", (x,), (y,), (w, b), steps)
    nhwc = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    for target in ("c99", "x86-64-v3"):
        agree_from_loops(program, {"x": nhwc}, [wanted], 0, target)


def loops(body: tuple[Statement, ...], **extents: int) -> tuple[Statement, ...]:
    """The body inside loops, the first one outermost."""
    for name, n in reversed(extents.items()):
        body = (For(name, Const(0), Const(n), 1, body),)
    return body


def fill(x: Tensor, padded: Tensor) -> tuple[Statement, ...]:
    """The halo holds the zero point, which the folded bias takes off again."""
    h, w, c = Var("h"), Var("w"), Var("c")
    everywhere = loops((Store(padded[h, w, c], Const(ZERO_X, UINT8)),), h=SIZE + 2, w=SIZE + 2, c=C)
    inside = loops((Store(padded[h + 1, w + 1, c], x[0, h, w, c]),), h=SIZE, w=SIZE, c=C)
    return (*everywhere, *inside)


def contraction(padded: Tensor, w: Tensor, b: Tensor, y: Tensor) -> tuple[Statement, ...]:
    """acc[0..7] += four channels of one pixel . four weights of each of eight outputs."""
    oh, ow, kh, kw, g = (Var(n) for n in ("oh", "ow", "kh", "kw", "g"))

    def lanes(load: Load, n: int) -> Load:
        return with_lanes(load, n)

    pixel, group = lanes(padded[oh + kh, ow + kw, g * 4], 4), lanes(w[kh, kw, g, 0], 4 * OC)
    taps = loops((Instruction("dot4", "acc", pixel, group, OC),), kh=3, kw=3, g=C // 4)
    end = Store(y[0, oh, ow, 0], requantised(Var("acc", None, INT32)), OC)
    return loops((Let("acc", lanes(b[0], OC), OC, True), *taps, end), oh=SIZE, ow=SIZE)


def test_weights_as_packed_4_bit_codes_into_a_table() -> None:
    """y = x @ table[codes]: two codes a byte, read by shift and mask; no index needs a run-time check."""
    rng = np.random.default_rng(6)
    codes = rng.integers(0, 16, (10, 12), np.uint8)
    book, image = floats(16, seed=7), floats(3, 10, seed=8)
    flat = codes.reshape(-1, 2)
    bytes_ = constant((flat[:, 0] | flat[:, 1] << 4).astype(np.uint8), "codes")
    table, x = constant(book, "table"), Tensor("x", FLOAT32, (3, 10))
    f = builder()
    m, n = f.axes((3, 12), "m n")
    k = Var("k", 10)
    at = k * 12 + n
    code = (bytes_[at // 2] >> Cast(at % 2 * 4, UINT8)) & 15
    y = f.reduce("sum", (m, n), (k,), x[m, k] * table[Cast(code, INDEX)])
    agree(Formula((x,), tuple(f.stages), (y,)), [image], [image @ book[codes]])
