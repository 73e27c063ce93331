"""Rewriting statements: substitution of loop variables by expressions, and of registers' names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import count

from ingot.formula.expr import (
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    loads,
    rebuild,
    substitute,
    transform,
    walk,
)
from ingot.formula.index import Bounds, mentions, simplify
from ingot.formula.statements import (
    Assign,
    Check,
    For,
    Instruction,
    Let,
    Madd,
    Prefetch,
    Remark,
    Routine,
    Statement,
    Store,
    When,
    expressions,
    flatten,
    loaded,
    stored,
)


def substituted(
    statements: tuple[Statement, ...], env: Mapping[str, Expr], bounds: Bounds
) -> tuple[Statement, ...]:
    """The statements with variables replaced, indices in normal form again where something was."""

    def put(e: Expr) -> Expr:
        new = substitute(e, env)
        return e if new is e else simplify(new, bounds)

    return rewritten(statements, put)


Told = Callable[[str], str]
"""What becomes of the text of a remark."""


def rewritten(
    statements: tuple[Statement, ...], f: Callable[[Expr], Expr], told: Told | None = None
) -> tuple[Statement, ...]:
    """The statements with `f` applied to every expression they hold, and `told` to every remark, in order."""
    return tuple(_one(s, f, told) for s in statements)


def silent(_: str) -> str:
    """No remark."""
    return ""


def remarks_joined(body: tuple[Statement, ...], notes: Iterable[tuple[str, ...]]) -> tuple[Statement, ...]:
    """The body of several kernels alike, whose remarks say what those of each say."""
    texts = ("; ".join(dict.fromkeys(several)) for several in zip(*notes, strict=True))
    return rewritten(body, lambda e: e, lambda _: next(texts))


def _one(s: Statement, f: Callable[[Expr], Expr], told: Told | None) -> Statement:
    match s:
        case For(lo=lo, hi=hi, body=body):
            routine = _called(s.routine, f)
            return replace(s, lo=f(lo), hi=f(hi), body=rewritten(body, f, told), routine=routine)
        case Let() | Assign():
            return replace(s, value=f(s.value))
        case Madd() | Instruction():
            return replace(s, a=f(s.a), b=f(s.b))
        case Store(to=to, value=value):
            at = f(to)
            assert isinstance(at, Load)
            return replace(s, to=at, value=f(value))
        case When(condition, body, other):
            return When(f(condition), rewritten(body, f, told), rewritten(other, f, told))
        case Check(condition, error):
            return Check(f(condition), error)
        case Prefetch(at):
            moved = f(at)
            assert isinstance(moved, Load)
            return replace(s, at=moved)
        case Remark(text) if told is not None:
            return Remark(told(text))
    return s


def _called(routine: Routine | None, f: Callable[[Expr], Expr]) -> Routine | None:
    if routine is None:
        return None
    moved = tuple(f(a) for a in routine.arguments)
    return replace(routine, arguments=tuple(a for a in moved if isinstance(a, Load)))


def apart(statements: tuple[Statement, ...], taken: set[str]) -> tuple[Statement, ...]:
    """The statements with other names for the registers they declare, where those are `taken`.

    What they declare outside any loop is added to `taken`: statements that follow in the same block, or in
    loops below it, cannot declare it again.
    """
    declared = {s.name: None for s in flatten(statements) if isinstance(s, Let)}
    known, names = taken | declared.keys(), dict[str, str]()
    for n in declared:
        if n in taken:
            names[n] = next(m for m in (f"{n}_{i}" for i in count(len(taken))) if m not in known)
            known.add(names[n])
    taken.update(names.get(s.name, s.name) for s in statements if isinstance(s, Let))
    return _renamed(statements, names) if names else statements


def _renamed(statements: tuple[Statement, ...], names: Mapping[str, str]) -> tuple[Statement, ...]:
    def register(e: Expr) -> Expr | None:
        return replace(e, name=names[e.name]) if isinstance(e, Var) and e.name in names else None

    def named(s: Statement) -> Statement:
        match s:
            case Let(name) | Assign(name) | Madd(name) | Instruction(_, name) if name in names:
                return replace(s, name=names[name])
            case For(body=body):
                return replace(s, body=tuple(map(named, body)))
            case When(body=body, other=other):
                return replace(s, body=tuple(map(named, body)), other=tuple(map(named, other)))
        return s

    return tuple(map(named, rewritten(statements, lambda e: transform(e, register))))


def shared_calls(value: Expr, prefix: str, lanes: int) -> tuple[tuple[Statement, ...], Expr]:
    """Functions that a value calls more than once become registers of `lanes` before it."""
    found = Counter(n for n in walk(value) if isinstance(n, Unary) and n.op not in ("neg", "abs"))
    names: dict[Expr, Var] = {}
    lets: list[Statement] = []

    def named(e: Expr) -> Expr | None:
        if isinstance(e, Select):
            return e  # only one of its sides may be read
        if e not in names and isinstance(e, Unary) and found[e] > 1:
            inner = rebuild(e, lambda child: transform(child, named))
            names[e] = Var(f"{prefix}{len(names)}", None, e.dtype)
            lets.append(Let(names[e].name, inner, lanes))
        return names.get(e)

    value = transform(value, named)
    return tuple(lets), value


def without_single_iterations(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """A loop of one iteration is its body, its variable the one value it takes.

    Kept where its registers would meet those of a neighbour.
    """
    out: list[Statement] = []
    for s in statements:
        match s:
            case For(var, Const(lo), Const(hi), step, body, routine=None) if lo < hi <= lo + step:
                inner = without_single_iterations(substituted(body, {var: Const(lo)}, {}))
                alone = len(statements) == 1 or not any(isinstance(t, Let) for t in inner)
                out += inner if alone else (For(var, Const(lo), Const(hi), step, inner),)
            case For(body=body):
                out.append(replace(s, body=without_single_iterations(body)))
            case When(condition, body, other):
                out.append(When(condition, without_single_iterations(body), without_single_iterations(other)))
            case _:
                out.append(s)
    return tuple(out)


def hoisted(around: For) -> tuple[Statement, ...]:
    """A loop behind those loops of its body that do the same in every iteration, such as packing a matrix.

    They read nothing that the body writes, and what they write nobody else in it does; registers of the body
    are none of their business.
    """
    writers = Counter(t for s in around.body for t in set(stored((s,))))
    registers = [s.name for s in around.body if isinstance(s, Let)]

    def is_invariant(s: Statement) -> bool:
        inside = list(flatten((s,)))
        parts = [e for part in inside for e in expressions(part)]
        read = {load.tensor for part in inside for e in loaded(part) for load in loads(e)}
        names = {part.name for part in inside if isinstance(part, (Assign, Madd, Instruction))}
        fixed = isinstance(s, For) and not any(
            mentions(e, n) for e in parts for n in (around.var, *registers)
        )
        fixed = fixed and not names & {*registers}
        return fixed and not read & writers.keys() and all(writers[t] == 1 for t in stored((s,)))

    first = tuple(s for s in around.body if is_invariant(s))
    return (*first, replace(around, body=tuple(s for s in around.body if s not in first)))
