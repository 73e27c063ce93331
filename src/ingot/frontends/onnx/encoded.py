"""Encoded constants: calls of `ingot.Codebook` and `ingot.Sparse` whose inputs are constants.

In: a call and what its inputs name. Out: the encoding, checked, or None where the function's body has to be
put in the call's place: an input is computed, or the call is another one. The reader asks for every node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from ingot.errors import ModelError
from ingot.frontends.onnx.objects import Object
from ingot.graph import onnx_form
from ingot.graph.encoding import Encoding
from ingot.graph.ir import Node, Value
from ingot.graph.onnx_form import Key, Part, is_call


def encoding_of(
    node: Node,
    proto: onnx.NodeProto,
    operands: Sequence[Object | None],
    functions: Mapping[Key, onnx.FunctionProto],
    claimed: int,
) -> Encoding | None:
    """The encoding that a call stands for. Raises ModelError for one whose parts do not fit, or which is too
    large together with the `claimed` elements of those before."""
    if not is_call(proto, functions):
        return None
    parts = [
        Part(v.name, v.type, v.constant)
        for v in operands
        if isinstance(v, Value) and v.type is not None and v.constant is not None
    ]
    if len(parts) != len(operands):
        return None
    try:
        return onnx_form.encoding_of(proto, parts, claimed)
    except ValueError as error:
        raise ModelError(f"{node.label}: {error}") from None
