"""Layers with a state: LSTM and SVDF. The state is a variable of the model.

Integers of an LSTM are those of TFLite Micro's kernel: gates of 16 bits of three integer bits; their sigmoid
and tanh are lines between a table's places. In: the operator's inputs by their numbers in the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ingot.formula.types import BOOL, INT8, INT32, INT64
from ingot.frontends.builder import extents_of
from ingot.frontends.orders import Builder, like, own
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.fixed import in_float32
from ingot.frontends.tflite.ops.requantise import finished, moved, narrowed, rescaled
from ingot.frontends.tflite.ops.sigmoid16 import sigmoid16
from ingot.frontends.tflite.ops.table import NONE, TANH, Call, activated, op
from ingot.graph.ir import Value

GATES = ("input", "forget", "cell", "output")
HIDDEN, CELL = 18, 19
FINE, UNIT = 2.0**-12, 2.0**-15
"""The scales of what goes into a gate's function, and of what comes out."""


@op("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(c: Call) -> Result:
    """[batch, time, units], or time first."""
    _require_plain(c)
    x = c.tensor(0)
    c.require(x.rank == 3 and c.tensor(1).rank == 2, "a sequence has three axes")
    swapped = not c.option("time_major")
    rows = c.b.transposed(c.b.plain(x), (1, 0, 2)) if swapped else c.b.plain(x)
    made = _float_lstm(c, rows) if x.dtype.is_float else _integer_lstm(c, rows)
    return c.b.transposed(made, (1, 0, 2)) if swapped else made


def _require_plain(c: Call) -> None:
    """Raise UnsupportedError for the variants: no input gate, peepholes, projection, normalised gates."""
    if not (c.has(1) and c.has(5)):
        raise c.refuse("an LSTM without an input gate is not supported")
    if any(c.has(i) for i in (9, 10, 11, 16, 17, *range(20, 24))):
        raise c.refuse("peepholes, projections and normalised gates of an LSTM are not supported")
    if c.option("fused_activation_function") != TANH:
        raise c.refuse("an LSTM with another function than tanh is not supported")
    if c.info(1).dtype.is_float != c.tensor(0).dtype.is_float:
        raise c.refuse("an LSTM of numbers by integer weights is not supported")


def _keep(c: Call, i: int, value: Value) -> None:
    """What a run leaves in the variable that is input i."""
    shaped = c.b.reshape(value, c.info(i).shape)
    c.scope.variables.write_tensor(c.scope.subgraph.index, c.info(i), Tensor(shaped))


def _float_lstm(c: Call, rows: Value) -> Value:
    """ONNX's LSTM, whose gates are input, output, forget, cell."""
    if c.option("cell_clip"):
        return _over_time(c, rows, FloatCell)
    b, order = c.b, (0, 3, 1, 2)
    units = c.tensor(1).shape[0]
    _, batch, _ = extents_of(rows)
    w, r = (b.one("Concat", *(c.plain(k + g) for g in order), axis=0) for k in (1, 5))
    biases = [c.plain(12 + g) if c.has(12 + g) else b.constant(np.zeros(units, np.float32)) for g in order]
    bias = b.one("Concat", *biases, b.constant(np.zeros(4 * units, np.float32)), axis=0)
    states = [b.reshape(c.plain(i), (1, batch, units)) for i in (HIDDEN, CELL)]
    one = [b.reshape(v, (1, *extents_of(v))) for v in (w, r, bias)]
    y, hidden, cell = b.many("LSTM", 3, rows, *one, None, *states, hidden_size=units)
    _keep(c, HIDDEN, hidden)
    _keep(c, CELL, cell)
    return b.reshape(y, (extents_of(rows)[0], batch, units))


class Step(Protocol):
    """One step, written to a builder of the caller's choice."""

    def step(self, x: Value, hidden: Value, cell: Value) -> tuple[Value, Value]: ...


@dataclass(frozen=True, slots=True)
class FloatCell:
    """One step of numbers whose cell is clipped, which ONNX's LSTM does not know."""

    c: Call
    b: Builder

    def gate(self, g: int, x: Value, hidden: Value) -> Value:
        c, b = self.c, self.b
        sides = [b.one("MatMul", v, b.transposed(c.plain(k + g), (1, 0))) for k, v in ((1, x), (5, hidden))]
        total = b.one("Add", *sides)
        return b.one("Add", total, c.plain(12 + g)) if c.has(12 + g) else total

    def step(self, x: Value, hidden: Value, cell: Value) -> tuple[Value, Value]:
        b, clip = self.b, float(self.c.option("cell_clip"))
        gates = [self.gate(g, x, hidden) for g in range(len(GATES))]
        into, keep, new, out = (b.one("Tanh" if g == 2 else "Sigmoid", v) for g, v in enumerate(gates))
        total = b.one("Add", b.one("Mul", keep, cell), b.one("Mul", into, new))
        total = b.one("Clip", total, like(b, total, -clip), like(b, total, clip))
        return b.one("Mul", out, b.one("Tanh", total)), total


# ---- integers


@dataclass(frozen=True, slots=True)
class IntegerCell:
    """One step of int8 or int16, whose gates and cell are int16."""

    c: Call
    b: Builder

    def gate(self, g: int, x: Value, hidden: Value) -> Value:
        """A gate of 16 bits, before its function."""
        c, b = self.c, self.b
        parts = []
        for k, operand, i in ((1, x, 0), (5, hidden, HIDDEN)):
            total = self.sums(operand, b.transposed(c.plain(k + g), (1, 0)), c.scale(c.info(i))[1])
            if k == 1 and c.has(12 + g):
                assert total.type is not None, "every value of the importer is inferred"
                total = b.one("Add", total, b.cast(c.plain(12 + g), total.type))
            factor = in_float32([c.scale(c.info(i))[0], c.scale(c.info(k + g))[0]], 1) / FINE
            parts.append(self.clipped(rescaled(b, total, factor)))
        return self.clipped(b.one("Add", *parts))

    def sums(self, x: Value, weights: Value, zero: int) -> Value:
        """Exact: 32 bits of bytes, 64 of 16 bits."""
        b = self.b
        if x.type is INT8:
            return b.one("MatMulInteger", x, weights, b.constant(zero, INT8))
        centred = moved(b, b.cast(x, INT64), -zero)
        return b.one("MatMul", centred, b.cast(weights, INT64))

    def clipped(self, x: Value, most: int = 32767) -> Value:
        low = -most - 1 if most == 32767 else -most
        return self.b.one("Clip", x, like(self.b, x, low), like(self.b, x, most))

    def product(self, x: Value, y: Value, factor: float) -> Value:
        return rescaled(self.b, self.b.one("Mul", x, y), factor)

    def step(self, x: Value, hidden: Value, cell: Value) -> tuple[Value, Value]:
        """The hidden state and the cell after one step."""
        c, b = self.c, self.b
        scale = c.scale(c.info(CELL))[0]
        gates = [self.gate(g, x, hidden) for g in range(len(GATES))]
        into, keep, new, out = (sigmoid16(b, v, FINE, g == 2) for g, v in enumerate(gates))
        kept = self.clipped(self.product(keep, b.cast(cell, INT32), UNIT))
        added = self.clipped(self.product(into, new, UNIT * UNIT / scale))
        total = self.clipped(b.one("Add", kept, added))
        if clip := float(c.option("cell_clip")):
            total = self.clipped(total, int(min(clip / scale, 32767)))
        bent = sigmoid16(b, total, scale, True)
        to_scale, zero = c.scale(c.info(HIDDEN))
        shown = moved(b, self.product(bent, out, UNIT * UNIT / to_scale), zero)
        t = c.info(HIDDEN).dtype
        after = narrowed(b, shown, int(t.lowest), int(t.highest), t)
        return after, b.cast(total, c.info(CELL).dtype)


def _integer_lstm(c: Call, rows: Value) -> Value:
    """Rows and states of int8 or int16, weights of int8, cells of int16: a loop over time."""
    kinds = (c.info(0).kind, c.info(1).kind, c.info(HIDDEN).kind, c.info(CELL).kind)
    if kinds[0] not in ("INT8", "INT16") or kinds[1:] != ("INT8", kinds[0], "INT16"):
        raise c.refuse(f"an LSTM of {', '.join(kinds)} is not supported")
    return _over_time(c, rows, IntegerCell)


def _over_time(c: Call, rows: Value, kind: Callable[[Call, Builder], Step]) -> Value:
    """The hidden state of every step; the last ones are kept."""
    b, (steps, batch, width), units = c.b, extents_of(rows), c.tensor(1).shape[0]
    states = [b.reshape(c.plain(i), (batch, units)) for i in (HIDDEN, CELL)]
    if steps == 1:
        hidden, cell = kind(c, b).step(b.reshape(rows, (batch, width)), *states)
        made = b.reshape(hidden, (1, batch, units))
    else:
        hidden, cell, made = _looped(c, rows, states, kind)
    _keep(c, HIDDEN, hidden)
    _keep(c, CELL, cell)
    return made


def _looped(c: Call, rows: Value, states: list[Value], kind: Callable[[Call, Builder], Step]) -> list[Value]:
    """ONNX's Loop; the hidden states are collected."""
    b, place, label = c.b, c.b.names.place, c.b.names.label
    steps, batch, width = extents_of(rows)
    inner = b.inner(b.names.fresh(f"{place}/body"))
    turn = Value(b.names.fresh(f"{place}/time"), INT64, ())
    on = Value(b.names.fresh(f"{place}/on"), BOOL, ())
    before = [Value(b.names.fresh(f"{place}/state"), v.type, v.shape) for v in states]
    inner.graph.inputs = [turn, on, *before]
    x = inner.reshape(inner.one("Gather", rows, turn, axis=0), (batch, width))
    hidden, cell = kind(c, inner).step(x, *before)
    inner.graph.outputs = own(inner, [on, hidden, cell, hidden])
    b.names.place, b.names.label = place, label
    start = b.constant(True, BOOL)
    return b.many("Loop", 3, b.ints(steps), start, *states, body=inner.graph)


# ---- SVDF


@op("SVDF")
def svdf(c: Call) -> Result:
    """Features of the input are remembered for some steps, weighted by time, added over a filter's rank."""
    x, feature, time = (c.tensor(i) for i in range(3))
    rank = int(c.option("rank"))
    c.require(x.rank == feature.rank == time.rank == 2 and rank > 0, "matrices are needed")
    filters, memory, batch = feature.shape[0], time.shape[1], x.shape[0]
    c.require(time.shape[0] == filters and filters % rank == 0, f"{filters} filters of rank {rank}")
    if x.dtype.is_float != feature.dtype.is_float:
        raise c.refuse("an SVDF of numbers by integer weights is not supported")
    state = c.b.reshape(c.plain(4), (batch, filters, memory))
    latest = c.b.reshape(_feature(c), (batch, filters, 1))
    kept = c.b.one("Slice", state, c.b.ints([1]), c.b.ints([memory]), c.b.ints([2]))
    state = c.b.one("Concat", kept, latest, axis=2)
    _keep(c, 4, state)
    by = c.b.reshape(c.plain(2), (1, filters, memory))
    if not x.dtype.is_float:
        state = moved(c.b, c.b.cast(state, INT32), -c.scale(c.info(4))[1])
        by = c.b.cast(by, INT32)
    weighed = c.b.reshape(c.b.one("Mul", state, by), (batch, filters // rank, rank * memory))
    total = c.b.one("ReduceSum", weighed, c.b.ints([2]), keepdims=0)
    total = c.b.one("Add", total, c.plain(3)) if c.has(3) else total
    if x.dtype.is_float:
        return activated(c, Tensor(total))
    factor = in_float32([c.scale(c.info(4))[0], c.scale(c.info(2))[0]], c.scale(c.result())[0])
    return finished(c, rescaled(c.b, total, factor), c.result(), NONE)


def _feature(c: Call) -> Value:
    """The input's newest features, at the state's scale."""
    b, weights = c.b, c.b.transposed(c.plain(1), (1, 0))
    if c.tensor(0).dtype.is_float:
        return b.one("MatMul", c.plain(0), weights)
    zero = b.constant(c.scale(c.info(0))[1], c.tensor(0).dtype)
    total = b.one("MatMulInteger", c.plain(0), weights, zero)
    t = c.info(4)
    factor = in_float32([c.scale(c.info(0))[0], c.scale(c.info(1))[0]], c.scale(t)[0])
    low, high = int(t.dtype.lowest), int(t.dtype.highest)
    limited = narrowed(b, rescaled(b, total, factor), low, high, INT32)
    return b.cast(moved(b, limited, c.scale(t)[1]), t.dtype)
