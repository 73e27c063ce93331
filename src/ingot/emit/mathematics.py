"""Functions of the math library as C, scalar or vector, printed from their one definition."""

from __future__ import annotations

from dataclasses import replace

from ingot.emit.expression import bare, helper_name
from ingot.emit.statement import INDENT, lines
from ingot.emit.vector import VectorPrinter, mask_type
from ingot.formula.statements import Assign, For, Let, Statement
from ingot.formula.types import DTYPES, FLOAT32, DType
from ingot.loops.math import Function, function
from ingot.loops.soft_floats import SoftFloats
from ingot.targets.record import Target

Key = tuple[str, ...]
INSTRUCTIONS = ("sqrt", "round", "trunc", "madd", "scalef")
TABLES = {8: "pick8", 16: "pick16"}  # look-ups, where the table fills one register: by lanes


def function_text(key: Key, target: Target, used: set[Key]) -> str:
    """The static function that `key` = (op, dtype[, lanes]) names; one seldom called is not inline."""
    op, dtype, *rest = key
    lanes = int(rest[0]) if rest else 1
    f = _definition(op, DTYPES[dtype], target, lanes)
    p = VectorPrinter(target, lambda t: t.name)
    for v in f.parameters:
        p.registers[v.name] = (lanes, v.dtype)
    c = DTYPES[dtype].c if lanes == 1 else p.vector_type(DTYPES[dtype], lanes)
    rows = [*lines(_widened(f.body, lanes), p, {}), *_result(f, lanes, p)]
    parameters = ", ".join(f"{c} {v.name}" for v in f.parameters)
    used |= p.used
    kind = "__attribute__((__noinline__))" if op.endswith("_far") else "inline"
    head = f"static {kind} {c} {helper_name(*key)}({parameters}) {{"
    return "\n".join([head, *(INDENT + row for row in rows), "}"])


def _definition(op: str, dtype: DType, target: Target, lanes: int) -> Function:
    """The function, or for `soft_exp` and its kind the one on the bits of floats."""
    name = op.removeprefix("soft_")
    if name == op:
        return function(op, dtype, native_operations(target, dtype, lanes))
    of_floats, soft = function(name, FLOAT32), SoftFloats()
    parameters = tuple(replace(p, type=dtype) for p in of_floats.parameters)
    body, result = soft.statements(of_floats.body), soft.expression(of_floats.result)
    return replace(of_floats, name=op, parameters=parameters, body=body, result=result)


def _widened(body: tuple[Statement, ...], lanes: int) -> tuple[Statement, ...]:
    """The statements on vectors."""

    def wide(s: Statement) -> Statement:
        if isinstance(s, For):
            return replace(s, body=_widened(s.body, lanes))
        assert isinstance(s, Let | Assign), f"no math function has {s!r}"
        return replace(s, lanes=lanes)

    return tuple(map(wide, body))


def _result(f: Function, lanes: int, p: VectorPrinter) -> list[str]:
    """The return; before it, where the function has one, that of the lanes that are left to another."""
    dtype = f.parameters[0].dtype
    result = p.scalar(f.result) if lanes == 1 else p.vector(f.result, lanes)
    plain = f"return {bare(result)};"
    if f.far is None:
        return [plain]
    types = (dtype.name,) if lanes == 1 else (dtype.name, str(lanes))
    far = p.call(f"{f.name}_far", types, *(v.name for v in f.parameters))
    if lanes == 1:
        return [f"if (__builtin_expect({bare(p.scalar(f.far))}, 0)) return {far};", plain]
    mask, near = (p.vector_type(t, lanes) for t in (mask_type(dtype), dtype))
    both = bare(p.blend("far", far, "near", dtype, lanes))
    return [
        f"const {near} near = {bare(result)};",
        f"const {mask} far = {bare(p.mask(f.far, lanes))};",
        f"if (__builtin_expect({p.any('far', dtype, lanes)}, 0)) return {both};",
        "return near;",
    ]


def native_operations(target: Target, dtype: DType, lanes: int) -> frozenset[str]:
    """What the target has an instruction for: it is not written out."""
    width = lanes * dtype.bytes if lanes > 1 else 0
    found = (*INSTRUCTIONS, *(op for n, op in TABLES.items() if n == lanes))
    return frozenset(op for op in found if target.spelling(op, dtype.name, width))
