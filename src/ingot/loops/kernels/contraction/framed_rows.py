"""Convolutions of bytes whose image has no halo in memory: some rows of it get one in scratch.

    frame[kh][kw + ow][ic] = x[oh * stride + kh - top][ow + kw - left][ic], or the fill outside
    y[oh, ow, oc]          = sum over kh, kw, ic of frame[kh][ow * stride + kw][ic] * w[oc][kh][kw][ic]

For every row of results the rows of the image that it reads are copied into a frame, whose ends were filled
before. A row of few bytes serves all channels of a row of results, so copying costs little; the image takes
no more memory than its elements, whatever lies around it. In: a sum of products of bytes on a processor
without vectors whose windows leave the image. Out: statements; those of a row of results are what the
generators write for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ingot.formula.compute import Compute
from ingot.formula.expr import (
    Const,
    Expr,
    Load,
    Tensor,
    Var,
    loads,
    maximum,
    minimum,
    static,
    substitute,
    transform,
)
from ingot.formula.index import NO_BOUNDS, Bounds, as_expr, coefficient, interval, mentions, simplify
from ingot.formula.statements import For, Statement
from ingot.loops.kernels.contraction.byte_product import byte_product
from ingot.loops.kernels.family import Request, Written
from ingot.loops.layout import Storage, at_once, of_fill, write_box
from ingot.targets.record import Target

FEWEST = 16  # channels of results that a copy pays for
CHANNEL, ROWS, COLUMNS = 1, 2, 3  # logical dimensions of an image
LAST = (0, ROWS, COLUMNS, CHANNEL)  # its dimensions in the order of memory: channels last
WORD, LANES = 4, 16


@dataclass(frozen=True, slots=True)
class Frame:
    """What a stage reads of an image: `row` is the axis of its results, `tap` that of a window's rows, the
    first of which is `begin`. On the left of the image lie `left` columns, on both sides and in it `width`.
    """

    x: Load
    row: Var
    tap: Var
    begin: Expr
    left: int
    width: int
    fill: int

    @property
    def channels(self) -> int:
        return _size(self.x, CHANNEL)

    @property
    def shape(self) -> tuple[int, int]:
        return static(self.tap.extent), self.width * self.channels

    def buffer(self) -> Tensor:
        """The frame as a tensor: the columns and channels of a row are one dimension."""
        return Tensor(f"{self.x.tensor.name}_frame", self.x.tensor.type, self.shape)

    def moved(self, c: Compute, buffer: Tensor) -> Compute:
        """The stage for one row of results, whose sums read the frame."""

        def read(n: Expr) -> Expr | None:
            if n != self.x:
                return None
            columns = (self.x.index[COLUMNS] + self.left) * self.channels
            return Load(buffer, (self.tap, simplify(columns + self.x.index[CHANNEL])))

        assert c.reduction is not None
        axes = tuple(a for a in c.axes if a != self.row)
        return Compute(c.out, axes, c.value, c.reduction.over(lambda e: transform(e, read)), c.index)


def is_framed(c: Compute, storage: Storage, target: Target) -> bool:
    """Whether a stage reads an image without a halo, if it is stored so."""
    return frame_of(c, storage, target, NO_BOUNDS) is not None


def framed_rows(request: Request) -> Written | None:
    """Statements for a convolution of bytes whose windows leave its image; None for all else."""
    c, storage, target = request.compute, request.storage, request.target
    frame = frame_of(c, storage, target, request.bounds)
    if frame is None or storage.tensor(frame.x.tensor) in storage.fixed:
        return None
    buffer = frame.buffer()
    t = storage.scratch(storage.tensor(c.out), frame.shape, "frame", buffer.type)
    storage.physical[buffer] = t
    row = frame.row
    inner = {**request.bounds, row.name: interval(row)}
    lanes = max(at_once(buffer, target), LANES)
    made = request.some_rows(c, frame.moved(c, buffer), {row.name: interval(row)})
    body = (*_copied(frame, t, storage, inner, lanes), *made)
    extent = as_expr(row.extent or 0)
    return (*_beside(frame, t, lanes), For(row.name, Const(0), extent, 1, body)), 1


def _beside(frame: Frame, t: Tensor, lanes: int) -> Iterator[Statement]:
    """What lies on the left of the image and on its right."""
    rows, end = frame.shape
    inside = frame.left * frame.channels, (frame.left + _size(frame.x, COLUMNS)) * frame.channels
    for lo, hi in ((0, inside[0]), (inside[1], end)):
        if lo < hi:
            yield from write_box(t, [(0, rows), (lo, hi)], of_fill(t, frame.fill), lanes)


def _copied(frame: Frame, t: Tensor, storage: Storage, bounds: Bounds, lanes: int) -> Iterator[Statement]:
    """The rows of the image that a row of results reads, and the fill above and below it."""
    rows, (height, width) = frame.shape[0], (_size(frame.x, d) for d in (ROWS, COLUMNS))
    first, size = frame.left * frame.channels, width * frame.channels
    image = storage.tensor(frame.x.tensor)
    image = storage.view(image, (1, height, size), (1, height, size))
    lo = simplify(maximum(Const(0) - frame.begin, 0), bounds)
    hi = simplify(minimum(Const(height) - frame.begin, rows), bounds)

    def there(to: Load) -> Expr:
        at = simplify(frame.begin + to.index[0], bounds), simplify(to.index[1] - first)
        return Load(image, (Const(0), *at), None, to.lanes)

    columns = (first, first + size)
    yield from write_box(t, [(lo, hi), columns], there, lanes)
    for begin, end in ((Const(0), lo), (hi, Const(rows))):
        if interval(simplify(end - begin), bounds)[1] > 0:
            yield from write_box(t, [(begin, end), columns], of_fill(t, frame.fill), lanes)


def frame_of(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> Frame | None:
    """What the stage reads beyond an image, or None where it is not served: encoded weights are read entry by
    entry, which takes a halo.
    """
    if not target.routines or target.lanes(WORD) > 1 or c.reduction is None or c.at:
        return None
    read = list(loads(c.reduction.term))
    if any(x.tensor.codebook is not None for x in read):
        return None
    beyond = {x for x in read if x.outside is not None}
    if len(beyond) != 1 or c.reduction.combine != "sum":
        return None
    (x,) = beyond
    frame = _frame(x, c, bounds) if _is_image(x, storage) else None
    if frame is None:
        return None
    moved = frame.moved(c, frame.buffer())
    found = byte_product(moved, storage, {**bounds, frame.row.name: interval(frame.row)})
    return frame if found is not None and found.c.channels >= FEWEST else None


def _is_image(x: Load, storage: Storage) -> bool:
    """Whether what is read are bytes of one image stored channels last, whole words of each row."""
    t, layout = x.tensor, storage.layout(x.tensor)
    if t.rank != len(LAST) or t.type.bits != 8 or t.packed is not None or not isinstance(x.outside, Const):
        return False
    if layout.order != LAST or layout.has_halo or layout.place is not None or x.outside.dtype.is_float:
        return False
    if not all(isinstance(n, int) for n in t.shape) or t.shape[0] != 1:
        return False
    return _size(x, CHANNEL) % WORD == 0


def _frame(x: Load, c: Compute, bounds: Bounds) -> Frame | None:
    """The roles of the axes that move through rows and columns."""
    assert c.reduction is not None and isinstance(x.outside, Const)
    every = {**bounds, **{a.name: interval(a) for a in (*c.axes, *c.reduction.axes)}}
    taps = [k for k in c.reduction.axes if mentions(x.index[ROWS], k.name)]
    rows = [a for a in c.axes if mentions(x.index[ROWS], a.name)]
    if len(taps) != 1 or len(rows) != 1 or coefficient(x.index[ROWS], taps[0].name) != 1:
        return None
    others = [i for d, i in enumerate(x.index) if d != ROWS]
    if any(mentions(i, v.name) for i in others for v in (*taps, *rows)):
        return None
    ranges = [interval(x.index[d], every) for d in range(len(LAST))]
    if any(ranges[d][0] < 0 or ranges[d][1] >= _size(x, d) for d in (0, CHANNEL)):
        return None
    left, right = max(-ranges[COLUMNS][0], 0), max(ranges[COLUMNS][1] - _size(x, COLUMNS) + 1, 0)
    begin = simplify(substitute(x.index[ROWS], {taps[0].name: Const(0)}))
    above, below = interval(begin, every)
    if above < -static(taps[0].extent) or below > _size(x, ROWS):
        return None  # some windows lie outside altogether
    width = left + _size(x, COLUMNS) + right
    return Frame(x, rows[0], taps[0], begin, left, width, int(x.outside.value))


def _size(x: Load, d: int) -> int:
    return static(x.tensor.shape[d])
