"""Which register tile a contraction gets: a small explicit cost model over the target's record.

In: the sizes of a contraction. Out: rows and vectors of the tile, how rows spread over the tile axes, and how
channels are cut into blocks of vectors. Deterministic; every candidate that fits the registers is costed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, product
from math import prod
from typing import Literal

from ingot.loops.cuts import balanced, parts, pieces
from ingot.targets.record import Target

MOST_ROWS = 16
MOST_VECTORS = 9
LINE = 64
WAYS, SET_PERIOD = 8, 4096  # of an L1 cache: bytes so far apart fall into one set
AHEAD = 16 << 10  # bytes by which a stream of weights from main memory is prefetched
CHAINS = 8  # accumulators that keep two multipliers of four cycles busy
NARROW = 16  # bytes of a vector: products of so few elements are many instructions
UNROLLED, MOST_TERMS = 48, 4  # multiply-adds and terms in an iteration of a loop over such products


@dataclass(frozen=True, slots=True)
class Tile:
    """Accumulators: `rows` points by `vectors` registers of channels."""

    rows: int
    vectors: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the choice of a tile depends on; `strides` are the bytes from point to point of the tile axes, and
    a product of vectors is so many `instructions`, 0: those of a multiply-add of floats. Tiles of n points
    along the i-th tile axis have `shares[i][n - 1]` of the terms: they skip rows beside the image.
    """

    channels: int
    lanes: int
    points: tuple[int, ...]
    terms: int
    strides: tuple[int, ...] = ()
    instructions: int = 0
    shares: tuple[tuple[float, ...], ...] = ()

    def terms_of(self, shape: Sequence[int]) -> float:
        """The terms of a point in a tile of this shape."""
        taken = zip(self.shares, shape, strict=False)
        return self.terms * prod(of[n - 1] for of, n in taken if of)


