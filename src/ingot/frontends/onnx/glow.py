"""Operators that Glow reads and writes in ONNX's default domain though the standard has none of the name.

In: a node that has neither a definition nor a schema; out: the function of ONNX's own operators that it
means, as Glow's ONNX reader has it (most are Caffe2's). `foreign.py` asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import onnx
import onnx.parser

from ingot.errors import UnsupportedError
from ingot.frontends.onnx.glow_quantised import quantised_body
from ingot.frontends.onnx.glow_sound import sound_function

FUNCTIONS: Mapping[str, str] = {
    "BatchBoxCox": """(x, p, shift) => (y) {
        least = Constant <value_float = 0.000001> () one = Constant <value_float = 1.0> ()
        zero = Constant <value_float = 0.0> ()
        moved = Add (x, shift) base = Max (moved, least) log = Log (base)
        power = Pow (base, p) less = Sub (power, one)
        none = Equal (p, zero) q = Where (none, one, p) root = Div (less, q) y = Where (none, log, root) }""",
    "BatchMatMul": '(a, b) => (y) { y = Einsum <equation = "EQUATION"> (a, b) }',
    "CmpEQ": "(x, y) => (z) { z = Equal (x, y) }",
    "CmpLTE": "(x, y) => (z) { z = LessOrEqual (x, y) }",
    "CumSum": """<exclusive: int = 0, reverse: int = 0> (x, axis) => (y) {
        at = Squeeze (axis)
        y = CumSum <exclusive: int = @exclusive, reverse: int = @reverse> (x, at) }""",
    "DotProduct": """(x, y) => (z) {
        products = Mul (x, y) rows = Flatten (products) last = Constant <value_ints = [1]> ()
        z = ReduceSum <keepdims = 0> (rows, last) }""",
    "ExpandDims": """(x) => (y) {
        at = Constant <value_ints: ints = @dims> () y = Unsqueeze (x, at) }""",
    "FC": "(x, w, b) => (y) { rows = Flatten (x) y = Gemm <transB = 1> (rows, w, b) }",
    "FCTransposed": "(x, w, b) => (y) { rows = Flatten (x) y = Gemm (rows, w, b) }",
    "Flip": """<axis: int = 0> (x) => (y) {
        last = Constant <value_ints = [-1]> () end = Constant <value_ints = [-9223372036854775807]> ()
        at = Constant <value_int: int = @axis> () first = Constant <value_ints = [0]> ()
        axes = Unsqueeze (at, first) y = Slice (x, last, end, axes, last) }""",
    "FullyConnected": """(x, w, b) => (y) {
        rows = Flatten (x) product = MatMul (rows, w)
        bias = CastLike (b, product) y = Add (product, bias) }""",
    "FusedRowwiseQuantizedSparseLengthsSum": """(table, indices, lengths) => (y) {
        UNPACKED rows = Gather (real, indices) y = LengthsSum (rows, lengths) }""",
    "FusedRowwiseQuantizedSparseLengthsWeightedSum": """(table, weights, indices, lengths) => (y) {
        UNPACKED chosen = Gather (real, indices) column = Constant <value_ints = [1]> ()
        down = Unsqueeze (weights, column) rows = Mul (chosen, down) y = LengthsSum (rows, lengths) }""",
    "GatherRanges": """(x, ranges) => (y, found) {
        zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
        all = Constant <value_ints = [-1]> () first = Constant <value_ints = [0]> ()
        last = Constant <value_ints = [1]> () room = Constant <value_int: int = @maxOutputSize> ()
        long = Cast <to = 7> (ranges) sizes = Gather <axis = 2> (long, one) size = Reshape (sizes, all)
        from = Gather <axis = 2> (long, zero) start = Reshape (from, all) ends = CumSum (size, zero)
        begins = Sub (ends, size) places = Range (zero, room, one) down = Unsqueeze (places, last)
        across = Unsqueeze (ends, first) is_behind = GreaterOrEqual (down, across)
        behind = Cast <to = 7> (is_behind) count = ReduceSum <keepdims = 0> (behind, last)
        ranks = Size (size) top = Sub (ranks, one) is_used = Less (count, ranks)
        range = Min (count, top) begin = Gather (begins, range) within = Sub (places, begin)
        base = Gather (start, range) where = Add (base, within) rows = Shape <start = 0, end = 1> (x)
        nowhere = Squeeze (rows, first) at = Where (is_used, where, nowhere)
        inner = Shape <start = 1> (x) extents = Concat <axis = 0> (last, inner)
        empty = ConstantOfShape (extents) zeros = CastLike (empty, x)
        padded = Concat <axis = 0> (x, zeros) y = Gather (padded, at)
        totals = ReduceSum <keepdims = 0> (sizes, last) found = CastLike (totals, ranges) }""",
    "Glow_Add": "(x, y) => (z) { z = Add (x, y) }",
    "Glow_MatMul": "(x, y) => (z) { z = MatMul (x, y) }",
    "Glow_Mul": "(x, y) => (z) { z = Mul (x, y) }",
    "Glow_Sub": "(x, y) => (z) { z = Sub (x, y) }",
    "Glow_TopK": """(x) => (values, indices) {
        most = Constant <value_int: int = @K> () first = Constant <value_ints = [0]> ()
        k = Unsqueeze (most, first) values, indices = TopK (x, k) }""",
    "LengthsSum": """(x, lengths) => (y) {
        zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
        first = Constant <value_ints = [0]> () last = Constant <value_ints = [1]> ()
        long = Cast <to = 7> (lengths) ends = CumSum (long, zero) across = Unsqueeze (ends, first)
        rows = Shape <start = 0, end = 1> (x) all = Squeeze (rows) places = Range (zero, all, one)
        down = Unsqueeze (places, last) is_behind = GreaterOrEqual (down, across)
        behind = Cast <to = 7> (is_behind) segment = ReduceSum <keepdims = 1> (behind, last)
        count = Shape (lengths) more = Add (count, last) inner = Shape <start = 1> (x)
        extents = Concat <axis = 0> (more, inner) zeros = ConstantOfShape (extents)
        empty = CastLike (zeros, x) sums = ScatterND <reduction = "add"> (empty, segment, x)
        y = Slice (sums, first, count, first) }""",
    "LengthsToRanges": """(lengths) => (y) {
        zero = Constant <value_int = 0> () last = Constant <value_ints = [1]> ()
        ends = CumSum (lengths, zero) starts = Sub (ends, lengths)
        left = Unsqueeze (starts, last) right = Unsqueeze (lengths, last)
        y = Concat <axis = 1> (left, right) }""",
    "NonMaxSuppressionV4": """<center_point_box: int = 0>
        (boxes, scores, most, overlap, least) => (places, found) {
        zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
        two = Constant <value_int = 2> () both = Constant <value_ints = [0, 1]> ()
        batch = Unsqueeze (boxes, zero) class = Unsqueeze (scores, both)
        many = Cast <to = 7> (most) room = Reshape (many, one)
        chosen = NonMaxSuppression <center_point_box: int = @center_point_box>
            (batch, class, room, overlap, least)
        indices = Gather <axis = 1> (chosen, two) PADDING
        places = Cast <to = 6> (long) count = Size (indices) found = Cast <to = 6> (count) }""",
    "ReplaceNaN": """<value: float = 0.0> (x) => (y) {
        with = Constant <value_float: float = @value> () is = IsNaN (x) y = Where (is, with, x) }""",
    "SparseLengthsSum": """(table, indices, lengths) => (y) {
        rows = Gather (table, indices) y = LengthsSum (rows, lengths) }""",
    "SparseLengthsWeightedSum": """(table, weights, indices, lengths) => (y) {
        chosen = Gather (table, indices) inner = Shape <start = 1> (table) axes = Shape (inner)
        ones = ConstantOfShape <value = int64[1] {1}> (axes) count = Shape (weights)
        extents = Concat <axis = 0> (count, ones) down = Reshape (weights, extents)
        rows = Mul (chosen, down) y = LengthsSum (rows, lengths) }""",
    "SparseToDense": """(indices, values, like) => (y) {
        rows = Shape <start = 0, end = 1> (like) inner = Shape <start = 1> (values)
        extents = Concat <axis = 0> (rows, inner) zeros = ConstantOfShape (extents)
        empty = CastLike (zeros, values) last = Constant <value_ints = [1]> ()
        places = Unsqueeze (indices, last) y = ScatterND <reduction = "add"> (empty, places, values) }""",
}
"""Bodies by name, in ONNX's notation and of opset OPSET."""
OPSET = 26
UNPACKED = """cut = Constant <value_ints = [-8]> () begin = Constant <value_ints = [0]> ()
        inner = Constant <value_ints = [1]> () end = Constant <value_ints = [9223372036854775807]> ()
        pairs = Constant <value_ints = [0, 2, 4]> ()
        shifts = Constant <value = uint32[4] {0, 8, 16, 24}> () of_four = Constant <value_ints = [2]> ()
        codes = Slice (table, begin, cut, inner) behind = Slice (table, cut, end, inner)
        wide = Cast <to = 12> (behind) apart = Reshape (wide, pairs)
        places = BitShift <direction = "LEFT"> (apart, shifts)
        bits = ReduceSum <keepdims = 0> (places, of_four) held = BitCast <to = 1> (bits)
        scale = Slice (held, begin, inner, inner) offset = Slice (held, inner, of_four, inner)
        numbers = Cast <to = 1> (codes) scaled = Mul (numbers, scale) real = Add (scaled, offset)"""
