"""What operators mean that the standard does not have, as functions of those that it has.

In: a node without a definition and without a schema; out: a function, or None. `functions.py` asks last.
"""

from __future__ import annotations

import onnx

from ingot.frontends.onnx.contrib import contrib_function
from ingot.frontends.onnx.dynamic_lstm import lstm_function
from ingot.frontends.onnx.glow import glow_function


def foreign_function(call: onnx.NodeProto) -> onnx.FunctionProto | None:
    """The function that a node of Glow's or of onnxruntime's means."""
    return contrib_function(call) or lstm_function(call) or glow_function(call)
