"""How the loops of a Winograd convolution are cut: blocks of tiles that fit the cache, register tiles.

In: a `Convolution`, the outputs of a tile, the target. Out: a `Blocking`. Asked by the choice, for the cost,
and by the generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ingot.formula.types import FLOAT32
from ingot.loops.generators.winograd.match import TAPS, Convolution
from ingot.targets.record import Target

SCRATCH_BYTES = 384 << 10  # of `V`: it shares the second cache with `M` and the weights in flight
MOST_TILES = 64  # of a block
FEWEST_TILES = 16  # where the image has as many: each block reads all weights again


@dataclass(frozen=True, slots=True)
class Blocking:
    """How the loops are cut: tiles per block along each window, rows x vectors of accumulators."""

    tiles: tuple[int, ...]
    rows: int
    vectors: int
    lanes: int

    @property
    def block(self) -> int:
        """Output channels of one pass."""
        return self.vectors * self.lanes

    @property
    def count(self) -> int:
        return prod(self.tiles)


def blocking(conv: Convolution, m: int, target: Target) -> Blocking:
    """Blocks that fit the cache, and the accumulators that cost the fewest instructions over them."""
    item = FLOAT32.bytes
    lanes = _lanes(conv.features, target.lanes(item))
    points = (m + TAPS - 1) ** len(conv.windows)
    most = min(MOST_TILES, max(FEWEST_TILES, SCRATCH_BYTES // (points * conv.channels * item)))
    tiles: list[int] = []
    for w in reversed(conv.windows):
        n = w.tiles(m)
        size = min(n, max(1, most))
        divisor = max(d for d in range(1, size + 1) if n % d == 0)
        # along the innermost axis all blocks are of one size, along the other the last may be smaller
        tiles.insert(0, -(-n // -(-n // size)) if tiles else divisor)
        most //= tiles[0]
    rows, vectors = _tile(prod(tiles), tiles[-1], -(-conv.features // lanes), target)
    return Blocking(tuple(tiles), rows, vectors, lanes)


def _lanes(features: int, most: int) -> int:
    """The vector that pads the features least, one of up to 8 lanes counting as 8."""
    widths = [n for n in (64, 32, 16, 8, 4, 2, 1) if n <= most]
    return min(widths, key=lambda n: (-(-features // n) * max(n, 8), -n))


def _tile(count: int, inner: int, vectors: int, target: Target) -> tuple[int, int]:
    """Rows x vectors of accumulators with the fewest cycles: two multiply-adds or two loads in each."""
    best = (float("inf"), 0, 0)
    for wide in range(1, 5):
        for rows in range(1, min(count, 16) + 1):
            if (rows + 1) * wide + 1 > target.registers:
                continue
            passes = -(-count // rows) * -(-vectors // wide)
            cycles = max(rows * wide, rows + wide, 8) * passes
            ragged = count != inner and inner % rows != 0  # blocks of another size would overlap
            best = min(best, (cycles * (1.02 if ragged else 1), -rows * wide, wide))
    wide = best[2]
    return -best[1] // wide, wide
