"""TensorFlow's files without TensorFlow. In: a path; out: canonical ONNX, as a ModelProto.

A frozen GraphDef (`.pb`, or `.pbtxt` as text), a checkpoint (`X.meta` or `X.index`, or its directory) or a
SavedModel's directory. Variables become constants; only what leads from the inputs to the outputs is
looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from ingot.errors import UnsupportedError
from ingot.frontends.tensorflow.config import Feed, Fetch, parse_inputs, parse_outputs, read_config
from ingot.frontends.tensorflow.files import Source, open_source
from ingot.frontends.tensorflow.importing import import_graph

CONFIG = ".config.pbtxt"


def import_tensorflow(
    path: Path, inputs: Sequence[str] = (), outputs: Sequence[str] = (), config: Path | None = None
) -> onnx.ModelProto:
    """The ONNX of a model of TensorFlow's.

    `inputs` are NAME:SHAPE, `outputs` names, of nodes or of a SavedModel's signature. `config` is a tfcompile
    configuration; without a word from the caller, X.config.pbtxt beside the file is one. Raises InputError
    for what cannot be read or imported.
    """
    feeds, fetches = parse_inputs(inputs), parse_outputs(outputs)
    beside = path.with_name(path.stem + CONFIG)
    if config is not None or (beside.is_file() and not (feeds or fetches)):
        given = read_config(config or beside)
        feeds, fetches = feeds or given[0], fetches or given[1]
    source = open_source(path)
    feeds, fetches = _by_signature(source, feeds, fetches)
    try:
        return import_graph(source.model, source.name, feeds, fetches, source.variable)
    except RecursionError:
        raise UnsupportedError("the model's loops and functions are nested too deeply") from None


def _by_signature(source: Source, feeds: list[Feed], fetches: list[Fetch]) -> tuple[list[Feed], list[Fetch]]:
    """Names of the signature stand for its nodes; without any name, all of the signature is meant."""
    by_name = {f.name: f for f in source.feeds}
    outputs = {f.name: f for f in source.fetches}
    known = [
        replace(by_name[f.name], shape=f.shape or by_name[f.name].shape) if f.name in by_name else f
        for f in feeds
    ]
    return known or list(source.feeds), [outputs.get(f.name, f) for f in fetches] or list(source.fetches)
