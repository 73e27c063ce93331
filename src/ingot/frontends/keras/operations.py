"""Functions that stand in a model like layers: keras.ops of Keras 3, TFOpLambda of Keras 2.

    x + 1            Add, args [tensor, 1.0]               TFOpLambda math.add, {"y": 1.0}
    x[:, 1:3]        GetItem, args [tensor, slices]        SlicingOpLambda __operators__.getitem

The two spellings are brought to one set of mappings by name; an operation that is not known is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.types import BOOL, FLOAT32, INT64
from ingot.frontends.keras.activations import along, applied
from ingot.frontends.keras.configs import leaves
from ingot.frontends.keras.layers.merging import concatenated
from ingot.frontends.keras.layers.reshaping import filled_shape, permuted
from ingot.frontends.keras.settings import TYPES
from ingot.frontends.keras.table import Call, Result, layer
from ingot.frontends.orders import FAR, Tensor, aligned, like

Operation = Callable[[Call], Result]
OPERATIONS: dict[str, Operation] = {}
BINARY = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "true_divide": "Div",
    "power": "Pow",
    "maximum": "Max",
    "minimum": "Min",
    "equal": "Equal",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
}
UNARY = {
    **{n: n.capitalize() for n in ("exp", "log", "sqrt", "abs", "sign", "floor", "ceil", "round", "erf")},
    **{n: n.capitalize() for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "asin", "acos")},
    **{n: n.capitalize() for n in ("reciprocal",)},
    "absolute": "Abs",
    "negative": "Neg",
    "arctan": "Atan",
    "arcsin": "Asin",
    "arccos": "Acos",
    "arctanh": "Atanh",
    "arcsinh": "Asinh",
    "arccosh": "Acosh",
    "logical_not": "Not",
    "isnan": "IsNaN",
    "isinf": "IsInf",
}
REDUCTIONS = {
    "mean": "ReduceMean",
    "sum": "ReduceSum",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "prod": "ReduceProd",
}
ACTIVATIONS = (
    *("relu", "relu6", "sigmoid", "tanh", "softplus", "softsign", "silu", "swish", "selu", "elu", "celu"),
    *("hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "hard_shrink", "soft_shrink", "tanh_shrink"),
    *("squareplus", "log_sigmoid", "sparse_plus", "sparse_sigmoid", "mish"),
)
OLD_NAMES = {
    "math.truediv": "divide",
    "math.pow": "power",
    "math.logical_not": "logical_not",
    "__operators__.add": "add",
    "__operators__.getitem": "getitem",
    "math.reduce_mean": "mean",
    "math.reduce_sum": "sum",
    "math.reduce_max": "max",
    "math.reduce_min": "min",
    "math.reduce_prod": "prod",
    "linalg.matmul": "matmul",
    "image.resize": "resize",
    "identity": "identity",
    "stop_gradient": "identity",
    "concat": "concatenate",
    "cast": "cast",
    "nn.l2_normalize": "normalize",
    "math.l2_normalize": "normalize",
}
NEW_NAMES = {
    "GetItem": "getitem",
    "ExpandDims": "expand_dims",
    "SwapAxes": "swapaxes",
    "LogicalNot": "logical_not",
}


def operation(*names: str) -> Callable[[Operation], Operation]:
    """Enter an operation under names of keras.ops."""

    def enter(mapping: Operation) -> Operation:
        OPERATIONS.update(dict.fromkeys(names, mapping))
        return mapping

    return enter


# ---- operands


def operand(c: Call, position: int, *names: str, default: Any = None) -> Any:
    """An argument by place or by one of its names, or of the operation's own configuration."""
    if len(c.args) > position:
        return c.args[position]
    for name in names:
        if name in c.kwargs:
            return c.kwargs[name]
        if name in c.layer.config:
            return c.layer.config[name]
    return default


def tensor_of(c: Call, given: Any, like_: Tensor | None = None) -> Tensor:
    """A tensor, or a number or list as a constant of the other operand's type."""
    if isinstance(given, Tensor):
        return given
    while isinstance(given, dict):  # an array of Keras 3
        given = given.get("config", given.get("value"))
    try:
        made = np.asarray(given)
    except ValueError:
        made = np.asarray(None)
    if made.dtype.kind not in "fiub":
        raise ModelError(f"{c.layer.label}: the operand {str(given)[:60]!r} is no number")
    dtype = FLOAT32 if like_ is None else like_.dtype
    if like_ is not None and like_.dtype.kind in "iub" and made.dtype.kind == "f":
        dtype = FLOAT32
    return Tensor(c.b.constant(made, dtype))


