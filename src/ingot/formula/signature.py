"""What stages do, apart from the tensors they do it to.

In: stages. Out: a hashable signature and the tensors it numbers, in order of appearance. Stages of equal
signatures are the same up to their tensors; lowering makes one kernel of those whose tensors are alike too.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from ingot.formula.compute import Compute, Scan, Stage
from ingot.formula.expr import (
    Binary,
    Bitcast,
    Cast,
    Const,
    Expr,
    Gathered,
    Joined,
    Lane,
    Load,
    Param,
    Tensor,
    Text,
    Unary,
    Var,
    children,
)


def signature(stages: tuple[Stage, ...]) -> tuple[Hashable, tuple[Tensor, ...]]:
    """Equal for stages that differ in their tensors only."""
    spelling = _Spelling()
    spelling.stages(stages)
    return tuple(spelling.words), tuple(spelling.numbers)


@dataclass(slots=True)
class _Spelling:
    """Stages as words: each kind of node tells what follows it, so that they read one way only."""

    words: list[Hashable] = field(default_factory=list)
    numbers: dict[Tensor, int] = field(default_factory=dict)

    def stages(self, stages: tuple[Stage, ...]) -> None:
        self.words.append(len(stages))
        for s in stages:
            if isinstance(s, Scan):
                self.words += ("scan", len(s.carried), *map(self.tensor, s.carried))
                self.words.append(s.active and self.tensor(s.active))
                self.expression(s.axis)
                self.stages(s.body)
            else:
                self.compute(s)

    def compute(self, c: Compute) -> None:
        r = c.reduction
        over = () if r is None else r.axes
        self.words += (self.tensor(c.out), r and r.combine, len(c.axes), len(over), len(c.at))
        for e in (*c.axes, *over, *c.expressions):
            self.expression(e)

    def expression(self, e: Expr) -> None:
        """The node by itself, then its children."""
        self.words.append(type(e).__name__)
        match e:
            case Const(value, dtype) | Text(value, dtype):
                self.words += (repr(value), dtype.name)  # the text tells 0.0 from -0.0, which are equal
            case Var(name, extent, dtype):
                self.words += (name, dtype.name, extent is None or isinstance(extent, int))
                self.expression(extent) if isinstance(extent, Expr) else self.words.append(extent)
            case Param(name, lo, hi):
                self.words += (name, lo, hi)
            case Unary(op, _) | Binary(op, _, _):
                self.words.append(op)
            case Gathered(error=error):
                self.words.append(error)
            case Cast(_, dtype) | Bitcast(_, dtype) | Joined(_, dtype):
                self.words.append(dtype.name)
            case Load(tensor, _, outside, lanes):
                self.words += (self.tensor(tensor), outside is None, lanes)
            case Lane(_, lane, lanes):
                self.words += (lane, lanes)
        for child in children(e):
            self.expression(child)

    def tensor(self, t: Tensor) -> int:
        return self.numbers.setdefault(t, len(self.numbers))
