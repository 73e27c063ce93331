"""Models that are objects of a framework in this process: PyTorch's modules, Keras' models, scikit-learn's.

In: an object; out: its ONNX, as a ModelProto. The modules of its classes tell whose it is, so that no other
framework is imported. Called by the API.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import onnx

from ingot.errors import InputError
from ingot.frontends.pytorch.exporter import reason_of
from ingot.frontends.sklearn import register

MODELS = (
    "a path, the bytes of a file, an onnx.ModelProto, or a model of PyTorch, Keras or scikit-learn "
    "(jax2onnx converts functions of JAX)"
)
SKL2ONNX = "pip install 'ingot[sklearn]'"
OPSETS = {"": 18, "ai.onnx.ml": 3}
"""What all of skl2onnx's converters write: some refuse the newest."""


def traced(model: Any, example_inputs: Any = None, dynamic_shapes: Any = None) -> Any:
    """Return the ModelProto of an object of a framework, and any other model as it is.

    Raises InputError for what is no model, and for what its framework cannot export.
    """
    if _is_of(model, "torch"):
        from ingot.frontends.pytorch import exported

        return exported(model, example_inputs, dynamic_shapes)
    if _is_of(model, "sklearn") and dynamic_shapes is None:
        return _of_sklearn(model, example_inputs)
    is_plain = isinstance(model, str | bytes | Path | onnx.ModelProto)
    if not is_plain and not _is_of(model, "keras", "tf_keras"):
        kind = f"{type(model).__module__}.{type(model).__name__}"
        raise InputError(f"an object of {kind} is not a model: give {MODELS}")
    if example_inputs is not None or dynamic_shapes is not None:
        raise InputError("example_inputs and dynamic_shapes are for a module of PyTorch's")
    return model if is_plain else _of_keras(model)


def _is_of(model: Any, *packages: str) -> bool:
    """Whether an object is of a class of these packages, or of one that is derived from such a class."""
    return any(base.__module__.partition(".")[0] in packages for base in type(model).__mro__)


def _of_keras(model: Any) -> onnx.ModelProto:
    """The ONNX of a Keras model, by way of the file that it saves."""
    from ingot.frontends.keras import import_keras

    name = str(getattr(model, "name", "")) or type(model).__name__
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        try:
            model.save(path)
        except Exception as error:  # whatever the layers themselves raise
            raise InputError(f"Keras cannot save {name}: {reason_of(error)}") from error
        proto = import_keras(path)
    proto.graph.name = name
    return proto


def _of_sklearn(model: Any, example_inputs: Any) -> onnx.ModelProto:
    """The ONNX of a fitted estimator or pipeline, without maps: probabilities are a tensor.

    Without an example, its inputs are the float32 features that it was fitted with.
    """
    name = type(model).__name__
    if example_inputs is None and not hasattr(model, "n_features_in_"):
        raise InputError(f"{name} is not fitted", remedy="call its fit() first")
    try:
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType
    except ImportError:
        raise InputError(
            f"compiling {name} needs skl2onnx, which is not installed", remedy=SKL2ONNX
        ) from None
    described = (
        {} if example_inputs is not None else {"initial_types": [("X", _features(FloatTensorType, model))]}
    )
    options = {"options": {"zipmap": False}} if hasattr(model, "classes_") else {}
    try:
        register()
        proto: onnx.ModelProto = to_onnx(model, example_inputs, target_opset=OPSETS, **described, **options)
    except Exception as error:  # whatever the converter has to say
        raise InputError(f"skl2onnx cannot convert {name}: {reason_of(error)}") from error
    proto.graph.name = name
    return proto


def _features(kind: Any, model: Any) -> Any:
    return kind([None, model.n_features_in_])
