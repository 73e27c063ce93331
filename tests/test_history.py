"""The registry against ONNX's own history: every version of every operator has a meaning, with its defaults.

What an attribute means may change between versions; that is for rows. What can be read off the schemas is
held here: no operator, input or attribute of any version is unknown, and what is left out means the same.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from onnx import defs, helper

from ingot.frontends.onnx.control import CONTROL
from ingot.frontends.onnx.sequences import SEQUENCES
from ingot.graph.ir import Node
from ingot.ops.refused import REFUSED
from ingot.ops.registry import Operator, find

IN_THE_READER = {*CONTROL, *SEQUENCES, "Constant", "Scan"}
SCHEMAS = [s for s in defs.get_all_schemas_with_history() if s.domain in ("", "ai.onnx.ml")]
MEANT_OTHERWISE = {
    ("BatchNormalization", "is_test"): "0 in models that were exported for inference: see its definition",
    ("Gemm", "broadcast"): "a model that broadcasts without saying so is taken",
    ("GRU", "direction"): "misspelled in the schema",
    ("GridSample", "mode"): "bilinear, later called linear",
    ("Clip", "min"): "the lowest float32, said in words",
    ("Clip", "max"): "the largest float32, said in words",
    ("Concat", "axis"): "1, said in words",
    ("Split", "axis"): "0, said in words",
    ("RNN", "activations"): "Tanh, for each direction",
}
"""Defaults that are not the schema's, and why. Absent lists and empty ones are the same."""


def ids(schema: defs.OpSchema) -> str:
    return f"{schema.domain}{schema.name}-{schema.since_version}"


def definition(schema: defs.OpSchema) -> Operator | None:
    return find(Node(schema.name, [], [], {}, "", schema.domain, schema.since_version))


DEFINED = [s for s in SCHEMAS if definition(s) is not None]


def test_no_version_is_without_meaning() -> None:
    """It has a definition or a function body, dissolves in the reader, or is refused with its reason."""
    open_ = [
        ids(s)
        for s in SCHEMAS
        if s.domain == ""
        and definition(s) is None
        and not (s.has_function or s.has_context_dependent_function)
        and s.name not in IN_THE_READER
        and (s.domain, s.name) not in REFUSED
    ]
    assert not open_, f"operators without meaning: {open_}"


@pytest.mark.parametrize("schema", DEFINED, ids=ids)
def test_inputs_and_attributes_are_known(schema: defs.OpSchema) -> None:
    found = definition(schema)
    assert found is not None
    unknown = set(schema.attributes) - found.attributes - {"consumed_inputs"}
    assert not unknown, f"attributes {unknown} are unknown to the definition since {found.since}"
    assert found.variadic or schema.max_input <= len(found.inputs), f"{schema.max_input} inputs"


@pytest.mark.parametrize("schema", DEFINED, ids=ids)
def test_defaults_are_those_of_the_schema(schema: defs.OpSchema) -> None:
    found = definition(schema)
    assert found is not None
    ours = inspect.signature(found.define).parameters
    for name, attribute in schema.attributes.items():
        if name in ours and not attribute.required and (schema.name, name) not in MEANT_OTHERWISE:
            said = attribute.default_value
            default = helper.get_attribute_value(said) if said.name else None
            mine = ours[name].default
            assert default is None or same(mine, default), f"{name} is {mine} instead of {default}"


def same(mine: Any, default: Any) -> bool:
    if isinstance(default, bytes):
        return bool(mine == default.decode())
    if isinstance(default, float):
        return bool(abs(mine - default) <= 1e-7 * abs(default))
    return bool(tuple(mine) == tuple(default) if isinstance(default, list) else mine == default)
