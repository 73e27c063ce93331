"""Horizontal reductions: what the lanes of a vector add up to, or the largest of its elements.

In: one, two, four or more vectors of as many lanes at least. Out: statements, and a vector with the result of
each, a number if there is one. Two vectors become one while there are several, the halves of their parts side
by side; then the vector is halved. Four sums of sixteen lanes take 10 shuffles so; one by one they take 24.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from ingot.formula.expr import Binary, Expr, Lane, Shuffle, Var
from ingot.formula.statements import Let, Statement


def reduce_lanes(vectors: Sequence[Var], lanes: int, op: str, name: str) -> Generator[Statement, None, Expr]:
    """Statements, in registers called `name`_..; returns the last result, which the caller names."""
    dtype, part, count, width = vectors[0].dtype, lanes, len(vectors), lanes
    while len(vectors) > 1:
        made = []
        for n, (a, b) in enumerate(zip(vectors[::2], vectors[1::2], strict=True)):
            made.append(Var(f"{name}_{part}_{n}", None, dtype))
            yield Let(made[-1].name, _halves(a, b, 2 * lanes, part, op), lanes)
        vectors, part = made, part // 2
    total: Expr = vectors[0]
    while width > count:
        if not isinstance(total, Var):
            yield Let(f"{name}_{width}", total, width)
            total = Var(f"{name}_{width}", None, dtype)
        width //= 2
        total = _halves(total, total, 2 * width, part, op) if width > 1 else _pair(total, op)
        part //= 2
    return total


def _halves(a: Var, b: Var, lanes: int, part: int, op: str) -> Expr:
    """Of `lanes` lanes in parts the lower half of each and the upper half, combined."""
    low = [at + k for at in range(0, lanes, part) for k in range(part // 2)]
    high = [k + part // 2 for k in low]
    return Binary(op, Shuffle(a, b, tuple(low)), Shuffle(a, b, tuple(high)))


def _pair(v: Var, op: str) -> Expr:
    return Binary(op, Lane(v, 0), Lane(v, 1))
