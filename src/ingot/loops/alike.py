"""Kernels that differ in numbers only become one function, which is given the numbers.

    conv2: for oh in 0..24 ... x[24][8]         conv2(size_1, ...): for oh in 0..size_1 ... x[size_1][size_2]
    conv3: for oh in 0..12 ... x[12][16]   ->   conv2(24, 8, a, w, b);  conv2(12, 16, b, v, c);

In: the kernels of a program. Out: for some of them the `General` that C has in their place. The program stays
as it is: what is verified, evaluated and planned are the kernels themselves, and a general one with its
numbers put in is, statement by statement, the kernel that it stands for.
Called by `emit` where code is to be small, and always for products with encoded weights that differ in
nothing but how many entries there are.

Numbers are integers of indices and bounds of loops, extents of tensors, scalar constants of sums and
products, and what a routine is told. What a tile has unrolled, and what an index is divided by, is the same
in all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ingot.formula.expr import (
    Binary,
    Const,
    Expr,
    Load,
    Param,
    Tensor,
    Var,
    loads,
    rebuild,
    static,
    text,
    transform,
    walk,
)
from ingot.formula.index import flat_index
from ingot.formula.statements import (
    For,
    Routine,
    Statement,
    Store,
    When,
    expressions,
    flatten,
    statements_text,
    stored,
)
from ingot.formula.types import FLOAT32, FLOAT64, INDEX, INT32, DType
from ingot.loops.program import Kernel
from ingot.loops.rewrite import remarks_joined, rewritten, silent

Number = int | float
Differ = Literal["numbers", "lengths"]
ENCODED = "sparse"  # the family of generators whose tables are as long as there are entries
RANK = 8  # vectors and matrices are read as what has more axes, the first of which have one place each
FREE = ("add", "sub", "mul", "max", "min", "doubling_high", "rounding_shr")
"""Operations beside which a constant that is no index may become a number."""


@dataclass(frozen=True, slots=True, eq=False)
class General:
    """A kernel with `numbers` (`Param`s are integers), and what each kernel that it serves gives for them."""

    kernel: Kernel
    given: Mapping[Kernel, tuple[Number, ...]]


@dataclass(frozen=True, slots=True)
class _Taken:
    """A kernel whose numbers are taken out: what is left, and they in their order with their types.

    `lengths` are the places of those that say how long tables are: no index is multiplied by them.
    """

    skeleton: Hashable
    body: tuple[Statement, ...]
    parameters: tuple[Tensor, ...]
    numbers: tuple[Number, ...]
    types: tuple[DType, ...]
    lengths: frozenset[int]


def generals(kernels: Iterable[Kernel], *, differ: Differ = "numbers") -> dict[Kernel, General]:
    """The general kernel of each that shares one with others. `differ` is all that may be different in those:
    any of the numbers, or no more than how many entries encoded weights have.
    """
    groups: dict[Hashable, dict[Kernel, _Taken]] = {}
    for kernel in kernels:
        if _is_fixed(kernel):
            taken = _taken(kernel)
            groups.setdefault((taken.skeleton, _same(kernel, taken, differ)), {})[kernel] = taken
    found = (_general(members) for members in groups.values() if len(members) > 1)
    return {kernel: general for general in found for kernel in general.given}


def _same(kernel: Kernel, taken: _Taken, differ: Differ) -> Hashable:
    """The numbers that must be the same."""
    if differ == "numbers":
        return ()
    free = taken.lengths if ENCODED in kernel.generators else frozenset()
    return tuple(repr(n) for i, n in enumerate(taken.numbers) if i not in free)


def _is_fixed(kernel: Kernel) -> bool:
    """No extent is known at run time only, no loop is cut into tasks."""
    is_cut = any(isinstance(s, For) and s.parallel for s in flatten(kernel.body))
    is_known = all(isinstance(n, int) for t in kernel.parameters for n in t.spans)
    is_shallow = all(t.rank <= RANK for t in kernel.parameters)
    return not kernel.params and not is_cut and is_known and is_shallow


class _Taker:
    """Puts `Var`s called ?0, ?1, ... in the place of numbers."""

    def __init__(self, kernel: Kernel) -> None:
        self.numbers: list[Number] = []
        self.types: list[DType] = []
        self.lengths: set[int] = set()
        self.stands = {t: self._tensor(n, t) for n, t in enumerate(kernel.parameters)}

    def number(self, value: Number, dtype: DType) -> Var:
        self.numbers.append(value)
        self.types.append(dtype)
        return Var(f"?{len(self.numbers) - 1}", None, dtype)

    def _tensor(self, n: int, t: Tensor) -> Tensor:
        """One of the same strides, of RANK axes; who owns the bytes around it does not matter to C."""
        spans = (1,) * (RANK - t.rank) + tuple(map(static, t.spans))
        if t.rank:
            self.lengths.add(len(self.numbers) + RANK - t.rank)
        return Tensor(f"p{n}", t.type, tuple(self.number(size, INDEX) for size in spans), within=t.within)

    def expression(self, e: Expr) -> Expr:
        return transform(e, self._place)

    def _place(self, e: Expr) -> Expr | None:
        match e:
            case Load(tensor):
                index = (Const(0),) * (RANK - tensor.rank) + e.index
                return Load(self.stands[tensor], tuple(map(self.expression, index)), e.outside, e.lanes)
            case Const(value, dtype) if dtype is INDEX:
                return self.number(value, INDEX)
            case Binary("floordiv" | "mod", a, Const()):
                return rebuild(e, lambda part: self.expression(part) if part is a else part)
            case Binary("min") if e.dtype is INT32:
                return rebuild(e, self._bound)
            case Binary(op) if op in FREE and e.dtype is not INDEX:
                return rebuild(e, self._operand)
        return None

    def _operand(self, e: Expr) -> Expr:
        """A constant beside one of the free operations, or any other operand."""
        if isinstance(e, Const) and e.dtype in (FLOAT32, FLOAT64, INT32):
            return self.number(e.value, e.dtype)
        return self.expression(e)

    def _bound(self, e: Expr) -> Expr:
        """An operand of what a place in a table is bounded by."""
        if isinstance(e, Const):
            self.lengths.add(len(self.numbers))
        return self._operand(e)

    def statements(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(map(self._statement, body))

    def _statement(self, s: Statement) -> Statement:
        match s:
            case For(routine=Routine() as routine):
                return self._called(s, routine)
            case For(lo=lo, hi=hi, body=body):
                lo, hi = self.expression(lo), self.expression(hi)
                return replace(s, lo=lo, hi=hi, body=self.statements(body))
            case When(condition, body, other):
                return When(self.expression(condition), self.statements(body), self.statements(other))
        return rewritten((s,), self.expression, silent)[0]

    def _called(self, s: For, routine: Routine) -> For:
        """C has the call only: of the loop no more is left than which tensors it writes."""
        arguments = tuple(a for a in map(self.expression, routine.arguments) if isinstance(a, Load))
        numbers = tuple(self._told(n) for n in routine.numbers)
        made = sorted({self.stands[t].name: t for t in stored(s.body)}.items())
        corner = (Load(s, (Const(0),) * s.rank) for s in (self.stands[t] for _, t in made))
        left = tuple(Store(at, Const(0, at.tensor.type)) for at in corner)
        call = Routine(routine.name, arguments, numbers)
        return For("i", Const(0), Const(1), 1, left, routine=call)

    def _told(self, n: Number | Expr) -> Expr:
        assert not isinstance(n, Expr)
        return self.number(n, FLOAT32 if isinstance(n, float) else INDEX)


def _taken(kernel: Kernel) -> _Taken:
    taker = _Taker(kernel)
    body = taker.statements(kernel.body)
    parameters = tuple(taker.stands[t] for t in kernel.parameters)
    kinds = tuple((t.name, t.type, t.rank, t.within) for t in parameters)
    scratch = tuple(t in kernel.scratch for t in kernel.parameters)
    skeleton = (kinds, scratch, tuple(taker.types), "\n".join(_told_text(body)))
    lengths = frozenset(taker.lengths)
    return _Taken(skeleton, body, parameters, tuple(taker.numbers), tuple(taker.types), lengths)


def _told_text(body: tuple[Statement, ...]) -> Iterable[str]:
    """All that makes statements what they are, as text; tensors by their names, of which no two are alike."""
    yield from statements_text(body)
    for s in flatten(body):
        if isinstance(s, For) and s.routine is not None:
            told = (*s.routine.arguments, *(n for n in s.routine.numbers if isinstance(n, Expr)))
            yield f"{s.routine.name}({', '.join(map(text, told))})"


def _general(members: Mapping[Kernel, _Taken]) -> General:
    """The kernel of all members: numbers in which they agree are constants again, equal rows are one."""
    rows = list(zip(*(taken.numbers for taken in members.values()), strict=True))
    first, taken = next(iter(members.items()))
    names: dict[Hashable, tuple[int, Var | Param]] = {}  # and the place of the first such row
    put: dict[str, Expr] = {}
    for i, (row, dtype) in enumerate(zip(rows, taken.types, strict=True)):
        texts = tuple(map(repr, row))  # -0.0 is not 0.0
        if len(set(texts)) == 1:
            put[f"?{i}"] = Const(row[0], dtype)
        else:
            name = _named(row, dtype, len(names) + 1)
            put[f"?{i}"] = names.setdefault((dtype, *texts), (i, name))[1]
    kernel = _filled(first, taken, put, list(members))
    used = _used(kernel.body)
    wanted = [(i, name) for i, name in names.values() if name.name in used]
    given = {k: tuple(t.numbers[i] for i, _ in wanted) for k, t in members.items()}
    return General(replace(kernel, numbers=tuple(name for _, name in wanted)), given)


def _named(row: tuple[Number, ...], dtype: DType, n: int) -> Var | Param:
    if dtype is INDEX:
        return Param(f"size_{n}", int(min(row)), int(max(row)))
    return Var(f"factor_{n}", None, dtype)


def _filled(first: Kernel, taken: _Taken, put: Mapping[str, Expr], members: list[Kernel]) -> Kernel:
    """The first member with names in the place of some of its numbers."""

    def extent(n: object) -> int | Expr:
        assert isinstance(n, Var)
        found = put[n.name]
        return int(found.value) if isinstance(found, Const) else found

    shapes = {t: tuple(map(extent, t.shape)) for t in taken.parameters}
    skipped = {t: _leading(shape) for t, shape in shapes.items()}
    stands = {
        t: Tensor(own.name, t.type, shapes[t][skipped[t] :], within=t.within)
        for t, own in zip(taken.parameters, first.parameters, strict=True)
    }

    def place(e: Expr) -> Expr | None:
        match e:
            case Load():
                index = tuple(transform(i, place) for i in e.index[skipped[e.tensor] :])
                return Load(stands[e.tensor], index, e.outside, e.lanes)
            case Var(name) if name in put:
                return put[name]
        return None

    body = _told_again(rewritten(taken.body, lambda e: transform(e, place)), put)
    body = remarks_joined(body, (k.notes for k in members))
    others = ", ".join(" + ".join(k.nodes) for k in members[1:])
    remark = f"{first.remark}; given the sizes of {others} too".removeprefix("; ")
    parameters = tuple(stands[t] for t in taken.parameters)
    pairs = zip(parameters, first.parameters, strict=True)
    scratch = frozenset(general for general, own in pairs if own in first.scratch)
    return replace(first, parameters=parameters, body=body, remark=remark, scratch=scratch)


def _leading(shape: tuple[int | Expr, ...]) -> int:
    """How many axes in front have one place each in all members; one is left."""
    return next((d for d, n in enumerate(shape[:-1]) if n != 1), len(shape) - 1)


def _used(body: tuple[Statement, ...]) -> set[str]:
    """The names that C mentions: of a tensor's extents those that an index is multiplied by."""
    found: set[str] = set()
    for s in flatten(body):
        told = s.routine.numbers if isinstance(s, For) and s.routine is not None else ()
        for e in (*expressions(s), *(n for n in told if isinstance(n, Expr))):
            parts = (e, *map(flat_index, loads(e)))
            found.update(n.name for part in parts for n in walk(part) if isinstance(n, Param | Var))
    return found


def _told_again(body: tuple[Statement, ...], put: Mapping[str, Expr]) -> tuple[Statement, ...]:
    """Numbers of routines."""

    def number(n: Number | Expr) -> Number | Expr:
        found = put[n.name] if isinstance(n, Var) else n
        return found.value if isinstance(found, Const) else found

    def one(s: Statement) -> Statement:
        match s:
            case For(body=inner, routine=routine):
                if routine is not None:
                    routine = replace(routine, numbers=tuple(map(number, routine.numbers)))
                return replace(s, body=tuple(map(one, inner)), routine=routine)
            case When(condition, inner, other):
                return When(condition, tuple(map(one, inner)), tuple(map(one, other)))
        return s

    return tuple(map(one, body))
