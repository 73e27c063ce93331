"""Sharing: kernels that do the same to other tensors become one kernel, called with each one's tensors.

    conv2(c2.weight, a, b)          conv2(c2.weight, a, b)      one function, half the code:
    conv3(c3.weight, b, c)    ->    conv2(c3.weight, b, c)      weights are arguments like any other

In: a Program, in which calls of equal formulas share already. Out: the same program with one kernel for each
thing that is done, whatever formula it came from; the first of several equal ones stays and says in a remark
whom it serves. Equal are kernels whose parameters have the same types and shapes, and whose statements differ
only in the tensors they touch, and in remarks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace

from ingot.formula.expr import Expr, Load, Tensor, transform
from ingot.formula.index import value_range
from ingot.formula.statements import statements_text
from ingot.loops.program import Branch, Call, Kernel, Program, Repeat, Step, calls
from ingot.loops.rewrite import remarks_joined, rewritten, silent


def share(program: Program) -> Program:
    """The program with one kernel for each thing that is done."""
    first: dict[Hashable, Kernel] = {}
    places: dict[Hashable, Tensor] = {}
    kinds = Counter(map(_kind, program.kernels))
    same = {k: first.setdefault(_key(k, places), k) if kinds[_kind(k)] > 1 else k for k in program.kernels}
    users: dict[Kernel, list[Call]] = {}
    for call in calls(program.steps):
        users.setdefault(same[call.kernel], []).append(call)
    if all(len(made) == 1 for made in users.values()):
        return program
    described = {k: _described(k, made) for k, made in users.items()}
    merged = {k: described[to] for k, to in same.items()}
    return replace(program, steps=tuple(_step(s, merged) for s in program.steps))


def _kind(kernel: Kernel) -> Hashable:
    """What equal kernels have in common and is quickly told."""
    parameters = tuple((t.type, t.shape, t.pitch, value_range(t)) for t in kernel.parameters)
    return parameters, kernel.params, kernel.macs, len(kernel.body)


def _key(kernel: Kernel, places: dict[Hashable, Tensor]) -> Hashable:
    """Equal for kernels that differ in their tensors only. The text tells 0.0 from -0.0, which are equal."""
    stands: dict[Tensor, Tensor] = {}
    for n, t in enumerate(kernel.parameters):
        stands[t] = places.setdefault((n, t.type, t.shape), Tensor(f"p{n}", t.type, t.shape))

    def place(e: Expr) -> Expr | None:
        if isinstance(e, Load):
            return Load(stands[e.tensor], tuple(transform(i, place) for i in e.index), e.outside, e.lanes)
        return None

    body = rewritten(kernel.body, lambda e: transform(e, place), silent)
    return (_kind(kernel), body, "\n".join(statements_text(body)))


def _described(kernel: Kernel, users: list[Call]) -> Kernel:
    """The kernel with remarks that name everything it computes."""
    if len(users) == 1:
        return kernel
    everyone = ", ".join(" + ".join(call.nodes or call.kernel.nodes) for call in users)
    remark = f"{kernel.remark}; shared by {everyone}".removeprefix("; ")
    body = remarks_joined(kernel.body, (call.kernel.notes for call in users))
    return replace(kernel, remark=remark, body=body)


def _step(step: Step, merged: dict[Kernel, Kernel]) -> Step:
    match step:
        case Call(kernel):
            nodes, notes = step.nodes or kernel.nodes, step.notes or kernel.notes
            return replace(step, kernel=merged[kernel], nodes=nodes, notes=notes)
        case Branch(condition, then, other):
            sides = (tuple(_step(s, merged) for s in side) for side in (then, other))
            return Branch(condition, *sides)
        case Repeat():
            return replace(step, body=tuple(_step(s, merged) for s in step.body))
    return step
