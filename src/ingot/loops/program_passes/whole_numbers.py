"""A network of integers has no floats where the processor has none.

    y[i] = uint8(round(float32(acc) * m[i]) ...)   ->   y[i] = uint8(soft_scaled(acc, bits[i]) ...)

In: a program. Out: on a target without floats, if all that the caller gives and gets are integers, one in
which float32 numbers are their bits, constants too; the results are the same bits. Elsewhere, and where a
float is of another type or does what `loops/soft_floats.py` has no integers for: the program itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ingot.formula.expr import Tensor
from ingot.loops.program import Branch, Call, Copy, Kernel, Program, Repeat, Step
from ingot.loops.soft_floats import NotInIntegers, SoftFloats
from ingot.targets.record import Target


def whole_numbers(program: Program, target: Target) -> Program:
    """The program on bits, or itself."""
    edge = (*program.inputs, *program.outputs, *program.members)
    if target.has_floats or any(t.type.is_float for t in edge):
        return program
    floats = SoftFloats()
    try:
        kernels = {k: _kernel(k, floats) for k in program.kernels}
        steps = _steps(program.steps, kernels, floats)
        aliases = {
            floats.tensor(t): replace(a, base=floats.tensor(a.base)) for t, a in program.aliases.items()
        }
        constants = tuple(map(floats.tensor, program.constants))
    except NotInIntegers:
        return program
    return replace(program, steps=steps, aliases=aliases, constants=(*constants, *floats.tables))


def _kernel(kernel: Kernel, floats: SoftFloats) -> tuple[Kernel, tuple[Tensor, ...]]:
    """The kernel on bits, and the tables that it reads beside its arguments."""
    body = floats.statements(kernel.body)
    own = tuple(map(floats.tensor, kernel.parameters))
    made = replace(kernel, body=body, parameters=own, scratch=frozenset(map(floats.tensor, kernel.scratch)))
    tables = tuple(t for t in floats.tables if t in made.read)
    return replace(made, parameters=(*tables, *own)), tables


def _steps(
    steps: Iterable[Step], kernels: dict[Kernel, tuple[Kernel, tuple[Tensor, ...]]], floats: SoftFloats
) -> tuple[Step, ...]:
    return tuple(_step(s, kernels, floats) for s in steps)


def _step(step: Step, kernels: dict[Kernel, tuple[Kernel, tuple[Tensor, ...]]], floats: SoftFloats) -> Step:
    match step:
        case Call(kernel, arguments):
            made, tables = kernels[kernel]
            return replace(step, kernel=made, arguments=(*tables, *map(floats.tensor, arguments)))
        case Copy(source, to):
            return replace(step, source=floats.tensor(source), to=floats.tensor(to))
        case Branch(condition, then, other):
            return Branch(condition, _steps(then, kernels, floats), _steps(other, kernels, floats))
        case Repeat(body=body):
            return replace(step, body=_steps(body, kernels, floats))
    return step
