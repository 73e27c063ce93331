"""Bands: stages that go through the rows of an image together, so that what lies between is never whole.

    expand -> depthwise -> project        for every four rows of the result:
    112 x 112 x 96 between the first          the rows of `expand` that are new, into a band of ten rows
    two, 56 x 56 x 96 after them      ->      four rows of `depthwise`, from the band into another
                                              four rows of `project`

A chain is made of stages each of which reads what the one before makes, by windows along the rows (a product
of 1 x 1 is a window of one row), and nobody else does. The rows that the next iteration reads again are moved
to the front of the band. No element is computed twice, none otherwise than before.

Where tensors are stored channel by channel and each is made of its own (a copy with a halo around it, a
depthwise convolution, the two passes of a large pooling), channels take the place of rows: what lies between
is a few channels, which stay in the first cache.

In: a region, the storage of its tensors, and how its stages are computed. Out: the groups of a chain made
one, and the `Band` of every tensor between. Called by `lower`; `kernels/banded.py` writes the loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

from ingot.formula.compute import Compute, Stage, reads, same_point
from ingot.formula.expr import Const, Expr, Gathered, Load, Tensor, loads, static, walk
from ingot.formula.index import coefficient, interval, mentions
from ingot.loops.choice import Band, Choice
from ingot.loops.doubled_windows import doubled_load
from ingot.loops.layout import Storage
from ingot.loops.region import Group, Region, reads_beside, regions_of
from ingot.loops.region_passes.subviews import is_nothing
from ingot.loops.region_passes.window_copies import windows
from ingot.targets.record import Target

ROOM = 4  # parts of the second cache, of which a chain's bands may take two, or three if they must
NEAR = 4  # the same, for the weights of two stages: they are read again in every iteration
LONGEST = 3  # stages: all of them pass through the first cache in every iteration
MOST_ROWS = 16  # of an iteration, or channels
FEWEST_POINTS = 8  # of an iteration, where rows are shorter: fewer leave vectors of both stages nearly empty
FEWEST_TILES = 8  # of a fast convolution: products of fewer rows have no registers in common

Bands = dict[Tensor, Band]
How = Callable[[Compute], Choice]


@dataclass(frozen=True, slots=True)
class Chain:
    """Groups of one stage each, in order, and the band between each and the next; rows are not chosen yet."""

    groups: tuple[Group, ...]
    bands: tuple[Band, ...] = ()

    @property
    def stages(self) -> tuple[Compute, ...]:
        return tuple(s for g in self.groups for s in g.stages if isinstance(s, Compute))

    @property
    def merged(self) -> Group:
        """One group of all stages; it is named after what the model has in it, not after a copy."""
        nodes = {n: all(map(_is_copy, g.stages)) for g in self.groups for n in g.nodes}
        return Group(tuple(sorted(nodes, key=lambda n: nodes[n])), self.stages)


def merge_bands(region: Region, storage: Storage, target: Target, how: How, parts: int) -> Bands:
    """Make the groups of every chain one, in regions of branches and loops too; the bands by their tensors.

    `parts`: into about how many pieces the rows of a chain are cut. Each begins anew: they may run at once.
    """
    found: Bands = {}
    for item in region.items:
        for inner in regions_of(item):
            found |= merge_bands(inner, storage, target, how, parts)
    for chain, bands in _chains(region, storage, target, how, parts):
        found.update(zip((s.out for s in chain.stages), bands, strict=False))
        _merge(region, chain)
    return found


def _chains(
    region: Region, storage: Storage, target: Target, how: How, parts: int
) -> list[tuple[Chain, tuple[Band, ...]]]:
    """What to go through together: the largest tensors are the first that shall not be whole."""
    groups = [i for i in region.items if isinstance(i, Group) and i.view is None and _is_plain(i, storage)]
    readers, makers = _readers(region), {t: g for g in groups for t in g.writes}
    links = [(t, makers[t], g) for g in groups for t in g.reads if t in makers and readers[t] == 1]
    chain_of = {id(g): Chain((g,)) for g in groups}
    sized: dict[int, tuple[Band, ...]] = {}
    for _, maker, reader in sorted(links, key=lambda link: -link[0].bytes):
        first, second = chain_of[id(maker)], chain_of[id(reader)]
        if first.groups[-1] is not maker or second.groups[0] is not reader:
            continue
        joined = _joined(first, second, storage, target)
        bands = None if joined is None else _sized(joined, target, how, parts)
        if joined is not None and bands is not None:
            chain_of.update((id(g), joined) for g in joined.groups)
            sized[id(joined.groups[-1])] = bands
    whole = {id(c): c for c in chain_of.values() if c.bands}
    return [(c, sized[id(c.groups[-1])]) for c in whole.values()]


def _merge(region: Region, chain: Chain) -> None:
    """The chain as one group, where its last one stands."""
    last = chain.groups[-1]
    items = [chain.merged if item is last else item for item in region.items]
    region.items = [item for item in items if item not in chain.groups]


def _is_copy(stage: Stage) -> bool:
    """Whether a stage moves elements without changing them."""
    if not isinstance(stage, Compute) or stage.reduction is not None:
        return False
    return isinstance(stage.value, Load) and same_point(stage.value, stage.axes)


def _readers(region: Region) -> Counter[Tensor]:
    """How many groups read each tensor; whom others than groups read counts as read by many."""
    count = Counter({t: 2 for t in reads_beside(region)})
    for item in region.items:
        if isinstance(item, Group):
            count.update(item.reads)
            count.update({t: 2 for t in item.view or ()})
    return count


def _is_plain(group: Group, storage: Storage) -> bool:
    """Whether one stage writes all of one tensor of floats, nothing about it known at run time only.

    A copy of elements onto themselves is none: it has no kernel, and a band before it would have no reader.
    """
    c = group.stages[0]
    if len(group.stages) > 1 or not isinstance(c, Compute) or c.at or not c.out.type.is_float:
        return False
    if is_nothing(c, storage.layouts):
        return False
    known = all(isinstance(n, int) for t in (c.out, *reads(c)) for n in t.shape)
    gathers = any(isinstance(n, Gathered) for e in c.expressions for n in walk(e))
    return known and not gathers and c.out.rank >= 3


def _joined(first: Chain, second: Chain, storage: Storage, target: Target) -> Chain | None:
    """The chain of both, if the second one begins by reading in windows what the first one makes."""
    maker, reader = first.stages[-1], second.stages[0]
    band = _window(maker, reader, storage, target)
    if band is None or (first.bands and maker.axes[band.dim].name != first.bands[-1].axis):
        return None
    if second.bands and reader.axes[second.bands[0].dim].name != band.axis:
        return None
    return Chain((*first.groups, *second.groups), (*first.bands, band, *second.bands))


def _window(maker: Compute, reader: Compute, storage: Storage, target: Target) -> Band | None:
    """How the reader's windows slide along the rows of what the maker makes."""
    t, layout = maker.out, storage.layout(maker.out)
    found = [x for e in reader.expressions for x in loads(e) if x.tensor is t]
    dim = _rows(t, layout.order, found, reader)
    axes = {a for a in reader.axes for x in found if dim is not None and mentions(x.index[dim], a.name)}
    if dim is None or layout.place is not None or len(axes) != 1:
        return None
    (axis,) = axes
    strides = {coefficient(x.index[dim], axis.name) for x in found}
    apart = any(mentions(i, axis.name) for x in found for d, i in enumerate(x.index) if d != dim)
    stride = strides.pop()
    if strides or apart or stride is None or stride < 1:
        return None
    reach = [
        _reach([x.index[d] - axis * stride if d == dim else x.index[d] for x in found]) for d in range(t.rank)
    ]
    if any(r is None for r in reach):
        return None
    sides = [r for r in reach if r is not None]
    first, last = sides[dim]
    ends = [(lo, hi - static(n) + 1) for (lo, hi), n in zip(sides, t.shape, strict=True)]
    ends[dim] = (first, last + (static(axis.extent) - 1) * stride - static(t.shape[dim]) + 1)
    fill = {x.outside for x in found}
    if any(lo < 0 or beyond > 0 for lo, beyond in ends) and not (len(fill) == 1 and _is_number(fill)):
        return None
    halo = tuple((0, 0) if d == dim else (max(0, -lo), max(0, hi)) for d, (lo, hi) in enumerate(ends))
    if layout.order[-1] == t.rank - 1 and doubled_load(reader, target) is not None:
        halo = ((0, 0),) * t.rank  # vectors at the ends of rows are put together in registers
    number = next((x.value for x in fill if isinstance(x, Const)), 0)
    return Band(dim, axis.name, stride, -first, last - first + 1, halo, number)


