"""Products whose terms lie side by side in both operands: vectors go along the terms.

    y[m, n] = sum(a[m, k] * b[n, k] for k)         a tile of 1 x 4 outputs, four lanes

    c0 += a[m, k:k+4] * b[n, k:k+4]    c1 += a[m, k:k+4] * b[n + 1, k:k+4]    c2 ..    c3 ..
    p = |c0 c0 c1 c1| + |c0 c0 c1 c1|, q = |c2 c2 c3 c3| + ..                  halves of both side by side
    y[m, n:n+4] = |p p q q| + |p p q q|

Nothing is copied, where `contract` would first turn one of the operands around. That pays where few outputs
share it: a product of a few rows, attention, a strided convolution to one channel whose window is a run of
memory. In: a stage. Out: statements, or None.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd, prod

from ingot.formula.compute import Compute, Reduction
from ingot.formula.expr import Binary, Const, Expr, Lane, Load, Shuffle, Var, static, substitute
from ingot.formula.index import Bounds, as_expr, interval, simplify
from ingot.formula.statements import For, Let, Madd, Statement, Store
from ingot.loops.access import NotVectorizable, step, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.cuts import pieces
from ingot.loops.inner_products import turning_costs
from ingot.loops.kernels.horizontal_reduction import reduce_lanes
from ingot.loops.kernels.joint_axes import join
from ingot.loops.kernels.naive import clip, nested
from ingot.loops.layout import Storage, bind, destination
from ingot.targets.record import Target

NARROWEST = 4  # terms in a vector
FEWEST_VECTORS = 2  # of terms: with fewer, adding up the lanes is most of the work
MOST_ROWS = 5
LATENCY = 8  # multiply-adds under way at once
ADDITIONS = 3.0  # instructions for each accumulator whose lanes are added
OVERHEAD = 8.0  # cycles of a tile as such
SET_BYTES = 4096  # addresses so far apart share a set of the first cache, on all processors that have vectors
ALIASES = 4  # lines of such a set that are read at once, which leaves room for prefetched ones


@dataclass(frozen=True, slots=True)
class DotProduct:
    """A matched stage, loads bound to physical tensors. `along` is the axis of neighbouring outputs, which
    moves `near`; `across`, if any, moves `far` alone; `outer` axes and `rolled` terms are loops.
    """

    near: Load
    far: Load
    to: Load
    value: Expr
    init: Expr
    run: Var
    rolled: tuple[Var, ...]
    along: Var
    across: Var | None
    outer: tuple[Var, ...]
    bounds: Bounds

    @property
    def along_is_larger(self) -> bool:
        """Whether there are more neighbours than rows, each a run of the same terms."""
        return self.across is not None and static(self.along.extent) > static(self.across.extent)


def dot_product(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> tuple[Statement, ...] | None:
    """Statements for products along contiguous memory, or None if the stage is not that."""
    if target.vector_bytes == 0 or c.out.type.compute is not c.out.type:
        return None
    found = _match(normal_axes(c), storage, bounds)
    lanes = target.lanes(found.init.dtype.bytes) if found is not None else 1
    while lanes > NARROWEST and found is not None and lanes > static(found.run.extent):
        lanes //= 2
    if found is None or not _pays(found, lanes):
        return None
    return tuple(_Loops(found, lanes, target.registers).statements())


def _match(c: Compute, storage: Storage, bounds: Bounds) -> DotProduct | None:
    """Recognise a sum of products of two loads that run on along the same terms."""
    r, axes = c.reduction, c.axes
    if r is None or r.combine != "sum" or not all(isinstance(a.extent, int) for a in (*axes, *r.axes)):
        return None
    inner = {**bounds, **{a.name: interval(a) for a in (*axes, *r.axes)}}
    pair = _factors(r, c, storage, bounds, inner)
    if pair is None:
        return None
    to = destination(c, storage, inner)
    first = pair[0]
    terms = sorted(r.axes, key=lambda k: abs(step(first, k.name) or 0))
    joint = _joined(terms, pair, storage, inner)
    if joint is None:
        return None
    run, rolled, pair = joint
    roles = _roles(pair, to, axes)
    if roles is None:
        return None
    near, far, along, across = roles
    outer = tuple(a for a in axes if a not in (along, across))
    value, init = bind(c.value, storage, inner), bind(r.init, storage, inner)
    return DotProduct(
        near, far, to, value, init, run, rolled, along, across, outer, {**inner, run.name: interval(run)}
    )


def _factors(
    r: Reduction, c: Compute, storage: Storage, bounds: Bounds, inner: Bounds
) -> tuple[Load, Load] | None:
    """The two elements that a term multiplies, the one that is not constant first; no read is guarded."""
    limits, term = clip(r, storage, {**bounds, **{a.name: interval(a) for a in c.axes}})
    whole = all(
        simplify(lo, inner) == Const(0) and simplify(hi, inner) == as_expr(k.extent or 0)
        for k, (lo, hi) in zip(r.axes, (limits[k.name] for k in r.axes), strict=True)
    )
    term = bind(term, storage, inner)
    match term:
        case Binary("mul", Load() as a, Load() as b) if whole and a != b:
            x, w = (b, a) if a.tensor.value is not None else (a, b)
            same = (
                x.dtype.is_float
                and x.dtype is w.dtype is r.init.dtype
                and all(t.type.compute is t.type and t.codebook is None for t in (x.tensor, w.tensor))
            )
            return (x, _turned(w, x, r, storage)) if same and x.tensor.value is None else None
    return None


def _turned(w: Load, x: Load, r: Reduction, storage: Storage) -> Load:
    """A constant with its terms in the order of the other operand's, behind all else."""
    t = w.tensor
    if t.value is None:
        return w
    terms = sorted(r.axes, key=lambda k: -abs(step(x, k.name) or 0))
    dims = [next((d for d, i in enumerate(w.index) if i == k), None) for k in terms]
    if None in dims:
        return w
    order = (*(d for d in range(t.rank) if d not in dims), *(d for d in dims if d is not None))
    return replace(w, tensor=storage.transposed(t, order), index=tuple(w.index[d] for d in order))


