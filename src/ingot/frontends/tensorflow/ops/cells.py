"""The cells of recurrent nets that are one operator, for a step or for a sequence."""

from __future__ import annotations

from dataclasses import dataclass

from ingot.frontends.orders import like, sliced
from ingot.frontends.tensorflow.ops.movement import stacked
from ingot.frontends.tensorflow.ops.table import Call, Result, op
from ingot.frontends.tensorflow.values import Tensor
from ingot.graph.ir import Value

STEPS_LIMIT = 4096


def _affine(c: Call, parts: list[Value], w: Value, bias: Value) -> Value:
    """[parts] w + bias"""
    return c.b.one("Add", c.b.one("MatMul", c.b.one("Concat", *parts, axis=1), w), bias)


@dataclass(frozen=True, slots=True)
class Lstm:
    """An LSTM's weights. `gates` is the order in which they lie side by side in the matrix."""

    c: Call
    w: Value
    peepholes: tuple[Value, Value, Value] | None
    bias: Value
    gates: str
    clip: float
    forget: float

    def step(self, x: Value, state: Value, h: Value) -> list[Value]:
        """i, cs, f, o, ci, co, h"""
        b, one = self.c.b, self.c.b.one
        product = _affine(self.c, [x, h], self.w, self.bias)
        z = dict(zip(self.gates, b.many("Split", 4, product, axis=1, num_outputs=4), strict=True))
        seen = self.peepholes or (None, None, None)

        def gate(value: Value, of: Value, weight: Value | None) -> Value:
            return one("Sigmoid", value if weight is None else one("Add", value, one("Mul", of, weight)))

        forget = one("Add", z["f"], like(b, z["f"], self.forget))
        i, ci, f = gate(z["i"], state, seen[0]), one("Tanh", z["c"]), gate(forget, state, seen[1])
        cell = one("Add", one("Mul", ci, i), one("Mul", state, f))
        if self.clip > 0:
            cell = one("Clip", cell, like(b, cell, -self.clip), like(b, cell, self.clip))
        o, co = gate(z["o"], cell, seen[2]), one("Tanh", cell)
        return [i, cell, f, o, ci, co, one("Mul", o, co)]


def _lstm(c: Call, first: int, gates: str, clip: float, forget: float) -> Lstm:
    """The weights from input `first` on: w, wci, wcf, wco, bias. The numbers are defaults."""
    w, wci, wcf, wco, bias = (c.plain(i) for i in range(first, first + 5))
    peepholes = (wci, wcf, wco) if c.node.flag("use_peephole") else None
    return Lstm(
        c, w, peepholes, bias, gates, c.node.number("cell_clip", clip), c.node.number("forget_bias", forget)
    )


@op("LSTMBlockCell")
def lstm_cell(c: Call) -> Result:
    """x, cs_prev, h_prev and the weights."""
    return list(_lstm(c, 3, "icfo", 3.0, 1.0).step(c.plain(0), c.plain(1), c.plain(2)))


@op("BlockLSTM", "BlockLSTMV2")
def lstm_sequence(c: Call) -> Result:
    """seq_len_max, x [steps, batch, inputs], cs_prev, h_prev and the weights; V2 adds no forget bias."""
    steps, x = int(c.number(0, "the number of steps")), c.tensor(1)
    c.require(x.rank == 3, "x must have three axes: steps, batch and inputs")
    most = min(x.shape[0], STEPS_LIMIT)
    c.require(0 < steps <= most, f"seq_len_max is {steps}, but it must lie between 1 and {most}")
    is_new = c.node.op == "BlockLSTMV2"
    lstm = _lstm(c, 4, "ifco" if is_new else "icfo", 0.0 if is_new else 3.0, 0.0 if is_new else 1.0)
    state, h, made = c.plain(2), c.plain(3), []
    for t in range(steps):
        part = sliced(c.b, c.b.plain(x), [t, 0, 0], [t + 1, *x.shape[1:]], [1] * 3)
        row = lstm.step(c.b.reshape(part, x.shape[1:]), state, h)
        state, h = row[1], row[6]
        made.append(row)
    zeros = c.b.filled(c.tensor(3).shape, 0, c.tensor(3).dtype)
    rest = [[zeros] * 7] * (x.shape[0] - steps)  # beyond the sequence
    columns = zip(*made, *rest, strict=True)
    return [stacked(c, [Tensor(v) for v in column], 0) for column in columns]


@op("GRUBlockCell")
def gru_cell(c: Call) -> Result:
    """x, h_prev, w_ru, w_c, b_ru, b_c"""
    x, h, w_ru, w_c, b_ru, b_c = (c.plain(i) for i in range(6))
    one = c.b.one
    r, u = c.b.many("Split", 2, one("Sigmoid", _affine(c, [x, h], w_ru, b_ru)), axis=1, num_outputs=2)
    candidate = one("Tanh", _affine(c, [x, one("Mul", h, r)], w_c, b_c))
    rest = one("Sub", like(c.b, u, 1), u)
    return [r, u, candidate, one("Add", one("Mul", u, h), one("Mul", rest, candidate))]
