"""Recognising narrow convolutions: which axis is the channel, which goes across and which down an image."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ingot.formula.compute import Compute
from ingot.formula.expr import (
    Binary,
    Const,
    Expr,
    Load,
    Var,
    loads,
    static,
)
from ingot.formula.index import Bounds, coefficient, interval, simplify
from ingot.formula.types import BOOL
from ingot.loops.access import has_vector_form, step
from ingot.loops.kernels.contraction.roles import around
from ingot.loops.kernels.naive import clip
from ingot.loops.layout import Storage, bind

MOST_TAPS = 25


@dataclass(frozen=True, slots=True)
class NarrowConvolution:
    """A matched stage: out[to] = value(init + sum of x * w). `across`: points side by side in a vector.

    `down` moves to the next row of points; the axes of `window` are unrolled, those of `rolled` are loops.
    """

    x: Load
    w: Load
    to: Load
    value: Expr
    init: Expr
    channel: Var
    across: Var
    down: Var | None
    outer: tuple[Var, ...]
    window: tuple[Var, ...]
    rolled: tuple[Var, ...]
    bounds: Bounds


def match(c: Compute, storage: Storage, bounds: Bounds) -> NarrowConvolution | None:
    """Recognise a sum of products with constant weights, and give its axes their roles."""
    r = c.reduction
    if r is None or r.combine != "sum" or not r.axes or c.out.type.compute is not c.out.type:
        return None
    if not all(isinstance(a.extent, int) for a in (*c.axes, *r.axes)) or not r.term.dtype.is_float:
        return None
    inner = {**bounds, **{a.name: interval(a) for a in (*c.axes, *r.axes)}}
    limits, term = clip(r, storage, {**bounds, **{a.name: interval(a) for a in c.axes}})
    limited = any(simplify(lo, inner) != Const(0) for lo, _ in limits.values())
    limited |= any(simplify(limits[a.name][1], inner) != Const(static(a.extent)) for a in r.axes)
    term = bind(term, storage, inner)
    if limited or not isinstance(term, Binary) or term.op != "mul":
        return None
    index = storage.layout(c.out).index(tuple(simplify(bind(i, storage, inner), inner) for i in c.index))
    to = Load(storage.tensor(c.out), tuple(simplify(i, inner) for i in index))
    value, init = bind(c.value, storage, inner), bind(r.init, storage, inner)
    if value.dtype is BOOL:
        return None  # a mask is as wide as what was compared: it chooses, and is not stored
    if any(load.tensor.pitch is not None for load in (to, *loads(value))):
        return None  # inside another tensor: a vector stays within one axis there
    for x, w in ((term.a, term.b), (term.b, term.a)):
        if isinstance(x, Load) and isinstance(w, Load) and _fits(x, w):
            roles = _roles(x, w, to, c.axes, r.axes)
            if roles is not None and has_vector_form(value) and not around(w, (*c.axes, *r.axes)):
                return NarrowConvolution(x, w, to, value, init, *roles, inner)
    return None


def _fits(x: Load, w: Load) -> bool:
    wide = all(t.type.compute is t.type for t in (x.tensor, w.tensor))
    return wide and x.tensor.value is None and w.tensor.value is not None


def _roles(
    x: Load, w: Load, to: Load, axes: tuple[Var, ...], terms: tuple[Var, ...]
) -> tuple[Var, Var, Var | None, tuple[Var, ...], tuple[Var, ...], tuple[Var, ...]] | None:
    """Channel, across, down, outer, window and rolled axes."""
    moves = {a: (step(x, a.name), step(w, a.name), step(to, a.name)) for a in (*axes, *terms)}
    if any(None in m for m in moves.values()):
        return None
    channel = next((a for a in axes if moves[a][0] == 0 and moves[a][1] and moves[a][2] == 1), None)
    if channel is None or any(moves[a][1] for a in axes if a is not channel):
        return None
    moving = [a for a in axes if (moves[a][0] or 0) > 0]
    across = next((a for a in moving if moves[a][2] == channel.extent), None)
    if across is None:
        return None
    rest = sorted((a for a in moving if a is not across), key=lambda a: moves[a][2] or 0)
    down = rest[0] if rest else None
    outer = tuple(a for a in axes if a not in (channel, across, down))
    slides = [k for k in terms if _slides(x, k, across) or (down is not None and _slides(x, k, down))]
    while prod(static(k.extent) for k in slides) > MOST_TAPS:
        slides.pop(0)
    return channel, across, down, outer, tuple(slides), tuple(k for k in terms if k not in slides)


def _slides(x: Load, k: Var, a: Var) -> bool:
    """Whether one index of the read moves with a tap and with an output axis."""
    return any(coefficient(i, k.name) and coefficient(i, a.name) for i in x.index)
