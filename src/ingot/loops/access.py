"""How loads move with loop variables: element strides, and the vector forms of expressions."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import numpy as np

from ingot.formula.expr import (
    COMPARISONS,
    Binary,
    Cast,
    Const,
    Expr,
    Fma,
    Gathered,
    Load,
    Select,
    Tensor,
    Unary,
    Var,
    children,
    text,
    transform,
    walk,
    with_lanes,
)
from ingot.formula.index import coefficient, mentions
from ingot.formula.types import BOOL, FLOAT32, INDEX, INT32, DType
from ingot.loops.layout import Storage

LARGEST_SCALE = 0.99
DOUBLED = 1 << 29  # a first value below it, and products of bytes, may be doubled
SMALL = float(1 << 22)
SUM = "acc"  # the result of a reduction, in the value of its stage
VECTOR_OPERATIONS = frozenset({"add", "sub", "mul", "div", "max", "min", "larger", "pow"})
INTEGER_OPERATIONS = frozenset({"add", "sub", "mul", "max", "min", "and", "or", "xor", "doubling_high"})


class NotVectorizable(Exception):
    """An expression has no vector form along the axis asked for; a generator catches it and declines."""


def strides(t: Tensor) -> tuple[int, ...] | None:
    """Elements between neighbours along each dimension; None unless all dimensions are static."""
    out, step = [], 1
    for n in reversed(t.spans):
        if not isinstance(n, int):
            return None
        out.append(step)
        step *= n
    return tuple(reversed(out))


def known_strides(t: Tensor) -> tuple[int | None, ...]:
    """The same, None for the dimensions before one whose extent is known at run time only."""
    out: list[int | None] = []
    step: int | None = 1
    for n in reversed(t.spans):
        out.append(step)
        step = None if step is None or not isinstance(n, int) else step * n
    return tuple(reversed(out))


def step(load: Load, name: str) -> int | None:
    """Elements by which a load moves when variable `name` grows by one; None if not a constant."""
    total = 0
    for i, size in zip(load.index, known_strides(load.tensor), strict=True):
        c = coefficient(i, name)
        if c is None or (c and size is None):
            return None
        total += c * (size or 0)
    return total


def has_vector_form(e: Expr, along: str = "") -> bool:
    """Whether every operation of the expression exists on vectors, of numbers of 32 bits and fewer or all of
    one width. Conditions that are the same `along` a variable choose whole vectors, so they need none.
    """
    nodes = [n for n in _in_lanes(e, along) if n.dtype is not INDEX]
    widths = {n.dtype.bits for n in nodes if n.dtype is not BOOL}
    return (max(widths, default=0) <= 32 or len(widths) == 1) and all(
        _has_vector_form(n, along) for n in nodes
    )


def _in_lanes(e: Expr, along: str) -> Iterator[Expr]:
    """All parts of an expression but the conditions that are the same in every lane."""
    yield e
    parts = (e.a, e.b) if isinstance(e, Select) and _is_same(e.condition, along) else children(e)
    for part in parts:
        yield from _in_lanes(part, along)


def _is_same(condition: Expr, along: str) -> bool:
    return bool(along) and not mentions(condition, along) and not mentions(condition, SUM)


def _has_vector_form(n: Expr, along: str = "") -> bool:
    match n:
        case Select(condition, _, _) if _is_same(condition, along):
            return True
        case Load(tensor=t):
            return t.type.kind in "iuf" and t.type.compute is t.type
        case Binary(op, a, _) if op in COMPARISONS:
            return a.dtype.is_float
        case Binary("rounding_shr", _, b):
            return _is_below(b, 32)
        case Binary(op, a, _):
            return op in (VECTOR_OPERATIONS if a.dtype.is_float else INTEGER_OPERATIONS)
        case Select(condition, _, _):
            parts = [x for x in walk(condition) if isinstance(x, Binary) and x.dtype is BOOL]
            compared = {x.a.dtype.bits for x in parts if x.op in COMPARISONS}
            masks = all(x.op in COMPARISONS or x.op in ("and", "or") for x in parts)
            return isinstance(condition, Binary) and masks and compared <= {n.dtype.bits}
        case Cast(a, to):  # of an index: a number per point, such as how many taps a pool counts
            return a.dtype is INDEX or has_vector_cast(a, to)
        case Unary(op, a):
            return op not in ("isnan", "isinf", "not") and (a.dtype.is_float or op == "neg")
    return True


def _is_below(e: Expr, end: int) -> bool:
    """Whether an integer is known, all elements of a constant are, and below a number."""
    match e:
        case Const(value):
            return value < end
        case Load(tensor=Tensor(value=np.ndarray() as values)):
            return bool((values < end).all())
    return False


def vectorize(e: Expr, name: str, lanes: int) -> Expr:
    """The expression for `lanes` consecutive values of variable `name`.

    Loads that move by one become vector loads, those that stay are broadcast. Raises NotVectorizable
    otherwise, and for what a stage makes of its sum by operations that vectors do not have.
    """
    if lanes == 1:
        return e
    summed = mentions(e, SUM)  # it differs from lane to lane, too
    if summed and e.dtype is BOOL:
        raise NotVectorizable("masks are not stored")

    def vector(node: Expr) -> Expr | None:
        match node:
            case Load():
                return _vector_load(node, name, lanes)
            case Var(n) if n == name:
                raise NotVectorizable(f"{name} itself is a value")
            case Gathered():
                raise NotVectorizable("a data-dependent index")
            case Cast(a, to) if mentions(a, name) and not has_vector_cast(a, to):
                raise NotVectorizable(f"no cast of {a.dtype} to {to}")
            case _ if summed and not _has_vector_form(node) and mentions(node, SUM):
                raise NotVectorizable(f"no vector form of {text(node)}")
        return None

    return transform(e, vector)


def has_vector_cast(a: Expr, to: DType) -> bool:
    """Whether vectors are cast as elements are: integers and floats of any width, bools not. A float becomes
    an integer where it is known to fit: instructions differ in what they make of others.
    """
    numbers = a.dtype.kind in "iuf" and to.kind in "iuf"
    return numbers and (not a.dtype.is_float or to.is_float or _fits(a, to))


def _fits(a: Expr, to: DType) -> bool:
    """Whether a float is limited to what an integer type holds, NaN excluded."""
    match a:
        case Binary("min", Binary("larger", _, Const(lo)), Const(hi)):
            return to.lowest <= float(lo) <= float(hi) <= to.highest
    return to is INT32 and is_scaled_sum(a)


def is_small(a: Expr) -> bool:
    """Whether a float is limited to numbers of which a float32 still holds the halves, or made of such."""
    match a:
        case Binary("min", Binary("larger", _, Const(lo)), Const(hi)):
            return a.dtype is FLOAT32 and -SMALL <= float(lo) <= float(hi) <= SMALL
    return a.dtype is FLOAT32 and magnitude(a) < SMALL


def magnitude(e: Expr) -> float:
    """What a number never exceeds that is made of bytes and constants, roundings of floats aside."""
    match e:
        case Const(value, _):
            return abs(float(value))
        case Load(tensor) if tensor.type.kind in "iu" and tensor.type.bits <= 8:
            return float(max(abs(int(tensor.type.lowest)), int(tensor.type.highest)))
        case Cast(a, to) if to.bits <= 8 and to.kind in "iu":
            return min(magnitude(a), float(max(abs(int(to.lowest)), int(to.highest))))
        case Cast(a, _):
            return magnitude(a)
        case Fma(a, b, c):
            return magnitude(a) * magnitude(b) + magnitude(c)
        case Binary("add" | "sub", a, b):
            return magnitude(a) + magnitude(b)
        case Binary("mul", a, b):
            return magnitude(a) * magnitude(b)
        case Binary("div", a, Const(value, _)) if value:
            return magnitude(a) / abs(float(value))
    return inf


def is_scaled_sum(a: Expr) -> bool:
    """Whether a float is an int32 times a constant below one, so that what it is rounded to is an int32, and
    some thousands more are.
    """
    match a:
        case Unary("round", Binary("mul", Cast(x, _), Const(m))):
            return x.dtype is INT32 and abs(m) < LARGEST_SCALE
        case Unary("round", Binary("mul", Cast(x, _), Load(tensor=Tensor(value=np.ndarray() as m)))):
            return x.dtype is INT32 and bool((np.abs(m) < LARGEST_SCALE).all())
    return False


def _vector_load(load: Load, name: str, lanes: int) -> Expr:
    moved = step(load, name)
    if moved == 0:
        return load
    if moved != 1 or not load.index or coefficient(load.index[load.tensor.lane_axis], name) != 1:
        raise NotVectorizable(f"{load.tensor.name} moves by {moved} with {name}")
    if load.tensor.type.compute is not load.tensor.type or load.tensor.type.kind == "b":
        raise NotVectorizable(f"a vector of {load.tensor.type}")
    return with_lanes(load, lanes)


def align_constants(e: Expr, name: str, storage: Storage) -> Expr:
    """The expression with constants transposed at compile time so that they lie contiguous along variable
    `name`.
    """

    def aligned(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or node.tensor.value is None or step(node, name) in (0, 1, None):
            return None
        moving = [d for d, i in enumerate(node.index) if coefficient(i, name) != 0]
        if len(moving) != 1 or coefficient(node.index[moving[0]], name) != 1:
            return None
        order = (*(d for d in range(node.tensor.rank) if d != moving[0]), moving[0])
        return Load(storage.transposed(node.tensor, order), tuple(node.index[d] for d in order), node.outside)

    return transform(e, aligned)
