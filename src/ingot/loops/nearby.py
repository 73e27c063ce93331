"""Expressions at neighbouring points: variables moved by constants, many times over, cheaply.

In: an expression and names of variables. Out: a function from offsets to the expression at that point,
indices in normal form. A linear form is taken once; each point only adds to its constant. Register tiles
repeat their loads and epilogues so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ingot.formula.expr import Const, Expr, Var, children, rebuild, substitute
from ingot.formula.index import Bounds, from_linear, linear, mentions, simplify
from ingot.formula.types import INDEX

Place = Callable[[Mapping[str, int]], Expr]


def placer(e: Expr, names: Sequence[str], bounds: Bounds, fixed: Sequence[str] = ()) -> Place:
    """The expression as a function of how far each of the named variables is moved.

    Those that are `fixed` too have no value of their own: they become their offset.
    """
    used = [n for n in names if mentions(e, n)]
    if not used:
        return lambda offsets: e
    if e.dtype is INDEX:
        return _index(e, used, bounds, fixed)
    places = [placer(child, used, bounds, fixed) for child in children(e)]

    def at(offsets: Mapping[str, int]) -> Expr:
        new = iter(places)
        return rebuild(e, lambda _: next(new)(offsets))

    return at


def _index(e: Expr, names: Sequence[str], bounds: Bounds, fixed: Sequence[str]) -> Place:
    form = linear(e)
    scales = {n: form.get(Var(n), 0) for n in names}
    stays = {a: c for a, c in form.items() if not (isinstance(a, Var) and a.name in fixed)}
    opaque = any(not isinstance(a, Var) and mentions(a, n) for a in form if a is not None for n in names)

    def moved(offsets: Mapping[str, int]) -> Expr:
        extra = sum(scales[n] * offsets.get(n, 0) for n in names)
        if not extra and len(stays) == len(form):
            return e
        return from_linear(stays | {None: form.get(None, 0) + extra})

    def substituted(offsets: Mapping[str, int]) -> Expr:
        origins = {n: Const(0) if n in fixed else Var(n) for n in names}
        return simplify(substitute(e, {n: o + offsets.get(n, 0) for n, o in origins.items()}), bounds)

    return substituted if opaque else moved
