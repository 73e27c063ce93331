"""Caffe2's nets: every case is run by onnxruntime and held against numpy, by the operator's documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from google.protobuf import text_format
from typer.testing import CliRunner

import ingot
from ingot.cli import app
from ingot.errors import InputError
from ingot.frontends.caffe2 import import_caffe2
from ingot.frontends.caffe2.call import OPS
from ingot.frontends.caffe2.protos import message
from ingot.frontends.canonical import is_foreign, source_files
from ingot.frontends.model_inputs import parse_model_inputs

RNG = np.random.default_rng(11)
Net = Any


def net(*operators: tuple[str, str, str, dict[str, Any]], outputs: str = "") -> Net:
    """A NetDef of (type, inputs, outputs, arguments)."""
    made = message("Net")
    made.name = "net"
    for kind, inputs, results, arguments in operators:
        op = made.op.add(type=kind, input=inputs.split(), output=results.split())
        for name, value in arguments.items():
            _argument(op.arg.add(name=name), value)
    made.external_output.extend(outputs.split())
    return made


def _argument(a: Any, value: Any) -> None:
    match value:
        case bool() | int():
            a.i = value
        case float():
            a.f = value
        case str():
            a.s = value.encode()
        case bytes():
            a.s = value
        case [*items] if all(isinstance(v, int) for v in items):
            a.ints.extend(items)
        case [*items]:
            a.floats.extend(items)


def fill(name: str, array: np.ndarray) -> tuple[str, str, str, dict[str, Any]]:
    kind = {"f": "GivenTensorFill", "i": "GivenTensorIntFill"}[array.dtype.kind]
    if array.dtype == np.int64:
        kind = "GivenTensorInt64Fill"
    return kind, "", name, {"shape": list(array.shape), "values": array.reshape(-1).tolist()}


def save(folder: Path, init: Net, predict: Net) -> Path:
    (folder / "init_net.pb").write_bytes(init.SerializeToString())
    (folder / "predict_net.pb").write_bytes(predict.SerializeToString())
    return folder


def described(inputs: dict[str, np.ndarray]) -> tuple[str, ...]:
    names = {"float32": "float", "int32": "int32", "int64": "int64", "bool": "bool", "float16": "float16"}
    return tuple(f"{n},{names[str(a.dtype)]},{list(a.shape)}".replace(" ", "") for n, a in inputs.items())


def run(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[Any]:
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray, stride: int = 1, pad: int = 0) -> np.ndarray:
    """NCHW, one group, in float64."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    views = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,ocij->nohw", views, w) + b.reshape(1, -1, 1, 1)


def old_pool(x: np.ndarray, kernel: int, stride: int, pad: int, average: bool) -> np.ndarray:
    """Caffe's pooling: windows from the first that begins in the pad to the last that begins in the image."""
    n = x.shape[2]
    starts = [s - pad for s in range(0, 99, stride) if s <= n + 2 * pad - kernel + stride - 1]
    starts = [s for s in starts if s < n] if pad else starts
    made = np.zeros((*x.shape[:2], len(starts), len(starts)))
    for i, j in np.ndindex(len(starts), len(starts)):
        top, bottom = max(starts[i], 0), starts[i] + kernel
        left, right = max(starts[j], 0), starts[j] + kernel
        window = x[:, :, top:bottom, left:right]
        made[:, :, i, j] = window.sum((2, 3)) / kernel**2 if average else window.max((2, 3))
    return made


