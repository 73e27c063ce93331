"""The row generator: a reduction along the axis that lies contiguous in memory, as in softmax and layer
normalisation.

Partial results are kept in a few vector registers, combined lane by lane at the end of the row; what does not
fill a vector is added one element at a time. Serves sums, maxima and minima whose every operand moves by one
along the row or stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ingot.formula.compute import COMBINERS, Compute
from ingot.formula.expr import Binary, Const, Expr, Lane, Load, Var, loads, static, substitute
from ingot.formula.index import Bounds, as_expr, interval, simplify
from ingot.formula.statements import Assign, For, Let, Statement, Store
from ingot.formula.types import FLOAT32, FLOAT64
from ingot.loops.access import NotVectorizable, step, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.generators.vertical import has_vector_form
from ingot.loops.layout import Storage, bind
from ingot.loops.naive import accumulate
from ingot.targets.record import Target

REGISTERS = 4  # partial results in flight: hides the latency of one add
IDENTITY = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}


@dataclass(frozen=True, slots=True)
class Row:
    """A matched stage: everything bound to physical tensors, `along` the axis of the row."""

    c: Compute
    to: Load
    value: Expr
    init: Expr
    term: Expr
    combine: str
    along: Var
    others: tuple[Var, ...]
    bounds: Bounds


def row(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> tuple[Statement, ...] | None:
    """Statements for a reduction along rows, or None."""
    if target.vector_bytes == 0:
        return None
    found = match(normal_axes(c), storage, bounds)
    if found is None:
        return None
    lanes = target.vector_bytes // found.term.dtype.bytes
    while lanes > static(found.along.extent):
        lanes //= 2
    try:
        return None if lanes < 2 else _loops(found, lanes)
    except NotVectorizable:
        return None


def match(c: Compute, storage: Storage, bounds: Bounds) -> Row | None:
    """A reduction by a combiner with an identity, one of whose axes every operand walks by one element."""
    r = c.reduction
    if r is None or r.combine not in IDENTITY or r.term.dtype not in (FLOAT32, FLOAT64) or not r.axes:
        return None
    axes = (*c.axes, *r.axes)
    if not all(isinstance(a.extent, int) for a in axes) or any(x.outside is not None for x in loads(r.term)):
        return None
    inner = {**bounds, **{a.name: interval(a) for a in axes}}
    term = bind(r.term, storage, inner)
    if not has_vector_form(term):
        return None
    along = [a for a in r.axes if _walks(term, a)]
    if not along:
        return None
    index = storage.layout(c.out).index(tuple(simplify(bind(i, storage, inner), inner) for i in c.index))
    to = Load(storage.tensor(c.out), tuple(simplify(i, inner) for i in index))
    x = max(along, key=lambda a: static(a.extent))
    others = tuple(a for a in r.axes if a is not x)
    value, init = bind(c.value, storage, inner), bind(r.init, storage, inner)
    return Row(c, to, value, init, term, r.combine, x, others, inner)


def _walks(term: Expr, a: Var) -> bool:
    moves = [step(x, a.name) for x in loads(term)]
    return 1 in moves and all(m in (0, 1) for m in moves)


def _loops(r: Row, lanes: int) -> tuple[Statement, ...]:
    body = (*_reduce(r, lanes), Store(r.to, r.value))
    for a in reversed(r.c.axes):
        body = (For(a.name, Const(0), as_expr(a.extent or 0), 1, body),)
    return body


def _reduce(r: Row, lanes: int) -> Iterator[Statement]:
    """Vector registers over the bulk, their lanes, the rest."""
    n, dtype = static(r.along.extent), r.term.dtype
    count = max(1, min(REGISTERS, n // lanes))
    full, wide = n // lanes * lanes, n // (lanes * count) * lanes * count
    identity = Const(IDENTITY[r.combine], dtype)
    for i in range(count):
        yield Let(f"p{i}", identity, lanes, True)
    inner: list[Statement] = [
        For(r.along.name, Const(0), Const(wide), lanes * count, tuple(_terms(r, lanes, count)))
    ]
    if wide < full:
        inner.append(For(r.along.name, Const(wide), Const(full), lanes, tuple(_terms(r, lanes, 1))))
    yield from _nest(r, tuple(inner))
    yield Let("acc", r.init, 1, True)
    names = [Var(f"p{i}", None, dtype) for i in range(count)]
    if count > 1:
        yield Assign("p0", _fold(r.combine, list(names)), lanes)
    lane_values: list[Expr] = [Var("acc", None, dtype), *(Lane(names[0], j) for j in range(lanes))]
    yield Assign("acc", _fold(r.combine, lane_values))
    if full < n:
        rest = For(r.along.name, Const(full), Const(n), 1, (accumulate(r.combine, "acc", r.term),))
        yield from _nest(r, (rest,))


def _nest(r: Row, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    for a in reversed(r.others):
        body = (For(a.name, Const(0), as_expr(a.extent or 0), 1, body),)
    return body


def _terms(r: Row, lanes: int, count: int) -> Iterator[Statement]:
    for i in range(count):
        moved = simplify(substitute(r.term, {r.along.name: r.along + i * lanes}), r.bounds)
        yield accumulate(r.combine, f"p{i}", vectorize(moved, r.along.name, lanes), lanes)


def _fold(combine: str, parts: list[Expr]) -> Expr:
    """A balanced tree: short dependency chains, and the order of addition is fixed."""
    while len(parts) > 1:
        pairs = [Binary(COMBINERS[combine], a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    return parts[0]
