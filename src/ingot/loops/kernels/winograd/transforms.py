"""A tile's transforms as statements: Cook-Toom's straight lines on named vector registers.

In: lines and the registers or loads they start from. Out: statements and what they made. Called by the
generator.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.formula.expr import Const, Expr, Load, Var
from ingot.formula.statements import Let, Madd, Statement
from ingot.formula.types import FLOAT32
from ingot.loops.kernels.winograd.cook_toom import Line, in_order


def along(
    axis: int, lines: tuple[Line, ...], values: dict[tuple[int, ...], Expr], lanes: int, prefix: str
) -> tuple[list[Statement], dict[tuple[int, ...], Expr]]:
    """The transform along one axis of the tile, everything in named registers; what it makes."""
    statements: list[Statement] = []
    made: dict[tuple[int, ...], Expr] = {}
    rows = sorted({at[:axis] + at[axis + 1 :] for at in values})
    for row in rows:
        known: dict[str, Expr] = {
            f"x{at[axis]}": value for at, value in values.items() if at[:axis] + at[axis + 1 :] == row
        }
        suffix = "".join(f"_{i}" for i in row)
        for name, value in list(known.items()):
            if isinstance(value, Load):
                statements.append(Let(f"{prefix}{name}{suffix}", value, lanes))
                known[name] = register(f"{prefix}{name}{suffix}")
        for line in lines:
            name = f"{prefix}{line.name}{suffix}"
            statements += _sum(name, line, known, lanes)
            known[line.name] = register(name)
            if line.name.startswith("y"):
                at = (*row[:axis], int(line.name[1:]), *row[axis:])
                made[at] = known[line.name]
    return statements, made


def _sum(name: str, line: Line, known: dict[str, Expr], lanes: int) -> Iterator[Statement]:
    """name = the sum of a line's terms, multiply-adds where there is a factor."""
    (c, x), *rest = in_order(line.terms)
    units = [(c, x) for c, x in rest if abs(c) == 1]
    others = [(c, x) for c, x in rest if abs(c) != 1]
    value: Expr = known[x]
    if abs(c) != 1:
        value = value * Const(float(c), FLOAT32)
    elif c == -1:
        value = -value
    for c, x in units:
        value = value + known[x] if c == 1 else value - known[x]
    yield Let(name, value, lanes, mutable=bool(others))
    for c, x in others:
        yield Madd(name, known[x], Const(float(c), FLOAT32), lanes)


def register(name: str) -> Var:
    return Var(name, None, FLOAT32)
