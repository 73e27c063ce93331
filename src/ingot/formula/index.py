"""Index algebra: linear forms, intervals and the normal form of quasi-affine integer expressions.

An index is a sum of integer multiples of *atoms* (variables, parameters, anything the algebra cannot open:
a floor division, a remainder, a gathered value; and products of these). `interval` bounds it; `simplify`
prints one normal form and cancels divisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import product as product_of
from math import prod
from typing import overload

from ingot.formula.enumeration import values_of
from ingot.formula.expr import (
    FOLD,
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
    rebuild,
    text,
    walk,
    wrap,
)
from ingot.formula.types import BOOL, INDEX

Bounds = Mapping[str, tuple[int, int]]
Linear = dict[Expr | None, int]
NO_BOUNDS: Bounds = {}
MOST_CORNERS = 8  # factors of which every combination of ends is tried


def linear(e: Expr) -> Linear:
    """The index as {atom: coefficient}, with the constant under None; zero coefficients are absent."""
    match e:
        case Const(v, _):
            return {None: int(v)} if v else {}
        case Binary("add" | "sub" as op, a, b):
            out, sign = linear(a), 1 if op == "add" else -1
            for atom, c in linear(b).items():
                out[atom] = out.get(atom, 0) + sign * c
            return {atom: c for atom, c in out.items() if c}
        case Binary("mul", a, b):
            x, y = linear(a), linear(b)
            if not (x.keys() - {None}) or not (y.keys() - {None}):
                k, other = (x.get(None, 0), y) if not (x.keys() - {None}) else (y.get(None, 0), x)
                return {atom: c * k for atom, c in other.items() if c * k}
            return _multiplied(x, y)
        case Unary("neg", a):
            return {atom: -c for atom, c in linear(a).items()}
    return {e: 1}


def _multiplied(a: Linear, b: Linear) -> Linear:
    """Term by term, as 2 * N times h + 1 is h * N times 2 and N times 2: equal products come out equal."""
    out: Linear = {}
    for (p, c), (q, d) in product_of(a.items(), b.items()):
        atom = times((*factors_of(p), *factors_of(q)))
        out[atom] = out.get(atom, 0) + c * d
    return {atom: c for atom, c in out.items() if c}


def factors_of(atom: Expr | None) -> tuple[Expr, ...]:
    """What a product is made of; the constant term is made of nothing."""
    match atom:
        case None:
            return ()
        case Binary("mul", a, b):
            return (*factors_of(a), *factors_of(b))
    return (atom,)


def times(factors: tuple[Expr, ...]) -> Expr | None:
    """The product in the one order that makes equal products equal."""
    out: Expr | None = None
    for f in sorted(factors, key=text):
        out = f if out is None else Binary("mul", out, f)
    return out


def from_linear(form: Linear) -> Expr:
    """The normal form: positive terms first, the constant last."""
    terms = sorted(((a, c) for a, c in form.items() if a is not None), key=lambda t: t[1] < 0)
    out: Expr | None = None
    for atom, c in terms:
        term = atom if abs(c) == 1 else atom * abs(c)
        if out is None:
            out = term if c > 0 else Const(0) - term if c == -1 else atom * c
        else:
            out = out + term if c > 0 else out - term
    k = form.get(None, 0)
    if out is None:
        return Const(k)
    return out + k if k > 0 else out - (-k) if k < 0 else out


def coefficient(e: Expr, name: str) -> int | None:
    """How much the index grows with variable `name`; None where it does so other than linearly."""
    total = 0
    for atom, c in linear(e).items():
        if isinstance(atom, Var) and atom.name == name:
            total += c
        elif atom is not None and mentions(atom, name):
            return None
    return total


def mentions(e: Expr, name: str) -> bool:
    return any(isinstance(n, Var) and n.name == name for n in walk(e))


def interval(e: Expr | int, bounds: Bounds = NO_BOUNDS) -> tuple[int, int]:
    """Smallest and largest value of an index. Raises ValueError for a variable of unknown range."""
    match e:
        case int():
            return e, e
        case Const(v, _):
            return int(v), int(v)
        case Var(name, n, _):
            if name in bounds:
                return bounds[name]
            if n is not None:
                return 0, max(upper(n) - 1, 0)
            if e.dtype is not INDEX and e.dtype.is_integer:
                return int(e.dtype.lowest), int(e.dtype.highest)
        case Param(name, lo, hi):
            return bounds.get(name, (lo, hi))
        case Gathered(_, lo, hi):
            return interval(lo, bounds)[0], interval(hi, bounds)[1] - 1
        case Select(_, a, b):
            (al, ah), (bl, bh) = interval(a, bounds), interval(b, bounds)
            return min(al, bl), max(ah, bh)
        case Load(tensor=t, outside=None) if t.type.is_integer and (ends := value_range(t)) is not None:
            return ends
        case Load() if e.dtype.is_integer:
            return int(e.dtype.lowest), int(e.dtype.highest)
        case Cast(a, t) if a.dtype.is_integer and t.is_integer:
            return interval(a, bounds)
        case Cast(a, t) if t.is_integer and is_truth(a):
            return 0, 1
        case Cast(a, t) if t.is_integer:
            return int(t.lowest), int(t.highest)
        case Binary("add" | "sub" | "mul", _, _):
            return _linear_interval(e, bounds)
        case Binary(op, a, b) if op in FOLD:
            return _corners(op, interval(a, bounds), interval(b, bounds))
        case Unary("neg", a):
            lo_, hi_ = interval(a, bounds)
            return -hi_, -lo_
    raise ValueError(f"no bounds are known for {e}")


def span(n: Extent) -> tuple[int, int]:
    """The least and the largest value of an extent: exactly, where its parameters take few values."""
    if isinstance(n, int):
        return n, n
    found = values_of(n)
    return interval(n) if found is None else (int(found.min()), int(found.max()))


def upper(n: Extent) -> int:
    """The largest value an extent can take."""
    return span(n)[1]


def is_truth(e: Expr) -> bool:
    """Whether a bool is 0 or 1 for sure: it was compared here, not read from memory that others write."""
    match e:
        case Binary("and" | "or" | "xor", a, b) if e.dtype is BOOL:
            return is_truth(a) and is_truth(b)
        case Load(tensor=t):
            return t.type is BOOL and t.value is not None
    return e.dtype is BOOL and isinstance(e, Binary | Unary)


def value_range(t: Tensor) -> tuple[int, int] | None:
    """The least and largest element of a constant of integers or bools, or as the tensor promises."""
    if t.within is not None:
        return t.within
    return None if t.value is None or not t.value.size or t.type.kind in "fs" else _range(t)


@lru_cache(maxsize=256)
def _range(t: Tensor) -> tuple[int, int]:
    assert t.value is not None
    return int(t.value.min()), int(t.value.max())


def _linear_interval(e: Expr, bounds: Bounds) -> tuple[int, int]:
    form = linear(e)
    if form.keys() == {e}:
        assert isinstance(e, Binary)
        return _corners(e.op, interval(e.a, bounds), interval(e.b, bounds))
    products = any(isinstance(a, Binary) and a.op == "mul" for a in form)
    if products and len({c > 0 for c in form.values()}) > 1:  # the terms depend on each other
        return _polynomial_interval({factors_of(a): c for a, c in form.items()}, bounds)
    lo = hi = form.get(None, 0)
    for atom, c in form.items():
        if atom is not None:
            a, b = interval(atom, bounds)
            lo, hi = lo + min(a * c, b * c), hi + max(a * c, b * c)
    return lo, hi


def _polynomial_interval(form: Mapping[tuple[Expr, ...], int], bounds: Bounds) -> tuple[int, int]:
    """A sum of products. Linear in each factor, it is least and largest where each is at an end of its
    range; else every factor is taken as its least value and a rest, and the terms of that are bounded.
    """
    ranges = {f: interval(f, bounds) for factors in form for f in factors}
    if len(ranges) <= MOST_CORNERS and all(len({*factors}) == len(factors) for factors in form):
        corners = (dict(zip(ranges, ends, strict=True)) for ends in product_of(*ranges.values()))
        values = [sum(c * prod(map(at.__getitem__, fs)) for fs, c in form.items()) for at in corners]
        return min(values), max(values)
    lo = hi = 0
    for factors, c in _from_least(form, ranges).items():
        most = c * prod(ranges[f][1] - ranges[f][0] for f in factors)
        lo, hi = lo + min(most, 0), hi + max(most, 0)
        if not factors:
            lo, hi = lo + c - min(c, 0), hi + c - max(c, 0)
    return lo, hi


def _from_least(
    form: Mapping[tuple[Expr, ...], int], ranges: Mapping[Expr, tuple[int, int]]
) -> Counter[tuple[Expr, ...]]:
    """The sum of products with every factor f as lo + f."""
    out: Counter[tuple[Expr, ...]] = Counter()
    for factors, c in form.items():
        for kept in product_of((False, True), repeat=len(factors)):
            rest = tuple(f for f, keep in zip(factors, kept, strict=True) if keep)
            least = (ranges[f][0] for f, keep in zip(factors, kept, strict=True) if not keep)
            out[rest] += c * prod(least)
    return out


def _corners(op: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    if op == "mod":
        if b[0] <= 0:
            raise ValueError("remainder by a divisor that may not be positive")
        return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)
    if op == "floordiv" and b[0] <= 0 <= b[1]:
        raise ValueError("division by a divisor that may be zero")
    values = [FOLD[op](x, y) for x in a for y in b]
    return min(values), max(values)


@overload
def simplify(e: Load, bounds: Bounds = NO_BOUNDS) -> Load: ...


@overload
def simplify(e: Expr, bounds: Bounds = NO_BOUNDS) -> Expr: ...


def simplify(e: Expr, bounds: Bounds = NO_BOUNDS) -> Expr:
    """The normal form of an index; divisions and remainders are cancelled where the ranges prove it."""
    if e.dtype is not INDEX:
        return rebuild(e, lambda child: simplify(child, bounds))
    match e:
        case Binary("floordiv" | "mod" as op, a, b):
            return _divide(op, simplify(a, bounds), simplify(b, bounds), bounds)
        case Binary("max" | "min" as op, a, b):
            return _pick(op, simplify(a, bounds), simplify(b, bounds), bounds)
        case Binary(op, a, b):
            return from_linear(linear(binary(op, simplify(a, bounds), simplify(b, bounds))))
        case Unary("neg", a):
            return from_linear(linear(Unary("neg", simplify(a, bounds))))
        case Load() | Select() | Cast() | Gathered():
            return rebuild(e, lambda child: simplify(child, bounds))
    return e


def _divide(op: str, a: Expr, b: Expr, bounds: Bounds) -> Expr:
    """(k*q + r) // k == q + r // k;  (k*q + r) % k == r % k;  c*k <= r < c*k + k: r // k == c,
    r % k == r - c*k;  x // j // k == x // (j*k);  x % (j*k) % k == x % k."""
    if not isinstance(b, Const):
        return _divide_by_extent(op, a, b, bounds)
    if b.value <= 0:
        return binary(op, a, b)
    match op, a:
        case "floordiv", Binary("floordiv", x, Const(j)) if j > 0:
            return _divide(op, x, Const(j * b.value), bounds)
        case "mod", Binary("mod", x, Const(j)) if j > 0 and j % b.value == 0:
            return _divide(op, x, b, bounds)
    k, form = int(b.value), linear(a)
    whole: Linear = {atom: c // k for atom, c in form.items() if c % k == 0}
    rest: Linear = {atom: c for atom, c in form.items() if c % k}
    if None in rest:  # keep the remainder's constant within one period
        whole[None] = rest[None] // k
        rest[None] %= k
    remainder = from_linear(rest)
    turns = _period(remainder, k, bounds)
    if turns is not None:
        whole[None], remainder = whole.get(None, 0) + turns, from_linear(linear(remainder - turns * k))
    quotient = from_linear({t: c for t, c in whole.items() if c})
    if turns is not None:
        return quotient if op == "floordiv" else remainder
    inner = binary(op, remainder, b)
    return inner if op == "mod" else from_linear(linear(quotient + inner))


def _period(e: Expr, k: int, bounds: Bounds) -> int | None:
    """The one e // k there is."""
    try:
        lo, hi = interval(e, bounds)
    except ValueError:
        return None
    return lo // k if lo // k == hi // k else None


def _divide_by_extent(op: str, a: Expr, b: Expr, bounds: Bounds) -> Expr:
    """The same for a divisor known at run time only, where it is a positive extent."""
    divisor = linear(b)
    if not _positive(b, bounds):
        return binary(op, a, b)
    whole, rest = _shared(linear(a), divisor)
    for q, r in (({}, linear(a)), (whole, rest), _one_less(whole, rest, divisor)):
        remainder = from_linear(r)
        if at_least(remainder, bounds) >= 0 and at_least(b - 1 - remainder, bounds) >= 0:
            return from_linear(q) if op == "floordiv" else remainder
    if len(divisor) > 1 and at_least(from_linear(rest), bounds) < 0:
        return binary(op, a, b)
    inner = binary(op, from_linear(rest), b)
    return inner if op == "mod" else from_linear(linear(from_linear(whole) + inner))


def _one_less(whole: Linear, rest: Linear, divisor: Linear) -> tuple[Linear, Linear]:
    """(q - 1, r + b)"""
    return linear(from_linear(whole) - 1), linear(from_linear(rest) + from_linear(divisor))


def _shared(a: Linear, b: Linear) -> tuple[Linear, Linear]:
    """(q, r) with a == q * b + r: a division of polynomials, by the divisor's term of most factors."""
    top = max(b, key=lambda atom: len(factors_of(atom)))
    k, wanted = b[top], Counter(factors_of(top))
    whole: Linear = {}
    rest = dict(a)
    for atom in sorted(a, key=lambda atom: -len(factors_of(atom))):
        factors, c = Counter(factors_of(atom)), rest.get(atom, 0)
        if c and factors >= wanted and c % k == 0:
            turn = {times(tuple((factors - wanted).elements())): c // k}
            whole |= turn
            for t, d in _multiplied(turn, b).items():
                rest[t] = rest.get(t, 0) - d
    return whole, {atom: c for atom, c in rest.items() if c}


def _positive(e: Expr, bounds: Bounds) -> bool:
    try:
        return interval(e, bounds)[0] > 0
    except ValueError:
        return False


def at_least(e: Expr, bounds: Bounds = NO_BOUNDS) -> float:
    """A number that the index never falls below (minus infinity if none is known).

    A variable that runs to a run-time extent is taken at its last value first: N - 1 - n is at least 0.
    """
    form: Linear = {}
    for atom, c in linear(e).items():
        for part, k in (_at_last(atom, bounds) if c < 0 else {atom: 1}).items():
            form[part] = form.get(part, 0) + c * k
    try:
        return interval(from_linear({atom: c for atom, c in form.items() if c}), bounds)[0]
    except ValueError:
        return float("-inf")


def _at_last(atom: Expr | None, bounds: Bounds) -> Linear:
    """What the product is at most, in terms of the extents its variables run to."""
    out: Linear = {None: 1}
    for f in factors_of(atom):
        size = f.extent if isinstance(f, Var) else None
        grows = isinstance(size, Expr) and all(f is g or _positive(g + 1, bounds) for g in factors_of(atom))
        out = _multiplied(out, linear(size - 1) if grows and isinstance(size, Expr) else {f: 1})
    return out


def _pick(op: str, a: Expr, b: Expr, bounds: Bounds) -> Expr:
    """max(a, b) == a where a >= b always."""
    try:
        lo, hi = interval(from_linear(linear(a - b)), bounds)
    except ValueError:
        return binary(op, a, b)
    if lo >= 0:
        return a if op == "max" else b
    if hi <= 0:
        return b if op == "max" else a
    return binary(op, a, b)


def as_expr(n: Extent) -> Expr:
    return wrap(n, INDEX)


def product(extents: tuple[Extent, ...]) -> Expr:
    out: Expr = Const(1)
    for n in extents:
        out = out * n
    return out


def flat_index(load: Load) -> Expr:
    """The place of an element among those of its tensor, in row-major order."""
    flat: Expr = Const(0)
    for i, n in zip(load.index, load.tensor.shape, strict=True):
        flat = flat * as_expr(n) + i
    return simplify(from_linear(linear(flat)))
