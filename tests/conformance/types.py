"""Which element types an operator's definition takes: one model per operator, tried with every type.

In: an operator of the registry, or one with a function body. Out: the types that ONNX's schema and Ingot
agree on for its first input. Called by `runner`, for docs/operators.md.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import pkgutil
from collections.abc import Iterator, Sequence

import onnx
from onnx import TensorProto, helper, numpy_helper

import tests.ops
from ingot.errors import IngotError
from ingot.frontends.onnx import read_model
from ingot.inspection.operators import Supported
from ingot.ops.infer import infer
from tests.ops import rows

from .cases import Case

FAMILIES = (
    ("float{}", (16, 32, 64)),
    ("int{}", (8, 16, 32, 64)),
    ("uint{}", (8, 16, 32, 64)),
)
TRIES = 12  # samples of an operator, until one takes a type


def accepted(operator: Supported, cases: Sequence[Case]) -> str:
    """The types as the document lists them; empty where the first input is no tensor, or there is none."""
    schema, samples = _schema(operator), list(itertools.islice(_samples(operator, cases), TRIES))
    if schema is None:
        found = {_name(i.type.tensor_type.elem_type) for m in samples for i in m.graph.input[:1]}
        return _listed(sorted(found))
    wanted = _types(schema) if samples else []
    taken = [t for t in wanted if any(_is_taken(_retyped(m, schema, t)) for m in samples)]
    rest = [_name(t) for t in wanted if t not in taken]
    return _listed(map(_name, taken)) + (f"; not {_listed(rest)}" if rest else "")


def _schema(operator: Supported) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(operator.name, operator.domain)
    except onnx.defs.SchemaError:
        return None


def _types(schema: onnx.defs.OpSchema) -> list[int]:
    """What the standard allows for the first input."""
    named = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    first = schema.inputs[0].type_str if schema.inputs else ""
    words = [w[7:-1] for w in named.get(first, [first]) if w.startswith("tensor(")]
    return [int(TensorProto.DataType.Value(w.upper())) for w in words if "complex" not in w]


def _samples(operator: Supported, cases: Sequence[Case]) -> Iterator[onnx.ModelProto]:
    """Models of one node: the operator's rows, else its cases in onnx's backend tests."""
    for row in _rows().get((operator.domain, operator.name), ()):
        yield rows.model(row)
    for model in (c.test.model for c in cases if c.kind == "node" and c.operator == operator.name):
        if model is not None and [n.op_type for n in model.graph.node] == [operator.name]:
            yield model


@functools.cache
def _rows() -> dict[tuple[str, str], list[rows.Row]]:
    found: dict[tuple[str, str], list[rows.Row]] = {}
    for module in pkgutil.iter_modules(tests.ops.__path__):
        for row in getattr(importlib.import_module(f"tests.ops.{module.name}"), "ROWS", ()):
            if not module.name.startswith("test_"):
                found.setdefault((row.domain, row.op), []).append(row)
    return found


def _retyped(model: onnx.ModelProto, schema: onnx.defs.OpSchema, to: int) -> onnx.ModelProto:
    """The model with its first input, and all inputs of the same type parameter, of another type."""
    made, node = onnx.ModelProto(), model.graph.node[0]
    made.CopyFrom(model)
    formals = [schema.inputs[min(i, len(schema.inputs) - 1)].type_str for i in range(len(node.input))]
    names = {n for n, formal in zip(node.input, formals, strict=True) if formal == schema.inputs[0].type_str}
    for info in made.graph.input:
        if info.name in names and info.type.HasField("tensor_type"):
            info.type.tensor_type.elem_type = to
    for t in made.graph.initializer:
        if t.name in names:
            array = numpy_helper.to_array(t).astype(helper.tensor_dtype_to_np_dtype(to))
            t.CopyFrom(numpy_helper.from_array(array, t.name))
    for info in made.graph.output:
        info.ClearField("type")
    del made.graph.value_info[:]
    return made


def _is_taken(model: onnx.ModelProto) -> bool:
    try:
        infer(read_model(model))
    except IngotError:
        return False
    return True


def _name(number: int) -> str:
    name = str(TensorProto.DataType.Name(number)).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def _listed(names: Sequence[str] | Iterator[str]) -> str:
    """Types of one kind are one word: int8-64."""
    left = list(names)
    out: list[str] = []
    for pattern, sizes in FAMILIES:
        family = [pattern.format(n) for n in sizes]
        if set(family) <= set(left):
            out.append(pattern.format(f"{sizes[0]}-{sizes[-1]}"))
            left = [n for n in left if n not in family]
    narrow = [n for n in left if n.startswith("float8e") and n != "float8e8m0"]
    if len(narrow) == 4:
        out.append("float8")
        left = [n for n in left if n not in narrow]
    return ", ".join([*out, *sorted(left)])
