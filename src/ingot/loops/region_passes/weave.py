"""Phases of a result made side by side in one tensor, and woven into the result.

    y[2 * q], y[2 * q + 1]          what two stages store with gaps
    y_phases[a, q]                  the same, without gaps
    y[2 * q + a] = y_phases[a, q]   elements of two rows side by side: `interleave` writes them in vectors

In: stages that store one tensor with gaps, every element of it. Out: where each of them stores instead, and
the stages that weave. Where the stride does not divide an extent the last phases are shorter by one: what is
woven are rectangles, each of elements with the same phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ingot.formula.compute import Compute
from ingot.formula.expr import Expr, Tensor, Var, static, substitute
from ingot.formula.index import coefficient, linear

Offsets = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Phases:
    """What lies in `tensor`: out[n, c, strides * q + a] for all a and q, as tensor[n, c, *a, *q]."""

    out: Tensor
    tensor: Tensor
    strides: Offsets

    def index(self, at: tuple[Expr, ...], a: tuple[Expr, ...] | Offsets) -> tuple[Expr, ...]:
        """Where the element `at`, (n, c, *q), of the phase `a` lies."""
        return self.tensor.at((*at[:2], *a, *at[2:])).index

    def stored(self, stage: Compute) -> Compute:
        """The stage, storing its phase instead of the result."""
        return replace(stage, out=self.tensor, at=self.index(stage.axes, offsets(stage)))


def phases_of(stages: Sequence[Compute], tensor: Tensor | None = None) -> Phases | None:
    """The phases that stages make, or None where they do not store all elements of one tensor with gaps.

    `tensor`, if it has the shape: the phases lie there.
    """
    out, rank = stages[0].out, stages[0].out.rank
    if any(s.out is not out or len(s.axes) != rank or len(s.at) != rank for s in stages):
        return None
    strides = {tuple(coefficient(i, a.name) for i, a in zip(s.at, s.axes, strict=True)) for s in stages}
    (first, *others) = strides
    if others or rank < 3 or first[:2] != (1, 1) or not all(first):
        return None
    steps = tuple(step or 1 for step in first[2:])
    sizes, found = tuple(map(static, out.shape)), {offsets(s): s for s in stages}
    if found.keys() != set(product(*map(range, steps))) or len(found) != len(stages):
        return None
    for a, s in found.items():
        counts = (-(-(n - lo) // step) for n, lo, step in zip(sizes[2:], a, steps, strict=True))
        if tuple(static(x.extent) for x in s.axes) != (*sizes[:2], *counts):
            return None
    longest = (-(-n // step) for n, step in zip(sizes[2:], steps, strict=True))
    shape = (*sizes[:2], *steps, *longest)
    if tensor is None:
        tensor = Tensor(f"{out.name}_phases", out.type, shape)
    return Phases(out, tensor, steps) if tensor.shape == shape else None


def offsets(stage: Compute) -> Offsets:
    """Where a phase begins in every spatial dimension."""
    return tuple(linear(i).get(None, 0) for i in stage.at[2:])


def woven(p: Phases, value: Expr | None = None) -> Iterator[Compute]:
    """The stages that weave phases into the result; `value` is what becomes of each, which it calls acc."""
    sizes = tuple(map(static, p.out.shape))
    n, oc = (Var(name, size) for name, size in zip(("n", "oc"), sizes, strict=False))
    for sides in product(*map(_runs, sizes[2:], p.strides)):
        q = [Var(f"q{d}", count) for d, (_, count, _) in enumerate(sides)]
        a = [Var(f"a{d}", phases) for d, (_, _, phases) in enumerate(sides)]
        at = [v + first for v, (first, _, _) in zip(q, sides, strict=True)]
        to = (step * i + v for step, i, v in zip(p.strides, at, a, strict=True))
        element = p.tensor[p.index((n, oc, *at), tuple(a))]
        made = element if value is None else substitute(value, {"acc": element})
        axes = (n, oc, *(v for pair in zip(q, a, strict=True) for v in pair))
        yield Compute(p.out, axes, made, None, (n, oc, *to))


def _runs(size: int, stride: int) -> list[tuple[int, int, int]]:
    """(first, count, phases): neighbours along one dimension that have the same phases."""
    whole, rest = divmod(size, stride)
    return [(0, whole, stride)] * bool(whole) + [(whole, 1, rest)] * bool(rest)
