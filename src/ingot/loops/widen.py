"""A region as it would be without rounding, and as it rounds at its worst: for the evaluator alone, which
`ingot verify` asks who is off.

    y = float16(sum(x * w)) + b        x, w, b: float16
    widened:     y = sum(x * w) + b                        x, w, b: float64
    in_turn:     y = float16(running_sum(x * w)) + b       x, w, b: float16

In: a formulated region; out: another one. Floats of 16 and 32 bits become float64, constants exactly, and
conversions between them disappear: rounding is what is to be measured. Floats of 8 bits and below are codes,
as integers are, and stay; so does what takes a float's bits apart. A running sum adds one element after the
other, as a plain loop does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ingot.formula.compute import Compute, Reduction, Scan, Stage
from ingot.formula.expr import Bitcast, Cast, Const, Entry, Expr, Load, Tensor, Var, cast, rebuild
from ingot.formula.types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from ingot.loops.region import Either, Group, Item, Iterate, Region

ROUNDED = (FLOAT32, FLOAT16, BFLOAT16)


def widened(region: Region) -> Region:
    """The region in float64; inputs and outputs stand in the same order."""
    return _Rewriting(ROUNDED, "sum").region(region)


def in_turn(region: Region) -> Region:
    """The region, over the same tensors, with sums that add in turn."""
    return _Rewriting((), "running sum").region(region)


@dataclass(slots=True)
class _Rewriting:
    """`rounded` types become float64, sums `sum`; `tensors`: what stands for each tensor of these types."""

    rounded: tuple[DType, ...]
    sum: str
    tensors: dict[Tensor, Tensor] = field(default_factory=dict)

    def region(self, r: Region) -> Region:
        return Region(self.all(r.inputs), self.all(r.outputs), [self.item(i) for i in r.items])

    def item(self, item: Item) -> Item:
        match item:
            case Group(nodes, stages):
                return Group(nodes, tuple(map(self.stage, stages)))
            case Either(nodes, condition, then, other, results):
                sides = self.region(then), self.region(other)
                return Either(nodes, self.tensor(condition), *sides, self.all(results))
            case Iterate():
                return replace(
                    item,
                    initial=self.all(item.initial),
                    results=tuple(map(self.optional, item.results)),
                    stacked=tuple(map(self.optional, item.stacked)),
                    body=self.region(item.body),
                )

    def stage(self, s: Stage) -> Stage:
        if isinstance(s, Scan):
            return replace(s, body=tuple(map(self.stage, s.body)), carried=self.all(s.carried))
        r = s.reduction
        if r is not None:
            combine = self.sum if r.combine == "sum" else r.combine
            r = Reduction(combine, r.axes, self.expression(r.init), self.expression(r.term))
        at = tuple(map(self.expression, s.at))
        return Compute(self.tensor(s.out), s.axes, self.expression(s.value), r, at)

    def expression(self, e: Expr) -> Expr:
        match e:
            case Const(value, t) if t in self.rounded:
                return Const(value, FLOAT64)
            case Var(name, extent, t) if t in self.rounded:
                return Var(name, extent, FLOAT64)
            case Load(tensor, index, outside):
                other = None if outside is None else self.expression(outside)
                return Load(self.tensor(tensor), tuple(map(self.expression, index)), other)
            case Cast(a, t) if t in self.rounded:
                return cast(self.expression(a), FLOAT64)
            case Entry(values, index, t) if t in self.rounded:
                return Entry(values, self.expression(index), FLOAT64)
            case Bitcast(a, t):
                bits = Bitcast(cast(self.expression(a), a.dtype), t)
                return cast(bits, FLOAT64 if t in self.rounded else t)
        return rebuild(e, self.expression)

    def tensor(self, t: Tensor) -> Tensor:
        if t.type not in self.rounded:
            return t
        if t not in self.tensors:
            value = None if t.value is None else np.asarray(t.value, np.float64)
            self.tensors[t] = Tensor(t.name, FLOAT64, t.shape, value)
        return self.tensors[t]

    def optional(self, t: Tensor | None) -> Tensor | None:
        return None if t is None else self.tensor(t)

    def all(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(map(self.tensor, tensors))