def _joined(
    terms: list[Var], pair: tuple[Load, Load], storage: Storage, bounds: Bounds
) -> tuple[Var, tuple[Var, ...], tuple[Load, Load]] | None:
    """The terms that are one run of memory in both operands, the other terms, and the operands over them."""
    run, *rest = terms
    while rest and (found := join(rest[0], run, pair, storage, bounds)) is not None:
        run, made = found
        first, second = made
        assert isinstance(first, Load) and isinstance(second, Load)
        pair, rest = (first, second), rest[1:]
    if any(step(load, run.name) != 1 for load in pair):
        return None
    if any(step(load, k.name) is None for load in pair for k in rest):
        return None
    return run, tuple(reversed(rest)), pair


def _roles(
    pair: tuple[Load, Load], to: Load, axes: tuple[Var, ...]
) -> tuple[Load, Load, Var, Var | None] | None:
    """The operand that neighbouring outputs read, the other, the axis of these and the axis across."""
    moves = {a: tuple(step(load, a.name) for load in (*pair, to)) for a in axes}
    if any(None in m for m in moves.values()):
        return None
    alone = [[a for a in axes if moves[a][i] and not moves[a][1 - i]] for i in (0, 1)]
    sides = [i for i in (0, 1) if alone[i]]
    if not sides:
        return None
    i = next((i for i in sides if any(moves[a][2] == 1 for a in alone[i])), sides[0])
    along = min(alone[i], key=lambda a: (moves[a][2] != 1, -static(a.extent)))
    across = max(alone[1 - i], key=lambda a: static(a.extent), default=None)
    return pair[i], pair[1 - i], along, across


