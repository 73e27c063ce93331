"""Recipes for the whole registry: a row of an operator's tests, with other values where they may be others.

In: the rows of `tests/ops`. Out: candidates. What recipes of their own leave out is grown from here: whatever
has a definition has rows.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping

import numpy as np
import onnx

import tests.ops
from tests.corpus.net import Array
from tests.fuzz.grow import DOMAINS, Candidate, Garden, Known, Refused
from tests.ops.rows import Row

ERROR = 1e-6  # of what is near one: what rows allow is relative to the largest element


def from_row(g: Garden) -> Candidate:
    """A row of some operator, at the garden's opset if the operator means the same there."""
    operator = g.choice(sorted(_rows()))
    row = g.choice(_rows()[operator])
    if not _means_the_same(row, g.opset if row.domain == "" else DOMAINS[row.domain]):
        raise Refused
    inputs = [None if a is None else _input(g, a, i in row.constant) for i, a in enumerate(row.inputs)]
    outputs = row.outputs if isinstance(row.outputs, int) else len(row.outputs)
    exact = row.tolerance == 0
    return Candidate(row.op, inputs, row.attributes, outputs, is_exact=exact, error=ERROR, domain=row.domain)


@functools.cache
def _rows() -> Mapping[tuple[str, str], list[Row]]:
    """The rows that onnxruntime judges, by domain and operator."""
    found: dict[tuple[str, str], list[Row]] = {}
    for module in pkgutil.iter_modules(tests.ops.__path__):
        if module.name.startswith(("test_", "rows", "batch")):
            continue
        for row in importlib.import_module(f"tests.ops.{module.name}").ROWS:
            plain = all(a is None or a.dtype.kind in "fiub" for a in row.inputs) and not row.declared
            if plain and row.oracle == "ort" and row.domain in ("", *DOMAINS):
                found.setdefault((row.domain, row.op), []).append(row)
    return found


def _means_the_same(row: Row, opset: int) -> bool:
    if row.domain == "com.microsoft":
        return True
    try:
        there, here = (onnx.defs.get_schema(row.op, v, row.domain) for v in (row.opset, opset))
    except onnx.defs.SchemaError:
        return False
    return bool(there.since_version == here.since_version) and not here.deprecated


def _input(g: Garden, a: Array, is_constant: bool) -> Known:
    """The row's own elements, random ones of its type, or a value of the model of its type and shape."""
    if is_constant:
        return g.constant(a)
    alike = [v for v in g.values.values() if v.array.dtype == a.dtype and v.shape == a.shape]
    if alike and a.dtype.kind == "f" and g.chance(0.7):
        return g.choice(alike)  # type: ignore[no-any-return]
    if a.dtype.kind == "f" and g.chance(0.5) and bool(np.isfinite(a).all()):
        return g.input(str(a.dtype), a.shape)
    return g.given(a)
