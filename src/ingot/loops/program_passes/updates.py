"""Updates: what a kernel changes of a state goes over the old elements, the others stay where they are.

    for t: new[t] = is_new ? x[t - start] : old[t]      ->      for t: when is_new: state[t] = x[t - start]

A cache of keys and values changes in a few rows per run, and copying the rest takes as long as it is large.
In: a program, and the tensors that a run finds and leaves. Out: the steps with kernels that only store what
changes; None where that would show, or could leave a changed state behind an error. Called by `keep_states`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ingot.formula.expr import Expr, Load, Select, Tensor, Var, loads, walk
from ingot.formula.index import mentions
from ingot.formula.statements import (
    Assign,
    Check,
    For,
    Instruction,
    Let,
    Madd,
    Pause,
    Statement,
    Store,
    When,
    expressions,
    flatten,
    loaded,
    stored,
)
from ingot.loops.program import Call, Kernel, Program, Step, may_fail, touched

Source = str | Tensor
"""A variable of a kernel by its name, or one of its parameters."""
Made = dict[tuple[Kernel, Tensor, Tensor], Kernel | None]


def updated(
    program: Program, member: Tensor, made: Tensor, repeated: frozenset[int], kernels: Made
) -> tuple[Step, ...] | None:
    """The steps, with the one that makes `made` of `member` storing only what differs.

    `repeated` are the steps whose checks were made before (`repeated_checks`); `kernels` remembers what was
    made of kernels, so that equal ones stay one.
    """
    steps = program.steps
    old = [i for i, s in enumerate(steps) if member in _bases(program, s)]
    new = [i for i, s in enumerate(steps) if made in _bases(program, s)]
    if not old or not new or old[-1] != new[0]:
        return None
    (at, step) = new[0], steps[new[0]]
    if not isinstance(step, Call) or step.arguments.count(member) != 1 or step.arguments.count(made) != 1:
        return None
    p, q = (step.kernel.parameters[step.arguments.index(t)] for t in (member, made))
    later_fails = any(may_fail((s,)) for i, s in enumerate(steps) if i > at and i not in repeated)
    if later_fails or step.pauses or not (at in repeated or _checks_first(step.kernel, q)):
        return None
    if (step.kernel, p, q) not in kernels:
        kernels[step.kernel, p, q] = _storing_changes(step.kernel, p, q)
    kernel = kernels[step.kernel, p, q]
    if kernel is None:
        return None
    call = replace(step, kernel=kernel, arguments=tuple(t for t in step.arguments if t is not member))
    return (*steps[:at], call, *steps[at + 1 :])


def _bases(program: Program, step: Step) -> set[Tensor]:
    return {program.place(t).base for t in touched((step,))}


# -- kernels that store what changes


def _storing_changes(kernel: Kernel, p: Tensor, q: Tensor) -> Kernel | None:
    """The kernel without `p`, where every element of `q` is either that of `p` or a new one."""
    body = _changes(kernel.body, p, q)
    if body is None or any(x.tensor is p for s in flatten(body) for e in loaded(s) for x in loads(e)):
        return None
    parameters = tuple(t for t in kernel.parameters if t is not p)
    return replace(kernel, parameters=parameters, body=body)


def _changes(body: tuple[Statement, ...], p: Tensor, q: Tensor) -> tuple[Statement, ...] | None:
    out: list[Statement] = []
    for s in body:
        made: Statement | None = s
        match s:
            case Store(to) if to.tensor is q:
                made = _change(s, p)
            case For(body=inner):
                some = _changes(inner, p, q)
                made = None if some is None else _around(replace(s, body=some))
            case When(_, inner, other):
                both = _changes(inner, p, q), _changes(other, p, q)
                made = None if None in both else replace(s, body=both[0] or (), other=both[1] or ())
        if made is None:
            return None
        out.append(made)
    return tuple(out)


def _change(s: Store, p: Tensor) -> Statement | None:
    """The store where it changes something."""
    match s.value:
        case Select(condition, new, Load(tensor, index, _, lanes)) if tensor is p and index == s.to.index:
            is_one = all(x.lanes == 1 for x in loads(condition))
            if is_one and lanes == s.lanes:
                return When(condition, (replace(s, value=new),))
    return None


def _around(loop: For) -> Statement:
    """A loop whose body is for all of its turns or for none: for d: when c: x  ->  when c: for d: x"""
    match loop.body:
        case (When(condition, body, ()),) if not mentions(condition, loop.var):
            return When(condition, (replace(loop, body=body),))
    return loop


# -- checks that are made before


def _checks_first(kernel: Kernel, q: Tensor) -> bool:
    """Whether all checks of a kernel stand before its first store to `q`."""
    is_changed = False
    for s in kernel.body:
        is_changed = is_changed or q in stored((s,))
        if is_changed and any(isinstance(x, Check | Pause) for x in flatten((s,))):
            return False
    return True


def repeated_checks(program: Program) -> frozenset[int]:
    """The steps that cannot fail since one before them, of the same kernel, has checked the same inputs."""
    seen: set[tuple[Kernel, tuple[Tensor, ...]]] = set()
    found: set[int] = set()
    before: set[Tensor] = set()
    for i, step in enumerate(program.steps):
        if isinstance(step, Call) and step.kernel.may_fail and not step.pauses:
            sources = _sources(program, step, before)
            if sources is not None and (step.kernel, sources) in seen:
                found.add(i)
            elif sources is not None:
                seen.add((step.kernel, sources))
        before |= _bases(program, step)
    return frozenset(found)


def _sources(program: Program, call: Call, before: set[Tensor]) -> tuple[Tensor, ...] | None:
    """The inputs and constants that a call's checks depend on; None where they depend on anything else."""
    kernel = call.kernel
    is_given = all(p.source is None for p in kernel.params)  # by the caller, one number for all steps
    if any(isinstance(s, Pause) for s in flatten(kernel.body)) or not is_given:
        return None
    reached = _reached(kernel)
    out: list[Tensor] = []
    for parameter, argument in zip(kernel.parameters, call.arguments, strict=True):
        if parameter not in reached:
            continue
        if parameter not in kernel.written:
            if argument.value is None and argument not in program.inputs:
                return None
            out.append(argument)
        elif program.place(argument).base in before:
            return None
    return tuple(out)


