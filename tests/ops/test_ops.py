"""Runs every row of every family at every level, and demands rows of every registered operator."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import zlib
from collections.abc import Callable
from typing import cast

import pytest

import ingot
import tests.ops
from ingot.frontends.onnx import read_model
from ingot.loops.evaluate import run as run_program
from ingot.loops.interpret import interpret
from ingot.loops.lower import lower
from ingot.loops.region import formulate_graph
from ingot.loops.region_passes.fuse import fuse
from ingot.loops.region_passes.layout_assignment import assign_layouts
from ingot.loops.verify import require_proved
from ingot.ops.infer import infer
from ingot.ops.registry import operators
from ingot.passes.prune import prune
from ingot.targets.records import find
from tests.ops.batch import Batch
from tests.ops.rows import Row, check, expected, feeds, given, model
from tests.probes import test_sequences, test_turns
from tests.test_maps import COVERED

FAMILIES = [
    m.name
    for m in pkgutil.iter_modules(tests.ops.__path__)
    if not m.name.startswith(("test_", "rows", "batch"))
]
BATCH, SHIPPED = 40, 16
TARGETS = ("c99", "x86-64", "x86-64-v3", "aarch64")  # one for each row: all see rows of every family
ROWS: list[Row] = [r for f in FAMILIES for r in importlib.import_module(f"tests.ops.{f}").ROWS]


@pytest.fixture(scope="session")
def batch_of(request: pytest.FixtureRequest) -> Callable[[Row], Batch]:
    """batch_of(row): the compiled batch that a row is in, of the rows that this run asks for."""
    tests = [i for i in request.session.items if isinstance(i, pytest.Function)]
    wanted = [cast(Row, i.callspec.params["row"]) for i in tests if i.originalname == "test_row"]
    batches = [wanted[i : i + BATCH] for i in range(0, len(wanted), BATCH)]
    number = {row: n for n, rows in enumerate(batches) for row in rows}
    compiled = functools.lru_cache(maxsize=2)(lambda n: Batch(batches[n]))
    return lambda row: compiled(number[row])


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.id)
def test_row(row: Row, batch_of: Callable[[Row], Batch]) -> None:
    """Formula, loops and C each agree with the oracle; the failing level is named."""
    proto = model(row)
    wanted = expected(row, proto)
    graph = prune(infer(read_model(proto)))
    check(interpret(formulate_graph(graph), feeds(row)), wanted, row.tolerance, "formula")
    target = TARGETS[zlib.crc32(row.id.encode()) % len(TARGETS)]
    region = fuse(formulate_graph(graph))
    program = lower(region, assign_layouts(region, find(target)), "row", find(target))
    require_proved(program)
    check(run_program(program, feeds(row)), wanted, row.tolerance, f"loops for {target}")
    batch = batch_of(row)
    try:
        for outputs in batch.run(row):
            check(outputs, wanted, row.tolerance, "C")
    except AssertionError:  # C is right if it agrees with its own loops
        check(run_program(batch.stages(row).program, feeds(row)), wanted, row.tolerance, "loops of the C")
        raise


@pytest.mark.parametrize("row", ROWS[::SHIPPED], ids=lambda r: r.id)
def test_shipped_row(row: Row) -> None:
    """What one in SHIPPED rows says of the C of a batch holds for the object of a bundle."""
    proto = model(row)
    outputs = ingot.compile(proto, target="c99", name="row").run(given(row))
    check(list(outputs.values()), expected(row, proto), row.tolerance, "the shipped object")


def test_every_operator_has_rows() -> None:
    """The registry cannot hold an operator that no row exercises."""
    missing = {(o.domain, o.name) for o in operators()} - {(r.domain, r.op) for r in ROWS}
    missing -= test_sequences.covered({**test_sequences.CASES, **test_turns.CASES}) | COVERED
    assert not missing, f"operators without rows: {sorted(missing)}"