def both(c: Call) -> list[Tensor]:
    """Two operands of one type."""
    first, second = operand(c, 0, "x", "x1", "a"), operand(c, 1, "y", "x2", "b")
    known = next((t for t in (first, second) if isinstance(t, Tensor)), None)
    c.require(known is not None and second is not None, "two operands are needed")
    pair = [tensor_of(c, t, known) for t in (first, second)]
    if pair[0].dtype == pair[1].dtype:
        return pair
    floats = [t.dtype for t in pair if t.dtype.kind == "f"]
    wanted = max(floats or [t.dtype for t in pair], key=lambda d: d.bits)
    return [Tensor(c.b.cast(t.value, wanted), t.order) for t in pair]


def axes_in(c: Call, x: Tensor, given: Any) -> list[int]:
    """Axes from the front; None: all."""
    if given is None:
        return list(range(x.rank))
    found = given if isinstance(given, list | tuple) else [given]
    fits = all(type(a) is int and -x.rank <= a < x.rank for a in found)
    c.require(fits, f"axes {str(given)[:60]} of {x.rank}")
    return sorted({a % x.rank for a in found})


def axis_in(c: Call, given: Any, rank: int) -> int:
    c.require(type(given) is int and -rank <= given < rank, f"axis {str(given)[:60]} of {rank}")
    return int(given) % rank


def integers(c: Call, given: Any) -> list[int]:
    c.require(isinstance(given, list | tuple) and all(type(n) is int for n in given), f"{str(given)[:60]!r}")
    return list(given)


def word(c: Call, given: Any) -> str:
    c.require(isinstance(given, str), f"{str(given)[:60]!r} is no word")
    return str(given)


# ---- arithmetic


def _binary(op: str) -> Operation:
    def write(c: Call) -> Result:
        values, order = aligned(c.b, both(c))
        if op == "Div":
            values = [v if Tensor(v).dtype.kind == "f" else c.b.cast(v, FLOAT32) for v in values]
        if op in ("And", "Or", "Xor"):
            values = [c.b.cast(v, BOOL) for v in values]
        return Tensor(c.b.one(op, *values), order)

    return write


def _unary(op: str) -> Operation:
    def write(c: Call) -> Result:
        x = c.x
        floats = x.dtype.kind == "f" or op in ("Abs", "Sign", "Neg", "Not")
        value = x.value if floats else c.b.cast(x.value, FLOAT32)
        return Tensor(c.b.one(op, value if op != "Not" else c.b.cast(value, BOOL)), x.order)

    return write


def _reduction(op: str) -> Operation:
    def write(c: Call) -> Result:
        x = c.x
        axes = axes_in(c, x, operand(c, 1, "axis"))
        keep = int(bool(operand(c, 2, "keepdims", default=False)))
        return Tensor(c.b.one(op, c.plain(x), c.b.ints(axes), keepdims=keep))

    return write


def _activation(name: str) -> Operation:
    def write(c: Call) -> Result:
        return applied(c.b, c.x, name, True, c.layer.label)

    return write


for _name, _op in BINARY.items():
    OPERATIONS[_name] = _binary(_op)
for _name in ACTIVATIONS:
    OPERATIONS[_name] = _activation(_name)
for _name, _op in UNARY.items():
    OPERATIONS.setdefault(_name, _unary(_op))
for _name, _op in REDUCTIONS.items():
    OPERATIONS[_name] = _reduction(_op)
    OPERATIONS[f"a{_name}"] = _reduction(_op)


@operation("not_equal")
def not_equal(c: Call) -> Result:
    values, order = aligned(c.b, both(c))
    return Tensor(c.b.one("Not", c.b.one("Equal", *values)), order)


@operation("square")
def square(c: Call) -> Result:
    return Tensor(c.b.one("Mul", c.x.value, c.x.value), c.x.order)


