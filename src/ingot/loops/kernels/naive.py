"""Naive loops: every formula as it reads, one loop per axis. The generator that serves everything.

In: stages over logical tensors and the storage they live in. Out: statements. Reductions over a window that
may leave its tensor are clipped to the taps that lie inside where that is exact, so that inner loops carry no
guard.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.formula.compute import Compute, Reduction, Scan, Stage, combined
from ingot.formula.expr import (
    Binary,
    Const,
    Expr,
    Extent,
    Gathered,
    Load,
    Var,
    cast,
    loads,
    maximum,
    minimum,
    transform,
)
from ingot.formula.index import Bounds, as_expr, at_least, coefficient, interval, mentions, simplify
from ingot.formula.statements import Assign, Check, For, Let, Madd, Statement, Store, When
from ingot.loops.edges import is_identity_outside
from ingot.loops.layout import Storage, bind, destination


def naive(stages: tuple[Stage, ...], storage: Storage, bounds: Bounds | None = None) -> tuple[Statement, ...]:
    """The statements of stages in order."""
    out: list[Statement] = []
    for stage in stages:
        out += (
            _scan(stage, storage, bounds or {})
            if isinstance(stage, Scan)
            else compute(stage, storage, bounds or {})
        )
    return tuple(out)


def _scan(scan: Scan, storage: Storage, bounds: Bounds) -> tuple[Statement, ...]:
    inner = {**bounds, **_bounds((scan.axis,))}
    return (loop(scan.axis, guarded(scan, naive(scan.body, storage, inner), storage)),)


def guarded(scan: Scan, body: tuple[Statement, ...], storage: Storage) -> tuple[Statement, ...]:
    """A step of the scan: what it does, where it has not ended."""
    return body if scan.active is None else (When(bind(scan.active[()], storage, {}), body),)


def compute(c: Compute, storage: Storage, bounds: Bounds) -> tuple[Statement, ...]:
    """Loops over the axes around one element's reduction and store."""
    inner = {**bounds, **_bounds(c.axes)}
    body: list[Statement] = []
    if c.reduction is not None:
        body += reduction(c.reduction, storage, inner)
    seen: dict[Expr, Expr] = {}  # an element that is read and written at one gathered index is checked once
    to, checks = checked(destination(c, storage, inner), "at", seen)
    value, more = checked(bind(c.value, storage, inner), "at", seen)
    assert isinstance(to, Load)
    value = value if value.dtype is c.out.type else cast(value, c.out.type.compute)
    body += [*checks, *more, Store(to, value)]
    return nested(_storage_order(c, storage), body)


def _storage_order(c: Compute, storage: Storage) -> tuple[Var, ...]:
    """The axes in the order in which the output stores them, so that writes run forward."""
    if c.at:
        return c.axes
    return tuple(c.axes[i] for i in storage.layout(c.out).order)


def reduction(r: Reduction, storage: Storage, bounds: Bounds) -> tuple[Statement, ...]:
    """Declare `acc` and run it through the reduction's loops."""
    limits, term = clip(r, storage, bounds)
    inner = {**bounds, **_bounds(r.axes)}
    bound, checks = checked(bind(term, storage, inner), "k")
    body: tuple[Statement, ...] = (*checks, accumulate(r.combine, "acc", bound))
    for axis in reversed(r.axes):
        lo, hi = limits[axis.name]
        body = (For(axis.name, simplify(lo, bounds), simplify(hi, bounds), 1, body),)
    init, before = checked(bind(r.init, storage, bounds), "i")
    return (*before, Let("acc", init, 1, True), *body)


def accumulate(combine: str, name: str, term: Expr, lanes: int = 1) -> Statement:
    """acc = acc (+) term, spelled as a multiply-add where it is one."""
    match combine, term:
        case "sum", Binary("mul", a, b) if term.dtype.is_float:
            return Madd(name, a, b, lanes)
    return Assign(name, combined(combine, Var(name, None, term.dtype), term), lanes)