"""Rows of bytes, each with its scale and its offset behind them, four bytes each."""
PADDED = """none = ConstantOfShape (room) zeros = Cast <to = 7> (none)
        start = Constant <value_int = 0> () step = Constant <value_int = 1> () size = Size (indices)
        numbers = Range (start, size, step) rows = Unsqueeze (numbers, one)
        long = ScatterND (zeros, rows, indices)"""
"""NonMaxSuppressionV4's places, zeros behind them."""
TF2ONNX = "ai.onnx.converters.tensorflow"
"""The domain of what tf2onnx takes over from TensorFlow."""
HELD = {
    *((op, name, 1) for op in ("FC", "FCTransposed", "FullyConnected") for name in ("axis", "axis_w")),
    *(("NonMaxSuppressionV4", "pad_to_max_output_size", value) for value in (0, 1)),
    *(("BatchMatMul", name, value) for name in ("trans_a", "trans_b") for value in (0, 1)),
}
"""Values of attributes that a body has without reading them."""
PLACEMENT = re.compile(r"partitionName|isIntermediateOutputForDAG|NodeOpt_\w+")
"""Where Glow runs a node, and how its backends do: nothing of what the node means."""
TYPE_OF_OPERAND = re.compile(r"[io]\d+_(elemKind|shape|strides|layout|qScale|qOffset)")
PLAIN_KINDS = {"float", "float16", "bfloat16", "float64", "index32", "index64", "bool"}
"""What Glow's writer says of a node's operands; of types that are not quantised, the body knows it all."""
MOVES = {"Glow_TopK"}
"""Operators whose results are elements of what they are given, of its scale."""


