"""How each operator becomes a candidate node: which values it takes, which attributes it is given.

A recipe gets the `Garden` and returns a `Candidate`; it may ask for what onnxruntime then refuses. Left out
on purpose is what onnxruntime itself gets wrong or leaves undefined: NaN in pools and searches, integers
divided by zero (it dies), floats cast to integers that cannot hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from tests.corpus.net import onnx_type
from tests.fuzz.grow import MOST, Candidate, Garden, Known, Refused, largest
from tests.fuzz.registry import from_row

Recipe = Callable[[Garden], Candidate]


SATURATES = 1e-7  # the error of onnxruntime's sigmoid and tanh near their limits


def need(condition: bool) -> None:
    if not condition:
        raise Refused


# ---- element by element

SMOOTH = (
    *(
        "Exp",
        "Log",
        "Sqrt",
        "Reciprocal",
        "Sin",
        "Cos",
        "Tan",
        "Asin",
        "Acos",
        "Atan",
        "Sinh",
        "Cosh",
        "Tanh",
    ),
    *("Asinh", "Acosh", "Atanh", "Erf", "Sigmoid", "Softplus", "Softsign", "HardSwish", "Mish"),
)
ALPHA = ("Elu", "Selu", "Celu", "LeakyRelu", "HardSigmoid")


def smooth(g: Garden) -> Candidate:
    op = g.choice(SMOOTH)
    error = SATURATES if op in ("Sigmoid", "Tanh", "Erf") else 0.0
    return Candidate(op, [g.pick(wild=op not in ("Softplus", "Mish", "HardSwish"))], error=error)


def alpha(g: Garden) -> Candidate:
    attributes = {"alpha": float(g.choice((0.1, 0.5, 1.5)))} if g.chance(0.6) else {}
    return Candidate(g.choice(ALPHA), [g.pick()], attributes)


def gelu(g: Garden) -> Candidate:
    return Candidate("Gelu", [g.pick()], {"approximate": g.choice(("none", "tanh"))}, error=SATURATES)


def plain(g: Garden) -> Candidate:
    """Rounds nothing: exact stays exact."""
    op = g.choice(("Relu", "Abs", "Neg", "Identity"))
    return Candidate(op, [g.pick("fiu", wild=op != "Relu")], is_exact=True)


def jump(g: Garden) -> Candidate:
    op = g.choice(("Floor", "Ceil", "Round", "Sign", "IsNaN", "IsInf", "Shrink", "ThresholdedRelu"))
    x = g.pick("f", exact=True, wild=op[:2] in ("Is", "Fl", "Ce", "Ro"))
    need(
        op != "Shrink" or x.array.dtype == np.float32
    )  # onnxruntime computes it in float32 whatever the type
    return Candidate(op, [x], is_exact=True)


def arithmetic(g: Garden) -> Candidate:
    op = g.choice(("Add", "Sub", "Mul", "Add", "Mul"))
    x = g.pick("ffiu", wild=True)
    pair = [x, g.companion(x, wild=True)]
    return Candidate(op, pair if g.chance(0.5) else pair[::-1])


def divide(g: Garden) -> Candidate:
    x = g.pick("ffiu", wild=True)
    y = g.companion(x, wild=True)
    if x.kind != "f":
        need(_divides(x, y))
    return Candidate("Div", [x, y])


def _divides(x: Known, y: Known) -> bool:
    """Whether integers may be divided: no zeros, no -2^31 / -1."""
    lowest = np.iinfo(x.array.dtype).min
    overflow = lowest < 0 and bool((x.array == lowest).any()) and bool((y.array == -1).any())
    return not bool((y.array == 0).any()) and not overflow


def modulo(g: Garden) -> Candidate:
    x = g.pick("fiu", exact=True)
    y = g.companion(x, exact=True)
    need(x.kind == "f" or _divides(x, y))
    fmod = int(x.kind == "f" or (g.chance(0.5) and x.array.dtype.itemsize < 8))  # in double, there
    return Candidate("Mod", [x, y], {"fmod": fmod}, is_exact=True)


def power(g: Garden) -> Candidate:
    x = g.pick("f")
    y = g.constant(g.choice((2, 3, 0.5, -1, 1.7, 0)), x.array.dtype)
    return Candidate("Pow", [x, y if g.chance(0.7) else g.companion(x)])


def several(g: Garden) -> Candidate:
    op = g.choice(("Max", "Min", "Sum", "Mean"))
    x = g.pick("fiu" if op[0] == "M" and op != "Mean" else "f")
    return Candidate(op, [x, *(g.companion(x) for _ in range(g.number(0, 3)))], is_exact=op in ("Max", "Min"))


def compare(g: Garden) -> Candidate:
    op = g.choice(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"))
    x = g.pick("fiub" if op == "Equal" else "fiu", exact=True, wild=True)
    return Candidate(op, [x, g.companion(x, exact=True, wild=True)])


def logic(g: Garden) -> Candidate:
    x = g.pick("b", fresh=0.1)
    if g.chance(0.2):
        return Candidate("Not", [x])
    return Candidate(g.choice(("And", "Or", "Xor")), [x, g.companion(x)])


def bits(g: Garden) -> Candidate:
    x = g.pick("iu")
    if g.chance(0.3) and x.kind == "u":
        shift = g.constant(g.number(0, x.array.dtype.itemsize * 8 - 1), x.array.dtype)
        return Candidate("BitShift", [x, shift], {"direction": g.choice(("LEFT", "RIGHT"))})
    if g.chance(0.2):
        return Candidate("BitwiseNot", [x])
    return Candidate(g.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor")), [x, g.companion(x)])


def where(g: Garden) -> Candidate:
    x = g.pick("fiub", wild=True)
    condition = g.input("bool", [1 if g.chance(0.3) else n for n in x.shape])
    found = [v for v in g.values.values() if v.kind == "b" and v.shape == x.shape]
    return Candidate("Where", [g.choice(found) if found else condition, x, g.companion(x)], is_exact=True)


def clip(g: Garden) -> Candidate:
    x = g.pick("fiu")
    low = g.constant(g.choice((0, 1) if x.kind == "u" else (-1, 0, 1)), x.array.dtype)
    high = g.constant(g.number(2, 6), x.array.dtype)
    limits = g.choice(([low, high], [None, high], [low], []))
    return Candidate("Clip", [x, *limits], is_exact=True)


def prelu(g: Garden) -> Candidate:
    x = g.pick(rank=lambda r: r >= 1)
    return Candidate("PRelu", [x, g.input(str(x.array.dtype), x.shape[-1:])])


def cast(g: Garden) -> Candidate:
    """Only where C and onnxruntime agree: values that the other type holds, or wrapping integers."""
    x = g.pick("fiub")
    to = g.choice(
        ("float32", "float32", "float64", "int8", "int32", "int64", "uint8", "uint64", "bool", "float16")
    )
    if x.kind == "f" and to[0] in "iu":
        limits, wide = np.iinfo(to), x.array.astype(np.float64)
        need(x.exact and bool(np.all((wide > limits.min) & (wide < limits.max))))
    need(x.exact or to != "bool")
    need(to != "float16" or np.max(np.abs(x.array.astype(float)), initial=0) < 6e4)
    widens = x.kind != "f" or np.dtype(to).kind != "f" or np.dtype(to).itemsize >= x.array.dtype.itemsize
    return Candidate("Cast", [x], {"to": onnx_type(np.dtype(to))}, is_exact=bool(widens))


# ---- movement


def reshape(g: Garden) -> Candidate:
    x = g.pick("fiub", wild=True)
    count, shape = x.array.size, []
    need(count > 0)
    for p in (2, 3, 5, 7, 13):
        if count % p == 0 and g.chance(0.6):
            shape.append(p)
            count //= p
    shape = [*shape, count, *([1] if g.chance(0.3) else [])]
    g.rng.shuffle(shape)
    if g.chance(0.5):
        shape[g.number(0, len(shape) - 1)] = -1
    return Candidate("Reshape", [x, g.constant(shape, np.int64)], is_exact=True)


def squeeze(g: Garden) -> Candidate:
    x = g.pick("fiub", wild=True)
    if 1 in x.shape and g.chance(0.5):
        axes = [x.shape.index(1) - (x.rank if g.chance(0.5) else 0)]
        return Candidate("Squeeze", [x, g.constant(axes, np.int64)], is_exact=True)
    if g.chance(0.4):
        return Candidate("Flatten", [x], {"axis": g.number(-x.rank, x.rank)}, is_exact=True)
    axes = sorted({g.number(-x.rank - 1, x.rank) for _ in range(g.number(1, 2))})
    return Candidate("Unsqueeze", [x, g.constant(axes, np.int64)], is_exact=True)


def transpose(g: Garden) -> Candidate:
    x = g.pick("fiub", lambda r: r > 1, wild=True)
    return Candidate("Transpose", [x], {"perm": [int(i) for i in g.rng.permutation(x.rank)]}, is_exact=True)


def copy(g: Garden) -> Candidate:
    """Every element stays where it is."""
    x = g.pick("fiub", lambda r: r > 0, wild=True)
    axis = g.number(0, x.rank - 1)
    if g.chance(0.3):
        return Candidate("Concat", [x], {"axis": axis}, is_exact=True)
    if g.chance(0.4):
        return Candidate("Tile", [x, g.constant([1] * x.rank, np.int64)], is_exact=True)
    bounds = [g.constant([v], np.int64) for v in (0, x.shape[axis], axis)]
    return Candidate("Slice", [x, *bounds], is_exact=True)


def concat(g: Garden) -> Candidate:
    x = g.pick("fiub", lambda r: r > 0, wild=True)
    axis = g.number(0, x.rank - 1)
    others = []
    for _ in range(g.number(1, 3)):
        shape = [g.number(1, 5) if i == axis else n for i, n in enumerate(x.shape)]
        others.append(g.input(str(x.array.dtype), shape) if g.chance(0.7) else x)
    return Candidate("Concat", [x, *others], {"axis": axis - (x.rank if g.chance(0.3) else 0)}, is_exact=True)


def split(g: Garden) -> Candidate:
    x = g.pick("fiub", lambda r: r > 0, wild=True)
    axis = g.number(0, x.rank - 1)
    need(x.shape[axis] > 1)
    first = g.number(1, x.shape[axis] - 1)
    parts = g.constant([first, x.shape[axis] - first], np.int64)
    return Candidate("Split", [x, parts], {"axis": axis}, 2, is_exact=True)


def slice_(g: Garden) -> Candidate:
    x = g.pick("fiub", lambda r: r > 0, wild=True)
    axes = sorted(int(a) for a in g.rng.permutation(x.rank)[: g.number(1, x.rank)])
    starts, ends = ([g.number(-x.shape[a] - 2, x.shape[a] + 2) for a in axes] for _ in range(2))
    steps = [int(g.choice((1, 1, 2, 3, -1, -2))) for _ in axes]
    ends = [
        e if g.chance(0.7) else (1 << 62) * (1 if s > 0 else -1) for e, s in zip(ends, steps, strict=True)
    ]
    parts = [g.constant(v, np.int64) for v in (starts, ends, axes, steps)]
    return Candidate("Slice", [x, *parts], is_exact=True)


def pad(g: Garden) -> Candidate:
    x = g.pick("fi", lambda r: r > 0)
    mode = g.choice(("constant", "constant", "reflect", "edge"))
    low = -1 if mode == "constant" else 0
    pads = [g.number(low, min(3, max(0, n - 1))) if n > 2 else 0 for n in (*x.shape, *x.shape)]
    value = [g.constant(g.number(-3, 3), x.array.dtype)] if mode == "constant" and g.chance(0.6) else []
    return Candidate("Pad", [x, g.constant(pads, np.int64), *value], {"mode": mode}, is_exact=True)


def gather(g: Garden) -> Candidate:
    x = g.pick("fiub", lambda r: r > 0, wild=True)
    axis = g.number(0, x.rank - 1)
    n = x.shape[axis]
    need(n > 0)
    op, dtype = g.choice(("Gather", "GatherElements")), g.choice((np.int32, np.int64))
    shape = g.shape(g.number(0, 2), 0) if op == "Gather" else [g.number(1, 4) if i == axis else m
                                                                for i, m in enumerate(x.shape)]  # fmt: skip
    index = g.rng.integers(-n, n, shape).astype(dtype)
    place = g.constant(index) if g.chance(0.5) else g._new(np.asarray(index), False)
    return Candidate(op, [x, place], {"axis": axis}, is_exact=True)


def gather_nd(g: Garden) -> Candidate:
    x = g.pick("fiub", lambda r: r > 0, wild=True)
    need(x.array.size > 0)
    depth = g.number(1, x.rank)
    index = np.stack([g.rng.integers(0, n, (g.number(1, 4), 3)[1:]) for n in x.shape[:depth]], -1)
    return Candidate("GatherND", [x, g.constant(index, np.int64)], is_exact=True)


def scatter(g: Garden) -> Candidate:
    x = g.pick("fi", lambda r: r > 0)
    axis = g.number(0, x.rank - 1)
    need(x.array.size > 0)
    n = g.number(1, x.shape[axis])
    shape = [n if i == axis else m for i, m in enumerate(x.shape)]
    rows = np.argsort(g.rng.random([x.shape[axis] if i == axis else m for i, m in enumerate(x.shape)]), axis)
    index = g.constant(np.take(rows, range(n), axis), np.int64)
    attributes: dict[str, Any] = {"axis": axis}
    if g.opset >= 18 and g.chance(0.5):
        attributes["reduction"] = g.choice(("add", "mul", "max", "min"))
    exact = "reduction" not in attributes
    return Candidate(
        "ScatterElements", [x, index, g.input(str(x.array.dtype), shape)], attributes, is_exact=exact
    )


def scatter_nd(g: Garden) -> Candidate:
    x = g.pick("fi", lambda r: r > 0)
    need(x.array.size > 0)
    rows = g.rng.permutation(x.shape[0])[: g.number(1, x.shape[0])]
    updates = g.input(str(x.array.dtype), (len(rows), *x.shape[1:]))
    return Candidate("ScatterND", [x, g.constant(rows[:, None], np.int64), updates], is_exact=True)


def expand(g: Garden) -> Candidate:
    x = g.pick("fiub", wild=True)
    if g.chance(0.4):
        repeats = [g.number(1, 3) for _ in x.shape]
        return Candidate("Tile", [x, g.constant(repeats, np.int64)], is_exact=True)
    shape = [g.number(1, 4) if n == 1 else (1 if g.chance(0.4) else n) for n in x.shape]
    more = [g.number(1, 3)] if g.chance(0.4) and x.rank < 5 else []
    return Candidate("Expand", [x, g.constant([*more, *shape], np.int64)], is_exact=True)


def blocks(g: Garden) -> Candidate:
    b, c, h, w = g.number(2, 3), g.number(1, 3), g.number(1, 4), g.number(1, 4)
    if g.chance(0.5):
        return Candidate(
            "SpaceToDepth", [g.input("float32", (1, c, h * b, w * b))], {"blocksize": b}, is_exact=True
        )
    attributes = {"blocksize": b, "mode": g.choice(("DCR", "CRD"))}
    return Candidate("DepthToSpace", [g.input("float32", (2, c * b * b, h, w))], attributes, is_exact=True)


def order(g: Garden) -> Candidate:
    """What looks at the values to decide where they go."""
    op = g.choice(("TopK", "ArgMax", "ArgMin", "Hardmax"))
    x = g.pick("f" if op == "Hardmax" else "fi", lambda r: r > 0, exact=True)
    axis = g.number(-x.rank, x.rank - 1)
    need(x.array.size > 0)
    if op == "TopK":
        k = g.constant([g.number(1, x.shape[axis])], np.int64)
        return Candidate(op, [x, k], {"axis": axis, "largest": g.number(0, 1)}, 2, is_exact=True)
    attributes = {"axis": axis}
    if op != "Hardmax":
        attributes |= {"keepdims": g.number(0, 1), "select_last_index": g.number(0, 1)}
    return Candidate(op, [x], attributes, is_exact=True)


def shapes(g: Garden) -> Candidate:
    x = g.pick("fiub", wild=True)
    op = g.choice(("Shape", "Size", "Trilu", "EyeLike", "OneHot", "ConstantOfShape", "Range"))
    if op == "Trilu":
        k = [g.constant(g.number(-2, 2), np.int64)] if g.chance(0.7) else []
        return Candidate(op, [x, *k], {"upper": g.number(0, 1)}, is_exact=True)
    if op == "EyeLike":
        return Candidate(op, [x], {"k": g.number(-2, 2), "dtype": TensorProto.FLOAT}, is_exact=True)
    if op == "OneHot":
        index = g._new(g.rng.integers(-5, 6, g.shape(g.number(0, 2), 0)).astype(np.int64), False)
        return Candidate(op, [index, g.constant(5, np.int64), g.constant([-1, 3], np.float32)], is_exact=True)
    if op == "Range":
        start, step = g.number(-5, 5), g.choice((1, 2, -3))
        ends = [g.constant(n, np.int64) for n in (start, start + step * g.number(0, 7), step)]
        return Candidate(op, ends, is_exact=True)
    if op == "ConstantOfShape":
        return Candidate(op, [g.constant(g.shape(), np.int64)], is_exact=True)
    return Candidate(op, [x], is_exact=True)


def reverse_sequence(g: Garden) -> Candidate:
    x = g.pick("fi", lambda r: r > 1)
    need(x.array.size > 0)
    lengths = g.constant(g.rng.integers(1, x.shape[0] + 1, x.shape[1]), np.int64)
    return Candidate("ReverseSequence", [x, lengths], {"time_axis": 0, "batch_axis": 1}, is_exact=True)


# ---- reductions and normalisations

REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
)

WHOLE = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare")  # of integers too


def reduce(g: Garden) -> Candidate:
    op = g.choice(REDUCTIONS)
    x = g.pick("ffi" if op in WHOLE else "f")
    axes = [
        int(a) - (x.rank if g.chance(0.3) else 0) for a in g.rng.permutation(x.rank)[: g.number(0, x.rank)]
    ]
    attributes: dict[str, Any] = {"keepdims": g.number(0, 1)}
    inputs: list[Known | None] = [x]
    if axes and (op == "ReduceSum" or g.opset >= 18):
        inputs.append(g.constant(axes, np.int64))
    elif axes:
        attributes["axes"] = axes
    need(0 < x.array.size <= (99 if op == "ReduceProd" else MOST))  # long products overflow by their order
    may_be_huge = x.kind == "f" or op in ("ReduceMax", "ReduceMin")
    need(may_be_huge or largest(x.array) < 10)  # onnxruntime takes the way over floats
    return Candidate(op, inputs, attributes, is_exact=op in ("ReduceMax", "ReduceMin"))


def running(g: Garden) -> Candidate:
    x = g.pick("fi", lambda r: r > 0)
    axis = g.constant(g.number(-x.rank, x.rank - 1), np.int64)
    return Candidate("CumSum", [x, axis], {"exclusive": g.number(0, 1), "reverse": g.number(0, 1)})


def softmax(g: Garden) -> Candidate:
    x = g.pick(rank=lambda r: r > 0)
    op = g.choice(("Softmax", "LogSoftmax", "LpNormalization"))
    attributes = {"axis": g.number(-x.rank, x.rank - 1)}
    return Candidate(op, [x], attributes | ({"p": g.number(1, 2)} if op[1] == "p" else {}))


def normalise(g: Garden) -> Candidate:
    op = g.choice(
        ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "LRN")
    )
    x = g.pick(rank=lambda r: r >= (3 if op in ("InstanceNormalization", "LRN") else 2))
    need(x.array.size > 0)
    kind, c = str(x.array.dtype), x.shape[1]
    if op == "LRN":
        return Candidate(op, [x], {"size": g.number(1, 5), "alpha": 0.1})
    if op == "LayerNormalization":
        need(g.opset >= 17)
        axis = g.number(1, x.rank - 1)
        parts = [g.input(kind, x.shape[axis:]) for _ in range(g.number(1, 2))]
        return Candidate(op, [x, *parts], {"axis": axis})
    # onnxruntime cancels the mean: of equal elements little but rounding is left
    need(op == "BatchNormalization" or bool(np.prod(x.shape[2:]) > 3 and np.ptp(x.array) > 0.1))
    parts = [g.input(kind, (c,)) for _ in range(2)]
    if op == "BatchNormalization":
        parts += [g.input(kind, (c,)), g.constant(np.abs(g.array(kind, (c,))) + 0.5, kind)]
    groups = g.choice([n for n in range(1, c + 1) if c % n == 0])
    return Candidate(op, [x, *parts], {"num_groups": groups} if op == "GroupNormalization" else {})


# ---- windows and contractions


def _window(g: Garden, spatial: Sequence[int], dilate: bool = True) -> dict[str, Any]:
    """kernel_shape, strides, dilations and pads that fit somehow."""
    kernel = [g.number(1, min(n, 5)) for n in spatial]
    out: dict[str, Any] = {"kernel_shape": kernel, "strides": [g.number(1, 3) for _ in kernel]}
    if dilate and g.chance(0.3):
        out["dilations"] = [g.number(1, 2 if n >= 2 * k else 1) for n, k in zip(spatial, kernel, strict=True)]
    if g.chance(0.2):
        return out | {"auto_pad": g.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))}
    return out | {"pads": [g.number(0, k - 1) for k in (*kernel, *kernel)]}


def _image(g: Garden, channels: int | None = None) -> Known:
    """A tensor of rank 3, 4 or 5 with some of it in each direction."""
    found = [v for v in g.values.values() if v.kind == "f" and v.rank in (3, 4, 5) and not v.is_wild]
    if found and channels is None and g.chance(0.7):
        return g.choice(found)  # type: ignore[no-any-return]
    rank = int(g.choice((3, 4, 4, 4, 5)))
    c = channels or g.choice((1, 2, 3, 4, 6, 7, 8, 13, 15, 16, 17, 33))
    most = 5 if rank == 5 and c > 8 else 7 if rank == 5 else 12
    spatial = [g.number(1, most) for _ in range(rank - 2)]
    return g._new(g.array("float32", (g.number(1, 2), c, *spatial)), False)


def conv(g: Garden) -> Candidate:
    x = _image(g)
    need(0 not in x.shape)
    c, window = x.shape[1], _window(g, x.shape[2:])
    group = g.choice([n for n in range(1, c + 1) if c % n == 0])
    out = group * (g.choice((1, 2, 3, 4, 5, 8, 16, 17)) if group < 3 else g.number(1, 2))
    kind = str(x.array.dtype)
    weights = g.input(kind, (out, c // group, *window["kernel_shape"]))
    bias = [g.input(kind, (out,))] if g.chance(0.6) else []
    return Candidate("Conv", [x, weights, *bias], {**window, "group": group})


def conv_transpose(g: Garden) -> Candidate:
    x = _image(g)
    need(0 not in x.shape)
    c, window = x.shape[1], _window(g, x.shape[2:])
    group = g.choice([n for n in range(1, c + 1) if c % n == 0])
    if "pads" in window and g.chance(0.4):
        window["output_padding"] = [g.number(0, s - 1) for s in window["strides"]]
    kind, out = str(x.array.dtype), g.number(1, 4)
    weights = g.input(kind, (c, out, *window["kernel_shape"]))
    bias = [g.input(kind, (out * group,))] if g.chance(0.6) else []
    return Candidate("ConvTranspose", [x, weights, *bias], {**window, "group": group})


def pool(g: Garden) -> Candidate:
    x = _image(g)
    need(0 not in x.shape)
    op = g.choice(("MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"))
    if op.startswith("Global"):
        return Candidate(op, [x], is_exact=op == "GlobalMaxPool")
    window = _window(g, x.shape[2:], dilate=op == "MaxPool")
    need(not {"dilations", "auto_pad"} <= window.keys())  # onnxruntime forgets the dilations
    apart = any(s > k for s, k in zip(window["strides"], window["kernel_shape"], strict=True))
    need(not ("auto_pad" in window and apart))  # onnxruntime pads by less than nothing, or refuses to
    if op != "LpPool" and g.chance(0.3):
        window["ceil_mode"] = 1
    if op == "AveragePool":
        window["count_include_pad"] = g.number(0, 1)
    indices = op == "MaxPool" and x.exact and "dilations" not in window and g.chance(0.2)
    return Candidate(op, [x], window, 2 if indices else 1, is_exact=op == "MaxPool")


def matmul(g: Garden) -> Candidate:
    x = g.pick(rank=lambda r: r > 0)
    need(0 not in x.shape)
    n, kind = g.choice((1, 2, 5, 7, 8, 17, 33)), str(x.array.dtype)
    batch = x.shape[:-2] if g.chance(0.4) else ()
    batch = tuple(1 if g.chance(0.3) else b for b in batch)
    y = g.input(kind, (*batch, x.shape[-1], n) if g.chance(0.8) else (x.shape[-1],))
    if x.rank > 1 and g.chance(0.2):
        return Candidate("MatMul", [g.input(kind, (*x.shape[:-2], n, x.shape[-2])), x])
    return Candidate("MatMul", [x, y])


def gemm(g: Garden) -> Candidate:
    x = g.pick(rank=lambda r: r == 2)
    need(0 not in x.shape)
    trans, other = g.number(0, 1), g.number(0, 1)
    (m, k), n = (x.shape[::-1] if trans else x.shape), g.choice((1, 3, 8, 17, 33))
    kind = str(x.array.dtype)
    y = g.input(kind, (n, k) if other else (k, n))
    c = [g.input(kind, g.choice(((m, n), (n,), (1, n), (m, 1), (), (1,))))] if g.chance(0.7) else []
    attributes = {
        "transA": trans,
        "transB": other,
        "alpha": g.choice((1.0, 0.5)),
        "beta": g.choice((1.0, 2.0)),
    }
    return Candidate("Gemm", [x, y, *c], attributes)


def einsum(g: Garden) -> Candidate:
    a, b, c, d = (g.number(1, 7) for _ in range(4))
    equation, *operands = g.choice(
        (
            ("abc,bd->acd", (a, b, c), (b, d)),
            ("ab->ba", (a, b)),
            ("abc->b", (a, b, c)),
            ("ab,cb->ac", (a, b), (c, b)),
            ("abcd,abed->abce", (a, b, c, d), (a, b, 3, d)),
            ("aab->ab", (a, a, b)),
            ("...ab,bc", (2, a, b), (b, c)),
        )
    )
    return Candidate("Einsum", [g.input("float32", s) for s in operands], {"equation": equation})


def integer_product(g: Garden) -> Candidate:
    m, k, n = g.number(1, 9), g.number(1, 17), g.choice((1, 3, 8, 17))
    left, right = g.choice((("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")))
    zeros = [g.constant(g.number(0, 9), left), g.constant(g.number(0, 9), right)]
    if g.chance(0.5):
        return Candidate("MatMulInteger", [_bytes(g, left, (m, k)), _bytes(g, right, (k, n)), *zeros])
    need(left == "uint8")
    x, w = _bytes(g, left, (1, 3, m + 3, 8)), _bytes(g, right, (n, 3, 2, 3))
    return Candidate("ConvInteger", [x, w, *zeros], {"pads": [1, 0, 1, 2], "strides": [1, 2]})


def _bytes(g: Garden, dtype: str, shape: tuple[int, ...]) -> Known:
    limits = np.iinfo(dtype)
    return g._new(g.rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype), g.chance(0.4))


def quantised(g: Garden) -> Candidate:
    """Scales are powers of two, so that nothing is rounded where onnxruntime rounds otherwise."""
    kind = g.choice(("uint8", "int8"))
    scale, zero = g.constant(2.0 ** g.number(-6, 0), np.float32), g.constant(g.number(0, 20), kind)
    if g.chance(0.5):
        return Candidate("QuantizeLinear", [g.pick("f", exact=True), scale, zero])
    found = [v for v in g.values.values() if v.array.dtype == kind]
    x = g.choice(found) if found else _bytes(g, kind, g.shape())
    return Candidate("DequantizeLinear", [x, scale, zero], is_exact=True)


def resize(g: Garden) -> Candidate:
    x = _image(g)
    need(x.rank == 4 and min(x.shape) > 0 and min(x.shape[2:]) > 1)
    mode = g.choice(("nearest", "linear", "cubic"))
    scales = g.constant([1, 1, *(g.choice((0.5, 1.0, 1.5, 2.0, 3.0)) for _ in range(2))], np.float32)
    way = g.choice(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    attributes = {"mode": mode, "coordinate_transformation_mode": way}
    if mode == "nearest":
        attributes["nearest_mode"] = g.choice(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    return Candidate("Resize", [x, None, scales], attributes, is_exact=mode == "nearest")


def recurrent(g: Garden) -> Candidate:
    op, gates = g.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    steps, batch, n, h = g.number(1, 5), g.number(1, 3), g.choice((1, 3, 8, 13)), g.choice((1, 4, 7, 9))
    found = [v for v in g.values.values() if v.array.dtype == np.float32 and v.rank == 3 and v.array.size]
    found = [v for v in found if not v.is_wild]
    x = g.choice(found) if found and g.chance(0.5) else g.input("float32", (steps, batch, n))
    (steps, batch, n), way = x.shape, g.choice(("forward", "reverse", "bidirectional"))
    d = 2 if way == "bidirectional" else 1
    w, r, b = g.input("float32", (d, gates * h, n)), g.input("float32", (d, gates * h, h)), None
    if g.chance(0.6):
        b = g.input("float32", (d, 2 * gates * h))
    lengths = g.constant(g.rng.integers(1, steps + 1, batch), np.int32) if g.chance(0.3) else None
    start = [g.input("float32", (d, batch, h)) if g.chance(0.4) else None]
    attributes: dict[str, Any] = {"hidden_size": h, "direction": way}
    if op == "GRU":
        attributes["linear_before_reset"] = g.number(0, 1)
    outputs = 3 if op == "LSTM" else 2
    return Candidate(op, [x, w, r, b, lengths, *start], attributes, outputs, error=SATURATES)


# ---- control flow


def branch(g: Garden) -> Candidate:
    """If a condition, one function of a value, else another."""
    from onnx import helper

    x = g.pick("f")
    condition = g._new(np.array(g.chance(0.5)), False)
    sides = []
    for i, op in enumerate(g.choice((("Neg", "Abs"), ("Relu", "Neg"), ("Sigmoid", "Tanh")))):
        out = f"branch{len(g.nodes)}_{i}"
        result = helper.make_tensor_value_info(out, onnx_type(x.array.dtype), x.shape)
        sides.append(helper.make_graph([helper.make_node(op, [x.name], [out])], out, [], [result]))
    attributes = {"then_branch": sides[0], "else_branch": sides[1]}
    return Candidate("If", [condition], attributes, captured=[x])


def loop(g: Garden) -> Candidate:
    """state = tanh(state + x), three times or until the input says no; every state is kept."""
    from onnx import helper

    x = g.pick("f", fresh=0.1)
    need(str(x.array.dtype) == "float32")
    start = g.input("float32", x.shape)
    n = len(g.nodes)
    turn, on, state, total, new, kept, active = (f"loop{n}_{s}" for s in ("i", "c", "s", "t", "n", "k", "g"))
    nodes = [
        helper.make_node("Add", [state, x.name], [total]),
        helper.make_node("Tanh", [total], [new]),
        helper.make_node("Mul", [new, new], [kept]),
        helper.make_node("Identity", [on], [active]),
    ]
    f32 = [(name, TensorProto.FLOAT, x.shape) for name in (state, new, kept)]
    infos = [helper.make_tensor_value_info(*v) for v in f32]
    ends = [helper.make_tensor_value_info(v, k, ()) for v, k in ((turn, 7), (on, 9), (active, 9))]
    body = helper.make_graph(nodes, f"body{n}", [*ends[:2], infos[0]], [ends[2], *infos[1:]])
    trips = g.constant(g.number(1, 3), np.int64)
    return Candidate("Loop", [trips, None, start], {"body": body}, 2, captured=[x])


RECIPES: tuple[Recipe, ...] = (
    *(
        smooth,
        smooth,
        alpha,
        gelu,
        plain,
        jump,
        arithmetic,
        arithmetic,
        divide,
        modulo,
        power,
        several,
        compare,
    ),
    *(
        logic,
        bits,
        where,
        clip,
        prelu,
        cast,
        reshape,
        squeeze,
        transpose,
        transpose,
        copy,
        concat,
        split,
        slice_,
        pad,
    ),
    *(gather, gather_nd, scatter, scatter_nd, expand, blocks, order, shapes, reverse_sequence),
    *(reduce, reduce, running, softmax, normalise, normalise),
    *(conv, conv, conv, conv_transpose, pool, pool, matmul, matmul, gemm, einsum, integer_product, quantised),
    *(resize, recurrent, branch, loop),
    *(from_row,) * 12,  # every operator of the registry
)
