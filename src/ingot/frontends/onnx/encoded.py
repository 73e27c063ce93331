"""Encoded constants: calls of `ingot.Codebook` and `ingot.Sparse` whose inputs are constants.

In: a call and what its inputs name. Out: the encoding, checked, or None where the function's body has to be
put in the call's place: an input is computed, or the call is another one. The reader asks for every node.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx

from ingot.errors import ModelError
from ingot.formula.expr import Array
from ingot.formula.types import FLOAT32, INT64, UINT4, UINT8, DType
from ingot.frontends.onnx.objects import Object
from ingot.graph.encoding import Codebook, Encoding, Sparse
from ingot.graph.ir import Node, Value

DOMAIN = "ingot"
MOST_ELEMENTS = 1 << 28  # of an encoded tensor, whose size the file only claims
CODES = (UINT4, UINT8)


def encoding_of(node: Node, proto: onnx.NodeProto, operands: Sequence[Object | None]) -> Encoding | None:
    """The encoding that a call stands for. Raises ModelError for one whose parts do not fit."""
    if node.domain != DOMAIN or node.op not in ("Codebook", "Sparse") or len(proto.output) != 1:
        return None
    wanted = 2 if node.op == "Codebook" else 4
    values = [v for v in operands if isinstance(v, Value) and v.constant is not None]
    if len(operands) != wanted or len(values) != wanted:
        return None
    try:
        found = _codebook(values) if node.op == "Codebook" else _sparse(values, _gap_bits(proto))
        found.check()
    except ValueError as error:
        raise ModelError(f"{node.label}: {error}") from None
    return found


def _codebook(inputs: Sequence[Value]) -> Codebook:
    codes, values = inputs
    return Codebook(_elements(codes, CODES).astype(np.uint8), _elements(values, (FLOAT32,)))


def _sparse(inputs: Sequence[Value], gap_bits: int) -> Sparse:
    codes, gaps, shape, values = inputs
    extents = _elements(shape, (INT64,))
    if extents.ndim != 1 or (extents < 0).any() or prod(map(int, extents)) > MOST_ELEMENTS:
        raise ValueError(f"no tensor has the shape {extents.tolist()[:8]}")
    entries, zeros = (_elements(v, CODES).astype(np.uint8) for v in (codes, gaps))
    return Sparse(tuple(map(int, extents)), entries, zeros, _elements(values, (FLOAT32,)), gap_bits)


def _elements(v: Value, types: tuple[DType, ...]) -> Array:
    assert v.constant is not None
    if v.type not in types:
        raise ValueError(f"{v.name!r} is {v.type}, where {' or '.join(map(str, types))} belongs")
    return v.constant


def _gap_bits(proto: onnx.NodeProto) -> int:
    found = [a.i for a in proto.attribute if a.name == "gap_bits" and a.type == onnx.AttributeProto.INT]
    if len(found) != 1:
        raise ValueError("one attribute gap_bits, an integer, is needed")
    return int(found[0])
