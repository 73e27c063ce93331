"""Models of older opsets brought to one that has 4-bit integers. In: a ModelProto; out: the same, newer, or
as it was.

ONNX's own converter does it, on the model without its large constants. Where it cannot, the model keeps its
opset and codes are bytes. Called by `compress` before anything holds on to parts of the model.
"""

from __future__ import annotations

import onnx
import onnx.checker
import onnx.version_converter
from onnx import helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_shapes
from onnx.version_converter import ConvertError

from ingot.compression.write import UINT4_IR
from ingot.graph.onnx_form import UINT4_OPSET

SMALL_BYTES = 4096  # constants of shapes and axes, which the converter looks into


def opset_of(model: onnx.ModelProto) -> int:
    """The opset of ONNX's own domain."""
    return max((int(o.version) for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)


def modernise(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in opset 21 if it was older and ONNX can convert it; else the model."""
    if opset_of(model) >= UINT4_OPSET:
        return model
    skeleton, bulk = _without_bulk(model)
    try:
        _declare_outputs(skeleton)
        onnx.checker.check_model(skeleton)  # the converter looks at what is malformed, and may crash
        made = onnx.version_converter.convert_version(skeleton, UINT4_OPSET)
    except (RuntimeError, ValueError, ConvertError, InferenceError, ValidationError):
        return model
    standing_in = {t.name for t in bulk} - {v.name for v in model.graph.input}
    inputs = [v for v in made.graph.input if v.name not in standing_in]
    del made.graph.input[:]
    made.graph.input.extend(inputs)
    made.graph.initializer.extend(bulk)
    if not _same_ends(made, model):
        return model
    del made.graph.output[:]  # as the model declares them
    made.graph.output.extend(model.graph.output)
    return made


def _declare_outputs(skeleton: onnx.ModelProto) -> None:
    """Declare shapes of outputs that have none, which ONNX's checker asks for and runtimes do not."""
    if all(v.type.tensor_type.HasField("shape") for v in skeleton.graph.output):
        return
    inferred = infer_shapes(skeleton).graph.output
    del skeleton.graph.output[:]
    skeleton.graph.output.extend(inferred)


def _without_bulk(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[onnx.TensorProto]]:
    """The model with inputs in place of its large constants, and these."""
    bulk = [t for t in model.graph.initializer if t.ByteSize() > SMALL_BYTES]
    names = {t.name for t in bulk}
    inputs = {v.name for v in model.graph.input}
    skeleton = onnx.ModelProto(ir_version=max(model.ir_version, UINT4_IR), producer_name=model.producer_name)
    skeleton.opset_import.extend(model.opset_import)
    graph = skeleton.graph
    for field in ("node", "input", "output", "value_info", "sparse_initializer", "quantization_annotation"):
        getattr(graph, field).extend(getattr(model.graph, field))
    graph.name = model.graph.name or "graph"
    graph.initializer.extend(t for t in model.graph.initializer if t.name not in names)
    for tensor in bulk:
        if tensor.name not in inputs:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return skeleton, bulk


def _same_ends(made: onnx.ModelProto, model: onnx.ModelProto) -> bool:
    """Whether inputs, outputs and constants have the names they had."""

    def ends(m: onnx.ModelProto) -> list[set[str]]:
        graph = m.graph
        return [{v.name for v in values} for values in (graph.input, graph.output, graph.initializer)]

    before, after = ends(model), ends(made)
    return before[:2] == after[:2] and before[2] <= after[2] and opset_of(made) == UINT4_OPSET
