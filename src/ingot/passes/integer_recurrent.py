"""RNN, GRU and LSTM by matrices that are dequantised bytes compute on the bytes.

    w = DequantizeLinear(qw, sw)
    r = DequantizeLinear(qr, sr)   ->   y = ingot.LSTM(x, qw, qr, ..., w_scale, r_scale, x_parts, h_parts)
    y = LSTM(x, w, r, ...)

An x that is dequantised itself is multiplied as the bytes that it was. Other floats, and the states, are
quantised as the bundle runs, each row for itself, to three bytes an element: a row's largest element is 2^23
steps, as many as a float's mantissa has. So what is lost is what sums of floats lose, and a result that is
quantised again gets the integers that floats give it. Called by `integer_layers`; `byte_recurrent` takes
fewer bytes, where the caller lets layers lose 1 %.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.formula.types import FLOAT32, INT8
from ingot.graph.ir import Attribute, Node, Value
from ingot.passes.byte_recurrent import RECURRENT, R, W, X
from ingot.passes.quantised import Quantisation, is_bytes

LEVELS = 255
PARTS = 3  # bytes of an element of x and of the states


def integer_recurrent(node: Node, known: Mapping[Value, Quantisation]) -> Node:
    """Return the node on bytes, or as it is where its matrices are none."""
    if node.domain or node.op not in RECURRENT:
        return node
    x, *matrices = node.inputs[: R + 1]
    found = [known.get(v) for v in matrices if v is not None]
    if x is None or x.type is not FLOAT32 or x.constant is not None:
        return node
    w, r = found if len(found) == 2 else (None, None)
    if w is None or r is None or not _is_plain(w) or not _is_plain(r):
        return node
    return _in_bytes(node, known.get(x), w, r)


def _is_plain(found: Quantisation) -> bool:
    """Whether a matrix is constant int8 about 0, with one scale."""
    return found.type is INT8 and found.axis is None and found.q.constant is not None and not found.zero.any()


def _in_bytes(node: Node, x: Quantisation | None, w: Quantisation, r: Quantisation) -> Node:
    inputs = list(node.inputs)
    inputs[W], inputs[R] = w.q, r.q
    attributes: dict[str, Attribute] = {
        **node.attributes,
        "w_scale": w.scale.item(),
        "r_scale": r.scale.item(),
    }
    attributes |= {"levels": LEVELS, "x_parts": PARTS, "h_parts": PARTS}
    if x is not None and is_bytes(x):
        inputs[X] = x.q
        attributes |= {"x_scale": x.scale.item(), "x_zero": x.zero.item()}
    return Node(
        node.op, inputs, list(node.outputs), attributes, node.name, "ingot", 1, node.text, caller=node.caller
    )
