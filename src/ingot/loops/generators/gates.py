"""The gate generator: a product of a state with several matrices side by side, and the maps that join them.

    g[b, 0..4H] = state[b] R         for a vector of units j: the products of all their gates in registers,
    c[b, j] = f(g[b, j], ...)        activated right there, the new states stored
    h[b, j] = o(g[b, H + j], c[b, j])

In: the first stages of a group or of a scan's step. Out: statements, and how many stages they serve. R is
packed in the order the loops read it, gates beside each other; what the maps overwrite although the product
still reads it goes to a buffer first. Recurrent cells, and products whose result is split and joined again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ingot.formula.compute import Compute, Scan, Stage, reads
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import (
    Array,
    Const,
    Expr,
    Gathered,
    Load,
    Tensor,
    Var,
    loads,
    static,
    substitute,
    transform,
    upper,
    walk,
)
from ingot.formula.index import Bounds, linear, simplify
from ingot.formula.statements import For, Let, Madd, Statement, Store
from ingot.loops.access import NotVectorizable, step, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.cuts import pieces
from ingot.loops.generators.roles import Contraction, match
from ingot.loops.generators.tiles import Segment, segments
from ingot.loops.generators.vertical import has_vector_form
from ingot.loops.layout import Storage, bind
from ingot.loops.rewrite import shared_calls
from ingot.targets.record import Target

IN_FLIGHT = 8  # accumulators that hide the latency of a multiply-add


@dataclass(frozen=True, slots=True)
class Map:
    """A stage that joins gates: over physical tensors, its axes those of the states."""

    out: Tensor
    to: Load
    value: Expr


@dataclass(frozen=True, slots=True)
class Gates:
    """The product, and the maps over `unit` (and the product's tile axis) that follow it."""

    product: Contraction
    unit: Var
    maps: tuple[Map, ...]
    bounds: Bounds

    @property
    def count(self) -> int:
        return self.product.channels // static(self.unit.extent)

    def gate(self, load: Load) -> int | None:
        """Which gate of this unit a read of the product's result is; None for any other read."""
        if load.tensor is not self.product.to.tensor:
            return None
        form = linear(simplify(load.index[-1] - self.unit, self.bounds))
        first, size = form.get(None, 0), static(self.unit.extent)
        here = load.index[:-1] == self.product.to.index[:-1] and not form.keys() - {None}
        return first // size if here and first % size == 0 else None


def gates(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds
) -> tuple[tuple[Statement, ...], int] | None:
    """Statements for a product and the maps that join what it gives; None if the stages are nothing such."""
    if target.vector_bytes == 0 or not isinstance(stages[0], Compute) or len(stages) < 2:
        return None
    found = _match(stages, storage, bounds)
    if found is None:
        return None
    count = 1 + len(found.maps)
    made = {stages[0].out, *(m.out for m in found.maps)}
    later = {t for s in stages[count:] for t in reads(s)}
    if stages[0].out not in storage.inner or stages[0].out in later:
        return None
    kept = frozenset(m.to.tensor for m in found.maps if m.out in made - (storage.inner - later))
    try:
        return tuple(_Generator(found, storage, target, kept).statements()), count
    except NotVectorizable:
        return None


def _match(stages: tuple[Stage, ...], storage: Storage, bounds: Bounds) -> Gates | None:
    """The product and as many maps as go with it; None unless one reads several gates of a unit."""
    first = normal_axes(stages[0]) if isinstance(stages[0], Compute) else None
    product = None if first is None else match(first, storage, bounds)
    if product is None or product.outer or len(product.tile) > 1 or len(product.reduce) != 1:
        return None
    if step(product.to, product.vector.name) != 1 or (product.b.tensor.value is not None and product.around):
        return None
    found: Gates | None = None
    for stage in stages[1:]:
        added = None if isinstance(stage, Scan) else _joined(normal_axes(stage), product, found, storage)
        if added is None:
            break
        found = added
    seen = {found.gate(x) for m in found.maps for x in loads(m.value)} if found else set()
    return found if found is not None and len(seen - {None}) > 1 else None


def _joined(c: Compute, product: Contraction, found: Gates | None, storage: Storage) -> Gates | None:
    """With one more map, if all it reads is at hand when a vector of units is done."""
    units = [a for a in c.axes if a not in product.tile]
    simple = c.reduction is None and len(units) == 1 and isinstance(units[0].extent, int)
    if not simple or any(isinstance(n, Gathered) for e in c.expressions for n in walk(e)):
        return None
    unit = units[0]
    if product.channels % static(unit.extent) or (found is not None and unit != found.unit):
        return None
    inner = {**product.bounds, unit.name: (0, static(unit.extent) - 1)}
    index = tuple(simplify(bind(i, storage, inner), inner) for i in c.index)
    to = Load(storage.tensor(c.out), storage.layout(c.out).index(index))
    new = Map(c.out, to, bind(c.value, storage, inner))
    old = found.maps if found is not None else ()
    gates = Gates(product, unit, (*old, new), inner)
    return gates if _fits(gates, new, old) else None


def _fits(g: Gates, new: Map, old: tuple[Map, ...]) -> bool:
    made = {m.to.tensor: m.to.index for m in old}
    read = {x.tensor for m in old for x in loads(m.value)} | {g.product.b.tensor}
    if new.to.tensor.type is not g.product.b.tensor.type or not has_vector_form(new.value):
        return False
    for x in loads(new.value):
        if x.tensor is g.product.to.tensor and g.gate(x) is None:
            return False
        if x.tensor in made and x.index != made[x.tensor]:
            return False
        if x.tensor is new.to.tensor and x.index != new.to.index:
            return False
    before = all(x.index == new.to.index for m in old for x in loads(m.value) if x.tensor is new.to.tensor)
    moves = [step(x, g.unit.name) for x in loads(new.value)]
    fresh = new.to.tensor not in made and (new.to.tensor not in read or before)
    return fresh and step(new.to, g.unit.name) == 1 and all(m in (0, 1) for m in moves)


@dataclass(slots=True)
class _Generator:
    """Writes the loops. Registers: c products, a state, r a row of R, v values of maps."""

    gates: Gates
    storage: Storage
    target: Target
    kept: frozenset[Tensor]  # what the maps make for others
    lanes: int = 1
    later: dict[Tensor, Tensor] = field(default_factory=dict)  # states, and where their next values wait
    scratch: dict[Segment, Tensor] = field(default_factory=dict)  # matrices packed at run time

    def statements(self) -> Iterator[Statement]:
        g, size = self.gates, static(self.gates.unit.extent)
        self.lanes = self.target.lanes(g.product.b.dtype.bytes)
        vectors = max(1, min(-(-IN_FLIGHT // g.count), size // self.lanes))
        parts = segments(size, self.lanes, vectors, exact=True)
        if sum(s.blocks for s in parts) > 1:
            self._postpone()
        body: list[Statement] = []
        for s in parts:
            yield from self._packing(s)
            inner = tuple(self._points(s))
            body.append(For(g.unit.name, Const(s.first), Const(s.end), s.size, inner))
        yield from body
        for state, following in self.later.items():
            yield from self._copy(state, following)

    def _postpone(self) -> None:
        """What the product reads must not change before the last unit is done."""
        for m in self.gates.maps:
            if m.to.tensor is self.gates.product.a.tensor:
                shape = tuple(upper(n) for n in m.to.tensor.shape)
                self.later[m.to.tensor] = self.storage.scratch(m.to.tensor, shape)

    def _copy(self, state: Tensor, following: Tensor) -> Iterator[Statement]:
        g = self.gates
        to = next(m.to for m in g.maps if m.to.tensor is state)
        for s in segments(static(g.unit.extent), self.lanes, 1, exact=True):
            body: tuple[Statement, ...] = ()
            at = 0
            for width in s.widths:
                here = {g.unit.name: g.unit + at}
                new = vectorize(Load(following, to.index), g.unit.name, width)
                place = simplify(substitute(to, here), g.bounds)
                assert isinstance(place, Load)
                body += (Store(place, simplify(substitute(new, here), g.bounds), width),)
                at += width
            body = (For(g.unit.name, Const(s.first), Const(s.end), s.size, body),)
            for x in g.product.tile:
                body = (For(x.name, Const(0), Const(static(x.extent)), 1, body),)
            yield from body

    # -- the matrices

    def _packed(self, s: Segment) -> Load:
        """R as the loops read it: for each block of units and term, the gates side by side."""
        g, p = self.gates, self.gates.product
        extents = (s.blocks, static(p.reduce[0].extent), g.count, s.size)
        index = (g.unit // s.size if s.blocks > 1 else Const(0), p.reduce[0], Const(0), Const(0))
        if p.b.tensor.value is None:
            return Load(self.scratch[s], index)
        size = static(g.unit.extent)

        def pack(array: Array) -> Array:
            block, k, gate, lane = np.ogrid[tuple(slice(n) for n in extents)]
            grid = {p.reduce[0].name: k, p.vector.name: gate * size + s.first + block * s.size + lane}
            read = replace(p.b, tensor=replace(p.b.tensor, value=array))
            return np.ascontiguousarray(np.broadcast_to(evaluate(read, {}, grid), extents))

        how = ("gates", p.b.index, extents, s.first)
        return Load(self.storage.derived(p.b.tensor, how, pack), index)

    def _packing(self, s: Segment) -> Iterator[Statement]:
        """Copy R into that order, where it is known at run time only."""
        g, p = self.gates, self.gates.product
        if p.b.tensor.value is not None:
            return
        extents = (s.blocks, static(p.reduce[0].extent), g.count, s.size)
        self.scratch[s] = self.storage.scratch(p.b.tensor, extents)
        names = ("block", p.reduce[0].name, "gate", "lane")
        axes = tuple(Var(n, extent) for n, extent in zip(names, extents, strict=True))
        block, _, gate, lane = axes
        unit = block * s.size + lane + s.first
        read = substitute(p.b, {p.vector.name: gate * static(g.unit.extent) + unit})
        body: tuple[Statement, ...] = (Store(Load(self.scratch[s], axes), simplify(read, p.bounds)),)
        for a in reversed(axes):
            body = (For(a.name, Const(0), Const(static(a.extent)), 1, body),)
        yield from body

    # -- one block of units

    def _points(self, s: Segment) -> Iterator[Statement]:
        """Over the batch, as many rows at once as registers hold."""
        tile = self.gates.product.tile
        if not tile:
            yield from self._block(s, [{}])
            return
        rows = max(1, self.target.registers * 3 // 4 // (self.gates.count * len(s.widths)))
        x = tile[0]
        for lo, hi, part in pieces(static(x.extent), min(rows, static(x.extent))):
            body = tuple(self._block(s, [{x.name: x + i} if i else {} for i in range(part)]))
            yield For(x.name, Const(lo), Const(hi), part, body)

    def _block(self, s: Segment, points: list[dict[str, Expr]]) -> Iterator[Statement]:
        p = self.gates.product
        for i, point in enumerate(points):
            for gate in range(self.gates.count):
                for j, width in enumerate(s.widths):
                    init = substitute(p.init, point)
                    yield Let(f"c{i}_{gate}_{j}", init, width, True)
        k = p.reduce[0]
        yield For(k.name, Const(0), Const(static(k.extent)), 1, tuple(self._products(s, points)))
        for i, point in enumerate(points):
            yield from self._join(s, i, point)

    def _products(self, s: Segment, points: list[dict[str, Expr]]) -> Iterator[Statement]:
        p, packed = self.gates.product, self._packed(s)
        dtype = p.b.dtype
        for i, point in enumerate(points):
            yield Let(f"a{i}", simplify(substitute(p.a, point), p.bounds))
        for gate in range(self.gates.count):
            at = 0
            for j, width in enumerate(s.widths):
                index = (*packed.index[:2], Const(gate), Const(at))
                yield Let(f"r{gate}_{j}", Load(packed.tensor, index, None, width), width)
                for i in range(len(points)):
                    a, r = Var(f"a{i}", None, dtype), Var(f"r{gate}_{j}", None, dtype)
                    yield Madd(f"c{i}_{gate}_{j}", a, r, width)
                at += width

    def _join(self, s: Segment, i: int, point: dict[str, Expr]) -> Iterator[Statement]:
        """The maps for one row of the batch, each over all vectors of the block."""
        known: dict[tuple[Tensor, int], Var] = {}
        for n, m in enumerate(self.gates.maps):
            at = 0
            for j, width in enumerate(s.widths):
                here = {**point, self.gates.unit.name: self.gates.unit + at}
                value = self._value(m.value, i, j, known)
                value = simplify(
                    substitute(vectorize(value, self.gates.unit.name, width), here), self.gates.bounds
                )
                name = f"v{i}_{n}_{j}"
                calls, value = shared_calls(value, f"{name}_", width)
                yield from calls
                if not isinstance(value, Var):  # a state that is an output too is one register
                    yield Let(name, value, width)
                known[m.to.tensor, j] = value if isinstance(value, Var) else Var(name, None, value.dtype)
                if m.to.tensor in self.kept or m.to.tensor in self.later:
                    to = Load(self.later.get(m.to.tensor, m.to.tensor), m.to.index)
                    place = simplify(substitute(to, here), self.gates.bounds)
                    assert isinstance(place, Load)
                    yield Store(place, known[m.to.tensor, j], width)
                at += width

    def _value(self, e: Expr, i: int, j: int, known: dict[tuple[Tensor, int], Var]) -> Expr:
        """Reads of products and of what earlier maps made become their registers."""
        g, size = self.gates, static(self.gates.unit.extent)

        def register(node: Expr) -> Expr | None:
            if not isinstance(node, Load):
                return None
            gate = g.gate(node)
            if gate is None:
                return known.get((node.tensor, j))
            acc = Var(f"c{i}_{gate}_{j}", None, node.dtype)
            here = {g.product.vector.name: g.unit + gate * size, "acc": acc}
            return simplify(substitute(g.product.value, here), g.bounds)

        return transform(e, register)
