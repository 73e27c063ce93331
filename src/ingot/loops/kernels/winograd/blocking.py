"""How the loops of a Winograd convolution are cut: blocks of tiles that fit the cache, register tiles.

In: a `Convolution`, the outputs of a tile, the target. Out: a `Blocking`. Asked by the choice, for the cost,
and by the generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ingot.formula.types import FLOAT32
from ingot.loops.cuts import balanced
from ingot.loops.kernels.contraction.tiles import CHAINS, Tile, is_by_element
from ingot.loops.kernels.winograd.match import Convolution
from ingot.targets.record import Target
from ingot.targets.stream import stream

SCRATCH_BYTES = 256 << 10  # of `V`: it shares the second cache with `M` and the weights in flight
MOST_TILES = 32  # of a block
EXPOSED = 8  # parts: one of what is hidden, weights behind products or these behind them, is not
FAR = 4  # parts of the third cache, one of which `V` and `M` may take where they leave the second
FEWEST_TILES = 16  # where the image has as many: each block reads all weights again


@dataclass(frozen=True, slots=True)
class Blocking:
    """How the loops are cut: tiles per block along each window, rows x vectors of accumulators.

    `cycles` is the estimate for one point and one input channel: all tiles of a block, all features.
    `by_point`: all features of a point are multiplied before the next point, for neither `V` nor the weights
    stay in the second cache; else all points of some features, which are then transformed back.
    """

    tiles: tuple[int, ...]
    rows: int
    vectors: int
    lanes: int
    cycles: float
    by_point: bool

    @property
    def block(self) -> int:
        """Output channels of one pass."""
        return self.vectors * self.lanes

    @property
    def count(self) -> int:
        return prod(self.tiles)


def blocking(conv: Convolution, m: int, target: Target, cold: bool) -> Blocking:
    """Blocks that fit the cache, and the accumulators that cost the fewest cycles over them.

    `cold`: the weights come from memory, for the model has more than the caches hold.
    """
    item = FLOAT32.bytes
    lanes = _lanes(conv.features, target.lanes(item))
    points = conv.points(m)
    tile = points * conv.channels * item
    tiles = _block(conv, m, min(MOST_TILES, max(FEWEST_TILES, SCRATCH_BYTES // tile)))
    by_point = min(prod(tiles) * tile, weight_bytes(conv, m)) > target.caches[1] // 4 * 3
    if by_point:
        room = target.caches[2] // FAR // (points * (conv.channels + conv.features) * item)
        tiles = _block(conv, m, max(room, prod(tiles)))
    blocks = prod(-(-w.tiles(m) // n) for w, n in zip(conv.windows, tiles, strict=True))
    first, again = (stream(weight_bytes(conv, m), target, c) for c in (cold, False))
    load = lanes * item * (1 / first + (blocks - 1) / again) / blocks
    fewest = prod((w.tiles(m) - 1) % n + 1 for w, n in zip(conv.windows, tiles, strict=True))
    rows, vectors, cycles = _tile(
        tiles, fewest, -(-conv.features // lanes), load, conv.channels if by_point else 0, target
    )
    return Blocking(tiles, rows, vectors, lanes, cycles, by_point)


def _block(conv: Convolution, m: int, most: int) -> tuple[int, ...]:
    """Tiles along each window, at most so many; their blocks are equal along the innermost."""
    tiles: tuple[int, ...] = ()
    for w in reversed(conv.windows):
        n = w.tiles(m)
        size = min(n, max(1, most))
        divisor = max(d for d in range(1, size + 1) if n % d == 0)
        # along the innermost axis all blocks are of one size, along the other the last may be smaller, unless
        # tiles lie between each other: where the last of these begins says nothing of the others
        tiles = (balanced(n, size) if tiles and w.dilation == 1 else divisor, *tiles)
        most //= tiles[0]
    return tiles


def weight_bytes(conv: Convolution, m: int) -> int:
    """Of the transformed weights; F(1, taps) leaves them as they are."""
    return conv.points(m) * conv.channels * conv.features * FLOAT32.bytes


def _lanes(features: int, most: int) -> int:
    """The vector whose instructions, half of a full one's cost and half by their width, are the least."""
    widths = [n for n in (64, 32, 16, 8, 4, 2, 1) if n <= most]
    return min(widths, key=lambda n: (-(-features // n) * (most + n), -n))


def _tile(
    tiles: tuple[int, ...], fewest: int, vectors: int, load: float, terms: int, target: Target
) -> tuple[int, int, float]:
    """Rows x vectors of accumulators with the fewest cycles, and these.

    A step is two multiply-adds, two loads, or four instructions where products are not fused; in the first
    pass over a block's tiles weights also arrive, a vector in `load` cycles. The last block, of `fewest`
    tiles, has to hold all rows.

    If the products are made point by point, sums of so many `terms`, the next weights arrive in all passes,
    and these may be too many for the first cache.
    """
    count, best = prod(tiles), (float("inf"), 0, 0)
    for wide in range(1, 5):
        for rows in range(1, min(fewest, 16) + 1):
            if not _fits(target, Tile(rows, wide)):
                continue
            passes, blocks = -(-count // rows), -(-vectors // wide)
            step = max(rows * wide, rows + wide + (wide == 1 and not terms), CHAINS) / 2
            if not _is_fused(target):  # a product, a copy and a sum; spreading a value is two
                step = max(step, (3 * rows * wide + rows + 1) / 4)
            if terms:
                both = passes * step, wide * load
                cycles = blocks * (max(both) + min(both) / EXPOSED)
                cycles *= 1.1 if count % rows else 1.0
                cycles *= 1.1 if wide * terms * target.vector_bytes > target.caches[0] else 1.0
            else:
                cycles = blocks * (max(step, wide * load) + (passes - 1) * step)
                if count != tiles[-1] and tiles[-1] % rows != 0:  # blocks of another size would overlap
                    cycles *= 1.02
            best = min(best, (cycles, -rows, wide))
    return -best[1], best[2], best[0]


def _is_fused(target: Target) -> bool:
    return target.spelling("madd", "float32") is not None


def _fits(target: Target, tile: Tile) -> bool:
    """Whether the registers are there: compilers keep a few of both operands, and products by themselves."""
    accumulators = tile.rows * tile.vectors
    if target.by_element and not is_by_element(target, target.lanes(4), tile):
        return False
    beside = tile.vectors + (1 if _is_fused(target) else 2)
    return accumulators + beside <= target.registers and 4 * accumulators <= 3 * target.registers
