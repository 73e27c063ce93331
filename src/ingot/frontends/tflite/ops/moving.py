"""What moves elements, or says of them where they are: numbers and the integers that stand for them alike."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ingot.formula.types import BOOL, INT32, INT64
from ingot.frontends.builder import extents_of
from ingot.frontends.orders import like
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Complex, Item, Tensor
from ingot.frontends.tflite.ops.requantise import requantised, rescaled_by_float
from ingot.frontends.tflite.ops.table import OPS, Call, activated, op, single

SAME = {
    "BROADCAST_ARGS": "BroadcastArgs",
    "BROADCAST_TO": "BroadcastTo",
    "EXPAND_DIMS": "ExpandDims",
    "FILL": "Fill",
    "GATHER_ND": "GatherNd",
    "RANGE": "Range",
    "RANK": "Rank",
    "REVERSE_V2": "ReverseV2",
    "SCATTER_ND": "ScatterNd",
    "SELECT_V2": "SelectV2",
    "SELECT": "Select",
    "SLICE": "Slice",
    "SPLIT_V": "SplitV",
    "TILE": "Tile",
    "TRANSPOSE": "Transpose",
    "ZEROS_LIKE": "ZerosLike",
}
"""Operators without options that TensorFlow has too."""
DIAGONAL_LIMIT, PLACES_LIMIT = 1 << 13, 1 << 24
MASKS = tuple(f"{m}_mask" for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis"))


def _enter(name: str, standard: str) -> None:
    OPS[name] = lambda c: c.standard(standard)


for _name, _standard in SAME.items():
    _enter(_name, _standard)


def constant(c: Call, values: object) -> Tensor:
    """Integers as an operand of TensorFlow's operators."""
    return Tensor(c.b.constant(np.array(values, np.int64)))


def zero_of(c: Call, i: int) -> Tensor:
    """What stands for the number 0 in input i."""
    t = c.info(i)
    zero = c.scale(t)[1] if c.is_quantised(t) else 0
    return Tensor(like(c.b, c.tensor(i).value, zero))


@op("RESHAPE")
def reshape(c: Call) -> Result:
    """The shape is an input, or an option of old files; complex numbers have it in the file."""
    shape = c.tensor(1) if c.has(1) and c.info(1).is_constant else None
    if shape is None:
        listed = c.listed("new_shape") or (c.ints(1, "the shape") if c.has(1) else c.result().shape)
        shape = constant(c, list(listed))
    if isinstance(c.items[0], Complex):
        return Complex(c.b.reshape(c.items[0].pairs, (*c.result().shape, 2)))
    return c.standard("Reshape", [c.items[0], Tensor(c.b.reshape(c.b.plain(shape), (-1,)))])


@op("SQUEEZE")
def squeeze(c: Call) -> Result:
    return c.standard("Squeeze", squeeze_dims=c.listed("squeeze_dims"))


@op("SHAPE")
def shape(c: Call) -> Result:
    return c.standard("Shape", out_type=c.kind_option("out_type", "INT32"))


@op("STRIDED_SLICE")
def strided_slice(c: Call) -> Result:
    """TensorFlow's, but where an axis goes, an open beginning still counts."""
    masks: dict[str, Any] = {m: int(c.option(m)) for m in MASKS}
    both, items, count = masks["begin_mask"] & masks["shrink_axis_mask"], list(c.items), c.tensor(1).shape
    if both and len(count) == 1:
        is_open = np.array([bool(both >> i & 1) for i in range(count[0])])
        end = np.where(c.known(3, "strides") > 0, 0, -1).astype(c.tensor(1).dtype.numpy)
        items[1] = Tensor(c.b.one("Where", c.b.constant(is_open), c.b.constant(end), c.plain(1)))
    return c.standard("StridedSlice", items, **masks)


@op("CONCATENATION")
def concatenation(c: Call) -> Result:
    """Parts of bytes whose scale is not the result's are brought to it."""
    parts: list[Item] = [c.tensor(i) for i in range(len(c.items))]
    if c.is_quantised(c.result()):
        parts = [_alike(c, i) for i in range(len(parts))]
    made = single(c.standard("ConcatV2", [*parts, constant(c, int(c.option("axis")))]))
    return activated(c, made)


def _alike(c: Call, i: int) -> Tensor:
    """Part i at the result's scale, by TFLite's ConcatenationWithScaling: in float32, halves away from 0."""
    (scale, zero), (to_scale, to_zero) = c.scale(c.info(i)), c.scale(c.result())
    if (scale, zero) == (to_scale, to_zero):
        return c.tensor(i)
    return rescaled_by_float(c, c.tensor(i), c.info(i), c.result())


