"""The oracle of a TFLite model: litert's reference kernels, where litert is installed.

In: the file and the ONNX model made of it, whose inputs and outputs stand in the file's order. Out: an
Oracle, or None. The integers of a quantised model are those of no other runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ingot.check.oracle import Oracle, oracle
from ingot.errors import UnsupportedError
from ingot.formula.expr import Array
from ingot.frontends.formats import TFLITE, format_of
from ingot.frontends.onnx.states import declared_states

DOMAIN = "ai.ingot.tflite"
INSTALL = "pip install 'ingot[tflite]'"


def truth_of(source: Any, proto: onnx.ModelProto) -> Oracle:
    """litert for a TFLite file without variables; else what `oracle` finds for the ONNX model.

    Raises UnsupportedError where nobody takes it.
    """
    if not isinstance(source, str | Path) or format_of(Path(source)).importer != TFLITE:
        return oracle(proto)
    found = None if declared_states(proto) else _litert(Path(source), proto)
    if found is not None:
        return found
    if is_own(proto):
        reason = "no oracle: TFLite's integers are litert's alone"
        remedy = "" if declared_states(proto) else INSTALL
        raise UnsupportedError(
            f"{reason}, which is not installed or keeps its variables to itself", remedy=remedy
        )
    return oracle(proto)


def is_own(proto: onnx.ModelProto) -> bool:
    """Whether operators of TFLite's own are among the nodes, which no runtime of ONNX knows."""
    return any(o.domain == DOMAIN for o in proto.opset_import)


def _litert(path: Path, proto: onnx.ModelProto) -> Oracle | None:
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError:
        return None
    names = [v.name for v in proto.graph.input], [v.name for v in proto.graph.output]

    def run(given: Mapping[str, Array]) -> dict[str, Array]:
        try:
            reference = OpResolverType.BUILTIN_REF
            interpreter = Interpreter(str(path), experimental_op_resolver_type=reference)
            inputs = interpreter.get_input_details()
            for name, d in zip(names[0], inputs, strict=True):
                interpreter.resize_tensor_input(d["index"], np.shape(given[name]))
            interpreter.allocate_tensors()
            for name, d in zip(names[0], inputs, strict=True):
                interpreter.set_tensor(d["index"], given[name])
            interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise UnsupportedError(f"litert does not run the model: {' '.join(str(error).split())}") from None
        outputs = interpreter.get_output_details()
        pairs = zip(names[1], outputs, strict=True)
        return {name: interpreter.get_tensor(d["index"]) for name, d in pairs}

    return Oracle("litert's reference kernels", run)
