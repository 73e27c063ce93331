"""DynamicQuantizeLSTM of com.microsoft, which onnxruntime's quantize_dynamic writes for an LSTM.

In: a node; out: the function of ONNX's own operators that it means. Rows and hidden states become bytes by
their own range, all of X at once and each state by itself; products with the weights are integers.
"""

from __future__ import annotations

import onnx
import onnx.parser

from ingot.errors import ModelError, UnsupportedError

OPSET = 26
INPUTS = ("x", "w", "r", "b", "lengths", "h0", "c0", "peepholes", "ws", "wz", "rs", "rz")
REFUSED = {4: "lengths of sequences", 7: "peepholes"}
"""Inputs that the function does not have."""
PLAIN = {"hidden_size", "direction", "input_forget", "clip", "activations"}
HEAD = """
    none = Constant <value_ints = [0]> () one = Constant <value_int = 1> ()
    first = Constant <value_ints = [1]> () steps = Shape <start = 0, end = 1> (x) count = Squeeze (steps)
    last = Sub (count, one) yes = Constant <value = bool {1}> () batch = Shape <start = 1, end = 2> (x)
    units = Shape <start = 1, end = 2> (r) square = Concat <axis = 0> (batch, units)
    zeros = ConstantOfShape (square) xq, xs, xz = DynamicQuantizeLinear (x)
"""
"""What both directions share."""
TURN = """
    n% = Constant <value_int = %> () w% = Gather <axis = 0> (w, n%) r% = Gather <axis = 0> (r, n%)
    ws% = Gather <axis = 0> (ws, n%) wz% = Gather <axis = 0> (wz, n%)
    rs% = Gather <axis = 0> (rs, n%) rz% = Gather <axis = 0> (rz, n%)
    sums% = MatMulInteger (xq, w%, xz, wz%) wide% = Cast <to = 1> (sums%) by% = Mul (xs, ws%)
    rows% = Mul (wide%, by%) BIAS STATES
    he%, ce%, ys% = Loop <body = step% (int64[] i, bool[] on, float[] h, float[] c)
        => (bool[] again, float[] shown, float[] kept, float[] seen) {
        again = Identity (on) AT row = Gather <axis = 0> (rows%, at)
        hq, hs, hz = DynamicQuantizeLinear (h) total = MatMulInteger (hq, r%, hz, rz%)
        real = Cast <to = 1> (total) by = Mul (hs, rs%) turned = Mul (real, by) sum = Add (row, turned)
        gates = ADDED gi, go, gf, gc = Split <axis = 1, num_outputs = 4> (gates)
        i_ = Sigmoid (gi) o_ = Sigmoid (go) f_ = Sigmoid (gf) c_ = Tanh (gc)
        old = Mul (f_, c) new = Mul (i_, c_) kept = Add (old, new) bent = Tanh (kept)
        shown = Mul (o_, bent) seen = Identity (shown) }> (count, yes, h_%, c_%)
    in% = ORDER y% = Unsqueeze (in%, first) hl% = Unsqueeze (he%, none) cl% = Unsqueeze (ce%, none)
"""
"""One direction, %: what it makes ends in its number."""
BIASED = """b% = Gather <axis = 0> (b, n%) b0%, b1% = Split <axis = 0, num_outputs = 2> (b%)
    both% = Add (b0%, b1%)"""
BACKWARDS = (
    """minus% = Constant <value_ints = [-1]> () end% = Constant <value_ints = [-9223372036854775807]> ()"""
)
REVERSED = "Slice (ys%, minus%, end%, none, minus%)"


def lstm_function(call: onnx.NodeProto) -> onnx.FunctionProto | None:
    """What the node means; None if it is another one. Raises InputError for what is not supported."""
    if (call.domain, call.op_type) != ("com.microsoft", "DynamicQuantizeLSTM"):
        return None
    label = f"{call.op_type} node {call.name or next(iter(call.output), '')!r}"
    given = [*call.input, *[""] * len(INPUTS)][: len(INPUTS)]
    for i, what in REFUSED.items():
        if given[i]:
            raise UnsupportedError(f"{label}: {what} are not supported")
    if missing := [INPUTS[i] for i in (0, 1, 2, 8, 9, 10, 11) if not given[i]]:
        raise ModelError(f"{label}: the input {missing[0]!r} is missing")
    turns = _directions(call, label)
    text = HEAD + "".join(
        _turn(d, back, dict(zip(INPUTS, given, strict=True))) for d, back in enumerate(turns)
    )
    for name, part, axis in (("y", "y", 1), ("y_h", "hl", 0), ("y_c", "cl", 0)):
        text += f"{name} = Concat <axis = {axis}> ({', '.join(f'{part}{d}' for d in range(len(turns)))}) "
    header = f'<domain: "com.microsoft", opset_import: ["" : {OPSET}]> {call.op_type}'
    return onnx.parser.parse_function(f"{header} ({', '.join(INPUTS)}) => (y, y_h, y_c) {{ {text} }}")


def _directions(call: onnx.NodeProto, label: str) -> list[bool]:
    """For each direction whether it goes backwards. Raises UnsupportedError for unusual cells."""
    given = {a.name: onnx.helper.get_attribute_value(a) for a in call.attribute}
    if unread := sorted(given.keys() - PLAIN):
        raise UnsupportedError(f"{label}: the attribute {unread[0]!r} is not supported")
    if given.get("clip", 0) or given.get("input_forget", 0):
        raise UnsupportedError(f"{label}: clip and input_forget are not supported")
    turns = {b"forward": [False], b"reverse": [True], b"bidirectional": [False, True]}
    found = turns.get(given.get("direction", b"forward"))
    if found is None:
        raise ModelError(f"{label}: the direction {given['direction']!r} is not known")
    usual = [b"sigmoid", b"tanh", b"tanh"] * len(found)
    if [name.lower() for name in given.get("activations", usual)] != usual:
        raise UnsupportedError(f"{label}: only Sigmoid, Tanh and Tanh are supported as its activations")
    return found


def _turn(number: int, is_back: bool, given: dict[str, str]) -> str:
    """The text of one direction."""
    states = [
        f"{s}_% = Gather <axis = 0> ({s}0, n%)" if given[f"{s}0"] else f"{s}_% = Identity (zeros)"
        for s in "hc"
    ]
    words = {
        "BIAS": BIASED if given["b"] else "",
        "ADDED": "Add (sum, both%)" if given["b"] else "Identity (sum)",
        "STATES": " ".join([*states, BACKWARDS]),
        "AT": "at = Sub (last, i)" if is_back else "at = Identity (i)",
        "ORDER": REVERSED if is_back else "Identity (ys%)",
    }
    text = TURN
    for word, stands_for in words.items():
        text = text.replace(word, stands_for)
    return text.replace("%", str(number))
