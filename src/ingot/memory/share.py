"""Which tensors share the same bytes although both are alive for one step: results written over operands.

In: a Program and its lifetimes. Out: buffers (tensors that follow each other in the same bytes), and the
parameters of kernels that alias because of it. A copy that is the last use of its source costs nothing then;
a call that writes over an operand loses `restrict` on two parameters, so only calls at which memory would
otherwise exceed the peak do so. Besides, the pairs of buffers whose bytes may overlap for a step at other
distances (`slides`), which is for the search of offsets to use.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

from ingot.formula.expr import Tensor
from ingot.loops.program import Call, Copy, Kernel, Program
from ingot.memory.inplace import Pair, overwritable
from ingot.memory.lifetimes import Lifetime, Span, profile
from ingot.memory.slides import Slide, slide
from ingot.memory.tree import Node, base_of, everything

Lives = dict[Tensor, Lifetime]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes that belong to one tensor after the other."""

    tensors: tuple[Tensor, ...]
    spans: tuple[Span, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Overwrite:
    """At step `number`, y is written over x; a call's parameters are `pair`, a copy has none. It
    begins so many bytes `before` x.
    """

    number: int
    x: Tensor
    y: Tensor
    call: tuple[Kernel, Pair] | None = None
    before: int = 0


@dataclass(frozen=True, slots=True)
class Sharing:
    """The buffers of a program and the overwrites that made them."""

    buffers: tuple[Buffer, ...]
    overwrites: tuple[Overwrite, ...]

    @property
    def bound_bytes(self) -> int:
        """The most bytes alive at once: no plan of these buffers needs less."""
        return max(profile((b.spans, b.bytes) for b in self.buffers).values(), default=0)


@dataclass(frozen=True, slots=True)
class Sliding:
    """At step `number` y may be written over parts of x that have been read; the call's parameters."""

    number: int
    x: Tensor
    y: Tensor
    call: tuple[Kernel, Pair]
    slide: Slide


Slidings = dict[tuple[Buffer, Buffer], Sliding]


def slidings(
    program: Program, nodes: tuple[Node, ...], lives: tuple[Lifetime, ...], sharing: Sharing
) -> Slidings:
    """What may slide, by the buffers of operand and result."""
    known = {life.tensor: life for life in lives}
    owner = {t: b for b in sharing.buffers for t in b.tensors}
    asked = cache(slide)
    found: Slidings = {}
    for node in everything(nodes):
        if not isinstance(node.step, Call):
            continue
        bound = dict(_whole_arguments(program, node.step))
        ends = [(p, x) for p, x in bound.items() if x in known and node.number in known[x].last]
        begins = [
            (q, y)
            for q, y in bound.items()
            if y in node.writes and y in known and node.number not in known[y].last
        ]
        for (p, x), (q, y) in product(ends, begins):
            a, b = owner[x], owner[y]
            if a is b or not _meet_at(a.spans, b.spans, node.number):
                continue
            safe = asked(node.step.kernel, p, q)
            if safe is not None:
                found[a, b] = Sliding(node.number, x, y, (node.step.kernel, (p, q)), safe)
    return found


def _whole_arguments(program: Program, call: Call) -> Iterator[tuple[Tensor, Tensor]]:
    """The parameters of a call for which it gives all of a tensor that it gives nowhere else."""
    bases = [base_of(program, t) for t in call.arguments]
    times = Counter(bases)
    for p, t, base in zip(call.kernel.parameters, call.arguments, bases, strict=True):
        if times[base] == 1 and program.place(t).start == 0 and t.bytes == base.bytes:
            yield p, base


def slid_bound(sharing: Sharing, found: Slidings) -> int:
    """The most bytes alive at once, had every pair that may slide the bytes of the larger one."""
    saved: Counter[int] = Counter()
    for (a, b), s in found.items():
        saved[s.number] += min(a.bytes, b.bytes)
    levels = profile((b.spans, b.bytes) for b in sharing.buffers)
    numbers, sizes = list(levels), list(levels.values())
    steps = {*numbers, *saved, *(n + 1 for n in saved)}
    return max((sizes[bisect_right(numbers, n) - 1] - saved[n] for n in steps), default=0)


def sharings(program: Program, nodes: tuple[Node, ...], lives: tuple[Lifetime, ...]) -> tuple[Sharing, ...]:
    """Sharings of the same least bound: one overwrites only where the peak asks for it, one where it can."""
    everywhere = _shared(lives, tuple(_candidates(program, nodes, lives)))
    copies = _shared(lives, tuple(o for o in everywhere.overwrites if o.call is None))
    if copies.bound_bytes == everywhere.bound_bytes:
        return (copies, everywhere)
    crowded = _above(copies, everywhere.bound_bytes)
    needed = _shared(lives, tuple(o for o in everywhere.overwrites if o.call is None or crowded(o.number)))
    return (needed, everywhere) if needed.bound_bytes == everywhere.bound_bytes else (everywhere,)


def _above(sharing: Sharing, limit: int) -> Callable[[int], bool]:
    """Whether more than `limit` bytes are alive at a step."""
    levels = profile((b.spans, b.bytes) for b in sharing.buffers)
    numbers, sizes = list(levels), list(levels.values())
    return lambda number: sizes[bisect_right(numbers, number) - 1] > limit


def _candidates(
    program: Program, nodes: tuple[Node, ...], lives: tuple[Lifetime, ...]
) -> Iterator[Overwrite]:
    """Every overwrite that is right by itself, in the order of the steps."""
    known = {life.tensor: life for life in lives}
    allowed = cache(overwritable)
    for node in everything(nodes):
        if not isinstance(node.step, Call | Copy):
            continue
        ends = {x: known[x] for x in node.reads if x in known and node.number in known[x].last}
        begins = {y: known[y] for y in node.writes if y in known and node.number not in known[y].last}

        def may(x: Tensor, y: Tensor, a: Lives = ends, b: Lives = begins, number: int = node.number) -> bool:
            same = x in a and y in b and a[x].bytes == b[y].bytes
            return same and _meet_at(a[x].spans, b[y].spans, number)

        if isinstance(node.step, Copy):
            if any(may(x, y) for x in ends for y in begins):
                yield Overwrite(node.number, node.reads[0], node.writes[0])
        elif not {x.bytes for x in ends.values()}.isdisjoint(y.bytes for y in begins.values()):
            yield from overwrites(program, node.step, node.number, may, allowed(node.step.kernel))


def overwrites(
    program: Program,
    call: Call,
    number: int,
    may: Callable[[Tensor, Tensor], bool],
    allowed: frozenset[Pair],
) -> Iterator[Overwrite]:
    """The overwrites x, y of a call that its kernel allows (`overwritable`) and that may be, no tensor taken
    twice.
    """
    parameters = call.kernel.parameters
    at = {p: i for i, p in enumerate(parameters)}
    bound = [base_of(program, a) for a in call.arguments]
    times = Counter(bound)
    taken: set[Tensor] = set()
    for i, j in sorted((at[p], at[q]) for p, q in allowed):
        x, y = bound[i], bound[j]
        if not taken & {x, y} and times[x] == times[y] == 1 and may(x, y):
            taken |= {x, y}
            yield Overwrite(number, x, y, (call.kernel, (parameters[i], parameters[j])))


def _meet_at(a: Iterable[Span], b: Iterable[Span], number: int) -> bool:
    """Whether two lists of spans share exactly the one step."""
    common = [
        (max(p, r), min(q, s)) for p, q in a for r, s in b if p < s and r < q
    ]  # spans are few: one, or one per side of a branch
    return common == [(number, number + 1)]


def _shared(lives: tuple[Lifetime, ...], wanted: tuple[Overwrite, ...]) -> Sharing:
    """Buffers after as many of the wanted overwrites as go together."""
    group = {life.tensor: [life] for life in lives}
    spans: dict[int, tuple[Span, ...]] = {id(g): g[0].spans for g in group.values()}
    done: list[Overwrite] = []
    for o in wanted:
        a, b = group[o.x], group[o.y]
        if a is b or not _meet_at(spans[id(a)], spans[id(b)], o.number):
            continue
        spans[id(a)] = _united(spans[id(a)], spans[id(b)])
        a += b
        group.update((life.tensor, a) for life in b)
        done.append(o)
    groups = {id(g): g for g in group.values()}
    buffers = (Buffer(tuple(v.tensor for v in g), spans[k], g[0].bytes) for k, g in groups.items())
    return Sharing(tuple(buffers), tuple(done))


def _united(a: tuple[Span, ...], b: tuple[Span, ...]) -> tuple[Span, ...]:
    out: list[Span] = []
    for start, end in sorted((*a, *b)):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return tuple(out)
