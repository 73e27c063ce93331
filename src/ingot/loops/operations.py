"""How much a kernel computes, counted from its loops: instructions, and operations by how they are done.

Whole programs are judged by these estimates: where to pause (`program_passes/pauses.py`), what is computed
one element at a time although the target has vectors (`scalar_kernels`), and what need not be fast (`minor`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ingot.errors import UnsupportedError
from ingot.formula.expr import Binary, Const, Expr, Load, Param, Text, Unary, Var, children
from ingot.formula.index import interval
from ingot.formula.statements import Barrier, For, Madd, Pause, Remark, Statement, Store, When, expressions
from ingot.loops.program import Kernel, Program, Repeat
from ingot.targets.record import Target

COSTS = {"neg": 1, "abs": 1, "not": 1, "sqrt": 10, "div": 4, "mod": 10, "floordiv": 10, "pow": 60}
FUNCTION = 25  # operations of exp, tanh and their kind
LOAD = 2
NOTABLE = 0.01  # of a program's instructions: kernels below it do not count
MINOR = 0.002  # of a program's instructions: what kernels that need not be fast take together
Ranges = dict[str, tuple[int, int]]


def inside(s: For, ranges: Ranges) -> Ranges:
    """The ranges of variables in the body of a loop."""
    lo, hi = interval(s.lo, ranges)[0], interval(s.hi, ranges)[1]
    return {**ranges, s.var: (lo, max(hi - 1, lo))}


def iterations(s: For, ranges: Ranges) -> int:
    """How often the body of a loop runs at most."""
    lo, hi = interval(s.lo, ranges)[0], interval(s.hi, ranges)[1]
    return max(0, -(-(hi - lo) // s.step))


def instructions(statements: tuple[Statement, ...], ranges: Ranges) -> int:
    """About how many instructions are executed; a vector's is one."""
    total = 0
    for s in statements:
        match s:
            case For():
                total += iterations(s, ranges) * (2 + instructions(s.body, inside(s, ranges)))
            case When(condition, body, other):
                total += _cost(condition) + max(instructions(body, ranges), instructions(other, ranges))
            case Remark() | Barrier() | Pause():
                pass
            case _:
                total += sum(map(_cost, expressions(s)))
    return total


def _cost(e: Expr, load: int = LOAD) -> int:
    match e:
        case Var() | Const() | Param() | Text():
            return 0
        case Load():
            return load + sum(_cost(i, load) for i in e.index if not isinstance(i, Var | Const | Binary))
        case Unary(op):
            own = COSTS.get(op, FUNCTION)
        case Binary(op):
            own = COSTS.get(op, 1)
        case _:
            own = 1
    return own + sum(_cost(c, load) for c in children(e))


@dataclass(frozen=True, slots=True)
class Work:
    """Operations on elements, stores among them: done one at a time, and in vectors."""

    scalar: int
    vector: int

    @property
    def scalar_share(self) -> float:
        """Of all operations; 0 where there are none."""
        return self.scalar / max(self.scalar + self.vector, 1)

    def __add__(self, other: Work) -> Work:
        return Work(self.scalar + other.scalar, self.vector + other.vector)

    def times(self, n: int) -> Work:
        """The same n times."""
        return Work(self.scalar * n, self.vector * n)


NOTHING = Work(0, 0)


def work(statements: tuple[Statement, ...], ranges: Ranges) -> Work:
    """What statements do at most; loads, addresses and conditions of loops are not counted."""
    total = NOTHING
    for s in statements:
        match s:
            case For():
                total += work(s.body, inside(s, ranges)).times(iterations(s, ranges))
            case When(_, body, other):
                total += max(work(body, ranges), work(other, ranges), key=lambda w: w.scalar + w.vector)
            case _:
                total += _done(s)
    return total


def _done(s: Statement) -> Work:
    values = (s.value,) if isinstance(s, Store) else expressions(s)
    count = sum(_cost(e, 0) for e in values) + isinstance(s, Store | Madd)
    lanes = getattr(s, "lanes", 1)
    return Work(0, count * lanes) if lanes > 1 else Work(count, 0)


def scalar_kernels(program: Program) -> Iterator[tuple[Kernel, float]]:
    """Kernels most of whose operations are scalar, with their share of the program's instructions.

    What takes less than `NOTABLE` of these is left out; a kernel counts once, however often it is called.
    """
    costs = {k: instructions(k.body, {}) for k in program.kernels}
    total = max(sum(costs.values()), 1)
    for kernel, cost in costs.items():
        if cost / total >= NOTABLE and work(kernel.body, {}).scalar_share > 0.5:
            yield kernel, cost / total


def minor(program: Program) -> frozenset[Kernel]:
    """The cheapest kernels, which together take less than `MINOR` of the program's instructions.

    Instructions that a routine saves are not known here, so the share is small. A program that repeats steps
    has none: how often is not known either.
    """
    if any(isinstance(step, Repeat) for step in program.steps):
        return frozenset()
    costs = {k: instructions(k.body, {}) for k in program.kernels}
    left, found = MINOR * sum(costs.values()), list[Kernel]()
    for kernel in sorted(costs, key=costs.__getitem__):
        left -= costs[kernel]
        if left < 0:
            break
        found.append(kernel)
    return frozenset(found)


def require_vectors(program: Program, target: Target) -> Program:
    """Raise UnsupportedError, by name, if kernels that count are scalar on a target with vectors."""
    if not target.vector_bytes:
        raise UnsupportedError(
            f"{target.name} has no vectors, and strict speed asks for them",
            remedy="choose another target, or leave out --strict-speed",
        )
    found = [f"{k.name} ({' + '.join(k.nodes)}, {share:.0%})" for k, share in scalar_kernels(program)]
    if found:
        raise UnsupportedError(
            f"one element at a time is computed on {target.name}, of all instructions: {', '.join(found)}",
            remedy="leave out --strict-speed, or choose another target",
        )
    return program
