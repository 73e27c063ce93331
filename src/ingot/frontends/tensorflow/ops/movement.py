"""What moves elements: transposes, slices, joins, gathers, padding, tiles."""

from __future__ import annotations

import numpy as np

from ingot.formula.types import BOOL, INT64
from ingot.frontends.builder import extents_of
from ingot.frontends.orders import aligned, like, sliced
from ingot.frontends.tensorflow.ops.table import Call, Result, op
from ingot.frontends.tensorflow.values import Tensor
from ingot.graph.ir import Value


@op("Transpose")
def transpose(c: Call) -> Result:
    """Only the order is noted: who reads the result may want another one anyway."""
    x = c.tensor(0)
    perm = c.axes(1, x.rank)
    c.require(
        sorted(perm) == list(range(x.rank)),
        f"perm must name each of the {x.rank} axes once, but it is {list(perm)}",
    )
    order = tuple(x.order[p] for p in perm) if x.order is not None else perm
    return Tensor(x.value, None if order == tuple(range(x.rank)) else order)


# ---- slices


@op("Slice")
def slice_(c: Call) -> Result:
    x, size = c.tensor(0), c.ints(2, "the size")
    if c.tensor(1).constant is None:
        return _slice_at_run_time(c, size)
    begin = c.ints(1, "the beginning")
    fits = len(begin) == len(size) == x.rank
    c.require(
        fits, f"begin {list(begin)} and size {list(size)} must have one number for each of {x.rank} axes"
    )
    ends = [b + s if s >= 0 else n for b, s, n in zip(begin, size, x.shape, strict=True)]
    fits = all(0 <= b <= e <= n for b, e, n in zip(begin, ends, x.shape, strict=True))
    c.require(fits, f"the part from {list(begin)} to {ends} reaches beyond the tensor")
    return sliced(c.b, c.b.plain(x), begin, ends, [1] * x.rank)


def _slice_at_run_time(c: Call, size: tuple[int, ...]) -> Value:
    """Axis by axis, a gather of `size` neighbours from a beginning that is known at run time."""
    x = c.tensor(0)
    c.require(len(size) == x.rank, f"size {list(size)} must have one number for each of {x.rank} axes")
    found, begins = c.b.plain(x), c.b.cast(c.plain(1), INT64)
    for axis, (n, m) in enumerate(zip(x.shape, size, strict=True)):
        if m in (-1, n):
            continue
        first = c.b.one("Gather", begins, c.b.ints([axis]), axis=0)
        found = c.b.one("Gather", found, c.b.one("Add", first, c.b.counted(m)), axis=axis)
    return found


