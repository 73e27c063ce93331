"""Constants, shapes, and what makes tensors of them. Shapes are known when a graph is imported."""

from __future__ import annotations

import math

import numpy as np

from ingot.formula.types import FLOAT64, INT64
from ingot.frontends.tensorflow.ops.table import Call, Result, op
from ingot.frontends.tensorflow.tensors import array_of
from ingot.graph.ir import Value
from ingot.graph.verify import COUNT_LIMIT


@op("Const", "HostConst")
def const(c: Call) -> Result:
    if not c.node.has("value"):
        raise c.refuse("the attribute 'value' is missing, so nothing says what the constant is")
    array = array_of(c.node.attributes["value"].tensor, c.node.label)
    if array.dtype == object:
        raise c.refuse(
            "the constant is a string, and strings are not computed with; cut the model with outputs="
        )
    return c.b.constant(array)


def _integers(c: Call, values: object, attribute: str = "out_type") -> Value:
    dtype = c.node.dtype(attribute).numpy if c.node.has(attribute) else np.int32
    return c.b.constant(np.array(values, dtype))


@op("Shape")
def shape(c: Call) -> Result:
    return _integers(c, c.tensor(0).shape)


@op("ShapeN")
def shape_n(c: Call) -> Result:
    return [_integers(c, t.shape) for t in c.tensors]


@op("Size")
def size(c: Call) -> Result:
    return _integers(c, math.prod(c.tensor(0).shape))


@op("Rank")
def rank(c: Call) -> Result:
    return c.b.constant(np.int32(c.tensor(0).rank))


@op("Reshape")
def reshape(c: Call) -> Result:
    """One extent of -1 takes what is left."""
    wanted, count = list(c.ints(1, "the shape")), math.prod(c.tensor(0).shape)
    if wanted.count(-1) == 1:
        rest = -math.prod(wanted)
        c.require(rest > 0 and count % rest == 0, f"{count} elements do not fill the shape {wanted}")
        wanted[wanted.index(-1)] = count // rest
    fits = min(wanted, default=0) >= 0 and math.prod(wanted) == count
    c.require(fits, f"{count} elements do not fill the shape {wanted}")
    return c.b.reshape(c.plain(0), wanted)


@op("ExpandDims")
def expand_dims(c: Call) -> Result:
    x = c.tensor(0)
    at = c.axis(1, x.rank + 1)
    return c.b.reshape(c.b.plain(x), (*x.shape[:at], 1, *x.shape[at:]))


@op("Squeeze")
def squeeze(c: Call) -> Result:
    x = c.tensor(0)
    named = c.node.integers("squeeze_dims") or c.node.integers("axis")
    c.require(
        all(-x.rank <= a < x.rank for a in named),
        f"the axes {list(named)} must lie between {-x.rank} and {x.rank - 1}",
    )
    gone = {a % x.rank for a in named} or {i for i, n in enumerate(x.shape) if n == 1}
    fits = all(x.shape[a] == 1 for a in gone)
    c.require(fits, f"the axes {sorted(gone)} cannot be squeezed, as they are not all of extent 1")
    return c.b.reshape(c.b.plain(x), [n for i, n in enumerate(x.shape) if i not in gone])


@op("Fill")
def fill(c: Call) -> Result:
    wanted, dtype = c.ints(0, "the shape"), c.tensor(1).dtype
    is_modest = c.b.is_modest(wanted, dtype)
    c.require(math.prod(c.tensor(1).shape) == 1, "the value to fill with must be one number")
    known = c.tensor(1).constant
    if known is not None and is_modest:
        return c.b.constant(np.full(wanted, known.reshape(())))
    return c.b.one("Expand", c.b.reshape(c.plain(1), ()), c.b.ints(list(wanted)))


@op("BroadcastTo")
def broadcast_to(c: Call) -> Result:
    wanted, x = c.ints(1, "the shape"), c.tensor(0)
    return c.b.one("Expand", c.b.plain(x), c.b.ints(list(wanted)))


@op("Range")
def range_(c: Call) -> Result:
    start, limit, delta = (c.number(i, "a bound") for i in range(3))
    c.require(bool(delta), "delta is 0, so the range would never end")
    steps = (float(limit) - float(start)) / float(delta)
    c.require(
        math.isfinite(steps) and steps < COUNT_LIMIT,
        f"the range has {steps:g} steps, but it may have fewer than {COUNT_LIMIT}",
    )
    dtype = c.tensor(0).dtype
    if not c.b.is_modest([max(int(steps), 0)], INT64):  # as numpy makes them
        return c.b.one("Range", *(c.b.constant(n, dtype) for n in (start, limit, delta)))
    return c.b.constant(np.arange(start, limit, delta), dtype)


@op("LinSpace")
def lin_space(c: Call) -> Result:
    start, stop = (c.number(i, "a bound") for i in range(2))
    count = int(c.number(2, "the number of elements"))
    fits = count > 0 and c.b.is_modest([count], FLOAT64)
    c.require(fits, f"num is {count}, but it must be at least 1, and not so large that memory cannot hold it")
    return c.b.constant(np.linspace(start, stop, count), c.tensor(0).dtype)


@op("ListDiff", "SetDiff1D")
def list_diff(c: Call) -> Result:
    x, y = c.known(0, "a list").reshape(-1), c.known(1, "a list").reshape(-1)
    kept = [i for i, v in enumerate(x) if v not in y]
    return [c.b.constant(x[kept]), _integers(c, kept, "out_idx")]


@op("InvertPermutation")
def invert_permutation(c: Call) -> Result:
    x = c.known(0, "the permutation").reshape(-1)
    c.require(
        sorted(x.tolist()) == list(range(len(x))),
        f"the {len(x)} numbers must be a permutation of 0 to {len(x) - 1}",
    )
    return c.b.constant(np.argsort(x).astype(x.dtype))


@op("BroadcastArgs")
def broadcast_args(c: Call) -> Result:
    found = np.broadcast_shapes(c.ints(0, "a shape"), c.ints(1, "a shape"))
    return c.b.constant(np.array(found), c.tensor(0).dtype)
