"""Estimators of scikit-learn that skl2onnx does not convert: their converters, in its own form.

In: skl2onnx's scope, operator and container. Out: nodes in the container. Called by skl2onnx, which
`objects` tells of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto


def register() -> None:
    """Make the converters known to skl2onnx, unless somebody has registered others."""
    try:
        from skl2onnx import update_registered_converter
        from skl2onnx._supported_operators import sklearn_operator_name_map
        from sklearn.covariance import EllipticEnvelope
    except ImportError:  # a scikit-learn or a skl2onnx of another form, which may convert it itself
        return
    if EllipticEnvelope not in sklearn_operator_name_map:
        update_registered_converter(EllipticEnvelope, "IngotEllipticEnvelope", envelope_shapes, envelope)


def envelope_shapes(operator: Any) -> None:
    """An outlier detector's outputs, one of each for a row: the label, the score."""
    rows = operator.inputs[0].get_first_dimension()
    for output in operator.outputs:
        output.type.shape = [rows, 1]


def envelope(scope: Any, operator: Any, container: Any) -> None:
    """score = -(x - location) precision (x - location)' - offset; label = 1 where score >= 0, else -1."""
    model, (label, score) = operator.raw_operator, operator.output_full_names

    def constant(name: str, kind: int, values: Any) -> str:
        array = np.asarray(values)
        named: str = scope.get_unique_variable_name(name)
        container.add_initializer(named, kind, list(array.shape), array.reshape(-1).tolist())
        return named

    def node(operator_type: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        made: str = to or scope.get_unique_variable_name("envelope")
        name = scope.get_unique_operator_name(operator_type)
        container.add_node(operator_type, list(inputs), [made], op_version=13, name=name, **attributes)
        return made

    floats = TensorProto.FLOAT
    away = node("Sub", operator.input_full_names[0], constant("location", floats, model.location_))
    turned = node("MatMul", away, constant("precision", floats, model.precision_))
    axes = constant("axes", TensorProto.INT64, [1])
    distance = node("ReduceSum", node("Mul", turned, away), axes, keepdims=1)
    node("Sub", constant("border", floats, [-model.offset_]), distance, to=score)
    inside = node("GreaterOrEqual", score, constant("zero", floats, [0.0]))
    labels = (constant(name, TensorProto.INT64, [value]) for name, value in (("inlier", 1), ("outlier", -1)))
    node("Where", inside, *labels, to=label)
