"""RNN, GRU and LSTM by matrices that are dequantised bytes compute on the bytes.

    w = DequantizeLinear(qw, sw)
    r = DequantizeLinear(qr, sr)   ->   y = ingot.LSTM(x, qw, qr, ..., w_scale, r_scale, x_parts, h_parts)
    y = LSTM(x, w, r, ...)

x and the states are quantised as the bundle runs, each row for itself, to one byte or two: the fewest that
keep within the promised 1 % of max|y|, over a few steps of normally distributed inputs. Where two do not,
the node stays as it is. Called by `integer_layers`; `byte_recurrent` does the same with encoded matrices.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.formula.types import FLOAT32, INT8
from ingot.graph.ir import Attribute, Node, Value
from ingot.options import PROMISED
from ingot.passes.byte_recurrent import MARGIN, RECURRENT, R, Trial, W, X
from ingot.passes.quantised import Quantisation

LEVELS = 255
FORMS = ((1, 1), (1, 2), (2, 2))  # bytes of an element of x and of the states


def integer_recurrent(node: Node, known: Mapping[Value, Quantisation]) -> Node:
    """Return the node on bytes, or as it is where its matrices are none or bytes lose too much."""
    if node.domain or node.op not in RECURRENT:
        return node
    x, *matrices = node.inputs[: R + 1]
    found = [known.get(v) for v in matrices if v is not None]
    if x is None or x.type is not FLOAT32 or x.constant is not None or x.shape is None:
        return node
    w, r = found if len(found) == 2 else (None, None)
    if w is None or r is None or not _is_plain(w) or not _is_plain(r):
        return node
    trial = Trial(node, is_rectified=False)
    for parts in FORMS:
        made = _in_bytes(node, w, r, *parts)
        if trial.lost(made) <= MARGIN * PROMISED:
            return made
    return node


def _is_plain(found: Quantisation) -> bool:
    """Whether a matrix is constant int8 about 0, with one scale."""
    return found.type is INT8 and found.axis is None and found.q.constant is not None and not found.zero.any()


def _in_bytes(node: Node, w: Quantisation, r: Quantisation, x_parts: int, h_parts: int) -> Node:
    inputs = list(node.inputs)
    inputs[W], inputs[R] = w.q, r.q
    more: dict[str, Attribute] = {"levels": LEVELS, "w_scale": w.scale.item(), "r_scale": r.scale.item()}
    attributes = {**node.attributes, **more, "x_parts": x_parts, "h_parts": h_parts}
    assert inputs[X] is node.inputs[X]
    return Node(
        node.op, inputs, list(node.outputs), attributes, node.name, "ingot", 1, node.text, caller=node.caller
    )
