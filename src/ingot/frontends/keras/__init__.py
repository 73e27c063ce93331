"""Keras' files. In: a path; out: canonical ONNX, as a ModelProto. Called by `canonical`."""

from __future__ import annotations

from pathlib import Path

import onnx

from ingot.errors import UnsupportedError


def import_keras(path: Path) -> onnx.ModelProto:
    """The ONNX of a model of Keras'. Raises UnsupportedError: such files are not read yet."""
    raise UnsupportedError(f"{path} is a Keras model, which is not read yet")
