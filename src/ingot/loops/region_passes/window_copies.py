"""Copies around sliding windows, so that windows read and write memory in the order that suits them.

    x -> conv -> y            x -> import -> conv -> export -> y

In: a fused region. Out: the region with groups that copy, and the copies that keep the rows of each channel.

* An input of the bundle that a window would leave is imported into a buffer with a halo, also where it has
  another shape for the window. So is an output that the region itself reads, and a view of bytes.
* An output of at most `FEW_CHANNELS`, or of as many as fill half a vector and come from few others, or each
  channel of its own, or of few terms, has the row as its vector axis, and so has a signal's whose channels
  fill vectors badly: a vector along few channels would be nearly empty, one along many costs two transposes.
  What the window reads is imported in rows of each channel, with a halo of what it yields outside.
* An output that other windows make is written channels last, as vectors along channels come, and exported: a
  transpose costs less than stores of single elements.

ONNX's spatial operators put channels at axis 1.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from dataclasses import replace
from math import prod

from ingot.formula.compute import Compute, Scan, Stage, computes, copying, reads, writes
from ingot.formula.expr import Const, Expr, Load, Tensor, Var, loads, static, substitute, transform, walk
from ingot.formula.index import coefficient, interval, linear, mentions, simplify
from ingot.formula.types import FLOAT32
from ingot.loops.cuts import in_vectors
from ingot.loops.doubled_windows import doubled_load
from ingot.loops.edges import is_made_at_ends, may_be_cut, most_taps
from ingot.loops.inner_products import is_product
from ingot.loops.kernels.winograd.match import MOST_STRIDE
from ingot.loops.picked_windows import is_picked
from ingot.loops.region import Either, Group, Item, Region, read_instead
from ingot.loops.region_passes.columns import FEW_CHANNELS, sum_columns
from ingot.loops.region_passes.parted_columns import parted, parting, parts_of, read_parted
from ingot.loops.region_passes.place_tables import tabulate_places
from ingot.loops.region_passes.rounded_phases import round_behind
from ingot.loops.region_passes.separable import separate_windows
from ingot.loops.region_passes.weave import Phases, phases_of, woven
from ingot.targets.record import Target

SHORTEST_ROW = 4
MANY_CHANNELS = 16  # of either side, for which fast convolutions save more than an import costs
LIGHT = 64  # terms of a result beside which its export counts
WASTEFUL = 1.5  # times the terms of a signal's result along rows, lanes that hold nothing included
EXPORT = 6.0  # the terms that are multiplied in the time in which an element is exported

Halo = dict[Tensor, tuple[list[int], list[int]]]
"""How far windows read beyond a tensor, per axis: before it and after it."""


Source = tuple[Tensor, float | int, int]
"""What is copied in rows, what lies around it, and in how many parts its columns are."""
Copies = dict[Source, Tensor]
Fills = dict[Tensor, float | int]
"""Copies that are stored in rows of each channel, and what lies around them."""


def insert_copies(region: Region, target: Target, fast: bool) -> Fills:
    """Insert the copies into a region and return those that are stored in rows of each channel.

    Without vectors of floats only the imports pay. `fast`: convolutions may be computed by fast algorithms.
    """
    in_rows, outputs = Fills(), set(region.outputs)
    if target.vector_bytes:
        in_rows |= dict.fromkeys(sum_columns(region, target), 0)
        outputs -= _along_channels(region, target)
        tabulate_places(region)
        sums = round_behind(region)
        in_rows |= dict.fromkeys(sums, 0)
        in_rows |= _import_rows(region, separate_windows(region), {*outputs, *sums}, target)
    dense, fast = {*outputs, *in_rows}, fast and target.vector_bytes > 0
    for t in _given(region):
        if t.rank >= 3 and _needs_import(region, t, target, dense, fast):
            _insert_import(region, t)
    for t in region.outputs if target.vector_bytes else ():
        if _needs_export(region, t, target, outputs, in_rows):
            _insert_export(region, t)
    views = (g.view[0] for g in _groups(region) if g.view is not None and _is_byte(g.view[0]))
    for t in (*region.outputs, *views):  # after the exports, which windows do not read in the caller's order
        if t.rank >= 3 and _needs_import(region, t, target, dense, fast):
            _insert_import(region, t)
    return in_rows


def windows(c: Compute) -> Iterator[Load]:
    """The loads that slide: some index moves with an output axis and a reduction axis at once. Bytes summed
    over channels count too, a window of one element: machines multiply neighbours of them at once.
    """
    if c.reduction is None:
        return
    outer, inner = {a.name for a in c.axes}, {a.name for a in c.reduction.axes}
    for load in loads(c.reduction.term):
        if load.tensor.rank < 3:
            continue
        if any(_slides(i, outer, inner) for i in load.index) or _sums_bytes(c, load):
            yield load


def _sums_bytes(c: Compute, load: Load) -> bool:
    """Whether a sum of products of bytes goes over the channels of an image."""
    assert c.reduction is not None
    is_image = c.out.rank == load.tensor.rank and load.tensor.type.bits == 8 and c.reduction.combine == "sum"
    return is_image and any(mentions(load.index[1], k.name) for k in c.reduction.axes)


def _slides(i: Expr, outer: set[str], inner: set[str]) -> bool:
    names = {v.name for atom in linear(i) if atom is not None for v in walk(atom) if isinstance(v, Var)}
    return bool(names & outer) and bool(names & inner)


def is_gathered(load: Load) -> bool:
    """Whether data says where it reads: no halo can hold all that may lie there."""
    return any(isinstance(n, Load) for i in load.index for n in walk(i))


def grow(halos: Halo, load: Load) -> None:
    """Widen the halo of a load's tensor to all that the load may read."""
    before, after = halos.setdefault(load.tensor, ([0] * load.tensor.rank, [0] * load.tensor.rank))
    for d, (i, n) in enumerate(zip(load.index, load.tensor.shape, strict=True)):
        try:
            lo, hi = interval(i)
        except ValueError:
            continue
        if isinstance(n, int):
            before[d] = max(before[d], -lo)
            after[d] = max(after[d], hi - n + 1)


