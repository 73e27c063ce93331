"""Sliding windows: depthwise convolutions and pooling, where every channel minds its own, and convolutions
to a few channels along rows, which have a tile for all filters together.

All taps of a tile of outputs are unrolled, so that each input vector is loaded once and used for every tap it
feeds; of large windows those of a row, of long rows none. Weights and bias wait in registers outside the
loops that slide.
Where windows leave their tensor the outputs concerned are peeled, with their taps clipped; where they leave
its rows along the vector axis, the vectors concerned are put together in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from ingot.formula.compute import Compute, Reduction, chained
from ingot.formula.expr import (
    Binary,
    Const,
    Expr,
    Load,
    Param,
    Var,
    loads,
    static,
    substitute,
    transform,
    walk,
)
from ingot.formula.index import Bounds, as_expr, coefficient, linear, mentions, simplify
from ingot.formula.statements import For, Let, Statement, Store
from ingot.loops.access import NotVectorizable, step, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.cuts import in_vectors
from ingot.loops.edges import most_together
from ingot.loops.kernels.elementwise import Vertical, match
from ingot.loops.kernels.naive import accumulate
from ingot.loops.kernels.windows.edge_rows import EdgeRows, is_edge, leaving, without_edges
from ingot.loops.kernels.windows.window_tiles import (
    Segment,
    best_tile,
    ends_of,
    filters_of,
    halves,
    has_columns,
    most_operations,
    segments,
    slides_along,
    taps_of,
    weighs_along,
)
from ingot.loops.layout import Storage
from ingot.loops.nearby import Place, placer
from ingot.targets.record import Target

MOST_TAPS, MOST_WEIGHTS = 169, 9  # taps written out: of pooling, whose columns are shared, and of products
NEAR_BYTES = 1 << 10  # between neighbouring outputs: further apart, channels must not be the outermost loop

Point = dict[str, int]
Piece = tuple[int, int, int]
Sizes = dict[str, int]
Taps = dict[str, range | tuple[str, tuple[range, ...]]]
"""Those of an axis of the window: of every output, or of each along one axis of a tile."""


def sliding_window(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for a small window that slides, or None if the stage is not one."""
    if target.vector_bytes == 0 or not c.out.type.is_float or c.out.type.compute is not c.out.type:
        return None
    v = match(normal_axes(c), storage, bounds, most_apart=1)
    if v is None or v.reduction is None or taps_of(v.reduction.axes) < 2:
        return None
    filters = filters_of(v, v.reduction)
    slides = [x for x in v.outer if slides_along(v.reduction, x) and x is not filters]
    slides = [x for x in slides if not weighs_along(v.reduction, x)] or slides  # channels are outermost
    slides.sort(key=lambda x: -(step(v.to, x.name) or 0))
    known = {x.name for x in slides[-2:]}
    ends = (a for e in ends_of(v) for a in walk(e) if isinstance(a, Var | Param))
    if not slides or any(a.name not in known for a in ends):
        return None  # what else they depend on, a loop around included, cannot be cut into segments
    moving = next(a for a in loads(v.reduction.term) if any(step(a, x.name) for x in slides[-2:]))
    if any(load != moving for load in leaving(v)):
        return None  # only what tiles load by themselves is put together
    try:
        return _Generator.of(v, v.reduction, tuple(slides[-2:]), filters, target).statements()
    except NotVectorizable:
        return None


def unrolled(r: Reduction, filters: int = 1) -> tuple[Var, ...]:
    """The innermost axes of the window whose taps are few enough to write out: none if a row alone is too
    much for a tile, whose outputs would share nothing.
    """
    axes, most = r.axes, MOST_TAPS if has_columns(r) else MOST_WEIGHTS
    while taps_of(axes) * filters > most and len(axes) > 1:
        axes = axes[1:]
    return axes if taps_of(axes) <= most_operations(r) else ()


def _along_first(v: Vertical, r: Reduction) -> Reduction:
    """Summed channels outermost, then the taps along the vector axis: what a tile reads of a channel is near
    for all of its taps, and what it reads at one tap along vectors serves all those across them.
    """
    along = [x for x in loads(r.term) if _follows(x, v.vector)]

    def rank(k: Var) -> int:
        if any(coefficient(x.index[x.tensor.lane_axis], k.name) for x in along):
            return 1
        indices = [i for x in along for i in x.index if mentions(i, k.name)]
        is_channel = isinstance(r.term, Binary) and not any(
            mentions(i, x.name) for i in indices for x in v.outer
        )
        return 0 if is_channel else 2

    return replace(r, axes=tuple(sorted(r.axes, key=rank)))


