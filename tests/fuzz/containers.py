"""Mutations of what wraps a model: flatbuffers, zip archives member by member, HDF5 files, documents of JSON.

In: a seed and something well formed. Out: something nearly so, the same bytes every time. Bytes that are no
longer what they were are mutated as bytes (`mutate`).
"""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import h5py
import numpy as np

from tests.fuzz.mutate import NAMES, NUMBERS, REALS, mutate_bytes, mutate_text

WORD = 4
BOMB = 1 << 26
"""Zeros in a member of an archive, a thousandth of it when it is packed."""
STRUCTURES = (b"TREE", b"SNOD", b"HEAP", b"OHDR", b"GCOL", b"\x89HDF")
"""What the blocks begin with that an HDF5 file is made of."""
WHEN = (1980, 1, 1, 0, 0, 0)
Inner = Callable[[str, bytes, random.Random], bytes]


def mutate_flatbuffer(data: bytes, rng: random.Random) -> bytes:
    """Offsets that lead elsewhere, counts and tables of fields that lie: words where words stand."""
    if len(data) < 4 * WORD or rng.random() < 0.3:
        return mutate_bytes(data, rng)
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(out) // WORD) * WORD
        (old,) = struct.unpack_from("<I", out, at)
        near = (0, 1, old + WORD, old - WORD, 2 * old, at, len(out), len(out) - at, (1 << 32) - at)
        new = rng.choice((*near, rng.randrange(len(out)), *(n for n in NUMBERS if n >= 0)))
        if rng.random() < 0.25:
            struct.pack_into("<H", out, at, new & 0xFFFF)
        else:
            struct.pack_into("<I", out, at, new & 0xFFFFFFFF)
    return bytes(out)


def mutate_json(data: bytes, rng: random.Random) -> bytes:
    """One place or two of a document become something of another type, are left out or are there twice."""
    try:
        document = json.loads(data)
    except ValueError:
        return mutate_text(data, rng)
    for _ in range(rng.choice((1, 1, 2))):
        places = list(_places(document))
        if places:
            _change(*rng.choice(places), rng)
    return json.dumps(document).encode(errors="surrogatepass")


