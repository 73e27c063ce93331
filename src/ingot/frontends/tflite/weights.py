"""The elements of constants. In: a tensor of the file and its buffer; out: an array.

Packed integers have the first element in the low bits of a byte. Sparse tensors list, level by level of an
order of axes, how many elements lie under each (dense) or which (CSR); blocks are axes of their own, at the
end of the order (`SparsityParameters` of the schema).
"""

from __future__ import annotations

import math

import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.frontends.tflite.flatbuffer import Table
from ingot.frontends.tflite.model import PACKED_BITS, Array, TensorInfo

INDICES = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}
"""The members of the union of index vectors."""
ELEMENTS_LIMIT = 1 << 25


def elements_of(t: TensorInfo) -> Array:
    """The elements in the shape declared. Raises ModelError where the buffer holds more or fewer."""
    if t.sparsity is not None:
        return _dense(t, t.sparsity)
    return _plain(t, math.prod(t.shape)).reshape(t.shape)


def _plain(t: TensorInfo, count: int) -> Array:
    """So many elements from the buffer."""
    bits, dtype = PACKED_BITS.get(t.kind, 8 * t.dtype.bytes), t.dtype
    size = (count * bits + 7) // 8
    if len(t.buffer) != size:
        reason = f"{len(t.buffer)} bytes for {t.kind}{list(t.shape)}, which takes {size}"
        raise ModelError(f"{t.label}: {reason}")
    raw: Array = np.frombuffer(t.buffer, np.uint8)
    if t.kind in PACKED_BITS:
        return _unpacked(raw, bits, count, t.kind.startswith("INT"))
    if t.kind == "BOOL":
        return np.not_equal(raw, 0)
    found: Array = raw.view(dtype.numpy.newbyteorder("<")).astype(dtype.numpy, copy=False)
    return found


def _unpacked(raw: Array, bits: int, count: int, is_signed: bool) -> Array:
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    found = ((raw[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if not is_signed:
        return found
    top = 8 - bits
    return (found << top).view(np.int8) >> top


def _dense(t: TensorInfo, s: Table) -> Array:
    """All elements of a sparse tensor, zero where none is listed."""
    order, blocks = s.integers("traversal_order"), s.integers("block_map")
    levels, rank = s.children("dim_metadata"), len(t.shape)
    sizes = _level_sizes(t, order, blocks, levels)
    places = np.zeros((1, 0), np.int64)
    for level, size in zip(levels, sizes, strict=True):
        places = _below(t, level, size, places)
    values = _plain(t, len(places))
    index = np.zeros((len(places), rank), np.int64)
    for k, axis in enumerate(order):
        if axis < rank:
            index[:, axis] += places[:, k] * _block(axis, order, blocks, sizes, rank)
        else:
            index[:, blocks[axis - rank]] += places[:, k]
    made = np.zeros(t.shape, values.dtype)
    if np.any(index >= np.array(t.shape)):
        raise ModelError(f"{t.label}: an element of the sparse tensor lies outside of it")
    made[tuple(index.T)] = values
    return made


def _block(axis: int, order: tuple[int, ...], blocks: tuple[int, ...], sizes: list[int], rank: int) -> int:
    """How many elements of the axis one block takes."""
    return sizes[order.index(rank + blocks.index(axis))] if axis in blocks else 1


def _level_sizes(
    t: TensorInfo, order: tuple[int, ...], blocks: tuple[int, ...], levels: list[Table]
) -> list[int]:
    """The extent of each level. Raises ModelError unless the order names each axis and block once."""
    rank = len(t.shape)
    fits = sorted(order) == list(range(rank + len(blocks))) and len(levels) == len(order)
    if not fits or any(not 0 <= b < rank for b in blocks) or len(set(blocks)) < len(blocks):
        raise ModelError(f"{t.label}: {len(levels)} levels in the order {list(order)} for {rank} axes")
    sizes = [0] * len(order)
    for k in sorted(range(len(order)), key=lambda k: -order[k]):  # blocks first
        sizes[k] = levels[k].number("dense_size")
        axis = order[k]
        if axis < rank and levels[k].number("format") != 0:
            sizes[k] = t.shape[axis] // max(_block(axis, order, blocks, sizes, rank), 1)
    return sizes


def _below(t: TensorInfo, level: Table, size: int, places: Array) -> Array:
    """Every place of one level more."""
    if level.number("format") == 0:
        if not 0 <= size <= ELEMENTS_LIMIT or len(places) * size > ELEMENTS_LIMIT:
            raise ModelError(f"{t.label}: a sparse tensor with a level of {size}")
        inner = np.tile(np.arange(size), len(places))[:, None]
        return np.hstack([np.repeat(places, size, axis=0), inner])
    segments, indices = _indices(t, level, "array_segments"), _indices(t, level, "array_indices")
    counts = np.diff(segments)
    whole = (len(segments) == len(places) + 1 and not counts.size) or (counts.min(initial=0) >= 0)
    if not whole or len(segments) != len(places) + 1 or segments[0] != 0 or segments[-1] != len(indices):
        raise ModelError(f"{t.label}: the segments of the sparse tensor do not fit its indices")
    if len(indices) and not 0 <= indices.min() <= indices.max() < max(size, 1):
        raise ModelError(f"{t.label}: an index of the sparse tensor lies outside of it")
    return np.hstack([np.repeat(places, counts, axis=0), indices[:, None]])


def _indices(t: TensorInfo, level: Table, name: str) -> Array:
    kind = level.number(f"{name}_type")
    if kind not in INDICES:
        raise UnsupportedError(f"{t.label}: a sparse tensor's indices of kind {kind} are not known")
    found = level.child(name, INDICES[kind])
    return np.zeros(0, np.int64) if found is None else found.numbers("values").astype(np.int64)
