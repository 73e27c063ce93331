"""PyTorch's models by PyTorch's own exporter. In: a .pt2 archive, or a module; out: ONNX, as a ModelProto.

An archive is checked and written anew before PyTorch sees it (`archive`, `program`), because PyTorch itself
unpickles and evaluates what a file says; it is read in a process of its own. A module is the caller's own
and is exported where it is. Called by `canonical` and `objects`; torch and onnxscript are imported where they
are used.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from ingot.errors import InputError, ModelError, ToolchainError, UnsupportedError
from ingot.files import MODEL_BYTES
from ingot.frontends.pytorch import exporter
from ingot.frontends.pytorch.archive import open_archive
from ingot.frontends.pytorch.installed import require_torch
from ingot.targets.process import Content, produce

__all__ = ["exported", "import_pytorch"]
EXPORTER = Path(exporter.__file__)
ONNX_FILE = "torch.onnx.export(module, example_inputs, 'model.onnx', dynamo=True, external_data=True)"


def import_pytorch(path: Path) -> onnx.ModelProto:
    """The ONNX of what torch.export.save wrote. Raises InputError."""
    found = open_archive(path)
    versions = require_torch(f"reading {path}")
    files: dict[str, Content] = {EXPORTER.name: EXPORTER, "model.pt2": found.data}
    try:
        made = produce((sys.executable, "-I", EXPORTER.name), files, "made.bin", version=versions)
    except (ToolchainError, OSError):
        raise ModelError(f"{path} is damaged, or too large: {versions} fails on it") from None
    reason, _, data = made.partition(b"\n")
    if reason:
        raise ModelError(
            f"{path}: {versions} cannot export it, which PyTorch {found.saved_by} saved: {reason.decode()}",
            remedy="save it again with the PyTorch that is installed, or export ONNX where it was made",
        )
    return _cleaned(_parsed(data), path.stem)


def exported(model: Any, example_inputs: Any, dynamic_shapes: Any) -> onnx.ModelProto:
    """The ONNX of a module or an ExportedProgram, as it is at inference. Raises InputError."""
    name = type(model).__name__
    versions = require_torch(f"compiling the module {name}")
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        arguments, named = _arguments((), name)
    elif isinstance(model, torch.jit.ScriptModule):
        raise UnsupportedError(f"{name} is TorchScript", remedy="compile the module that it was made of")
    elif isinstance(model, torch.nn.Module):
        arguments, named = _arguments(example_inputs, name)
    else:
        remedy = "compile a torch.nn.Module or a torch.export.ExportedProgram"
        raise InputError(f"an object of {type(model).__module__}.{name} is not a model", remedy=remedy)
    try:
        data = exporter.onnx_of(model, arguments, named, dynamic_shapes)
    except Exception as error:  # whatever the module itself raises while it is traced
        raise InputError(
            f"{versions} cannot export {name}: {exporter.reason_of(error)}",
            remedy="torch.onnx.export(module, example_inputs, dynamo=True, report=True) says more",
        ) from error
    return _cleaned(_parsed(data), name)


def _arguments(given: Any, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as positional and named arguments: a tensor, a sequence or a dict by names."""
    if given is None:
        remedy = "ingot.compile(module, example_inputs): a tensor, a tuple of them, or a dict by names"
        raise InputError(f"the module {name} is traced with example inputs, which are missing", remedy=remedy)
    if isinstance(given, Mapping):
        return (), dict(given)
    return (tuple(given), {}) if isinstance(given, tuple | list) else ((given,), {})


def _parsed(data: bytes) -> onnx.ModelProto:
    if len(data) > MODEL_BYTES:
        said = f"the exported model has {len(data):,} bytes; protobuf reads at most {MODEL_BYTES:,}"
        raise InputError(said, remedy=f"{ONNX_FILE}, and compile that")
    proto = onnx.ModelProto()
    proto.ParseFromString(data)
    return proto


def _cleaned(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model without what the exporter notes of the program's source: it would differ by the machine."""
    proto.graph.name = name
    graphs = [proto.graph, *proto.functions]
    while graphs:
        graph = graphs.pop()
        values = [graph.input, graph.output, graph.initializer] if isinstance(graph, onnx.GraphProto) else []
        for held in [graph, *(v for vs in (*values, graph.value_info) for v in vs), *graph.node]:
            del held.metadata_props[:]
            held.doc_string = ""
        graphs += [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return proto
