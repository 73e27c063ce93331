"""Mark the loops whose iterations may run at the same time.

A kernel's outermost loop is parallel if each iteration writes elements no other iteration touches: along one
dimension of every tensor it stores to, iterations are further apart than what one of them reaches. Where only
a kernel's scratch is in the way, the loop is cut into a few parts, each with scratch of its own. Emission
hands such loops to the caller's `parallel_for`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ingot.formula.expr import Binary, Const, Expr, Load, Tensor, Var, loads, transform, walk
from ingot.formula.index import Bounds, coefficient, interval, simplify
from ingot.formula.statements import (
    Assign,
    Check,
    For,
    Instruction,
    Let,
    Madd,
    Statement,
    Store,
    expressions,
    flatten,
    loaded,
)
from ingot.loops.program import Branch, Call, Kernel, Program, Repeat, Step
from ingot.loops.rewrite import rewritten

WORTH = 1 << 13  # statements executed; below, handing a loop over costs more than it saves
PARTS = 8  # of a loop whose parts need scratch of their own: they share out well, and memory is not free
Copies = Mapping[Tensor, Tensor]
"""Scratch, and the same once for every part of a loop."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Along dimension `dim`, an access touches var * scale + [lo, hi]."""

    dim: int
    scale: int
    lo: int
    hi: int


def parallelize(program: Program) -> Program:
    """The program with parallel loops marked in the kernels that are worth it."""
    made = {k: _marked(k) for k in program.kernels}
    return replace(program, steps=_steps(program.steps, made, {}))


def _steps(
    steps: tuple[Step, ...], made: Mapping[Kernel, tuple[Kernel, Copies]], known: dict[Tensor, Tensor]
) -> tuple[Step, ...]:
    """`known`: the program's own scratch, and what it became."""
    out: list[Step] = []
    for s in steps:
        match s:
            case Call():
                s = _call(s, *made[s.kernel], known)
            case Branch():
                s = replace(s, then=_steps(s.then, made, known), other=_steps(s.other, made, known))
            case Repeat():
                s = replace(s, body=_steps(s.body, made, known))
        out.append(s)
    return tuple(out)


def _call(call: Call, kernel: Kernel, copies: Copies, known: dict[Tensor, Tensor]) -> Call:
    """The call with enough scratch for every part."""
    arguments = []
    for parameter, argument in zip(call.kernel.parameters, call.arguments, strict=True):
        if parameter in copies:
            parts = copies[parameter].shape[0]
            argument = known.setdefault(argument, replace(argument, shape=(parts, *argument.shape)))
        arguments.append(argument)
    return replace(call, kernel=kernel, arguments=tuple(arguments))


def _marked(kernel: Kernel) -> tuple[Kernel, Copies]:
    copies: dict[Tensor, Tensor] = {}
    if kernel.may_fail or kernel.params:
        return kernel, copies
    body: list[Statement] = []
    for s in kernel.body:
        if isinstance(s, For) and _work((s,), {}) >= WORTH:
            own = _own(s, kernel, copies)
            if is_independent(s):
                s = replace(s, parallel=True)
            elif own and is_independent(s, own):
                s = _parted(s, own, copies)
        body.append(s)
    parameters = tuple(copies.get(t, t) for t in kernel.parameters)
    return replace(kernel, body=tuple(body), parameters=parameters), copies


def _own(loop: For, kernel: Kernel, taken: Copies) -> frozenset[Tensor]:
    """The scratch that only this loop touches, and stores to before it reads."""
    others = {t for s in kernel.body if s is not loop for t in _touched((s,))}
    stored_first: dict[Tensor, bool] = {}
    for s in flatten(loop.body):
        for e in loaded(s):
            stored_first.update({load.tensor: False for load in loads(e) if load.tensor not in stored_first})
        if isinstance(s, Store):
            stored_first.setdefault(s.to.tensor, True)
    return frozenset(t for t in kernel.scratch - others - taken.keys() if stored_first.get(t, False))


def _touched(statements: tuple[Statement, ...]) -> set[Tensor]:
    return {load.tensor for s in flatten(statements) for e in expressions(s) for load in loads(e)}