@operation("rsqrt")
def rsqrt(c: Call) -> Result:
    return Tensor(c.b.one("Reciprocal", c.b.one("Sqrt", c.x.value)), c.x.order)


@operation("any", "all")
def truths(c: Call) -> Result:
    """Whether any element along the axes is true, or all are."""
    x = c.x
    axes = axes_in(c, x, operand(c, 1, "axis"))
    keep = int(bool(operand(c, 2, "keepdims", default=False)))
    op = "ReduceMax" if name_of(c) == "any" else "ReduceMin"
    found = c.b.one(op, c.b.cast(c.b.cast(c.plain(x), BOOL), TYPES["int32"]), c.b.ints(axes), keepdims=keep)
    return Tensor(c.b.cast(found, BOOL))


@operation("zeros_like", "ones_like")
def filled_like(c: Call) -> Result:
    """A constant of a tensor's shape and type, or of the type that is asked for."""
    given = operand(c, 1, "dtype")
    name = None if given is None else word(c, given)
    c.require(name is None or name in TYPES, f"the type {str(name)[:40]!r}")
    dtype = c.x.dtype if name is None else TYPES[name]
    fill = 0 if name_of(c) == "zeros_like" else 1
    return Tensor(c.b.filled(c.x.shape, fill, dtype))


@operation("log1p")
def log1p(c: Call) -> Result:
    """log(1 + x) without the loss of digits near 0: log(u) x / (u - 1) of the rounded u = 1 + x.

    W. Kahan's formula, in Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, 1.14.1.
    """
    b, x = c.b, c.x.value if c.x.dtype.kind == "f" else c.b.cast(c.x.value, FLOAT32)
    one = like(b, x, 1)
    u = b.one("Add", x, one)
    log = b.one("Log", u)
    near = b.one("Mul", log, b.one("Div", x, b.one("Sub", u, one)))
    far = b.one("Where", b.one("Greater", x, one), log, near)
    return Tensor(b.one("Where", b.one("Equal", u, one), x, far), c.x.order)


@operation("identity", "copy", "convert_to_tensor")
def identity(c: Call) -> Result:
    return c.x


@operation("clip", "clip_by_value")
def clip(c: Call) -> Result:
    x = c.x
    low, high = operand(c, 1, "x_min", "clip_value_min"), operand(c, 2, "x_max", "clip_value_max")
    limits = [tensor_of(c, n, x).value for n in (low, high)]
    return Tensor(c.b.one("Clip", x.value, *limits), x.order)


@operation("gelu")
def gelu(c: Call) -> Result:
    from ingot.frontends.keras.activations import gelu as exact
    from ingot.frontends.keras.activations import gelu_by_tanh

    write = gelu_by_tanh if operand(c, 1, "approximate", default=c.layer.kind == "Gelu") else exact
    return Tensor(write(c.b, c.x.value), c.x.order)


@operation("leaky_relu")
def leaky_relu(c: Call) -> Result:
    slope = operand(c, 1, "negative_slope", "alpha", default=0.2)
    c.require(type(slope) in (int, float), f"a slope of {str(slope)[:40]!r}")
    return Tensor(c.b.one("LeakyRelu", c.x.value, alpha=float(slope)), c.x.order)


@operation("softmax", "log_softmax")
def softmax(c: Call) -> Result:
    x = c.x
    axis = axis_in(c, operand(c, 1, "axis", default=-1), x.rank)
    return along(c.b, "Softmax" if name_of(c) == "softmax" else "LogSoftmax", x, axis)


@operation("where")
def where(c: Call) -> Result:
    condition = operand(c, 0, "condition")
    first, second = operand(c, 1, "x1", "x"), operand(c, 2, "x2", "y")
    known = next((t for t in (first, second) if isinstance(t, Tensor)), None)
    c.require(isinstance(condition, Tensor), "a condition is needed")
    rest = [tensor_of(c, t, known) for t in (first, second)]
    values, order = aligned(c.b, [condition, *rest])
    return Tensor(c.b.one("Where", c.b.cast(values[0], BOOL), *values[1:]), order)


