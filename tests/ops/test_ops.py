"""Runs every row of every family at every level, and demands rows of every registered operator."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import ingot
import tests.ops
from ingot.frontends.onnx import read_model
from ingot.loops.assign import assign_layouts
from ingot.loops.evaluate import run as run_program
from ingot.loops.fuse import fuse
from ingot.loops.interpret import interpret
from ingot.loops.lower import lower
from ingot.loops.region import formulate_graph
from ingot.loops.verify import require_proved
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
    check(interpret(formulate_graph(graph), feeds(row)), wanted, row.tolerance, "formula")
    for target in ("c99", "x86-64-v3"):
        region = fuse(formulate_graph(graph))
        program = lower(region, assign_layouts(region), "row", find(target))
        require_proved(program)
        check(run_program(program, feeds(row)), wanted, row.tolerance, f"loops for {target}")
    outputs = ingot.compile(proto, target="c99", name="row").run(feeds(row))
    check([outputs[n] for n in names], wanted, row.tolerance, "C")


def test_every_operator_has_rows() -> None:
    """The registry cannot hold an operator that no row exercises."""
    missing = {(o.domain, o.name) for o in operators()} - {(r.domain, r.op) for r in ROWS}
    assert not missing, f"operators without rows: {sorted(missing)}"
