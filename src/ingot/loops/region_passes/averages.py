"""Averages over windows multiply by the share of an element, and do not divide by a count.

    sum(x[..]) / 9               ->    sum(x[..]) * 0.111..
    sum(x[..]) / taps(oh, ow)    ->    sum(x[..]) * (1 / taps(oh, ow))

A division of vectors takes as long as ten additions. The share of a point is the same for all its channels,
or stands in a table (`place_tables`). In: a fused region. Out: the same region. A result differs from the
quotient by one unit in the last place: `--math exact` leaves this out, and so it is with what is rounded to
integers.
"""

from __future__ import annotations

from dataclasses import replace

from ingot.formula.compute import Compute
from ingot.formula.expr import Binary, Cast, Const, Expr, Load, Unary, transform, walk
from ingot.formula.index import mentions
from ingot.loops.access import SUM
from ingot.loops.region import Region, replace_computes


def multiply_averages(region: Region) -> Region:
    """Rewrite in place, regions of branches and loops included, and return the region."""
    return replace_computes(region, _with_shares)


def _with_shares(c: Compute) -> Compute:
    r = c.reduction
    if r is None or r.combine != "sum" or not isinstance(r.term, Load) or not _slides(c, r.term):
        return c
    if not c.out.type.is_float or any(_is_rounded(e) for e in walk(c.value)):
        return c
    return replace(c, value=transform(c.value, _product))


def _slides(c: Compute, x: Load) -> bool:
    """Whether some index moves with a tap and with an axis of the result."""
    assert c.reduction is not None
    taps = {k.name for k in c.reduction.axes}
    return any(
        any(mentions(i, k) for k in taps) and any(mentions(i, a.name) for a in c.axes) for i in x.index
    )


def _is_rounded(e: Expr) -> bool:
    return (isinstance(e, Unary) and "round" in e.op) or (isinstance(e, Cast) and not e.type.is_float)


def _product(e: Expr) -> Expr | None:
    match e:
        case Binary("div", a, Const(n)) if n and mentions(a, SUM):
            return a * Const(1 / n, e.dtype)
        case Binary("div", a, Cast(n) as count) if not n.dtype.is_float and mentions(a, SUM):
            return a * (Const(1.0, e.dtype) / count)
    return None
