"""Files that commands read, and those they write: complete, or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ingot.errors import InputError


def read_file(path: Path) -> bytes:
    """A file's bytes. Raises InputError where there is none."""
    if not path.is_file():
        raise InputError(f"cannot read {str(path)!r}: {'not a regular' if path.exists() else 'no such'} file")
    return path.read_bytes()


def write_file(path: Path, data: bytes) -> None:
    """Write a file by way of a temporary one beside it; folders that are missing are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".ingot-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
