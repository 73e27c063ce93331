"""Matrix products, softmax, running sums, and the cells of recurrent nets that are one operator."""

from __future__ import annotations

from ingot.formula.types import INT32
from ingot.frontends.tensorflow.ops.elementwise import like
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
    c.require(x.rank >= 2, "a matrix is needed")
    order = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    return c.b.transposed(c.b.plain(x), order) if is_turned else c.b.plain(x)


@op("Einsum", "XlaEinsum")
def einsum(c: Call) -> Result:
    return c.b.one("Einsum", *(c.b.plain(t) for t in c.tensors), equation=c.node.text("equation"))


@op("Softmax", "LogSoftmax")
def softmax(c: Call) -> Result:
    """Along the last axis."""
    x = c.tensor(0)
    c.require(x.rank > 0, "a scalar has no last axis")
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


# ---- cells


def _affine(c: Call, parts: list[Value], w: Value, bias: Value) -> Value:
    """[parts] w + bias"""
    return c.b.one("Add", c.b.one("MatMul", c.b.one("Concat", *parts, axis=1), w), bias)


@op("LSTMBlockCell")
def lstm_cell(c: Call) -> Result:
    """Gates i, c, f, o side by side; with peepholes each sees the cell's state."""
    x, state, h, w, wci, wcf, wco, bias = (c.plain(i) for i in range(8))
    one, peephole = c.b.one, c.node.flag("use_peephole")

    def gate(value: Value, seen: Value, weight: Value) -> Value:
        return one("Sigmoid", one("Add", value, one("Mul", seen, weight)) if peephole else value)

    i, ci, f, o = c.b.many("Split", 4, _affine(c, [x, h], w, bias), axis=1, num_outputs=4)
    f = one("Add", f, like(c.b, f, c.node.number("forget_bias", 1.0)))
    i, ci, f = gate(i, state, wci), one("Tanh", ci), gate(f, state, wcf)
    cell, clip = one("Add", one("Mul", ci, i), one("Mul", state, f)), c.node.number("cell_clip", 3.0)
    if clip > 0:
        cell = one("Clip", cell, like(c.b, cell, -clip), like(c.b, cell, clip))
    o, co = gate(o, cell, wco), one("Tanh", cell)
    return [i, cell, f, o, ci, co, one("Mul", o, co)]


@op("GRUBlockCell")
def gru_cell(c: Call) -> Result:
    x, h, w_ru, w_c, b_ru, b_c = (c.plain(i) for i in range(6))
    one = c.b.one
    r, u = c.b.many("Split", 2, one("Sigmoid", _affine(c, [x, h], w_ru, b_ru)), axis=1, num_outputs=2)
    candidate = one("Tanh", _affine(c, [x, one("Mul", h, r)], w_c, b_c))
    rest = one("Sub", like(c.b, u, 1), u)
    return [r, u, candidate, one("Add", one("Mul", u, h), one("Mul", rest, candidate))]
