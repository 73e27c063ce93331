"""Recognising the convolutions that Winograd's algorithms serve.

In: a stage and its storage. Out: a `Convolution`, or None. Asked by the choice and by the generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.evaluate import grid_over
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import Array, Const, Expr, Load, Var, static
from ingot.formula.index import Bounds, coefficient
from ingot.formula.types import FLOAT32
from ingot.loops.access import step
from ingot.loops.axes import normal_axes
from ingot.loops.kernels.contraction.roles import Contraction
from ingot.loops.kernels.contraction.roles import match as match_contraction
from ingot.loops.kernels.winograd.cook_toom import Algorithm, cook_toom, points
from ingot.loops.layout import Storage

MOST_TAPS = 7
MOST_STRIDE = 2


@dataclass(frozen=True, slots=True)
class Window:
    """A spatial axis, the axis of its taps, and the dimension of the input that both move, the axis by
    `stride` elements, the taps by `dilation`.

    The outputs of a tile are `dilation` elements apart: neighbouring tiles lie between each other.
    """

    axis: Var
    tap: Var
    dim: int
    stride: int
    dilation: int

    @property
    def extent(self) -> int:
        return static(self.axis.extent)

    def tiles(self, m: int) -> int:
        return -(-self.extent // (m * self.dilation)) * self.dilation

    def first(self, tile: Expr, m: int) -> Expr:
        """The first output of a tile."""
        d = self.dilation
        return tile * m if d == 1 else tile // d * (m * d) + tile % d

    def is_whole(self, m: int) -> bool:
        """Whether all tiles of m outputs lie inside the image."""
        return self.extent % (m * self.dilation) == 0


@dataclass(frozen=True, slots=True)
class Convolution:
    """A matched stage: a contraction whose windows slide over one or two dimensions."""

    c: Contraction
    windows: tuple[Window, ...]
    channel: Var  # of the input
    outer: tuple[Var, ...]  # batch, groups

    @property
    def taps(self) -> int:
        """Of the window along each of its dimensions: the same for all."""
        return static(self.windows[0].tap.extent)

    @property
    def stride(self) -> int:
        """Of the window along each of its dimensions: the same for all."""
        return self.windows[0].stride

    def algorithm(self, m: int) -> Algorithm:
        """F(m, taps) of its stride."""
        return cook_toom(m, self.taps, self.stride)

    def points(self, m: int) -> int:
        """The products of a channel and a feature in a tile of m outputs along every window."""
        return int(points(m, self.taps, self.stride) ** len(self.windows))

    @property
    def channels(self) -> int:
        return static(self.channel.extent)

    @property
    def features(self) -> int:
        """Output channels."""
        return static(self.c.vector.extent)


def match(c: Compute, storage: Storage, bounds: Bounds) -> Convolution | None:
    """Recognise a convolution with constant weights, square windows, a stride of 1 or 2; where there are gaps
    between taps, of 1.
    """
    found = match_contraction(normal_axes(c), storage, bounds)
    if found is None or found.b.tensor.value is None or found.a.dtype is not FLOAT32:
        return None
    if found.around:
        return None
    if found.init != Const(0.0, FLOAT32) or found.a.tensor.type is not FLOAT32:
        return None
    axes = (*found.outer, *found.tile)
    windows = tuple(w for k in found.reduce for w in _windows(found.a, k, axes))
    taps = {w.tap for w in windows}
    rest = [k for k in found.reduce if k not in taps]
    if not 1 <= len(windows) <= 2 or len(taps) != len(windows) or len(rest) != 1:
        return None
    if len({(w.tap.extent, w.stride, w.dilation) for w in windows}) != 1:
        return None
    if step(found.a, rest[0].name) != 1 or len({w.axis for w in windows}) != len(windows):
        return None
    spatial = {w.axis for w in windows}
    windows = tuple(sorted(windows, key=lambda w: w.dim))
    return Convolution(found, windows, rest[0], tuple(x for x in axes if x not in spatial))


def _windows(a: Load, tap: Var, axes: tuple[Var, ...]) -> Iterator[Window]:
    """The axis that slides with a tap: by fewer elements than there are taps, by one between gaps."""
    moved = [d for d, i in enumerate(a.index) if coefficient(i, tap.name) != 0]
    taps = static(tap.extent)
    if not 2 <= taps <= MOST_TAPS or len(moved) != 1:
        return
    dilation = coefficient(a.index[moved[0]], tap.name)
    if dilation is None or dilation < 1:
        return
    most = min(taps - 1, MOST_STRIDE) if dilation == 1 else 1
    for x in axes:
        stride = coefficient(a.index[moved[0]], x.name)
        if stride and 1 <= stride <= most and static(x.extent) > dilation:
            yield Window(x, tap, moved[0], stride, dilation)


def taps_of(conv: Convolution, features: Array) -> Array:
    """The weights [outer ..., features, channels, taps ...] of some of the output channels."""
    names = [*(x.name for x in moving(conv)), conv.c.vector.name, conv.channel.name]
    names += [w.tap.name for w in conv.windows]
    extents = [*(static(x.extent) for x in moving(conv)), len(features), conv.channels]
    extents += [conv.taps] * len(conv.windows)
    grid = grid_over(names, extents)
    grid[conv.c.vector.name] = features.reshape(grid[conv.c.vector.name].shape)
    return np.broadcast_to(evaluate(conv.c.b, {}, grid), extents)


def moving(conv: Convolution) -> list[Var]:
    """The outer axes that choose other weights: groups."""
    return [x for x in conv.outer if step(conv.c.b, x.name) != 0]
