"""What the axes of a contraction are: read off the strides of its two operands.

In: a stage. Out: a `Contraction`, its loads bound to physical tensors. The vector axis moves only one operand
(`b`), the tile axes move only the other (`a`, read as scalars and broadcast). `merge_terms` and
`merge_points` join neighbouring axes that memory does not tell apart, through views of the tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from ingot.formula.compute import Compute, Reduction
from ingot.formula.expr import (
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Var,
    loads,
    maximum,
    minimum,
    static,
    substitute,
    walk,
)
from ingot.formula.index import Bounds, at_least, coefficient, interval, mentions, simplify
from ingot.formula.types import INT32
from ingot.loops.access import step
from ingot.loops.cuts import pieces
from ingot.loops.kernels.joint_axes import join
from ingot.loops.layout import Storage, bind, destination

WORTH_SKIPPING = 16  # terms: a loop whose length changes costs a branch that is predicted wrong


@dataclass(frozen=True, slots=True)
class Padded:
    """A dimension that a reduction axis k of a window moves along: `a` is at `first` + `step` * k, which
    `first` the outputs' axes say, and zero where that is not in 0 .. `size`.
    """

    first: Expr
    step: int
    size: int

    def inside(self, k: Var, more: Expr) -> tuple[Expr, Expr]:
        """From where to where k stays inside, at `first` or at any point up to `more` from there."""
        last = simplify(self.first + more)
        lo = maximum(Const(self.step - 1) - last, 0) // self.step
        hi = maximum(Const(self.size + self.step - 1) - self.first, 0) // self.step
        return lo, minimum(hi, static(k.extent))

    def shares(self, k: Var, x: Var, most: int) -> tuple[float, ...]:
        """How much of k is left where tiles take 1, 2, .. `most` points along x; () if that is all of it."""
        start, moved = simplify(substitute(self.first, {x.name: Const(0)})), coefficient(self.first, x.name)
        if not isinstance(start, Const) or not moved:
            return ()
        length, count, begin = static(k.extent), static(x.extent), int(start.value)

        def left(first: int, points: int) -> int:
            at = begin + moved * first
            lo = max(0, -((at + moved * (points - 1)) // self.step))
            return max(0, min(length, -((at - self.size) // self.step)) - lo)

        cut = (pieces(count, n) for n in range(1, most + 1))
        sums = (sum(n * left(at, n) for lo, hi, n in runs for at in range(lo, hi, n)) for runs in cut)
        return tuple(total / (length * count) for total in sums)


@dataclass(frozen=True, slots=True)
class Contraction:
    """A matched stage: out[to] = value(init + sum over reduce of a * b), loads bound to physical tensors.

    `tile` are the axes that move `a` alone, innermost last; `reduce` runs forward through `a`. `padded` are
    the reduction axes, by name, along which windows of `a` leave the image.
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
    padded: Mapping[str, Padded]

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
    def skipped(self) -> dict[Var, Padded]:
        """The reduction axes whose loops leave out what is outside: those of floats around enough terms."""
        found, terms = dict[Var, Padded](), 1
        for k in reversed(self.reduce):
            if k.name in self.padded and terms >= WORTH_SKIPPING and self.init.dtype.is_float:
                found[k] = self.padded[k.name]
            terms *= static(k.extent)
        return found

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
    to = destination(c, storage, inner)
    ways = [(a, b) for a, b in (factors, factors[::-1]) if in_place or not is_swapped(a, b)]
    found = [(a, b, roles) for a, b in ways if (roles := _roles(a, b, to, c.axes))]
    if not found:
        return None
    beside = (f for f in found if in_place and step(to, f[2][0].name) == 1)
    a, b, (vector, tile, outer) = next(beside, found[0])
    reduce = tuple(sorted(r.axes, key=lambda k: -abs(step(a, k.name) or 0)))
    value, init = bind(c.value, storage, inner), bind(r.init, storage, inner)
    padded = _padded(r, next(x for x in loads(r.term) if bind(x, storage, inner) == a), inner)
    return Contraction(a, b, to, value, init, vector, tile, outer, reduce, inner, padded)


def _padded(r: Reduction, a: Load, bounds: Bounds) -> dict[str, Padded]:
    """The reduction axes along which a logical operand is zero outside."""
    found = dict[str, Padded]()
    if a.outside != Const(0, a.dtype):
        return found
    for i, n in zip(a.index, a.tensor.shape, strict=True):
        along = [k for k in r.axes if mentions(i, k.name)]
        steps = [coefficient(i, k.name) or 0 for k in along]
        if not isinstance(n, int) or len(along) != 1 or steps[0] <= 0:
            continue
        if at_least(i, bounds) < 0 or at_least(n - 1 - i, bounds) < 0:
            first = simplify(substitute(i, {along[0].name: Const(0)}), bounds)
            found[along[0].name] = Padded(first, steps[0], n)
    return found


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
    gone = (outer.name, inner.name)
    padded = {
        k: p for k, p in c.padded.items() if k not in gone and not any(mentions(p.first, x) for x in gone)
    }
    return axis, replace(c, a=a, b=b, to=to, value=value, init=init, bounds=bounds, padded=padded)
