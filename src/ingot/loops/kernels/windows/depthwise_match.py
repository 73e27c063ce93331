"""What the axes of a depthwise sum of bytes are: channels in the lanes, rows in groups, columns side by side.

In: a stage. Out: a `Depthwise`, its loads bound to physical tensors, or None where it is no such sum or its
windows leave memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingot.formula.compute import Compute
from ingot.formula.expr import Binary, Cast, Const, Expr, Load, Var, static, substitute
from ingot.formula.index import Bounds, coefficient, interval, mentions, simplify
from ingot.formula.types import INT8, INT32, UINT8
from ingot.loops.access import has_vector_form, step
from ingot.loops.layout import Storage, bind
from ingot.loops.requantise import is_limited


@dataclass(frozen=True, slots=True)
class Depthwise:
    """A matched stage: `x` and `to` move by one along `vector`; four taps along `rows` make a product.

    `down` is the output axis whose neighbours share rows, `along` the one whose neighbours share columns.
    `channel` is what constants move with: `vector`, unless that goes over the channels of many columns; these
    lie side by side, and the operand's `stride` times as far apart as the result's.
    """

    x: Load
    w: Load
    to: Load
    value: Expr
    init: Expr
    vector: Var
    rows: Var
    taps: tuple[Var, ...]
    down: Var | None
    along: Var | None
    outer: tuple[Var, ...]
    bounds: Bounds
    channel: Var
    stride: int = 1

    @property
    def period(self) -> int:
        """Channels that come round along the vectors; 0: each comes once."""
        return 0 if self.channel is self.vector else static(self.channel.extent)

    def tap_row(self, j: int, tap: int) -> int:
        """The row that a tap of the j-th output row reads, counted from the first row's."""
        (i,) = {i for i in self.x.index if mentions(i, self.rows.name)}
        own = (coefficient(i, self.down.name) or 0) if self.down is not None else 0
        return j * own + tap * (coefficient(i, self.rows.name) or 0)

    def read(self, count: int) -> tuple[int, ...]:
        """The rows that `count` output rows read."""
        taps = range(static(self.rows.extent))
        return tuple(sorted({self.tap_row(j, t) for j in range(count) for t in taps}))


@dataclass(frozen=True, slots=True)
class SumOfBytes:
    """A stage that sums products of bytes `x` with constant ones `w`: what it reads and writes, bound."""

    x: Load
    w: Load
    to: Load
    value: Expr
    init: Expr
    bounds: Bounds


def sum_of_bytes(c: Compute, storage: Storage, bounds: Bounds) -> SumOfBytes | None:
    """What a stage sums, or None: it sums anything else, or its results are no bytes."""
    r = c.reduction
    if r is None or r.combine != "sum" or r.term.dtype is not INT32 or c.out.type not in (INT8, UINT8):
        return None
    if not all(isinstance(a.extent, int) for a in (*c.axes, *r.axes)):
        return None
    inner = {**bounds, **{a.name: interval(a) for a in (*c.axes, *r.axes)}}
    factors = _factors(bind(r.term, storage, inner))
    index = storage.layout(c.out).index(tuple(simplify(bind(i, storage, inner), inner) for i in c.index))
    to = Load(storage.tensor(c.out), tuple(simplify(i, inner) for i in index))
    if factors is None:
        return None
    return SumOfBytes(*factors, to, bind(c.value, storage, inner), bind(r.init, storage, inner), inner)


