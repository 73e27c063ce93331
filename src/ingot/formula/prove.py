"""Proofs that an index stays in its range.

In: what holds at a point of a formula or a loop nest (loop bounds, conditions, definitions), gathered in a
`Scope`. Out: whether an index can be shown to be non-negative there. The verifiers of the levels ask.

A goal is a linear form over atoms (variables, parameters, and what linear algebra cannot open: divisions,
maxima, loaded values). The innermost atom is replaced by one of the bounds known for it, until only a number
is left. Any lower bound of an atom will do, so a loop that starts at `max(0, 1 - oh)` offers both; where one
side of a maximum, minimum or Select is taken, the goal must hold for either. Forms are scaled instead of
divided, and since the goal is an integer, `scale * goal > -scale` is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import gcd

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
    walk,
)
from ingot.formula.index import as_expr, factors_of, from_linear, interval, is_truth, times, value_range
from ingot.formula.types import BOOL, INDEX, DType

Form = dict[Expr | None, int]  # atom: coefficient; the constant under None
Bound = tuple[int, Form]  # (c, form): c * atom >= form, or <= form
NOTHING: Mapping[Expr, tuple[Bound, ...]] = {}
PATIENCE = 500  # replacements tried for one goal
NEGATED = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True)
class Scope:
    """What is known at one point. Methods answer a new scope or a fact; nothing known is changed in place."""

    order: Mapping[str, int] = field(default_factory=dict)
    lowers: Mapping[Expr, tuple[Bound, ...]] = field(default_factory=dict)
    uppers: Mapping[Expr, tuple[Bound, ...]] = field(default_factory=dict)
    lets: Mapping[str, Expr] = field(default_factory=dict)
    numbers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    dead: bool = False
    answers: dict[tuple[Expr, Extent, int], bool] = field(default_factory=dict, compare=False)
    entered: dict[tuple[tuple[str, Extent | None, DType], ...], Scope] = field(
        default_factory=dict, compare=False
    )
    """The scopes inside loops over some axes, by names, extents and types."""

    # -- what is known

    def variable(self, name: str, lo: Expr, hi: Expr, step: int = 1) -> Scope:
        """Inside `for name = lo; name < hi; name += step`."""
        nothing = (
            lo.value >= hi.value if isinstance(lo, Const) and isinstance(hi, Const) else self.proves(lo - hi)
        )
        inner = Scope(
            {**self.order, name: len(self.order)},
            self.lowers,
            self.uppers,
            {k: v for k, v in self.lets.items() if k != name},
            {**self.numbers, **_numbers(name, lo, hi, step, self.numbers)},
            self.dead or nothing,
        )
        var, top = Var(name), add(self.form(hi), {None: 1}, -1)
        span = add(self.form(hi), self.form(lo), -1)
        if all(c % step == 0 for c in span.values()):
            top = add(self.form(hi), {None: step}, -1)
        elif not span.keys() - {None}:
            top = add(self.form(lo), {None: (span[None] - 1) // step * step})
        starts = tuple((1, self.form(piece)) for piece in _pieces("max", lo))
        ends: tuple[Bound, ...] = ((1, top),)
        if isinstance(hi, Binary) and hi.op == "min":
            pieces = [self.form(p) for p in _pieces("min", hi)]
            spans = [add(p, self.form(lo), -1) for p in pieces]
            even = all(c % step == 0 for s in spans for c in s.values())
            ends += tuple((1, add(p, {None: step if even else 1}, -1)) for p in pieces)
        inner = inner.bounded(var, starts, ends, anew=True)
        if not span.keys() - {None}:
            return inner
        return inner._at_least_zero(
            add(span, {None: 1}, -1)
        )  # there is an iteration: no extent it needs is 0

    def bounded(
        self, atom: Expr, lowers: tuple[Bound, ...], uppers: tuple[Bound, ...], anew: bool = False
    ) -> Scope:
        below = () if anew else self.lowers.get(atom, ())
        above = () if anew else self.uppers.get(atom, ())
        return Scope(
            self.order,
            {**self.lowers, atom: (*below, *lowers)},
            {**self.uppers, atom: (*above, *uppers)},
            self.lets,
            self.numbers,
            self.dead,
        )

    def let(self, name: str, value: Expr) -> Scope:
        """After `const name = value` of an index."""
        return Scope(
            self.order, self.lowers, self.uppers, {**self.lets, name: value}, self.numbers, self.dead
        )

    def given(self, condition: Expr, holds: bool = True) -> Scope:
        """Where the condition holds (or does not). What is not a comparison of indices teaches nothing."""
        scope = self
        for a, b, strict in _inequalities(condition, holds):
            x, y = self._side(a), self._side(b)
            if x is not None and y is not None:
                scope = scope._at_least_zero(add(add(y, x, -1), {None: int(strict)}, -1))
        return scope

    def _side(self, e: Expr) -> Form | None:
        """A side of a comparison as a form; of other integer types only where arithmetic cannot wrap."""
        match e:
            case _ if e.dtype is INDEX:
                return self.form(e)
            case Const(v, t) if t.is_integer:
                return {None: int(v)}
            case Cast(a, t) if t.is_integer and a.dtype is INDEX:
                return self.form(a)
        return {e: 1} if e.dtype.is_integer else None

    def _at_least_zero(self, form: Form) -> Scope:
        """Note form >= 0 as a bound of its innermost atom."""
        if not form.keys() - {None}:
            return self if form.get(None, 0) >= 0 else Scope(self.order, self.lowers, self.uppers, dead=True)
        atom = max((a for a in form if a is not None), key=self._rank)
        c, rest = form[atom], {a: k for a, k in form.items() if a != atom}
        if c < 0:
            return self.bounded(atom, (), ((-c, rest),))
        scope = self.bounded(atom, ((c, scaled(rest, -1)),), ())
        if rest.keys() <= {None} and rest.get(None, 0) < 0:
            scope = scope._without_zeros(tuple(factors_of(atom)))
        return scope

    def _without_zeros(self, factors: tuple[Expr, ...]) -> Scope:
        """Note that none of these is 0, which are factors of a product beyond 0."""
        scope = self
        if len(factors) > 1 and all(self.proves(f) for f in factors):
            for factor in factors:
                scope = scope.bounded(factor, ((1, {None: 1}),), ())
        return scope

    # -- what follows

    def inside(self, index: Expr, extent: Extent, lanes: int = 1) -> bool:
        """Whether 0 <= index and index + lanes <= extent, provably."""
        if isinstance(index, Const) and isinstance(extent, int):
            return 0 <= index.value <= extent - lanes or self.dead
        key = (index, extent, lanes)
        if key not in self.answers and isinstance(extent, int) and self._within(index, extent - lanes):
            self.answers[key] = True
        if key not in self.answers:  # unrolled loops ask the same again and again
            form = self.form(index)
            room = add(self.form(as_expr(extent) - lanes), form, -1)
            fits = self._prove(form, 1, [PATIENCE]) and self._prove(room, 1, [PATIENCE])
            self.answers[key] = self.dead or fits
        return self.answers[key]

    def _within(self, index: Expr, most: int) -> bool:
        """Whether the ranges of the loops alone say so."""
        if not all(n.name in self.numbers for n in walk(index) if isinstance(n, Var)):
            return False
        try:
            lo, hi = interval(index, self.numbers)
        except ValueError:
            return False
        return lo >= 0 and hi <= most

    def proves(self, goal: Expr) -> bool:
        """Whether goal >= 0, provably."""
        return self.dead or self._prove(self.form(goal), 1, [PATIENCE])

    def _prove(self, goal: Form, slack: int, patience: list[int]) -> bool:
        atoms = [a for a in goal if a is not None]
        if not atoms:
            return goal.get(None, 0) > -slack
        patience[0] -= 1
        if patience[0] < 0:
            return False
        atom = max(atoms, key=self._rank)
        c, rest = goal[atom], {a: k for a, k in goal.items() if a != atom}
        whole = self._undivided(atom, c, add(rest, {None: slack - 1}))
        if whole is not None and self._prove(whole, 1, patience):
            return True
        bounded = _without_remainder(atom, c, rest)
        if bounded is not None and self._prove(bounded, slack, patience):
            return True
        for scale, bound in self._bounds(atom, c > 0):
            if self._prove(add(scaled(rest, scale), bound, c), slack * scale, patience):
                return True
        sides = list(self._sides(atom, c > 0))
        return bool(sides) and all(s._prove(add(rest, f, c), slack, patience) for s, f in sides)

    def _undivided(self, atom: Expr, c: int, rest: Form) -> Form | None:
        """A goal without the division it holds by an extent d > 0: it is met where this form is.

        r + a // d >= 0 where r * d + a >= 0; r - a // d >= 0 where r * d - a + d - 1 >= 0.
        """
        match atom:
            case Binary("floordiv", a, d) if not isinstance(d, Const) and abs(c) == 1 and self.proves(d - 1):
                whole = add(self._product(rest, self.form(d)), self.form(a), c)
                return whole if c > 0 else add(add(whole, self.form(d)), {None: 1}, -1)
        return None

    def _bounds(self, atom: Expr, below: bool) -> Iterator[Bound]:
        """Forms that `atom` is never below (or never above)."""
        yield from (self.lowers if below else self.uppers).get(atom, ())
        match atom:
            case Param(_, lo, hi):
                yield 1, {None: lo if below else hi}
            case Binary("floordiv", a, Const(k, _)) if k > 0:
                yield int(k), add(self.form(a), {None: int(k) - 1}, -1) if below else self.form(a)
                if (span := self._span(atom)) is not None:  # whole numbers: 5 // 3 is 1, not 5 / 3
                    yield 1, {None: span[0] if below else span[1]}
            case Binary("max" | "min" as op, a, b) if (op == "max") == below:
                yield from ((1, self.form(a)), (1, self.form(b)))
            case Binary("mul"):
                yield from self._product_bounds(atom, below)
                if (span := self._span(atom)) is not None:
                    yield 1, {None: span[0] if below else span[1]}
            case Binary("mod", _, b) if not isinstance(b, Const) and self.proves(b - 1):
                yield 1, {} if below else add(self.form(b), {None: 1}, -1)
            case Gathered(_, lo, hi):
                yield 1, self.form(lo) if below else add(self.form(hi), {None: 1}, -1)
            case _ if (span := self._span(atom)) is not None:
                yield 1, {None: span[0] if below else span[1]}

    def _product_bounds(self, atom: Expr, below: bool) -> Iterator[Bound]:
        """x * p for p >= 0: what bounds the innermost factor x, p times."""
        parts = list(factors_of(atom))
        x = max(parts, key=self._rank)
        parts.remove(x)
        others = times(tuple(parts))
        if others is not None and x not in parts and self.proves(others):
            for scale, bound in self._bounds(x, below):
                yield scale, self._product(bound, {others: 1})

    def _span(self, atom: Expr) -> tuple[int, int] | None:
        """The numbers between which a value stays whatever the variables are."""
        match atom:
            case Binary("mul" | "floordiv" | "mod"):
                try:
                    return interval(atom, self.numbers)
                except ValueError:
                    return None
        return data_range(atom)

    def _sides(self, atom: Expr, below: bool) -> Iterator[tuple[Scope, Form]]:
        """The forms one of which the atom equals, each with what holds then."""
        match atom:
            case Binary("max" | "min" as op, a, b) if (op == "max") != below:
                yield from ((self, self.form(a)), (self, self.form(b)))
            case Select(condition, a, b):
                yield self.given(condition), self.form(a)
                yield self.given(condition, False), self.form(b)

    def _rank(self, atom: Expr) -> tuple[int, int]:
        """Inner atoms first: later variables before earlier ones, a division before what it divides."""
        return _rank(atom, tuple(self.order.items()))

    # -- forms

    def form(self, e: Expr) -> Form:
        """The linear form of an index; remainders are spelled as what a division leaves."""
        match e:
            case Const(v, _):
                return {None: int(v)} if v else {}
            case Var(name) if name in self.lets:
                return self.form(self.lets[name])
            case Binary("add" | "sub" as op, a, b):
                return add(self.form(a), self.form(b), 1 if op == "add" else -1)
            case Binary("mul", a, b):
                return self._product(self.form(a), self.form(b))
            case Binary("floordiv", a, Const(k, _)) if k > 0:
                return self._quotient(self.form(a), int(k))
            case Binary("mod", a, Const(k, _)) if k > 0:
                return add(self.form(a), self._quotient(self.form(a), int(k)), -int(k))
            case Binary("max" | "min" | "floordiv" | "mod" as op, a, b):
                return {Binary(op, _index(self.form(a)), _index(self.form(b))): 1}
            case Unary("neg", a):
                return scaled(self.form(a), -1)
            case Cast(a, t) if t is INDEX and a.dtype.is_integer:
                return self._side(a) or {}
        return {e: 1}

    def _product(self, a: Form, b: Form) -> Form:
        for form, number in ((a, b), (b, a)):
            if not number.keys() - {None}:  # the atoms stay those of which bounds are known
                return scaled(form, number.get(None, 0))
        out: Form = {}
        for x, c in a.items():
            for y, k in b.items():
                parts = (f for t in (x, y) if t is not None for f in factors_of(_index({t: 1})))
                out = add(out, {times(tuple(parts)): c * k})
        return out

    def _quotient(self, form: Form, k: int) -> Form:
        """(k*q + r) // k == q + r // k; r // k == 0 for 0 <= r < k; (g*r + s) // (g*k) == r // k, s < g."""
        whole: Form = {a: c // k for a, c in form.items() if a is not None and c % k == 0}
        rest: Form = {a: c for a, c in form.items() if a is not None and c % k}
        constant = form.get(None, 0)
        whole, rest = add(whole, {None: constant // k}), add(rest, {None: constant % k})
        if not rest.keys() - {None}:
            return whole
        if self._prove(rest, 1, [50]) and self._prove(add({None: k - 1}, rest, -1), 1, [50]):
            return whole
        common = gcd(k, *(c for a, c in rest.items() if a is not None))
        if common > 1:
            return add(whole, self._quotient({a: c // common for a, c in rest.items()}, k // common))
        return add(whole, {_divide(_index(rest), k): 1})


def _index(form: Form) -> Expr:
    """The form as an index again: what comes from data is cast to one."""
    return from_linear({a if a is None or a.dtype is INDEX else Cast(a, INDEX): c for a, c in form.items()})


def _divide(e: Expr, k: int) -> Expr:
    """e // k; a division of a division is one."""
    match e:
        case Binary("floordiv", a, Const(j, _)) if j > 0:
            return Binary("floordiv", a, Const(int(j) * k))
    return Binary("floordiv", e, Const(k))


def _without_remainder(atom: Expr, c: int, rest: Form) -> Form | None:
    """A goal without the remainder it holds: it is met where this form is, with an end of its range.

    c * (x // j) - c * k * (x // (j * k)) = c * ((x // j) % k), which lies between 0 and c * (k - 1).
    """
    match atom:
        case Binary("floordiv", x, Const(j, _)) if j > 0:
            for other, by in rest.items():
                match other:
                    case Binary("floordiv", y, Const(m, _)) if y == x and m % j == 0 and by == -c * (m // j):
                        most: Form = {None: min(c * (int(m) // int(j) - 1), 0)}
                        return add({a: n for a, n in rest.items() if a != other}, most)
    return None


def add(a: Form, b: Form, times: int = 1) -> Form:
    """a + times * b, without zeros."""
    out = dict(a)
    for atom, c in b.items():
        out[atom] = out.get(atom, 0) + times * c
    return {atom: c for atom, c in out.items() if c}


def scaled(a: Form, k: int) -> Form:
    return {atom: c * k for atom, c in a.items() if c * k}


@lru_cache(maxsize=4096)
def _rank(atom: Expr, order: tuple[tuple[str, int], ...]) -> tuple[int, int]:
    places, nodes = dict(order), list(walk(atom))
    return max((places.get(n.name, -1) for n in nodes if isinstance(n, Var)), default=-1), len(nodes)


def _pieces(op: str, e: Expr) -> Iterator[Expr]:
    if isinstance(e, Binary) and e.op == op:
        yield from _pieces(op, e.a)
        yield from _pieces(op, e.b)
    else:
        yield e


def _numbers(
    name: str, lo: Expr, hi: Expr, step: int, known: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """The least and the largest value of a loop's variable: what a step passes over is none of them."""
    try:
        (first, latest), end = interval(lo, known), interval(hi, known)[1]
    except ValueError:
        return {}
    last = first + (end - 1 - first) // step * step if first == latest else end - 1
    return {name: (first, max(last, first))}


def _inequalities(c: Expr, holds: bool) -> Iterator[tuple[Expr, Expr, bool]]:
    """(a, b, strict) for a < b or a <= b that follow from the condition (or from its negation)."""
    match c:
        case Binary("and" | "or" as op, a, b) if c.dtype is BOOL and (op == "and") == holds:
            yield from _inequalities(a, holds)
            yield from _inequalities(b, holds)
        case Unary("not", a):
            yield from _inequalities(a, not holds)
        case Binary(op, a, b) if op in COMPARISONS:
            op = op if holds else NEGATED[op]
            if op in ("lt", "le", "eq"):
                yield a, b, op == "lt"
            if op in ("gt", "ge", "eq"):
                yield b, a, op == "gt"


def data_range(e: Expr) -> tuple[int, int] | None:
    """The least and largest value of an integer that comes from data, by its type, mask, limit or table."""
    if not e.dtype.is_integer and e.dtype is not BOOL:
        return None
    if is_truth(e):
        return 0, 1
    match e:
        case Const(v, _):
            return int(v), int(v)
        case Load(tensor, _, None) if (span := value_range(tensor)) is not None:
            return span
        case Select(_, a, b):
            return _either(data_range(a), data_range(b))
        case Load(_, _, Expr() as other) as inside:
            return _either(data_range(replace(inside, outside=None)), data_range(other))
        case Gathered(_, lo, hi):
            return interval(lo)[0], interval(hi)[1] - 1
        case Binary("and", _, Const(v, _)) | Binary("and", Const(v, _), _) if v >= 0:
            return 0, int(v)
        case Binary("min", a, Const(v, _)) if (inner := data_range(a)) is not None:
            return min(inner[0], int(v)), min(inner[1], int(v))
        case Binary("shr", a, Const(k, _)) if (inner := data_range(a)) is not None:
            return inner[0] >> int(k), inner[1] >> int(k)
        case Cast(a, t) if (inner := data_range(a)) is not None and _holds(t, inner):
            return inner
    return (int(e.dtype.lowest), int(e.dtype.highest)) if e.dtype is not INDEX else None


def _either(a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def keeps_within(t: Tensor, value: Expr, scope: Scope) -> bool:
    """Whether an element that gets the value lies where the tensor promises."""
    if t.within is None:
        return True
    lo, hi = t.within
    span = data_range(value)
    if span is not None and lo <= span[0] and span[1] <= hi:
        return True
    if not isinstance(value, Cast) or value.a.dtype is not INDEX:
        return False
    return scope.inside(value.a - lo, hi - lo + 1)


def _holds(t: DType, span: tuple[int, int]) -> bool:
    return t is INDEX or (t.is_integer and t.lowest <= span[0] and span[1] <= t.highest)
