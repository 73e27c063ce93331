"""Rewriting statements: substitution of loop variables by expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ingot.formula.expr import Expr, Load, substitute
from ingot.formula.index import Bounds, simplify
from ingot.formula.statements import (
    Assign,
    Check,
    For,
    Instruction,
    Let,
    Madd,
    Statement,
    Store,
    When,
)


def substituted(
    statements: tuple[Statement, ...], env: Mapping[str, Expr], bounds: Bounds
) -> tuple[Statement, ...]:
    """The statements with variables replaced, indices in normal form again."""
    return rewritten(statements, lambda e: simplify(substitute(e, env), bounds))


def rewritten(statements: tuple[Statement, ...], f: Callable[[Expr], Expr]) -> tuple[Statement, ...]:
    """The statements with `f` applied to every expression they hold."""
    return tuple(_one(s, f) for s in statements)


def _one(s: Statement, f: Callable[[Expr], Expr]) -> Statement:
    match s:
        case For(lo=lo, hi=hi, body=body):
            return replace(s, lo=f(lo), hi=f(hi), body=rewritten(body, f))
        case Let() | Assign():
            return replace(s, value=f(s.value))
        case Madd() | Instruction():
            return replace(s, a=f(s.a), b=f(s.b))
        case Store(to=to, value=value):
            at = f(to)
            assert isinstance(at, Load)
            return replace(s, to=at, value=f(value))
        case When(condition, body, other):
            return When(f(condition), rewritten(body, f), rewritten(other, f))
        case Check(condition, error):
            return Check(f(condition), error)
    return s
