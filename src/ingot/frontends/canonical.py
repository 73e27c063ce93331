"""Which frontend reads a model. In: whatever the user names; out: ONNX, as a file or a ModelProto.

    graph.pb, graph.pbtxt                      a GraphDef of TensorFlow's
    model.meta, model.index, a directory       a checkpoint, or a SavedModel, of TensorFlow's
    everything else                            for the ONNX reader, as it is

Called by the driver and by whatever else opens a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from glob import escape
from pathlib import Path
from typing import Any

from ingot.errors import InputError
from ingot.files import read_part
from ingot.options import Options

SUFFIXES = (".pb", ".pbtxt", ".meta", ".index")
ONNX_FIRST_BYTE = b"\x08"  # an ir_version; a GraphDef begins with a node
INSIDE = ("saved_model.pb", "saved_model.pbtxt", "checkpoint")
PARTS = (*INSIDE, "*.meta", "*.index", "*.data-*", "variables/variables.*")


def is_foreign(model: Any) -> bool:
    """Whether a path is that of a model in another format than ONNX."""
    if not isinstance(model, str | Path):
        return False
    path = Path(model)
    if path.is_dir():
        return any((path / name).is_file() for name in INSIDE) or bool(_checkpoints(path))
    if path.suffix not in SUFFIXES or not path.is_file():
        return False
    return path.suffix != ".pb" or read_part(path, 0, 1) != ONNX_FIRST_BYTE


def canonical(model: Any, options: Options) -> Any:
    """The model in ONNX's terms: a ModelProto for a foreign one, any other as it is. Raises InputError."""
    if is_foreign(model):
        return imported(Path(model), options.inputs, options.outputs)
    if (options.inputs or options.outputs) and isinstance(model, str | Path):
        raise InputError("--inputs and --outputs are for models of TensorFlow; an ONNX model says itself")
    return model


def imported(
    path: Path, inputs: Sequence[str] = (), outputs: Sequence[str] = (), config: Path | None = None
) -> Any:
    """The ModelProto of a foreign model. Raises InputError for a path that is none."""
    if not is_foreign(path):
        known = "a GraphDef (.pb, .pbtxt), a checkpoint or a SavedModel of TensorFlow's"
        raise InputError(f"{str(path)!r} is no model to be imported", remedy=f"know {known}")
    from ingot.frontends.tensorflow import import_tensorflow

    return import_tensorflow(path, inputs, outputs, config)


def source_files(path: Path) -> list[Path]:
    """The files of a foreign model, in order: what a digest of it covers."""
    if path.suffix in (".meta", ".index"):
        return sorted(p for p in path.parent.glob(f"{escape(path.stem)}.*") if p.is_file())
    if not path.is_dir():
        return [path]
    return sorted({p for pattern in PARTS for p in path.glob(pattern) if p.is_file()})


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.meta")) or sorted(folder.glob("*.index"))
