"""TensorFlow's checkpoints of variables: `PREFIX.index` (a sorted table) and `PREFIX.data-00000-of-00001`.

In: the prefix. Out: a `Checkpoint` that reads variables by key when they are asked for. Every offset and
length in the files is checked before it is followed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.files import MODEL_BYTES, read_file, read_part
from ingot.formula.expr import Array
from ingot.frontends.tensorflow.pieces import WHOLE, piece_key, slices
from ingot.frontends.tensorflow.protos import parse
from ingot.frontends.tensorflow.tensors import dtype_of, from_bytes, type_name
from ingot.graph.verify import COUNT_LIMIT

MAGIC = bytes.fromhex("57fb808b247547db")
FOOTER, TRAILER = 48, 5
HEADER_KEY, PIECE = b"", b"\0"
SHARDS_LIMIT = 100_000
INDEX_BYTES = 1 << 24
RESTART_INTERVAL = 16  # one of so many keys stands whole, the others repeat the beginning of the one before
SHOWN = 80


@dataclass(slots=True)
class Checkpoint:
    """The variables of a checkpoint by key, each read when it is asked for. `pieces` are those of partitioned
    variables, by `piece_key`; `room` is how many bytes more may be read, each entry counted once."""

    prefix: Path
    entries: dict[str, Any]
    pieces: dict[bytes, Any]
    shards: int
    room: int = MODEL_BYTES
    _counted: set[tuple[int, int]] = field(default_factory=set)  # shards and offsets

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def read(self, key: str) -> Array:
        """A variable's elements. Raises ModelError for what the files do not hold."""
        entry, what = self.entries[key], f"variable {key!r} of {self.prefix.name}"
        if entry.slices:
            return self._joined(key, what)
        return self._read(entry, what)

    def _read(self, entry: Any, what: str) -> Array:
        shape = _shape(entry, what)
        if type_name(entry.dtype) == "STRING":
            raise UnsupportedError(f"{what} holds strings")
        dtype = dtype_of(entry.dtype)
        if entry.offset < 0 or entry.size != math.prod(shape) * dtype.bytes:
            raise ModelError(f"{what}: {entry.size} bytes at {entry.offset} for {dtype}{shape}")
        return from_bytes(self._bytes(entry, what), dtype, shape, what)

    def _joined(self, key: str, what: str) -> Array:
        """A partitioned variable as a whole."""
        entry = self.entries[key]
        shape = _shape(entry, what)
        parts = []
        for piece in entry.slices:
            ranges = [(e.start, e.length if e.HasField("length") else WHOLE) for e in piece.extent]
            found, place = self.pieces.get(piece_key(key, ranges)), slices(ranges, shape, what)
            if found is None:
                raise ModelError(f"{what}: the piece {ranges} is missing")
            part = self._read(found, what)
            if list(part.shape) != [s.stop - s.start for s in place] or found.dtype != entry.dtype:
                raise ModelError(f"{what}: the piece {ranges} is of {list(part.shape)} elements")
            parts.append((place, part))
        if sum(part.size for _, part in parts) != math.prod(shape):  # before room is made for them
            raise ModelError(f"{what}: its pieces leave gaps, or overlap")
        whole, seen = np.empty(shape, parts[0][1].dtype), np.zeros(shape, bool)
        for place, part in parts:
            whole[place], seen[place] = part, True
        if not seen.all():
            raise ModelError(f"{what}: its pieces leave gaps, and overlap")
        return whole

    def _bytes(self, entry: Any, what: str) -> bytes:
        if not 0 <= entry.shard_id < self.shards:
            raise ModelError(f"{what}: there is no part {entry.shard_id}")
        self._count(entry, what)
        path = Path(f"{self.prefix}.data-{entry.shard_id:05d}-of-{self.shards:05d}")
        data = read_part(path, entry.offset, entry.size)
        if len(data) != entry.size:
            raise ModelError(f"{what}: bytes {entry.offset} to {entry.offset + entry.size} leave {path.name}")
        if entry.crc32c and masked_crc32c(data) != entry.crc32c:
            raise ModelError(f"{what}: the checksum does not fit; the file is damaged")
        return data

    def _count(self, entry: Any, what: str) -> None:
        """ModelError where the variables are more than one message holds: so much becomes a model."""
        place = entry.shard_id, entry.offset
        if place not in self._counted:
            self._counted.add(place)
            self.room -= entry.size
        if self.room < 0:
            raise ModelError(f"with {what} the model has more than {MODEL_BYTES:,} bytes")


