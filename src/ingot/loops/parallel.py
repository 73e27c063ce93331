"""Mark the loops whose iterations may run at the same time.

A kernel's outermost loop is parallel if each iteration writes elements no other iteration touches: along one
dimension of every tensor it stores to, iterations are further apart than what one of them reaches. Emission
hands such loops to the caller's `parallel_for`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ingot.formula.expr import Const, Expr, Load, Var, loads, walk
from ingot.formula.index import Bounds, coefficient, interval, simplify
from ingot.formula.statements import Assign, Check, For, Let, Madd, Statement, Store, expressions, flatten
from ingot.loops.program import Branch, Call, Kernel, Program, Repeat, Step

WORTH = 1 << 13  # statements executed; below, handing a loop over costs more than it saves


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
    return replace(program, steps=_steps(program.steps, made))


def _steps(steps: tuple[Step, ...], made: dict[Kernel, Kernel]) -> tuple[Step, ...]:
    out: list[Step] = []
    for s in steps:
        match s:
            case Call():
                s = replace(s, kernel=made[s.kernel])
            case Branch():
                s = replace(s, then=_steps(s.then, made), other=_steps(s.other, made))
            case Repeat():
                s = replace(s, body=_steps(s.body, made))
        out.append(s)
    return tuple(out)


def _marked(kernel: Kernel) -> Kernel:
    if kernel.may_fail or kernel.params:
        return kernel
    return replace(kernel, body=tuple(_marked_loop(s) for s in kernel.body))


def _marked_loop(s: Statement) -> Statement:
    if isinstance(s, For) and _work((s,), {}) >= WORTH and is_independent(s):
        return replace(s, parallel=True)
    return s


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


def is_independent(loop: For) -> bool:
    """Whether iterations touch nothing in common, and need nothing from outside the loop but tensors."""
    if not isinstance(loop.lo, Const) or not isinstance(loop.hi, Const) or tasks(loop) < 2:
        return False
    if any(isinstance(s, Check) for s in flatten(loop.body)) or _borrowed(loop):
        return False
    bounds = _bounds(loop)
    accesses = list(_accesses(loop))
    stored = {a.tensor for a, is_store in accesses if is_store}
    return all(_apart([a for a, _ in accesses if a.tensor is t], loop, bounds) for t in stored)


def _borrowed(loop: For) -> set[str]:
    """Registers the body uses but does not declare."""
    declared = {loop.var, *(s.name for s in flatten(loop.body) if isinstance(s, Let))}
    declared |= {s.var for s in flatten(loop.body) if isinstance(s, For)}
    used = {n.name for s in flatten(loop.body) for e in expressions(s) for n in walk(e) if isinstance(n, Var)}
    used |= {s.name for s in flatten(loop.body) if isinstance(s, Assign | Madd)}
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
