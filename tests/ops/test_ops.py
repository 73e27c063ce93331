"""Runs every row of every family at every level, and demands rows of every registered operator."""

from __future__ import annotations

import importlib
import pkgutil

import pytest
from ingot.loops.evaluate import run as run_program

import ingot
import tests.ops
from ingot.formula.evaluate import run_stages
from ingot.frontends.onnx import read_model
from ingot.loops.layout import Layout
from ingot.loops.lower import lower
from ingot.loops.region import formulate_graph, groups
from ingot.ops.infer import infer
from ingot.ops.registry import operators
from ingot.passes.prune import prune
from ingot.targets.records import find
from tests.ops.rows import Row, check, expected, feeds, model

FAMILIES = [
    m.name for m in pkgutil.iter_modules(tests.ops.__path__) if not m.name.startswith(("test_", "rows"))
]
ROWS: list[Row] = [r for f in FAMILIES for r in importlib.import_module(f"tests.ops.{f}").ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.id)
def test_row(row: Row) -> None:
    """Formula, loops and C each agree with the oracle; the failing level is named."""
    proto = model(row)
    wanted = expected(row, proto)
    graph = prune(infer(read_model(proto)))
    names = [v.name for v in graph.outputs]
    constants = {v.name: v.constant for v in graph.outputs if v.constant is not None}
    region = formulate_graph(graph)
    arrays = {t: feeds(row)[t.name] for t in region.inputs}

    for group in groups(region):
        run_stages(group.stages, arrays, {})
    found = [
        constants[n] if n in constants else arrays[t] for n, t in zip(names, region.outputs, strict=True)
    ]
    check(found, wanted, row.tolerance, "formula")
    layouts: dict[object, Layout] = {}
    program = lower(region, layouts, "row", find("c99"))  # type: ignore[arg-type]
    check(run_program(program, feeds(row)), wanted, row.tolerance, "loops")
    outputs = ingot.compile(proto, target="c99", name="row").run(feeds(row))
    check([outputs[n] for n in names], wanted, row.tolerance, "C")


def test_every_operator_has_rows() -> None:
    """The registry cannot hold an operator that no row exercises."""
    missing = {(o.domain, o.name) for o in operators()} - {(r.domain, r.op) for r in ROWS}
    assert not missing, f"operators without rows: {sorted(missing)}"
