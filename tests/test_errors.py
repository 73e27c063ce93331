"""Data that a bundle must refuse when it runs: an index out of range gives ERR_INDEX, whatever it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot
from ingot.errors import InputError, ModelError
from ingot.formula.evaluate import IndexOutOfRange, run_stages
from ingot.frontends.onnx import read_model
from ingot.loops.region import formulate_graph, groups
from ingot.ops.infer import infer
from tests.ops.rows import Array, Row, feeds, floats, integers, model

FAR = np.iinfo(np.int64)
X = floats(3, 4)


def at(*values: Any, dtype: Any = np.int64) -> Array:
    return np.array(values, dtype)


def outside(i: int, dtype: Any = np.int64) -> list[Row]:
    """Index `i` into 3 elements, by each operator that takes indices as data."""
    one = at(i, dtype=dtype)
    return [
        Row("Gather", [X, one]),
        Row("GatherElements", [X, at([0, i, 0, 1], dtype=dtype)]),
        Row("ScatterElements", [X, at([0, i, 0, 1], dtype=dtype), floats(1, 4)]),
        Row("ScatterElements", [X, at([i, 1], dtype=dtype), floats(1, 2)], {"reduction": "add"}),
    ]


TUPLES = [
    Row("GatherND", [X, at([1, 3], [3, 0])]),
    Row("ScatterND", [X, at([-4]), floats(1, 4)]),
    Row("ScatterND", [X, at([FAR.max]), floats(1, 4)], {"reduction": "max"}),
    Row("ReverseSequence", [X, at(1, 4, 2, 1)]),
    Row("Slice", [X, at(1), at(9)], declared=[(3, 4)], note="declared_too_long"),
    Row("Slice", [X, at(0), at(9), at(0), at(FAR.max)], declared=[(2, 4)], note="huge_step"),
]
ROWS = [r for i in (3, -4, FAR.min, FAR.max) for r in outside(i)]
ROWS += [r for i in (3, -(1 << 31)) for r in outside(i, np.int32)] + TUPLES


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r.id}-{np.asarray(r.inputs[1]).reshape(-1)}")
def test_an_index_out_of_range_is_an_error(row: Row) -> None:
    """The bundle answers ERR_INDEX, or ERR_CAPACITY for a count; the formula evaluator raises."""
    proto = model(row)
    region = formulate_graph(infer(read_model(proto)))
    arrays = {t: feeds(row)[t.name] for t in region.inputs}
    with pytest.raises(IndexOutOfRange):
        for group in groups(region):
            run_stages(group.stages, arrays, {})
    bundle = ingot.compile(proto, target="c99", name="row")
    with pytest.raises(InputError, match="ERR_CAPACITY" if row.op == "Slice" else "ERR_INDEX"):
        bundle.run(feeds(row))


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND"])
def test_a_constant_index_out_of_range_is_a_bad_model(op: str) -> None:
    """What is known when compiling is refused when compiling."""
    row = Row(op, [integers(3, 4), at([7, 0])], constant=[1])
    with pytest.raises((ModelError, ingot.ShapeError), match="out of range"):
        ingot.compile(model(row), target="c99")
