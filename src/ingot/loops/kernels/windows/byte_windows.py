"""Depthwise sums of bytes whose windows slide by constant steps, for routines that make a part of an image.

    acc = sum over kh, kw of x[oh * stride + kh][ow * stride + kw][c] * w[c][kh][kw]
    y[oh, ow, c] = limited(round(acc * scale[c]) + zero)

In: a depthwise sum of bytes of windows of two or three by two or three, that moves by one or two, the halo
filled or `open`: windows leave memory, and whoever copies elements provides what lies there. Out: what its
axes are, what becomes of its sums, and its constants of each channel; or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.evaluate import value_over
from ingot.formula.expr import (
    Array,
    Const,
    Expr,
    Extent,
    Load,
    Tensor,
    Var,
    loads,
    static,
    substitute,
    transform,
)
from ingot.formula.index import Bounds, coefficient, interval, mentions, simplify
from ingot.formula.types import FLOAT32, INT8, INT32, DType
from ingot.loops.access import DOUBLED, step
from ingot.loops.axes import normal_axes
from ingot.loops.exact_scales import words
from ingot.loops.kernels.contraction.roles import around
from ingot.loops.kernels.windows.depthwise_match import SumOfBytes, sum_of_bytes
from ingot.loops.layout import Storage
from ingot.loops.requantise import Requantised, requantised
from ingot.targets.window_routines import STRIDES, TAPS

SUM = Var("acc", None, INT32)


@dataclass(frozen=True, slots=True)
class Side:
    """One direction of the windows: results, taps and how far apart they read in rows or columns; `apart`:
    bytes from one of these to the next.
    """

    out: Var
    tap: Var
    stride: int
    apart: int

    @property
    def taps(self) -> int:
        return static(self.tap.extent)

    def read(self, results: int) -> int:
        """Rows or columns that so many results read."""
        return self.stride * (results - 1) + self.taps


@dataclass(frozen=True, slots=True)
class ByteWindows:
    """A matched stage: `down` and `along` are its windows' directions, `outer` all other axes, of which those
    in `channels` have weights of their own. `found` is what becomes of the sums. `fill` is what lies around
    `x` where its memory has no halo for that.
    """

    d: SumOfBytes
    found: Requantised
    down: Side
    along: Side
    outer: tuple[Var, ...]
    channels: tuple[Var, ...]
    storage: Storage
    fill: int | None = None

    def moved(self, e: Load, where: Mapping[str, Expr]) -> Load:
        """An access with axes replaced."""
        found = simplify(substitute(e, where), self.d.bounds)
        assert isinstance(found, Load)
        return found

    def inside(self, side: Side, first: int, results: int) -> tuple[int, int] | None:
        """Of the rows or columns that some results read, from which to which lie in memory; None where that
        is not known.
        """
        if self.fill is None:
            return 0, side.read(results)
        x = self.d.x
        (d,) = (d for d, i in enumerate(x.index) if mentions(i, side.tap.name))
        where = {side.out.name: Const(first), side.tap.name: Const(0)}
        begin = simplify(substitute(x.index[d], where))
        apart, extent = coefficient(x.index[d], side.tap.name), x.tensor.shape[d]
        if not isinstance(begin, Const) or not apart or not isinstance(extent, int):
            return None
        lo, end = (-((int(begin.value) - at) // apart) for at in (0, extent))
        return max(lo, 0), min(end, side.read(results))

    def weights(
        self, what: str, shape: tuple[int, ...], place: Callable[[Array, Array], None], before: int = 0
    ) -> Tensor:
        """int8 [channel.., *shape], zeros but where `place` puts weights of [channel.., kh, kw]; `before` the
        first channel, so many of zeros.
        """
        d, axes = self.d, (*self.channels, self.down.tap, self.along.tap)

        def pack(array: Array) -> Array:
            every = value_over(replace(d.w, tensor=replace(d.w.tensor, value=array)), axes)
            made = np.zeros((*every.shape[:-2], *shape), np.int8)
            place(made, every)
            return np.pad(made, [(before, 0), *[(0, 0)] * (made.ndim - 1)])

        how = (what, d.w.index, tuple(a.name for a in axes))
        return self.storage.derived(d.w.tensor, how, pack, INT8, what)

    def of_channels(self, e: Expr, type: DType, what: str) -> Tensor:
        """A number for each channel."""

        def pack(array: Array) -> Array:
            read = replace(e, tensor=replace(e.tensor, value=array)) if isinstance(e, Load) else e
            return np.ascontiguousarray(value_over(read, self.channels).astype(type.numpy))

        of, part = (e.tensor, e.index) if isinstance(e, Load) else (self.d.w.tensor, (e,))
        how = ("windows", what, part, tuple(a.name for a in self.channels))
        return self.storage.derived(of, how, pack, type, what)

    def scales(self, in_words: bool = False) -> Tensor:
        """[channel..]: scales, `in_words` if asked for, or in fixed point [channel.., 2], multipliers and
        shifts.
        """
        if not self.found.is_fixed:
            plain, ends = self.of_channels(self.found.scale, FLOAT32, "scale"), self.found.ends
            if not in_words:
                return plain
            return self.storage.derived(plain, ("words", ends), lambda a: words(a, *ends), INT32, "words")
        multipliers, shifts = (
            self.of_channels(e, INT32, n)
            for e, n in zip(self.found.constants, ("multiplier", "shift"), strict=True)
        )
        how = ("fixed", multipliers.shape)
        return self.storage.combined(
            multipliers, shifts, how, lambda m, s: np.stack([m, s], -1), INT32, "fixed"
        )

    def first(self, taken: int) -> Tensor:
        """int32 of each channel: what sums begin with, where `taken` was taken from every element of `x`."""
        d, init = self.d, self.d.init
        axes = (*self.channels, self.down.tap, self.along.tap)

        def make(weights: Array, own: Array | None = None) -> Array:
            w = value_over(replace(d.w, tensor=replace(d.w.tensor, value=weights)), axes)
            start = replace(init, tensor=replace(init.tensor, value=own)) if isinstance(init, Load) else init
            totals = w.sum((-2, -1), dtype=np.int64)
            return np.asarray(value_over(start, self.channels) + taken * totals).astype(np.int32)

        how = ("windows", taken, d.w.index, tuple(a.name for a in axes))
        if isinstance(init, Load):
            return self.storage.combined(d.w.tensor, init.tensor, (*how, init.index), make, INT32, "first")
        return self.storage.derived(d.w.tensor, (*how, init), make, INT32, "first")


def byte_windows(c: Compute, storage: Storage, bounds: Bounds) -> ByteWindows | None:
    """The roles of a stage's axes, or None where it is no depthwise sum of bytes that is served."""
    c = normal_axes(c)
    return _matched(c, sum_of_bytes(c, storage, bounds), storage, None)


