"""Rows of Scan: carried values, slices from and to any axis, in either direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser

from .rows import Row, floats

# A running sum per row, and what each step adds to it, doubled.
BODY = onnx.parser.parse_graph("""step (float[3] total, float[3] x) => (float[3] more, float[3] twice) {
    more = Add (total, x)
    twice = Add (x, x)
}""")
ONLY_SLICES = onnx.parser.parse_graph("""step (float[3, 2] x, float[3] y) => (float[3, 2] z) {
    axes = Constant <value_ints = [1]> ()
    column = Unsqueeze (y, axes)
    z = Mul (x, column)
}""")


def _row(note: str, x: Any, **attributes: Any) -> Row:
    attributes = {"body": BODY, "num_scan_inputs": 1, **attributes}
    return Row("Scan", [floats(3, seed=1), x], attributes, outputs=2, note=note)


def _batches(note: str, lengths: Any, **attributes: Any) -> Row:
    """Scan-8. What is collected behind the end of a sequence is undefined: there only the sums are wanted."""
    first, x = floats(2, 3, seed=1), floats(2, 4, 3)
    attributes = {"body": BODY, "num_scan_inputs": 1, **attributes}
    if lengths is None or min(lengths) == 4:
        return Row("Scan", [lengths, first, x], attributes, outputs=2, opset=8, note=note)
    sums = first + np.stack([x[b, :n].sum(axis=0) for b, n in enumerate(lengths)])
    return Row(
        "Scan", [lengths, first, x], attributes, outputs=[True, False], opset=8, oracle=[sums], note=note
    )


ROWS = [
    _row("plain", floats(4, 3)),
    _row("one_step", floats(1, 3)),
    _row("axis_1", floats(3, 4), scan_input_axes=[1], scan_output_axes=[-1]),
    _row("backwards", floats(4, 3), scan_input_directions=[1]),
    _row("out_backwards", floats(4, 3), scan_output_directions=[1]),
    _row(
        "all_at_once",
        floats(3, 4),
        scan_input_axes=[-1],
        scan_input_directions=[1],
        scan_output_axes=[1],
        scan_output_directions=[1],
    ),
    _batches("batches", None),
    _batches("batches_backwards", None, directions=[1]),
    _batches("batches_of_full_length", np.array([4, 4])),
    _batches("batches_of_lengths", np.array([4, 2])),
    _batches("batches_of_lengths_backwards", np.array([0, 3]), directions=[1]),
    Row(
        "Scan",
        [floats(3, 5, 2), floats(5, 3, seed=2)],
        {"body": ONLY_SLICES, "num_scan_inputs": 2, "scan_input_axes": [1, 0], "scan_output_axes": [1]},
        note="no_state",
    ),
]
