"""The elementwise generator: every lane does the same thing at its own place.

Serves elementwise maps, depthwise convolutions, pooling and reductions over outer axes: along the vector axis
the output and every operand either move by one element or stay. A reduction keeps a tile of accumulators
along a second axis, so that what neighbouring outputs share (weights, overlapping windows) is loaded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from ingot.formula.compute import Compute, Reduction
from ingot.formula.expr import (
    Const,
    Expr,
    Load,
    Var,
    loads,
    static,
    substitute,
    transform,
    walk,
)
from ingot.formula.index import Bounds, interval, mentions, simplify
from ingot.formula.statements import For, Let, Statement, Store
from ingot.formula.types import BOOL, INDEX
from ingot.loops.access import NotVectorizable, align_constants, has_vector_form, step, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.cuts import in_vectors
from ingot.loops.edges import is_made_at_ends
from ingot.loops.kernels.joint_axes import join
from ingot.loops.kernels.naive import accumulate, clip, nested
from ingot.loops.layout import Storage, bind, destination
from ingot.loops.requantise import in_integers
from ingot.targets.record import Target

LONG = 16  # vectors in a row: what is left over behind them counts little
TILE = 4
VECTORS = 8  # accumulators of a reduction that has no tile
UNROLLED_TAPS = 8
IN_FLIGHT = 8  # results of a reduction under way at once: hides the latency of an addition


@dataclass(frozen=True, slots=True)
class Vertical:
    """A matched stage: loads bound to physical tensors, limits clipped to what lies inside."""

    to: Load
    value: Expr
    reduction: Reduction | None
    limits: dict[str, tuple[Expr, Expr]]
    vector: Var
    outer: tuple[Var, ...]
    bounds: Bounds
    beyond: Const | None = None
    """What operands are outside of their rows, where vectors of them have to be put together."""


def elementwise(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> tuple[Statement, ...] | None:
    """Statements with vectors along one axis, or None if no axis allows them."""
    if target.vector_bytes == 0 or c.out.type.kind not in "iuf" or c.out.type.compute is not c.out.type:
        return None
    found = match(normal_axes(c), storage, bounds)
    if found is None:
        return None
    found = _lengthened(found, storage, target)
    lanes = _lanes(found, target)
    try:
        return None if lanes == 1 else tuple(_loops(found, lanes))
    except NotVectorizable:
        return None


def match(c: Compute, storage: Storage, bounds: Bounds, most_apart: int = 0) -> Vertical | None:
    """Bind the stage and find the axis along which everything moves by one or stays. What lies `beyond` the
    rows along that axis is left to the caller, if that is the same everywhere, of windows that are up to
    `most_apart` elements apart.
    """
    r = c.reduction
    axes = (*c.axes, *(r.axes if r else ()))
    if not c.axes or not all(isinstance(a.extent, int) for a in axes):
        return None
    inner = {**bounds, **{a.name: interval(a) for a in axes}}
    to = destination(c, storage, inner)
    candidates = [x for x in c.axes if step(to, x.name) == 1]
    if not candidates:
        return None
    x = max(candidates, key=lambda a: static(a.extent))
    limits: dict[str, tuple[Expr, Expr]] = {}
    beyond = _around_rows(r, x, storage, most_apart) if r is not None and most_apart else None
    if r is not None:
        along = "" if beyond is None else x.name
        limits, term = clip(r, storage, {**bounds, **{a.name: interval(a) for a in c.axes}}, along)
        limits = {k: (simplify(lo, inner), simplify(hi, inner)) for k, (lo, hi) in limits.items()}
        r = Reduction(r.combine, r.axes, bind(r.init, storage, inner), bind(term, storage, inner))
    value = bind(c.value, storage, inner)
    if not has_vector_form(value, x.name) or (r and not all(map(has_vector_form, (r.init, r.term)))):
        return None  # terms are loaded before a condition chooses
    if any(mentions(e, x.name) for pair in limits.values() for e in pair):
        return None
    value = in_integers(align_constants(value, x.name, storage))
    if r is not None:
        r = replace(
            r, term=align_constants(r.term, x.name, storage), init=align_constants(r.init, x.name, storage)
        )
    return Vertical(to, value, r, limits, x, tuple(a for a in c.axes if a is not x), inner, beyond)


def _around_rows(r: Reduction, x: Var, storage: Storage, most_apart: int) -> Const | None:
    """What the one operand with an outside is beyond its rows; None where vectors along x must not leave
    them, or memory holds something else around them.
    """
    guarded = [load for load in loads(r.term) if load.outside is not None]
    if len(guarded) != 1 or not is_made_at_ends(r, guarded[0], x, most_apart=most_apart):
        return None
    (load,) = guarded
    layout, fill = storage.layout(load.tensor), load.outside
    (d,) = (d for d, i in enumerate(load.index) if mentions(i, x.name))
    assert isinstance(fill, Const)
    is_other = layout.fill != fill.value and (layout.before[d] or layout.after[d])
    return None if is_other else fill


def _lengthened(v: Vertical, storage: Storage, target: Target) -> Vertical:
    """The vector axis made one with the axis around it while it is short and leaves a rest: 14 rows of 14
    elements are 196 elements, which are twelve vectors and a quarter.
    """
    x, lanes = v.vector, target.lanes(_widest(v))
    n = static(x.extent)
    around = [a for a in v.outer if step(v.to, a.name) == n]
    if not around or n % lanes == 0 or n >= LONG * lanes or (v.limits and _limited(v, around[0])):
        return v
    outer, r = around[0], v.reduction
    joint = join(outer, x, (v.to, v.value, *((r.init, r.term) if r else ())), storage, v.bounds)
    if joint is None:
        return v
    axis, (to, value, *sums) = joint
    assert isinstance(to, Load)
    reduction = replace(r, init=sums[0], term=sums[1]) if r else None
    rest, bounds = tuple(a for a in v.outer if a is not outer), {**v.bounds, axis.name: interval(axis)}
    longer = replace(v, to=to, value=value, reduction=reduction, vector=axis, outer=rest, bounds=bounds)
    return _lengthened(longer, storage, target)


def _lanes(v: Vertical, target: Target) -> int:
    most = target.lanes(_widest(v))
    n = static(v.vector.extent)
    while most > 1 and most > n:
        most //= 2
    return most


def _widest(v: Vertical) -> int:
    """Bytes of the widest number that a lane holds on its way."""
    parts = (v.to, v.value, *((v.reduction.init, v.reduction.term) if v.reduction else ()))
    return max(n.dtype.bytes for e in parts for n in walk(e) if n.dtype not in (INDEX, BOOL))


def _loops(v: Vertical, lanes: int) -> Iterator[Statement]:
    """Vectors of all widths that the axis needs, inside the other axes."""
    outer = sorted(v.outer, key=lambda a: step(v.to, a.name) or 0)
    if v.reduction is not None and outer and not _limited(v, outer[0]):
        nest = _tiled(v, outer.pop(0), lanes)
    else:
        nest = tuple(_across(v, lanes))
    yield from nested(outer[::-1], nest)


def _across(
    v: Vertical, lanes: int, points: list[dict[str, Expr]] | None = None, tile: int = 1
) -> Iterator[Statement]:
    """The loops over the vector axis; a reduction of one output at a time takes several vectors at once.

    `tile`: how many points a whole tile has. All outputs add in one order, those of the tails too: equal
    channels must stay equal, for a softmax of large values tells the last bit.
    """
    x = v.vector
    segments = in_vectors(static(x.extent), lanes, overlap=not _may_overwrite(v))
    together = 1 if points or v.reduction is None else min(VECTORS, static(x.extent) // lanes)
    chains = _chains(v, v.reduction, max(tile, together)) if v.reduction else 1
    for lo, hi, width in segments:
        several = min(together, (hi - lo) // width)
        middle = hi - (hi - lo) % (width * several)
        for first, last, vectors in ((lo, middle, several), (middle, hi, (hi - middle) // width)):
            if first < last:
                at = points or [{x.name: x + i * width} for i in range(vectors)]
                body = tuple(_body(v, width, at, chains))
                yield For(x.name, Const(first), Const(last), width * vectors, body)


def _may_overwrite(v: Vertical) -> bool:
    """Whether the result could be written over an operand, if no element of it is stored twice."""
    read = (n for n in walk(v.value) if isinstance(n, Load) and n.tensor.value is None)
    return any(n.tensor.shape == v.to.tensor.shape for n in read)


def _limited(v: Vertical, axis: Var) -> bool:
    """Whether the reduction's limits depend on this axis: then neighbours cannot share a tile."""
    return any(mentions(e, axis.name) for pair in v.limits.values() for e in pair)


