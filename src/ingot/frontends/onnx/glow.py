"""Operators that Glow reads and writes in ONNX's default domain though the standard has none of the name.

In: a node that has neither a definition nor a schema; out: the function of ONNX's own operators that it
means, as Glow's ONNX reader has it (most are Caffe2's). `functions.py` asks last.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx.parser

FUNCTIONS: Mapping[str, str] = {
    "BatchBoxCox": """(x, p, shift) => (y) {
        least = Constant <value_float = 0.000001> () one = Constant <value_float = 1.0> ()
        zero = Constant <value_float = 0.0> ()
        moved = Add (x, shift) base = Max (moved, least) log = Log (base)
        power = Pow (base, p) less = Sub (power, one)
        none = Equal (p, zero) q = Where (none, one, p) root = Div (less, q) y = Where (none, log, root) }""",
    "BatchMatMul": '(a, b) => (y) { y = Einsum <equation = "EQUATION"> (a, b) }',
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
    "Glow_Add": "(x, y) => (z) { z = Add (x, y) }",
    "Glow_MatMul": "(x, y) => (z) { z = MatMul (x, y) }",
    "Glow_Mul": "(x, y) => (z) { z = Mul (x, y) }",
    "Glow_Sub": "(x, y) => (z) { z = Sub (x, y) }",
    "ReplaceNaN": """<value: float = 0.0> (x) => (y) {
        with = Constant <value_float: float = @value> () is = IsNaN (x) y = Where (is, with, x) }""",
}
"""Bodies by name, in ONNX's notation and of opset 17."""


def glow_function(call: onnx.NodeProto) -> onnx.FunctionProto | None:
    """What a node of the default domain means to Glow; None where that is not known."""
    text = FUNCTIONS.get(call.op_type)
    if text is None or call.domain not in ("", "ai.onnx"):
        return None
    if call.op_type == "BatchMatMul":
        given = {a.name: a.i for a in call.attribute}
        left, right = "bkm" if given.get("trans_a") else "bmk", "bnk" if given.get("trans_b") else "bkn"
        text = text.replace("EQUATION", f"{left},{right}->bmn")
    return onnx.parser.parse_function(f'<domain: "", opset_import: ["" : 17]> {call.op_type} {text}')
