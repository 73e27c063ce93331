"""A float model quantised by onnxruntime's tools, as its users have it.

In: a model and how. Out: the model that onnxruntime writes: QDQ with ranges from random inputs (`static`, or
`operators` in the older form), or with ranges that the run measures (`dynamic`).
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from ingot.formula.expr import Array
from ingot.graph.onnx_types import dtype_from_onnx

HOW = ("static", "operators", "dynamic")
FEEDS = 3


class _Feeds(CalibrationDataReader):  # type: ignore[misc]
    """Random inputs, a few times."""

    def __init__(self, model: onnx.ModelProto) -> None:
        rng = np.random.default_rng(0)
        self.feeds = iter([{i.name: _drawn(i, rng) for i in model.graph.input} for _ in range(FEEDS)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.feeds, None)


def _drawn(value: onnx.ValueInfoProto, rng: np.random.Generator) -> Array:
    shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
    return rng.standard_normal(shape).astype(dtype_from_onnx(value.type.tensor_type.elem_type).numpy)


def quantized(model: onnx.ModelProto, how: str, unsigned: bool = False) -> onnx.ModelProto:
    """The model in int8, for each channel if static, or in `unsigned` bytes."""
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source, made = Path(folder) / "float.onnx", Path(folder) / "quantized.onnx"
        onnx.save(model, source)
        weights = QuantType.QUInt8 if unsigned else QuantType.QInt8
        if how == "dynamic":
            quantize_dynamic(source, made, weight_type=weights)
        else:
            form = QuantFormat.QDQ if how == "static" else QuantFormat.QOperator
            types = {"activation_type": weights, "weight_type": weights, "per_channel": not unsigned}
            quantize_static(source, made, _Feeds(model), quant_format=form, **types)
        return onnx.load(made)
