"""ONNX attributes as Python values. In: an AttributeProto, not a graph; out: what `Node.attributes` holds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx

from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.formula.expr import Array
from ingot.formula.strings import encoded
from ingot.formula.types import STRING, DType
from ingot.frontends.onnx.glow import is_placement
from ingot.frontends.onnx.tensors import Home, array_of, dense
from ingot.graph.ir import Attribute, Node

_ABOUT = frozenset({"name", "type", "doc_string", "ref_attr_name"})
_HELD = {
    "FLOAT": "f",
    "INT": "i",
    "STRING": "s",
    "TENSOR": "t",
    "SPARSE_TENSOR": "sparse_tensor",
    "FLOATS": "floats",
    "INTS": "ints",
    "STRINGS": "strings",
}
"""Where an attribute of each type holds what it is."""
_ARRAYS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def kind_of(a: onnx.AttributeProto) -> str:
    """The type that an attribute says it has."""
    return str(onnx.AttributeProto.AttributeType.Name(a.type)) if a.type else "UNDEFINED"


@cache
def kinds_of(domain: str, op: str, version: int) -> Mapping[str, str]:
    """The types that ONNX's own operators want their attributes to have, by name; of others nothing."""
    try:
        schema = onnx.defs.get_schema(op, version, domain)
    except onnx.defs.SchemaError:
        return {}
    return {name: str(a.type).rpartition(".")[2] for name, a in schema.attributes.items()}


def require_known(node: Node, proto: onnx.NodeProto) -> None:
    """Raise UnsupportedError for an attribute that the operator has in no version of ONNX."""
    known = {
        **kinds_of(node.domain, node.op, node.version),
        **kinds_of(node.domain, node.op, onnx.defs.onnx_opset_version()),
    }
    if unknown := sorted({a.name for a in proto.attribute if not is_placement(a.name)} - known.keys()):
        raise UnsupportedError(f"{node.label}: attribute {', '.join(unknown)} is not supported")


def attribute_of(a: onnx.AttributeProto, home: Home, what: str, text: DType = STRING) -> Attribute:
    """The value, by the attribute's type; text that is not UTF-8 stays bytes. `what` names it in messages,
    `text` is the type of the strings in a tensor.
    """
    kind = kind_of(a)
    if a.ref_attr_name:
        raise ModelError(f"{what} refers to {a.ref_attr_name!r} of a function, but stands in none")
    held = [f.name for f, _ in a.ListFields() if f.name not in _ABOUT]
    if held and _HELD.get(kind) not in (None, *held):
        raise ModelError(f"{what}: its type is {kind}, but it holds {', '.join(held)}")
    match kind:
        case "FLOAT" | "INT":
            return float(a.f) if kind == "FLOAT" else int(a.i)
        case "STRING":
            return _string(a.s)
        case "FLOATS":
            return tuple(float(v) for v in a.floats)
        case "INTS":
            return tuple(int(v) for v in a.ints)
        case "STRINGS":
            return tuple(_decoded(s, what) for s in a.strings)
        case "TENSOR":
            return array_of(a.t, home, what, text)
        case "SPARSE_TENSOR":
            return dense(a.sparse_tensor, home, what)
    raise UnsupportedError(f"{what}: its type {kind} is not supported")


def constant_of(node: Node) -> Array:
    """The elements of a Constant node. ONNX Constant-13: exactly one of its attributes is given."""
    if len(node.attributes) != 1:
        raise ModelError(f"{node.label}: {len(node.attributes)} attributes instead of one")
    name, value = next(iter(node.attributes.items()))
    if isinstance(value, np.ndarray):
        return value
    if name in ("value_string", "value_strings") and isinstance(value, (str, bytes, tuple)):
        return _text_constant(node, value)
    if name not in _ARRAYS or not isinstance(value, (int, float, tuple)):
        raise UnsupportedError(f"{node.label}: a Constant given by {name} is not supported")
    try:
        return np.asarray(value, _ARRAYS[name])
    except (TypeError, ValueError):
        raise ModelError(f"{node.label}: {name} holds the wrong type") from None


def _text_constant(node: Node, value: str | bytes | tuple[object, ...]) -> Array:
    """The elements of a Constant that is one string or a list of them."""
    try:
        found = encoded(value if isinstance(value, tuple) else [value], node.text)
    except InputError as error:
        raise ModelError(f"{node.label}: {error}") from None
    return found if isinstance(value, tuple) else found.reshape(())


def _decoded(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelError(f"{what}: the string {data[:40]!r} is not UTF-8") from None


def _string(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
