"""When the bytes of each tensor must keep their content, read off the tree of steps.

In: a Program. Out: a `Lifetime` per arena tensor: a list of spans of step numbers, for what is written on
both sides of a branch lives on each side from its write on, and what a loop carries is dead from its last
read to its next write.

Backwards over the tree, a read starts a life and a write that replaces the whole content ends it. Such writes
are copies, and calls that touch a tensor before anyone else (whatever they leave out was never written).
Called by `plan` and `order`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ingot.formula.expr import Tensor
from ingot.loops.program import Branch, Copy, Program, Repeat
from ingot.memory.tree import Node, Path, arena_bytes, base_of, everything, outside, parts_of, scopes

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A tensor's bytes and the half-open spans of step numbers in which they must keep their content.

    `last` are the steps that touch it and after which, on every path, its content does not matter.
    """

    tensor: Tensor
    spans: tuple[Span, ...]
    bytes: int
    last: frozenset[int] = frozenset()

    @property
    def start(self) -> int:
        return self.spans[0][0]

    @property
    def end(self) -> int:
        return self.spans[-1][1]


def lifetimes(program: Program, nodes: tuple[Node, ...]) -> tuple[Lifetime, ...]:
    """The lifetime of every arena tensor, in the order of appearance; `nodes` is the program's `tree`."""
    walk = _Walk(scopes(nodes))
    walk.mark(nodes, (), set())
    last = (*program.outputs, *(s.made for s in program.states))
    live = {base_of(program, t): nodes[-1].end for t in last} if nodes else {}
    walk.block(nodes, live)
    for t, end in live.items():
        walk.spans.setdefault(t, []).append((0, end))
    elsewhere = outside(program)
    mine = [t for t in walk.scopes if t not in elsewhere]
    return tuple(Lifetime(t, walk.clipped(t), arena_bytes(t), frozenset(walk.last.get(t, ()))) for t in mine)


def profile(lives: Iterable[tuple[tuple[Span, ...], int]]) -> dict[int, int]:
    """Bytes alive from each step number at which that changes, for (spans, bytes) of buffers."""
    change: Counter[int] = Counter()
    for spans, size in lives:
        for start, end in spans:
            change[start] += size
            change[end] -= size
    out, now = {}, 0
    for at in sorted(change):
        now += change[at]
        out[at] = now
    return out


@dataclass(slots=True)
class _Walk:
    """The backward walk. `live` maps what is alive to the end of its current span."""

    scopes: dict[Tensor, tuple[Path, int]]
    spans: dict[Tensor, list[Span]] = field(default_factory=dict)
    last: dict[Tensor, list[int]] = field(default_factory=dict)
    kills: dict[Node, frozenset[Tensor]] = field(default_factory=dict)
    flows: dict[Node, tuple[frozenset[Tensor], frozenset[Tensor]]] = field(default_factory=dict)

    # -- what each step writes anew

    def mark(self, nodes: tuple[Node, ...], path: Path, seen: set[Tensor]) -> set[Tensor]:
        """`seen` is what some path to here has touched; it grows by what is returned."""
        added: set[Tensor] = set()
        for node in nodes:
            match node.step:
                case Copy():
                    whole = set(node.writes) - set(node.reads)
                case Repeat():  # the counter starts at 0
                    whole = set(node.writes)
                case _:
                    whole = set(node.writes) - seen
            self.kills[node] = frozenset(whole)
            more = set(node.touched) - seen
            seen |= more
            if isinstance(node.step, Repeat):
                more |= self.mark_body(node, path, seen)
            elif isinstance(node.step, Branch):
                sides: set[Tensor] = set()
                for part, inner in parts_of(node, path):
                    one = self.mark(part, inner, seen)
                    seen -= one  # no path leads through both sides
                    sides |= one
                seen |= sides
                more |= sides
            added |= more
        return added

    def mark_body(self, node: Node, path: Path, seen: set[Tensor]) -> set[Tensor]:
        """An earlier iteration may have touched what the loop shares with the steps around it."""
        inside = {t for inner in everything(node.parts[0]) for t in inner.touched}
        added = {t for t in inside if len(self.scopes[t][0]) <= len(path)} - seen
        seen |= added
        for part, inner in parts_of(node, path):
            added |= self.mark(part, inner, seen)
        return added

    def flow(self, nodes: tuple[Node, ...]) -> tuple[frozenset[Tensor], frozenset[Tensor]]:
        """(what the nodes need from before, what they replace on every path)."""
        needed: set[Tensor] = set()
        replaced: set[Tensor] = set()
        for node in reversed(nodes):
            if node not in self.flows:
                self.flows[node] = self.node_flow(node)
            more, gone = self.flows[node]
            needed -= gone
            needed |= more
            replaced |= gone
        return frozenset(needed), frozenset(replaced)

    def node_flow(self, node: Node) -> tuple[frozenset[Tensor], frozenset[Tensor]]:
        replaced = self.kills[node]
        inner = [self.flow(part) for part in node.parts]
        needed = frozenset(node.touched).union(*(more for more, _ in inner)) - replaced
        if isinstance(node.step, Branch):
            replaced |= inner[0][1] & inner[1][1]
        return needed, replaced

    # -- backwards

    def block(self, nodes: tuple[Node, ...], live: dict[Tensor, int]) -> None:
        for node in reversed(nodes):
            match node.step:
                case Branch():
                    self.branch(node, live)
                case Repeat():
                    self.repeat(node, live)
            for t in node.touched:
                if t not in live:
                    live[t] = node.number + 1
                    self.last.setdefault(t, []).append(node.number)
            for t in self.kills[node]:
                self.close(t, node.number, live)

    def close(self, t: Tensor, start: int, live: dict[Tensor, int]) -> None:
        """The span of `t` that begins at `start` is complete."""
        self.spans.setdefault(t, []).append((start, live.pop(t)))

    def branch(self, node: Node, live: dict[Tensor, int]) -> None:
        """Both sides start from what lives after them; at the header lives what either needs.

        `live` becomes the second side's. Numbers run through the first side and then the second: a span of
        the second goes on in the first only if it reaches to that side's last step.
        """
        then, other = node.parts
        middle = then[-1].end if then else node.number + 1
        inside = _touched(node)  # what neither side touches lives on as it did
        first = {t: middle for t in inside if t in live}
        if other:
            self.block(other, live)
        self.block(then, first)
        needed = [t for t in inside if t in live or t in first]
        for t in needed:
            if t in live and first.get(t) != middle:
                self.close(t, middle, live)
        for t in needed:
            live.setdefault(t, first.get(t, node.number + 1))

    def repeat(self, node: Node, live: dict[Tensor, int]) -> None:
        """What the header finds alive is alive at the end of the body too, for the loop goes back there."""
        (body,) = node.parts
        for t in (*node.reads, *self.flow(body)[0]):
            live.setdefault(t, node.end)
        header = [t for t in _touched(node) if t in live]
        self.block(body, live)
        for t in header:
            live.setdefault(t, node.number + 1)

    def clipped(self, t: Tensor) -> tuple[Span, ...]:
        """The spans in order, joined where they meet, from the first step that touches the tensor on."""
        first = self.scopes[t][1]
        out: list[Span] = []
        for start, end in sorted(self.spans[t]):
            start = max(start, first)
            if out and start <= out[-1][1]:
                out[-1] = (out[-1][0], max(end, out[-1][1]))
            elif start < end:
                out.append((start, end))
        return tuple(out)


def _touched(node: Node) -> dict[Tensor, None]:
    """What the steps inside a node touch."""
    return {t: None for part in node.parts for inner in everything(part) for t in inner.touched}