def match(c: Compute, storage: Storage, bounds: Bounds) -> Depthwise | None:
    """Bind the stage and give its axes their roles."""
    found, r = sum_of_bytes(c, storage, bounds), c.reduction
    if found is None or r is None:
        return None
    x, w, to, value = found.x, found.w, found.to, found.value
    along = [a for a in c.axes if step(to, a.name) == 1 and step(x, a.name) == 1 and mentions(w, a.name)]
    rows = [k for k in r.axes if any(coefficient(i, k.name) for i in x.index)]
    if not along or not rows or not isinstance(value, Cast) or not has_vector_form(value):
        return None
    if value.a.dtype.is_integer and not is_limited(value):
        return None  # bytes are packed with saturation, and a cast keeps the low bits
    vector, group = along[0], max(rows, key=lambda k: (static(k.extent), -r.axes.index(k)))
    if sum(mentions(i, group.name) for i in x.index) != 1 or not _moves_by_numbers(x, (*c.axes, *r.axes)):
        return None
    shared = next(i for i in x.index if mentions(i, group.name))
    down = next((a for a in c.axes if coefficient(shared, a.name)), None)
    others = [a for a in c.axes if a not in (vector, down)]
    nearest = min((a for a in others if step(x, a.name)), key=lambda a: step(x, a.name) or 0, default=None)
    outer = tuple(a for a in others if a is not nearest)
    taps = tuple(k for k in r.axes if k is not group)
    return Depthwise(
        x, w, to, value, found.init, vector, group, taps, down, nearest, outer, found.bounds, vector
    )


def flattened(d: Depthwise, storage: Storage, width: int) -> Depthwise:
    """The same along rows of memory, where a vector of `width` bytes holds all channels of some columns."""
    channels = static(d.vector.extent)
    if d.along is None or channels >= width or width % channels:
        return d
    stride = coefficient(d.x.index[-2], d.along.name) if d.x.tensor.rank > 1 else None
    x, to = (_flat(load, storage, d, k) for load, k in ((d.x, stride), (d.to, 1)))
    if x is None or to is None or not (stride == 1 or (stride == 2 and 2 * channels < width)):
        return d  # picking a column of two costs as much as a vector of one column
    vector = Var(f"{d.along.name}{d.vector.name}", static(d.along.extent) * channels)
    return replace(
        d,
        x=replace(x, index=(*x.index[:-1], simplify(x.index[-1] + vector * stride, d.bounds))),
        to=replace(to, index=(*to.index[:-1], simplify(to.index[-1] + vector, d.bounds))),
        vector=vector,
        along=None,
        bounds={**d.bounds, vector.name: interval(vector)},
        stride=stride,
    )


def _flat(load: Load, storage: Storage, d: Depthwise, stride: int | None) -> Load | None:
    """The load over a view whose columns and channels are one dimension, at the first column and channel."""
    t, channels = load.tensor, static(d.vector.extent)
    if t.rank < 2 or t in storage.fixed or t.pitch is not None or d.along is None:
        return None
    if load.index[-1] != d.vector:
        return None
    if t.shape[-2:] != t.spans[-2:] or t.shape[-1] != channels or not isinstance(t.shape[-2], int):
        return None
    if coefficient(load.index[-2], d.along.name) != stride or any(
        mentions(i, a.name) for i in load.index[:-2] for a in (d.along, d.vector)
    ):
        return None
    first = substitute(load.index[-2], {d.along.name: Const(0)}) * channels
    sizes = (*t.shape[:-2], t.shape[-2] * channels)
    return Load(storage.view(t, sizes, (*t.spans[:-2], sizes[-1])), (*load.index[:-2], first))


def _factors(term: Expr) -> tuple[Load, Load] | None:
    """The operand and the constant that a term multiplies, bytes both."""
    match term:
        case Binary("mul", Cast(Load() as a), Cast(Load() as b)) if (
            a.tensor.type.bits == b.tensor.type.bits == 8
        ):
            x, w = (a, b) if b.tensor.value is not None else (b, a)
            return (x, w) if w.tensor.type is INT8 and w.tensor.value is not None else None
    return None


def _moves_by_numbers(x: Load, axes: tuple[Var, ...]) -> bool:
    return all(
        step(x, a.name) is not None and (coefficient(i, a.name) or 0) >= 0 for a in axes for i in x.index
    )
