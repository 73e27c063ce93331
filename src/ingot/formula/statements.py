"""Statements: what loops are made of. A kernel is a tuple of these; the C printer and the loop evaluator read
them.

Vector registers are named variables with `lanes` > 1; a scalar met beside a vector is broadcast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ingot.formula.expr import Expr, Load, Tensor, text


@dataclass(frozen=True, slots=True)
class Routine:
    """A function of the target's that does what a whole loop does, called with the addresses of some elements
    and with numbers, which are expressions only in what several kernels share (`loops/alike.py`). One that is
    `in_order` has done all of an iteration of its outermost loop before it begins the next; if that consists
    of loops with routines, it does what these do, one after the other.
    """

    name: str
    arguments: tuple[Load, ...]
    numbers: tuple[int | float | Expr, ...]
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class For:
    """for var = lo; var < hi; var += step. `parallel` marks a loop whose iterations are independent tasks; a
    loop with a `routine` is printed as a call of it, and means what its body says.
    """

    var: str
    lo: Expr
    hi: Expr
    step: int
    body: tuple[Statement, ...]
    parallel: bool = False
    routine: Routine | None = None

    @property
    def is_done_at_once(self) -> bool:
        """Whether nobody knows in which order an iteration does what it does."""
        parts = [isinstance(s, For) and s.routine is not None for s in self.body]
        return self.routine is not None and not (self.routine.in_order and all(parts))


@dataclass(frozen=True, slots=True)
class Let:
    """Declare a register. `mutable` ones are accumulators."""

    name: str
    value: Expr
    lanes: int = 1
    mutable: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    """Give a mutable register a new value."""

    name: str
    value: Expr
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Madd:
    """name += a * b, as one fused instruction where the target has it."""

    name: str
    a: Expr
    b: Expr
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Instruction:
    """name = operation(name, a, b): a target's instruction (`dot4`, ...) by its meaning in
    `loops/instructions.py`.
    """

    operation: str
    name: str
    a: Expr
    b: Expr
    lanes: int


@dataclass(frozen=True, slots=True)
class Store:
    """Write `value` to an element, or `lanes` of them along the `lane_axis`; narrow floats round here."""

    to: Load
    value: Expr
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class When:
    """if (condition) body else other."""

    condition: Expr
    body: tuple[Statement, ...]
    other: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Leave the bundle with `error` (a name such as ERR_INDEX) unless `condition` holds."""

    condition: Expr
    error: str


@dataclass(frozen=True, slots=True)
class Barrier:
    """Keep the C compiler from moving memory reads across this point: unrolled taps spill otherwise."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The caller may take the processor here, or end the run: no vector register keeps its content."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Ask for the cache line that lies `ahead` bytes after an element, which may be beyond its tensor.

    `level` is the cache that shall have it.
    """

    at: Load
    ahead: int
    level: int = 1


@dataclass(frozen=True, slots=True)
class Remark:
    """A comment that survives to the C."""

    text: str


Statement = (
    For | Let | Assign | Madd | Instruction | Store | When | Check | Barrier | Pause | Prefetch | Remark
)


def body_of(s: Statement) -> tuple[Statement, ...]:
    match s:
        case For(body=body):
            return body
        case When(_, body, other):
            return body + other
    return ()


def flatten(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement of the tree, parents first."""
    for s in statements:
        yield s
        yield from flatten(body_of(s))


def expressions(s: Statement) -> tuple[Expr, ...]:
    """The expressions a statement holds itself."""
    match s:
        case For(_, lo, hi, routine=routine):
            return (lo, hi, *(() if routine is None else routine.arguments))
        case Let(_, value) | Assign(_, value):
            return (value,)
        case Madd(_, a, b) | Instruction(_, _, a, b):
            return (a, b)
        case Store(to, value):
            return (to, value)
        case When(condition) | Check(condition):
            return (condition,)
        case Prefetch(at):
            return (at,)
    return ()


def loaded(s: Statement) -> tuple[Expr, ...]:
    """The expressions whose loads a statement performs: of a store's target only the indices."""
    return (*s.to.index, s.value) if isinstance(s, Store) else expressions(s)


def stored(statements: tuple[Statement, ...]) -> Iterator[Tensor]:
    return (s.to.tensor for s in flatten(statements) if isinstance(s, Store))


def statements_text(statements: tuple[Statement, ...], indent: str = "  ") -> Iterator[str]:
    """The text form, one line a statement."""
    for s in statements:
        match s:
            case For(var, lo, hi, step, _, parallel):
                kind = "parallel for" if parallel else "for"
                yield f"{indent}{kind} {var} in {text(lo)} .. {text(hi)} step {step}"
            case Let(name, value, lanes, mutable):
                yield f"{indent}{'var' if mutable else 'let'} {name}:{lanes} = {text(value)}"
            case Assign(name, value, lanes):
                yield f"{indent}{name}:{lanes} = {text(value)}"
            case Madd(name, a, b, lanes):
                yield f"{indent}{name}:{lanes} += {text(a)} * {text(b)}"
            case Instruction(operation, name, a, b, lanes):
                yield f"{indent}{name}:{lanes} = {operation}({name}, {text(a)}, {text(b)})"
            case Store(to, value, lanes):
                yield f"{indent}{text(to)}:{lanes} = {text(value)}"
            case When(condition):
                yield f"{indent}when {text(condition)}"
            case Check(condition, error):
                yield f"{indent}check {text(condition)} or {error}"
            case Barrier():
                yield f"{indent}barrier"
            case Pause():
                yield f"{indent}pause"
            case Prefetch(at, ahead, level):
                yield f"{indent}prefetch {text(at)} + {ahead} bytes to L{level}"
            case Remark(note):
                yield f"{indent}# {note}"
        if isinstance(s, When) and s.other:
            yield from statements_text(s.body, indent + "  ")
            yield f"{indent}otherwise"
            yield from statements_text(s.other, indent + "  ")
        else:
            yield from statements_text(body_of(s), indent + "  ")