@operation("normalize")
def normalize(c: Call) -> Result:
    """x by its length along an axis."""
    x = c.x
    if operand(c, 2, "order", default=2) != 2:
        raise c.refuse("a length of another order than 2")
    axes = axes_in(c, x, operand(c, 1, "axis", default=-1))
    total = c.b.one("ReduceSum", c.b.one("Mul", c.plain(x), c.plain(x)), c.b.ints(axes), keepdims=1)
    return Tensor(c.b.one("Div", c.plain(x), c.b.one("Sqrt", c.b.one("Max", total, like(c.b, total, 1e-24)))))


# ---- products


@operation("matmul", "dot")
def matmul(c: Call) -> Result:
    x, y = both(c)
    if name_of(c) == "dot":
        c.require(x.rank >= 1 and y.rank == 2, "dot needs a matrix as its second operand")
    turned = [bool(operand(c, i + 2, n, default=False)) for i, n in enumerate(("transpose_a", "transpose_b"))]
    held = []
    for t, turn in zip((x, y), turned, strict=True):
        order = (*range(t.rank - 2), t.rank - 1, t.rank - 2)
        held.append(c.b.transposed(c.plain(t), order) if turn and t.rank > 1 else c.plain(t))
    return Tensor(c.b.one("MatMul", *held))


@operation("einsum")
def einsum(c: Call) -> Result:
    given = c.layer.config.get("subscripts") or operand(c, 0, "equation")
    equation = word(c, given).replace(" ", "")
    operands = [t for t in leaves([c.args, c.kwargs]) if isinstance(t, Tensor)]
    return Tensor(c.b.one("Einsum", *(c.plain(t) for t in operands), equation=equation))


# ---- movement


@operation("reshape")
def reshape(c: Call) -> Result:
    x = c.x
    target = integers(c, operand(c, 1, "newshape", "shape"))
    return Tensor(c.b.reshape(c.plain(x), filled_shape(c, target, int(np.prod(x.shape)))))


@operation("transpose", "permute_dimensions")
def transpose(c: Call) -> Result:
    x = c.x
    given = operand(c, 1, "axes", "perm")
    axes = list(reversed(range(x.rank))) if given is None else [a % x.rank for a in integers(c, given)]
    c.require(sorted(axes) == list(range(x.rank)), f"axes {axes} of {x.rank}")
    return permuted(x, tuple(axes))


@operation("swapaxes")
def swapaxes(c: Call) -> Result:
    x = c.x
    i, j = (axis_in(c, operand(c, k + 1, f"axis{k + 1}"), x.rank) for k in (0, 1))
    axes = list(range(x.rank))
    axes[i], axes[j] = j, i
    return permuted(x, tuple(axes))


@operation("moveaxis")
def moveaxis(c: Call) -> Result:
    x = c.x
    source, target = (axis_in(c, operand(c, k, n), x.rank) for k, n in ((1, "source"), (2, "destination")))
    rest = [a for a in range(x.rank) if a != source]
    rest.insert(target, source)
    return permuted(x, tuple(rest))


@operation("expand_dims")
def expand_dims(c: Call) -> Result:
    x = c.x
    given = operand(c, 1, "axis")
    axes = [axis_in(c, a, x.rank + 1) for a in (given if isinstance(given, list) else [given])]
    return Tensor(c.b.one("Unsqueeze", c.plain(x), c.b.ints(axes)))


@operation("squeeze")
def squeeze(c: Call) -> Result:
    x = c.x
    given = operand(c, 1, "axis")
    axes = [a for a, n in enumerate(x.shape) if n == 1] if given is None else axes_in(c, x, given)
    c.require(all(x.shape[a] == 1 for a in axes), f"axes {axes} taken off")
    return Tensor(c.b.reshape(c.plain(x), [n for a, n in enumerate(x.shape) if a not in axes]))


@operation("flatten", "ravel")
def flatten(c: Call) -> Result:
    return Tensor(c.b.reshape(c.plain(c.x), [int(np.prod(c.x.shape))]))


@operation("concatenate")
def concatenate(c: Call) -> Result:
    operands = [t for t in leaves(operand(c, 0, "xs", "values", "arrays")) if isinstance(t, Tensor)]
    c.require(bool(operands), "tensors are needed")
    return concatenated(c.b, operands, axis_in(c, operand(c, 1, "axis", default=0), operands[0].rank))