@op("SPLIT")
def split(c: Call) -> Result:
    return c.standard("Split", num_split=int(c.option("num_splits")))


@op("PACK")
def pack(c: Call) -> Result:
    return c.standard("Pack", axis=int(c.option("axis")))


@op("UNPACK")
def unpack(c: Call) -> Result:
    return c.standard("Unpack", axis=int(c.option("axis")), num=int(c.option("num")))


@op("PAD", "PADV2")
def pad(c: Call) -> Result:
    """With what stands for 0, or a given value."""
    value = c.tensor(2) if c.operator.kind == "PADV2" and c.has(2) else zero_of(c, 0)
    return c.standard("PadV2", [c.items[0], c.items[1], value])


@op("MIRROR_PAD")
def mirror_pad(c: Call) -> Result:
    return c.standard("MirrorPad", mode="SYMMETRIC" if c.option("mode") else "REFLECT")


@op("GATHER")
def gather(c: Call) -> Result:
    axis = constant(c, int(c.option("axis")))
    return c.standard("GatherV2", [*c.items[:2], axis], batch_dims=int(c.option("batch_dims")))


@op("ONE_HOT")
def one_hot(c: Call) -> Result:
    return c.standard("OneHot", axis=int(c.option("axis", -1)))


@op("REVERSE_SEQUENCE")
def reverse_sequence(c: Call) -> Result:
    dims: dict[str, Any] = {name: int(c.option(name)) for name in ("seq_dim", "batch_dim")}
    return c.standard("ReverseSequence", **dims)