def _groups(region: Region) -> list[Group]:
    return [i for i in region.items if isinstance(i, Group)]


# ---- inputs


def _given(region: Region) -> list[Tensor]:
    """The inputs, and the views of them, which lie as they do."""
    found = list(region.inputs)
    for group in _groups(region):
        if group.view is not None and group.view[1] in found:
            found.append(group.view[0])
    return found


def _needs_import(region: Region, t: Tensor, target: Target, dense: set[Tensor], fast: bool) -> bool:
    """Whether a window leaves the tensor, or has vectors along channels, which do not lie together there."""
    for c in (c for g in _groups(region) for c in computes(g.stages)):
        in_rows = list(_row_windows(c, dense, target.lanes(FLOAT32.bytes))) if target.vector_bytes else []
        for load in (x for x in windows(c) if x.tensor is t and x not in in_rows):
            assert c.reduction is not None
            in_vectors = target.vector_bytes and (_is_own(c, load) or _sums_bytes(c, load))
            along_channels = c.reduction.combine != "sum" or in_vectors
            if along_channels or _leaves(load) or (fast and _suits_winograd(c, load)):
                return True
    return False


def _suits_winograd(c: Compute, load: Load) -> bool:
    """Whether a convolution of many channels may be a fast one, which reads channels last: what that saves is
    much more than an import.
    """
    assert c.reduction is not None
    channels = (c.out.shape[1], load.tensor.shape[1])
    if not (is_product(c) and _is_static_float(c.out) and _is_static_float(load.tensor)):
        return False
    if c.out.rank != load.tensor.rank or min(map(static, channels)) < MANY_CHANNELS:
        return False
    sides = list[tuple[int, int | None, int | None]]()
    for i, x in zip(load.index[2:], c.axes[2:], strict=False):
        taps = [k for k in c.reduction.axes if k.extent != 1 and mentions(i, k.name)]
        if len(taps) > 1:
            return False
        sides += [(static(k.extent), coefficient(i, k.name), coefficient(i, x.name)) for k in taps]
    if len(sides) not in (1, 2) or len(set(sides)) != 1:
        return False
    ((count, dilation, stride),) = set(sides)
    return count > 2 and stride in range(1, (MOST_STRIDE if dilation == 1 else 1) + 1)


