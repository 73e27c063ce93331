"""Scales that a model declares itself: what the integers of its inputs and outputs stand for.

The metadata `ingot.quantisation.NAME` is a scale and a zero point, two numbers with a space between them. An
importer writes it where the format says so (`frontends/tflite`). In: a ModelProto, and the graph read from
it. Out: the graph's scales.
"""

from __future__ import annotations

from math import isfinite

import onnx

from ingot.errors import ModelError
from ingot.formula.types import INT32
from ingot.graph.ir import Graph, Scale

QUANTISATION = "ingot.quantisation."


def note_declared(graph: Graph, model: onnx.ModelProto) -> Graph:
    """Note the scales in place and return the graph. Raises ModelError for metadata that is none of one."""
    edge = {v.name for v in (*graph.inputs, *graph.outputs)}
    for p in model.metadata_props:
        name = p.key.removeprefix(QUANTISATION)
        if name != p.key and name in edge:
            graph.scales[name] = _parsed(p.key, p.value)
    return graph


def _parsed(key: str, text: str) -> Scale:
    try:
        scale, zero = text.split()
        found = Scale(float(scale), int(zero))
    except ValueError:
        raise ModelError(f"the metadata {key!r} is {text[:80]!r}, no scale and zero point") from None
    if not (isfinite(found.scale) and found.scale > 0 and INT32.lowest <= found.zero_point <= INT32.highest):
        raise ModelError(f"the metadata {key!r} is {text[:80]!r}, no scale and zero point")
    return found
