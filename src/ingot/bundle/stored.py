"""Bundles in directories: which files are theirs, putting them there, reading them back.

In: a directory, and files to be written or a manifest to be found. Out: files that are as they were written.
Called by `Bundle.save` and `load`. A file belongs to a bundle if a manifest beside it lists it and it still
has the hash that stands there: whatever was edited is its editor's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ingot.binary.note import note_of
from ingot.bundle.manifest import facts
from ingot.bundle.schema import AGAIN, parsed
from ingot.errors import InputError
from ingot.files import parse_json, read_file, read_text, sha256_of, write_files

AS_WRITTEN = (".o", ".h", ".bin")
"""Kinds of files that running needs; the C may be edited."""
NAMED = 8
Manifests = dict[Path, dict[str, Any]]


def store(folder: Path, name: str, files: Mapping[str, bytes], force: bool) -> None:
    """Write a bundle's files and take away what an earlier one of this name left. Raises InputError.

    Without `force` nothing is replaced that is not as a bundle wrote it.
    """
    store_all(folder, (name,), files, force)


def store_all(folder: Path, names: Sequence[str], files: Mapping[str, bytes], force: bool) -> None:
    """The same for several bundles, all of them or none."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise InputError(f"{folder} is not a directory", remedy="name another")
    beside, _ = manifests(folder)
    foreign = [] if force else _foreign(folder, files, beside)
    if foreign:
        listed = ", ".join(foreign[:NAMED]) + (f" and {len(foreign) - NAMED} more" if foreign[NAMED:] else "")
        raise InputError(
            f"{folder}: edited, or not written by a bundle, so not replaced: {listed}",
            remedy="move it away, or insist with --force (force=True)",
        )
    old = set().union(*(_left_over(folder / f"{name}.json", beside) for name in names))
    write_files(folder, files, old - files.keys())


def manifests(folder: Path) -> tuple[Manifests, list[InputError]]:
    """The manifests in a directory, and what is wrong with its other .json files."""
    found, wrong = {}, []
    for path in sorted(folder.glob("*.json")):
        try:
            found[path] = read_manifest(path)
        except InputError as error:
            wrong.append(error)
    return found, wrong


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest, as it was written. Raises InputError."""
    return parsed(read_text(path), path)


def _foreign(folder: Path, files: Mapping[str, bytes], beside: Manifests) -> list[str]:
    """The names that are taken by something else than a bundle's own file."""
    known: dict[str, set[str]] = {n: {hashlib.sha256(data).hexdigest()} for n, data in files.items()}
    for manifest in beside.values():
        for name, digest in manifest["files"].items():
            known.setdefault(name, set()).add(digest)
    taken = [n for n in sorted(files) if os.path.lexists(folder / n) and folder / n not in beside]
    return [n for n in taken if _hash(folder / n) not in known[n]]


def _left_over(path: Path, beside: Manifests) -> set[str]:
    """The files that a manifest lists, as they were written, and that no other bundle beside it has too."""
    mine = beside.get(path, {"files": {}})["files"]
    shared = {n for other, m in beside.items() if other != path for n in m["files"]}
    return {n for n, digest in mine.items() if n not in shared and _hash(path.parent / n) == digest}


def _hash(path: Path) -> str:
    """That of a file; empty for a link and whatever else is none."""
    return sha256_of(path) if path.is_file() and not path.is_symlink() else ""


def read_stored(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Manifest and files of the bundle in a directory, or of a manifest. Raises InputError."""
    at, manifest = _only(path) if path.is_dir() else (path, read_manifest(path))
    folder = at.parent
    files = {
        n: _read(folder / n, digest) for n, digest in manifest["files"].items() if os.path.lexists(folder / n)
    }
    name, group = manifest["name"], manifest.get("group")
    if (code := files.get(f"{group or name}.o")) is not None:
        _require_described(at, manifest, code)
        files[f"{name}.o"] = code
    return manifest, files


def _only(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The one manifest in a directory."""
    found, wrong = manifests(folder)
    if not found:
        reason = str(wrong[0]) if wrong else "no manifest of the form NAME.json"
        raise InputError(f"{folder} holds no bundle: {reason}")
    if len(found) > 1:
        raise InputError(f"{folder} holds {len(found)} bundles", remedy=f"name one: {next(iter(found))}")
    return next(iter(found.items()))


def _read(path: Path, digest: str) -> bytes:
    """A file of the bundle; what runs must be what was compiled."""
    data = read_file(path)
    if path.suffix in AS_WRITTEN and hashlib.sha256(data).hexdigest() != digest:
        raise InputError(f"{path} is not the file that was written", remedy=AGAIN)
    return data


def _require_described(path: Path, manifest: Mapping[str, Any], code: bytes) -> None:
    """InputError unless the manifest says of the object what the object says of itself."""
    note = note_of(code)
    if note is None:
        raise InputError(f"{path}: the object does not say what it is; no Ingot made it", remedy=AGAIN)
    held, mine = parse_json(note, f"the note of the object beside {path}"), facts(manifest)
    if manifest.get("group") and isinstance(held, dict) and isinstance(held.get("group"), dict):
        held = held["group"].get(manifest["name"])
    wrong = [key for key in mine if not isinstance(held, dict) or held.get(key) != mine[key]]
    if wrong:
        raise InputError(f"{path} is of another object: they differ in {', '.join(wrong)}", remedy=AGAIN)
