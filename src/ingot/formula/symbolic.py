"""The elements of small integer tensors as expressions over run-time extents: shape arithmetic seen through.

In: a formula, some of whose inputs have `known` elements: the shape of a tensor with bounded dimensions, and
what follows from it. Out: the same of its outputs, where index arithmetic alone leads there. `infer` asks, so
that `Reshape(x, Concat(Shape(x)[:1], [-1]))` has a shape although N is known at run time only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from ingot.formula.compute import COMBINERS, Compute, Formula
from ingot.formula.expr import (
    COMPARISONS,
    Binary,
    Cast,
    Const,
    Expr,
    Extent,
    Gathered,
    Load,
    Param,
    Select,
    Tensor,
    Unary,
    Var,
    binary,
)
from ingot.formula.index import simplify, span
from ingot.formula.types import BOOL

LIMIT = 64  # elements: a shape has few
Elements = tuple[Expr, ...]


class Unknown(Exception):
    """An element is not index arithmetic over extents."""


def known_elements(formula: Formula) -> dict[Tensor, Elements]:
    """The elements of the outputs, row-major, where they can be known.

    What a stage makes that cannot be followed is unknown, until another stage writes it anew.
    """
    memory: dict[Tensor, dict[int, Expr]] = {}
    for stage in formula.stages:
        if not isinstance(stage, Compute):
            return {}
        try:
            _run(stage, memory)
        except Unknown:
            memory.pop(stage.out, None)
    found = {t: memory.get(t, {}) for t in formula.outputs}
    return {t: tuple(m[i] for i in range(t.count)) for t, m in found.items() if len(m) == t.count}


def _run(c: Compute, memory: dict[Tensor, dict[int, Expr]]) -> None:
    if not c.out.type.is_integer or _count(c.out.shape) > LIMIT:
        raise Unknown
    for point in _points(c.axes):
        env = dict(point)
        if c.reduction is not None:
            r = c.reduction
            total = _value(r.init, env, memory)
            for tap in _points(r.axes):
                term = _value(r.term, {**env, **tap}, memory)
                total = simplify(binary(COMBINERS[r.combine], total, term))
            env["acc"] = total
        at = _flat([_value(i, env, memory) for i in c.index], c.out.shape)
        if at is None:
            raise Unknown
        memory.setdefault(c.out, {})[at] = _value(c.value, env, memory)


def _points(axes: Sequence[Var]) -> list[dict[str, Expr]]:
    """Every point of the axes, as constants."""
    if _count([a.extent if a.extent is not None else 1 for a in axes]) > LIMIT:
        raise Unknown
    ranges = [range(a.extent) if isinstance(a.extent, int) else range(0) for a in axes]
    return [{a.name: Const(i) for a, i in zip(axes, point, strict=True)} for point in product(*ranges)]


def _count(shape: Sequence[Extent]) -> int:
    total = 1
    for n in shape:
        if not isinstance(n, int):
            raise Unknown
        total *= n
    return total


def _flat(index: Sequence[Expr], shape: Sequence[Extent]) -> int | None:
    """The row-major place of an element; None outside the tensor."""
    at = 0
    for i, n in zip(index, shape, strict=True):
        if not isinstance(i, Const) or not isinstance(n, int):
            raise Unknown
        if not 0 <= i.value < n:
            return None
        at = at * n + int(i.value)
    return at


def _value(e: Expr, env: Mapping[str, Expr], memory: Mapping[Tensor, dict[int, Expr]]) -> Expr:
    """An integer or truth value as an index expression over Params. Raises Unknown."""

    def of(child: Expr) -> Expr:
        return _value(child, env, memory)

    match e:
        case Const(v, dtype) if not dtype.is_float:
            return Const(int(v))
        case Var(name):
            return env[name]
        case Param():
            return e
        case Load():
            return _load(e, env, memory)
        case Cast(a, dtype) if dtype.is_integer and (a.dtype.is_integer or a.dtype is BOOL):
            return of(a)
        case Gathered(value):
            return of(value)
        case Select(condition, a, b):
            return of(a) if _holds(of(condition)) else of(b)
        case Unary("neg", a) if a.dtype.is_integer:
            return simplify(Const(0) - of(a))
        case Binary(op, a, b) if a.dtype.is_integer or a.dtype is BOOL:
            return _binary(op, of(a), of(b))
    raise Unknown


def _holds(condition: Expr) -> bool:
    if not isinstance(condition, Const):
        raise Unknown
    return bool(condition.value)


def _binary(op: str, a: Expr, b: Expr) -> Expr:
    if op in COMPARISONS:
        return Const(int(_compare(op, a, b)))
    if op in ("and", "or") and isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) & int(b.value) if op == "and" else int(a.value) | int(b.value))
    if op == "div" and span(a)[0] >= 0 and span(b)[0] > 0:
        op = "floordiv"  # C's division rounds towards zero
    if op not in ("add", "sub", "mul", "max", "min", "floordiv", "mod"):
        raise Unknown
    if op in ("floordiv", "mod") and span(b)[0] <= 0:
        raise Unknown
    return simplify(binary(op, a, b))


def _compare(op: str, a: Expr, b: Expr) -> bool:
    """A comparison that comes out the same for all extents. Raises Unknown."""
    lo, hi = span(simplify(a - b))
    apart, same = lo > 0 or hi < 0, lo == hi == 0
    always = {"lt": hi < 0, "le": hi <= 0, "gt": lo > 0, "ge": lo >= 0, "eq": same, "ne": apart}
    never = {"lt": lo >= 0, "le": lo > 0, "gt": hi <= 0, "ge": hi < 0, "eq": apart, "ne": same}
    if always[op] == never[op]:
        raise Unknown
    return always[op]


def _load(e: Load, env: Mapping[str, Expr], memory: Mapping[Tensor, dict[int, Expr]]) -> Expr:
    t = e.tensor
    if not t.type.is_integer and t.type is not BOOL:
        raise Unknown
    at = _flat([_value(i, env, memory) for i in e.index], t.shape)
    if at is None:
        if e.outside is None:
            raise Unknown
        return _value(e.outside, env, memory)
    if t.value is not None:
        return Const(int(t.value.reshape(-1)[at]))
    if t.known is not None:
        return t.known[at]
    if at not in memory.get(t, {}):
        raise Unknown
    return memory[t][at]
