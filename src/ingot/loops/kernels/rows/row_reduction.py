"""Row reductions: stages that reduce along contiguous memory, and the stages that read their sums.

One loop over rows serves a softmax, a layer normalisation, a sum:

    top = max x; e = exp(x - top); total = sum e; y = e / total      for each row, not for each tensor

In: the first stages of a group, over logical tensors. Out: statements, and how many stages they serve. A row
that fits stays in named vector registers from its first read to its last write; a longer one is walked once
per phase, a phase being the stages that wait for the same statistics. What is left of a row behind whole
vectors is a vector that ends with the row and repeats what lies before: sums leave that out, and it is read
before anything of the row is written, for the result may lie where an operand does. Serves sums, maxima and
minima whose every operand moves by one along the row or stays.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import product

from ingot.formula.compute import COMBINERS, Reduction, Stage
from ingot.formula.expr import (
    Binary,
    Const,
    Expr,
    Lane,
    Load,
    Shuffle,
    Tensor,
    Var,
    loads,
    static,
    substitute,
    transform,
)
from ingot.formula.index import Bounds, as_expr, simplify
from ingot.formula.statements import For, Let, Prefetch, Statement, Store
from ingot.loops.access import NotVectorizable, step, vectorize
from ingot.loops.kernels.naive import accumulate
from ingot.loops.kernels.rows.row_stages import Run, Step, match
from ingot.loops.layout import Storage
from ingot.targets.record import Target

LINE = 64  # bytes
PARTIAL = 4  # results of a reduction in flight: hides the latency of one add


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
    """A vector of neighbours of a row: where they start, what tells them from the others in names, and how
    many of them, the first, are in another one, too.
    """

    at: dict[str, Expr]
    name: str
    repeated: int = 0


@dataclass(slots=True)
class _Rows:
    """Writes the loops of one run. Registers: e values of maps, x operands, p partial results."""

    run: Run
    target: Target
    lanes: int = 1
    held: bool = False  # whether the row stays in registers
    values: dict[Tensor, str] = field(default_factory=dict)  # statistics, by the tensor that would hold them
    known: dict[tuple[Load, str], str] = field(
        default_factory=dict
    )  # registers of a chunk, by what they hold
    operands: dict[Load, int] = field(default_factory=dict)  # the numbers in their registers' names
    partial: dict[int, list[str]] = field(default_factory=dict)  # of a step
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
        self.held = points * -(-n // self.lanes) <= self.target.registers // 2

    def statements(self) -> Iterator[Statement]:
        body: list[Statement] = []
        steps = list(phases(self.run))
        for phase, following in zip(steps, [*steps[1:], []], strict=True):
            self.awaited = [self.run.steps[k].to for k in following if self._comes_from_afar(k)]
            body += self._phase(phase)
        nest = tuple(body)
        for a in reversed(self.run.outer):
            nest = (For(a.name, Const(0), as_expr(a.extent or 0), 1, nest),)
        yield from nest

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
        for i, chunk in enumerate(self._chunks()):
            made = list(self._chunk(walks, chunk, i))
            yield from (s for s in made if not (chunk.repeated and isinstance(s, Store)))
            written += (s for s in made if chunk.repeated and isinstance(s, Store))
        yield from written

    def _chunks(self) -> Iterator[Chunk]:
        """Every chunk of a row, unrolled; the last one first."""
        places = [range(static(a.extent)) for a in self.run.others]
        full = static(self.run.x.extent) // self.lanes
        for i, place in enumerate(product(*places)):
            outer: dict[str, Expr] = {a.name: Const(v) for a, v in zip(self.run.others, place, strict=True)}
            row = f"{i}_" if places else ""
            yield from self._last(outer, f"{row}{full}")
            for j in range(full):
                yield Chunk({**outer, self.run.x.name: Const(j * self.lanes)}, f"{row}{j}")

    def _last(self, outer: dict[str, Expr], name: str) -> Iterator[Chunk]:
        """The chunk that ends with the row, where whole ones do not."""
        n = static(self.run.x.extent)
        if rest := n % self.lanes:
            yield Chunk({**outer, self.run.x.name: Const(n - self.lanes)}, name, self.lanes - rest)

    def _rolled_walk(self, walks: list[int]) -> Iterator[Statement]:
        """Loops over full vectors, a few at a time, around which the last one is read and written."""
        x, full = self.run.x, static(self.run.x.extent) // self.lanes * self.lanes
        count = min(PARTIAL, full // self.lanes)
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
        body = (*inner, *(s for s in last if isinstance(s, Store)))
        for a in reversed(self.run.others):
            body = (For(a.name, Const(0), as_expr(a.extent or 0), 1, body),)
        yield from body

    def _ask(self, chunks: list[Chunk]) -> Iterator[Statement]:
        """One element of every line that the next walk stores to where these chunks are."""
        line = max(1, LINE // (self.lanes * self.run.dtype.bytes))
        for to, chunk in product(self.awaited, chunks[::line]):
            at = simplify(substitute(to, chunk.at), self.run.bounds)
            assert isinstance(at, Load)
            yield Prefetch(at, 0)

    def _declare(self, walks: list[int], count: int) -> Iterator[Statement]:
        """The partial results before the first chunk: the combiner's identity."""
        for k in walks:
            r = self.run.steps[k].reduction
            if r is not None and r.identity is not None:
                yield from (Let(self._partial(k, j), r.identity, self.lanes, True) for j in range(count))

    def _partial(self, k: int, j: int) -> str:
        """The name of a partial result of step k, noted the first time it is asked for."""
        found, name = self.partial.setdefault(k, []), f"p{k}_{j}"
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
        before = list(self.partial.get(k, ()))
        name = self._partial(k, i % PARTIAL)
        if self.held and name not in before:
            yield Let(name, term, self.lanes, True)
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
            if node.tensor in self.values:
                return Var(self.values[node.tensor], None, node.dtype)
            name = None if chunk is None else self.known.get((node, chunk.name))
            return None if name is None else Var(name, None, node.dtype)

        return transform(e, register)

    def _placed(self, e: Expr, chunk: Chunk) -> Expr:
        return simplify(substitute(vectorize(e, self.run.x.name, self.lanes), chunk.at), self.run.bounds)

    # -- the statistics

    def _finish(self, k: int, s: Step, r: Reduction) -> Iterator[Statement]:
        """Partial results folded: the halves of a vector, then what is just as wide."""
        names = self.partial.pop(k)
        total = _fold(r, [Var(n, None, r.term.dtype) for n in names])
        width = self.lanes
        while width > 1:
            if not isinstance(total, Var):
                name = f"t{k}_{width}"
                yield Let(name, total, width)
                total = Var(name, None, r.term.dtype)
            width //= 2
            total = _fold(r, _halves(total, width))
        if r.init != r.identity:
            total = _fold(r, [self._named(r.init, None), total])
        yield Let(f"acc{k}", total)
        value = substitute(self._named(s.value, None), {"acc": Var(f"acc{k}", None, total.dtype)})
        yield from self._number(k, s, value)

    def _number(self, k: int, s: Step, value: Expr) -> Iterator[Statement]:
        """A statistic of the row: a register for later steps, memory for others."""
        if not isinstance(value, Var):
            name = f"number{k}"
            yield Let(name, value)
            value = Var(name, None, value.dtype)
        self.values[s.to.tensor] = value.name
        if not s.is_private:
            yield Store(s.to, value)


def phases(run: Run) -> Iterator[list[int]]:
    """The steps in order, parted where one waits for a statistic of the walk before it."""
    current: list[int] = []
    waiting = False  # whether numbers of this phase have been made already
    for k, s in enumerate(run.steps):
        waits = any(run.reads(k, j) and run.steps[j].kind != "map" for j in current)
        if current and s.kind != "number" and (waits or waiting):
            yield current
            current, waiting = [], False
        current.append(k)
        waiting = waiting or s.kind == "number"
    if current:
        yield current


def _halves(v: Var, width: int) -> list[Expr]:
    """The two halves of a vector of 2 * width lanes."""
    if width == 1:
        return [Lane(v, 0), Lane(v, 1)]
    return [Shuffle(v, v, tuple(range(lo, lo + width))) for lo in (0, width)]


def _fold(r: Reduction, parts: list[Expr]) -> Expr:
    """A balanced tree: short dependency chains, and the order of addition is fixed."""
    while len(parts) > 1:
        pairs: list[Expr] = [
            Binary(COMBINERS[r.combine], a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)
        ]
        parts = pairs + parts[2 * len(pairs) :]
    return parts[0]
