"""What the axes of a contraction are: read off the strides of its two operands.

In: a stage. Out: a `Contraction`, its loads bound to physical tensors. The vector axis moves only one operand
(`b`), the tile axes move only the other (`a`, read as scalars and broadcast). `merge_terms` and
`merge_points` join neighbouring axes that memory does not tell apart, through views of the tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

from ingot.formula.compute import Compute
from ingot.formula.expr import (
    Binary,
    Cast,
    Expr,
    Load,
    Var,
    static,
    substitute,
    walk,
)
from ingot.formula.index import Bounds, interval, simplify
from ingot.formula.types import INT32
from ingot.loops.access import step
from ingot.loops.kernels.joint_axes import join
from ingot.loops.layout import Storage, bind


@dataclass(frozen=True, slots=True)
class Contraction:
    """A matched stage: out[to] = value(init + sum over reduce of a * b), loads bound to physical tensors.

    `tile` are the axes that move `a` alone, innermost last; `reduce` runs forward through `a`.
    """

    a: Load
    b: Load
    to: Load
    value: Expr
    init: Expr
    vector: Var
    tile: tuple[Var, ...]
    outer: tuple[Var, ...]
    reduce: tuple[Var, ...]
    bounds: Bounds

    @property
    def channels(self) -> int:
        return static(self.vector.extent)

    @property
    def points(self) -> tuple[int, ...]:
        return tuple(static(x.extent) for x in self.tile)

    @property
    def terms(self) -> int:
        return prod(static(k.extent) for k in self.reduce)

    @property
    def around(self) -> tuple[Var, ...]:
        """The loops around the stage that `b` moves with."""
        return around(self.b, (self.vector, *self.tile, *self.outer, *self.reduce))


def around(load: Load, axes: Iterable[Var]) -> tuple[Var, ...]:
    """The variables that an index moves with beside these axes: of loops around the stage."""
    own = {x.name for x in axes}
    found = (v for i in load.index for v in walk(i) if isinstance(v, Var) and v.name not in own)
    return tuple(dict.fromkeys(found))


def match(
    c: Compute, storage: Storage, bounds: Bounds, integers: bool = False, in_place: bool = False
) -> Contraction | None:
    """Recognise a sum of products of two affine loads and give its axes their roles.

    With `integers`: of bytes that are widened to int32, instead of floats. With `in_place` an operand may be
    read along its vectors where it lies, its constant factor broadcast, where the results lie alike.
    """
    r = c.reduction
    if r is None or r.combine != "sum" or not r.axes:
        return None
    if r.term.dtype is not INT32 if integers else not r.term.dtype.is_float:
        return None
    if not all(isinstance(a.extent, int) and a.extent for a in (*c.axes, *r.axes)):
        return None
    inner = {**bounds, **{a.name: interval(a) for a in (*c.axes, *r.axes)}}
    term = bind(r.term, storage, inner)
    factors = _factors(term, integers)
    if factors is None:
        return None
    index = storage.layout(c.out).index(tuple(simplify(bind(i, storage, inner), inner) for i in c.index))
    to = Load(storage.tensor(c.out), tuple(simplify(i, inner) for i in index))
    ways = [(a, b) for a, b in (factors, factors[::-1]) if in_place or not is_swapped(a, b)]
    found = [(a, b, roles) for a, b in ways if (roles := _roles(a, b, to, c.axes))]
    if not found:
        return None
    beside = (f for f in found if in_place and step(to, f[2][0].name) == 1)
    a, b, (vector, tile, outer) = next(beside, found[0])
    reduce = tuple(sorted(r.axes, key=lambda k: -abs(step(a, k.name) or 0)))
    value, init = bind(c.value, storage, inner), bind(r.init, storage, inner)
    return Contraction(a, b, to, value, init, vector, tile, outer, reduce, inner)


def _factors(term: Expr, integers: bool) -> tuple[Load, Load] | None:
    """The two elements that a term multiplies."""
    match term:
        case Binary("mul", Load() as a, Load() as b) if not integers:
            return a, b
        case Binary("mul", Cast(Load() as a), Cast(Load() as b)) if integers and a.dtype.bits == 8:
            return a, b
    return None


def is_swapped(a: Load, b: Load) -> bool:
    """Whether the constant is what is broadcast, and the vectors are of the other operand."""
    return a.tensor.value is not None and b.tensor.value is None


def _roles(
    a: Load, b: Load, to: Load, axes: tuple[Var, ...]
) -> tuple[Var, tuple[Var, ...], tuple[Var, ...]] | None:
    """Vector axis, tile axes (innermost last) and outer axes, with `a` broadcast and `b` as vectors."""
    moves = {x: (step(a, x.name), step(b, x.name), step(to, x.name)) for x in axes}
    if any(None in m[:2] for m in moves.values()):
        return None
    if b.tensor.type.compute is not b.tensor.type:
        return None  # a narrow float is widened one element at a time
    usable = [x for x, (p, q, _) in moves.items() if p == 0 and q != 0]
    if is_swapped(a, b):  # not packed: as they lie and are stored
        usable = [x for x in usable if moves[x][1:] == (1, 1) and a.tensor.codebook is None]
    if not usable:
        return None
    vector = min(usable, key=lambda x: (moves[x][2] != 1, moves[x][1] != 1, -static(x.extent)))
    tile = [x for x, (p, q, _) in moves.items() if p != 0 and q == 0]
    tile.sort(key=lambda x: -(moves[x][2] or 0))
    return vector, tuple(tile), tuple(x for x in axes if x is not vector and x not in tile)


def merge_terms(c: Contraction, storage: Storage) -> Contraction:
    """Neighbouring reduction axes made one where `a` runs on through both.

    x[.., ow + kw, ic] for kw < 3, ic < 8        ->        x[.., 8 * ow + k] for k < 24
    """
    for outer, inner in zip(c.reduce, c.reduce[1:], strict=False):
        merged = _merged(c, storage, outer, inner)
        if merged is not None:
            axis, changed = merged
            left = tuple(axis if k is inner else k for k in c.reduce if k is not outer)
            return merge_terms(replace(changed, reduce=left), storage)
    return c


def merge_points(c: Contraction, storage: Storage) -> Contraction:
    """Neighbouring tile axes made one where everything runs on through both: pixels of a 1x1 convolution."""
    for outer, inner in zip(c.tile, c.tile[1:], strict=False):
        merged = _merged(c, storage, outer, inner)
        if merged is not None:
            axis, changed = merged
            left = tuple(axis if x is inner else x for x in c.tile if x is not outer)
            return merge_points(replace(changed, tile=left), storage)
    return c


def merge_vectors(c: Contraction, storage: Storage) -> Contraction:
    """The vector axis of an operand that is read where it lies, made one with an outer axis where everything
    runs on through both: rows of an image.
    """
    for outer in reversed(c.outer) if is_swapped(c.a, c.b) else ():
        merged = _merged(c, storage, outer, c.vector)
        if merged is not None:
            axis, changed = merged
            left = tuple(x for x in c.outer if x is not outer)
            return merge_vectors(replace(changed, vector=axis, outer=left), storage)
    return c


def _merged(c: Contraction, storage: Storage, outer: Var, inner: Var) -> tuple[Var, Contraction] | None:
    """The one axis that the two become, and the contraction over it; None where memory tells them apart."""
    packed = c.b.tensor.value is not None
    moved = (c.a, c.to, c.value, c.init) if packed else (c.a, c.to, c.value, c.init, c.b)
    joint = join(outer, inner, moved, storage, c.bounds)
    if joint is None:
        return None
    axis, (a, to, value, init, *rest) = joint
    count = static(inner.extent)
    b = rest[0] if rest else substitute(c.b, {outer.name: axis // count, inner.name: axis % count})
    assert isinstance(a, Load) and isinstance(b, Load) and isinstance(to, Load)
    bounds = {**c.bounds, axis.name: interval(axis)}
    return axis, replace(c, a=a, b=b, to=to, value=value, init=init, bounds=bounds)
