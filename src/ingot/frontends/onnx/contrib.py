"""Operators of com.microsoft that are a few of ONNX's own: what onnxruntime's tools and its optimiser write.

In: a node; out: the function that it means. Those with routines of their own are definitions (`ingot.ops`).
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx.parser

from ingot.errors import UnsupportedError

OPSET = 26
FUNCTIONS: Mapping[str, str] = {
    "DequantizeLinear": """<axis: int = 1> (x, scale, zero) => (y) {
        y = DequantizeLinear <axis: int = @axis> (x, scale, zero) }""",
    "DynamicQuantizeMatMul": """(a, b, b_scale, b_zero, bias) => (y) {
        q, scale, zero = DynamicQuantizeLinear (a) sums = MatMulInteger (q, b, zero, b_zero)
        real = Cast <to = 1> (sums) by = Mul (scale, b_scale) product = Mul (real, by) y = BIASED }""",
    "ExpandDims": """(x, axis) => (y) {
        all = Constant <value_ints = [-1]> () wide = Cast <to = 7> (axis) at = Reshape (wide, all)
        y = Unsqueeze (x, at) }""",
    "FusedGemm": """<alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,
        activation_alpha: float = 0.01> (a, b, c) => (y) {
        product = Gemm <alpha: float = @alpha, beta: float = @beta, transA: int = @transA,
            transB: int = @transB> (a, b, c)
        y = ACTIVATED }""",
    "MatMulIntegerToFloat": """(a, b, a_scale, b_scale, a_zero, b_zero, bias) => (y) {
        sums = MatMulInteger (a, b, a_zero, b_zero) real = Cast <to = 1> (sums)
        by = Mul (a_scale, b_scale) product = Mul (real, by) y = BIASED }""",
    "QuantizeLinear": """<axis: int = 1> (x, scale, zero) => (y) {
        y = QuantizeLinear <axis: int = @axis> (x, scale, zero) }""",
    "Trilu": "<upper: int = 1> (x, k) => (y) { y = Trilu <upper: int = @upper> (x, k) }",
}
"""Bodies by name, in ONNX's notation and of opset OPSET."""
BIAS = {"DynamicQuantizeMatMul": 4, "MatMulIntegerToFloat": 6}
"""Which input it is."""
ACTIVATIONS = {
    **{name: f"{name} (product)" for name in ("Relu", "Sigmoid", "Tanh")},
    "LeakyRelu": "LeakyRelu <alpha: float = @activation_alpha> (product)",
}


def contrib_function(call: onnx.NodeProto) -> onnx.FunctionProto | None:
    """What the node means; None where it is another one. Raises UnsupportedError for what is not read."""
    text = FUNCTIONS.get(call.op_type)
    if call.domain != "com.microsoft" or text is None:
        return None
    label = f"{call.op_type} node {call.name or next(iter(call.output), '')!r}"
    header = f'<domain: "com.microsoft", opset_import: ["" : {OPSET}]> {call.op_type}'
    function = onnx.parser.parse_function(f"{header} {_filled(text, call, label)}")
    known = {a.name for a in function.attribute_proto} | {"activation"}
    if unread := sorted({a.name for a in call.attribute} - known):
        raise UnsupportedError(f"{label}: the attribute {unread[0]!r} is not supported")
    return function


def _filled(text: str, call: onnx.NodeProto, label: str) -> str:
    """The text with what depends on the node: whether it has a bias, and its activation."""
    has_bias = bool("".join(call.input[BIAS.get(call.op_type, 0) :]))
    text = text.replace("BIASED", "Add (product, bias)" if has_bias else "Identity (product)")
    if "ACTIVATED" not in text:
        return text
    name = next((a.s.decode(errors="replace") for a in call.attribute if a.name == "activation"), "")
    if name not in ACTIVATIONS:
        raise UnsupportedError(f"{label}: the activation {name!r} is not supported")
    return text.replace("ACTIVATED", ACTIVATIONS[name])