@operation("stack")
def stack(c: Call) -> Result:
    operands = [t for t in leaves(operand(c, 0, "x", "values", "arrays")) if isinstance(t, Tensor)]
    c.require(bool(operands), "tensors are needed")
    axis = axis_in(c, operand(c, 1, "axis", default=0), operands[0].rank + 1)
    raised = [c.b.one("Unsqueeze", c.plain(t), c.b.ints([axis])) for t in operands]
    return Tensor(c.b.one("Concat", *raised, axis=axis))


@operation("split")
def split(c: Call) -> Result:
    x = c.x
    given = operand(c, 1, "indices_or_sections", "num_or_size_splits")
    axis = axis_in(c, operand(c, 2, "axis", default=0), x.rank)
    extent = x.shape[axis]
    if type(given) is int:
        c.require(0 < given <= extent and extent % given == 0, f"{given} parts of {extent}")
        sizes = [extent // given] * given
    elif c.layer.kind == "TFOpLambda":
        sizes = integers(c, given)
    else:
        sizes = np.diff([0, *integers(c, given), extent]).tolist()
    c.require(sum(sizes) == extent and min(sizes) >= 0, f"parts of {sizes[:8]} from {extent}")
    return [Tensor(v) for v in c.b.many("Split", len(sizes), c.plain(x), c.b.ints(sizes), axis=axis)]


@operation("repeat")
def repeat(c: Call) -> Result:
    x, count = c.x, operand(c, 1, "repeats")
    axis = axis_in(c, operand(c, 2, "axis", default=0), x.rank)
    c.require(type(count) is int and 0 < count < 1 << 24, f"{str(count)[:40]} repeats")
    c.require(c.b.is_modest([x.shape[axis], count], INT64), f"{count} repeats of {x.shape[axis]}")
    return Tensor(
        c.b.one("Gather", c.plain(x), c.b.constant(np.repeat(np.arange(x.shape[axis]), count)), axis=axis)
    )


@operation("tile")
def tile(c: Call) -> Result:
    x, given = c.x, operand(c, 1, "repeats", "multiples")
    counts = [given] if type(given) is int else integers(c, given)
    rank = max(x.rank, len(counts))
    counts = [1] * (rank - len(counts)) + counts
    value = c.b.reshape(c.plain(x), [1] * (rank - x.rank) + list(x.shape))
    return Tensor(c.b.one("Tile", value, c.b.ints(counts)))


@operation("flip", "reverse")
def flip(c: Call) -> Result:
    from ingot.frontends.keras.layers.recurrent import flipped

    value = c.plain(c.x)
    for axis in axes_in(c, c.x, operand(c, 1, "axis")):
        value = flipped(c.b, value, axis)
    return Tensor(value)


@operation("broadcast_to")
def broadcast_to(c: Call) -> Result:
    return Tensor(c.b.one("Expand", c.plain(c.x), c.b.ints(integers(c, operand(c, 1, "shape")))))


@operation("pad")
def pad(c: Call) -> Result:
    x, given = c.x, operand(c, 1, "pad_width", "paddings")
    mode = word(c, operand(c, 2, "mode", default="constant")).lower()
    known = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}
    pairs = [integers(c, p) for p in given] if isinstance(given, list) else []
    c.require(
        mode in known and len(pairs) == x.rank and all(len(p) == 2 for p in pairs), f"pads {given} {mode}"
    )
    flat = c.b.ints([p[0] for p in pairs] + [p[1] for p in pairs])
    fill = tensor_of(c, operand(c, 3, "constant_values", default=0) or 0, x).value
    return Tensor(c.b.one("Pad", c.plain(x), flat, fill if mode == "constant" else None, mode=known[mode]))


@operation("take", "gather")
def take(c: Call) -> Result:
    x = tensor_of(c, operand(c, 0, "x", "params"))
    places, axis = operand(c, 1, "indices"), operand(c, 2, "axis", default=0)
    at = c.plain(places) if isinstance(places, Tensor) else c.b.constant(np.asarray(places, np.int64))
    if Tensor(at).dtype.kind == "f":
        at = c.b.cast(at, TYPES["int32"])
    return Tensor(c.b.one("Gather", c.plain(x), at, axis=axis_in(c, axis, x.rank)))


