"""Row reductions: stages that reduce along contiguous memory, and the stages that read their sums.

One loop over rows serves a softmax, a layer normalisation, a sum:

    top = max x; e = exp(x - top); total = sum e; y = e / total      for each row, not for each tensor

In: the first stages of a group, over logical tensors. Out: statements, and how many stages they serve. A row
that fits stays in named vector registers from its first read to its last write; a longer one is walked once
per phase, a phase being the stages that wait for the same statistics. What is left of a row behind whole
vectors is a vector that ends with the row and repeats what lies before: sums leave that out, and it is read
before anything of the row is written, for the result may lie where an operand does. A few short rows go
together: their statistics are lanes of one vector, so that lanes are folded and a logarithm or a square root
is taken once for all of them. Serves sums, maxima and minima whose every operand moves by one along the row
or stays.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from itertools import product

from ingot.formula.compute import COMBINERS, Reduction, Stage, chained, combined
from ingot.formula.expr import (
    Const,
    Expr,
    Lane,
    Load,
    Shuffle,
    Tensor,
    Unary,
    Var,
    loads,
    static,
    substitute,
    transform,
    walk,
)
from ingot.formula.index import Bounds, as_expr, mentions, simplify
from ingot.formula.statements import For, Let, Prefetch, Statement, Store
from ingot.loops.access import NotVectorizable, has_vector_form, step, vectorize
from ingot.loops.kernels.horizontal_reduction import reduce_lanes
from ingot.loops.kernels.naive import accumulate, nested
from ingot.loops.kernels.rows.row_stages import Run, Step, match, phases
from ingot.loops.layout import Storage
from ingot.loops.math import UNARY as LIBRARY
from ingot.targets.record import Target

LINE = 64  # bytes
PARTIAL = 4  # results of a reduction in flight: hides the latency of one add
TOGETHER = (4, 2)  # rows
BESIDE = 12  # registers that rows which go together leave to what is made of them


def row_reductions(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds
) -> tuple[tuple[Statement, ...], int] | None:
    """Statements for as many of the first stages as go together along rows; None if the first does not."""
    if target.vector_bytes == 0:
        return None
    run = match(stages, storage, bounds)
    while run is not None and run.steps:
        try:
            count = len(run.steps)
            return tuple(_Rows(run.before(stages[count:]).stored(storage), target).statements()), count
        except NotVectorizable:
            run = run.without_last()
    return None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A vector of neighbours of a row: where they start, what tells them from the others in names, how many
    of them, the first, are in another one, too, and which of the rows that go together it is of.
    """

    at: dict[str, Expr]
    name: str
    repeated: int = 0
    row: int = 0