@dataclass(frozen=True, slots=True)
class Segment:
    """`blocks` equal blocks of channels from `first` on; one is held by registers of `widths` lanes.

    Of the lanes of a block `channels` exist: what is beyond is computed and not stored. The last register
    repeats `overlap` channels of the one before it.
    """

    first: int
    blocks: int
    widths: tuple[int, ...]
    channels: int
    overlap: int = 0

    @property
    def size(self) -> int:
        return sum(self.widths) - self.overlap

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each register begins in the block."""
        *begins, _ = accumulate(self.widths, initial=0)
        return (*begins[:-1], begins[-1] - self.overlap)

    @property
    def end(self) -> int:
        return self.first + self.blocks * self.size


@lru_cache(maxsize=4096)
def best_tile(target: Target, sizes: Sizes) -> Tile:
    """The tile of the least cost; of equal ones the one with more rows."""
    return min(_candidates(target, sizes), key=lambda t: (cost(target, sizes, t), -t.rows, -t.vectors))


def cheapest_tiles(target: Target, sizes: Sizes, count: int) -> tuple[Tile, ...]:
    """The tiles of the least cost, best first."""
    found = sorted(
        set(_candidates(target, sizes)), key=lambda t: (cost(target, sizes, t), -t.rows, -t.vectors)
    )
    return tuple(found[:count])


def is_tile(target: Target, sizes: Sizes, tile: Tile) -> bool:
    """Whether the registers are there for a tile."""
    return tile in _candidates(target, sizes)


def _candidates(target: Target, sizes: Sizes) -> Iterator[Tile]:
    """Every tile whose registers are there: accumulators, a row of `b`, one of `a`, and a product."""
    spare = target.registers - (1 if _fused(target, sizes) else 2)
    vectors = -(-sizes.channels // sizes.lanes)
    yield Tile(1, 1)
    for v, r in product(range(1, min(vectors, MOST_VECTORS) + 1), range(1, MOST_ROWS + 1)):
        fits = r * v + (v if r > 1 else 1) <= spare and r * v <= (target.accumulators or r * v)
        if fits and r <= prod(sizes.points):
            yield Tile(r, v)


def _fused(target: Target, sizes: Sizes) -> bool:
    if sizes.instructions:
        return sizes.instructions == 1
    return target.spelling("madd", "float32", None if sizes.lanes > 1 else 0) is not None


def cost(target: Target, sizes: Sizes, tile: Tile) -> float:
    """Estimated cycles of the whole contraction, up to a factor."""
    total = 0.0
    rows = _row_counts(sizes.points, tile.rows)
    shape = tile_shape(sizes.points, tile.rows)
    clash, terms = _same_set(sizes, shape), sizes.terms_of(shape)
    for segment in segments(sizes.channels, sizes.lanes, tile.vectors):
        slice_bytes = 4 * segment.size * sizes.terms
        far = slice_bytes > target.caches[0] // 2
        for r, times in rows:
            step = _step(target, sizes, r, len(segment.widths), far) + (0.4 * clash if clash > WAYS else 0)
            total += segment.blocks * times * (terms * step + 2 * r * len(segment.widths) + 12)
    return total


def _step(target: Target, sizes: Sizes, rows: int, vectors: int, far: bool) -> float:
    """Cycles of one term of a tile: two multiply-adds, two loads and four instructions a cycle."""
    fused = _fused(target, sizes)
    by_element = is_by_element(target, sizes.lanes, Tile(rows, vectors))
    accumulators, loaded = rows * vectors, (rows / sizes.lanes if by_element else rows) + vectors
    instructions = accumulators * (1 if fused else 3) + loaded + (0 if fused else rows) + 2
    cycles = max(accumulators / 2, loaded / 2, CHAINS / 2, instructions / 4)
    lines = vectors * sizes.lanes * 4 / LINE
    return cycles + 0.02 * instructions + (0.25 * lines if far else 0)


def terms_per_iteration(target: Target, tile: Tile, terms: int) -> int:
    """How many terms an iteration of the loop around a tile adds, so that its overhead is shared."""
    if target.vector_bytes != NARROW:
        return 1
    return max(1, min(MOST_TERMS, UNROLLED // (tile.rows * tile.vectors), terms))


def is_by_element(target: Target, lanes: int, tile: Tile) -> bool:
    """Whether a tile leaves registers for a vector of every row, the elements of `lanes` terms."""
    needed = tile.rows * tile.vectors + tile.rows + tile.vectors
    return target.by_element and lanes == MOST_TERMS and needed <= target.registers


def _same_set(sizes: Sizes, shape: list[int]) -> int:
    """The most rows of a tile that one set of an L1 cache would have to hold at once."""
    if not sizes.strides:
        return 0
    points = product(*map(range, shape))
    offsets = (sum(i * s for i, s in zip(p, sizes.strides, strict=True)) for p in points)
    return max(Counter(at % SET_PERIOD // LINE for at in offsets).values())


def _row_counts(points: tuple[int, ...], rows: int) -> list[tuple[int, int]]:
    """(rows of a tile, how many such tiles) for each combination of pieces along the axes."""
    shape = tile_shape(points, rows)
    sides = zip(points, shape, strict=True)
    along = [[(part, (hi - lo) // part) for lo, hi, part in pieces(n, most)] for n, most in sides]
    return [(prod(p for p, _ in c), prod(t for _, t in c)) for c in product(*along)]


def tile_shape(points: tuple[int, ...], rows: int) -> list[int]:
    """How a tile of at most `rows` points spreads over the tile axes, innermost first."""
    shape = []
    for n in reversed(points):
        take = balanced(n, min(n, max(1, rows)))
        shape.append(take)
        rows //= take
    return shape[::-1]


Ending = Literal["padded", "narrow", "repeated"]
"""How the last channels are held where they fill no register: beside lanes of nothing, by registers that get
narrower, or by a register that repeats channels before it. The last two suit an operand that has no more."""


def segments(channels: int, lanes: int, vectors: int, ending: Ending = "padded") -> tuple[Segment, ...]:
    """Full blocks of `vectors` registers, then what is left; its last register is as narrow as serves.

    58 by two of 16, repeated        ->        0 .. 32 by two of 16, 26 .. 58 by two of 16
    28 by two of 16, repeated        ->        0 .. 16 and 12 .. 28
    13 by one of 16, repeated        ->        0 .. 8 and 5 .. 13
    """
    block = lanes * vectors
    full, rest = divmod(channels, block)
    out = [Segment(0, full, (lanes,) * vectors, block)] if full else []
    if rest:
        whole, left = divmod(rest, lanes)
        narrow = parts(left, lanes) if ending == "narrow" else _narrow(left, lanes)
        widths = (lanes,) * whole + narrow
        beyond = sum(widths) - rest
        if ending != "repeated" or not beyond:
            out.append(Segment(full * block, 1, widths, rest))
        elif full:  # all of it begins earlier
            out.append(Segment(channels - sum(widths), 1, widths, sum(widths)))
        elif whole:
            out.append(Segment(0, 1, widths, rest, beyond))
        else:
            return (_halves(channels) or segments(channels, lanes, vectors, "narrow")[0],)
    return tuple(out)


def _halves(channels: int) -> Segment | None:
    """Channels that fill no register, in two of the widest that they do fill; the second one repeats some."""
    width = next((n for n in (32, 16, 8, 4) if n < channels), None)
    return None if width is None else Segment(0, 1, (width, width), channels, 2 * width - channels)


def _narrow(count: int, lanes: int) -> tuple[int, ...]:
    """The width of one register for `count` lanes."""
    return (min((n for n in (4, 8, 16, 32) if count <= n < lanes), default=lanes),) if count else ()
