"""Order: independent steps change places where that lowers the peak of live bytes.

    a = big(x);  b = big(x);   c = small(a);  d = small(b)
    ->
    a = big(x);  c = small(a);  b = big(x);   d = small(b)

In: a Program. Out: the same steps, each after everything it depends on, never across a branch or a loop; the
very Program that came in if nothing is gained. A block is cut at the steps that every other step must precede
or follow; of the pieces between, those above what no order can avoid are searched: from the state after some
steps (which ones determines what is alive) to all states one step further, keeping the best few. A piece
whose states all fit is solved exactly. The search is bounded by steps, not by time. Stands before `plan`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate

from ingot.formula.expr import Tensor
from ingot.loops.program import Branch, Call, Copy, Program, Repeat, Step
from ingot.memory.inplace import overwritable
from ingot.memory.lifetimes import Lifetime, lifetimes, profile
from ingot.memory.plan import bound_bytes
from ingot.memory.share import overwrites
from ingot.memory.tree import Node, Path, arena_bytes, everything, outside, parts_of, scopes, tree

EFFORT = 100_000  # steps tried per piece
WIDEST = 500  # states kept


def order(program: Program) -> Program:
    """The program in the best order found."""
    nodes = tree(program)
    lives = tuple(sorted(lifetimes(program, nodes), key=_start))
    work = _Orderer(program, scopes(nodes), outside(program), lives)
    steps = work.block(nodes, ())
    if steps == program.steps:
        return program
    better = replace(program, steps=steps)
    return better if bound_bytes(better) < bound_bytes(program) else program


@dataclass(slots=True)
class _Tensor:
    """`users` are the steps of a piece that touch it; it may be alive before the piece or after it."""

    bytes: int
    users: int
    arrives: bool
    leaves: bool


@dataclass(slots=True)
class _Piece:
    """Steps between two cuts. Tensors and steps are numbers; sets of steps are bit masks."""

    nodes: tuple[Node, ...]
    before: list[int]  # of each step: the steps it depends on
    touched: list[list[int]]  # of each step: tensors
    inner: list[int]  # of each step: bytes alive at once inside it
    names: dict[Tensor, int]
    tensors: list[_Tensor]
    start_bytes: int
    pairs: list[list[tuple[int, int]]] = field(default_factory=list)  # of each step: what may share bytes

    def take(self, s: int, done: int, live: int) -> tuple[int, int]:
        """(bytes alive during step s, bytes alive after it), `live` being alive after the steps `done`."""
        after = done | 1 << s
        made = freed = shared = 0
        for k in self.touched[s]:
            t = self.tensors[k]
            made += t.bytes * (not t.arrives and not t.users & done)
            freed += t.bytes * (not t.leaves and not t.users & ~after)
        for k, m in self.pairs[s] if self.pairs else ():
            x, y = self.tensors[k], self.tensors[m]
            dies, begins = not x.leaves and not x.users & ~after, not y.arrives and not y.users & done
            shared += y.bytes * (dies and begins and (y.leaves or y.users & ~after != 0))
        return live + made + self.inner[s] - shared, live + made - freed

    def unavoidable(self) -> int:
        """No order has a lower peak: what passes through, and what the hungriest step touches."""
        through = self.start_bytes - sum(t.bytes for t in self.tensors if t.arrives)
        return through + max(self.least(s) for s in range(len(self.nodes)))

    def least(self, s: int) -> int:
        """The bytes step s holds, if results take the place of operands wherever their sizes agree."""
        node = self.nodes[s]
        free = [self.tensors[self.names[t]].bytes for t in node.reads if t in self.names]
        total = sum(self.tensors[k].bytes for k in self.touched[s]) + self.inner[s]
        for t in node.writes:
            size = self.tensors[self.names[t]].bytes if t in self.names and t not in node.reads else -1
            if size in free:
                free.remove(size)
                total -= size
        return total

    def peak(self, sequence: list[int]) -> int:
        done, live, peak = 0, self.start_bytes, 0
        for s in sequence:
            during, live = self.take(s, done, live)
            done, peak = done | 1 << s, max(peak, during)
        return peak

    def search(self, floor: int, ceiling: int) -> list[int] | None:
        """An order with a peak below the ceiling, as near to the floor as can be found."""
        followers: list[list[int]] = [[] for _ in self.nodes]
        for s, before in enumerate(self.before):
            for b in _bits(before):
                followers[b].append(s)
        trials = len(self.nodes) * self.breadth(followers)
        if trials > 5 * EFFORT:
            return None
        width = max(1, min(WIDEST, EFFORT // trials))
        ready = tuple(s for s, before in enumerate(self.before) if not before)
        states = [_State(floor, self.start_bytes, 0, ready, None)]
        for _ in self.nodes:
            found: dict[int, _State] = {}
            for state in states:
                for new in self.next_states(state, followers):
                    old = found.get(new.done)
                    if new.peak < ceiling and (old is None or new.peak < old.peak):
                        found[new.done] = new
            states = sorted(found.values(), key=lambda f: (f.peak, f.live))[:width]
        return states[0].sequence() if states else None

    def breadth(self, followers: list[list[int]]) -> int:
        """The most steps that are ready at once in the order as it is."""
        waiting = [before.bit_count() for before in self.before]
        ready = most = sum(1 for w in waiting if not w)
        for s in range(len(self.nodes)):
            ready -= 1
            for f in followers[s]:
                waiting[f] -= 1
                ready += not waiting[f]
            most = max(most, ready)
        return most

    def next_states(self, state: _State, followers: list[list[int]]) -> list[_State]:
        """A step that frees what it needs without a new peak is right to take now; else all are tried."""
        out: list[_State] = []
        for s in state.ready:
            during, live = self.take(s, state.done, state.live)
            done = state.done | 1 << s
            freed = [f for f in followers[s] if not self.before[f] & ~done]
            ready = (*(r for r in state.ready if r != s), *freed)
            new = _State(max(state.peak, during), live, done, ready, (s, state))
            if live <= state.live and during <= state.peak:
                return [new]
            out.append(new)
        return out


@dataclass(frozen=True, slots=True)
class _State:
    """After the steps `done`, the last of them and the state before it in `link`."""

    peak: int
    live: int
    done: int
    ready: tuple[int, ...]
    link: tuple[int, _State] | None

    def sequence(self) -> list[int]:
        out: list[int] = []
        state = self
        while state.link is not None:
            s, state = state.link
            out.append(s)
        return out[::-1]


@dataclass(slots=True)
class _Orderer:
    """Orders the blocks of a program."""

    program: Program
    scopes: dict[Tensor, tuple[Path, int]]
    outside: frozenset[Tensor]
    lives: tuple[Lifetime, ...]  # by start

    def block(self, nodes: tuple[Node, ...], path: Path) -> tuple[Step, ...]:
        """The steps of a block in their new order, the blocks inside them ordered too."""
        steps = [self.rebuilt(node, path) for node in nodes]
        before = _dependencies(nodes)
        cuts = _cuts(before)
        if len(cuts) == len(nodes):  # a chain
            return tuple(steps)
        pieces = list(self.pieces(nodes, path, before, cuts))
        floor = max((piece.unavoidable() for piece in pieces), default=0)
        out: list[Step] = []
        for piece in pieces:
            sequence = list(range(len(piece.nodes)))
            if len(sequence) > 1 and piece.peak(sequence) > floor:
                piece.pairs = [self.pairs(node, piece.names) for node in piece.nodes]
                sequence = piece.search(floor, piece.peak(sequence)) or sequence
            at = len(out)
            out += (steps[at + s] for s in sequence)
        return tuple(out)

    def rebuilt(self, node: Node, path: Path) -> Step:
        parts = tuple(self.block(part, inner) for part, inner in parts_of(node, path))
        match node.step:
            case Branch(_, then, other) if (then, other) != parts:
                return replace(node.step, then=parts[0], other=parts[1])
            case Repeat(body=body) if (body,) != parts:
                return replace(node.step, body=parts[0])
        return node.step

    def pieces(
        self, nodes: tuple[Node, ...], path: Path, before: list[set[int]], cuts: list[tuple[int, int]]
    ) -> Iterator[_Piece]:
        own = [self.own(node, path) for node in nodes]
        ends: dict[Tensor, tuple[int, int]] = {}
        for s, tensors in enumerate(own):
            ends.update((t, (ends.get(t, (s, s))[0], s)) for t in tensors)
        alive = profile((((first + 1, last + 1),), arena_bytes(t)) for t, (first, last) in ends.items())
        live = 0
        for lo, hi in cuts:
            names = {t: k for k, t in enumerate(dict.fromkeys(t for ts in own[lo:hi] for t in ts))}
            masks = [sum(1 << (b - lo) for b in before[s] if b >= lo) for s in range(lo, hi)]
            touched = [[names[t] for t in ts] for ts in own[lo:hi]]
            known = [_Tensor(arena_bytes(t), 0, ends[t][0] < lo, ends[t][1] >= hi) for t in names]
            for s, ks in enumerate(touched):
                for k in ks:
                    known[k].users |= 1 << s
            live = alive.get(lo, live)
            inner = [self.inner(node, path) for node in nodes[lo:hi]]
            yield _Piece(nodes[lo:hi], masks, touched, inner, names, known, live)
            for s in range(lo + 1, hi):
                live = alive.get(s, live)

    def own(self, node: Node, path: Path) -> tuple[Tensor, ...]:
        """The arena tensors that a node touches and that no step outside this block does."""
        found = dict.fromkeys(t for n in everything((node,)) for t in n.touched)
        return tuple(t for t in found if self.scopes[t][0] == path and t not in self.outside)

    def inner(self, node: Node, path: Path) -> int:
        """The most bytes that the steps inside a node hold at once beside what the block knows."""
        if not node.parts:
            return 0
        first = bisect_left(self.lives, node.number, key=_start)
        last = bisect_left(self.lives, node.end, key=_start)
        local = (v for v in self.lives[first:last] if len(self.scopes[v.tensor][0]) > len(path))
        return max(profile((v.spans, v.bytes) for v in local).values(), default=0)

    def pairs(self, node: Node, names: dict[Tensor, int]) -> list[tuple[int, int]]:
        """(operand, result) that may share bytes when the operand is no longer needed."""

        def may(x: Tensor, y: Tensor) -> bool:
            return x in names and y in names and x is not y and arena_bytes(x) == arena_bytes(y)

        if isinstance(node.step, Copy):
            return [(names[x], names[y]) for x in node.reads for y in node.writes if may(x, y)]
        sizes = [{arena_bytes(t) for t in ts if t in names} for ts in (node.reads, node.writes)]
        if not isinstance(node.step, Call) or sizes[0].isdisjoint(sizes[1]):
            return []
        allowed = overwritable(node.step.kernel)
        found = overwrites(self.program, node.step, node.number, may, allowed)
        return [(names[o.x], names[o.y]) for o in found]


def _start(life: Lifetime) -> int:
    return life.start


def _dependencies(nodes: tuple[Node, ...]) -> list[set[int]]:
    """For each node those before it that write what it touches or read what it writes."""
    writer: dict[Tensor, int] = {}
    readers: dict[Tensor, list[int]] = {}
    out: list[set[int]] = []
    for s, node in enumerate(nodes):
        inside = list(everything((node,)))
        reads, writes = {t for n in inside for t in n.reads}, {t for n in inside for t in n.writes}
        found = {writer[t] for t in reads | writes if t in writer}
        out.append(found.union(*(readers.pop(t, ()) for t in writes)))
        writer.update(dict.fromkeys(writes, s))
        for t in reads - writes:
            readers.setdefault(t, []).append(s)
    return out


def _cuts(before: list[set[int]]) -> list[tuple[int, int]]:
    """Ranges of steps: each step that all others must precede or follow by itself, those between as one."""
    n = len(before)
    next_user = [n] * n
    for s in reversed(range(n)):
        for b in before[s]:
            next_user[b] = s
    reach = list(accumulate((next_user[s] for s in range(n)), max, initial=-1))  # of all steps before s
    last_need = [max(b, default=-1) for b in before]
    need = list(accumulate(reversed(last_need), min, initial=n))[::-1]  # of all steps from s on
    alone = [reach[s] <= s <= need[s + 1] for s in range(n)]
    out: list[tuple[int, int]] = []
    lo = 0
    for s in range(n):
        if alone[s]:
            out += ([(lo, s)] if lo < s else []) + [(s, s + 1)]
            lo = s + 1
    return [*out, (lo, n)] if lo < n else out


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