def _rows(t: Tensor, order: tuple[int, ...], found: list[Load], reader: Compute) -> int | None:
    """The outermost dimension in memory, but not the innermost one, of whose vectors a band would have a few;
    images lie far apart, and summed channels are all needed.
    """
    long = [d for d in order if d and static(t.shape[d]) > 1]
    summed = not any(mentions(x.index[1], a.name) for x in found for a in reader.axes)
    return next((d for d in long[:-1] if d > 1 or not summed), None)


def _reach(indices: list[Expr]) -> tuple[int, int] | None:
    """The least and the largest of some indices; None where that is not known."""
    try:
        ranges = [interval(i) for i in indices]
    except ValueError:
        return None
    return min(lo for lo, _ in ranges), max(hi for _, hi in ranges)


def _is_number(fill: set[Expr | None]) -> bool:
    return all(isinstance(f, Const) for f in fill)


# -- how many rows


def _sized(chain: Chain, target: Target, how: How, parts: int) -> tuple[Band, ...] | None:
    """The bands with their rows, as many as their room holds; None if the chain cannot be or does not pay."""
    stages = chain.stages
    if len(stages) > LONGEST:
        return None
    rows = static(next(a.extent for a in stages[-1].axes if a.name == chain.bands[-1].axis))
    by_channels = _goes_by_channels(chain, target, how)
    for size, room in _channels(rows, target) if by_channels else _blocks(chain, rows, target, how):
        bands = _blocked(chain, size, _nearest_divisor(rows // size, parts))
        needed = sum(b.bytes(c.out) for b, c in zip(bands, stages, strict=False))
        if needed <= room and _is_possible(bands, stages, how):
            return bands
    return None


Sizes = Iterable[tuple[int, float]]
"""How many rows an iteration may have, the best first, and the bytes that its bands may take then."""


def _goes_by_channels(chain: Chain, target: Target, how: How) -> bool:
    """Whether the chain is of windows, and copies beside them, none of which reads what others make of a
    channel, and what lies between leaves the first cache. Products of matrices go through blocks of these.
    """
    stages = chain.stages
    if any(b.dim != 1 or b.taps != 1 or b.stride != 1 for b in chain.bands):
        return False
    slide = [any(windows(c)) for c in stages if c.reduction is not None]
    if not slide or not all(slide):
        return False
    return not any(how(c).winograd or c.out.bytes <= target.caches[0] // 2 for c in stages[:-1])


def _channels(count: int, target: Target) -> Sizes:
    """As many channels as the first cache holds beside what is read and written; one, however large it is."""
    yield from ((n, target.caches[0] / 2) for n in range(MOST_ROWS, 0, -1) if count % n == 0)
    yield 1, inf


def _blocks(chain: Chain, rows: int, target: Target, how: How) -> Sizes:
    """As many rows as two parts of the second cache hold, or as few as three parts do. A signal's rows are
    points, which change places with the channels by whole vectors.
    """
    last, room = chain.stages[-1], target.caches[1] // ROOM
    if not all(_pays(c, r, target, how) for c, r in pairwise(chain.stages)):
        return
    points = -(-last.out.count // (rows * static(last.out.shape[1])))
    fewest = -(-FEWEST_POINTS // points)
    unit = target.lanes(last.out.type.bytes) if points == 1 else 1
    blocks = [n for n in range(min(rows // 2, MOST_ROWS), fewest - 1, -1) if rows % n == 0 and n % unit == 0]
    yield from ((n, 2 * room) for n in blocks)
    yield from ((n, 3 * room) for n in reversed(blocks))


def _nearest_divisor(n: int, wanted: int) -> int:
    """The number of equal parts of n that is the nearest to what is wanted."""
    return min((d for d in range(1, 2 * wanted) if n % d == 0), key=lambda d: abs(d - wanted))


def _blocked(chain: Chain, block: int, parts: int) -> tuple[Band, ...]:
    """The bands where the last stage makes `block` rows at once."""
    out: list[Band] = []
    for b, maker, reader in reversed(list(zip(chain.bands, chain.stages, chain.stages[1:], strict=False))):
        rows = static(next(a.extent for a in reader.axes if a.name == b.axis))
        whole = not b.before and b.taps <= b.stride and static(maker.out.shape[b.dim]) == rows * b.stride
        out.append(replace(b, block=block, whole=whole, parts=parts))
        block = out[-1].step
    return tuple(reversed(out))


def _is_possible(bands: tuple[Band, ...], stages: tuple[Compute, ...], how: How) -> bool:
    """Whether no more is kept of a band than is new, and Winograd's tiles end with the rows."""
    tiles = [how(c).rows for c in stages]
    made = [*(b.step for b in bands), bands[-1].block]
    kept = all(b.before <= b.kept <= b.block * b.stride for b in bands if not b.whole)
    # what leaves rows out makes its maker leave them out: a band before it has not the rows to be kept
    gaps = [not b.whole and b.rows < b.block * b.stride for b in bands]
    kept &= not any(b.kept and any(gaps[i + 1 :]) for i, b in enumerate(bands))
    down = [m > 1 and _slides_down_only(c) for c, m in zip(stages, tiles, strict=True)]
    fewest = [m * (FEWEST_TILES if d else 1) for d, m in zip(down, tiles, strict=True)]
    return kept and all(n % m == 0 and n >= f for n, m, f in zip(made, tiles, fewest, strict=True))


def _slides_down_only(c: Compute) -> bool:
    """Whether a window slides along the rows of an image, and along nothing else: then its fast algorithm has
    no more tiles at a time than there are in a column.
    """
    if c.reduction is None or c.out.rank < 4:
        return False
    indices = [i for x in loads(c.reduction.term) for i in x.index]
    taps = [k for k in c.reduction.axes if k.extent != 1]
    along = {
        a for a in c.axes for i in indices if mentions(i, a.name) and any(mentions(i, k.name) for k in taps)
    }
    return along == {c.axes[2]}


def _pays(maker: Compute, reader: Compute, target: Target, how: How) -> bool:
    """Whether a tensor is better never whole: it would leave the second cache, and the weights stay near.

    Winograd's go through the cache for every few tiles in any case, or for the whole image once.
    """
    if how(maker).by_point or how(reader).by_point:
        return False
    second = target.caches[1]
    again = [c for c in (maker, reader) if not how(c).winograd]
    weights = sum(t.bytes for c in again for t in set(reads(c)) if t.value is not None)
    return maker.out.bytes > second and weights <= second // NEAR
