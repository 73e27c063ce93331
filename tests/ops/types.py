"""Rows of every operator on every element type that its schema allows: the others' rows in other types.

In: the rows of the other families and the schemas of the installed onnx. Out: for each operator and each type
of each type parameter of its inputs one row, the first of the operator's that the latest opset takes. The
values are those of the row, brought into the range of the type.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx

import tests.ops
from ingot.errors import IngotError
from ingot.formula.types import DTYPES, DType
from ingot.frontends.onnx import read_model
from ingot.ops.infer import infer
from tests.ops.rows import Array, Row, model

LATEST = onnx.defs.onnx_opset_version()
HERE = __name__.rpartition(".")[2]
NAMES = {"float": "float32", "double": "float64"}
RANDOM = ("Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike")
ELSEWHERE = {
    **dict.fromkeys(RANDOM, "no oracle draws the same numbers; random.py has the types"),
    **dict.fromkeys(("Cast", "CastLike", "BitCast"), "narrow.py has all pairs"),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear", "QLinearMatMul"), "quantize.py has them"),
    "GridSample": "between integers the reference rounds after each axis; vision.py has the floats",
    "Sign float16": "onnxruntime has no NaN there; compare.py and elementwise.py do",
    "Scan": "its graphs say of what types they are",
    "Pow": "the row overflows integers; elementwise.py has the types",
}
LOOSE = {"float16": 5e-3, "bfloat16": 4e-2}
MOST = 100
"""The largest number that a row keeps: int8 holds sums of a few such."""


def families() -> list[Row]:
    """The rows of the families beside this one, of ai.onnx."""
    names = [m.name for m in pkgutil.iter_modules(tests.ops.__path__)]
    wanted = [n for n in names if n != HERE and not n.startswith(("test_", "rows", "batch"))]
    found = (r for n in wanted for r in importlib.import_module(f"tests.ops.{n}").ROWS)
    return [r for r in found if r.domain == "" and r.op not in ELSEWHERE and not r.declared]


def base_rows() -> Iterator[tuple[Row, onnx.defs.OpSchema]]:
    """One row of each operator that the latest opset takes."""
    done: set[str] = set()
    for row in sorted(families(), key=lambda r: -r.opset):
        if row.op in done or not onnx.defs.has(row.op, LATEST):
            continue
        if onnx.defs.get_schema(row.op, LATEST).deprecated:
            continue
        latest = replace(row, opset=LATEST)
        try:
            infer(read_model(model(latest)))
        except (IngotError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
            continue
        done.add(row.op)
        yield latest, onnx.defs.get_schema(row.op, LATEST)


def retyped(a: Array, to: DType) -> Array:
    """The values in another type, within its range."""
    if a.dtype.kind in "bSUO" or to.kind == "b":
        return (a.astype(bool) if a.dtype.kind not in "SUO" else np.ones(a.shape, bool)).astype(to.numpy)
    if a.dtype.kind in "iu" and to.is_integer:
        return np.clip(a, to.lowest, to.highest).astype(to.numpy)
    wide = a.astype(np.float64)
    if to.is_integer:
        wide = np.clip(
            np.nan_to_num(wide, posinf=MOST, neginf=-MOST), max(to.lowest, -MOST), min(to.highest, MOST)
        )
    narrow = wide.astype(np.int32 if to.is_integer else np.float32) if to.is_narrow else wide
    return narrow.astype(to.numpy)


def variants(row: Row, schema: onnx.defs.OpSchema) -> Iterator[Row]:
    """The row in every other type of every type parameter."""
    formal = [schema.inputs[min(i, len(schema.inputs) - 1)].type_str for i in range(len(row.inputs))]
    for constraint in schema.type_constraints:
        at = [i for i, a in enumerate(row.inputs) if a is not None and formal[i] == constraint.type_param_str]
        for text in constraint.allowed_type_strs if at else ():
            inside = text.removeprefix("tensor(").removesuffix(")")
            to = DTYPES.get(NAMES.get(inside, inside))
            if to is None or row.inputs[at[0]].dtype == to.numpy or f"{row.op} {to}" in ELSEWHERE:  # type: ignore[union-attr]
                continue
            inputs = [retyped(a, to) if i in at and a is not None else a for i, a in enumerate(row.inputs)]
            yield replace(
                row, inputs=inputs, oracle="any", tolerance=LOOSE.get(to.name, max(row.tolerance, 1e-5)),
                note=f"{constraint.type_param_str} {to}",
            )  # fmt: skip


ROWS = [variant for row, schema in base_rows() for variant in variants(row, schema)]
