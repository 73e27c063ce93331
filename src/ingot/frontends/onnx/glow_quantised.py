"""Glow's quantised operators in its own ONNX: Quantize, Dequantize and ChannelwiseQuantizedConvolution.

Glow writes the scale and the offset of a value beside whatever makes it: a node has them as attributes of its
results, a constant in its doc string. In: a graph, in which `with_scales` notes them on the nodes that read
the value; then one node. Out: the text of the function of ONNX's own operators that the node means.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import onnx
from onnx import helper

from ingot.errors import UnsupportedError

Scale = tuple[float, int]
KINDS = {
    b"i8": (onnx.TensorProto.INT8, -128, 127),
    b"i16": (onnx.TensorProto.INT16, -(1 << 15), (1 << 15) - 1),
}
"""Types of quantised values, and their ranges."""
DOC = re.compile(r"\$qScale:([-+.\deE]+)\$qOffset:(-?\d+)")
QUANTIZE = """(x) => (y) {{
    scale = Constant <value_float = {ys}> () offset = Constant <value_float = {yo}.0> ()
    low = Constant <value_float = {low}.0> () high = Constant <value_float = {high}.0> ()
    scaled = Div (x, scale) moved = Add (scaled, offset) whole = Round (moved)
    held = Clip (whole, low, high) y = Cast <to = {kind}> (held) }}"""
DEQUANTIZE = """(x) => (y) {{
    scale = Constant <value_float = {xs}> () offset = Constant <value_float = {xo}.0> ()
    real = Cast <to = 1> (x) moved = Sub (real, offset) y = Mul (moved, scale) }}"""
CONVOLUTION = """(x, w, b, ws, wo, bs, bo) => (y) {{
    xs = Constant <value_float = {xs}> () xo = Constant <value = int8 {{{xo}}}> ()
    ys = Constant <value_float = {ys}> () yo = Constant <value = int8 {{{yo}}}> ()
    image = Transpose <perm = [0, 3, 1, 2]> (x) filter = Transpose <perm = [0, 3, 1, 2]> (w)
    zero = Cast <to = 3> (wo) sums = Mul (ws, xs) ratio = Div (bs, sums)
    codes = Cast <to = 1> (b) offset = Cast <to = 1> (bo) moved = Sub (codes, offset)
    exact = Mul (moved, ratio) half = Constant <value_float = 0.5> () size = Abs (exact)
    more = Add (size, half) floor = Floor (more) sign = Sign (exact) rounded = Mul (floor, sign)
    bias = Cast <to = 6> (rounded)
    made = QLinearConv <kernel_shape = {Kernels}, strides = {Strides}, pads = {Pads}, dilations = {Dilation},
        group = {Group}> (image, xs, xo, filter, ws, zero, ys, yo, bias)
    y = Transpose <perm = [0, 2, 3, 1]> (made) }}"""
CONVOLUTION_NAME = "Glow_ChannelwiseQuantizedConvolution"
BODIES = {
    "Glow_Quantize": QUANTIZE,
    "Glow_Dequantize": DEQUANTIZE,
    CONVOLUTION_NAME: CONVOLUTION,
}


def with_scales(graph: onnx.GraphProto) -> onnx.GraphProto:
    """The graph, or a copy whose nodes of these operators say the scales of their first operands."""
    if not any(node.op_type in BODIES for node in graph.node):
        return graph
    made = onnx.GraphProto()
    made.CopyFrom(graph)
    scales = {t.name: (float(m[1]), int(m[2])) for t in made.initializer if (m := DOC.search(t.doc_string))}
    for node in made.node:
        held = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        for k, name in enumerate(node.output):
            if f"o{k}_qScale" in held:
                scales[name] = held[f"o{k}_qScale"], held.get(f"o{k}_qOffset", 0)
    for node in (n for n in made.node if n.op_type in BODIES and n.input and n.input[0] in scales):
        known, (scale, offset) = {a.name for a in node.attribute}, scales[node.input[0]]
        for name, value in (("i0_qScale", scale), ("i0_qOffset", offset)):
            if name not in known:
                node.attribute.append(helper.make_attribute(name, value))
    return made


def quantised_body(call: onnx.NodeProto) -> str | None:
    """The function's text; None for any other operator. Raises UnsupportedError."""
    if call.op_type not in BODIES:
        return None
    held: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in call.attribute}
    numbers: dict[str, Any] = {}
    if call.op_type != "Glow_Quantize":
        numbers |= dict(zip(("xs", "xo"), _scale(call, held, "i0"), strict=True))
    if call.op_type != "Glow_Dequantize":
        kind = held.get("o0_elemKind")
        if kind not in KINDS or (call.op_type == CONVOLUTION_NAME and kind != b"i8"):
            raise _unread(call, "o0_elemKind")
        numbers |= dict(zip(("ys", "yo"), _scale(call, held, "o0"), strict=True))
        numbers |= dict(zip(("kind", "low", "high"), KINDS[kind], strict=True))
    if call.op_type == CONVOLUTION_NAME:
        numbers |= _window(call, held)
    return BODIES[call.op_type].format(**numbers)


def _scale(call: onnx.NodeProto, held: Mapping[str, Any], which: str) -> tuple[str, int]:
    """The scale, as text that reads as the same number, and the offset."""
    scale, offset = held.get(f"{which}_qScale"), held.get(f"{which}_qOffset", 0)
    if not isinstance(scale, float) or not math.isfinite(scale) or scale <= 0:
        raise _unread(call, f"{which}_qScale")
    low, high = KINDS[b"i8" if call.op_type == CONVOLUTION_NAME else b"i16"][1:]
    if not isinstance(offset, int) or not low <= offset <= high:
        raise _unread(call, f"{which}_qOffset")
    return repr(scale), offset


def _window(call: onnx.NodeProto, held: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a window over two axes."""
    lengths = {"Kernels": 2, "Strides": 2, "Pads": 4, "Dilation": 2}
    for name, length in lengths.items():
        numbers = held.get(name)
        if not isinstance(numbers, list) or len(numbers) != length:
            raise _unread(call, name)
    if not isinstance(held.get("Group"), int):
        raise _unread(call, "Group")
    if held.get("FusedActivation", b"NONE") != b"NONE":
        raise _unread(call, "FusedActivation")
    return {name: held[name] for name in (*lengths, "Group")}


def _unread(call: onnx.NodeProto, name: str) -> UnsupportedError:
    label = call.name or next(iter(call.output), "")
    return UnsupportedError(
        f"{call.op_type} node {label!r}: the attribute {name!r} is missing, or not read with its value"
    )