@op("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def depth_and_space(c: Call) -> Result:
    name = "DepthToSpace" if c.operator.kind.startswith("DEPTH") else "SpaceToDepth"
    return c.standard(name, block_size=int(c.option("block_size")))


@op("SPACE_TO_BATCH_ND")
def space_to_batch(c: Call) -> Result:
    """Padded with what stands for 0."""
    zero, x = zero_of(c, 0), c.tensor(0)
    sides = c.known(2, "the padding")
    if zero.constant is None or not zero.constant.any() or not np.any(sides):
        return c.standard("SpaceToBatchND")
    rank = len(sides)
    everywhere = np.zeros((x.rank, 2), np.int64)
    everywhere[1 : 1 + rank] = sides
    padded = single(c.standard("PadV2", [x, constant(c, everywhere), zero]))
    return c.standard("SpaceToBatchND", [padded, c.items[1], constant(c, np.zeros((rank, 2)).astype(int))])


@op("BATCH_TO_SPACE_ND")
def batch_to_space(c: Call) -> Result:
    return c.standard("BatchToSpaceND")


@op("EMBEDDING_LOOKUP")
def embedding_lookup(c: Call) -> Result:
    """Rows of a table, which may be bytes with a scale for each row."""
    t, rows = c.info(1), c.b.plain(c.tensor(0))
    table = c.plain(1)
    if not (t.quantisation and c.result().kind == "FLOAT32"):
        return c.b.one("Gather", table, rows, axis=0)
    q = c.scales(t)
    found = c.b.cast(c.b.one("Gather", table, rows, axis=0), c.result().dtype)
    scale = c.b.constant(np.broadcast_to(q.scale, c.tensor(1).shape[:1]).astype(np.float32))
    one = c.b.one("Gather", scale, rows, axis=0)
    one = c.b.reshape(one, (*c.tensor(0).shape, *(1,) * (c.tensor(1).rank - 1)))
    return c.b.one("Mul", found, one)


@op("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(c: Call) -> Result:
    """The update lies in the operand at `start`, which is moved until it lies inside."""
    x, update = c.tensor(0), c.tensor(1)
    c.require(
        x.rank == update.rank and all(m <= n for n, m in zip(x.shape, update.shape, strict=True)), "sizes"
    )
    c.require(math.prod(update.shape) <= PLACES_LIMIT, "the update is too large")
    start = c.b.cast(c.plain(2), INT64)
    room = c.b.ints([n - m for n, m in zip(x.shape, update.shape, strict=True)])
    start = c.b.one("Min", c.b.one("Max", start, c.b.ints(0)), room)
    places = np.moveaxis(np.indices(update.shape), 0, -1).astype(np.int64)
    index = c.b.one("Add", c.b.constant(places), start)
    return c.b.one("ScatterND", c.b.plain(x), index, c.b.plain(update))


@op("TOPK_V2")
def top_k(c: Call) -> Result:
    return c.standard("TopKV2")


@op("WHERE")
def where(c: Call) -> Result:
    """The places of what is true, a row for each."""
    x = c.plain(0)
    found = c.b.one("NonZero", x if c.tensor(0).dtype is BOOL else c.b.cast(x, BOOL))
    return c.b.one("Transpose", found, perm=(1, 0))


@op("CAST")
def cast(c: Call) -> Result:
    x = c.tensor(0)
    return Tensor(c.b.cast(x.value, c.result().dtype), x.order)


@op("MATRIX_DIAG")
def matrix_diag(c: Call) -> Result:
    """Each last axis as the diagonal of a matrix."""
    x = c.tensor(0)
    n = x.shape[-1]
    c.require(n <= DIAGONAL_LIMIT, f"a matrix of {n} rows")
    spread = c.b.reshape(c.b.plain(x), (*x.shape, 1))
    return c.b.one("Where", c.b.constant(np.eye(n, dtype=bool)), spread, like(c.b, x.value, 0))


@op("MATRIX_SET_DIAG")
def matrix_set_diag(c: Call) -> Result:
    """A matrix with another diagonal."""
    x, diagonal = c.tensor(0), c.tensor(1)
    rows, columns = x.shape[-2:]
    c.require(diagonal.shape[-1:] == (min(rows, columns),), "the diagonal does not fit")
    c.require(max(rows, columns) <= DIAGONAL_LIMIT, f"a matrix of {rows} rows")
    spread = c.b.plain(diagonal)
    if rows > columns:
        index = np.minimum(np.arange(rows), columns - 1)
        spread = c.b.one("Gather", spread, c.b.ints(index.tolist()), axis=diagonal.rank - 1)
    spread = c.b.reshape(spread, (*diagonal.shape[:-1], rows, 1))
    return c.b.one("Where", c.b.constant(np.eye(rows, columns, dtype=bool)), spread, c.b.plain(x))


@op("SPARSE_TO_DENSE")
def sparse_to_dense(c: Call) -> Result:
    """Values at places of a tensor filled with a default."""
    places, shape = c.tensor(0), c.ints(1, "the shape")
    index = c.b.reshape(c.b.cast(c.b.plain(places), INT64), (-1, len(shape)))
    filled = c.b.one("Expand", c.b.reshape(c.plain(3), ()), c.b.ints(list(shape)))
    values = c.b.one("Expand", c.plain(2), c.b.ints([extents_of(index)[0]]))
    return c.b.one("ScatterND", filled, index, values)


@op("CUMSUM")
def cumsum(c: Call) -> Result:
    return c.standard("Cumsum", exclusive=bool(c.option("exclusive")), reverse=bool(c.option("reverse")))


@op("DENSIFY")
def densify(c: Call) -> Result:
    """Sparse constants are dense from the reader on."""
    return c.items[0]


@op("QUANTIZE")
def quantize(c: Call) -> Result:
    return requantised(c)


@op("DEQUANTIZE")
def dequantize(c: Call) -> Result:
    """Floats of integers, or of floats of 16 bits."""
    x, t = c.tensor(0), c.info(0)
    to = c.result().dtype
    if t.dtype.is_float:
        return Tensor(c.b.cast(x.value, to), x.order)
    q = c.scales(t)
    scale, zero = c.b.constant(q.scale if not q.is_single else q.scale[0]), q.zero
    given = c.b.plain(x) if not q.is_single else x.value
    centred = c.b.cast(given, INT32)
    if np.any(zero):
        shape = [1] * x.rank
        shape[q.axis] = len(zero)
        moved = zero.reshape(shape) if not q.is_single else zero[0]
        centred = c.b.one("Sub", centred, c.b.constant(moved, INT32))
    if not q.is_single:
        shape = [1] * x.rank
        shape[q.axis] = len(q.scale)
        scale = c.b.reshape(scale, shape)
    made = c.b.one("Mul", c.b.cast(centred, to), scale)
    return Tensor(made, x.order if q.is_single else None)


@op("UNIQUE")
def unique(c: Call) -> Result:
    """Each element once, in the order in which it first comes, and where each element stands there."""
    y, _, index, _ = c.b.many("Unique", 4, c.plain(0), sorted=0)
    return [y, c.b.cast(index, c.kind_option("idx_out_type", "INT32"))]