def clip(
    r: Reduction, storage: Storage, bounds: Bounds, along: str = ""
) -> tuple[dict[str, tuple[Expr, Expr]], Expr]:
    """Loop limits that keep reads inside, and the term without the guards they make needless.

    Exact when a tap outside contributes the identity: a product with 0 in a sum, the lowest value in a max. A
    halo that holds the same value needs no clipping. Where an index moves with the variable `along` nothing
    keeps it inside: vectors along it are, by who makes them.
    """
    limits: dict[str, tuple[Expr, Expr]] = {a.name: (Const(0), as_expr(a.extent or 0)) for a in r.axes}
    names = set(limits)
    everything = {**bounds, **_bounds(r.axes)}

    def clipped(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or node.outside is None:
            return None
        halo = storage.halo(node)
        places = zip(node.index, node.tensor.shape, halo, strict=True)
        if all(
            (along and mentions(i, along)) or _clip_index(i, n, around, names, limits, everything)
            for i, n, around in places
        ):
            return Load(node.tensor, node.index)
        return node

    if not is_identity_outside(r):
        return limits, r.term
    return limits, transform(r.term, clipped)


def _clip_index(
    i: Expr,
    n: Extent,
    around: tuple[int, int],
    names: set[str],
    limits: dict[str, tuple[Expr, Expr]],
    bounds: Bounds,
) -> bool:
    """Fold 0 <= i < n into the limits of the one reduction axis that i moves with."""
    room = at_least(simplify(as_expr(n) - 1 - i, bounds), bounds)
    if at_least(i, bounds) >= -around[0] and room >= -around[1]:
        return True
    moving = [k for k in names if coefficient(i, k) != 0]
    if len(moving) != 1:
        return False
    k, c = moving[0], coefficient(i, moving[0])
    if c is None or c < 0:
        return False
    rest = simplify(i - Var(k) * c, bounds)
    first, end = limits[k]
    # 0 <= rest + c*k < n  <=>  ceil(-rest / c) <= k < ceil((n - rest) / c)
    if any(True for _ in loads(rest)):  # limits are read outside the loop: what comes from data stays guarded
        return False
    limits[k] = (maximum(first, (Const(c - 1) - rest) // c), minimum(end, (as_expr(n) + (c - 1) - rest) // c))
    return True


def checked(e: Expr, prefix: str, seen: dict[Expr, Expr] | None = None) -> tuple[Expr, tuple[Statement, ...]]:
    """Data-dependent indices become registers, range-checked before use; `seen` already are."""
    checks: list[Statement] = []
    seen = {} if seen is None else seen

    def replace(node: Expr) -> Expr | None:
        if not isinstance(node, Gathered):
            return None
        if node not in seen:
            inner, before = checked(node.value, f"{prefix}{len(seen)}_")
            name = f"{prefix}{len(seen)}"
            raw = Var(name, None, inner.dtype)
            low, high = (cast(b, inner.dtype) for b in (node.lo, node.hi))
            checks.extend((*before, Let(name, inner), Check((raw >= low) & (raw < high), node.error)))
            seen[node] = cast(raw, node.dtype)
        return seen[node]

    return transform(e, replace), tuple(checks)


def loop(axis: Var, body: tuple[Statement, ...]) -> For:
    return For(axis.name, Const(0), as_expr(axis.extent or 0), 1, body)


def nested(axes: Sequence[Var], body: Sequence[Statement]) -> tuple[Statement, ...]:
    """The body within loops over the axes, the first outermost."""
    nest = tuple(body)
    for axis in reversed(axes):
        nest = (loop(axis, nest),)
    return nest


def _bounds(axes: tuple[Var, ...]) -> dict[str, tuple[int, int]]:
    return {a.name: interval(Var(a.name, a.extent)) for a in axes}
