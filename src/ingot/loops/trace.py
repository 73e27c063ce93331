"""What every call of a program leaves in memory, as the loop evaluator has it.

In: a Program and its inputs. Out: its outputs; on the way `note` is told of each tensor that a call has made.
Called for the golden numbers of a self-test. Calls inside of loops are not told of: how often they run, and
what of a tensor they have made, only the loop knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ingot.formula.expr import Array, Tensor, static
from ingot.loops.evaluate import Machine, start
from ingot.loops.program import Branch, Call, Program, Step

Note = Callable[[Call, Tensor, Array], None]


def trace(
    program: Program, inputs: Mapping[str, Array], params: Mapping[str, int], note: Note
) -> list[Array]:
    """The outputs of a run; raises what `evaluate.run` does."""
    machine = Recorder(program, dict(params), told=frozenset(calls_once(program.steps)), note=note)
    start(machine, inputs)
    with np.errstate(all="ignore"):
        machine.steps(program.steps)
    return [machine.array(t) for t in program.outputs]


def calls_once(steps: tuple[Step, ...]) -> Iterator[Call]:
    """The calls that run at most once: none inside of a loop."""
    for step in steps:
        match step:
            case Call():
                yield step
            case Branch(_, then, other):
                yield from calls_once((*then, *other))


def results(call: Call) -> tuple[Tensor, ...]:
    """What a call makes for others: no scratch, and no strings, behind whose ends anything may stand."""
    kernel = call.kernel
    pairs = zip(kernel.parameters, call.arguments, strict=True)
    made = (a for p, a in pairs if p in kernel.written and p not in kernel.scratch)
    return tuple(t for t in dict.fromkeys(made) if not t.type.is_text)


@dataclass
class Recorder(Machine):
    """A machine that tells of the calls in `told`."""

    told: frozenset[Call] = frozenset()
    note: Note = field(default=lambda call, t, array: None)

    def call(self, step: Call) -> None:
        super().call(step)
        if step in self.told:
            for t in results(step):
                self.note(step, t, self.elements(t))

    def elements(self, t: Tensor) -> Array:
        """The elements as they lie there, of a part of a tensor too."""
        shape, flat = self.shape(t), self.flat(t)
        strides = [
            flat.itemsize * int(np.prod(self.spans(t)[d + 1 :], dtype=np.int64)) for d in range(t.rank)
        ]
        view: Array = np.lib.stride_tricks.as_strided(flat, shape, strides)
        copy: Array = view.copy()
        return copy

    def spans(self, t: Tensor) -> tuple[int, ...]:
        return self.shape(t) if t.pitch is None else tuple(map(static, t.spans))