def _leaves(load: Load) -> bool:
    """Whether a window reads beyond its tensor."""
    halo: Halo = {}
    grow(halo, load)
    return load.outside is not None and any(map(any, halo[load.tensor]))


def _is_own(c: Compute, load: Load) -> bool:
    """Whether every channel is made of its own: pooling and depthwise convolutions."""
    return len(c.axes) == load.tensor.rank and bool(coefficient(load.index[1], c.axes[1].name))


def _insert_import(region: Region, t: Tensor) -> None:
    copy = Tensor(f"{t.name}_padded", t.type, t.shape)
    first = Group((f"import_{t.name}",), (copying(t, copy),))
    made = [i for i, item in enumerate(region.items) if t in _made_by(item)]
    for group in _groups(region):
        group.stages = tuple(read_instead(s, t, copy) for s in group.stages)
    region.items.insert(made[-1] + 1 if made else 0, first)


def _made_by(item: Item) -> Collection[Tensor]:
    return item.results if isinstance(item, Either) else item.writes


# ---- rows


def _along_channels(region: Region, target: Target) -> set[Tensor]:
    """The outputs that depthwise convolutions make along channels, because rows fill vectors so badly that it
    costs more than two transposes.
    """
    makers = (c for g in _groups(region) for c in computes(g.stages) if c.out in region.outputs)
    return {c.out for c in makers if _is_depthwise(c) and _costs_more_in_rows(c, target)}


def _is_depthwise(c: Compute) -> bool:
    """Whether windows are multiplied by weights, each channel by its own, and stored without gaps."""
    sliding = list(windows(c))
    is_whole = bool(sliding) and not c.at and is_product(c) and _is_static_float(c.out)
    return is_whole and all(_is_own(c, x) and _is_static_float(x.tensor) for x in sliding)


def _costs_more_in_rows(c: Compute, target: Target) -> bool:
    """Whether rows fill vectors so badly; or windows of a row share nothing, and have more weights than there
    are registers by far.
    """
    assert c.reduction is not None
    in_rows, in_channels = _work(c, target.lanes(FLOAT32.bytes))
    taps = prod(static(k.extent) for k in c.reduction.axes)
    strided = any((coefficient(x.index[-1], c.axes[-1].name) or 0) > 1 for x in windows(c))
    return in_rows > in_channels + 2 * EXPORT or (strided and taps > 2 * target.registers)


def _pays_in_rows(c: Compute, load: Load, lanes: int) -> bool:
    """Whether rows fill vectors better than channels and an export, and that counts: a result is of so few
    terms that its export costs much beside them, or a signal's channels fill vectors badly, or an image's
    fill half a vector and come from few others, of which Winograd would save little.
    """
    assert c.reduction is not None
    if not is_product(c) or not all(isinstance(a.extent, int) for a in (*c.axes, *c.reduction.axes)):
        return False
    in_rows, in_channels = _work(c, lanes)
    if load.tensor.rank == 3:
        counts = in_channels >= WASTEFUL * in_rows
    else:
        counts = 2 * static(c.out.shape[1]) <= lanes and static(load.tensor.shape[1]) < 2 * lanes
    return (in_channels <= LIGHT or counts) and in_rows < in_channels + EXPORT


