"""Archives of torch.export.save, believed in nothing. In: a path; out: the archive written anew, or an error.

    NAME/models/model.json                           the program
    NAME/data/weights/model_weights_config.json      which weights there are, and where: weight_0, ...
    NAME/data/constants/model_constants_config.json  the same for constants: tensor_0, ...
    NAME/data/sample_inputs/model.pt                 a pickle, which is left out

PyTorch unpickles weights, constants and samples that an archive declares so, and loads compiled code that
lies in it. So it gets an archive that holds the plain bytes of tensors and a program that was checked, and
nothing else. Names are only compared, never used as paths.
"""

from __future__ import annotations

import io
import json
import os
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ingot.errors import ModelError, UnsupportedError
from ingot.files import MODEL_BYTES, conform, open_file, parse_json
from ingot.frontends.pytorch.program import checked

JSON_BYTES = 1 << 26
ENTRIES_LIMIT = 1 << 17
PROGRAM, SAMPLES = "models/model.json", "data/sample_inputs/model.pt"
TENSORS = (
    ("data/weights/", "model_weights_config.json", re.compile(r"weight_\d{1,9}")),
    ("data/constants/", "model_constants_config.json", re.compile(r"tensor_\d{1,9}")),
)
PLAIN = {"archive_format": b"pt2", "archive_version": b"0", ".data/version": b"3\n", "byteorder": b"little"}
AGAIN = "load and save it with PyTorch 2.9 or newer"
TRACE = "ingot.compile(module, example_inputs) in Python takes the module itself"


class Payload(msgspec.Struct):
    """What an archive says of a tensor; `tensor_meta` is checked with the program's words."""

    path_name: str
    is_param: bool
    use_pickle: bool
    tensor_meta: dict[str, Any] | None


class Payloads(msgspec.Struct):
    """The tensors of an archive by name."""

    config: dict[str, Payload]


@dataclass(frozen=True, slots=True)
class Archive:
    """`data` is the archive as PyTorch may read it, `saved_by` the version that wrote the file."""

    data: bytes
    saved_by: str


def open_archive(path: Path) -> Archive:
    """The archive at a path, checked. Raises InputError."""
    try:
        with os.fdopen(open_file(path, MODEL_BYTES), "rb") as file, zipfile.ZipFile(file) as archive:
            return _Reading(path, archive).rewritten()
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError) as error:
        raise ModelError(f"{path} is a damaged archive: {_line(error)}") from None
    except (NotImplementedError, RuntimeError, ValueError, OverflowError) as error:
        raise ModelError(f"{path} is no archive of torch.export's: {_line(error)}") from None


class _Reading:
    """An archive that is being checked; `members` are its files by their names below the first folder."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self.archive = path, archive
        found = archive.infolist()
        root = found[0].filename.partition("/")[0] if found else ""
        self.members = {i.filename.removeprefix(f"{root}/"): i for i in found}
        if len(found) > ENTRIES_LIMIT or len(self.members) != len(found):
            raise ModelError(f"{path}: the archive has too many entries ({len(found)}), or two of one name")
        for info in found:
            if not info.filename.startswith(f"{root}/") or ".." in info.filename.split("/"):
                raise ModelError(f"{path}: {info.filename[:100]!r} lies outside of the archive's folder")
        if sum(i.file_size for i in found) > MODEL_BYTES:
            raise ModelError(f"{path}: its entries have more than {MODEL_BYTES:,} bytes")

    def rewritten(self) -> Archive:
        """The archive of plain tensors and a checked program."""
        self.require_form()
        program = checked(self.json(PROGRAM), str(self.path))
        kept = {**PLAIN, PROGRAM: json.dumps(program).encode(), SAMPLES: b""}
        for folder, name, pattern in TENSORS:
            kept |= self.tensors(folder, name, pattern)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as made:
            for member, data in kept.items():
                made.writestr(zipfile.ZipInfo(f"model/{member}"), data)
        return Archive(out.getvalue(), repr(program.get("torch_version", "of old"))[:40])

    def require_form(self) -> None:
        """Raise for an archive of another kind, of another byte order, or that holds compiled code."""
        for member, wanted in PLAIN.items():
            if (
                member != ".data/version"
                and member in self.members
                and self.read(member, 64).strip() != wanted
            ):
                said = f"{self.path}: its {member} is not {wanted.decode()}"
                raise UnsupportedError(
                    said, remedy="save it with torch.export.save on a little-endian machine"
                )
        programs = sorted(m for m in self.members if m.startswith("models/"))
        if programs != [PROGRAM]:
            is_code = any(m.startswith("data/aotinductor/") for m in self.members)
            what = "compiled code" if is_code else f"{len(programs)} programs ({', '.join(programs)[:100]})"
            remedy = "save one program: torch.export.save(torch.export.export(module, args), 'model.pt2')"
            raise UnsupportedError(f"{self.path} holds {what}", remedy=remedy)

    def tensors(self, folder: str, name: str, pattern: re.Pattern[str]) -> dict[str, bytes]:
        """The files of one folder: its list of tensors, and their bytes."""
        if folder + "model.pt" in self.members:
            raise UnsupportedError(f"{self.path} holds {folder}model.pt, a pickle", remedy=AGAIN)
        document, where = self.json(folder + name), f"{self.path}: {name}"
        kept = {folder + name: json.dumps(checked(document, where, is_program=False)).encode()}
        for tensor, payload in conform(document, Payloads, where).config.items():
            if payload.use_pickle or not pattern.fullmatch(payload.path_name) or payload.tensor_meta is None:
                said = f"{where}: {tensor[:100]!r} is a pickled object, or no plain tensor"
                raise UnsupportedError(f"{said}: Ingot unpickles nothing", remedy=TRACE)
            kept[folder + payload.path_name] = b""
        return kept | {m: self.read(m, MODEL_BYTES) for m in kept if m != folder + name}

    def json(self, member: str) -> Any:
        try:
            return parse_json(self.read(member, JSON_BYTES).decode(), f"{self.path}: {member}")
        except UnicodeDecodeError:
            raise ModelError(f"{self.path}: {member} is not text in UTF-8") from None

    def read(self, member: str, limit: int) -> bytes:
        """The bytes of a file in the archive, which PyTorch never compresses."""
        if member not in self.members:
            raise ModelError(f"{self.path} is no whole archive of torch.export's: it has no {member}")
        info = self.members[member]
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > limit:
            raise ModelError(f"{self.path}: {member} is compressed, or larger than {limit:,} bytes")
        return self.archive.read(info)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
