"""Layouts: where the elements of a logical tensor stand in memory.

A layout permutes the logical axes into a storage order and surrounds them with a halo that holds one fill
value. It may place a tensor inside another one's memory: a concatenation's part, a slice. Formulas never see
it; `bind` turns their logical reads into physical ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.expr import Array, Const, Expr, Extent, Load, Select, Tensor, Var, static, transform
from ingot.formula.index import NO_BOUNDS, Bounds, as_expr, at_least, simplify
from ingot.formula.statements import For, Statement, Store
from ingot.formula.types import BOOL, DType
from ingot.loops.program import Alias
from ingot.targets.record import Target

WORD = 4  # bytes of a register of integers

Index = tuple[Expr, ...]
Range = tuple[Extent, Extent]
"""From an element of a dimension to behind another."""


@dataclass(frozen=True, slots=True)
class Place:
    """Inside `whole`, from its element `corner` on."""

    whole: Tensor
    corner: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """`order[i]` is the logical axis stored i-th; the halo is given per logical axis.

    A tensor with a `place` is stored like its whole, without a halo along the axes in which it is shorter.
    """

    order: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    fill: float | int = 0
    place: Place | None = None

    def shape(self, shape: tuple[Extent, ...]) -> tuple[Extent, ...]:
        """The physical shape of a logical one."""
        padded = [n + b + a if b + a else n for n, b, a in zip(shape, self.before, self.after, strict=True)]
        return tuple(padded[i] for i in self.order)

    def index(self, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The physical index of a logical one."""
        moved = [i + b for i, b in zip(index, self.before, strict=True)]
        return tuple(moved[i] for i in self.order)

    @property
    def has_halo(self) -> bool:
        return any(self.before) or any(self.after)


def dense(rank: int) -> Layout:
    return Layout(tuple(range(rank)), (0,) * rank, (0,) * rank)


