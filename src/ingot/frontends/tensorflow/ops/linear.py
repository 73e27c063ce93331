"""Matrix products, softmax, running sums."""

from __future__ import annotations

from ingot.formula.types import INT32
from ingot.frontends.orders import like
from ingot.frontends.tensorflow.ops.table import Call, Result, op
from ingot.frontends.tensorflow.values import Tensor
from ingot.graph.ir import Value


@op("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def matmul(c: Call) -> Result:
    first, second = ("transpose_a", "transpose_b") if c.node.op == "MatMul" else ("adj_x", "adj_y")
    a, b = (_turned(c, i, c.node.flag(name)) for i, name in enumerate((first, second)))
    return Tensor(c.b.one("MatMul", a, b))


def _turned(c: Call, i: int, is_turned: bool) -> Value:
    x = c.tensor(i)
    c.require(x.rank >= 2, f"input {i} must be a matrix, with at least two axes, but it has {x.rank}")
    order = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    return c.b.transposed(c.b.plain(x), order) if is_turned else c.b.plain(x)


@op("Einsum", "XlaEinsum")
def einsum(c: Call) -> Result:
    return c.b.one("Einsum", *(c.b.plain(t) for t in c.tensors), equation=c.node.text("equation"))


@op("Softmax", "LogSoftmax")
def softmax(c: Call) -> Result:
    """Along the last axis."""
    x = c.tensor(0)
    c.require(x.rank > 0, "the input is a scalar, which has no last axis to go along")
    axis = x.order[-1] if x.order else x.rank - 1
    return Tensor(c.b.one(c.node.op, x.value, axis=axis), x.order)


@op("L2Loss")
def l2_loss(c: Call) -> Result:
    x = c.plain(0)
    axes = c.b.ints(list(range(c.tensor(0).rank)))
    return c.b.one("Mul", c.b.one("ReduceSumSquare", x, axes, keepdims=0), like(c.b, x, 0.5))


@op("Cumsum")
def cumsum(c: Call) -> Result:
    how = {"exclusive": int(c.node.flag("exclusive")), "reverse": int(c.node.flag("reverse"))}
    axis = c.axis(1, c.tensor(0).rank)
    return c.b.one("CumSum", c.plain(0), c.b.constant(axis, INT32), **how)


@op("TopKV2", "TopK")
def top_k(c: Call) -> Result:
    k = c.ints(1, "k") if c.node.op == "TopKV2" else (c.node.integer("k", 1),)
    values, indices = c.b.many("TopK", 2, c.plain(0), c.b.ints(list(k)), axis=-1)
    return [values, c.b.cast(indices, INT32)]