def _work(c: Compute, lanes: int) -> tuple[float, float]:
    """The terms of a result along rows and along channels, those of lanes that hold nothing with them."""
    assert c.reduction is not None
    terms, n = prod(static(k.extent) for k in c.reduction.axes), static(c.axes[-1].extent)
    vectors = sum((hi - lo) // width for lo, hi, width in in_vectors(n, lanes, overlap=True))
    return terms * vectors * lanes / n, terms * _waste(static(c.out.shape[1]), lanes)


def _import_rows(
    region: Region, between: dict[Tensor, Compute], outputs: set[Tensor], target: Target
) -> Fills:
    """Insert the copies in rows, each before the first group that reads it. What is made `between` the parts
    of a window that goes along rows is in rows too, beside the `outputs`.
    """
    dense, lanes = set(outputs), target.lanes(FLOAT32.bytes)
    made: Copies = {}
    apart: Fills = {}
    for t, second in reversed(between.items()):
        for load in _row_windows(second, dense, lanes):
            dense.add(t)
            apart[t] = _source(second, load)[1]
    for group in _groups(region):
        for reader, load in [(s, x) for s in group.stages for x in _row_windows(s, dense, lanes)]:
            t, fill, parts = key = _source(reader, load)
            if parts == 1 and t not in apart and _is_made_for_rows(region, key, dense, lanes):
                apart[t] = fill
            is_free = t in apart or (t in region.inputs and not _needs_halo(reader, load, target))
            if key not in made and (parts > 1 or not is_free):
                made[key], stage = _copied(key)
                region.items.insert(region.items.index(group), Group((f"import_{t.name}",), (stage,)))
        in_rows = any(any(_row_windows(s, dense, lanes)) for s in group.stages)
        group.stages = tuple(_in_rows(s, made, dense, lanes) for s in group.stages)
        if in_rows and (phases := _phases(group)) is not None:
            group.stages = tuple(phases.stored(s) for s in group.stages if isinstance(s, Compute))
            region.items.insert(region.items.index(group) + 1, Group(group.nodes, tuple(woven(phases))))
            apart[phases.tensor] = 0
    return {copy: fill for (_, fill, _), copy in made.items()} | apart


def _is_made_for_rows(region: Region, source: Source, dense: set[Tensor], lanes: int) -> bool:
    """Whether a map makes a tensor that windows along rows alone read, all with the same around it: then it
    stores rows, and nothing has to be copied.
    """
    t = source[0]
    if t in region.inputs or t in region.outputs or any(g.view and t in g.view for g in _groups(region)):
        return False
    stages = [s for g in _groups(region) for s in g.stages]
    if not all(_is_map(s) for s in stages if t in writes(s)):
        return False
    for s in (s for s in stages if t in reads(s)):
        in_rows = list(_row_windows(s, dense, lanes))
        here = [x for e in s.expressions for x in loads(e) if x.tensor is t] if isinstance(s, Compute) else []
        if not here or any(x not in in_rows or _source(s, x) != source for x in here):
            return False
    return True


def _phases(group: Group) -> Phases | None:
    """The phases of a transposed convolution, if that is what a group makes."""
    stages = [s for s in group.stages if isinstance(s, Compute)]
    gaps = len(stages) == len(group.stages) and all(map(_has_gaps, stages))
    return phases_of(stages) if gaps else None


def _is_map(s: Stage) -> bool:
    """Whether a stage computes each element of a tensor by itself, and does more than to move it."""
    return isinstance(s, Compute) and s.reduction is None and not s.at and not isinstance(s.value, Load)


def _needs_halo(stage: Stage, load: Load, target: Target) -> bool:
    """Whether windows read beyond so many rows that the edges cannot be cut off, or beyond the ends of rows
    of which no vector is put together.
    """
    assert isinstance(stage, Compute) and stage.reduction is not None
    halo: Halo = {}
    grow(halo, load)
    before, after = halo[load.tensor]
    if load.outside is None or not any((*before, *after)) or doubled_load(stage, target) == load:
        return False
    if (before[-1] or after[-1]) and not _is_made_at_ends(stage, load, target):
        return True
    return not may_be_cut(stage.reduction, (sum(before[:-1]), sum(after[:-1])), target)


def _is_made_at_ends(c: Compute, load: Load, target: Target) -> bool:
    """Whether vectors at the ends of rows are put together: of windows that slide along another axis too, and
    of channels that have filters of their own, or few that share what is loaded.
    """
    assert c.reduction is not None
    slides = any(a.extent != 1 and any(mentions(i, a.name) for i in load.index[1:]) for a in c.axes[:-1])
    suits = _is_own(c, load) or static(c.out.shape[1]) <= FEW_CHANNELS
    return slides and suits and is_made_at_ends(c.reduction, load, c.axes[-1], most_taps(target))


def _source(stage: Stage, load: Load) -> Source:
    """What a window reads, what it reads outside, and in how many parts it should find the columns."""
    assert isinstance(stage, Compute)
    return load.tensor, load.outside.value if isinstance(load.outside, Const) else 0, parts_of(stage, load)


def _copied(source: Source) -> tuple[Tensor, Compute]:
    """A copy in rows, and the stage that makes it."""
    t, fill, parts = source
    if parts > 1:
        copy = parted(t, parts)
        return copy, parting(t, copy, fill)
    copy = Tensor(f"{t.name}_channels_first", t.type, t.shape)
    return copy, copying(t, copy)


def _in_rows(stage: Stage, made: Copies, dense: set[Tensor], lanes: int) -> Stage:
    """The stage with what it reads in rows read from the copies."""
    read = stage
    for load in list(_row_windows(stage, dense, lanes)):
        source = _source(stage, load)
        if (copy := made.get(source)) is not None:
            read = (read_parted if source[2] > 1 else read_instead)(read, load.tensor, copy)
    return read


def _has_gaps(c: Compute) -> bool:
    """Whether neighbours of a row are not stored side by side."""
    return coefficient(c.index[-1], c.axes[-1].name) != 1


def _row_windows(stage: Stage, dense: Container[Tensor], lanes: int) -> Iterator[Load]:
    """The loads of a stage that should go along rows of a channel; `dense` tensors store channels first."""
    if not isinstance(stage, Compute) or stage.reduction is None:
        return
    if stage.out.rank >= 3 and (stage.out.shape[1] == 1 or stage.out in dense):
        yield from (load for load in windows(stage) if _suits_rows(stage, load, lanes))


def _suits_rows(c: Compute, load: Load, lanes: int) -> bool:
    """Whether a window of several elements, or a phase, goes along long rows without gaps, where vectors
    along channels are nearly empty or would cost two transposes.
    """
    assert c.reduction is not None
    t, x = load.tensor, c.axes[-1]
    is_image = len(c.axes) == t.rank and (c.out.rank == t.rank or bool(c.at))
    if not (is_image and _is_static_float(c.out) and _is_static_float(t)):
        return False
    if t.shape[1] == 1 or _moves_oddly(c.value, x) or is_gathered(load):
        return False
    if not _is_own(c, load) and static(c.out.shape[1]) > FEW_CHANNELS and not _pays_in_rows(c, load, lanes):
        return False
    spatial, sliding = load.index[2:], [k.name for k in c.reduction.axes if k.extent != 1]
    is_phase = _has_gaps(c) or c.out.rank > t.rank  # as it comes, or stored beside the others
    is_wide = is_phase or any(coefficient(i, k) for i in spatial for k in sliding)
    apart = coefficient(spatial[-1], x.name) or 0
    if not is_wide or static(x.extent) < SHORTEST_ROW or apart < 1:
        return False
    return apart == 1 or is_picked(c.reduction, apart) or parts_of(c, load) > 1


def _moves_oddly(value: Expr, x: Var) -> bool:
    """Whether a value depends on the place in a row by more than an element of a constant in its order."""

    def constant(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.tensor.value is None or e.index[-1:] != (x,):
            return None
        return None if any(mentions(i, x.name) for i in e.index[:-1]) else Const(0.0, e.dtype)

    return mentions(transform(value, constant), x.name)


def _is_static_float(t: Tensor) -> bool:
    return _is_float(t) and all(isinstance(n, int) for n in t.shape)


def _is_float(t: Tensor) -> bool:
    return t.type.is_float and t.type.compute is t.type


def _is_byte(t: Tensor) -> bool:
    return t.type.is_integer and t.type.bits == 8


# ---- outputs


def _needs_export(
    region: Region, t: Tensor, target: Target, outputs: Container[Tensor], in_rows: Container[Tensor]
) -> bool:
    """Whether windows make the tensor along channels, which must change their order with the places."""
    if t.rank < 3 or not all(isinstance(n, int) for n in t.shape[1:]) or not (_is_float(t) or _is_byte(t)):
        return False
    if t.shape[1] == 1 or prod(map(static, t.shape[2:])) == 1:
        return False
    makers = [s for g in _groups(region) for s in g.stages if t in writes(s)]
    if any(isinstance(s, Scan) or any(_row_windows(s, outputs, target.lanes(FLOAT32.bytes))) for s in makers):
        return False
    if any(
        x.tensor in in_rows and x.tensor.rank > t.rank for c in computes(tuple(makers)) for x in windows(c)
    ):
        return False  # the columns of what it reads are parted
    if all(_is_flat(s, region, target) for s in makers):
        return False
    return any(any(windows(c)) for c in computes(tuple(makers)))


def _is_flat(stage: Stage, region: Region, target: Target) -> bool:
    """Whether a stage multiplies each point's channels where the caller has them, nobody in the region reads
    what it makes, and vectors of points waste less than vectors of channels and the export behind them.
    """
    if not isinstance(stage, Compute) or stage.reduction is None or stage.reduction.combine != "sum":
        return False
    out, inputs = stage.out, set(region.inputs)
    if stage.at or any(out in g.reads for g in _groups(region)):
        return False
    moving = [x for e in (stage.value, stage.reduction.term) for x in loads(e) if _is_image(x, stage)]
    if not moving or not all(x.tensor in inputs and _is_in_place(x, stage) for x in moving):
        return False
    points, terms = prod(map(static, out.shape[2:])), prod(static(k.extent) for k in stage.reduction.axes)
    if static(out.shape[1]) * terms * out.type.bytes > target.caches[1] // 2:
        return False  # every block of points would go through weights that are far
    along_points, along_channels = (_waste(n, target.lanes(4)) for n in (points, static(out.shape[1])))
    return along_points <= along_channels + EXPORT / terms


def _is_image(load: Load, c: Compute) -> bool:
    """Whether a load moves from point to point."""
    return any(mentions(i, a.name) for i in load.index for a in c.axes[2:])


def _is_in_place(load: Load, c: Compute) -> bool:
    """Whether a load reads at the point that is made."""
    assert c.reduction is not None
    ones = {k.name: Const(0) for k in c.reduction.axes if k.extent == 1}
    at = tuple(simplify(substitute(i, ones)) for i in load.index[2:])
    return not _leaves(load) and at == tuple(c.axes[2:]) and load.tensor.shape[2:] == c.out.shape[2:]


def _waste(count: int, lanes: int) -> float:
    """How many lanes of whole vectors there are for each that holds something."""
    return -(-count // lanes) * lanes / count


def _insert_export(region: Region, t: Tensor) -> None:
    """All groups write and read the buffer; a last one, behind those that write, copies it to the output."""
    inner = Tensor(f"{t.name}_channels_last", t.type, t.shape)
    last = [i for i, item in enumerate(region.items) if isinstance(item, Group) and t in item.writes][-1]
    for group in _groups(region):
        read = (read_instead(s, t, inner) for s in group.stages)
        group.stages = tuple(
            replace(s, out=inner) if isinstance(s, Compute) and s.out is t else s for s in read
        )
    region.items.insert(last + 1, Group((f"export_{t.name}",), (copying(inner, t),)))
