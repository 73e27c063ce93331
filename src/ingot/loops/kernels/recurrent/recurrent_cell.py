"""Recurrent cells: a product of a state with several matrices, and the maps that join them.

    g[b, 0..4H] = state[b] R         for a vector of units j: the products of all their gates in registers,
    c[b, j] = f(g[b, j], ...)        activated right there, the new states stored
    h[b, j] = o(g[b, H + j], c[b, j])

In: the first stages of a group or of a scan's step. Out: statements, and how many stages they serve. R is
packed in the order the loops read it, gates beside each other; what the maps overwrite although the product
still reads it goes to a buffer first. Products that this one only adds to (of the input, in a cell whose sum
is split) go before it into the same registers. Recurrent cells, and products whose result is split and joined
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ingot.formula.compute import Compute, Stage, reads
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import Array, Binary, Const, Expr, Load, Tensor, Var, static, substitute, transform
from ingot.formula.index import Bounds, simplify, upper
from ingot.formula.statements import Assign, For, Let, Madd, Statement, Store
from ingot.loops.access import NotVectorizable, vectorize
from ingot.loops.cuts import pieces
from ingot.loops.kernels.contraction.roles import Contraction
from ingot.loops.kernels.contraction.tiles import Segment, segments
from ingot.loops.kernels.recurrent.cell_roles import Gates, match_gates
from ingot.loops.layout import Storage
from ingot.loops.rewrite import shared_calls
from ingot.targets.record import Target

IN_FLIGHT = 8  # accumulators that hide the latency of a multiply-add


def recurrent_cell(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds
) -> tuple[tuple[Statement, ...], int] | None:
    """Statements for a product and the maps that join what it gives; None if the stages are nothing such."""
    matched = None if target.vector_bytes == 0 else match_gates(stages, storage, bounds)
    if matched is None:
        return None
    found, before = matched
    product, count = stages[before], before + 1 + len(found.maps)
    assert isinstance(product, Compute)
    made = {product.out, *(m.out for m in found.maps)}
    later = {t for s in stages[count:] for t in reads(s)}
    if product.out not in storage.inner or product.out in later:
        return None
    kept = frozenset(m.to.tensor for m in found.maps if m.out in made - (storage.inner - later))
    try:
        return tuple(_Generator(found, storage, target, kept).statements()), count
    except NotVectorizable:
        return None


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
        parts = segments(size, self.lanes, vectors, "narrow")
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
        for s in segments(static(g.unit.extent), self.lanes, 1, "narrow"):
            body: tuple[Statement, ...] = ()
            at = 0
            for width in s.widths:
                here = {g.unit.name: g.unit + at}
                new = vectorize(Load(following, to.index), g.unit.name, width)
                place = simplify(substitute(to, here), g.bounds)
                body += (Store(place, simplify(substitute(new, here), g.bounds), width),)
                at += width
            body = (For(g.unit.name, Const(s.first), Const(s.end), s.size, body),)
            for x in g.product.tile:
                body = (For(x.name, Const(0), Const(static(x.extent)), 1, body),)
            yield from body

    # -- the matrices

    def _packed(self, s: Segment, p: Contraction) -> Load:
        """R as the loops read it: for each block of units and term, the gates side by side."""
        g = self.gates
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

        how = ("recurrent_cell", p.b.index, extents, s.first)
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
        registers = [
            (i, gate, j)
            for i in range(len(points))
            for gate in range(self.gates.count)
            for j in range(len(s.widths))
        ]
        chains = self._chains(len(registers))
        for u in range(chains):
            for i, gate, j in registers:
                init = Const(0.0, p.b.dtype) if u else self._start(s, points[i], gate, j)
                yield Let(_register(i, gate, j, u), init, s.widths[j], True)
        for one in (*self.gates.before, p):
            yield from self._sum(s, points, one, chains)
        for u in range(1, chains):
            for i, gate, j in registers:
                some, more = (Var(_register(i, gate, j, v), None, p.b.dtype) for v in (0, u))
                yield Assign(_register(i, gate, j), Binary("add", some, more), s.widths[j])
        for i, point in enumerate(points):
            yield from self._join(s, i, point)

    def _start(self, s: Segment, point: dict[str, Expr], gate: int, j: int) -> Expr:
        """What the sums of a gate begin with."""
        g, width = self.gates, s.widths[j]
        if g.start is None:
            return substitute(g.product.init, point)
        value = substitute(g.start, {g.product.vector.name: g.unit + gate * static(g.unit.extent)})
        here = {**point, g.unit.name: g.unit + sum(s.widths[:j])}
        return simplify(substitute(vectorize(value, g.unit.name, width), here), g.bounds)

    def _sum(
        self, s: Segment, points: list[dict[str, Expr]], p: Contraction, chains: int
    ) -> Iterator[Statement]:
        k, count = p.reduce[0].name, static(p.reduce[0].extent)
        whole = count // chains * chains
        body = tuple(x for u in range(chains) for x in self._products(s, points, p, u))
        yield For(k, Const(0), Const(whole), chains, body)
        if whole < count:
            yield For(k, Const(whole), Const(count), 1, tuple(self._products(s, points, p, 0)))

    def _chains(self, accumulators: int) -> int:
        """Sums of every accumulator: as many as just hide the latency are delayed by whatever else waits."""
        free = self.target.registers * 3 // 4 - accumulators
        return 2 if accumulators <= IN_FLIGHT and accumulators <= free else 1

    def _products(
        self, s: Segment, points: list[dict[str, Expr]], p: Contraction, u: int
    ) -> Iterator[Statement]:
        """All products of one term, `u` after the loop's."""
        packed, dtype = self._packed(s, p), p.b.dtype
        k, more = p.reduce[0], f"_{u}" if u else ""
        term: dict[str, Expr] = {k.name: k + u} if u else {}
        for i, point in enumerate(points):
            yield Let(f"a{i}{more}", simplify(substitute(substitute(p.a, point), term), p.bounds))
        for gate in range(self.gates.count):
            at = 0
            for j, width in enumerate(s.widths):
                index = (*packed.index[:2], Const(gate), Const(at))
                r = simplify(substitute(Load(packed.tensor, index, None, width), term), p.bounds)
                yield Let(f"r{gate}_{j}{more}", r, width)
                for i in range(len(points)):
                    a, b = Var(f"a{i}{more}", None, dtype), Var(f"r{gate}_{j}{more}", None, dtype)
                    yield Madd(_register(i, gate, j, u), a, b, width)
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
            acc = Var(_register(i, gate, j), None, node.dtype)
            here = {g.product.vector.name: g.unit + gate * size, "acc": acc}
            return simplify(substitute(g.product.value, here), g.bounds)

        return transform(e, register)


def _register(i: int, gate: int, j: int, chain: int = 0) -> str:
    return f"c{i}_{gate}_{j}_{chain}" if chain else f"c{i}_{gate}_{j}"