def _parted(loop: For, own: frozenset[Tensor], copies: dict[Tensor, Tensor]) -> For:
    """for var in lo..hi  ->  parallel for part in 0..parts: for var in lo + part * size ..: own[part, ...]"""
    parts, part = min(tasks(loop), PARTS), Var(f"{loop.var}_part")
    assert isinstance(loop.lo, Const) and isinstance(loop.hi, Const)
    size = -(-tasks(loop) // parts) * loop.step
    parts = -(-(int(loop.hi.value) - int(loop.lo.value)) // size)
    copies |= {t: replace(t, shape=(parts, *t.shape)) for t in own}

    def moved(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.tensor in own:
            return replace(e, tensor=copies[e.tensor], index=(part, *(transform(i, moved) for i in e.index)))
        return None

    body = rewritten(loop.body, lambda e: transform(e, moved))
    lo = simplify(loop.lo + part * size, {part.name: (0, parts - 1)})
    inner = replace(loop, lo=lo, hi=Binary("min", loop.hi, lo + size), body=body)
    return For(part.name, Const(0), Const(parts), 1, (inner,), parallel=True)


def _work(statements: tuple[Statement, ...], bounds: dict[str, tuple[int, int]]) -> int:
    """About how many statements are executed."""
    total = 0
    for s in statements:
        if isinstance(s, For):
            lo, hi = interval(s.lo, bounds)[0], interval(s.hi, bounds)[1]
            turns = max(0, -(-(hi - lo) // s.step))
            total += turns * _work(s.body, {**bounds, s.var: (lo, max(hi - 1, lo))})
        else:
            total += 1
    return total


def is_parallel(kernel: Kernel) -> bool:
    return any(isinstance(s, For) and s.parallel for s in kernel.body)


def tasks(loop: For) -> int:
    """How many iterations a loop with known bounds has."""
    assert isinstance(loop.lo, Const) and isinstance(loop.hi, Const)
    return max(0, -(-(int(loop.hi.value) - int(loop.lo.value)) // loop.step))


def is_independent(loop: For, own: frozenset[Tensor] = frozenset()) -> bool:
    """Whether iterations touch nothing in common, and need nothing from outside the loop but tensors.

    Of the tensors in `own` every iteration has one for itself.
    """
    if not isinstance(loop.lo, Const) or not isinstance(loop.hi, Const) or tasks(loop) < 2:
        return False
    if any(isinstance(s, Check) for s in flatten(loop.body)) or _borrowed(loop):
        return False
    bounds = _bounds(loop)
    accesses = list(_accesses(loop))
    stored = {a.tensor for a, is_store in accesses if is_store} - own
    return all(_apart([a for a, _ in accesses if a.tensor is t], loop, bounds) for t in stored)


def _borrowed(loop: For) -> set[str]:
    """Registers the body uses but does not declare."""
    declared = {loop.var, *(s.name for s in flatten(loop.body) if isinstance(s, Let))}
    declared |= {s.var for s in flatten(loop.body) if isinstance(s, For)}
    used = {n.name for s in flatten(loop.body) for e in expressions(s) for n in walk(e) if isinstance(n, Var)}
    used |= {s.name for s in flatten(loop.body) if isinstance(s, Assign | Madd | Instruction)}
    return used - declared


def _bounds(loop: For) -> Bounds:
    """The ranges of all loop variables; `loop`'s own is left out, its part is taken by the scale."""
    bounds: dict[str, tuple[int, int]] = {}
    assert isinstance(loop.lo, Const) and isinstance(loop.hi, Const)
    own = (int(loop.lo.value), int(loop.hi.value) - 1)
    for s in flatten(loop.body):
        if isinstance(s, For):
            scope = {**bounds, loop.var: own}
            lo = interval(s.lo, scope)[0]
            hi = max(interval(s.hi, scope)[1] - 1, lo)
            if isinstance(s.lo, Const):
                hi -= (hi - lo) % s.step  # the last value it takes
            first, last = bounds.get(s.var, (lo, hi))  # a tile and its remainder: loops of one name
            bounds[s.var] = (min(first, lo), max(last, hi))
    return bounds


def _accesses(loop: For) -> Iterator[tuple[Load, bool]]:
    """Every access of the body with whether it is a store."""
    for s in flatten(loop.body):
        for e in expressions(s):
            if isinstance(s, Store) and e is s.to:
                yield replace(s.to, lanes=s.lanes), True
                for i in s.to.index:
                    yield from ((load, False) for load in loads(i))
            else:
                yield from ((load, False) for load in loads(e))


def _apart(accesses: list[Load], loop: For, bounds: Bounds) -> bool:
    """Whether some dimension keeps the iterations' accesses to one tensor apart."""
    return any(_apart_along(d, accesses, loop, bounds) for d in range(accesses[0].tensor.rank))


def _apart_along(dim: int, accesses: list[Load], loop: For, bounds: Bounds) -> bool:
    reaches = [_reach(dim, a, loop.var, bounds) for a in accesses]
    if any(r is None for r in reaches):
        return False
    known = [r for r in reaches if r is not None]
    scales = {r.scale for r in known}
    span = max(r.hi for r in known) - min(r.lo for r in known) + 1
    return len(scales) == 1 and span <= min(scales) * loop.step


def _reach(dim: int, access: Load, var: str, bounds: Bounds) -> Reach | None:
    index: Expr = access.index[dim]
    scale = coefficient(index, var)
    if scale is None or scale <= 0:
        return None
    try:
        lo, hi = interval(simplify(index - Var(var) * scale, bounds), bounds)
    except ValueError:
        return None
    return Reach(dim, scale, lo, hi + (access.lanes - 1 if dim == access.tensor.lane_axis else 0))
