"""Models of the corpus that are dense, recurrent, attentive or branching, and those of other types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

from tests.corpus.cases import Case
from tests.corpus.net import Net

BF16 = ml_dtypes.bfloat16


def dense(net: Net) -> str:
    """Vectors against matrices of odd sizes, with every attribute of Gemm."""
    x = net("Gemm", net.input("x", 1, 33), net.weight(17, 33), net.weight(17), transB=1, alpha=0.5, beta=2.0)
    x = net("Gemm", net("Relu", x), net.weight(17, 129, fan=17))
    x = net("Gemm", net.weight(129, 7, fan=129), net("Selu", x), net.weight(7, 1), transA=1, transB=1)
    return str(net("Transpose", x))


def mlp(net: Net) -> str:
    """A batch whose size is given when the model is compiled; batch normalisation of rows."""
    x = net.feed("x", net.random(5, 13), ("N", 13))
    x = net("Relu", net.norm(net.dense(x, 13, 33), 33))
    x = net("Dropout", net("Sigmoid", net.norm(net.dense(x, 33, 17), 17)))
    return str(net("Softmax", net.dense(x, 17, 3), axis=-1))


def lstm(net: Net) -> tuple[str, ...]:
    """Two layers, the first in both directions with lengths and peepholes; every output is seen."""
    x = net.input("x", 6, 3, 5)
    lengths = net.feed("lengths", np.array([6, 2, 4], np.int32))
    weights = net.weight(2, 28, 5, fan=5), net.weight(2, 28, 7, fan=7), net.weight(2, 56)
    starts = net.const(net.random(2, 3, 7)), net.const(net.random(2, 3, 7)), net.weight(2, 21)
    y, h, c = net("LSTM", x, *weights, lengths, *starts, outputs=3, hidden_size=7, direction="bidirectional")
    y = net("Reshape", net("Transpose", y, perm=[0, 2, 1, 3]), net.const([6, 3, 14]))
    second = net.weight(1, 52, 14, fan=14), net.weight(1, 52, 13, fan=13)
    last = net("LSTM", y, *second, outputs=["", "last"], hidden_size=13, direction="reverse")[1]
    return last, y, h, c


def gru(net: Net) -> tuple[str, ...]:
    x = net.input("x", 7, 2, 13)
    weights = net.weight(2, 27, 13, fan=13), net.weight(2, 27, 9, fan=9), net.weight(2, 54)
    y, h = net("GRU", x, *weights, outputs=2, hidden_size=9, direction="bidirectional", linear_before_reset=1)
    y = net("Reshape", net("Transpose", y, perm=[0, 2, 1, 3]), net.const([7, 2, 18]))
    second = net.weight(1, 51, 18, fan=18), net.weight(1, 51, 17, fan=17)
    z = net("GRU", y, *second, outputs=2, hidden_size=17)[0]
    return h, str(net("RNN", net("Squeeze", z, net.const([1])), net.weight(1, 5, 17), net.weight(1, 5, 5),
                      outputs=2, hidden_size=5)[0])  # fmt: skip


def attention(net: Net) -> str:
    """A transformer's encoder block: 11 words of 24 features, 3 heads, words masked out."""

    def heads(x: str, perm: list[int]) -> str:
        return str(net("Transpose", net("Reshape", net.dense(x, 24, 24), net.const([0, 0, 3, 8])), perm=perm))

    x = net.input("x", 2, 11, 24)
    keep = net.feed("keep", np.arange(11)[None, None, None] < np.array([11, 6])[:, None, None, None])
    first = net("LayerNormalization", x, net.weight(24), net.weight(24), epsilon=1e-5)
    q, k, v = (heads(first, p) for p in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    scores = net("Div", net("MatMul", q, k), net.const(8**0.5, np.float32))
    scores = net("Softmax", net("Where", keep, scores, net.const(-1e9, np.float32)), axis=-1)
    y = net("Reshape", net("Transpose", net("MatMul", scores, v), perm=[0, 2, 1, 3]), net.const([0, 0, 24]))
    x = net("Add", x, net.dense(y, 24, 24))
    y = net("LayerNormalization", x, net.weight(24), net.weight(24))
    y = net("Gelu", net.dense(y, 24, 50), approximate="tanh")
    return str(net("Add", x, net("Gelu", net.dense(y, 50, 24))))


def text(net: Net) -> tuple[str, str]:
    """Words looked up, positions added, the mean of those that are not padding."""
    ids = net.feed("ids", np.array([[3, 1, 4, 1, 5, 0, 0], [9, 2, 6, 5, 3, 5, 0]], np.int64))
    x = net("Add", net("Gather", net.weight(11, 13), ids), net.weight(7, 13))
    mask = net("Unsqueeze", net("Cast", net("Greater", ids, net.const(0)), to=1), net.const([2]))
    total = net("ReduceSum", net("Mul", x, mask), net.const([1]), keepdims=0)
    x = net("Div", total, net("ReduceSum", mask, net.const([1]), keepdims=0))
    scores = net.dense(net("Tanh", x), 13, 7)
    return scores, str(net("ArgMax", scores, axis=1, keepdims=0))


def branch(net: Net) -> str:
    """An If that is decided by the input, whose branches see the values around them."""
    x = net.input("x", 3, 7)
    big = net("Greater", net("ReduceSum", x, keepdims=0), net.const(0, np.float32))
    then, other = Net("then", net.opset), Net("other", net.opset)
    left = then.graph(then("Tanh", then.dense(x, 7, 13)))
    right = other.graph(other("Relu", other.dense(x, 7, 13)))
    both = [net("If", c, then_branch=left, else_branch=right) for c in (big, net("Not", big))]
    return str(net("Softmax", net("Sub", *both), axis=0))


def loop(net: Net) -> tuple[str, ...]:
    """A Loop that stops when its state has grown enough, and one that keeps what each of its turns made."""
    x, matrix = net.input("x", 1, 13), net.weight(13, 13)

    def body(name: str, until: float | None) -> onnx.GraphProto:
        inner = Net(name, net.opset)
        inner.feed(f"{name}_turn", np.array(0, np.int64))
        active = inner.feed(f"{name}_going", np.array(True))
        state = inner("Tanh", inner("MatMul", inner.feed(f"{name}_state", net.feeds["x"]), matrix))
        if until is None:
            return inner.graph(inner("Identity", active), state, inner("Mul", state, state))
        most = inner("ReduceMax", inner("Abs", state), keepdims=0)
        return inner.graph(inner("Less", most, inner.const(until, np.float32)), state)

    some = net("Loop", net.const(9, np.int64), net.const(True), x, body=body("some", 0.99))
    return some, *net(
        "Loop", net.const(5, np.int64), "", some, body=body("all", None), outputs=["last", "kept"]
    )


def mixer(net: Net) -> tuple[str, ...]:
    """Movement without arithmetic: slices backwards, tiles, splits, shapes that are computed."""
    x = net.input("x", 2, 7, 5)
    back = net("Slice", x, *(net.const(v) for v in ([5, -1], [-8, 0], [1, 2], [-2, -3])))
    parts = net("Split", net("Transpose", x, perm=[2, 0, 1]), net.const([1, 3, 1]), axis=0, outputs=3)
    wide = net("Expand", net("Unsqueeze", parts[0], net.const([0])), net.const([3, 1, 1, 1]))
    rows = net("Slice", net("Shape", x), net.const([1]), net.const([2]))
    flat = net("Reshape", parts[1], net("Concat", net.const([-1]), rows, axis=0))
    tiled = net("Tile", net("Concat", flat, flat, axis=0), net.const([1, 2]))
    picked = net("GatherElements", tiled, net.const(net.rng.integers(-12, 12, (3, 14))), axis=0)
    return back, wide, tiled, picked, str(net("Trilu", picked)), str(net("Size", wide))


def integers(net: Net) -> tuple[str, ...]:
    """Integer arithmetic of several widths, to its extremes."""
    wide = net.rng.integers(-(2**63), 2**63 - 1, (3, 1, 7))
    a = net.feed("a", wide)
    b = net.feed("b", np.array([[1], [-3], [7], [2**40], [-1]]))
    c = net.feed("c", net.rng.integers(0, 255, (5, 7), np.uint8))
    total = net("Add", net("Mul", a, b), net("Sub", a, b))
    odd = net("Mod", total, net.const(13, np.int64))
    shifted = net("BitShift", c, net.const(3, np.uint8), direction="LEFT")
    small = net("Cast", net("Max", shifted, net.const(100, np.uint8)), to=TensorProto.INT32)
    where = net("Where", net("Less", odd, net.const(6)), net("Div", odd, net.const(2)), net("Neg", odd))
    return (
        total,
        odd,
        where,
        small,
        str(net("ReduceMax", small, keepdims=0)),
        str(net("ArgMin", odd, axis=-1)),
    )


def double(net: Net) -> str:
    """Dense layers in float64."""
    f64 = np.float64
    x = net("MatMul", net.input("x", 3, 7, 33, dtype=f64), net.weight(33, 17, dtype=f64))
    x = net("Div", x, net("ReduceL2", net("Exp", x), axes=[2]))
    return str(net("Softmax", net("MatMul", x, net.weight(17, 5, dtype=f64)), axis=1))


def half(net: Net) -> str:
    """float16 from end to end."""
    f16 = np.float16
    x = net("Conv", net.input("x", 1, 3, 9, 9, dtype=f16), net.weight(13, 3, 3, 3, dtype=f16), pads=[1] * 4)
    x = net("Add", net("MaxPool", net("Relu", x), kernel_shape=[2, 2], strides=[2, 2]), net.const(0.25, f16))
    return str(net("MatMul", net("Flatten", x), net.weight(208, 7, dtype=f16, fan=208)))


def brain(net: Net) -> str:
    """bfloat16 from end to end."""
    x = net("Conv", net.input("x", 1, 3, 9, 9, dtype=BF16), net.weight(13, 3, 3, 3, dtype=BF16), pads=[1] * 4)
    x = net("Flatten", net("Relu", x))
    return str(net("MatMul", x, net.weight(1053, 7, dtype=BF16, fan=1053)))


def brain_twin(net: Net) -> str:
    """The same numbers in float32, rounded to bfloat16 where the model above stores."""

    def stored(x: str) -> str:
        return str(net("Cast", net("Cast", x, to=TensorProto.BFLOAT16), to=TensorProto.FLOAT))

    def weight(*shape: int, fan: int | None = None) -> str:
        terms = fan or int(np.prod(shape[1:]))
        return net.const(net.random(*shape, dtype=BF16, scale=(2 / terms) ** 0.5).astype(np.float32))

    x = net.feed("x", net.random(1, 3, 9, 9, dtype=BF16).astype(np.float32))
    x = stored(net("Conv", x, weight(13, 3, 3, 3), pads=[1] * 4))
    return str(net("MatMul", net("Flatten", net("Relu", x)), weight(1053, 7, fan=1053)))


CASES = [
    Case("dense", dense),
    Case("mlp", mlp, define={"N": 5}),
    Case("lstm", lstm),
    Case("gru", gru),
    Case("attention", attention, opset=20),
    Case("text", text),
    Case("branch", branch),
    Case("loop", loop),
    Case("mixer", mixer),
    Case("integers", integers),
    Case("double", double, tolerance=1e-9),
    Case("half", half, tolerance=5e-3),
    Case("brain", brain, tolerance=2e-2, twin=brain_twin),
]
