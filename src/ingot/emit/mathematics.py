"""Functions of the math library as C, scalar or vector, printed from their one definition."""

from __future__ import annotations

from ingot.emit.expression import bare, helper_name
from ingot.emit.vector import VectorPrinter
from ingot.formula.types import DTYPES, DType
from ingot.loops.math import function
from ingot.targets.record import Target

Key = tuple[str, ...]
INSTRUCTIONS = ("sqrt", "round", "madd", "scalef")


def function_text(key: Key, target: Target, used: set[Key]) -> str:
    """The static inline function that `key` = (op, dtype[, lanes]) names."""
    op, dtype, *rest = key
    lanes = int(rest[0]) if rest else 1
    f = function(op, DTYPES[dtype], _native(target, DTYPES[dtype], lanes))
    p = VectorPrinter(target, lambda t: t.name)
    for v in f.parameters:
        p.registers[v.name] = (lanes, v.dtype)
    c = DTYPES[dtype].c if lanes == 1 else p.vector_type(DTYPES[dtype], lanes)
    rows = []
    for let in f.body:
        p.registers[let.name] = (lanes, let.value.dtype)
        kind = let.value.dtype.c if lanes == 1 else p.vector_type(let.value.dtype, lanes)
        value = p.scalar(let.value) if lanes == 1 else p.vector(let.value, lanes)
        rows.append(f"    const {kind} {let.name} = {bare(value)};")
    result = bare(p.scalar(f.result) if lanes == 1 else p.vector(f.result, lanes))
    parameters = ", ".join(f"{c} {v.name}" for v in f.parameters)
    used |= p.used
    head = f"static inline {c} {helper_name(*key)}({parameters}) {{"
    return "\n".join([head, *rows, f"    return {result};", "}"])


def _native(target: Target, dtype: DType, lanes: int) -> frozenset[str]:
    """What the target has an instruction for: it is not written out."""
    width = lanes * dtype.bytes if lanes > 1 else 0
    return frozenset(op for op in INSTRUCTIONS if target.spelling(op, dtype.name, width))
