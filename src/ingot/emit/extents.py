"""How much arena a run needs whose extents the caller gives: NAME_arena_size.

In: a `Unit` and the units whose arenas the caller's is for (the variants of a bundle, or itself). Out: C.
Offsets are those of the largest extents, so what a smaller run needs ends where its last tensor does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ingot.emit.expression import Printer
from ingot.emit.statement import INDENT
from ingot.emit.unit import Unit
from ingot.formula.expr import Binary, Expr, Param, Tensor, measures, transform, walk
from ingot.formula.index import as_expr, product, simplify
from ingot.memory.tree import arena_bytes


def prototype(unit: Unit) -> str:
    extents = ", ".join(f"int {unit.extent(p)}" for p in unit.program.params)
    return f"int64_t {unit.name}_arena_size({extents})"


def bounds_checks(unit: Unit) -> Iterator[str]:
    """Extents outside the bounds they were compiled for end a function here."""
    for p in unit.program.params:
        n = unit.extent(p)
        yield f"if ({n} < {p.lo} || {n} > {p.hi}) return {unit.upper}_ERR_CAPACITY;"


def size_lines(unit: Unit, units: Sequence[Unit]) -> Iterator[str]:
    """The definition of NAME_arena_size."""
    printer = Printer(
        unit.target, unit.argument, set(), params={p.name: unit.extent(p) for p in unit.program.params}
    )
    ends: dict[Expr, int] = {}  # elements times bytes: the farthest offset of such a tensor
    least = 0
    for u in units:
        for t, at in u.plan.offsets.items():
            size = _bytes(t)
            if isinstance(size, int):
                least = max(least, at + size)
            else:
                ends[size] = max(ends.get(size, 0), at)
    yield prototype(unit) + " {"
    yield f"{INDENT}int64_t size = {least};"
    yield from (INDENT + line for line in bounds_checks(unit))
    for size, at in ends.items():
        end = f"{f'{at} + ' if at else ''}(int64_t)({printer.index(size)})"
        yield f"{INDENT}if (size < {end}) size = {end};"
    yield f"{INDENT}return (size + 63) / 64 * 64;"
    yield "}"


def _rises(e: Expr) -> bool:
    """Whether an extent never falls where those that are data grow: it is largest at their largest."""
    match e:
        case Binary("add" | "mul" | "max" | "min", a, b):
            return _rises(a) and _rises(b)
        case Binary("sub" | "floordiv", a, b):
            return _rises(a) and not any(measures(b))
    return isinstance(e, Param) or not any(measures(e))


def _bytes(t: Tensor) -> Expr | int:
    """What a tensor takes of the arena, as far as the caller's extents tell."""
    if all(isinstance(n, int) for n in t.spans):
        return arena_bytes(t)

    if not all(_rises(as_expr(n)) for n in t.spans):
        return arena_bytes(t)

    def largest(e: Expr) -> Expr | None:
        return as_expr(e.hi) if isinstance(e, Param) and e.source is not None else None

    size = simplify(transform(product(t.spans), largest) * t.type.bytes)
    return size if any(isinstance(n, Param) for n in walk(size)) else arena_bytes(t)
