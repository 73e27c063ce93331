"""How a stage is computed where there is more than one way.

In: a stage, its storage, the target. Out: a `Choice`, which the generators are given. The choice depends on
nothing but the model and the target, so the same bundle is made everywhere. Called by `lower`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ingot.errors import InputError
from ingot.formula.compute import Compute, Stage, computes
from ingot.formula.expr import Array, Tensor, loads, static
from ingot.formula.signature import signature
from ingot.loops.kernels.contraction.contract import contraction_sizes
from ingot.loops.kernels.contraction.roles import Contraction
from ingot.loops.kernels.contraction.tiles import Tile, cheapest_tiles, is_tile
from ingot.loops.kernels.peel import at_one
from ingot.loops.kernels.sparse.csc import saved_bytes
from ingot.loops.kernels.sparse.profitability import cheapest
from ingot.loops.kernels.sparse.sparse_lanes import encoded_product
from ingot.loops.kernels.winograd.blocking import blocking, weight_bytes
from ingot.loops.kernels.winograd.cook_toom import Algorithm, Line, follow
from ingot.loops.kernels.winograd.frame import best_input_lanes
from ingot.loops.kernels.winograd.match import Convolution, match, taps_of
from ingot.loops.layout import Storage
from ingot.loops.line_buffer import LineBuffer
from ingot.options import Math
from ingot.targets.record import Target
from ingot.targets.stream import FROM_THIRD, stream

TEMPORARIES = 4  # registers of a transform beside its values
TOLERANCE = 1e-4  # max|d| / max|y| of one layer
TILES = {2: (2, 3, 4, 5), 3: (2, 3, 4, 5), 4: (2, 3, 4), 5: (2, 3, 4), 6: (2, 3), 7: (2,)}
"""Outputs of a tile along a window, by its taps: more save more and lose more."""
MOST_TILES = 4  # register tiles of a contraction to be measured: those that cost the least
WORTH = 1.1  # how much faster the estimate has to be: scratch and code are not free
COPIED = 2.0  # cycles of a vector that passes through a buffer
HALVED = 32  # bytes: longer vectors take twice the time of these
SAMPLED_FEATURES, SAMPLED_TILES = 32, 8


@dataclass(frozen=True, slots=True)
class Band:
    """Some rows of a tensor: what the stage that reads it needs at a time (`loops/region_passes/bands.py`).

    The rows are along dimension `dim`. Row r of the reader's `axis` reads `taps` of them from r * `stride` -
    `before` on. `halo` is how far it reads beyond the others, and `fill` what it finds there.

    The reader makes `block` rows at once. A `whole` band has just what they need, made at once; else it is
    made row by row. The reader's rows are cut into `parts`.
    """

    dim: int
    axis: str
    stride: int
    before: int
    taps: int
    halo: tuple[tuple[int, int], ...]
    fill: float | int
    block: int = 1
    whole: bool = False
    parts: int = 1

    @property
    def rows(self) -> int:
        return self.block * self.stride if self.whole else (self.block - 1) * self.stride + self.taps

    @property
    def kept(self) -> int:
        """The rows at the end of the band that the next iteration reads at its front."""
        return max(0, self.rows - self.block * self.stride)

    @property
    def step(self) -> int:
        """The rows that are made at once."""
        return self.rows if self.whole else 1

    def shape(self, t: Tensor) -> tuple[int, ...]:
        """Of the band of a tensor, without the halo."""
        return tuple(self.rows if d == self.dim else static(n) for d, n in enumerate(t.shape))

    def bytes(self, t: Tensor) -> int:
        sides = zip(self.shape(t), self.halo, strict=True)
        return prod(n + before + after for n, (before, after) in sides) * t.type.bytes


@dataclass(frozen=True, slots=True)
class Choice:
    """`winograd`: outputs of a tile along each window of F(m, taps), `dilation` apart; 0 multiplies directly.

    `cold`: the weights are expected to come from memory, `far`: from beyond the second cache; `by_point`:
    they go through the caches once for the whole image. `tile`: the registers of a plain contraction, rows
    and vectors; None leaves them to its cost. `sparse`: an encoded matrix is walked entry by entry; `codes`:
    it is read as codes of its values. `band`: the result is never whole, the next stage reads some rows at
    a time. `line`: the stage is in a stream. `naive`: no generator is asked. `exact`: floats are multiplied
    as they are.
    """

    winograd: int = 0
    cold: bool = False
    far: bool = False
    by_point: bool = False
    dilation: int = 1
    tile: Tile | None = None
    sparse: bool = False
    codes: bool = False
    huffman: bool = False
    band: Band | None = None
    line: LineBuffer | None = None
    naive: bool = False
    exact: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all of the result lies in memory at once."""
        return self.band is None and (self.line is None or self.line.is_last)

    @property
    def rows(self) -> int:
        """The rows of an image among which a fast convolution's tiles lie."""
        return max(1, self.winograd * self.dilation)

    @property
    def text(self) -> str:
        """`winograd=4`, `tile=8x2`, or `direct`."""
        if self.tile is not None:
            return f"tile={self.tile.rows}x{self.tile.vectors}"
        return f"winograd={self.winograd}" if self.winograd else "direct"