@dataclass(slots=True)
class Storage:
    """The physical tensor of each logical one, made on first use.

    It remembers how each was made: stages that differ in their tensors only become one kernel, called with
    the physical tensors of each (`again`).
    """

    layouts: dict[Tensor, Layout]
    inner: frozenset[Tensor] = frozenset()  # read by nobody but the group that makes them
    physical: dict[Tensor, Tensor] = field(default_factory=dict)
    packed: dict[tuple[Tensor, Hashable], Tensor] = field(default_factory=dict)
    recipes: dict[Tensor, Callable[[Mapping[Tensor, Tensor]], Tensor]] = field(default_factory=dict)
    aliases: dict[Tensor, Alias] = field(default_factory=dict)
    views: dict[Tensor, Tensor] = field(default_factory=dict)
    scratches: set[Tensor] = field(default_factory=set)
    fixed: frozenset[Tensor] = frozenset()
    """Physical tensors that the kernel in the making must see in one shape only: see `view`."""

    def layout(self, t: Tensor) -> Layout:
        return self.layouts.get(t) or dense(t.rank)

    def is_dense(self, t: Tensor) -> bool:
        """Whether the elements stand in row-major order, one behind the other."""
        layout = self.layout(t)
        long = [d for d in layout.order if t.shape[d] != 1]
        return long == sorted(long) and not layout.has_halo and layout.place is None

    def halo(self, load: Load) -> tuple[tuple[int, int], ...]:
        """How far beyond the tensor, per axis, memory holds just what the load yields outside."""
        layout = self.layout(load.tensor)
        if not isinstance(load.outside, Const) or load.outside.value != layout.fill:
            return ((0, 0),) * load.tensor.rank
        return tuple(zip(layout.before, layout.after, strict=True))

    def tensor(self, t: Tensor) -> Tensor:
        if t not in self.physical:
            layout = self.layout(t)
            value = None if t.value is None else np.asarray(t.value.transpose(layout.order), order="C")
            pitch = (
                None if layout.place is None else tuple(map(static, self.tensor(layout.place.whole).spans))
            )
            shape = layout.shape(t.shape)
            made = Tensor(t.name, t.type, shape, value, None, pitch, t.within, t.packed, t.codebook)
            self.physical[t] = made
            if layout.place is not None:
                self.aliases[made] = self._inside(layout.place, layout)
            self.recipes[made] = lambda others: self.tensor(others[t])
        return self.physical[t]

    def _inside(self, place: Place, layout: Layout) -> Alias:
        """The physical place of a part. Its halo is the whole's, so that the two corners are of one kind."""
        whole = self.tensor(place.whole)
        start = 0
        for d, n in zip(layout.order, whole.spans, strict=True):
            start = start * static(n) + place.corner[d]
        return Alias(whole, start)

    def transposed(self, t: Tensor, order: tuple[int, ...]) -> Tensor:
        """A physical constant with its dimensions in another order."""
        return self.derived(t, order, lambda value: np.ascontiguousarray(value.transpose(order)))

    def derived(
        self,
        t: Tensor,
        how: Hashable,
        make: Callable[[Array], Array],
        type: DType | None = None,
        what: str = "",
        within: tuple[int, int] | None = None,
    ) -> Tensor:
        """A physical constant as its loops read it, made of another once for each `how`.

        Its elements are the other's, or of the `type` given; `what` they are becomes part of its name.
        `within` is what its loops need to know of its integers, if that is less than which ones they are:
        loops that know less serve more constants.
        """
        if (t, how) not in self.packed:
            assert t.value is not None
            value = make(t.value)
            name = f"{t.name}_{what}" if what else t.name
            made = self.packed[t, how] = Tensor(name, type or t.type, value.shape, value, within=within)
            self.recipes[made] = lambda others: self.derived(
                self.again(t, others), how, make, type, what, within
            )
        return self.packed[t, how]

    def combined(
        self,
        a: Tensor,
        b: Tensor,
        how: Hashable,
        make: Callable[[Array, Array], Array],
        type: DType,
        what: str,
    ) -> Tensor:
        """A constant made of two physical ones once for each `how`; named after the first."""
        if (a, (b, how)) not in self.packed:
            assert a.value is not None and b.value is not None
            value = make(a.value, b.value)
            made = self.packed[a, (b, how)] = Tensor(f"{a.name}_{what}", type, value.shape, value)
            self.recipes[made] = lambda others: self.combined(
                self.again(a, others), self.again(b, others), how, make, type, what
            )
        return self.packed[a, (b, how)]

    def view(self, t: Tensor, shape: tuple[Extent, ...], spans: tuple[Extent, ...]) -> Tensor:
        """The elements of a physical tensor in row-major order under another shape.

        A kernel that writes one of the two and touches the other would have parameters that alias.
        """
        t = self.views.get(t, t)
        if (t, shape) not in self.packed:
            value = None if t.value is None else t.value.reshape(tuple(map(static, shape)))
            pitch = None if t.pitch is None else tuple(map(static, spans))
            made = replace(t, shape=shape, value=value, pitch=pitch)
            self.packed[t, shape] = made
            self.views[made] = t
            self.recipes[made] = lambda others: self.view(self.again(t, others), shape, spans)
        return self.packed[t, shape]

    def scratch(
        self, t: Tensor, shape: tuple[int, ...], what: str = "packed", type: DType | None = None
    ) -> Tensor:
        """Memory for what a kernel makes of a physical tensor, in the order its loops read it.

        Its elements are of the tensor's type, or of the `type` given.

        What an iteration of a loop reads of it was written by that iteration or before the loop: nothing is
        handed from one to the next, so that iterations which run at once may each have their own.
        """
        made = Tensor(f"{t.name}_{what}", type or t.type, shape)
        self.scratches.add(made)
        self.recipes[made] = lambda others: self.scratch(self.again(t, others), shape, what, type)
        return made

    def again(self, physical: Tensor, others: Mapping[Tensor, Tensor]) -> Tensor:
        """What the physical tensor would be, had it been made of these logical tensors instead."""
        return self.recipes[physical](others)


def bind(e: Expr, storage: Storage, bounds: Bounds = NO_BOUNDS) -> Expr:
    """The expression over physical tensors, indices in normal form, a guard only where a read may lie
    outside.
    """

    def physical(node: Expr) -> Expr | None:
        return _bind_load(node, storage, bounds) if isinstance(node, Load) else None

    return simplify(transform(e, physical), bounds)


def destination(c: Compute, storage: Storage, bounds: Bounds) -> Load:
    """The element of the physical tensor that a stage's result becomes, in normal form."""
    index = tuple(simplify(bind(i, storage, bounds), bounds) for i in c.index)
    moved = storage.layout(c.out).index(index)
    return Load(storage.tensor(c.out), tuple(simplify(i, bounds) for i in moved))


def _bind_load(load: Load, storage: Storage, bounds: Bounds) -> Expr:
    index = tuple(simplify(bind(i, storage, bounds), bounds) for i in load.index)
    layout = storage.layout(load.tensor)
    read = Load(storage.tensor(load.tensor), layout.index(index))
    if load.outside is None:
        return read
    guards: list[Expr] = []
    for i, n, (before, after) in zip(index, load.tensor.shape, storage.halo(load), strict=True):
        guards += _guards(i, n, before, after, bounds)
    if not guards:
        return read
    condition = guards[0]
    for g in guards[1:]:
        condition = condition & g
    return Select(condition, read, bind(load.outside, storage, bounds))


def _guards(i: Expr, n: Extent, before: int, after: int, bounds: Bounds) -> list[Expr]:
    """The comparisons that keep i in -before <= i < n + after, without those that always hold."""
    out = []
    if at_least(i, bounds) < -before:
        out.append(i >= -before)
    if at_least(simplify(as_expr(n) + after - 1 - i, bounds), bounds) < 0:
        out.append(i < n + after)
    assert all(g.dtype is BOOL for g in out)
    return out


