"""A look at what a user names, before anything reads it: enough to tell which format it has.

In: a path, or the bytes of a model. Out: a `Sample`, each of whose properties reads no more than it needs:
the first bytes, the fields of a protobuf message, the keys of its text form, the entries of a zip archive or
of a folder. Nothing in it raises for what the content says; a file that cannot be read is an InputError.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ingot.errors import InputError
from ingot.files import open_file, read_part
from ingot.frontends.wire import fields

HEAD = 1 << 16
FIELDS_LIMIT = 256  # of a message that are looked at
ENTRIES_LIMIT = 4096  # of an archive or a folder
ARCHIVE_BYTES = 1 << 36
MAGIC_BYTES = 8  # of a checkpoint's index, at its end
_TOKENS = re.compile(
    r"\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?|#[^\n]*|(?P<word>\w+)(?P<key>\s*(?=[:{<]))?|[{}<>\[\]]"
)
Field = tuple[int, int, bytes]
"""The number and wire type of a field, and as much of its content as was read."""


@dataclass(frozen=True)
class Sample:
    """`path` is None for a model that is bytes in memory, which are `data`."""

    path: Path | None
    data: bytes = b""

    @property
    def is_folder(self) -> bool:
        return self.path is not None and self.path.is_dir()

    @cached_property
    def head(self) -> bytes:
        """The first bytes, of a folder none. Raises InputError."""
        if self.is_folder:
            return b""
        return self.data[:HEAD] if self.path is None else read_part(self.path, 0, HEAD)

    @cached_property
    def tail(self) -> bytes:
        """The last eight bytes."""
        if self.path is None or self.is_folder:
            return self.data[-MAGIC_BYTES:]
        return read_part(self.path, max(os.stat(self.path).st_size - MAGIC_BYTES, 0), MAGIC_BYTES)

    @cached_property
    def text(self) -> str:
        """The first characters if this is text, else nothing."""
        if b"\0" in self.head:
            return ""
        try:
            return self.head.decode()
        except UnicodeDecodeError as error:  # a character may be cut in two at the end
            is_cut = len(self.head) == HEAD and error.start > HEAD - 4
            return self.head[: error.start].decode() if is_cut else ""

    @cached_property
    def fields(self) -> list[Field]:
        """The first fields of a protobuf message, the last one perhaps cut; none if none begins here."""
        return fields_of(self.head)

    @cached_property
    def keys(self) -> list[str]:
        """The first keys of protobuf's text form that stand outside of all braces, each once."""
        found: dict[str, None] = {}
        depth = 0
        for token in _TOKENS.finditer(self.text):
            if token["word"]:
                found.update({token["word"]: None} if token["key"] is not None and not depth else {})
            else:
                depth += (token[0] in "{<[") - (token[0] in "}>]")
        return list(found)

    @cached_property
    def entries(self) -> frozenset[str]:
        """The names of the files in a zip archive or a folder."""
        if self.is_folder:
            return frozenset(_listed(self.path)) if self.path else frozenset()
        return frozenset(_zipped(self.path)) if self.path and self.head[:4] == b"PK\x03\x04" else frozenset()


def fields_of(data: bytes) -> list[Field]:
    """The fields of a message of which `data` is the beginning."""
    return list(fields(data, FIELDS_LIMIT))


def _listed(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as found:
            for entry, _ in zip(found, range(ENTRIES_LIMIT), strict=False):
                if entry.is_file():
                    yield entry.name
    except OSError as error:
        raise InputError(f"cannot read {str(folder)!r}: {error.strerror or error}") from None


def _zipped(path: Path) -> list[str]:
    """What an archive lists; nothing where the list is damaged."""
    try:
        with os.fdopen(open_file(path, ARCHIVE_BYTES), "rb") as file, zipfile.ZipFile(file) as archive:
            return archive.namelist()[:ENTRIES_LIMIT]
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, EOFError):
        return []


# ---- tests: functions that tell whether a sample is of some format

Test = Callable[[Sample], bool]


def keyed(keys: Collection[str], needed: Collection[str]) -> Test:
    """A protobuf message as text: its keys outside of braces, of which one of `needed` must be there."""
    return lambda s: set(s.keys) <= set(keys) and not set(needed).isdisjoint(s.keys)


def starts(*magic: bytes) -> Test:
    """A file that begins with one of these."""
    return lambda s: s.head.startswith(magic)


def flatbuffer(identifier: bytes) -> Test:
    return lambda s: s.head[4:8] == identifier


def holds(*names: str) -> Test:
    """A folder with one of these files."""
    return lambda s: s.is_folder and not s.entries.isdisjoint(names)


def zipped(*endings: str) -> Test:
    """A zip archive, with an entry for each of these endings."""

    def test(s: Sample) -> bool:
        if not s.head.startswith(b"PK\x03\x04"):
            return False
        return all(any(f"/{name}".endswith(ending) for name in s.entries) for ending in endings)

    return test
