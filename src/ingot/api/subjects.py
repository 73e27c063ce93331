"""What a verb is about, and how: models and bundles opened, options checked.

In: what a caller of the API gives. Out: a model as the driver takes it, a `Bundle`, an `Options`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, get_args, get_type_hints

import msgspec

from ingot.bundle.bundle import Bundle, load
from ingot.compression.model import Compressed
from ingot.data.samples import Data as ReadData
from ingot.driver import compile_with
from ingot.errors import InputError
from ingot.frontends.canonical import is_foreign
from ingot.frontends.objects import traced
from ingot.loops.tuning import read_tuning
from ingot.options import OptionFields, Options
from ingot.quantization.quantize import Quantized

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx

    from ingot.formula.expr import Array

KINDS = {
    "object": "a dict",
    "array": "a list or tuple",
    "str": "text",
    "int": "an integer",
    "float": "a number",
    "bool": "True or False",
    "null": "None",
}
"""What Python calls the types that msgspec names as JSON does."""


class Module(Protocol):
    """What PyTorch's exporter takes: a `torch.nn.Module`, or a `torch.export.ExportedProgram`."""

    @property
    def state_dict(self) -> object: ...


class Layers(Protocol):
    """A model of Keras'."""

    @property
    def get_config(self) -> object: ...


class Estimator(Protocol):
    """A fitted estimator or pipeline of scikit-learn's."""

    @property
    def get_params(self) -> object: ...


Model: TypeAlias = "str | Path | bytes | onnx.ModelProto | Quantized | Compressed | Layers | Estimator"
"""A file of any format that is read, its bytes, a model in ONNX's terms, an object of a framework, or what a
verb made of a model."""
Data: TypeAlias = "str | Path | Sequence[str | Path] | Mapping[str, Array]"
"""Samples: arrays by the inputs' names, or files and folders as `ingot profile --inputs` takes them."""


def opened(
    model: Model | Module, example_inputs: object = None, dynamic_shapes: object = None
) -> str | Path | bytes | onnx.ModelProto:
    """Return the model itself, of what a verb made, and the ONNX of an object of a framework.

    Raises InputError for what is no model.
    """
    inner = model.model if isinstance(model, (Quantized, Compressed)) else model
    return cast("str | Path | bytes | onnx.ModelProto", traced(inner, example_inputs, dynamic_shapes))


def is_bundle(subject: Model | Bundle) -> bool:
    """Return whether this is a bundle, its directory, or its manifest where there are several."""
    if isinstance(subject, (str, Path)):
        path = Path(subject)
        return path.suffix == ".json" or (path.is_dir() and not is_foreign(path))
    return isinstance(subject, Bundle)


def bundle_of(subject: Model | Bundle, options: Options) -> Bundle:
    """Return a bundle, the one in a directory or of a manifest, or the one that a model compiles to."""
    if isinstance(subject, Bundle):
        return subject
    if is_bundle(subject):
        return load(cast("str | Path", subject))
    return compile_with(opened(subject), options)


def name_of(subject: Model | Bundle) -> str:
    """Return what a person calls it."""
    if isinstance(subject, (str, Path)):
        return str(subject)
    return subject.name if isinstance(subject, Bundle) else "model"


def words_of(data: Data) -> ReadData:
    """Return the data as it is read: arrays, or words."""
    if isinstance(data, (str, Path)):
        return [str(data)]
    return [str(word) for word in data] if isinstance(data, Sequence) else data


def options_of(verb: str, given: OptionFields) -> Options:
    """Return the record of the options.

    Raises TypeError for a keyword that is none, InputError for a value that is none of its option's.
    """
    known = [f.name for f in fields(Options)]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}{hint}")
    values: dict[str, Any] = dict(given)
    if isinstance(values.get("tuning"), (str, Path)):
        values["tuning"] = read_tuning(Path(values["tuning"]))
    try:
        return msgspec.convert(values, Options)
    except msgspec.ValidationError as error:
        raise InputError(_complaint(str(error), values)) from None


def _complaint(text: str, values: dict[str, Any]) -> str:
    """What is wrong with which option: msgspec's words, or the words that it takes."""
    reason, _, place = text.partition(" - at `$.")
    name = place.rstrip("`").split("[")[0].split(".")[0]
    hint = get_type_hints(Options)[name]
    known = [v for part in (hint, *get_args(hint)) for v in get_args(part)]
    words = [repr(v) for v in known if isinstance(v, str)]
    subject = f"--{name.replace('_', '-')} is {values[name]!r}"
    if repr(values[name]) in words:
        return f"{subject}: write a tuple, ({values[name]!r},)"
    if words:
        return f"{subject}: choose from {', '.join(words)}"
    reason = re.sub("`([a-z| ]+)`", lambda kinds: _said(kinds[1]), reason)
    return f"{subject}: {reason[0].lower()}{reason[1:]}"


def _said(kinds: str) -> str:
    """Return what Python calls one of several types: `int | array` is an integer or a list or tuple."""
    return " or ".join(KINDS.get(kind, kind) for kind in kinds.split(" | "))