DEFAULT = Choice()
Choices = Mapping[Compute, Choice]
Ways = dict[str, tuple[Choice, ...]]
"""The choices that a stage has, by its key."""


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """How stages are to become kernels.

    `tuned` has choices that were measured, by the stages' keys: they are preferred. `ways`, if there, is
    given those that a stage has. `tiles`: contractions, whose register tile may be chosen, are named in what
    their kernels choose. `parts`: pieces of an image, each of which stages may go through by bands of rows;
    0: they make whole images. `huffman`: encoded weights are stored in Huffman codes where that saves
    anything. `generators`: where this is off, every stage is naive loops. `fast`: convolutions may be
    computed by algorithms that store more weights. `room`: bytes of tensors that may be live at once, which
    streams are to keep; None asks for no streams.
    """

    math: Math = "standard"
    tuned: Mapping[str, Choice] = field(default_factory=dict)
    ways: Ways | None = None
    tiles: bool = False
    parts: int = 0
    huffman: bool = False
    generators: bool = True
    fast: bool = True
    room: int | None = None

    @property
    def may_be_fast(self) -> bool:
        """Whether a convolution may be computed by a fast algorithm at all."""
        return self.fast and self.math != "exact"

    @property
    def names_tiles(self) -> bool:
        return self.tiles or self.ways is not None or bool(self.tuned)


