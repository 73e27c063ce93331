"""Sessions of onnxruntime that add products of bytes exactly, on every processor."""

from __future__ import annotations

from typing import Any

import onnx

EXACT = "session.x64quantprecision"


def exact_session(model: onnx.ModelProto, options: Any = None) -> Any:
    """A session whose sums of uint8 times constant int8 do not saturate.

    Without VNNI onnxruntime adds such products in int16 (MLAS, `vpmaddubsw`) unless told not to; told so, it
    fails on convolutions of int8, whose sums are exact anyway.
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