X, W, B = f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)
P = np.abs(f(2, 6)) + 0.5
M, N_, V = f(2, 3, 4), f(2, 4), f(3)
UNIT = RNG.uniform(0.05, 0.95, (2, 5)).astype(np.float32)
COLUMN = np.arange(5, dtype=np.float32).reshape(5, 1)
TABLE, IDS, LENGTHS = f(7, 3), np.array([0, 2, 2, 6, 1], np.int64), np.array([2, 0, 3], np.int32)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def segments(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    return np.stack([s.sum(0) for s in np.split(rows, np.cumsum(lengths)[:-1])])


def images(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 2, 3, 1)


Case = tuple[str, dict[str, Any], Sequence[np.ndarray], Callable[..., Any]]
NHWC = {"order": "NHWC"}
CASES: dict[str, Case] = {
    "Conv": ("Conv", {"kernel": 3, "pad": 1, "stride": 2}, (X, W, B), lambda x, w, b: conv2d(x, w, b, 2, 1)),
    "ConvRelu": ("ConvRelu", {"kernels": [3, 3]}, (X, W, B), lambda x, w, b: np.maximum(conv2d(x, w, b), 0)),
    "Conv NHWC": (
        "Conv",
        {"kernel_h": 3, "kernel_w": 3, **NHWC},
        (images(X), images(W), B),
        lambda x, w, b: images(conv2d(X, W, b)),
    ),
    "MaxPool": (
        "MaxPool", {"kernel": 2, "stride": 2}, (X,), lambda x: x.reshape(1, 3, 3, 2, 3, 2).max((3, 5))
    ),
    "AveragePool": (
        "AveragePool",
        {"kernel": 2, "stride": 2, **NHWC},
        (images(X),),
        lambda x: x.reshape(1, 3, 2, 3, 2, 3).mean((2, 4)),
    ),
    "legacy pooling": (
        "MaxPool",
        {"kernel": 3, "stride": 2, "legacy_pad": 3},
        (X,),
        lambda x: old_pool(x, 3, 2, 0, False),
    ),
    "legacy pooling, padded": (
        "AveragePool",
        {"kernel": 2, "stride": 3, "pad": 1, "legacy_pad": 3},
        (X,),
        lambda x: old_pool(x, 2, 3, 1, True),
    ),
    "legacy pooling, cut": (
        "MaxPool",
        {"kernel": 2, "stride": 4, "pad": 1, "legacy_pad": 3},
        (X,),
        lambda x: old_pool(x, 2, 4, 1, False),
    ),
    "legacy SAME": (
        "Conv",
        {"kernel": 3, "stride": 2, "legacy_pad": 2},
        (X, W, B),
        lambda x, w, b: conv2d(np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1))), w, b, 2),
    ),
    "legacy VALID": (
        "Conv",
        {"kernel": 3, "stride": 2, "legacy_pad": 1},
        (X, W, B),
        lambda x, w, b: conv2d(x, w, b, 2),
    ),
    "all of an image": ("AveragePool", {"global_pooling": 1}, (X,), lambda x: x.mean((2, 3), keepdims=True)),
    "FC": ("FC", {}, (M, f(5, 12), f(5)), lambda x, w, b: x.reshape(2, 12) @ w.T + b),
    "FC axis 2": ("FC", {"axis": 2}, (M, f(5, 4), f(5)), lambda x, w, b: x @ w.T + b),
    "FCTransposed": ("FCTransposed", {}, (N_, f(4, 5), f(5)), lambda x, w, b: x @ w + b),
    "MatMul": ("MatMul", {"trans_a": 1}, (f(4, 2), f(4, 3)), lambda a, b: a.T @ b),
    "BatchMatMul": ("BatchMatMul", {"trans_b": 1}, (M, f(2, 5, 4)), lambda a, b: a @ b.transpose(0, 2, 1)),
    "SpatialBN": (
        "SpatialBN",
        {"epsilon": 0.01, "is_test": 1},
        (X, V, V + 1, V - 1, V * V),
        lambda x, s, b, m, v: (
            (x - m.reshape(1, 3, 1, 1)) / np.sqrt(v.reshape(1, 3, 1, 1) + 0.01) * s.reshape(1, 3, 1, 1)
            + b.reshape(1, 3, 1, 1)
        ),
    ),
    "LayerNorm": (
        "LayerNorm",
        {"axis": 1, "epsilon": 0.1},
        (M,),
        lambda x: (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 0.1),
    ),
    "RMSNorm": (
        "RMSNorm",
        {"eps": 0.1},
        (N_, f(4), f(4)),
        lambda x, g, b: x / np.sqrt((x * x).mean(1, keepdims=True) + 0.1) * g + b,
    ),
    "Softmax": ("Softmax", {"axis": 1}, (M,), lambda x: softmax(x.reshape(2, 12), 1).reshape(2, 3, 4)),
    "old broadcasting": ("Add", {"broadcast": 1, "axis": 1}, (M, V), lambda x, v: x + v.reshape(1, 3, 1)),
    "new broadcasting": ("Mul", {"broadcast": 1}, (M, f(4)), lambda x, v: x * v),
    "Pow": ("Pow", {"exponent": 2.5}, (P,), lambda x: x**2.5),
    "Sqr": ("Sqr", {}, (M,), lambda x: x * x),
    "Swish": ("Swish", {}, (M,), lambda x: x / (1 + np.exp(-x))),
    "Logit": (
        "Logit", {"eps": 0.1}, (UNIT,), lambda x: np.log(np.clip(x, 0.1, 0.9) / (1 - np.clip(x, 0.1, 0.9)))
    ),
    "Clip": ("Clip", {"min": -0.5, "max": 0.25}, (M,), lambda x: np.clip(x, -0.5, 0.25)),
    "Mod": ("Mod", {"divisor": 3}, (np.array([-4, 4, 5, -5]),), lambda x: np.fmod(x, 3)),
    "Mod by sign": ("Mod", {"divisor": 3, "sign_follow_divisor": 1}, (np.array([-4, 4]),), lambda x: x % 3),
    "Cast": ("Cast", {"to": 2}, (P,), lambda x: x.astype(np.int32)),
    "PRelu": ("PRelu", {}, (X, V), lambda x, v: np.where(x > 0, x, x * v.reshape(1, 3, 1, 1))),
    "ElementwiseLinear": ("ElementwiseLinear", {}, (N_, f(4), f(4)), lambda x, w, b: x * w + b),
    "Bucketize": (
        "Bucketize",
        {"boundaries": [-0.5, 0.0, 0.5]},
        (M,),
        lambda x: np.digitize(x, [-0.5, 0, 0.5], right=True),
    ),
    "LpNorm": ("LpNorm", {"p": 1}, (M,), lambda x: [np.abs(x).sum()]),
    "ReduceBackMean": ("ReduceBackMean", {"num_reduce_dim": 2}, (M,), lambda x: x.mean((1, 2))),
    "ReduceFrontSum": ("ReduceFrontSum", {}, (M,), lambda x: x.sum(0)),
    "ArgMin": ("ArgMin", {"axis": 1, "keepdims": 0}, (M,), lambda x: x.argmin(1)),
    "TopK": ("TopK", {"k": 2}, (N_,), lambda x: -np.sort(-x)[:, :2]),
    "DotProduct": ("DotProduct", {}, (N_, f(2, 4)), lambda a, b: (a * b).sum(1)),
    "Concat": ("Concat", {"axis": 2}, (M, M), lambda a, b: np.concatenate([a, b], 2)),
    "a new axis": ("Concat", {"axis": 1, "add_axis": 1}, (N_, N_), lambda a, b: np.stack([a, b], 1)),
    "Split": ("Split", {"axis": 2, "split": [1, 3]}, (M,), lambda x: x[:, :, :1]),
    "Slice": ("Slice", {"starts": [0, 1, 0], "ends": [-1, -2, 2]}, (M,), lambda x: x[:, 1:2, :2]),
    "Tile": ("Tile", {"tiles": 3, "axis": 1}, (N_,), lambda x: np.tile(x, (1, 3))),
    "Gather": ("Gather", {}, (TABLE, IDS), lambda t, i: t[i]),
    "BatchGather": ("BatchGather", {}, (N_, IDS[:3]), lambda t, i: t[:, [0, 2, 2]]),
    "ChannelShuffle": (
        "ChannelShuffle",
        {"group": 2},
        (f(1, 4, 2, 2),),
        lambda x: x[:, [0, 2, 1, 3]],
    ),
    "ResizeNearest": (
        "ResizeNearest",
        {"height_scale": 2.0, "width_scale": 1.5},
        (f(1, 2, 2, 2),),
        lambda x: x.repeat(2, 2)[:, :, :, [0, 0, 1]],
    ),
    "Reshape": ("Reshape", {"shape": [0, -1]}, (M,), lambda x: x.reshape(2, 12)),
    "NCHW2NHWC": ("NCHW2NHWC", {}, (X,), images),
    "LengthsSum": ("LengthsSum", {}, (f(5, 3), LENGTHS), segments),
    "rows behind all segments": (
        "LengthsSum",
        {},
        (f(5, 3), np.array([1, 2], np.int32)),
        lambda x, n: np.stack([x[0], x[1] + x[2]]),
    ),
    "SparseLengthsSum": ("SparseLengthsSum", {}, (TABLE, IDS, LENGTHS), lambda t, i, n: segments(t[i], n)),
    "SparseLengthsWeightedSum": (
        "SparseLengthsWeightedSum",
        {},
        (TABLE, f(5), IDS, LENGTHS),
        lambda t, w, i, n: segments(t[i] * w[:, None], n),
    ),
    "EmbeddingBag": (
        "EmbeddingBag",
        {},
        (TABLE, np.ones(5, np.float32), IDS, np.array([0, 2, 2])),
        lambda t, w, i, o: segments(t[i], LENGTHS),
    ),
    "LengthsToRanges": ("LengthsToRanges", {}, (LENGTHS,), lambda n: [[0, 2], [2, 0], [2, 3]]),
    "LengthsRangeFill": (
        "LengthsRangeFill", {"maxOutputSize": 7}, (LENGTHS,), lambda n: [0, 1, 0, 1, 2, 0, 0]
    ),
    "GatherRanges": (
        "GatherRanges",
        {"maxOutputSize": 5},
        (np.arange(10, dtype=np.float32), np.array([[[1, 2], [5, 1]], [[0, 1], [9, 0]]])),
        lambda x, r: [1, 2, 5, 0, 0],
    ),
    "SparseToDense": (
        "SparseToDense",
        {},
        (np.array([1, 3, 1]), f(3, 2), f(5)),
        lambda i, v, m: np.stack([0 * v[0], v[0] + v[2], 0 * v[0], v[1], 0 * v[0]]),
    ),
    "SparseToDenseMask": (
        "SparseToDenseMask",
        {"mask": [4, 1]},
        (np.array([1, 4, 7, 1]), COLUMN[1:], -COLUMN[1], LENGTHS[[0, 0]]),
        lambda i, v, d, n: [[[2], [1]], [[-1], [4]]],
    ),
    "FillExamplesWithIndicator": (
        "FillExamplesWithIndicator",
        {},
        (f(2, 3), np.array([0, 1, 0, 1])),
        lambda x, i: np.stack([0 * x[0], x[0], 0 * x[0], x[1]]),
    ),
    "ReplaceNaN": ("ReplaceNaN", {"value": 2.0}, (np.array([1, np.nan], np.float32),), lambda x: [1, 2]),
    "BatchBoxCox": (
        "BatchBoxCox",
        {},
        (P, np.array([0, 1, 2, 0, 1, 2], np.float32), f(6) * 0.1 + 0.2),
        lambda x, a, b: np.where(
            a == 0, np.log(x + b), ((x + b) ** np.where(a == 0, 1, a) - 1) / np.where(a == 0, 1, a)
        ),
    ),
    "SigmoidCrossEntropyWithLogits": (
        "SigmoidCrossEntropyWithLogits",
        {},
        (N_, UNIT[:, :4]),
        lambda x, t: -(t * np.log(1 / (1 + np.exp(-x))) + (1 - t) * np.log(1 / (1 + np.exp(x)))).mean(1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_operators(case: str, tmp_path: Path) -> None:
    kind, arguments, arrays, right = CASES[case]
    inputs = {f"x{i}": a for i, a in enumerate(arrays)}
    results = "y y2" if kind in ("Concat", "Split", "TopK", "RMSNorm", "GatherRanges", "Reshape") else "y"
    made = net((kind, " ".join(inputs), results, arguments), outputs="y")
    model = import_caffe2(save(tmp_path, net(), made), described(inputs))
    wanted = np.asarray(right(*arrays))
    found = run(model, inputs)[0]
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-4, atol=1e-5)


def quantised(name: str, array: np.ndarray, scale: float, zero: int) -> tuple[str, str, str, dict[str, Any]]:
    given = {"shape": list(array.shape), "values": array.astype(np.uint8).tobytes()}
    return "Int8GivenTensorFill", "", name, {**given, "Y_scale": scale, "Y_zero_point": zero}


SCALE = {"Y_scale": 0.25, "Y_zero_point": 130}


def test_integers(tmp_path: Path) -> None:
    """Int8Quantize, Int8ConvRelu, Int8MaxPool, Int8SumRelu, Int8FC, Int8Dequantize, by Caffe2's own bytes."""
    w, v = RNG.integers(0, 256, (4, 3, 3, 3)), RNG.integers(0, 256, (5, 64))
    bias = RNG.integers(-500, 500, 4)
    init = net(
        quantised("w", w, 0.02, 120),
        quantised("v", v, 0.01, 128),
        ("Int8GivenIntTensorFill", "", "b", {"shape": [4], "values": bias.tolist(), "Y_scale": 0.002}),
        ("Int8GivenIntTensorFill", "", "c", {"shape": [5], "values": [0] * 5, "Y_scale": 0.0025}),
    )
    predict = net(
        ("Int8Quantize", "x", "xq", {"Y_scale": 0.1, "Y_zero_point": 128}),
        ("Int8ConvRelu", "xq w b", "h", {"kernel": 3, **SCALE}),
        ("Int8SumRelu", "h h", "s", {"Y_scale": 0.5, "Y_zero_point": 128}),
        ("Int8MaxPool", "s", "p", {"kernel": 1, **SCALE}),
        ("Int8FC", "p v c", "f", {"Y_scale": 2.0, "Y_zero_point": 100}),
        ("Int8Dequantize", "f", "y", {}),
        outputs="y",
    )
    model = import_caffe2(save(tmp_path, init, predict), ("x,float,[1,3,6,6]",))
    xq = np.clip(np.rint(X / 0.1) + 128, 0, 255)
    sums = conv2d(xq - 128, w - 120, bias * (0.002 / (0.1 * 0.02))) * (0.1 * 0.02)
    h = np.maximum(np.clip(np.rint(sums / 0.25) + 130, 0, 255), 130)
    s = np.maximum(np.clip(np.rint(2 * (h - 130) * 0.25 / 0.5) + 128, 0, 255), 128)
    y = ((s - 128) * 0.5).reshape(1, -1) @ ((v - 128) * 0.01).T
    wanted = (np.clip(np.rint(y / 2) + 100, 0, 255) - 100) * 2
    np.testing.assert_allclose(run(model, {"x": X})[0], wanted, atol=2.0)  # one step of the last scale
    found = ingot.compile(model, target="c99").run({"x": X})["y"]
    np.testing.assert_array_equal(found, run(model, {"x": X})[0])


def test_quantised_inputs(tmp_path: Path) -> None:
    """An input of integers as Glow's users describe it."""
    predict = net(("Int8Relu", "x", "y", SCALE), ("Int8Dequantize", "y", "z", {}), outputs="z")
    model = import_caffe2(save(tmp_path, net(), predict), ("x,int8q,0.5,-3,[1,4]",))
    x = np.array([[-128, -3, 0, 127]], np.int8)
    np.testing.assert_array_equal(
        run(model, {"x": x})[0], np.maximum((x.astype(float) + 3) * 0.5, 0).clip(max=31.25)
    )


@pytest.mark.parametrize("bits", [4, 8])
def test_fused_tables(bits: int, tmp_path: Path) -> None:
    codes = RNG.integers(0, 1 << bits, (7, 4))
    pairs = np.array([[0.5, -1.0]] * 7, np.float16 if bits == 4 else np.float32)
    rows = codes.astype(np.uint8) if bits == 8 else (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
    table = np.concatenate([rows, pairs.view(np.uint8)], 1)
    predict = net((f"SparseLengthsSumFused{bits}BitRowwise", "t i n", "y", {}), outputs="y")
    inputs = {"i": IDS, "n": LENGTHS}
    model = import_caffe2(save(tmp_path, net(quantised("t", table, 1.0, 128)), predict), described(inputs))
    np.testing.assert_allclose(run(model, inputs)[0], segments((codes * 0.5 - 1.0)[IDS], LENGTHS), rtol=1e-6)


def lenet(folder: Path) -> Path:
    init = net(fill("w", W), fill("b", B), fill("fw", f(10, 16)), fill("fb", f(10)))
    predict = net(
        ("Conv", "data w b", "c", {"kernel": 3}),
        ("MaxPool", "c", "p", {"kernel": 2, "stride": 2}),
        ("Relu", "p", "p", {}),  # in place: the name means another value now
        ("FC", "p fw fb", "f", {}),
        ("Softmax", "f", "prob", {}),
        outputs="prob",
    )
    return save(folder, init, predict)


def test_the_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, a file whose other net lies beside it, and text, by the command line."""
    monkeypatch.chdir(tmp_path)
    Path("net").mkdir()
    folder = lenet(Path("net"))
    assert is_foreign(folder) and [p.name for p in source_files(folder)] == ["init_net.pb", "predict_net.pb"]
    np.save("x.npy", X)
    more = ["--model-input", "data,float,[1,3,6,6]"]
    for path in (folder, folder / "predict_net.pb"):
        said = CliRunner().invoke(app, ["run", str(path), *more, "--input", "data=x.npy", "--json"])
        assert said.exit_code == 0, said.output
    made = message("Net")
    made.ParseFromString((folder / "predict_net.pb").read_bytes())
    Path("lenet_predict_net.pbtxt").write_text(text_format.MessageToString(made))
    Path("lenet_init_net.pb").write_bytes((folder / "init_net.pb").read_bytes())
    said = CliRunner().invoke(app, ["verify", "lenet_predict_net.pbtxt", *more])
    assert said.exit_code == 0, said.output
    said = CliRunner().invoke(app, ["compile", str(folder)])
    assert said.exit_code == 2 and "--model-input data,float,[...]" in said.stderr


ADD: tuple[str, str, str, dict[str, Any]] = ("Add", "x y", "z", {})
BAD: dict[str, tuple[Net, str]] = {
    "an unknown operator": (net(("Oddity", "x", "y", {})), "Oddity of Caffe2's is not supported"),
    "no type": (net(("", "x", "y", {})), "operator 'y' of the net has no type"),
    "no input": (net(("FC", "x", "y", {})), "input 1 is missing"),
    "an axis beyond": (net(("Softmax", "x", "y", {"axis": 7})), "axis 7 of a tensor of 2 axes"),
    "an unknown type": (net(("Cast", "x", "y", {"to": 99})), "the type 99"),
    "not quantised": (net(("Int8Dequantize", "x", "y", {})), "is not quantised"),
    "no kernel": (net(("MaxPool", "x", "y", {})), "four axes"),
    "an output of nobody's": (net(("Relu", "x", "y", {}), outputs="z"), "inputs z"),
    "a gigabyte of one number": (net(("ConstantFill", "", "y", {"shape": [1 << 28]}), ADD), "too large"),
    "a huge shape": (net(("ConstantFill", "", "y", {"shape": [1 << 40, 1 << 40]}), ADD), "too large"),
    "values for another shape": (
        net(("GivenTensorFill", "", "y", {"shape": [3], "values": [1.0]}), ADD),
        "1 values for the shape",
    ),
    "a division by nothing": (net(("Mod", "x", "y", {"divisor": 0})), "less than 1"),
    "an order of another world": (
        net(("Concat", "x x", "y", {"order": "ABCD"})),
        "order 'ABCD' is neither NCHW nor NHWC",
    ),
    "a step of nothing": (
        net(("Int8Quantize", "x", "y", {"Y_scale": 0.0, "Y_zero_point": 0})),
        "no quantisation",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_nets(case: str, tmp_path: Path) -> None:
    made, words = BAD[case]
    with pytest.raises(InputError, match=words):
        import_caffe2(save(tmp_path, net(), made), ("x,float,2x3",))


@pytest.mark.parametrize(
    "word", ["x", "x,float", "x,real,[1]", ",float,[1]", "x,int8q,[1]", "x,float,[a]", "x,float,[0]"]
)
def test_descriptions_of_inputs(word: str) -> None:
    with pytest.raises(InputError, match="--model-input"):
        parse_model_inputs([word])
    with pytest.raises(InputError, match="given twice"):
        parse_model_inputs(["x,float,[1]", "x,float,[1]"])


def test_damaged_nets(tmp_path: Path) -> None:
    folder = lenet(tmp_path)
    good = {name: (folder / name).read_bytes() for name in ("init_net.pb", "predict_net.pb")}
    refused = 0
    for k in range(100):
        name = sorted(good)[k % 2]
        data = bytearray(good[name])
        if k % 3:
            data[int(RNG.integers(min(len(data), 400)))] ^= 1 << int(RNG.integers(8))
        else:
            del data[int(RNG.integers(len(data))) :]
        for other, right in good.items():
            (folder / other).write_bytes(bytes(data) if other == name else right)
        try:
            ingot.frontends.canonical.imported(folder, model_inputs=("data,float,[1,3,6,6]",))
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 2000
            refused += 1
    assert refused > 20


def test_an_operator_that_no_row_makes_is_not_in_the_table() -> None:
    """What is tested here is in the table, and what the documentation counts."""
    assert {case[0] for case in CASES.values()} <= OPS.keys() and len(OPS) > 120
