"""Keras' files without Keras. In: a path; out: a `Source`: the model's configuration and its weights.

    X.keras     a zip archive: config.json, metadata.json, model.weights.h5 (Keras 3, and 2.12 to 2.15)
    X.h5        one HDF5 file with the configuration as an attribute (Keras 2, and 3's save to .h5)

Names in an archive are only compared, never used as paths.
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.files import MODEL_BYTES, open_file, parse_json
from ingot.frontends.keras.hdf5 import SIGNATURE, Hdf5, open_hdf5

CONFIG, METADATA, WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
SHARDS = "model.weights.json"
CONFIG_BYTES = 1 << 26
RATIO, SPARE = 100, 1 << 20  # by how much a compressed archive may grow
ENTRIES_LIMIT = 10_000
SHOWN = 40  # characters of a version in a message
OLD_BACKENDS = ("theano", "cntk")
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Source:
    """`config` is the JSON of the model; `is_flat`: weights are lists by layer, as in .h5, under `prefix`."""

    label: str
    config: Any
    version: tuple[int, int]
    weights: Hdf5
    is_flat: bool
    prefix: str = ""


def open_source(path: Path) -> Source:
    """The model in a file. Raises InputError."""
    if path.is_dir():
        raise InputError(f"{path} is a directory, no file of Keras'")
    with os.fdopen(open_file(path, MODEL_BYTES), "rb") as file:
        first = file.read(len(SIGNATURE))
    if first == SIGNATURE:
        return _hdf5(path)
    if first[:4] == b"PK\x03\x04":
        return _archive(path)
    raise InputError(f"{path} is neither a .keras archive nor an HDF5 file of Keras'")


# ---- .h5


def _hdf5(path: Path) -> Source:
    file = open_hdf5(path, str(path))
    text = file.attribute("", "model_config")
    if text is None:
        raise _no_config(path, file)
    if not isinstance(text, str):
        raise ModelError(f"{path}: its model_config is no text")
    prefix = "model_weights" if file.has("model_weights") else ""
    backend = file.attribute("", "backend") or file.attribute(prefix, "backend")
    if backend in OLD_BACKENDS:
        raise UnsupportedError(f"{path}: weights of Keras on {backend} lie in another order of axes")
    written = file.attribute("", "keras_version") or file.attribute(prefix, "keras_version")
    return Source(str(path), parse_json(text, f"{path}: model_config"), _version(written), file, True, prefix)


def _no_config(path: Path, file: Hdf5) -> InputError:
    is_weights = file.listed("", "layer_names") is not None or file.has("layers") or file.has("model_weights")
    if is_weights or file.has("_layer_checkpoint_dependencies"):
        remedy = "save the whole model: model.save('model.keras'), not model.save_weights"
        return InputError(f"{path} holds weights only: the layers they belong to are missing", remedy=remedy)
    return InputError(f"{path} is an HDF5 file, but no model of Keras': it has no model_config")


def _version(written: Any) -> tuple[int, int]:
    """(2, 11) of 2.11.0, (2, 0) where none is written. Raises UnsupportedError for Keras 1 and 4."""
    if written is None:
        return 2, 0
    found = _VERSION.match(written) if isinstance(written, str) else None
    if found is None:
        raise ModelError(f"its keras_version is {str(written)[:SHOWN]!r}, no version")
    version = (int(found[1]), int(found[2]))
    if not (2, 0) <= version < (4, 0):
        remedy = "load and save it with Keras 2 or 3"
        raise UnsupportedError(f"a file of Keras {written[:SHOWN]}: only 2 and 3 are read", remedy=remedy)
    return version


# ---- .keras


def _archive(path: Path) -> Source:
    try:
        with os.fdopen(open_file(path, MODEL_BYTES), "rb") as file, zipfile.ZipFile(file) as archive:
            return _opened(path, archive)
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError) as error:
        raise ModelError(f"{path} is a damaged archive: {error}") from None
    except (NotImplementedError, RuntimeError, ValueError, OverflowError) as error:
        raise ModelError(f"{path} is no archive of Keras': {error}") from None


def _opened(path: Path, archive: zipfile.ZipFile) -> Source:
    names = archive.namelist()
    if len(names) > ENTRIES_LIMIT or len(set(names)) != len(names):
        raise ModelError(f"{path}: an archive of {len(names)} entries, or with two of one name")
    if CONFIG not in names:
        raise InputError(f"{path} is a zip archive, but no model of Keras': it has no {CONFIG}")
    if SHARDS in names:
        raise UnsupportedError(
            f"{path}: its weights are cut into several files", remedy="save it without max_shard_size"
        )
    if WEIGHTS not in names:
        raise InputError(f"{path}: the archive has no {WEIGHTS}")
    metadata = _json(path, archive, METADATA) if METADATA in names else {}
    written = metadata.get("keras_version") if isinstance(metadata, dict) else None
    weights = open_hdf5(_entry(path, archive, WEIGHTS, MODEL_BYTES), f"{path}: {WEIGHTS}")
    version = _version(written) if written else (3, 0)
    return Source(str(path), _json(path, archive, CONFIG), version, weights, False)


def _json(path: Path, archive: zipfile.ZipFile, name: str) -> Any:
    label = f"{path}: {name}"
    try:
        return parse_json(_entry(path, archive, name, CONFIG_BYTES).decode(), label)
    except UnicodeDecodeError:
        raise ModelError(f"{label} is not text in UTF-8") from None


def _entry(path: Path, archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """One file of the archive; a small archive does not become a large one."""
    found = archive.getinfo(name)
    most = min(limit, RATIO * found.compress_size + SPARE)
    if found.file_size > most:
        raise UnsupportedError(f"{path}: {name} has {found.file_size:,} bytes; at most {most:,} are read")
    return archive.read(found)  # no more than the archive says