@op("StridedSlice")
def strided_slice(c: Call) -> Result:
    """All five masks. An axis has begin, end and stride; an ellipsis stands for the axes not mentioned."""
    x = c.tensor(0)
    masks = [c.node.integer(f"{m}_mask") for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")]
    if c.tensor(1).constant is None:
        return _indexed(c, masks)
    begin, end, strides = (c.ints(i, "a bound") for i in (1, 2, 3))
    counts = [len(begin), len(end), len(strides)]
    c.require(
        len(set(counts)) == 1, f"begin, end and strides must be equally long, but they have {counts} numbers"
    )
    spec = _spread(c, x.rank, len(begin), masks)
    starts, ends, steps = [0] * x.rank, list(x.shape), [1] * x.rank
    for axis, i in ((a, i) for kind, a, i in spec if kind in ("slice", "shrink")):
        starts[axis], ends[axis], steps[axis] = _bounds(
            c, x.shape[axis], begin[i], end[i], strides[i], [bool(m >> i & 1) for m in (*masks[:2], masks[4])]
        )
    found = sliced(c.b, c.b.plain(x), starts, ends, steps)
    kept: list[int] = []
    for kind, axis, _ in spec:
        if kind == "new":
            kept.append(1)
        elif kind != "shrink":
            kept.append(extents_of(found)[axis])
    return c.b.reshape(found, kept)


Spec = list[tuple[str, int, int]]


def _spread(c: Call, rank: int, count: int, masks: list[int]) -> Spec:
    """What each number, and each axis behind an ellipsis or the last number, means: (kind, axis, number)."""
    _, _, ellipsis, new, shrink = masks
    taken = sum(1 for i in range(count) if not (ellipsis | new) >> i & 1)
    c.require(taken <= rank, f"the slice has bounds for {taken} axes, but the tensor has {rank}")
    rest, spec, axis, seen = rank - taken, Spec(), 0, False
    for i in range(count):
        if ellipsis >> i & 1:
            c.require(not seen, "ellipsis_mask has more than one bit, but a slice may have one ellipsis only")
            seen = True
            spec += [("whole", axis + k, i) for k in range(rest)]
            axis += rest
        elif new >> i & 1:
            spec.append(("new", -1, i))
        else:
            spec.append(("shrink" if shrink >> i & 1 else "slice", axis, i))
            axis += 1
    return spec + [("whole", a, -1) for a in range(axis, rank)]


def _bounds(c: Call, n: int, begin: int, end: int, step: int, masks: list[bool]) -> tuple[int, int, int]:
    """Numbers from the front, clipped as numpy clips them; an end before the first element is -1."""
    no_begin, no_end, is_shrunk = masks
    c.require(step != 0, "a stride is 0, but a slice needs a step forward or back")
    if is_shrunk:
        c.require(-n <= begin < n, f"element {begin} is taken of an axis that has {n}")
        return begin % n, begin % n + 1, 1
    start, stop, step = slice(None if no_begin else begin, None if no_end else end, step).indices(n)
    return (start, max(stop, start), step) if step > 0 else (start, min(stop, start), step)


def _indexed(c: Call, masks: list[int]) -> Value:
    """x[i, j, ...] with indices known at run time: gathers along the first axes."""
    *_, ellipsis, new, shrink = masks
    count = c.tensor(1).shape[0] if c.tensor(1).rank == 1 else 0
    if ellipsis or new or shrink != (1 << count) - 1 or not count:
        raise c.refuse(
            "the slice's bounds are computed at run time, so its shape is not known; make them constants"
        )
    found, indices = c.plain(0), c.b.cast(c.plain(1), INT64)
    for i in range(count):
        found = c.b.one(
            "Gather", found, c.b.one("Gather", indices, c.b.constant(np.int64(i)), axis=0), axis=0
        )
    return found


# ---- joins and parts


@op("ConcatV2")
def concat_v2(c: Call) -> Result:
    return joined(c, c.tensors[:-1], c.axis(len(c.items) - 1, c.tensor(0).rank))


@op("Concat")
def concat(c: Call) -> Result:
    return joined(c, c.tensors[1:], c.axis(0, c.tensor(1).rank))


def joined(c: Call, parts: list[Tensor], axis: int) -> Tensor:
    c.require(len({p.rank for p in parts}) == 1, "the parts must have equally many axes")
    if len(parts) == 1:
        return parts[0]
    values, order = aligned(c.b, parts)
    return Tensor(c.b.one("Concat", *values, axis=order[axis] if order else axis), order)


@op("Split")
def split(c: Call) -> Result:
    x, count = c.tensor(1), c.node.integer("num_split", 1)
    axis = c.axis(0, x.rank)
    fits = 0 < count <= 1 << 16 and x.shape[axis] % count == 0
    c.require(
        fits, f"axis {axis} of {x.shape[axis]} elements does not divide into num_split = {count} equal parts"
    )
    return _parts(c, x, [x.shape[axis] // count] * count, axis)


@op("SplitV")
def split_v(c: Call) -> Result:
    x, sizes = c.tensor(0), list(c.ints(1, "the sizes"))
    axis = c.axis(2, x.rank)
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(s for s in sizes if s >= 0)
    fits = min(sizes) >= 0 and sum(sizes) == x.shape[axis]
    c.require(fits, f"the sizes {sizes} must add up to the {x.shape[axis]} elements of axis {axis}")
    return _parts(c, x, sizes, axis)


def _parts(c: Call, x: Tensor, sizes: list[int], axis: int) -> Result:
    if len(sizes) == 1:
        return [x]
    made = c.b.many("Split", len(sizes), x.value, c.b.ints(sizes), axis=x.order[axis] if x.order else axis)
    return [Tensor(v, x.order) for v in made]


@op("Pack")
def pack(c: Call) -> Result:
    return stacked(c, c.tensors, c.node.integer("axis"))


def stacked(c: Call, parts: list[Tensor], axis: int) -> Value:
    """A new axis in front of which the parts lie side by side."""
    c.require(bool(parts), "there are no tensors to stack")
    rank = parts[0].rank + 1
    c.require(all(p.shape == parts[0].shape for p in parts), "what is stacked must be of one shape")
    c.require(-rank <= axis < rank, f"axis {axis} does not exist: the result has {rank} axes")
    axis %= rank
    shape = (*parts[0].shape[:axis], 1, *parts[0].shape[axis:])
    raised = [c.b.reshape(c.b.plain(p), shape) for p in parts]
    return raised[0] if len(raised) == 1 else c.b.one("Concat", *raised, axis=axis)


@op("Unpack")
def unpack(c: Call) -> Result:
    x = c.tensor(0)
    axis, count = c.node.integer("axis"), c.node.integer("num")
    fits = -x.rank <= axis < x.rank and x.shape[axis] == count
    c.require(fits, f"num is {count}, but that is not the extent of axis {axis}")
    axis %= x.rank
    rest = [n for i, n in enumerate(x.shape) if i != axis]
    parts = _parts(c, Tensor(c.b.plain(x)), [1] * count, axis) if count else []
    assert isinstance(parts, list)
    return [c.b.reshape(p.value, rest) for p in parts if isinstance(p, Tensor)]


# ---- repetition and padding


@op("Tile")
def tile(c: Call) -> Result:
    return c.b.one("Tile", c.plain(0), c.b.ints(list(c.ints(1, "the repetitions"))))


@op("Pad", "PadV2", "MirrorPad")
def pad(c: Call) -> Result:
    """Held as the operand is: a padding before a convolution stays in its order."""
    x, pads = c.tensor(0), np.array(c.known(1, "the padding"), np.int64)
    c.require(
        pads.shape == (x.rank, 2) and pads.min(initial=0) >= 0,
        f"the padding must be [{x.rank}, 2] numbers from 0 on",
    )
    held = pads
    if x.order is not None:
        held = np.zeros_like(pads)
        held[list(x.order)] = pads
    amounts, mode = c.b.ints(held.T.reshape(-1).tolist()), c.node.text("mode")
    if c.node.op == "MirrorPad":
        if mode == "SYMMETRIC":
            return _symmetric(c, pads)
        return Tensor(c.b.one("Pad", x.value, amounts, mode="reflect"), x.order)
    value = c.b.reshape(c.plain(2), ()) if c.node.op == "PadV2" else like(c.b, x.value, 0)
    return Tensor(c.b.one("Pad", x.value, amounts, value), x.order)


def _symmetric(c: Call, pads: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Value:
    """The edge is repeated too: each axis gathers from 2 1 0 | 0 1 2 ... | n-1 n-2."""
    found = c.plain(0)
    for axis, (before, after) in enumerate(pads.tolist()):
        n = c.tensor(0).shape[axis]
        fits = before <= n and after <= n
        c.require(
            fits, f"a symmetric padding may be as wide as axis {axis}, {n}, but it is {before} and {after}"
        )
        index = [*reversed(range(before)), *range(n), *reversed(range(n - after, n))]
        if before or after:
            found = c.b.one("Gather", found, c.b.ints(index), axis=axis)
    return found


@op("ReverseV2")
def reverse(c: Call) -> Result:
    x = c.tensor(0)
    axes = c.axes(1, x.rank)
    starts, ends, steps = [0] * x.rank, list(x.shape), [1] * x.rank
    for a in axes:
        starts[a], ends[a], steps[a] = x.shape[a] - 1, -1, -1
    return sliced(c.b, c.b.plain(x), starts, ends, steps)


@op("ReverseSequence")
def reverse_sequence(c: Call) -> Result:
    time, batch = c.node.integer("seq_dim"), c.node.integer("batch_dim")
    if {time, batch} != {0, 1}:
        raise c.refuse(
            f"seq_dim {time} and batch_dim {batch} must be 0 and 1, in any order; transpose the tensor"
        )
    lengths = c.b.cast(c.plain(1), INT64)
    return c.b.one("ReverseSequence", c.plain(0), lengths, time_axis=time, batch_axis=batch)


# ---- gathers and scatters


@op("Gather", "ResourceGather")
def gather(c: Call) -> Result:
    return c.b.one("Gather", c.plain(0), c.plain(1), axis=0)


@op("GatherV2")
def gather_v2(c: Call) -> Result:
    x, batch = c.tensor(0), c.node.integer("batch_dims")
    axis = c.axis(2, x.rank)
    if batch == 0:
        return c.b.one("Gather", c.b.plain(x), c.plain(1), axis=axis)
    if batch != axis or c.tensor(1).rank < batch:
        raise c.refuse(f"batch_dims {batch} with axis {axis} is not supported")
    indices = c.b.cast(c.b.reshape(c.plain(1), (*c.tensor(1).shape, 1)), INT64)
    return c.b.one("GatherND", c.b.plain(x), indices, batch_dims=batch)


@op("GatherNd")
def gather_nd(c: Call) -> Result:
    return c.b.one(
        "GatherND", c.plain(0), c.b.cast(c.plain(1), INT64), batch_dims=c.node.integer("batch_dims")
    )


@op("ScatterNd")
def scatter_nd(c: Call) -> Result:
    """Elements that meet are added."""
    zeros = c.b.filled(c.ints(2, "the shape"), 0, c.tensor(1).dtype)
    return c.b.one("ScatterND", zeros, c.b.cast(c.plain(0), INT64), c.plain(1), reduction="add")


SCATTERS = {"Update": "none", "Add": "add", "Sub": "add", "Max": "max", "Min": "min"}


@op(*(f"TensorScatter{kind}" for kind in SCATTERS))
def tensor_scatter(c: Call) -> Result:
    kind, rows = c.node.op.removeprefix("TensorScatter"), c.plain(2)
    rows = c.b.one("Neg", rows) if kind == "Sub" else rows
    return c.b.one("ScatterND", c.plain(0), c.b.cast(c.plain(1), INT64), rows, reduction=SCATTERS[kind])


@op("OneHot")
def one_hot(c: Call) -> Result:
    depth = int(c.number(1, "the depth"))
    values = c.b.one("Concat", c.b.reshape(c.plain(3), (1,)), c.b.reshape(c.plain(2), (1,)), axis=0)
    # TensorFlow leaves a row off where an index is negative; ONNX would count it from the end
    given = c.b.cast(c.plain(0), INT64)
    is_inside = c.b.one("GreaterOrEqual", given, like(c.b, given, 0))
    index = c.b.one("Where", is_inside, given, like(c.b, given, depth))
    return c.b.one("OneHot", index, c.b.ints(depth), values, axis=c.node.integer("axis", -1))


@op("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(c: Call) -> Result:
    """Row indices[i][j] of the result is row j of data[i]; of several for one place, the last."""
    count = len(c.items) // 2
    flat = np.concatenate([c.known(i, "an index").reshape(-1) for i in range(count)] or [np.zeros(0)])
    fits = count > 0 and flat.size > 0 and flat.min() >= 0
    c.require(fits, "there must be at least one index, and none below 0")
    rows: list[Value] = []
    for i in range(count):
        index, data = c.tensor(i), c.tensor(count + i)
        n = int(np.prod(index.shape))
        fits = data.shape[: index.rank] == index.shape
        c.require(fits, f"data {i} must have a row for each of its indices, but their shapes differ")
        rows.append(c.b.reshape(c.b.plain(data), (n, *data.shape[index.rank :])))
    last = {int(place): k for k, place in enumerate(flat)}
    c.require(
        len(last) == max(last) + 1,
        f"row {max(last)} is given, but not all of those before it; give every row an index",
    )
    everything = rows[0] if count == 1 else c.b.one("Concat", *rows, axis=0)
    return c.b.one("Gather", everything, c.b.ints([last[i] for i in range(len(last))]), axis=0)


@op("Roll")
def roll(c: Call) -> Result:
    """Elements move towards higher indices, and from the end to the beginning."""
    found, shape = c.plain(0), c.tensor(0).shape
    shifts, axes = c.ints(1, "the shift"), c.axes(2, len(shape))
    for shift, axis in zip(shifts, axes, strict=True):
        n = shape[axis]
        index = [(i - shift) % n for i in range(n)]
        found = c.b.one("Gather", found, c.b.ints(index), axis=axis)
    return found


@op("MatrixBandPart")
def matrix_band_part(c: Call) -> Result:
    x, low, high = c.tensor(0), int(c.number(1, "the band")), int(c.number(2, "the band"))
    c.require(x.rank >= 2, f"the input must be a matrix, with at least two axes, but it has {x.rank}")
    rows, columns = np.indices(x.shape[-2:])
    band = ((low < 0) | (rows - columns <= low)) & ((high < 0) | (columns - rows <= high))
    return c.b.one("Where", c.b.constant(band, BOOL), c.b.plain(x), like(c.b, x.value, 0))