@dataclass(slots=True)
class _Rows:
    """Writes the loops of one run. Registers: e values of maps, x operands, p partial results."""

    run: Run
    target: Target
    together: int = 0  # rows, the neighbours along the last outer axis; 0: as many as pay
    lanes: int = 1
    held: bool = False  # whether the row stays in registers
    values: dict[Tensor, str] = field(default_factory=dict)  # statistics, by the tensor that would hold them
    known: dict[tuple[Load, str], str] = field(
        default_factory=dict
    )  # registers of a chunk, by what they hold
    operands: dict[Load, int] = field(default_factory=dict)  # the numbers in their registers' names
    partial: dict[tuple[int, int], list[str]] = field(default_factory=dict)  # of a step, for a row
    awaited: list[Load] = field(default_factory=list)  # what the next walk writes and no cache holds

    def __post_init__(self) -> None:
        n = static(self.run.x.extent)
        self.lanes = self.target.lanes(self.run.dtype.bytes)
        while self.lanes > n:
            self.lanes //= 2
        if self.lanes < 2:
            raise NotVectorizable("one element a row")
        points = 1
        for a in self.run.others:
            points *= static(a.extent)
        if not points:
            raise NotVectorizable("no rows")
        chunks = points * -(-n // self.lanes)
        self.held = chunks <= self.target.registers // 2
        self.together = self.together or self._most_together(chunks)

    def _most_together(self, chunks: int) -> int:
        """How many rows go together: statistics of theirs are vectors, and registers hold all of them."""
        if not self.run.outer or not all(map(self._has_vector_values, self.run.steps)):
            return 1
        rows, room = static(self.run.outer[-1].extent), self.target.registers - BESIDE
        return next((r for r in TOGETHER if r <= min(rows, self.lanes) and r * chunks <= room), 1)

    def _has_vector_values(self, s: Step) -> bool:
        """Whether what a step makes of statistics may be made of those of several rows at once."""
        if s.kind == "map":
            return True
        made = {other.to.tensor for other in self.run.steps if other.kind != "map"}

        def statistic(e: Expr) -> Expr | None:
            return Var("statistic", None, e.dtype) if isinstance(e, Load) and e.tensor in made else None

        values = [s.value] if s.reduction is None else [s.value, s.reduction.init]
        others = [transform(e, statistic) for e in values]
        alike = not any(list(loads(e)) or mentions(e, self.run.outer[-1].name) for e in others)
        return alike and all(has_vector_form(e) and e.dtype is self.run.dtype for e in values)

    def statements(self) -> Iterator[Statement]:
        """Loops over rows: over those that go together, and over what is left of them."""
        if not self.run.outer:
            yield from self._body()
            return
        *outer, a = self.run.outer
        n = as_expr(a.extent or 0)
        whole = n if self.together == 1 else Const(static(a.extent) // self.together * self.together)
        nest = [For(a.name, Const(0), whole, self.together, tuple(self._body()))]
        if whole != n:
            nest.append(For(a.name, whole, n, 1, tuple(_Rows(self.run, self.target, 1)._body())))
        yield from nested(outer, nest)

    def _body(self) -> Iterator[Statement]:
        """What is done for a row, or for the rows that go together."""
        steps = list(phases(self.run))
        for phase, following in zip(steps, [*steps[1:], []], strict=True):
            self.awaited = [self.run.steps[k].to for k in following if self._comes_from_afar(k)]
            yield from self._phase(phase)

    def _comes_from_afar(self, k: int) -> bool:
        """Whether a step writes what has left the second cache, or was never there: its lines are asked for
        while the walk before it computes.
        """
        s = self.run.steps[k]
        return s.kind == "map" and s.to.tensor.bytes > self.target.caches[1]

    def _phase(self, phase: list[int]) -> Iterator[Statement]:
        """One walk along the row, then the statistics it gives."""
        walks = [k for k in phase if self.run.steps[k].kind != "number"]
        if walks:
            yield from self._held_walk(walks) if self.held else self._rolled_walk(walks)
        for k in phase:
            s = self.run.steps[k]
            if s.reduction is not None:
                yield from self._finish(k, s, s.reduction)
            elif s.kind == "number":
                yield from self._number(k, s, self._named(s.value, None))

    # -- walking along a row

    def _held_walk(self, walks: list[int]) -> Iterator[Statement]:
        written = list[Statement]()
        for row in range(self.together):
            for i, chunk in enumerate(self._chunks(row)):
                made = list(self._chunk(walks, chunk, i))
                yield from (s for s in made if not (chunk.repeated and isinstance(s, Store)))
                written += (s for s in made if chunk.repeated and isinstance(s, Store))
        yield from written

    def _chunks(self, row: int) -> Iterator[Chunk]:
        """Every chunk of a row, unrolled; the last one first."""
        places = [range(static(a.extent)) for a in self.run.others]
        full = static(self.run.x.extent) // self.lanes
        here: dict[str, Expr] = {a.name: a + row for a in self.run.outer[-1:] if self.together > 1}
        of_row = f"{row}_" if here else ""
        for i, place in enumerate(product(*places)):
            outer = {**here, **{a.name: Const(v) for a, v in zip(self.run.others, place, strict=True)}}
            name = f"{of_row}{i}_" if places else of_row
            chunks = [
                Chunk({**outer, self.run.x.name: Const(j * self.lanes)}, f"{name}{j}") for j in range(full)
            ]
            for chunk in (*self._last(outer, f"{name}{full}"), *chunks):
                yield replace(chunk, row=row)

    def _last(self, outer: dict[str, Expr], name: str) -> Iterator[Chunk]:
        """The chunk that ends with the row, where whole ones do not."""
        n = static(self.run.x.extent)
        if rest := n % self.lanes:
            yield Chunk({**outer, self.run.x.name: Const(n - self.lanes)}, name, self.lanes - rest)

    def _rolled_walk(self, walks: list[int]) -> Iterator[Statement]:
        """Loops over full vectors, a few at a time, around which the last one is read and written."""
        x, full = self.run.x, static(self.run.x.extent) // self.lanes * self.lanes
        count = min(1 if self._is_long(walks) else PARTIAL, full // self.lanes)
        wide = full // (count * self.lanes) * count * self.lanes
        yield from self._declare(walks, count)
        last = [s for chunk in self._last({}, f"{count}") for s in self._chunk(walks, chunk, 0)]
        self.known.clear()
        inner = [s for s in last if not isinstance(s, Store)]
        for lo, hi, parts in ((0, wide, count), (wide, full, 1)):
            if lo < hi:
                chunks = [Chunk({x.name: x + j * self.lanes}, f"{j}") for j in range(parts)]
                body = tuple(s for j, c in enumerate(chunks) for s in self._chunk(walks, c, j))
                body += tuple(self._ask(chunks))
                inner.append(For(x.name, Const(lo), Const(hi), parts * self.lanes, body))
                self.known.clear()
        yield from nested(self.run.others, (*inner, *(s for s in last if isinstance(s, Store))))

    def _is_long(self, walks: list[int]) -> bool:
        """Whether functions of the math library take longer than an addition, and most registers."""
        steps = (self.run.steps[k] for k in walks)
        values = (s.value if s.reduction is None else s.reduction.term for s in steps)
        return any(isinstance(n, Unary) and n.op in LIBRARY for e in values for n in walk(e))

    def _ask(self, chunks: list[Chunk]) -> Iterator[Statement]:
        """One element of every line that the next walk stores to where these chunks are."""
        line = max(1, LINE // (self.lanes * self.run.dtype.bytes))
        for to, chunk in product(self.awaited, chunks[::line]):
            yield Prefetch(simplify(substitute(to, chunk.at), self.run.bounds), 0)

    def _declare(self, walks: list[int], count: int) -> Iterator[Statement]:
        """The partial results before the first chunk: the combiner's identity."""
        for k in walks:
            r = self.run.steps[k].reduction
            if r is not None and r.identity is not None:
                yield from (Let(self._partial(k, 0, j), r.identity, self.lanes, True) for j in range(count))

    def _partial(self, k: int, row: int, j: int) -> str:
        """The name of a partial result of step k, noted the first time it is asked for."""
        found = self.partial.setdefault((k, row), [])
        name = f"p{k}_{row}_{j}" if self.together > 1 else f"p{k}_{j}"
        if name not in found:
            found.append(name)
        return name

    def _chunk(self, walks: list[int], chunk: Chunk, i: int) -> Iterator[Statement]:
        for k in walks:
            s = self.run.steps[k]
            if s.reduction is not None:
                term = yield from self._value(s.reduction.term, chunk, k)
                yield from self._accumulate(k, s.reduction, term, chunk, i)
                continue
            value = yield from self._value(s.value, chunk, k)
            if chunk.repeated or self._is_read(k, walks):
                name = f"e{k}_{chunk.name}"
                yield Let(name, value, self.lanes)
                value = self._note(s.to, chunk, name)
            if self._is_stored(k, walks):
                to = self._placed(s.to, chunk)
                assert isinstance(to, Load)
                yield Store(Load(to.tensor, to.index), value, self.lanes)

    def _accumulate(self, k: int, r: Reduction, term: Expr, chunk: Chunk, i: int) -> Iterator[Statement]:
        """The chunk's term joins a partial result; in a held row the first to come is one."""
        if chunk.repeated and r.combine == "sum":
            zero, every = (Var(f"{n}{k}_{chunk.name}", None, term.dtype) for n in ("zero", "every"))
            yield Let(zero.name, Const(0, term.dtype), self.lanes)
            if not isinstance(term, Var):
                yield Let(every.name, term, self.lanes)
                term = every
            new = (j if j < chunk.repeated else self.lanes + j for j in range(self.lanes))
            term = Shuffle(zero, term, tuple(new))
        before = list(self.partial.get((k, chunk.row), ()))
        name = self._partial(k, chunk.row, i % PARTIAL)
        if self.held and name not in before:
            yield Let(name, chained(r.combine, (*r.start, term)), self.lanes, True)
        else:
            yield accumulate(r.combine, name, term, self.lanes)

    def _is_read(self, k: int, walks: list[int]) -> bool:
        """Whether a register is worth it: a later step reads what step k makes, and still can."""
        later = range(k + 1, len(self.run.steps)) if self.held else [j for j in walks if j > k]
        return any(self.run.reads(j, k) for j in later)

    def _is_stored(self, k: int, walks: list[int]) -> bool:
        s = self.run.steps[k]
        if not s.is_private:
            return True
        return not self.held and any(
            self.run.reads(j, k) for j in range(k + 1, len(self.run.steps)) if j not in walks
        )

    def _value(self, e: Expr, chunk: Chunk, k: int) -> Generator[Statement, None, Expr]:
        """The expression for a chunk; operands that later steps read too are loaded once."""
        for load in dict.fromkeys(loads(e)):
            shared = load.tensor not in self.values and step(load, self.run.x.name) == 1
            if shared and (load, chunk.name) not in self.known and self._is_shared(load, k):
                name = f"x{self.operands.setdefault(load, len(self.operands))}_{chunk.name}"
                yield Let(name, self._placed(load, chunk), self.lanes)
                self._note(load, chunk, name)
        return self._placed(self._named(e, chunk), chunk)

    def _is_shared(self, load: Load, k: int) -> bool:
        others = self.run.steps[k + 1 :] if self.held else []
        return any(load in loads(e) for s in others for e in s.expressions)

    def _note(self, load: Load, chunk: Chunk, name: str) -> Var:
        self.known[load, chunk.name] = name
        return Var(name, None, load.dtype)

    def _named(self, e: Expr, chunk: Chunk | None) -> Expr:
        """Reads of what stands in a register become that register."""

        def register(node: Expr) -> Expr | None:
            if not isinstance(node, Load):
                return None
            if (value := self.values.get(node.tensor)) is not None:
                row = "" if chunk is None or self.together == 1 else f"_{chunk.row}"
                return Var(f"{value}{row}", None, node.dtype)
            name = None if chunk is None else self.known.get((node, chunk.name))
            return None if name is None else Var(name, None, node.dtype)

        return transform(e, register)

    def _placed(self, e: Expr, chunk: Chunk) -> Expr:
        return simplify(substitute(vectorize(e, self.run.x.name, self.lanes), chunk.at), self.run.bounds)

    # -- the statistics

    def _finish(self, k: int, s: Step, r: Reduction) -> Iterator[Statement]:
        """Partial results folded, then the lanes of what that makes for each row."""
        vectors: list[Var] = []
        for row in range(self.together):
            total = _fold(r, [Var(n, None, r.term.dtype) for n in self.partial.pop((k, row))])
            if not isinstance(total, Var):
                name = f"v{k}_{row}" if self.together > 1 else f"t{k}_{self.lanes}"
                yield Let(name, total, self.lanes)
                total = Var(name, None, r.term.dtype)
            vectors.append(total)
        total = yield from reduce_lanes(vectors, self.lanes, COMBINERS[r.combine], f"t{k}")
        if r.init != r.identity:
            total = _fold(r, [self._named(r.init, None), total])
        yield Let(f"acc{k}", total, self.together)
        value = substitute(self._named(s.value, None), {"acc": Var(f"acc{k}", None, total.dtype)})
        yield from self._number(k, s, value)

    def _number(self, k: int, s: Step, value: Expr) -> Iterator[Statement]:
        """A statistic of the row: a register for later steps, memory for others."""
        if not isinstance(value, Var):
            name = f"number{k}"
            yield Let(name, value, self.together)
            value = Var(name, None, value.dtype)
        self.values[s.to.tensor] = value.name
        if self.together == 1:
            yield from () if s.is_private else (Store(s.to, value),)
            return
        if not s.is_private:
            yield from self._stored(s.to, value)
        if self._is_walked_with(k):
            yield from (Let(f"{value.name}_{row}", Lane(value, row)) for row in range(self.together))

    def _stored(self, to: Load, values: Var) -> Iterator[Statement]:
        """The statistics of the rows that go together."""
        a = self.run.outer[-1]
        if step(to, a.name) == 1:
            yield Store(to, values, self.together)
            return
        for row in range(self.together):
            at = simplify(substitute(to, {a.name: a + row}), self.run.bounds)
            yield Store(at, Lane(values, row))

    def _is_walked_with(self, k: int) -> bool:
        """Whether a later walk along the row reads a statistic."""
        made = self.run.steps[k].to.tensor
        along = (
            s.value if s.reduction is None else s.reduction.term
            for s in self.run.steps[k + 1 :]
            if s.kind != "number"
        )
        return any(load.tensor is made for e in along for load in loads(e))


def _fold(r: Reduction, parts: list[Expr]) -> Expr:
    """A balanced tree: short dependency chains, and the order of addition is fixed."""
    while len(parts) > 1:
        pairs: list[Expr] = [combined(r.combine, a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    return parts[0]