@operation("argmax", "argmin")
def argmax(c: Call) -> Result:
    x, op = c.x, "ArgMax" if name_of(c) == "argmax" else "ArgMin"
    axis = axis_in(c, operand(c, 1, "axis"), x.rank)
    keep = int(bool(operand(c, 2, "keepdims", default=False)))
    return Tensor(c.b.cast(c.b.one(op, c.plain(x), axis=axis, keepdims=keep), TYPES["int32"]))


@operation("cast")
def cast(c: Call) -> Result:
    name = word(c, operand(c, 1, "dtype"))
    c.require(name in TYPES, f"the type {name[:40]!r}")
    return Tensor(c.b.cast(c.x.value, TYPES[name]), c.x.order)


@operation("getitem")
def getitem(c: Call) -> Result:
    """Slices, numbers, new axes and `...`, one for each axis."""
    x, given = c.x, operand(c, 1, "key", "slice_spec")
    keys = _spread(c, given if isinstance(given, list) else [given], x.rank)
    starts, ends, steps, axes, dropped, added = ([0][:0] for _ in range(6))
    axis = at = 0
    for key in keys:
        if key is None:
            added.append(at)
            at += 1
            continue
        start, end, step = _bounds(c, key, x.shape[axis])
        if (start, end, step) != (0, x.shape[axis], 1):
            axes.append(axis)
            for found, n in ((starts, start), (ends, end), (steps, step)):
                found.append(n)
        if type(key) is int:
            dropped.append(axis)
        else:
            at += 1
        axis += 1
    value = c.plain(x)
    if axes:
        value = c.b.one("Slice", value, *map(c.b.ints, (starts, ends, axes, steps)))
    value = c.b.one("Squeeze", value, c.b.ints(dropped)) if dropped else value
    return Tensor(c.b.one("Unsqueeze", value, c.b.ints(added)) if added else value)


def _spread(c: Call, keys: list[Any], rank: int) -> list[Any]:
    """As many keys as axes: `...` stands for those that are not named."""
    keys = [_key(k) for k in keys]
    if any(isinstance(k, Tensor) for k in keys):
        raise c.refuse("an index that is computed")
    used = sum(k is not None and k != "..." for k in keys)
    c.require(used <= rank and keys.count("...") <= 1, f"{used} indices of {rank} axes")
    whole = [slice(None)] * (rank - used)
    if "..." in keys:
        at = keys.index("...")
        return [*keys[:at], *whole, *keys[at + 1 :]]
    return [*keys, *whole]


def _key(key: Any) -> Any:
    """A number, a slice, None or "..."."""
    if isinstance(key, dict):
        inside = key.get("config")
        config = inside if isinstance(inside, dict) else key
        if key.get("class_name") == "__ellipsis__":
            return "..."
        return slice(config.get("start"), config.get("stop"), config.get("step"))
    return "..." if key in ("...", "Ellipsis") else key


def _bounds(c: Call, key: Any, extent: int) -> tuple[int, int, int]:
    if type(key) is int:
        c.require(-extent <= key < extent, f"index {key} of {extent}")
        return key % extent, key % extent + 1, 1
    fits = isinstance(key, slice) and all(
        n is None or type(n) is int for n in (key.start, key.stop, key.step)
    )
    c.require(fits and key.step != 0, f"the index {str(key)[:60]!r}")
    start, end, step = key.indices(extent)
    return start, -FAR if end < 0 else end, step


# ---- the doors


def name_of(c: Call) -> str:
    """The operation by its name in keras.ops."""
    if c.layer.kind in ("TFOpLambda", "SlicingOpLambda"):
        written = str(c.layer.config.get("function", ""))
        return OLD_NAMES.get(written, written.rpartition(".")[2])
    if c.layer.kind in NEW_NAMES:
        return NEW_NAMES[c.layer.kind]
    from ingot.frontends.keras.weights import snake_case

    return snake_case(c.layer.kind)


@layer("TFOpLambda", "SlicingOpLambda", mask="drop")
def function(c: Call) -> Result:
    """A function that stands between layers."""
    name = name_of(c)
    if name not in OPERATIONS:
        written = c.layer.config.get("function", c.layer.kind)
        raise UnsupportedError(f"{c.layer.label}: the function {str(written)[:60]!r} is not supported")
    return OPERATIONS[name](c)
