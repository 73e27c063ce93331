"""Statements as C lines."""

from __future__ import annotations

from collections.abc import Iterator

from ingot.emit.expression import bare
from ingot.emit.names import comment
from ingot.emit.vector import VectorPrinter
from ingot.formula.expr import Expr, Load, Select, Var, walk
from ingot.formula.index import simplify
from ingot.formula.statements import (
    Assign,
    Barrier,
    Check,
    For,
    Instruction,
    Let,
    Madd,
    Pause,
    Prefetch,
    Remark,
    Routine,
    Statement,
    Store,
    When,
    expressions,
    flatten,
)
from ingot.formula.types import INDEX

INDENT = "    "


def lines(statements: tuple[Statement, ...], p: VectorPrinter, errors: dict[str, str]) -> Iterator[str]:
    """The C of statements; `errors` gives the C constant of each error name."""
    for s in statements:
        match s:
            case For(routine=Routine() as routine):
                yield f"{p.routine(routine)};"
            case For(var, lo, hi, step, body):
                advance = f"{var}++" if step == 1 else f"{var} += {step}"
                if any(map(_reads_under_two_conditions, flatten(body))):
                    yield p.not_vectorized()
                yield f"for (int {var} = {p.index(lo)}; {var} < {p.index(hi)}; {advance}) {{"
                yield from _block(body, p, errors)
                yield "}"
            case When(condition, body, other):
                yield f"if ({bare(p.scalar(condition))}) {{"
                yield from _block(body, p, errors)
                if other:
                    yield "} else {"
                    yield from _block(other, p, errors)
                yield "}"
            case Check(condition, error):
                yield f"if (!({bare(p.scalar(condition))})) return {errors[error]};"
            case Pause():
                yield f"if ({p.pause}()) return {errors['ERR_STOPPED']};"
            case Remark(text):
                yield f"/* {comment(text)} */"
            case _:
                yield _simple(s, p)


def _reads_under_two_conditions(s: Statement) -> bool:
    """Whether an element is read only where a condition inside another condition's branch holds."""
    outer = (n for e in expressions(s) for n in walk(e) if isinstance(n, Select))
    inner = (n for o in outer for side in (o.a, o.b) for n in walk(side) if isinstance(n, Select))
    return any(isinstance(n, Load) for i in inner for side in (i.a, i.b) for n in walk(side))


def _block(body: tuple[Statement, ...], p: VectorPrinter, errors: dict[str, str]) -> Iterator[str]:
    return (INDENT + line for line in lines(body, p, errors))


def _simple(s: Statement, p: VectorPrinter) -> str:
    match s:
        case Let(name, value, lanes, mutable):
            p.repeated.pop(name, None)
            if lanes > 1 and not mutable and p.width(value) == 1:
                p.repeated[name] = bare(p.scalar(value))
            p.registers[name] = (lanes, value.dtype)
            const = "" if mutable else "const "
            return f"{const}{_type(value, lanes, p)} {name} = {_value(value, lanes, p)};"
        case Assign(name, value, lanes):
            return f"{name} = {_value(value, lanes, p)};"
        case Madd(name, a, b, lanes):
            return f"{name} = {p.madd(name, a, b, lanes)};"
        case Instruction(operation, name, a, b, lanes):
            return f"{name} = {p.instruction(operation, name, a, b, lanes)};"
        case Store(to, value, 1) if value.dtype.is_text:
            return p.copy(f"&{p.element(to)}", value)
        case Store(to, value, 1):
            return f"{p.element(to)} = {bare(p.narrowed(value, to.tensor.type))};"
        case Store(to, value, lanes):
            return p.store(to, value, lanes)
        case Barrier():
            return '__asm__ volatile("" ::: "memory");'
        case Prefetch(at, ahead, level):
            line = f"(const void *)((uintptr_t)&{p.element(at)} + {ahead})"
            return f"__builtin_prefetch({line}, 0, {4 - level});"
    raise TypeError(f"no C for {s!r}")


def _type(value: Expr, lanes: int, p: VectorPrinter) -> str:
    return value.dtype.c if lanes == 1 else p.vector_type(value.dtype, lanes)


def _value(value: Expr, lanes: int, p: VectorPrinter) -> str:
    if lanes > 1:
        return bare(p.vector(value, lanes))
    return (
        p.index(simplify(value))
        if value.dtype is INDEX and not isinstance(value, Var)
        else bare(p.scalar(value))
    )
