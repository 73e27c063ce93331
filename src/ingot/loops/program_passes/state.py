"""States: outputs that come back as inputs of the next run become members of the caller's state.

In: the program in its final order, with every pair still an output and an input. Out: the program whose
inputs and outputs are the other ones. A new content goes straight over the old one where that shows nowhere:
every step that reads the old one is over before the first that touches the new one, and no step from there
on can fail, for an error must leave the state as it was. A kernel that changes some of it and copies the rest
stores the changes only (`updates`). Otherwise it is made in the arena and copied last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ingot.formula.expr import Tensor
from ingot.formula.packing import pack
from ingot.graph.ir import State
from ingot.loops.program import Alias, Kept, Program, Step, may_fail, touched
from ingot.loops.program_passes.updates import Made, repeated_checks, updated


def keep_states(program: Program, states: Sequence[State]) -> Program:
    """The program with `states`: `state.input` and `state.output` count its inputs and outputs."""
    kept = tuple(_kept(program, s) for s in states)
    members, made = {k.member for k in kept}, {k.made for k in kept}
    aliases = dict(program.aliases)
    steps, repeated, kernels = program.steps, repeated_checks(program), Made()
    for k in kept:
        if _goes_over(program, k):
            aliases[k.made] = Alias(k.member)
        elif k.made not in program.aliases:
            changed = updated(replace(program, steps=steps), k.member, k.made, repeated, kernels)
            if changed is not None:
                steps, aliases[k.made] = changed, Alias(k.member)
    return replace(
        program,
        steps=steps,
        inputs=tuple(t for t in program.inputs if t not in members),
        outputs=tuple(t for t in program.outputs if t not in made),
        aliases=aliases,
        states=kept,
    )


def _kept(program: Program, state: State) -> Kept:
    member, initial = program.inputs[state.input], state.initial
    if member.packed is not None and initial is not None:
        initial = pack(initial)
    return Kept(member, program.outputs[state.output], initial)


def _goes_over(program: Program, kept: Kept) -> bool:
    """Whether the new content may be made where the old one is."""
    if kept.made in program.aliases:
        return False
    old = [i for i, s in enumerate(program.steps) if kept.member in _bases(program, s)]
    new = [i for i, s in enumerate(program.steps) if kept.made in _bases(program, s)]
    if not new or (old and old[-1] >= new[0]):
        return False
    return not may_fail(program.steps[new[0] :])


def _bases(program: Program, step: Step) -> Iterable[Tensor]:
    return {program.place(t).base for t in touched((step,))}
