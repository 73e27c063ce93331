"""Which nodes of a model are no plain operators on tensors: those of sequences, optionals, maps and graphs.

In: a node's domain and name. Out: what reads it. The reader asks for every node.
"""

from __future__ import annotations

from ingot.frontends.onnx.attributes import require_known
from ingot.frontends.onnx.control import CONTROL
from ingot.frontends.onnx.maps import DOMAIN, MAPS
from ingot.frontends.onnx.place import Handler, Place
from ingot.frontends.onnx.sequences import SEQUENCES

HANDLERS: dict[str, dict[str, Handler]] = {"": SEQUENCES | CONTROL, DOMAIN: MAPS}


def is_handled(at: Place) -> bool:
    """Read the node, if it works on objects or holds graphs; False leaves it to the reader."""
    handler = HANDLERS.get(at.node.domain, {}).get(at.node.op)
    if handler is None:
        return False
    require_known(at.node, at.proto)
    return handler(at)