def open_windows(c: Compute, storage: Storage, bounds: Bounds) -> ByteWindows | None:
    """The same where windows may leave memory for what is one number everywhere outside."""
    if (found := byte_windows(c, storage, bounds)) is not None or c.reduction is None:
        return found
    outside = {x.outside for x in loads(c.reduction.term) if x.outside is not None}
    fill = outside.pop() if len(outside) == 1 else None
    if not isinstance(fill, Const) or fill.dtype.is_float:
        return None
    c = normal_axes(c)
    if c.reduction is None:
        return None  # of one term
    inside = replace(c, reduction=replace(c.reduction, term=_anywhere(c.reduction.term)))
    found = _matched(c, sum_of_bytes(inside, storage, bounds), storage, int(fill.value))
    return found if found is not None and _leave_along_taps(found) else None


def _leave_along_taps(windows: ByteWindows) -> bool:
    """Whether windows leave memory along the axes of their taps only."""
    x, taps = windows.d.x, (windows.down.tap.name, windows.along.tap.name)
    others = [d for d, i in enumerate(x.index) if not any(mentions(i, tap) for tap in taps)]
    return all(_is_within(x.index[d], x.tensor.shape[d], windows.d.bounds) for d in others)


def _is_within(index: Expr, extent: Extent, bounds: Bounds) -> bool:
    if isinstance(index, Var) and index.extent == extent:
        return True
    lo, hi = interval(index, bounds)
    return lo >= 0 and isinstance(extent, int) and hi < extent


def _anywhere(e: Expr) -> Expr:
    """The expression whose loads read whatever lies where they go."""
    return transform(e, lambda n: replace(n, outside=None) if isinstance(n, Load) else None)


def _matched(c: Compute, d: SumOfBytes | None, storage: Storage, fill: int | None) -> ByteWindows | None:
    """The roles of the axes of a stage whose sum has been bound."""
    sides = None if d is None or c.reduction is None else _sides(d, c.axes, c.reduction.axes)
    if d is None or sides is None:
        return None
    outer = tuple(a for a in c.axes if a not in (sides[0].out, sides[1].out))
    found = _made(d, outer, sides)
    channels = tuple(a for a in outer if step(d.w, a.name) != 0)
    return None if found is None else ByteWindows(d, found, *sides, outer, channels, storage, fill)


def _made(d: SumOfBytes, outer: tuple[Var, ...], sides: tuple[Side, Side]) -> Requantised | None:
    """What the sums become, where the routine can tell: bytes by constants of the channels."""
    found = requantised(d.value, SUM)
    if found is None or found.node != d.value or not found.is_whole:
        return None
    for e in (*found.constants, d.init):
        if not isinstance(e, Const) and not (isinstance(e, Load) and _is_constant(e, outer)):
            return None
    if found.is_fixed and largest(d.init) >= DOUBLED:
        return None
    return found if _is_constant(d.w, (*outer, *(side.tap for side in sides))) else None


def largest(e: Expr) -> int:
    """Of a constant's elements."""
    value = e.value if isinstance(e, Const) else e.tensor.value if isinstance(e, Load) else None
    return int(np.abs(np.asarray(value, np.int64)).max(initial=0))


def _is_constant(e: Load, axes: tuple[Var, ...]) -> bool:
    return e.tensor.value is not None and e.outside is None and not around(e, axes)


def _sides(d: SumOfBytes, axes: tuple[Var, ...], taps: tuple[Var, ...]) -> tuple[Side, Side] | None:
    """Down and along: each tap axis with the axis of results that moves through the same elements. Along goes
    where there are more: a row costs what several results cost. A single row of results has no axis.
    """
    if len(taps) != 2 or any(step(e, a.name) is None for e in (d.x, d.to) for a in (*axes, *taps)):
        return None
    found = []
    for tap in taps:
        apart = step(d.x, tap.name) or 0
        dims = [i for i in d.x.index if mentions(i, tap.name)]
        outs = [a for a in axes if len(dims) == 1 and mentions(dims[0], a.name)]
        if len(outs) > 1 or apart <= 0 or static(tap.extent) not in (2, TAPS):
            return None
        out = outs[0] if outs else Var(f"{tap.name}_one", 1)
        stride, rest = divmod(step(d.x, out.name) or 0, apart) if outs else (0, 0)
        if rest or (outs and stride not in STRIDES) or mentions(d.w, out.name):
            return None
        found.append(Side(out, tap, stride, apart))
    down, along = sorted(found, key=lambda side: static(side.out.extent))
    down = down if down.stride else replace(down, stride=along.stride)  # of one row: as the routine has it
    return (down, along) if along.stride and down.out is not along.out else None
