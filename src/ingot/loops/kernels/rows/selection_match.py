"""Recognising the stages of TopK's definition.

In: three stages and their storage. Out: a `Selection`, or None. Asked by the selection builder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingot.formula.compute import Compute, Reduction, Scan, Stage
from ingot.formula.expr import Expr, Load, Select, Tensor, Var, static, transform
from ingot.formula.index import Bounds, interval, simplify
from ingot.formula.signature import signature
from ingot.formula.types import FLOAT32
from ingot.loops.layout import Storage, bind
from ingot.ops.order import top_stages


@dataclass(frozen=True, slots=True)
class Selection:
    """The matched stages: loads bound to physical tensors, `i` walks a row, `step` the results of one."""

    x: Load
    values: Load
    places: Load
    rest: tuple[Var, ...]
    i: Var
    step: Var
    largest: bool
    bounds: Bounds

    @property
    def n(self) -> int:
        return static(self.i.extent)

    @property
    def k(self) -> int:
        return static(self.step.extent)


def match(stages: tuple[Stage, ...], storage: Storage, bounds: Bounds) -> Selection | None:
    """The stages as a selection, if they are the definition's for some tensor, axis and k."""
    *_, scan = stages
    first = scan.body[0] if isinstance(scan, Scan) else None
    if not isinstance(scan, Scan) or not isinstance(first, Compute) or first.reduction is None:
        return None
    term, axes = first.reduction.term, (*first.axes, *first.reduction.axes)
    puts = [s for s in scan.body if isinstance(s, Compute) and scan.axis in s.at]
    known = all(isinstance(a.extent, int) for a in (*axes, scan.axis))
    if len(puts) != 2 or len(first.reduction.axes) != 1 or not known or not isinstance(term, Select):
        return None
    if not isinstance(term.a, Load) or term.a.dtype is not FLOAT32 or term.a.tensor.type is not FLOAT32:
        return None
    largest = first.reduction.combine == "max"
    if not _is_definition(stages, term.a, first.reduction, first.axes, puts[0], scan, largest):
        return None
    inner = {**bounds, **{a.name: interval(a) for a in (*axes, scan.axis)}}

    def bound(e: Load) -> Load:
        made = bind(e, storage, inner)
        assert isinstance(made, Load)
        return replace(made, index=tuple(simplify(i, inner) for i in made.index))

    x, values, places = (bound(e) for e in (term.a, *(Load(p.out, p.at) for p in puts)))
    return Selection(x, values, places, first.axes, *first.reduction.axes, scan.axis, largest, inner)


def _is_definition(
    stages: tuple[Stage, ...],
    element: Load,
    r: Reduction,
    rest: tuple[Var, ...],
    put: Compute,
    scan: Scan,
    largest: bool,
) -> bool:
    """Whether the stages are those of `ops/order.py`, whatever element stands where theirs does."""
    a = put.at.index(scan.axis)
    shape = [v.extent or 0 for v in rest]
    shape.insert(a, r.axes[0].extent or 0)
    x = Tensor("x", element.tensor.type, tuple(shape))
    plain = x.at((*rest[:a], r.axes[0], *rest[a:]))
    written = tuple(_with_element(s, element, plain) for s in stages)
    return signature(written)[0] == signature(top_stages(x, a, scan.axis.extent or 0, largest))[0]


def _with_element(s: Stage, element: Load, plain: Load) -> Stage:
    def put(e: Expr) -> Expr:
        return transform(e, lambda n: plain if n == element else None)

    if isinstance(s, Scan):
        return replace(s, body=tuple(_with_element(c, element, plain) for c in s.body))
    return replace(s, value=put(s.value), reduction=s.reduction and s.reduction.over(put))
