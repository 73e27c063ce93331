"""A ModelProto as the bytes of a file, in the form that the file's suffix names.

    X.onnxtxt                         ONNX's own syntax
    X.pbtxt, X.textproto, X.prototxt  protobuf's text form
    X.onnx, X.pb, X                   protobuf's binary form

In: the model and its path. Out: bytes, which `read_proto` reads back to the same model. Called by
`ingot import`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx.printer
from google.protobuf import text_format  # type: ignore[import-untyped]  # protobuf ships no types
from onnx import numpy_helper

from ingot.errors import InputError, UnsupportedError
from ingot.frontends.onnx.tensors import tensors_of

BINARY = (".onnx", ".pb", "")
SYNTAX = ".onnxtxt"
TEXTS = (".pbtxt", ".textproto", ".prototxt")


def written(model: onnx.ModelProto, path: Path) -> bytes:
    """The bytes of the file. Raises InputError for a name that does not say which form, and UnsupportedError
    for a model that ONNX's syntax does not hold exactly.
    """
    if path.suffix in TEXTS:
        return bytes(text_format.MessageToString(model).encode())
    if path.suffix in BINARY:
        return bytes(model.SerializeToString())
    if path.suffix != SYNTAX:
        reason = f"{path}: the ending {path.suffix!r} does not say in which form to write ONNX"
        raise InputError(reason, remedy="name a file that ends in .onnx, .onnxtxt or .pbtxt")
    text = onnx.printer.to_text(model)
    if not _is_held(model, text):
        reason = f"{path}: ONNX's own syntax does not hold all of this model exactly"
        raise UnsupportedError(reason, remedy=f"write protobuf text: -o {path.with_suffix('.pbtxt')}")
    return text.encode()


def _is_held(model: onnx.ModelProto, text: str) -> bool:
    """Whether the text reads back to the same nodes and the same elements, bit for bit."""
    try:
        found = onnx.parser.parse_model(text)
    except (onnx.parser.ParseError, ValueError, RuntimeError, IndexError):
        return False
    first, second = list(tensors_of(model)), list(tensors_of(found))
    if [n.op_type for n in model.graph.node] != [n.op_type for n in found.graph.node]:
        return False
    return len(first) == len(second) and all(map(_is_same, first, second))


def _is_same(a: onnx.TensorProto, b: onnx.TensorProto) -> bool:
    if (a.data_type, list(a.dims)) != (b.data_type, list(b.dims)):
        return False
    one, other = numpy_helper.to_array(a), numpy_helper.to_array(b)
    return np.array_equal(one, other) if one.dtype == object else one.tobytes() == other.tobytes()
