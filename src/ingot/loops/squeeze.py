"""Axes of one element are no axes: generators see a stage without them."""

from __future__ import annotations

from dataclasses import replace

from ingot.formula.compute import Compute
from ingot.formula.expr import Const, substitute


def squeeze(c: Compute) -> Compute:
    """The same stage with every axis of extent 1 replaced by 0."""
    ones = {a.name: Const(0) for a in c.axes if a.extent == 1}
    r = c.reduction
    if r is not None:
        ones |= {a.name: Const(0) for a in r.axes if a.extent == 1}
        r = replace(
            r,
            axes=tuple(a for a in r.axes if a.extent != 1),
            init=substitute(r.init, ones),
            term=substitute(r.term, ones),
        )
    axes = tuple(a for a in c.axes if a.extent != 1)
    at = tuple(substitute(i, ones) for i in c.index)
    return Compute(c.out, axes, substitute(c.value, ones), r, at)
