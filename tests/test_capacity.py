"""`--capacity`: how it is written, which values it reaches, and what a wrong one is told."""

from __future__ import annotations

import re

import onnx
import pytest
from onnx import parser

from ingot.cli.arguments import parse_capacity
from ingot.errors import InputError
from ingot.frontends.onnx import read_model
from ingot.graph.ir import Graph, Value
from ingot.options import Capacity

MODEL = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
g (float[4] x, bool c) => (int64[1,n] found, float[4] y, int64[1,n] mine)
{
  double = Add(x, x)
  found = NonZero(double)
  mine = local.nonzero(x)
  y = If (c) <then_branch = t () => (a) { a = Abs(x) }, else_branch = e () => (b) { b = Neg(x) }>
}
<opset_import: ["" : 21], domain: "local">
nonzero (v) => (w) { inner = Abs(v) w = NonZero(inner) }
"""


def test_what_is_written() -> None:
    words = ["64", "y=8", "a=b=8x64", "z=0x1x2"]
    assert parse_capacity(words) == {"": 64, "y": 8, "a=b": (8, 64), "z": (0, 1, 2)}
    assert parse_capacity(None) == {}


@pytest.mark.parametrize("word", ["", "=", "=4", "y=", "y=-1", "y=4x", "y=x", "y=1e3", "four", "y=²"])
def test_what_cannot_be_meant(word: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"--capacity {word}: write")):
        parse_capacity([word])


def test_one_value_has_one_capacity() -> None:
    with pytest.raises(InputError, match="--capacity y is given twice"):
        parse_capacity(["y=1", "y=2"])
    with pytest.raises(InputError, match="--capacity for all values is given twice"):
        parse_capacity(["1", "2"])


def test_values_of_graph_functions_and_branches() -> None:
    """A name reaches its value wherever the model has it; the capacity without a name reaches the rest."""
    given: dict[str, Capacity] = {"": 9, "found": (1, 3), "mine": 5, "mine/inner": 4, "a": 2, "x": 7}
    found = {v.name: v.capacity for v in _everything(_read(given))}
    assert found == {
        "x": 7, "c": 9, "double": 9, "found": (1, 3), "mine": 5, "mine/inner": 4, "y": 9, "a": 2, "b": 9
    }  # fmt: skip
    assert {v.capacity for v in _everything(_read({}))} == {None}


@pytest.mark.parametrize("capacity", [-1, 1 << 31, (), (4, -1)])
def test_bounds(capacity: Capacity) -> None:
    with pytest.raises(InputError, match="a capacity must be between 0 and 2147483647"):
        _read({"found": capacity})


def test_a_name_that_no_value_has() -> None:
    with pytest.raises(InputError, match=r"--capacity fuond: .* near ones: 'found'"):
        _read({"fuond": 4})
    with pytest.raises(InputError, match=r"--capacity zzz: .*'a', 'b'"):
        _read({"zzz": 4})


def _read(capacity: dict[str, Capacity]) -> Graph:
    model: onnx.ModelProto = parser.parse_model(MODEL)
    return read_model(model, capacity=capacity)


def _everything(graph: Graph) -> list[Value]:
    inner = (v for node in graph.nodes for sub in node.subgraphs.values() for v in _everything(sub))
    return [*graph.values(), *inner]