def glow_function(call: onnx.NodeProto) -> onnx.FunctionProto | None:
    """What a node of the default domain means to Glow; None where that is not known."""
    if call.domain not in ("", "ai.onnx", TF2ONNX):
        return None
    if (sound := sound_function(call)) is not None:
        return sound
    if (quantised := quantised_body(call)) is not None:
        return _parsed(call, quantised)
    if (text := _body(call)) is None:
        return None
    function = _parsed(call, text)
    for name in _unread(call, function):
        label = call.name or next(iter(call.output), "")
        raise UnsupportedError(
            f"{call.op_type} node {label!r}: the attribute {name!r} is not read, or not with that value"
        )
    return function


def _parsed(call: onnx.NodeProto, text: str) -> onnx.FunctionProto:
    return onnx.parser.parse_function(f'<domain: "", opset_import: ["" : {OPSET}]> {call.op_type} {text}')


def _body(call: onnx.NodeProto) -> str | None:
    """The function's text, with what attributes say of it put in."""
    given = {a.name: a for a in call.attribute}
    if call.op_type == "ConvertTo" and "shape" in given:
        return f"(x) => (y) {{ y = Cast <to = {given['shape'].t.data_type}> (x) }}"
    if (text := FUNCTIONS.get(call.op_type)) is None:
        return None
    flags = {name: a.i for name, a in given.items()}
    padding = PADDED if flags.get("pad_to_max_output_size") else "long = Identity (indices)"
    left, right = "km" if flags.get("trans_a") else "mk", "nk" if flags.get("trans_b") else "kn"
    words = {"PADDING": padding, "EQUATION": f"...{left},...{right}->...mn", "UNPACKED": UNPACKED}
    for word, stands_for in words.items():
        text = text.replace(word, stands_for)
    return text


def is_placement(name: str) -> bool:
    """Whether an attribute says where Glow runs a node, and nothing of what it means."""
    return PLACEMENT.fullmatch(name) is not None


def _unread(call: onnx.NodeProto, function: onnx.FunctionProto) -> Iterator[str]:
    """The attributes that may change what the node means, but not its body."""
    read = {a.ref_attr_name for node in function.node for a in node.attribute}
    for a in call.attribute:
        is_held = a.type == onnx.AttributeProto.INT and (call.op_type, a.name, a.i) in HELD
        is_type = (call.op_type, a.name) == ("ConvertTo", "shape")
        if a.name in read or is_held or is_type or is_placement(a.name):
            continue
        kind = TYPE_OF_OPERAND.fullmatch(a.name)
        if kind is None or not (call.op_type in MOVES or _is_plain(kind[1], a)):
            yield a.name


def _is_plain(what: str, a: onnx.AttributeProto) -> bool:
    """Whether what is said of an operand is not about how it is quantised."""
    if what == "elemKind":
        return a.s.decode(errors="replace") in PLAIN_KINDS
    return what not in ("qScale", "qOffset")
