"""Operators on rows in segments: embeddings that are looked up and added, and their quantised tables.

The number of rows in each segment is data (`lengths`); their sum is at most the number of rows there are.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.types import BOOL, FLOAT32, INT32, INT64
from ingot.frontends.builder import extents_of
from ingot.frontends.caffe2.call import Call, row
from ingot.frontends.orders import Tensor
from ingot.graph.ir import Value
from ingot.graph.verify import COUNT_LIMIT

NIBBLES = 4


def _segment_sum(c: Call, rows: Value, lengths: Value) -> Value:
    """y[s] = sum of the rows of segment s. A row behind all segments goes to one more, which is cut off."""
    extents, count = extents_of(rows), prod(extents_of(lengths))
    ends = c.b.one("CumSum", c.b.cast(lengths, INT64), c.b.constant(0, INT64))
    places = c.b.reshape(c.b.counted(extents[0]), [extents[0], 1])
    behind = c.b.cast(c.b.one("GreaterOrEqual", places, c.b.reshape(ends, [1, count])), INT64)
    segment = c.b.one("ReduceSum", behind, c.b.ints([1]), keepdims=1)
    zeros = c.b.filled([count + 1, *extents[1:]], 0, Tensor(rows).dtype)
    made = c.b.one("ScatterND", zeros, segment, rows, reduction="add")
    return c.b.one("Slice", made, c.b.ints([0]), c.b.ints([count]), c.b.ints([0]))


@row("LengthsSum")
def lengths_sum(c: Call) -> Value:
    return _segment_sum(c, c.x(), c.x(1))


@row("SparseLengthsSum", "SparseLengthsWeightedSum")
def sparse_lengths_sum(c: Call) -> Value:
    """Rows of a table, looked up, perhaps weighted, and added by segment."""
    return _looked_up(c, c.x(), is_weighted="Weighted" in c.op.type)


def _looked_up(c: Call, table: Value, is_weighted: bool) -> Value:
    indices, lengths = c.x(1 + is_weighted), c.x(2 + is_weighted)
    rows = c.b.one("Gather", table, indices, axis=0)
    if is_weighted:
        extents = extents_of(rows)
        rows = c.b.one("Mul", rows, c.b.reshape(c.x(1), [extents[0], *[1] * (len(extents) - 1)]))
    return _segment_sum(c, rows, lengths)


@row("EmbeddingBag")
def embedding_bag(c: Call) -> Value:
    """Table, weights, indices and where each segment begins."""
    offsets, rows = c.b.cast(c.x(3), INT64), c.b.one("Gather", c.x(), c.x(2), axis=0)
    count, total = prod(c.shape(3)), extents_of(rows)[0]
    ends = c.b.one("Concat", offsets, c.b.ints([total]), axis=0)
    later = c.b.one("Slice", ends, c.b.ints([1]), c.b.ints([count + 1]), c.b.ints([0]))
    weighted = c.b.one("Mul", rows, c.b.reshape(c.x(1), [total, 1]))
    return _segment_sum(c, weighted, c.b.one("Sub", later, offsets))


@row("SparseLengthsSum8BitsRowwise", "SparseLengthsWeightedSum8BitsRowwise")
def rowwise(c: Call) -> Value:
    """Bytes with a scale and a bias for each row, in an input of their own."""
    is_weighted = "Weighted" in c.op.type
    table, pairs = c.x(), c.x(3 + is_weighted)
    if c.shape(3 + is_weighted) != [c.shape()[0], 2]:
        raise ModelError(f"{c.label}: scales and biases {c.shape(3 + is_weighted)} of a table {c.shape()}")
    scale, bias = (c.b.one("Gather", pairs, c.b.ints([i]), axis=1) for i in (0, 1))
    real = c.b.one("Add", c.b.one("Mul", c.b.cast(table, FLOAT32), scale), bias)
    return _looked_up(c, real, is_weighted)


@row("SparseLengthsSumFused8BitRowwise", "SparseLengthsWeightedSumFused8BitRowwise")
def fused_bytes(c: Call) -> Value:
    """Each row ends in its scale and its bias, a float each."""
    held = _rows(c, 8)
    pairs = np.ascontiguousarray(held[:, -8:]).view("<f4")
    real = held[:, :-8] * pairs[:, :1] + pairs[:, 1:]
    return _looked_up(c, c.const(real), "Weighted" in c.op.type)


@row("SparseLengthsSumFused4BitRowwise", "SparseLengthsWeightedSumFused4BitRowwise")
def fused_nibbles(c: Call) -> Value:
    """Two elements to a byte, the lower half first; each row ends in its scale and bias, in halves."""
    held = _rows(c, 4)
    pairs = np.ascontiguousarray(held[:, -4:]).view("<f2").astype(np.float32)
    packed = held[:, :-4]
    codes = np.stack([packed & 15, packed >> NIBBLES], -1).reshape(len(held), -1)
    return _looked_up(c, c.const(codes * pairs[:, :1] + pairs[:, 1:]), "Weighted" in c.op.type)


def _rows(c: Call, behind: int) -> np.ndarray:
    held = c.elements(0, "a table in bytes")
    if held.dtype.itemsize != 1 or held.ndim != 2 or held.shape[1] <= behind:
        raise ModelError(f"{c.label}: a table {held.dtype}{list(held.shape)}, not rows of bytes")
    bytes_ = np.ascontiguousarray(held).view(np.uint8)
    if c.x() in c.quantised:  # int8 here stands for a byte that is 128 more
        bytes_ = bytes_ ^ np.uint8(128)
    return bytes_


@row("LengthsToRanges")
def to_ranges(c: Call) -> Value:
    """[where segment s begins, its length]."""
    lengths = c.b.cast(c.x(), INT64)
    ends = c.b.one("CumSum", lengths, c.b.constant(0, INT64))
    columns = [c.b.reshape(v, [*c.shape(), 1]) for v in (c.b.one("Sub", ends, lengths), lengths)]
    return c.b.cast(c.b.one("Concat", *columns, axis=1), c.x().type or INT32)


@row("SparseToDense")
def to_dense(c: Call) -> Value:
    """y[indices[i]] += values[i]; as many rows as the mask or `output_dim` says."""
    values = c.x(1)
    count = c.shape(2)[0] if len(c.inputs) > 2 else c.integer("output_dim", 0)
    if count < 1:
        raise UnsupportedError(
            f"{c.label}: nothing tells how many rows there are", remedy="give it a third input"
        )
    zeros = c.b.filled([count, *c.shape(1)[1:]], 0, Tensor(values).dtype)
    places = c.b.reshape(c.b.cast(c.x(), INT64), [prod(c.shape()), 1])
    return c.b.one("ScatterND", zeros, places, values, reduction="add")


@row("SparseToDenseMask")
def to_dense_mask(c: Call) -> Value:
    """y[s, j] is the value whose index is mask[j] in segment s, the default where there is none."""
    mask = c.integers("mask") or []
    if c.integer("return_presence_mask", 0):
        raise UnsupportedError(f"{c.label}: the mask of what is present is not supported")
    indices, values, default = c.x(), c.x(1), c.x(2)
    count = c.shape()[0]
    lengths = c.x(3) if len(c.inputs) > 3 else c.b.ints([count])
    segments = prod(extents_of(lengths))
    ends = c.b.one("CumSum", c.b.cast(lengths, INT64), c.b.constant(0, INT64))
    column = c.b.reshape(c.b.counted(count), [count, 1])
    behind = c.b.cast(c.b.one("GreaterOrEqual", column, c.b.reshape(ends, [1, segments])), INT64)
    segment = c.b.one("ReduceSum", behind, c.b.ints([1]), keepdims=1)
    wanted = c.b.one(
        "Equal", c.b.reshape(c.b.cast(indices, INT64), [count, 1]), c.b.constant(np.asarray([mask]), INT64)
    )
    width, inner = len(mask), c.shape(1)[1:]
    found = c.b.one("ReduceMax", c.b.cast(wanted, INT32), c.b.ints([1]), keepdims=1)
    place = c.b.one("ArgMax", c.b.cast(wanted, INT32), axis=1, keepdims=1)
    at = c.b.one("Add", c.b.one("Mul", segment, c.b.constant(width, INT64)), place)
    nowhere = c.b.constant(segments * width, INT64)  # one row more takes what the mask does not have
    row_ = c.b.one("Min", c.b.one("Where", c.b.cast(found, BOOL), at, nowhere), nowhere)
    start = c.b.one("Expand", c.b.reshape(default, [1, *inner]), c.b.ints([segments * width + 1, *inner]))
    made = c.b.one("ScatterND", start, row_, values)
    cut = c.b.one("Slice", made, c.b.ints([0]), c.b.ints([segments * width]), c.b.ints([0]))
    return c.b.reshape(cut, [segments, width, *inner])


@row("LengthsRangeFill")
def range_fill(c: Call) -> Value:
    """0, 1, ... n-1 for each length n, one behind the other; zeros up to `maxOutputSize`."""
    _, inner, is_used = _places(c, c.b.cast(c.x(), INT64), _room(c, c.x()))
    return c.b.cast(c.b.one("Where", is_used, inner, c.b.constant(0, INT64)), INT32)


@row("GatherRanges")
def gather_ranges(c: Call) -> list[Value]:
    """The elements of ranges [start, length], one behind the other, and the lengths by example."""
    if len(c.shape(1)) != 3 or c.shape(1)[2] != 2:
        raise ModelError(f"{c.label}: ranges {c.shape(1)}, not [examples, ranges, 2]")
    ranges, count = c.b.cast(c.x(1), INT64), prod(c.shape(1)[:2])
    starts, lengths = (c.b.one("Gather", ranges, c.b.constant(i, INT64), axis=2) for i in (0, 1))
    flat = c.b.reshape(lengths, [count])
    segment, inner, is_used = _places(c, flat, _room(c, flat))
    at = c.b.one("Add", c.b.one("Gather", c.b.reshape(starts, [count]), segment, axis=0), inner)
    found = c.b.one("Gather", c.x(), c.b.one("Where", is_used, at, c.b.constant(0, INT64)), axis=0)
    used = c.b.reshape(is_used, [*extents_of(is_used), *[1] * (len(c.shape()) - 1)])
    made = c.b.one("Where", used, found, c.like(0, found))
    return [made, c.b.cast(c.b.one("ReduceSum", lengths, c.b.ints([1]), keepdims=0), INT32)]


def _room(c: Call, lengths: Value) -> int:
    """How many elements the result has: their number, or what `maxOutputSize` says."""
    if (most := c.integer("maxOutputSize", 0)) > 0:
        return most
    if lengths.constant is None:
        remedy = "give it maxOutputSize"
        raise UnsupportedError(f"{c.label}: nothing tells how many elements there are", remedy=remedy)
    return int(np.asarray(lengths.constant).sum())


def _places(c: Call, lengths: Value, room: int) -> tuple[Value, Value, Value]:
    """For each of `room` places: its segment, where in that it is, and whether it is in any."""
    if not 0 <= room < COUNT_LIMIT:
        raise ModelError(f"{c.label}: {room} elements")
    count = extents_of(lengths)[0]
    ends = c.b.one("CumSum", lengths, c.b.constant(0, INT64))
    places = c.b.counted(room)
    column = c.b.reshape(places, [room, 1])
    behind = c.b.cast(c.b.one("GreaterOrEqual", column, c.b.reshape(ends, [1, count])), INT64)
    segment = c.b.one("ReduceSum", behind, c.b.ints([1]), keepdims=0)
    is_used = c.b.one("Less", segment, c.b.constant(count, INT64))
    segment = c.b.one("Min", segment, c.b.constant(count - 1, INT64))
    begins = c.b.one("Gather", c.b.one("Sub", ends, lengths), segment, axis=0)
    return segment, c.b.one("Sub", places, begins), is_used


@row("FillExamplesWithIndicator", "BatchSparseToDense")
def spread(c: Call) -> Value:
    """Rows to the places where the indicator is not 0, in order; elsewhere 0, or `default_value`."""
    is_dense = c.op.type == "BatchSparseToDense"
    if is_dense and c.integer("dense_last_dim", 1) != 1:
        raise UnsupportedError(f"{c.label}: only a last extent of 1 is supported")
    data, flags = (c.x(2), c.x(0)) if is_dense else (c.x(0), c.x(1))
    extents = extents_of(data) if not is_dense else [prod(extents_of(data)), 1]
    data, count = c.b.reshape(data, extents), prod(extents_of(flags))
    is_set = c.b.cast(c.b.cast(flags, BOOL), INT64)
    rank = c.b.one("Sub", c.b.one("CumSum", is_set, c.b.constant(0, INT64)), c.b.constant(1, INT64))
    limit = c.b.constant(extents[0] - 1, INT64)
    place = c.b.one("Clip", rank, c.b.constant(0, INT64), limit)
    rows = c.b.one("Gather", data, place, axis=0)
    where = c.b.reshape(c.b.cast(is_set, BOOL), [count, *[1] * (len(extents) - 1)])
    return c.b.one("Where", where, rows, c.like(c.number("default_value", 0.0), data))