def _pays(d: DotProduct, lanes: int) -> bool:
    """Whether no vectors could go along the outputs, or an operand would be copied for too few of them."""
    if d.across is None:
        beside = d.near.tensor.value is not None or step(d.near, d.along.name) == 1
        return lanes <= static(d.run.extent) and not beside
    if static(d.run.extent) < FEWEST_VECTORS * lanes:
        return False
    if d.near.tensor.value is not None or d.far.tensor.value is not None:
        return False  # packed at compile time
    if any(step(load, a.name) == 1 for load in (d.near, d.far) for a in (d.along, d.across, *d.outer)):
        return False
    few, many = sorted(static(a.extent) for a in (d.along, d.across))
    return turning_costs(few, many, prod(static(k.extent) for k in (d.run, *d.rolled)))


def _tiles(d: DotProduct, lanes: int, registers: int) -> Iterator[tuple[int, int]]:
    """Rows and neighbours of tiles that registers hold: accumulators, an operand of each row, one more. Those
    neighbours are read at once, so few of them may compete for the same lines of the first cache.
    """
    count, rows = static(d.along.extent), 1 if d.across is None else static(d.across.extent)
    apart = (step(d.near, d.along.name) or 0) * d.near.tensor.type.bytes
    most = min(count, lanes, ALIASES * SET_BYTES // gcd(apart, SET_BYTES))
    for r in range(1, min(rows, MOST_ROWS) + 1):
        side = 1
        while side <= most and r * side + r + 2 <= registers:
            yield r, side
            side *= 2


class _Loops:
    """Builds the loops around tiles of outputs."""

    def __init__(self, d: DotProduct, lanes: int, registers: int) -> None:
        self.d, self.lanes = d, lanes
        self.rows, self.side = min(_tiles(d, lanes, registers), key=lambda t: self._cost(*t))

    def _cost(self, rows: int, side: int) -> float:
        """Cycles of all outputs, those of the smaller tiles at the ends too."""
        count = 1 if self.d.across is None else static(self.d.across.extent)
        down = [(size, (hi - lo) // size) for lo, hi, size in pieces(count, rows)]
        along = [(size, (hi - lo) // size) for lo, hi, size in self._sides(side)]
        return sum(n * m * self._cycles(r, s) for r, n in down for s, m in along)

    def _cycles(self, rows: int, side: int) -> float:
        """Cycles of a tile: multiply-adds, loads or latency; then the additions of lanes."""
        d, outputs = self.d, rows * side
        terms = prod(static(k.extent) for k in (d.run, *d.rolled)) / self.lanes
        return terms * max(outputs, rows + side, LATENCY) / 2 + ADDITIONS * outputs + OVERHEAD

    def statements(self) -> Iterator[Statement]:
        yield from nested(self.d.outer, tuple(self._nest()))

    def _nest(self) -> Iterator[Statement]:
        """Tiles of fewer rows at the end, and of ever fewer neighbours. The larger operand is read once, the
        other one stays near.
        """
        d = self.d
        if d.across is None:
            yield from (
                For(*self._loop(d.along, part), tuple(self._tile(1, part[2])))
                for part in self._sides(self.side)
            )
            return
        rows = list(pieces(static(d.across.extent), self.rows))
        if d.along_is_larger:
            for side in self._sides(self.side):
                inner = (For(*self._loop(d.across, r), tuple(self._tile(r[2], side[2]))) for r in rows)
                yield For(*self._loop(d.along, side), tuple(inner))
            return
        for r in rows:
            inner = (
                For(*self._loop(d.along, s), tuple(self._tile(r[2], s[2]))) for s in self._sides(self.side)
            )
            yield For(*self._loop(d.across, r), tuple(inner))

    @staticmethod
    def _loop(axis: Var, piece: tuple[int, int, int]) -> tuple[str, Expr, Expr, int]:
        lo, hi, size = piece
        return axis.name, Const(lo), Const(hi), size

    def _sides(self, side: int) -> Iterator[tuple[int, int, int]]:
        """Runs of so many neighbours, then of fewer, by powers of two: from, to, size."""
        lo, n = 0, static(self.d.along.extent)
        while lo < n:
            hi = n - (n - lo) % side
            if hi > lo:
                yield lo, hi, side
            lo, side = hi, side // 2

    def _tile(self, rows: int, side: int) -> Iterator[Statement]:
        d, zero = self.d, Const(0.0, self.d.init.dtype)
        for i in range(rows):
            for j in range(side):
                yield Let(f"c{i}_{j}", zero, self.lanes, mutable=True)
        run, body = d.run, list[Statement]()
        whole = static(run.extent) // self.lanes * self.lanes
        if whole < static(run.extent):
            yield Let("none", zero, self.lanes)
        body.append(For(run.name, Const(0), Const(whole), self.lanes, tuple(self._terms(rows, side, run, 0))))
        if rest := static(run.extent) - whole:
            body += self._terms(rows, side, Const(static(run.extent) - self.lanes), self.lanes - rest)
        yield from nested(d.rolled, body)
        for i in range(rows):
            yield from self._results(i, side)

    def _terms(self, rows: int, side: int, at: Expr, done: int) -> Iterator[Statement]:
        """One vector of terms for each output; its first lanes are zero where they have been `done`."""
        tag = "_rest" if done else ""
        for i in range(rows):
            yield from self._operand(f"b{i}{tag}", self.d.far, self.d.across, i, at, done)
        for j in range(side):
            yield from self._operand(f"a{j}{tag}", self.d.near, self.d.along, j, at, done)
            for i in range(rows):
                a, b = (Var(f"{n}{tag}", None, self.d.near.dtype) for n in (f"a{j}", f"b{i}"))
                yield Madd(f"c{i}_{j}", a, b, self.lanes)

    def _operand(
        self, name: str, load: Load, axis: Var | None, offset: int, at: Expr, done: int
    ) -> Iterator[Statement]:
        moved = {self.d.run.name: at} | ({} if axis is None else {axis.name: axis + offset})
        value = simplify(substitute(replace(load, lanes=self.lanes), moved), self.d.bounds)
        if not done:
            yield Let(name, value, self.lanes)
            return
        yield Let(f"{name}_all", value, self.lanes)
        every, none = Var(f"{name}_all", None, load.dtype), Var("none", None, load.dtype)
        kept = tuple(self.lanes + k if k < done else k for k in range(self.lanes))
        yield Let(name, Shuffle(every, none, kept), self.lanes)

    def _results(self, i: int, side: int) -> Iterator[Statement]:
        """The lanes of a row's accumulators added up, and what the stage makes of the sums."""
        d = self.d
        here = {} if d.across is None else {d.across.name: d.across + i}
        sums = [Var(f"c{i}_{j}", None, d.init.dtype) for j in range(side)]
        added = yield from reduce_lanes(sums, self.lanes, "add", f"p{i}")
        yield Let(f"sum{i}", added, side)
        total = Var(f"sum{i}", None, d.init.dtype)
        from_zero = d.init == Const(0.0, d.init.dtype)
        summed = total if from_zero else Binary("add", d.init, total)
        value = substitute(d.value, here)
        to = substitute(d.to, here)
        try:
            if step(d.to, d.along.name) != 1:
                raise NotVectorizable("outputs that do not lie side by side")
            vector = substitute(vectorize(value, d.along.name, side), {"acc": summed})
            yield self._stored(to, vector, side)
        except NotVectorizable:
            for j in range(side):
                there = {d.along.name: d.along + j}
                lane: Expr = Lane(total, j) if side > 1 else total
                one = substitute(substitute(value, {"acc": summed}), {total.name: lane, **there})
                yield self._stored(substitute(to, there), one, 1)

    def _stored(self, to: Load, value: Expr, lanes: int) -> Store:
        return Store(simplify(to, self.d.bounds), simplify(value, self.d.bounds), lanes)
