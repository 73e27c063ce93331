"""Axes as generators want to see them: none of one element, and one for each thing an index says.

x[n, (oc // 8) * 4 + ic] for oc < 16        ->        x[n, g * 4 + ic] for g < 2, oc < 8
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ingot.formula.compute import Compute, Reduction, combined
from ingot.formula.expr import Binary, Const, Expr, Var, substitute, walk
from ingot.formula.index import simplify


def normal_axes(c: Compute, kept: Var | None = None) -> Compute:
    """The same stage with its axes split where an index divides them, and without axes of one element, but
    for the one to be `kept`.
    """
    return _squeeze(_split(c), kept)


def _squeeze(c: Compute, kept: Var | None) -> Compute:
    """Every axis of extent 1 is 0; a reduction left without axes becomes its one term."""
    ones: dict[str, Expr] = {a.name: Const(0) for a in c.axes if a.extent == 1 and a is not kept}
    r, value = c.reduction, c.value
    if r is not None:
        inner = ones | {a.name: Const(0) for a in r.axes if a.extent == 1}
        axes = tuple(a for a in r.axes if a.extent != 1)
        r = replace(r, axes=axes, init=substitute(r.init, ones), term=substitute(r.term, inner))
        if not axes:
            value, r = substitute(value, {"acc": _only_term(r)}), None
    axes = tuple(a for a in c.axes if a.name not in ones)
    at = tuple(substitute(i, ones) for i in c.index)
    return Compute(c.out, axes, substitute(value, ones), r, at)


def _only_term(r: Reduction) -> Expr:
    """0 + x == x, max(-inf, x) == x, ..."""
    is_neutral = isinstance(r.init, Const) and r.identity is not None and r.init.value == r.identity.value
    if is_neutral and not r.start:
        return r.term
    return combined(r.combine, r.init, r.term)


def _split(c: Compute) -> Compute:
    """An axis that is divided by k becomes two: x == k * x_outer + x_inner."""
    for a in (*c.axes, *(c.reduction.axes if c.reduction else ())):
        k = next(_divisors(c, a), None)
        if k is not None:
            assert isinstance(a.extent, int)
            outer, inner = Var(f"{a.name}_outer", a.extent // k), Var(f"{a.name}_inner", k)
            return _split(_replaced(c, a, (outer, inner), outer * k + inner))
    return c


def _divisors(c: Compute, a: Var) -> Iterator[int]:
    """By what an axis is divided somewhere, if that splits it evenly."""
    for e in c.expressions:
        for n in walk(e):
            if isinstance(n, Binary) and n.op in ("floordiv", "mod") and n.a == a and isinstance(n.b, Const):
                k = int(n.b.value)
                if isinstance(a.extent, int) and 1 < k < a.extent and a.extent % k == 0:
                    yield k


def _replaced(c: Compute, a: Var, parts: tuple[Var, ...], value: Expr) -> Compute:
    def put(e: Expr) -> Expr:
        return simplify(substitute(e, {a.name: value}))

    def split(axes: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(p for x in axes for p in (parts if x is a else (x,)))

    axes, r = split(c.axes), c.reduction
    if r is not None:
        r = replace(r.over(put), axes=split(r.axes))
    return Compute(c.out, axes, put(c.value), r, tuple(put(i) for i in c.index))
