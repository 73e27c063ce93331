"""How often the bytes of each tensor are touched in one run, estimated from the loops of the kernels.

In: a Program. Out: bytes read and written by base tensor. What is touched most for its size gains most from
the fastest memory (`regions.py`). Both sides of a condition count, and a loop of unknown length as `TURNS`
iterations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ingot.formula.expr import Load, Tensor, loads
from ingot.formula.statements import For, Statement, Store, When, loaded
from ingot.loops.operations import Ranges, inside, iterations
from ingot.loops.program import Branch, Call, Copy, Kernel, Program, Repeat, Step

TURNS = 8


def traffic(program: Program) -> Counter[Tensor]:
    """Bytes read and written in one run, by the tensor that owns them."""
    found: Counter[Tensor] = Counter()
    by_kernel = {k: _of_kernel(k) for k in program.kernels}
    _steps(program, program.steps, 1, by_kernel, found)
    return found


def _of_kernel(kernel: Kernel) -> Counter[Tensor]:
    """Bytes by the kernel's parameter."""
    found: Counter[Tensor] = Counter()
    _statements(kernel.body, {}, 1, found)
    return found


def _statements(statements: Iterable[Statement], ranges: Ranges, times: int, found: Counter[Tensor]) -> None:
    for s in statements:
        match s:
            case For():
                _statements(s.body, inside(s, ranges), times * iterations(s, ranges), found)
            case When(condition, body, other):
                _count(loads(condition), times, found)
                _statements((*body, *other), ranges, times, found)
            case _:
                each = times * getattr(s, "lanes", 1)
                _count((load for e in loaded(s) for load in loads(e)), each, found)
                _count((s.to,) if isinstance(s, Store) else (), each, found)


def _count(touched: Iterable[Load], times: int, found: Counter[Tensor]) -> None:
    for load in touched:
        found[load.tensor] += times * load.tensor.type.bytes


def _steps(
    program: Program,
    steps: tuple[Step, ...],
    times: int,
    by_kernel: dict[Kernel, Counter[Tensor]],
    found: Counter[Tensor],
) -> None:
    for step in steps:
        match step:
            case Call(kernel, arguments):
                for parameter, argument in zip(kernel.parameters, arguments, strict=True):
                    found[program.place(argument).base] += times * by_kernel[kernel][parameter]
            case Copy(source, to):
                for t in (source, to):
                    found[program.place(t).base] += times * t.bytes
            case Branch(_, then, other):
                _steps(program, (*then, *other), times, by_kernel, found)
            case Repeat(body=body):
                _steps(program, body, times * TURNS, by_kernel, found)
