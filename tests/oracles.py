"""Answers of onnxruntime that add products of bytes exactly, on every processor.

Without VNNI onnxruntime adds products of uint8 and int8 in int16, which saturates (MLAS, `vpmaddubsw`). It
can be told not to where the int8 is constant; for what is left ONNX's reference evaluator answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ingot.targets.toolchain import cpu_features

EXACT = "session.x64quantprecision"
PRODUCTS = {"QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"}
Array = np.ndarray[Any, Any]


def exact_outputs(model: onnx.ModelProto, feeds: Mapping[str, Array], options: Any = None) -> list[Array]:
    """onnxruntime's answer; the reference's where this processor makes onnxruntime's sums saturate."""
    found = exact_session(model, options).run(None, {n: a.copy() for n, a in feeds.items()})
    operators = {n.op_type for n in model.graph.node}
    if operators & PRODUCTS and not {"avx512_vnni", "avx_vnni"} & set(cpu_features()):
        with suppress(ValueError):  # the reference fails on scales per channel but for images (onnx 1.23)
            found = ReferenceEvaluator(model).run(None, dict(feeds))
    return [np.asarray(a) for a in found]


def exact_session(model: onnx.ModelProto, options: Any = None) -> Any:
    """A session whose sums of uint8 times constant int8 do not saturate.

    Told so, onnxruntime fails on convolutions of int8, whose sums are exact anyway.
    """
    import onnxruntime as ort

    options = ort.SessionOptions() if options is None else options
    options.log_severity_level = 4
    content, providers = model.SerializeToString(), ["CPUExecutionProvider"]
    options.add_session_config_entry(EXACT, "1")
    try:
        return ort.InferenceSession(content, options, providers=providers)
    except Exception as error:  # it raises classes of its own
        if "Failed to find kernel" not in str(error):
            raise
    options.add_session_config_entry(EXACT, "0")
    return ort.InferenceSession(content, options, providers=providers)
