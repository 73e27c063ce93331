"""Numbers about a compilation and about a bundle's object, as records. Called by `ingot inspect`."""

from __future__ import annotations

from dataclasses import dataclass

from ingot.audit.stack import stack_usage
from ingot.binary.objects import defined_symbols, sections, undefined_symbols, writable_bytes
from ingot.formula.expr import text
from ingot.loops.program import Program, calls
from ingot.memory.plan import Plan


@dataclass(frozen=True, slots=True)
class KernelCost:
    """One call: its multiply-accumulates and the bytes of all it is given."""

    name: str
    nodes: tuple[str, ...]
    macs: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor in the arena, and the steps, first to last, in which it keeps its content."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    bytes: int
    offset: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What is in an object file. `frames`: function -> (own stack, with all it calls), None where unknown."""

    text: int
    rodata: int
    data: int
    bss: int
    writable: int
    defined: tuple[str, ...]
    undefined: tuple[str, ...]
    frames: dict[str, tuple[int | None, int | None]]
    deepest: tuple[str, ...]


def kernel_costs(program: Program) -> list[KernelCost]:
    """In the order of the calls."""
    return [
        KernelCost(c.kernel.name, c.nodes or c.kernel.nodes, c.kernel.macs, sum(t.bytes for t in c.arguments))
        for c in calls(program.steps)
    ]


def placed_tensors(plan: Plan) -> list[Placed]:
    """In the order of their first step."""
    spans = sorted(plan.lifetimes, key=lambda s: (s.start, plan.offsets[s.tensor]))
    return [
        Placed(
            s.tensor.name,
            str(s.tensor.type),
            tuple(map(text, s.tensor.shape)),
            s.bytes,
            plan.offsets[s.tensor],
            s.start,
            s.end - 1,
        )
        for s in spans
    ]


def object_facts(content: bytes, entry: str) -> ObjectFacts:
    """Raises ToolchainError for anything but an ELF object."""
    part, stack = sections(content), stack_usage(content)
    frames = {name: (own, stack.bytes(name)) for name, own in stack.frames.items()}
    return ObjectFacts(
        part.text,
        part.rodata,
        part.data,
        part.bss,
        writable_bytes(content),
        tuple(defined_symbols(content)),
        tuple(undefined_symbols(content)),
        frames,
        stack.path(entry) if entry in frames else (),
    )
