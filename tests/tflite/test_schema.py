"""The table of TFLite's fields beside the readers that the FlatBuffers compiler generated for litert."""

from __future__ import annotations

import inspect
import re
from ast import literal_eval
from typing import Any

import pytest

from ingot.frontends.tflite.flatbuffer import Field
from ingot.frontends.tflite.schema import OPERATORS, OPTIONS, TABLES, TYPES

schema: Any = pytest.importorskip("ai_edge_litert.schema_py_generated")

FIRST, SLOT = 4, 2
"""A vtable's slots come after its two sizes, and take two bytes each."""
DEPRECATED = {"new_height", "new_width", "deprecated_tag"}
"""Slots that the format keeps for old files; the generator makes no readers for them."""


def camel(name: str) -> str:
    """What the generator calls a field: quantized_bias_type is QuantizedBiasType."""
    return re.sub("(^|_)([a-z0-9])", lambda m: m[2].upper(), name)


def reader(table: str, field: Field) -> str:
    return inspect.getsource(getattr(getattr(schema, table), camel(field.name)))


def read() -> list[tuple[str, Field]]:
    named = ((table, f) for table, fields in TABLES.items() for f in fields.values())
    return [(table, f) for table, f in named if f.kind != "-" and f.name not in DEPRECATED]


def test_every_field_is_in_its_slot() -> None:
    for table, f in read():
        assert f"self._tab.Offset({FIRST + SLOT * f.slot})" in reader(table, f), (table, f.name)


def test_every_default_is_the_schemas() -> None:
    for table, f in read():
        last = reader(table, f).strip().splitlines()[-1]
        if "[" not in f.kind and f.kind not in ("table", "string"):
            assert float(literal_eval(last.removeprefix("        return "))) == f.default, (table, f.name)


def test_operators_options_and_types_have_their_numbers() -> None:
    def numbered(names: list[str], members: type) -> list[tuple[str, object]]:
        return [(n, getattr(members, n)) for n in names if hasattr(members, n)]

    assert numbered(OPERATORS, schema.BuiltinOperator) == [(n, i) for i, n in enumerate(OPERATORS)]
    assert numbered(OPTIONS[1:], schema.BuiltinOptions) == [(n, i + 1) for i, n in enumerate(OPTIONS[1:])]
    assert len(numbered(TYPES, schema.TensorType)) > 15
    for name, number in numbered(TYPES, schema.TensorType):
        assert TYPES.index(name) == number
