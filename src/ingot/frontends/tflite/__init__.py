"""TFLite's files without TensorFlow. In: a path; out: canonical ONNX, as a ModelProto.

Integers stay integers: what quantised operators compute is TFLite's reference kernels' to the bit, by the
operators of the domain ai.ingot.tflite (`ops/tflite.py`) where ONNX has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx

from ingot.errors import InputError, UnsupportedError
from ingot.files import read_file
from ingot.frontends.tflite.importing import import_model
from ingot.frontends.tflite.model import parse_model


def import_tflite(path: Path, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> onnx.ModelProto:
    """The ONNX of a TFLite model.

    `inputs` are NAME:SHAPE for inputs of another shape than the file's, `outputs` names of those wanted, all
    without a word. Raises InputError for what cannot be read or imported; it names the file or the operator.
    """
    data = read_file(path)
    try:
        return import_model(parse_model(data), path.stem, inputs, outputs)
    except RecursionError:
        raise UnsupportedError("the model's subgraphs are nested too deeply") from None
    except InputError as error:
        raise type(error)(f"{path.name}: {error}") from None