def _follows(load: Load, x: Var) -> bool:
    """Whether the elements of a load stand along an axis."""
    return bool(load.index) and coefficient(load.index[load.tensor.lane_axis], x.name) != 0


@dataclass(slots=True)
class _Generator:
    """Builds the loops of one stage. `parts` are the segments of each sliding axis, `tile` its outputs at a
    time, for each of the `filters`; `keeps`: what does not slide is kept in registers.
    """

    v: Vertical
    r: Reduction
    slides: tuple[Var, ...]
    parts: list[list[Segment]]
    tile: tuple[int, ...]
    target: Target
    keeps: bool
    rolled: tuple[Var, ...]
    filters: Var | None
    kept: dict[Expr, Var] = field(default_factory=dict)

    @classmethod
    def of(
        cls, v: Vertical, r: Reduction, slides: tuple[Var, ...], filters: Var | None, target: Target
    ) -> _Generator:
        r = _along_first(v, r)
        count = 1 if filters is None else static(filters.extent)
        inner = unrolled(r, count)
        rolled = r.axes[: len(r.axes) - len(inner)]
        shares = has_columns(r) and not rolled
        parts = [segments(v, x, most_together(target) if shares else 1) for x in slides]
        tile, keeps = best_tile(v, replace(r, axes=inner), slides, parts, target, count)
        return cls(v, r, slides, parts, tile, target, keeps or bool(rolled), rolled, filters)

    # -- loops

    def statements(self) -> tuple[Statement, ...]:
        v = self.v
        cut = in_vectors(static(v.vector.extent), self.target.lanes(v.to.tensor.type.bytes), overlap=True)
        blocks = list(without_edges(cut, v))
        if any(lanes == 1 for _, _, lanes in blocks):
            raise NotVectorizable("too narrow")
        rest = [x for x in v.outer if x not in self.slides and x is not self.filters]
        rest.sort(key=lambda x: step(v.to, x.name) or 0)
        nest = tuple(self._outside(blocks, 0, self._loops_outside(), {}, {}, v.bounds))
        for x in rest:
            nest = (For(x.name, Const(0), as_expr(x.extent or 0), 1, nest),)
        return nest

    def _loops_outside(self) -> int:
        """How many sliding loops stand outside the channels: none where there are weights to keep."""
        v, x = self.v, self.slides[-1]
        apart = (step(v.to, x.name) or 0) * v.to.tensor.type.bytes
        return 0 if isinstance(self.r.term, Binary) and apart < NEAR_BYTES else len(self.slides)

    def _outside(
        self, blocks: list[Piece], depth: int, most: int, sizes: Sizes, taps: Taps, bounds: Bounds
    ) -> Iterator[Statement]:
        """The sliding loops outside the channels; then what does not move is loaded, and the rest slides."""
        if depth == most:
            for block in blocks:
                made = self._at_edge() if is_edge(self.v, block) else replace(self, kept={})
                yield made.block(block, depth, sizes, taps, bounds)
            return
        x = self.slides[depth]
        for s, lo, hi, part in self._steps(depth):
            inner = {**bounds, x.name: (lo, hi - part)}
            here = {**taps, **_taps_of(s, x)}
            body = tuple(self._outside(blocks, depth + 1, most, {**sizes, x.name: part}, here, inner))
            yield For(x.name, Const(lo), Const(hi), part, body)

    def block(self, block: Piece, depth: int, sizes: Sizes, taps: Taps, bounds: Bounds) -> Statement:
        """The vectors of a block: what does not move is loaded, the rest slides."""
        lo, hi, lanes = block
        inner = {**bounds, self.v.vector.name: (lo, hi - lanes)}
        body = tuple(self._slide(depth, sizes, taps, lanes, inner))
        kept = [Let(name.name, load, lanes) for load, name in self.kept.items()]
        return For(self.v.vector.name, Const(lo), Const(hi), lanes, (*kept, *body))

    def _at_edge(self) -> _Generator:
        """The same with all taps along the vector axis written out: no two vectors are put together alike."""
        outer = self.rolled
        for k in reversed(self.rolled):
            if any(mentions(i, k.name) and mentions(i, self.v.vector.name) for i in self._indices):
                outer = self.rolled[: self.rolled.index(k)]
        return replace(self, rolled=outer, kept={})

    @property
    def _indices(self) -> Iterator[Expr]:
        return (i for load in loads(self.r.term) for i in load.index)

    def _steps(self, depth: int) -> Iterator[tuple[Segment, int, int, int]]:
        """Segment, from, to and size of the tiles along a sliding axis."""
        for s in self.parts[depth]:
            yield from ((s, *tile) for tile in s.tiles(self.tile[depth]))

    def _slide(self, depth: int, sizes: Sizes, taps: Taps, lanes: int, bounds: Bounds) -> Iterator[Statement]:
        if depth == len(self.slides):
            yield from self._tile(sizes, taps, lanes, bounds)
            return
        x = self.slides[depth]
        for s, lo, hi, part in self._steps(depth):
            inner = {**bounds, x.name: (lo, hi - part)}
            here = {**taps, **_taps_of(s, x)}
            body = tuple(self._slide(depth + 1, {**sizes, x.name: part}, here, lanes, inner))
            yield For(x.name, Const(lo), Const(hi), part, body)

    # -- one tile

    def _tile(self, sizes: Sizes, taps: Taps, lanes: int, bounds: Bounds) -> Iterator[Statement]:
        offsets = product(*(range(sizes[x.name]) for x in self.slides))
        points: list[Point] = [{x.name: i for x, i in zip(self.slides, at, strict=True)} for at in offsets]
        if (f := self.filters) is not None:
            points = [{**point, f.name: i} for point in points for i in range(static(f.extent))]
        ranges = [self._ranges(point, taps) for point in points]
        places = [self._window(each) for each in ranges]
        if all(places) and not self.rolled and has_columns(self.r):
            yield from self._shared(points, places, lanes, bounds)
        else:
            yield from self._accumulated(points, places, ranges[0], lanes, bounds)
        for i, point in enumerate(points):
            to = self._moved(self.v.to, point, bounds)
            assert isinstance(to, Load)
            value = self._keep(self._at(self.v.value, point, lanes, bounds))
            yield Store(to, substitute(value, {"acc": Var(f"c{i}", None, self.r.term.dtype)}), lanes)

    def _ranges(self, point: Point, taps: Taps) -> dict[str, range]:
        """The taps of an output along every axis of the window."""
        found = {}
        for k in self.r.axes:
            ends = taps[k.name] if k.name in taps else self._fixed(k)  # there may be none
            found[k.name] = ends if isinstance(ends, range) else ends[1][point[ends[0]]]
        return found

    def _window(self, ranges: dict[str, range]) -> list[Point]:
        """The taps of a window that are written out."""
        axes = self.r.axes[len(self.rolled) :]
        every = product(*(ranges[k.name] for k in axes))
        return [{k.name: i for k, i in zip(axes, at, strict=True)} for at in every]

    def _fixed(self, k: Var) -> range:
        """The taps of an axis that are the same for all outputs: all, or of a single window those inside."""
        lo, hi = self.v.limits.get(k.name, (Const(0), as_expr(static(k.extent))))
        assert isinstance(lo, Const) and isinstance(hi, Const), f"{k.name} is cut along an axis that slides"
        return range(int(lo.value), int(hi.value))

    def _accumulated(
        self,
        points: list[Point],
        places: list[list[Point]],
        ranges: dict[str, range],
        lanes: int,
        bounds: Bounds,
    ) -> Iterator[Statement]:
        """Accumulators, then the taps, in loops over those that are too many to write out."""
        for i, point in enumerate(points):
            yield Let(f"c{i}", self._keep(self._at(self.r.init, point, lanes, bounds)), lanes, True)
        ends = {k.name: (ranges[k.name].start, ranges[k.name].stop) for k in self.rolled}
        inner = {**bounds, **{k: (lo, max(hi - 1, lo)) for k, (lo, hi) in ends.items()}}
        body = tuple(self._used(points, places, lanes, inner))
        for k in reversed(self.rolled):
            lo, hi = ends[k.name]
            body = (For(k.name, Const(lo), Const(hi), 1, body),)
        yield from body

    def _used(
        self, points: list[Point], places: list[list[Point]], lanes: int, bounds: Bounds
    ) -> Iterator[Statement]:
        """Every input vector in the order it lies in memory, with all its uses."""
        uses: dict[Load, list[tuple[int, Expr]]] = {}
        weights: dict[Expr, Var] = {}
        term_at = self._term(lanes, bounds)
        for at in zip(*places, strict=True):
            for i, (point, place) in enumerate(zip(points, at, strict=True)):
                term = self._keep(term_at({**point, **place}))
                moving = next(a for a in loads(term) if self._moves(a))
                for still in (a for a in loads(term) if self.rolled and not self._moves(a)):
                    weights.setdefault(still, Var(f"w{len(weights)}", None, still.dtype))
                uses.setdefault(moving, []).append((i, term))
        for weight, name in weights.items():
            yield Let(name.name, weight, lanes)
        rows = EdgeRows(self.v, bounds)
        for n, load in enumerate(sorted(uses, key=in_memory_order)):
            name = Var(f"x{n}", None, load.dtype)
            made = yield from rows.inside(load)
            yield Let(name.name, made, load.lanes)
            for i, term in uses[load]:
                yield accumulate(self.r.combine, f"c{i}", _named(term, {**weights, load: name}), lanes)

    def _shared(
        self, points: list[Point], places: list[list[Point]], lanes: int, bounds: Bounds
    ) -> Iterator[Statement]:
        """Columns first, each once, then the columns of every window: max(max(a, b), max(c, d))."""
        rows = EdgeRows(self.v, bounds)
        columns: dict[tuple[Expr, ...], Var] = {}
        runs: dict[tuple[Var, ...], Var] = {}
        last, term_at = self.r.axes[-1].name, self._term(lanes, bounds)
        for i, point in enumerate(points):
            found: dict[int, list[Expr]] = {}
            for place in places[i]:
                found.setdefault(place[last], []).append(term_at({**point, **place}))
            for column in map(tuple, found.values()):
                if column not in columns:
                    columns[column] = Var(f"x{len(columns)}", None, self.r.term.dtype)
                    inside = []
                    for load in column:
                        assert isinstance(load, Load)
                        inside.append((yield from rows.inside(load)))
                    yield Let(columns[column].name, chained(self.r.combine, (*self.r.start, *inside)), lanes)
            run = tuple(columns[tuple(c)] for c in found.values())
            yield from self._joined(run, runs, lanes, f"c{i}")

    def _joined(
        self, run: tuple[Var, ...], runs: dict[tuple[Var, ...], Var], lanes: int, name: str = ""
    ) -> Iterator[Statement]:
        """Combine neighbours, in two parts that windows beside this one may have combined already."""
        parts = halves(run, self.r.combine) if len(run) > 1 else (run,)
        for part in (p for p in parts if len(p) > 1):
            if part not in runs:
                yield from self._joined(part, runs, lanes)
        name = name or f"r{len(runs)}"
        yield Let(name, chained(self.r.combine, [runs.get(p, p[0]) for p in parts]), lanes)
        runs[run] = Var(name, None, self.r.term.dtype)

    def _term(self, lanes: int, bounds: Bounds) -> Place:
        """The term as a function of a point of the tile and a tap of the window."""
        fixed = [k.name for k in (*self.r.axes[len(self.rolled) :], *self._filters)]
        term = vectorize(self.r.term, self.v.vector.name, lanes)
        return placer(term, [*(x.name for x in self.slides), *fixed], bounds, fixed)

    @property
    def _filters(self) -> tuple[Var, ...]:
        return () if self.filters is None else (self.filters,)

    def _at(self, e: Expr, point: Point, lanes: int, bounds: Bounds) -> Expr:
        """The vector of an expression. Bounds say where first lanes are, so none may be used before."""
        here = substitute(e, self._place(point))
        return simplify(vectorize(here, self.v.vector.name, lanes), bounds)

    def _moved(self, e: Expr, point: Point, bounds: Bounds) -> Expr:
        return simplify(substitute(e, self._place(point)), bounds)

    def _place(self, point: Point) -> dict[str, Expr]:
        """What the axes of a tile are at one of its points."""
        at: dict[str, Expr] = {x.name: x + point[x.name] for x in self.slides}
        return at | {f.name: Const(point[f.name]) for f in self._filters}

    def _keep(self, e: Expr) -> Expr:
        """Loads that stay where they are while the window slides are made once, outside."""
        if not self.keeps:
            return e

        def kept(node: Expr) -> Expr | None:
            if not isinstance(node, Load):
                return None
            if self._moves(node, *self.rolled):
                return node  # what its index reads is a number, not a vector
            return self.kept.setdefault(node, Var(f"kept{len(self.kept)}", None, node.dtype))

        return transform(e, kept)

    def _moves(self, load: Load, *others: Var) -> bool:
        return any(mentions(i, x.name) for i in load.index for x in (*self.slides, *others))


def _taps_of(s: Segment, x: Var) -> Taps:
    """The taps of a segment along x."""
    own = {k: (x.name, tuple(each[k] for each in s.own)) for k in (s.own[0] if s.own else ())}
    return {**s.taps, **own}


def _named(term: Expr, names: Mapping[Expr, Expr]) -> Expr:
    return transform(term, lambda e: names.get(e) if isinstance(e, Load) else None)


def in_memory_order(load: Load) -> tuple[str, tuple[int, ...]]:
    """Where a read lies among those that differ by constants."""
    return load.tensor.name, tuple(linear(i).get(None, 0) for i in load.index)
