"""Index algebra: linear forms, intervals and the normal form of quasi-affine integer expressions.

An index is a sum of integer multiples of *atoms* (variables, parameters, and anything the algebra cannot
open: a floor division, a remainder, a gathered value). `interval` bounds it; `simplify` prints one normal
form and cancels divisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

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
    upper,
    wrap,
)
from ingot.formula.types import BOOL, INDEX

Bounds = Mapping[str, tuple[int, int]]
Linear = dict[Expr | None, int]
NO_BOUNDS: Bounds = {}


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
            if len(x) == len(y) == 1:  # run-time extents: 2 * N times h is h * N times 2
                ((p, c),), ((q, d),) = x.items(), y.items()
                return {times((*factors_of(p), *factors_of(q))): c * d}
        case Unary("neg", a):
            return {atom: -c for atom, c in linear(a).items()}
    return {e: 1}


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
    from ingot.formula.expr import walk

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
        case Param(name, lo, hi):
            return bounds.get(name, (lo, hi))
        case Gathered(_, lo, hi):
            return interval(lo, bounds)[0], interval(hi, bounds)[1] - 1
        case Select(_, a, b):
            (al, ah), (bl, bh) = interval(a, bounds), interval(b, bounds)
            return min(al, bl), max(ah, bh)
        case Load(tensor=t, outside=None) if t.type.is_integer and (span := value_range(t)) is not None:
            return span
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
    lo = hi = form.get(None, 0)
    for atom, c in form.items():
        if atom is not None:
            a, b = interval(atom, bounds)
            lo, hi = lo + min(a * c, b * c), hi + max(a * c, b * c)
    return lo, hi


def _corners(op: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    if op == "mod":
        if b[0] <= 0:
            raise ValueError("remainder by a divisor that may not be positive")
        return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)
    if op == "floordiv" and b[0] <= 0 <= b[1]:
        raise ValueError("division by a divisor that may be zero")
    values = [FOLD[op](x, y) for x in a for y in b]
    return min(values), max(values)


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
    """(k*q + r) // k == q + r // k;  (k*q + r) % k == r % k;  0 <= r < k: r // k == 0, r % k == r;
    x // j // k == x // (j*k);  x % (j*k) % k == x % k."""
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
    quotient, remainder = from_linear({t: c for t, c in whole.items() if c}), from_linear(rest)
    if _within(remainder, k, bounds):
        return quotient if op == "floordiv" else remainder
    inner = binary(op, remainder, b)
    return inner if op == "mod" else from_linear(linear(quotient + inner))


def _divide_by_extent(op: str, a: Expr, b: Expr, bounds: Bounds) -> Expr:
    """The same for a divisor known at run time only, where it is a product of positive extents."""
    ((divisor, k),) = linear(b).items() if len(linear(b)) == 1 else ((None, 0),)
    if divisor is None or k < 1 or not _positive(b, bounds):
        return binary(op, a, b)
    wanted = Counter(factors_of(divisor))
    whole: Linear = {}
    rest: Linear = {}
    for atom, c in linear(a).items():
        factors = Counter(factors_of(atom))
        if factors >= wanted and c % k == 0:
            whole[times(tuple((factors - wanted).elements()))] = c // k
        else:
            rest[atom] = c
    remainder = from_linear(rest)
    if at_least(remainder, bounds) >= 0 and at_least(b - 1 - remainder, bounds) >= 0:
        return from_linear(whole) if op == "floordiv" else remainder
    inner = binary(op, remainder, b)
    return inner if op == "mod" else from_linear(linear(from_linear(whole) + inner))


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
        size = atom.extent if c < 0 and isinstance(atom, Var) else None
        term = linear(size - 1) if isinstance(size, Expr) else {atom: 1}
        for part, k in term.items():
            form[part] = form.get(part, 0) + c * k
    try:
        return interval(from_linear(form), bounds)[0]
    except ValueError:
        return float("-inf")


def _within(e: Expr, k: int, bounds: Bounds) -> bool:
    try:
        lo, hi = interval(e, bounds)
    except ValueError:
        return False
    return lo >= 0 and hi < k


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