def row_buffer(t: Tensor, shape: tuple[int, ...], layout: Layout, storage: Storage) -> Tensor:
    """Some rows of a tensor as a tensor of its own, in scratch."""
    made = Tensor(f"{t.name}_rows", t.type, shape)
    physical = storage.scratch(storage.tensor(t), tuple(map(static, layout.shape(shape))), "rows")
    storage.layouts[made], storage.physical[made] = layout, physical
    storage.fixed |= {physical}
    return made


def fill_halo(t: Tensor, storage: Storage, lanes: int) -> tuple[Statement, ...]:
    """Statements that write the fill around a tensor, `lanes` elements at a time: in every run, for the
    arena arrives with anything in it. Memory is walked once, forwards.
    """
    return tuple(_fill_around(storage.tensor(t), storage.layout(t), (), lanes))


def _fill_around(t: Tensor, layout: Layout, index: Index, lanes: int) -> Iterator[Statement]:
    """The fill before and behind a dimension and around what lies between, at a place of those before it."""
    d, value = len(index), of_fill(t, layout.fill)
    if not any(layout.before[axis] or layout.after[axis] for axis in layout.order[d:]):
        return
    before, after, end = layout.before[layout.order[d]], layout.after[layout.order[d]], t.shape[d]
    inside: list[Range] = [(0, n) for n in t.shape[d + 1 :]]
    if before:
        yield from write_box(t, [(0, before), *inside], value, lanes, index)
    if after:  # of a fixed extent: see `assign_layouts`
        end = static(t.shape[d]) - after
        yield from write_box(t, [(end, end + after), *inside], value, lanes, index)
    place = Var(f"f{d}")
    if between := tuple(_fill_around(t, layout, (*index, place), lanes)):
        yield For(place.name, Const(before), as_expr(end), 1, between)


def write_box(
    t: Tensor, ranges: Sequence[Range], value: Callable[[Load], Expr], lanes: int, at: Index = ()
) -> tuple[Statement, ...]:
    """Statements that give the elements of a box their `value`, `lanes` at a time, in the order of memory.

    The ranges are of the last dimensions, at one place of those before them. Vectors are spelled out: left to
    itself a compiler may turn the loops around and scatter.
    """
    names = [f"f{len(at) + k}" for k in range(len(ranges))]
    inner = (Var(n) if _is_long(r) else as_expr(r[0]) for n, r in zip(names, ranges, strict=True))
    row, whole = t.lane_axis - len(at), t.type.compute is t.type and t.type.kind in "iuf"
    body = tuple(_write_row(t, (*at, *inner), names[row], ranges[row], value, lanes if whole else 1))
    for k, (name, (lo, hi)) in reversed(list(enumerate(zip(names, ranges, strict=True)))):
        if _is_long((lo, hi)) and k != row:
            body = (For(name, as_expr(lo), as_expr(hi), 1, body),)
    return body


def of_fill(t: Tensor, fill: float | int) -> Callable[[Load], Expr]:
    """One number everywhere."""
    number = Const(float(fill) if t.type.is_float else int(fill), t.type.compute)
    return lambda _: number


def _is_long(r: Range) -> bool:
    """Whether more than one element lies there, as far as is known."""
    lo, hi = r
    return not (isinstance(lo, int) and isinstance(hi, int) and hi - lo <= 1)


def _write_row(
    t: Tensor, index: tuple[Expr, ...], name: str, row: Range, value: Callable[[Load], Expr], lanes: int
) -> Iterator[Statement]:
    """One row of a box, in vectors where its length is known."""
    (lo, hi), along = row, t.lane_axis
    if not (isinstance(lo, int) and isinstance(hi, int)):
        to = Load(t, index)
        yield For(name, as_expr(lo), as_expr(hi), 1, (Store(to, value(to)),))
        return
    while lo < hi:
        width = next((n for n in (lanes, 16, 8, 4) if 1 < n <= min(lanes, hi - lo)), 1)
        end = hi - (hi - lo) % width
        turns: Expr = Var(name) if end - lo > width else Const(lo)
        to = Load(t, (*index[:along], turns, *index[along + 1 :]), None, width)
        store = Store(replace(to, lanes=1), value(to), width)
        yield For(name, Const(lo), Const(end), width, (store,)) if end - lo > width else store
        lo = end


def at_once(t: Tensor, target: Target) -> int:
    """How many elements of a box are written at once: vectors, or bytes that fill a register."""
    lanes = target.lanes(max(t.type.bytes, WORD))
    alone = lanes == t.type.bytes == 1 and list(target.narrow_operations) == [WORD]
    return WORD if alone else lanes
