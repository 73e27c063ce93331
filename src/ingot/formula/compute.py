"""Formulas: the executable meaning of an operator.

A `Formula` is an ordered list of stages over named tensors. A `Compute` gives every element of one tensor (or
of a rectangle of it) as an expression over its axes, optionally through one reduction. A `Scan` runs stages
once per step of an axis, in order; what it carries is ordinary tensors that its stages overwrite. Shapes,
reference semantics, loops, MAC counts and fusion are all read off these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

from ingot.formula.expr import (
    Binary,
    Const,
    Expr,
    Extent,
    Gathered,
    Load,
    Param,
    Tensor,
    Var,
    loads,
    measures,
    text,
    walk,
)
from ingot.formula.index import upper
from ingot.formula.types import DType

COMBINERS = {
    "sum": "add",
    "prod": "mul",
    "max": "max",
    "min": "min",
    "largest": "larger",  # the maximum of the numbers: NaN is ignored, as by IEEE 754-2008's maxNum
    "largest number": "larger",  # the same of terms that are no NaN
    "and": "and",
    "or": "or",
}
LARGEST = ("largest", "largest number")


@dataclass(frozen=True, slots=True)
class Reduction:
    """`combine` (a key of COMBINERS) over `axes` of `term`, starting from `init`; its type is the
    accumulator's.
    """

    combine: str
    axes: tuple[Var, ...]
    init: Expr
    term: Expr

    @property
    def identity(self) -> Const | None:
        """What the combiner leaves every other value as it is with; None for those of bools."""
        t = self.term.dtype
        values = {"sum": 0, "prod": 1, "max": t.lowest, "min": t.highest}
        values |= dict.fromkeys(LARGEST, t.lowest)
        if self.combine not in values:
            return None
        return Const(float(values[self.combine]) if t.is_float else int(values[self.combine]), t)

    @property
    def start(self) -> tuple[Const, ...]:
        """What terms have to be joined to before they are joined to each other: of a maximum that ignores
        NaN the identity, since the first term may be one.
        """
        return (self.identity,) if self.combine == "largest" and self.identity is not None else ()

    def over(self, change: Callable[[Expr], Expr]) -> Reduction:
        """The reduction with both of its expressions changed."""
        return replace(self, init=change(self.init), term=change(self.term))


def combined(combine: str, so_far: Expr, term: Expr) -> Expr:
    """What a reduction has after one more term. `larger` gives its second operand if the first is NaN, so a
    term goes first: what began with the identity is never NaN.
    """
    first, second = (term, so_far) if combine in LARGEST else (so_far, term)
    return Binary(COMBINERS[combine], first, second)


def chained(combine: str, parts: Iterable[Expr]) -> Expr:
    """One or more parts of a reduction, joined from the first to the last."""
    return reduce(lambda so_far, term: combined(combine, so_far, term), parts)


def accumulator(dtype: DType) -> Var:
    """The name by which a Compute's value reads the result of its reduction."""
    return Var("acc", None, dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    """out[at] = value for every point of `axes`; `at` is the axes themselves unless a part of `out` is
    written.
    """

    out: Tensor
    axes: tuple[Var, ...]
    value: Expr
    reduction: Reduction | None = None
    at: tuple[Expr, ...] = ()
    known_reads: tuple[Tensor, ...] | None = field(init=False, default=None, repr=False)

    @property
    def index(self) -> tuple[Expr, ...]:
        return self.at or self.axes

    @property
    def expressions(self) -> tuple[Expr, ...]:
        r = self.reduction
        return (self.value, *self.at) if r is None else (r.init, r.term, self.value, *self.at)


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """for axis in range(extent): run `body` in order. `carried` tensors live on from step to step.

    `active`, a bool among the carried, ends it: no step runs while it is false.
    """

    axis: Var
    body: tuple[Stage, ...]
    carried: tuple[Tensor, ...]
    active: Tensor | None = None
    known_reads: tuple[Tensor, ...] | None = field(init=False, default=None, repr=False)


Stage = Compute | Scan


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """Inputs, stages in order, outputs; every other tensor the stages write is scratch.

    `view`: the first output is this input's elements in row-major order under another shape. `cuts` are the
    stages before which an extent has been measured: what stands in front runs to its end first. `aliases` are
    stages that give strings as bytes, or bytes as strings, each with the tensor whose memory it shows.
    """

    inputs: tuple[Tensor, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[Tensor, ...]
    view: Tensor | None = None
    cuts: tuple[int, ...] = ()
    aliases: Mapping[Compute, Tensor] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[tuple[Stage, ...], ...]:
        """The stages between the cuts; each alias stands by itself."""
        shown = [i for i, s in enumerate(self.stages) if s in self.aliases]
        ends = sorted({0, *self.cuts, *shown, *(i + 1 for i in shown), len(self.stages)})
        return tuple(self.stages[a:b] for a, b in pairwise(ends))

    @property
    def computes(self) -> tuple[Compute, ...]:
        return tuple(computes(self.stages))


def copying(source: Tensor, copy: Tensor) -> Compute:
    """copy[n, c, h, w] = source[n, c, h, w]"""
    rank = source.rank
    names = ["n", "c", *["d", "h", "w"][5 - rank :]] if rank <= 5 else [f"i{d}" for d in range(rank)]
    axes = tuple(Var(name, n) for name, n in zip(names, source.shape, strict=True))
    return Compute(copy, axes, source[axes])


def computes(stages: tuple[Stage, ...]) -> Iterator[Compute]:
    """Every Compute, those inside Scans included, in the order they stand."""
    for stage in stages:
        if isinstance(stage, Scan):
            yield from computes(stage.body)
        else:
            yield stage


def reads(stage: Stage) -> tuple[Tensor, ...]:
    """The tensors a stage loads from (constants included) and those that hold its extents, repeatedly.

    Passes ask for them many times, so a stage keeps them, though it is frozen: they follow from its fields.
    """
    found = stage.known_reads
    if found is None:
        found = tuple(_reads(stage))
        object.__setattr__(stage, "known_reads", found)
    return found


def _reads(stage: Stage) -> Iterator[Tensor]:
    for s in _nested(stage):
        if isinstance(s, Scan):
            yield from measures(s.axis.extent or 0)
            yield from () if s.active is None else (s.active,)
            continue
        axes = s.axes if s.reduction is None else (*s.axes, *s.reduction.axes)
        yield from _measured((*s.out.shape, *(a.extent or 0 for a in axes)))
        for e in s.expressions:
            for n in walk(e):
                if type(n) is Load:
                    yield n.tensor
                    yield from _measured(n.tensor.shape)
                elif type(n) is Param and n.source is not None:
                    yield n.source


def _measured(extents: Iterable[Extent]) -> Iterator[Tensor]:
    """The tensors that hold extents, most of which are plain numbers."""
    for n in extents:
        if type(n) is not int:
            yield from measures(n)


def _nested(stage: Stage) -> Iterator[Stage]:
    """The stage, and those inside it."""
    yield stage
    if isinstance(stage, Scan):
        for s in stage.body:
            yield from _nested(s)


def writes(stage: Stage) -> Iterator[Tensor]:
    return (c.out for c in computes((stage,)))


def same_point(load: Load, axes: tuple[Var, ...]) -> bool:
    """Whether a load reads at `axes` themselves; along an extent of 1 the index is 0 either way."""
    if load.outside is not None or len(load.index) != len(axes):
        return False
    return all(i == a or (a.extent == 1 and i == Const(0)) for i, a in zip(load.index, axes, strict=True))


def is_one_by_one(c: Compute) -> bool:
    """Whether points may meet at one element of `out` and read what an earlier point left there."""
    gathered = any(isinstance(n, (Gathered, Load)) for i in c.at for n in walk(i))  # Load: of a constant
    return gathered and any(load.tensor is c.out for e in c.expressions for load in loads(e))


def points(axes: tuple[Var, ...]) -> int:
    """How many points the axes span, at the upper bounds."""
    total = 1
    for a in axes:
        total *= upper(a.extent if a.extent is not None else 1)
    return total


def macs(stages: tuple[Stage, ...], times: int = 1) -> int:
    """Multiply-accumulates: the points of every sum of products."""
    total = 0
    for s in stages:
        if isinstance(s, Scan):
            total += macs(s.body, times * points((s.axis,)))
        elif s.reduction is not None and s.reduction.combine == "sum" and _is_product(s.reduction.term):
            total += times * points(s.axes) * points(s.reduction.axes)
    return total


def _is_product(e: Expr) -> bool:
    from ingot.formula.expr import Binary

    return any(isinstance(n, Binary) and n.op == "mul" and n.dtype.kind in "fiu" for n in walk(e))


def formula_text(formula: Formula) -> str:
    """The text form, for dumps and golden tests."""
    head = ", ".join(f"{t.name}: {t.type}[{', '.join(map(text, t.shape))}]" for t in formula.inputs)
    lines = [f"formula({head}) -> {', '.join(t.name for t in formula.outputs)}"]
    return "\n".join([*lines, *stages_text(formula.stages, "  ")])


def stages_text(stages: tuple[Stage, ...], indent: str) -> Iterator[str]:
    """The text form of stages, a line or two each."""
    for s in stages:
        if isinstance(s, Scan):
            ends = "" if s.active is None else f" while {s.active.name}"
            yield f"{indent}scan {_axes((s.axis,))} carrying {', '.join(t.name for t in s.carried)}{ends}"
            yield from stages_text(s.body, indent + "  ")
            continue
        element = f"{s.out.name}[{', '.join(map(text, s.index))}]: {s.out.type}"
        yield f"{indent}{element} = {text(s.value)} for {_axes(s.axes)}"
        if r := s.reduction:
            yield f"{indent}  acc = {r.combine}({text(r.term)} for {_axes(r.axes)}) from {text(r.init)}"


def _axes(axes: tuple[Var, ...]) -> str:
    return ", ".join(f"{a.name} < {text(a.extent if a.extent is not None else 0)}" for a in axes) or "()"
