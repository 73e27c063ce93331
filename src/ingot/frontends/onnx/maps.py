"""Operators that take or make maps, read into nodes on tensors; handlers of `handlers.py`.

A map comes from the caller as keys, values and a length. What ZipMap makes is a tensor with a row for each
map: the keys are known now and go to the manifest.
"""

from __future__ import annotations

from ingot.errors import ModelError
from ingot.frontends.onnx.objects import Map, Maps
from ingot.frontends.onnx.place import Handler, Place
from ingot.graph.ir import Node, Value

DOMAIN = "ai.onnx.ml"


def zip_map(at: Place) -> bool:
    """ZipMap-1: one map for each row, from the labels of classes to scores."""
    given = at.attributes()
    lists = [given.get(name, ()) for name in ("classlabels_int64s", "classlabels_strings")]
    keys = next((v for v in lists if isinstance(v, tuple) and v), ())
    (values,) = at.values(0, [""])
    at.graph.nodes.append(_node(at, [at.tensor(0)], values))
    at.result(0, Maps(values, tuple(k for k in keys if isinstance(k, int | str))))
    return True


def from_map(at: Place) -> bool:
    """CastMap and DictVectorizer: the operator reads keys, values and length."""
    thing = at.operand(0)
    if not isinstance(thing, Map):
        raise ModelError(f"{at.label}: its input is not a map")
    made = at.reader.define(at.scope, at.proto.output[0])
    at.graph.nodes.append(_node(at, [thing.keys, thing.values, thing.length], made))
    return True


def _node(at: Place, inputs: list[Value | None], made: Value) -> Node:
    """The node as it is in the model, between tensors."""
    node = at.node
    return Node(node.op, inputs, [made], at.attributes(), node.name, DOMAIN, node.version, node.text)


MAPS: dict[str, Handler] = {
    "ZipMap": zip_map,
    "CastMap": from_map,
    "DictVectorizer": from_map,
}