def _reached(kernel: Kernel) -> set[Source]:
    """All that the checks of a kernel depend on, by whatever way."""
    needs: dict[Source, set[Source]] = {}
    wanted: set[Source] = set()
    for to, sources in _dependences(kernel.body, set()):
        if to is None:
            wanted |= sources
        else:
            needs.setdefault(to, set()).update(sources)
    reached: set[Source] = set()
    while wanted:
        one = wanted.pop()
        reached.add(one)
        wanted |= needs.get(one, set()) - reached
    return reached


def _dependences(
    body: tuple[Statement, ...], around: set[Source]
) -> Iterator[tuple[Source | None, set[Source]]]:
    """What statements give a value to (None: they check), and what decides it, loops included."""
    for s in body:
        mine = around | _read(expressions(s))
        match s:
            case For(var, body=inner):
                yield var, mine
                yield from _dependences(inner, mine | {var})
            case When(_, inner, other):
                yield from _dependences((*inner, *other), mine)
            case Let(name) | Assign(name) | Madd(name) | Instruction(_, name):
                yield name, mine
            case Store(to):
                yield to.tensor, mine
            case Check():
                yield None, mine


def _read(parts: Iterable[Expr]) -> set[Source]:
    nodes = [n for e in parts for n in walk(e)]
    return {n.name for n in nodes if isinstance(n, Var)} | {n.tensor for n in nodes if isinstance(n, Load)}