LOWERING = LoweringOptions()


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses by a cost model. `weights` are the bytes of all constants: what exceeds the caches streams.

    `keys` remembers the key of every stage that has a choice, of contractions only if these are to be named.
    """

    target: Target
    weights: int
    how: LoweringOptions
    keys: dict[Compute, str] = field(default_factory=dict)
    bands: dict[Tensor, Band] = field(default_factory=dict)
    lines: dict[Tensor, LineBuffer] = field(default_factory=dict)
    made: dict[Compute, Choice] = field(default_factory=dict)

    def __call__(self, stages: tuple[Stage, ...], storage: Storage) -> Choices:
        """A choice for every stage that has one."""
        if not self.how.generators:
            return dict.fromkeys(computes(stages), Choice(naive=True))
        far, exact = self.is_far, self.how.math == "exact"
        made = {c: replace(self.one(c, storage), far=far, exact=exact) for c in computes(stages)}
        bands, lines = self.bands, self.lines
        return {c: replace(how, band=bands.get(c.out), line=lines.get(c.out)) for c, how in made.items()}

    def one(self, c: Compute, storage: Storage) -> Choice:
        """How a stage is computed by itself."""
        if c not in self.made:
            self.made[c] = self._choice(c, storage)
        return self.made[c]

    def _choice(self, c: Compute, storage: Storage) -> Choice:
        dense = self._dense(c, storage)
        found = self._encoded(c, storage)
        if found is None:
            return dense
        is_free = not found.b.dtype.is_float or self.how.math != "exact"
        if self.how.huffman and is_free and saved_bytes(found):
            return Choice(sparse=True, huffman=True)
        if not found.b.dtype.is_float:
            return replace(dense, sparse=True)
        how = cheapest(found, self.target, self.is_cold)
        if how == "entries" and self.how.math != "exact":
            return replace(dense, sparse=True)
        return replace(dense, codes=how != "elements" and not dense.winograd)

    @staticmethod
    def _encoded(c: Compute, storage: Storage) -> Contraction | None:
        """A product with encoded weights. Exact math multiplies their zeros too, for NaN times 0 is NaN."""
        r = c.reduction
        if r is None or all(load.tensor.codebook is None for load in loads(r.term)):
            return None
        return encoded_product(*at_one(c, storage))[0]

    def _dense(self, c: Compute, storage: Storage) -> Choice:
        if self.how.math == "exact" or not self.target.vector_bytes or c.reduction is None:
            return DEFAULT
        conv = match(*at_one(c, storage))
        if conv is None:
            return self._tile(c, storage) if self.how.names_tiles else DEFAULT
        name = self.keys[c] = key(conv, c, storage)
        if self.how.ways is not None:
            self.how.ways[name] = tuple(candidates(conv, self.is_cold))
        if name in self.how.tuned:
            return self._fast(conv, _required(name, self.how.tuned[name], conv).winograd)
        if not self.how.fast:
            return DEFAULT
        direct = self.direct_cycles(conv)
        for cycles, m in sorted((self.cycles(conv, m), m) for m in TILES[conv.taps]):
            if cycles * WORTH < direct and self.fits_stack(conv, m) and error(conv, m) <= TOLERANCE:
                return self._fast(conv, m)
        return DEFAULT

    def _fast(self, conv: Convolution, m: int) -> Choice:
        by_point = m > 0 and blocking(conv, m, self.target, self.is_cold).by_point
        return Choice(m, self.is_cold, by_point=by_point, dilation=conv.windows[0].dilation)

    def _tile(self, c: Compute, storage: Storage) -> Choice:
        """What is tuned for a plain contraction: only its register tile is open."""
        sizes = contraction_sizes(c, storage, self.target)
        if sizes is None:
            return DEFAULT
        points = "x".join(map(str, sizes.points))
        name = self.keys[c] = _key(f"contraction {points} {sizes.terms}->{sizes.channels}", c, storage)
        if self.how.ways is not None:
            cheapest = cheapest_tiles(self.target, sizes, MOST_TILES)
            self.how.ways[name] = (DEFAULT, *(Choice(tile=t) for t in cheapest[1:]))
        chosen = self.how.tuned.get(name, DEFAULT)
        if chosen.winograd or (chosen.tile and not is_tile(self.target, sizes, chosen.tile)):
            raise InputError(f"tuning: {name!r} cannot be computed by {chosen.text}")
        return chosen

    def named(self, choices: Choices) -> tuple[tuple[str, str], ...]:
        """The choices as texts, by the keys of their stages."""
        return tuple((self.keys[c], choice.text) for c, choice in choices.items() if c in self.keys)

    @property
    def is_cold(self) -> bool:
        """Whether a layer's weights have left the caches by the next inference."""
        return self.weights > self.target.caches[2] // 4 * 3

    @property
    def is_far(self) -> bool:
        """Whether they have left the second cache."""
        return self.weights > self.target.caches[1] // 2

    def fits_stack(self, conv: Convolution, m: int) -> bool:
        """Whether what a transform's values need beyond the registers stays well within a small stack."""
        values = conv.points(m)
        spilled = max(values + TEMPORARIES - self.target.registers, 0) * self.target.vector_bytes
        return not self.target.frame_bytes or 4 * spilled <= self.target.frame_bytes

    def direct_cycles(self, conv: Convolution) -> float:
        """Of the plain contraction: two multiply-adds a cycle, or four instructions if they are not fused."""
        pixels, taps = prod(w.extent for w in conv.windows), int(conv.taps ** len(conv.windows))
        vectors = self._vectors(conv.features)
        is_fused = self.target.spelling("madd", "float32") is not None
        compute = pixels * vectors * conv.channels * taps * (1 / 2 if is_fused else 27 / 32)  # tiles of 2x4
        return max(compute, weight_bytes(conv, 1) / stream(weight_bytes(conv, 1), self.target, self.is_cold))

    def _vectors(self, features: int) -> float:
        """Vectors of channels, as many as their time is worth. Few channels leave the vectors to the pixels;
        of more the last register is a narrower one, where half a vector holds them.
        """
        lanes = self.target.lanes(4)
        if 2 * features <= lanes:
            return features / lanes
        whole, rest = divmod(features, lanes)
        is_half = 2 * rest <= lanes and self.target.vector_bytes > HALVED
        return whole + ((0.5 if is_half else 1.0) if rest else 0.0)

    def cycles(self, conv: Convolution, m: int) -> float:
        """Of F(m, taps): the transforms and the products."""
        how, algorithm = blocking(conv, m, self.target, self.is_cold), conv.algorithm(m)
        dims, lanes = len(conv.windows), self.target.lanes(4)
        tiles = prod(w.tiles(m) for w in conv.windows)
        blocks = tiles / how.count
        products = conv.points(m) * conv.channels * blocks * how.cycles
        staged = not all(
            w.is_whole(m) for w in conv.windows
        )  # then tiles pass through buffers of their own size
        into = (
            tiles
            * -(-conv.channels // best_input_lanes(conv.channels, lanes))
            * _transform(algorithm, dims, True, staged)
        )
        back = tiles * -(-conv.features // lanes) * _transform(algorithm, dims, False, staged)
        written = prod(w.extent for w in conv.windows) * conv.features * 4
        far = written / FROM_THIRD if written > self.target.caches[1] else 0  # no products hide these stores
        if how.by_point:  # what is transformed and what is multiplied, written and read again
            far += 2 * conv.points(m) * tiles * (conv.channels + conv.features) * 4 / FROM_THIRD
        return float(products + into + back + far)


def _transform(algorithm: Algorithm, dims: int, inputs: bool, staged: bool) -> float:
    """Cycles of one tile and vector: three operations a cycle, one store."""
    lines = algorithm.inputs() if inputs else algorithm.outputs()
    results = algorithm.points if inputs else algorithm.m
    operations, before, after = 0, algorithm.points**dims, 0
    for axis in range(dims):
        rows = results**axis * algorithm.points ** (dims - 1 - axis)
        operations += rows * sum(len(line.terms) for line in lines)
        after = results ** (axis + 1) * algorithm.points ** (dims - 1 - axis)
    copied = results**dims if staged else 0
    return float(operations + before) / 3 + float(after) + COPIED * copied


def error(conv: Convolution, m: int) -> float:
    """max|d| / max|y| of F(m, taps) in single precision on random inputs and some of the layer's weights."""
    algorithm, dims = conv.algorithm(m), len(conv.windows)
    some = np.unique(np.linspace(0, conv.features - 1, SAMPLED_FEATURES).astype(int))
    taps = taps_of(conv, some)
    taps = taps.reshape(-1, conv.channels, *[conv.taps] * dims)[: 4 * SAMPLED_FEATURES]
    rng = np.random.default_rng(0)
    shape = (SAMPLED_TILES, conv.channels, *[algorithm.points] * dims)
    tiles = np.maximum(rng.standard_normal(shape), 0).astype(np.float32)
    found = _tiles_by(algorithm, dims, tiles, taps)
    exact = _tiles_exactly(algorithm, dims, tiles, taps)
    largest = float(np.abs(exact).max())
    return float(np.abs(found - exact).max()) / largest if largest > 0 else 0.0


def _tiles_by(algorithm: Algorithm, dims: int, tiles: Array, taps: Array) -> Array:
    """[tile, feature, outputs ...] as the generated code computes them."""
    v: Array = tiles
    for axis in range(2, 2 + dims):
        v = _transformed(algorithm.inputs(), v, axis)
    u = algorithm.weights(taps, dims).astype(np.float32)
    inputs = v.reshape(*v.shape[:2], -1).transpose(2, 0, 1)
    weights = u.reshape(*u.shape[:2], -1).transpose(2, 1, 0)
    products = np.matmul(inputs, weights)
    out: Array = products.transpose(1, 2, 0).reshape(len(tiles), len(taps), *[algorithm.points] * dims)
    for axis in range(2, 2 + dims):
        out = _transformed(algorithm.outputs(), out, axis)
    return out


def _transformed(lines: tuple[Line, ...], values: Array, axis: int) -> Array:
    parts = [np.take(values, i, axis) for i in range(values.shape[axis])]
    return np.stack(follow(lines, parts), axis)


def _tiles_exactly(algorithm: Algorithm, dims: int, tiles: Array, taps: Array) -> Array:
    """[tile, feature, outputs ...] in double precision."""
    total, reach = np.zeros(()), (algorithm.m - 1) * algorithm.stride + 1
    for at in product(range(taps.shape[-1]), repeat=dims):
        window: tuple[Any, ...] = (..., *(slice(i, i + reach, algorithm.stride) for i in at))
        tap: tuple[Any, ...] = (..., *at)
        exact = tiles[window].astype(np.float64), taps[tap].astype(np.float64)
        total = total + np.einsum("tc...,kc->tk...", *exact)
    return total


def key(conv: Convolution, c: Compute, storage: Storage) -> str:
    """A name that stays as long as the stage and its storage do: its sizes, and a hash of all of it."""
    extents = "x".join(str(w.extent) for w in conv.windows)
    return _key(f"conv {extents} {conv.channels}->{conv.features}", c, storage)


def _key(sizes: str, c: Compute, storage: Storage) -> str:
    what, tensors = signature((c,))
    kept = [(t.type.name, t.shape, replace(storage.layout(t), place=None), t.value is None) for t in tensors]
    return f"{sizes} {hashlib.sha256(repr((what, kept)).encode()).hexdigest()[:12]}"


def _required(name: str, choice: Choice, conv: Convolution) -> Choice:
    """A choice from outside, which has to be as exact as our own."""
    if choice.tile or (choice.winograd and choice.winograd not in TILES[conv.taps]):
        raise InputError(f"tuning: {name!r} cannot be computed by {choice.text}")
    if choice.winograd and error(conv, choice.winograd) > TOLERANCE:
        raise InputError(f"tuning: {choice.text} of {name!r} loses more than {TOLERANCE:g} of max|y|")
    return choice


def candidates(conv: Convolution, cold: bool) -> Iterator[Choice]:
    """Every way a convolution could be computed within the tolerance, for who measures."""
    yield DEFAULT
    for m in TILES[conv.taps]:
        if error(conv, m) <= TOLERANCE:
            yield Choice(m, cold)