def _tiled(v: Vertical, axis: Var, lanes: int) -> tuple[Statement, ...]:
    """Tiles of neighbouring outputs along `axis`, the last one smaller."""
    extent = static(axis.extent)
    size = -(-extent // -(-extent // TILE))
    out: list[Statement] = []
    for lo, hi, part in ((0, extent // size * size, size), (extent // size * size, extent, extent % size)):
        if lo < hi:
            points = [{axis.name: axis + i} for i in range(part)]
            out.append(For(axis.name, Const(lo), Const(hi), part, tuple(_across(v, lanes, points, size))))
    return tuple(out)


def _body(v: Vertical, lanes: int, points: list[dict[str, Expr]], chains: int) -> Iterator[Statement]:
    """One vector of outputs for each point of a tile, each in `chains` partial results."""
    r = v.reduction
    if r is not None:
        for i, point in enumerate(points):
            yield Let(f"c{i}", _at(r.init, point, v, lanes), lanes, True)
        for i, q in product(range(len(points)), range(1, chains)):
            assert r.identity is not None
            yield Let(f"c{i}_{q}", r.identity, lanes, True)
        yield from _reduction(v, r, points, lanes, chains)
        for q, i in product(range(1, chains), range(len(points))):
            yield accumulate(r.combine, f"c{i}", Var(f"c{i}_{q}", None, r.term.dtype), lanes)
    for i, point in enumerate(points):
        to = simplify(substitute(v.to, point), v.bounds)
        value = _at(v.value, point, v, lanes)
        if r is not None:
            value = substitute(value, {"acc": Var(f"c{i}", None, r.term.dtype)})
        yield Store(to, value, lanes)


def _at(e: Expr, point: dict[str, Expr], v: Vertical, lanes: int) -> Expr:
    return vectorize(simplify(substitute(e, point), v.bounds), v.vector.name, lanes)


def _chains(v: Vertical, r: Reduction, points: int) -> int:
    """Partial results of each output: few outputs alone would wait for one addition after the other."""
    lo, hi = v.limits[r.axes[-1].name]
    if not (isinstance(lo, Const) and isinstance(hi, Const)) or r.identity is None:
        return 1
    terms = int(hi.value - lo.value)
    return 1 if terms <= UNROLLED_TAPS else max(1, min(IN_FLIGHT // points, terms // 4))


def _reduction(
    v: Vertical, r: Reduction, points: list[dict[str, Expr]], lanes: int, chains: int
) -> Iterator[Statement]:
    """The taps: a short innermost window axis is unrolled, so that overlapping loads are shared."""
    inner = r.axes[-1]
    lo, hi = v.limits[inner.name]
    if isinstance(lo, Const) and isinstance(hi, Const) and hi.value - lo.value <= UNROLLED_TAPS:
        taps: list[Expr] = [Const(k) for k in range(int(lo.value), int(hi.value))]
        body = tuple(_taps(v, r, points, lanes, inner, taps))
    elif chains > 1:
        assert isinstance(lo, Const) and isinstance(hi, Const)
        last = int(hi.value - (hi.value - lo.value) % chains)
        steps: list[Expr] = [inner + q if q else inner for q in range(chains)]
        body = tuple(_taps(v, r, points, lanes, inner, steps, apart=True))
        body = (For(inner.name, lo, Const(last), chains, body),)
        if last < hi.value:
            rest = tuple(_taps(v, r, points, lanes, inner, [inner]))
            body = (*body, For(inner.name, Const(last), hi, 1, rest))
    else:
        body = (For(inner.name, lo, hi, 1, tuple(_taps(v, r, points, lanes, inner, [inner]))),)
    for k in reversed(r.axes[:-1]):
        first, end = v.limits[k.name]
        body = (For(k.name, first, end, 1, body),)
    yield from body


def _taps(
    v: Vertical,
    r: Reduction,
    points: list[dict[str, Expr]],
    lanes: int,
    axis: Var,
    taps: list[Expr],
    apart: bool = False,
) -> Iterator[Statement]:
    """Load what the taps of the tile need, each once, and combine; `apart`: each tap in its own result."""
    loaded: dict[Expr, Var] = {}
    for q, tap in enumerate(taps):
        for i, point in enumerate(points):
            term = _at(r.term, {**point, axis.name: tap}, v, lanes)
            yield from _preload(term, lanes, loaded)
            name = f"c{i}_{q}" if apart and q else f"c{i}"
            yield accumulate(r.combine, name, _named(term, loaded), lanes)


def _preload(term: Expr, lanes: int, loaded: dict[Expr, Var]) -> Iterator[Statement]:
    for n in walk(term):
        if isinstance(n, Load) and n not in loaded:
            name = f"x{len(loaded)}"
            loaded[n] = Var(name, None, n.dtype)
            yield Let(name, n, n.lanes)


def _named(e: Expr, loaded: dict[Expr, Var]) -> Expr:
    return transform(e, lambda n: loaded.get(n) if isinstance(n, Load) else None)
