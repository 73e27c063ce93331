"""Axes of one element are no axes: generators see a stage without them."""

from __future__ import annotations

from dataclasses import replace

from ingot.formula.compute import COMBINERS, Compute, Reduction
from ingot.formula.expr import Binary, Const, Expr, substitute


def squeeze(c: Compute) -> Compute:
    """The same stage with every axis of extent 1 replaced by 0; a reduction left without axes becomes its one term."""
    ones: dict[str, Expr] = {a.name: Const(0) for a in c.axes if a.extent == 1}
    r, value = c.reduction, c.value
    if r is not None:
        inner = ones | {a.name: Const(0) for a in r.axes if a.extent == 1}
        axes = tuple(a for a in r.axes if a.extent != 1)
        r = replace(r, axes=axes, init=substitute(r.init, ones), term=substitute(r.term, inner))
        if not axes:
            value, r = substitute(value, {"acc": _only_term(r)}), None
    axes = tuple(a for a in c.axes if a.extent != 1)
    at = tuple(substitute(i, ones) for i in c.index)
    return Compute(c.out, axes, substitute(value, ones), r, at)


def _only_term(r: Reduction) -> Expr:
    """0 + x == x, max(-inf, x) == x, ..."""
    identity = {"sum": 0, "prod": 1, "max": r.term.dtype.lowest, "min": r.term.dtype.highest}.get(r.combine)
    if isinstance(r.init, Const) and r.init.value == identity:
        return r.term
    return Binary(COMBINERS[r.combine], r.init, r.term)
