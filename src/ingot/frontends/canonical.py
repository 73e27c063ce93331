"""One door for models. In: whatever the user names; out: ONNX, as a file or a ModelProto.

`formats` has the table of what is recognised and who imports it. Called by the driver and by whatever else
opens a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ingot.errors import InputError
from ingot.files import named
from ingot.frontends.formats import CAFFE2, FORMATS, KERAS, ONNX, TENSORFLOW, TFLITE, Format, format_of
from ingot.options import Options

SPELLED = {
    "inputs": "--inputs",
    "outputs": "--outputs",
    "config": "--config",
    "model_inputs": "--model-input",
}
"""The options that only some importers understand, as users write them."""
FRAMEWORKS = {ONNX: "ONNX", TENSORFLOW: "TensorFlow", TFLITE: "TFLite", KERAS: "Keras", CAFFE2: "Caffe2"}
"""The framework whose models an importer with options of its own reads."""


def is_foreign(model: Any) -> bool:
    """Whether a path is that of a model in another format than ONNX."""
    if not isinstance(model, str | Path):
        return False
    try:
        return not format_of(Path(model)).is_onnx
    except InputError:  # who reads it says what is wrong
        return False


def canonical(model: Any, options: Options) -> Any:
    """The model in ONNX's terms: a ModelProto of the file's name for one that is foreign or that options
    change; any other as it is. Raises InputError.
    """
    made = _fixed(model, options) if options.fix else _in_onnx(model, options)
    if isinstance(model, str | Path) and not isinstance(made, str | Path):
        made.graph.name = named(Path(model)).stem
    return made


def _fixed(model: Any, options: Options) -> Any:
    """The model without the inputs that are fixed, as a ModelProto."""
    from ingot.frontends.onnx import read_proto
    from ingot.frontends.onnx.fixed import fixed

    made = _in_onnx(model, options)
    home = Path(made) if isinstance(made, str | Path) else None
    return fixed(read_proto(made), options.fix, options.define, home)


def _in_onnx(model: Any, options: Options) -> Any:
    if not isinstance(model, str | Path):
        return _cut(_described(model, options.model_inputs), options.outputs)
    found = format_of(Path(model))
    given = {k: getattr(options, k) for k in SPELLED if getattr(options, k, ())}
    if found.is_onnx:
        return _cut(_described(_plain(found, model, given), options.model_inputs), options.outputs)
    return _imported(found, named(Path(model)), given)


def imported(path: Path, **given: Any) -> Any:
    """The ModelProto of a model in any format. `given` are options for the importer, empty ones not meant.

    Raises InputError.
    """
    found, meant = format_of(path), {k: v for k, v in given.items() if v}
    if found.is_onnx:
        from ingot.frontends.onnx import read_proto

        plain = _described(_plain(found, path, meant), given.get("model_inputs", ()))
        return read_proto(_cut(plain, given.get("outputs", ())))
    return _imported(found, named(path), meant)


def source_files(path: Path) -> list[Path]:
    """The files of a foreign model, in order: what a digest of it covers."""
    return format_of(path).files(path)


def _plain(found: Format, model: Any, given: dict[str, Any]) -> Any:
    _require_taken(found, given)
    return model


def _described(model: Any, words: Sequence[str]) -> Any:
    """The ModelProto of an ONNX model with inputs as the user describes them; as it is if they do not."""
    if not words:
        return model
    from ingot.frontends.model_inputs import parse_model_inputs
    from ingot.frontends.onnx import read_proto
    from ingot.frontends.onnx.described import described

    home = Path(model) if isinstance(model, str | Path) else None
    return described(read_proto(model), parse_model_inputs(words), home)


def _cut(model: Any, names: Sequence[str]) -> Any:
    """The ModelProto of an ONNX model with these outputs; as it is if none are named."""
    if not names:
        return model
    from ingot.frontends.onnx import read_proto
    from ingot.frontends.onnx.cut import with_only
    from ingot.frontends.onnx.tensors import embed_external

    proto = with_only(read_proto(model), names)
    if isinstance(model, str | Path):
        embed_external(proto, Path(model))
        proto.graph.name = named(Path(model)).stem
    return proto


def _imported(found: Format, path: Path, given: dict[str, Any]) -> Any:
    _require_taken(found, given)
    module, _, function = found.importer.partition(":")
    return getattr(import_module(module), function)(path, **given)


def _require_taken(found: Format, given: dict[str, Any]) -> None:
    """Raise InputError for an option that says nothing to this importer."""
    for key in given:
        if key not in found.takes:
            whose = dict.fromkeys(FRAMEWORKS[f.importer] for f in FORMATS if key in f.takes)
            files = [word for word in given[key] if key == "inputs" and word.endswith((".npy", ".npz"))]
            remedy = f"the elements of an input are --input {files[0]}" if files else ""
            raise InputError(
                f"{SPELLED[key]} is for models of {' and '.join(whose)}; this is {found.name}", remedy=remedy
            )