def open_checkpoint(prefix: Path) -> Checkpoint:
    """Read the index. Raises InputError for files that are missing or no checkpoint."""
    path = Path(f"{prefix}.index")
    table = _table(read_file(path, INDEX_BYTES), path.name)
    key, header = next(table, (None, b""))
    if key != HEADER_KEY:
        raise ModelError(f"{path.name} holds no header of a checkpoint")
    head = parse("BundleHeader", header, path.name)
    if head.endianness != 0 or not 0 < head.num_shards <= SHARDS_LIMIT:
        raise UnsupportedError(f"{path.name}: big-endian, or {head.num_shards} parts")
    parsed = {k: parse("BundleEntry", v, path.name) for k, v in table}
    _require_apart(parsed, path.name)
    pieces = {k: v for k, v in parsed.items() if k.startswith(PIECE)}
    try:
        named = {k.decode(): v for k, v in parsed.items() if k not in pieces}
    except UnicodeDecodeError:
        raise ModelError(f"{path.name}: a key is not UTF-8") from None
    return Checkpoint(prefix, named, pieces, head.num_shards)


def _shape(entry: Any, what: str) -> list[int]:
    shape = [int(d.size) for d in entry.shape.dim]
    if min(shape, default=0) < 0 or math.prod(shape) >= COUNT_LIMIT:
        raise ModelError(f"{what}: shape {shape} is negative or too large")
    return shape


def _require_apart(entries: dict[bytes, Any], what: str) -> None:
    """ModelError where variables share bytes: together they are no more than the files."""
    places = sorted((e.shard_id, e.offset, e.size, k) for k, e in entries.items() if e.size)
    end = (0, 0)
    for shard, offset, size, key in places:
        if offset < 0 or size < 0 or (shard, offset) < end:
            raise ModelError(f"{what}: the bytes of {key[:SHOWN]!r} are another variable's too")
        end = (shard, offset + size)


# ---- the sorted table: blocks of keys and values, then an index of the blocks, then a footer


def _table(data: bytes, what: str) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values in ascending order. Raises ModelError where the file is not such a table.

    Blocks ascend too and share no bytes, so all of them together are as long as the file.
    """
    if len(data) < FOOTER or data[-len(MAGIC) :] != MAGIC:
        raise ModelError(f"{what} is not the index of a checkpoint")
    at = len(data) - FOOTER
    _, at = _handle(data, at, what)
    index, _ = _handle(data, at, what)
    end, last = 0, None
    for _, place in _block(data, index, what):
        block, _ = _handle(place, 0, what)
        if block[0] < end or sum(block) > index[0]:
            raise ModelError(f"{what}: its blocks overlap, or do not ascend")
        end = sum(block) + TRAILER
        for key, value in _block(data, block, what):
            if last is not None and key <= last:
                raise ModelError(f"{what}: its keys do not ascend")
            last = key
            yield key, value


def _handle(data: bytes, at: int, what: str) -> tuple[tuple[int, int], int]:
    offset, at = _varint(data, at, what)
    size, at = _varint(data, at, what)
    return (offset, size), at


def _block(data: bytes, where: tuple[int, int], what: str) -> Iterator[tuple[bytes, bytes]]:
    """A key repeats the beginning of the one before; the offsets at the block's end are not needed."""
    offset, size = where
    if offset + size + TRAILER > len(data) or size < 4:
        raise ModelError(f"{what}: a block leaves the file")
    if data[offset + size]:
        raise UnsupportedError(f"{what} is compressed (Snappy); save the checkpoint again without")
    block = data[offset : offset + size]
    restarts = int.from_bytes(block[-4:], "little")
    end, at, key, room = size - 4 - 4 * restarts, 0, b"", RESTART_INTERVAL * size
    if end < 0:
        raise ModelError(f"{what}: a block with {restarts} restarts in {size} bytes")
    while at < end:
        shared, at = _varint(block, at, what)
        own, at = _varint(block, at, what)
        length, at = _varint(block, at, what)
        if shared > len(key) or at + own + length > end:
            raise ModelError(f"{what}: an entry leaves its block")
        room -= shared + own
        if room < 0:
            raise ModelError(f"{what}: the keys of a block repeat more than it holds")
        key = key[:shared] + block[at : at + own]
        yield key, block[at + own : at + own + length]
        at += own + length


def _varint(data: bytes, at: int, what: str) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            break
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ModelError(f"{what}: a number leaves its block")


# ---- checksums


def masked_crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), rotated and shifted as the file format wants it."""
    value: int = google_crc32c.value(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
