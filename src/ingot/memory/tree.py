"""The steps of a Program as numbered nodes over base tensors: what `lifetimes` and `order` work on.

Every step has one number, counted over the tree in the order in which the steps stand; the header of a branch
or a loop is a step of its own, its parts (two sides, or a body) follow it. Views count as the tensor whose
bytes they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ingot.formula.expr import Tensor
from ingot.loops.program import Branch, Call, Copy, Kernel, Program, Repeat, Step

ALIGN = 64
Path = tuple[int, ...]  # the parts a step stands in, outermost first


@dataclass(slots=True, eq=False)
class Node:
    """A step, its number, what it touches itself, the steps inside it; `end` is the number after its last."""

    step: Step
    number: int
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    parts: tuple[tuple[Node, ...], ...] = ()
    end: int = 0

    @property
    def touched(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys((*self.reads, *self.writes)))


def base_of(program: Program, t: Tensor) -> Tensor:
    """The tensor that owns the bytes of `t`."""
    return program.place(t).base


def padded(size: int) -> int:
    """Bytes of something where everything is aligned; never 0, for C has no empty arrays."""
    return -(-max(size, 1) // ALIGN) * ALIGN


def arena_bytes(t: Tensor) -> int:
    """The bytes a tensor occupies in an arena."""
    return padded(t.bytes)


def outside(program: Program) -> frozenset[Tensor]:
    """The tensors that live in the caller's memory or among the weights."""
    return frozenset((*program.inputs, *program.outputs, *program.constants, *program.members))


def tree(program: Program) -> tuple[Node, ...]:
    return _Builder(program).block(program.steps, 0)


@dataclass(slots=True)
class _Builder:
    program: Program
    read: dict[Kernel, frozenset[Tensor]] = field(default_factory=dict)

    def block(self, steps: tuple[Step, ...], at: int) -> tuple[Node, ...]:
        out: list[Node] = []
        for step in steps:
            out.append(self.node(step, at))
            at = out[-1].end
        return tuple(out)

    def node(self, step: Step, at: int) -> Node:
        reads, writes = self.accesses(step)
        reads = (*reads, *self.program.extents(step))
        parts: list[tuple[Node, ...]] = []
        end = at + 1
        for part in _parts(step):
            parts.append(self.block(part, end))
            end = parts[-1][-1].end if part else end
        return Node(step, at, self.bases(reads), self.bases(writes), tuple(parts), end)

    def accesses(self, step: Step) -> tuple[Iterable[Tensor | None], Iterable[Tensor]]:
        match step:
            case Call(kernel, arguments):
                read = self.read.get(kernel)
                if read is None:
                    read = self.read[kernel] = kernel.read
                pairs = zip(kernel.parameters, arguments, strict=True)
                return [a for p, a in pairs if p in read], step.writes
            case Copy(source, to):
                return (source,), (to,)
            case Branch(condition):
                return (condition,), ()
            case Repeat(counter, trips, condition):
                return (counter, trips, condition), (counter,)

    def bases(self, tensors: Iterable[Tensor | None]) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(base_of(self.program, t) for t in tensors if t is not None))


def _parts(step: Step) -> tuple[tuple[Step, ...], ...]:
    match step:
        case Branch(_, then, other):
            return then, other
        case Repeat(body=body):
            return (body,)
    return ()


def parts_of(node: Node, path: Path) -> Iterator[tuple[tuple[Node, ...], Path]]:
    """The parts of a node with their paths."""
    for i, part in enumerate(node.parts):
        yield part, (*path, 2 * node.number + i)


def everything(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """The nodes and the nodes inside them, in order of their numbers."""
    for node in nodes:
        yield node
        for part in node.parts:
            yield from everything(part)


def scopes(nodes: tuple[Node, ...]) -> dict[Tensor, tuple[Path, int]]:
    """For each tensor the innermost part that holds all accesses to it, and the first step's number there."""
    marks: dict[Tensor, tuple[Path, tuple[int, ...]]] = {}

    def visit(block: tuple[Node, ...], path: Path, above: tuple[int, ...]) -> None:
        for node in block:
            here = (*above, node.number)
            for t in node.touched:
                common, numbers = marks.setdefault(t, (path, here))
                marks[t] = common[: _common(common, path)], numbers
            for part, inner in parts_of(node, path):
                visit(part, inner, here)

    visit(nodes, (), ())
    return {t: (path, numbers[len(path)]) for t, (path, numbers) in marks.items()}


def _common(a: Path, b: Path) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n