def _places(held: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    keys = held.keys() if isinstance(held, dict) else range(len(held)) if isinstance(held, list) else ()
    for key in keys:
        yield held, key
        yield from _places(held[key])


def _change(held: Any, key: Any, rng: random.Random) -> None:
    kind = rng.randrange(5)
    if kind == 0:
        del held[key]
    elif kind == 1 and isinstance(held, list):
        held.insert(key, held[key])
    else:
        deep: Any = []
        for _ in range(rng.choice((2, 60))):
            deep = [deep]
        others = (None, True, [], {}, deep, {"class_name": "Dense"}, [held[key]])
        held[key] = rng.choice((*others, *NUMBERS, *REALS, *NAMES[:-30]))


def packed(members: Mapping[str, bytes], kind: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive that is the same every time."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in members.items():
            made.writestr(zipfile.ZipInfo(name, WHEN), data, kind)
    return out.getvalue()


def mutate_archive(data: bytes, rng: random.Random, inner: Inner) -> bytes:
    """A member mutated by `inner`, mostly; or one left out, empty, huge, of another name; or bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as read:
            members = {i.filename: read.read(i) for i in read.infolist() if i.file_size < BOMB}
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError, RuntimeError):
        return mutate_bytes(data, rng)
    if not members or rng.random() < 0.1:
        return mutate_bytes(data, rng)
    name = rng.choice(sorted(members))
    match rng.randrange(12):
        case 0:
            del members[name]
        case 1:
            members[name] = b""
        case 2:
            members[rng.choice(("../../x", "/x", f"x/{name}", "\\x", name.upper()))] = members.pop(name)
        case 3 if len(data) < 1 << 16:
            return packed({**members, name: bytes(BOMB)}, zipfile.ZIP_DEFLATED)
        case 4:
            members.update({f"m{i}": b"" for i in range(3000)})
        case _:
            members[name] = inner(name, members[name], rng)
    made = packed(members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return _lying(made, rng) if rng.random() < 0.15 else made


def _lying(data: bytes, rng: random.Random) -> bytes:
    """The archive with one number of its last member's entry changed: method, flags, sizes, offsets."""
    out, at = bytearray(data), data.rfind(b"PK\x01\x02")
    place = at + rng.choice((8, 10, 16, 20, 24, 28, 30, 32, 42))
    out[place : place + 2] = rng.choice((b"\xff\xff", b"\x01\0", b"\0\0", b"\x63\0"))
    return bytes(out)


def mutate_hdf5(data: bytes, rng: random.Random) -> bytes:
    """Bytes of the structures, or an object exchanged for another: links, types, shapes, documents."""
    kind = rng.randrange(10)
    if kind < 2:
        return mutate_bytes(data, rng)
    if kind < 5:
        return _broken(data, rng)
    file = io.BytesIO(data)
    try:
        with h5py.File(file, "a") as held:
            _exchange(held, rng)
    except (OSError, ValueError, KeyError, RuntimeError, TypeError):  # h5py's, of bytes that are damaged
        return mutate_bytes(data, rng)
    return file.getvalue()


def _broken(data: bytes, rng: random.Random) -> bytes:
    """Sizes and addresses behind the beginning of a block."""
    out = bytearray(data)
    blocks = [at for mark in STRUCTURES for at in _found(data, mark)] or [0]
    at = rng.choice(blocks)
    for _ in range(rng.choice((1, 2, 4))):
        size, place = rng.choice((1, 2, 4, 8)), at + rng.randrange(4, 96)
        number = rng.choice((at, len(out), *NUMBERS)) & (1 << 64) - 1
        out[place : place + size] = number.to_bytes(8, "little")[:size]
    return bytes(out)


def _found(data: bytes, mark: bytes) -> Iterator[int]:
    at = data.find(mark)
    while at >= 0:
        yield at
        at = data.find(mark, at + 1)


def _exchange(held: h5py.File, rng: random.Random) -> None:
    """One object of a file for another, or one attribute's value."""
    names: list[str] = []
    held.visit(names.append)
    arrays = sorted(n for n in names if isinstance(held[n], h5py.Dataset))
    groups = ["/", *sorted(n for n in names if isinstance(held[n], h5py.Group))]
    notes = [(g, key) for g in groups for key in sorted(held[g].attrs)]
    if notes and (not arrays or rng.random() < 0.4):
        where, key = rng.choice(notes)
        held[where].attrs[key] = _note(held[where].attrs[key], rng)
        return
    if not arrays:
        held["loop"] = h5py.SoftLink("/")
        return
    name = rng.choice(arrays)
    shape = held[name].shape
    del held[name]
    match rng.randrange(8):
        case 0:
            held.create_dataset(name, (1 << 20, 1 << 20), "f4", chunks=(64, 64))
        case 1:
            held.create_dataset(name, data=np.array([b"a", b"bb"]))
        case 2:
            held[name] = h5py.ExternalLink("/etc/passwd", "/x")
        case 3:
            held.create_dataset(name, (64,), "u1", external=[("/etc/passwd", 0, 64)])
        case 4:
            held[name] = held["/"]
        case 5:
            held.create_dataset(name, data=np.zeros(shape, [("a", "i4"), ("b", "f8")]))
        case 6:
            held.create_dataset(name, data=np.zeros((*shape, 0), "f2"))
        case _:
            pass  # it is no longer there


def _note(old: Any, rng: random.Random) -> Any:
    """Another value of an attribute; a document is mutated as one, mostly."""
    text = old.encode() if isinstance(old, str) else old
    if isinstance(text, bytes) and rng.random() < 0.7:
        return mutate_json(text, rng).decode(errors="replace").replace("\0", "")
    return rng.choice((1.5, b"\xff\xfe", "{", "", np.zeros(5), "[" * 5000, b"a", h5py.Empty("f4")))
