"""Sequences: operators on the three tensors that stand for one, data, extents and length.

Element k of a sequence is the corner data[k, :extents[k, 0], :extents[k, 1], ...]; an extent of -1 says that
the element has no such axis. What is beyond a corner, and elements from `length` on, mean nothing. Positions
are checked in the bundle (ERR_INDEX), so are the lengths that a caller gives (ERR_CAPACITY). Sequences whose
elements are known one by one never come here: the reader takes them apart.
"""

from __future__ import annotations

import numpy as np

from ingot.errors import UnsupportedError
from ingot.formula.expr import (
    Array,
    Cast,
    Const,
    Expr,
    Extent,
    Gathered,
    Operand,
    Tensor,
    Var,
    call,
    cast,
    equal,
    maximum,
    minimum,
    select,
    wrap,
)
from ingot.formula.index import as_expr, upper
from ingot.formula.types import BOOL, INDEX, INT64
from ingot.ops.registry import Builder, op

Three = tuple[Tensor, Tensor, Tensor]
NONE = Const(-1, INT64)  # the extent of an axis that an element has not


def integer(t: Tensor) -> Expr:
    """The one element of an integer tensor: a constant where it is known."""
    if t.value is not None:
        return Const(int(t.value.reshape(-1)[0]), INT64)
    return cast(t[(0,) * t.rank], INT64)


def room_of(data: Tensor) -> tuple[int, tuple[int, ...]]:
    """How many elements a sequence has room for, and the extents of the largest."""
    count, *rest = map(upper, data.shape)
    return count, tuple(rest)


def not_equal(a: Expr, b: Operand) -> Expr:
    return call("not", equal(a, b))


def place(f: Builder, position: Tensor | None, length: Tensor, end: int, *, more: int = 0) -> Expr:
    """The position, counted from the front, as an index below `end`; by default the last.

    It is checked once: 0 <= place < length + more.
    """
    if position is not None:
        f.require(position.type.is_integer and position.count == 1, "a position is one integer")
    count = integer(length)
    last = count if more == 1 else count + (more - 1)
    at = last if position is None else integer(position)
    if length.value is not None and (position is None or position.value is not None):
        n = int(length.value.reshape(-1)[0])
        k = n + more - 1 if position is None or position.value is None else int(position.value.reshape(-1)[0])
        f.require(-n <= k < n + more, f"position {k} is out of range for {n} elements")
        return Const(k + n if k < 0 else k)
    from_front = at if position is None else select(at < 0, at + count, at)
    front = f.map((), from_front, INT64, "from_front")[()]
    inside = (front >= 0) & (front < count + more)
    kept = f.empty(INT64, (), "place", within=(0, end - 1))
    f.put(kept, (), (), cast(Gathered(select(inside, front, NONE), Const(0), Const(end)), INT64))
    return cast(kept[()], INDEX)


def wide(at: Expr) -> Expr:
    """A place as a number to compare with."""
    return Const(int(at.value), INT64) if isinstance(at, Const) else at.a if isinstance(at, Cast) else at


@op("SequenceConstruct", since=11)
def sequence_construct(f: Builder, *inputs: Tensor) -> Three:
    """The tensors one behind the other (SequenceConstruct-11)."""
    dtype, rank = inputs[0].type, max(t.rank for t in inputs)
    f.require(all(t.type is dtype for t in inputs), "the elements are of different types")
    room = tuple(max(upper(t.shape[d]) if t.rank > d else 1 for t in inputs) for d in range(rank))
    data = f.empty(dtype, (len(inputs), *room), "data")
    for k, t in enumerate(inputs):
        axes = f.axes(room)
        f.put(data, axes, (k, *axes), padded(t, axes[: t.rank], room))
    rows = [[t.shape[d] if d < t.rank else -1 for d in range(rank)] for t in inputs]
    return data, numbers(f, rows, rank), f.constant(np.array(len(inputs), np.int64), "length")


def padded(t: Tensor, index: tuple[Expr, ...], room: tuple[int, ...]) -> Expr:
    """An element of `t`, or 0 beyond it."""
    return t.at(index) if t.shape == room[: t.rank] else t.at(index, outside=0)


def numbers(f: Builder, rows: list[list[Extent]], columns: int) -> Tensor:
    """A table of extents: a constant where they are."""
    every = [n for row in rows for n in row]
    if all(isinstance(n, int) for n in every):
        return f.constant(np.array(rows, np.int64).reshape(len(rows), columns), "extents")
    out = f.empty(INT64, (len(rows), columns), "extents")
    for k, row in enumerate(rows):
        for d, n in enumerate(row):
            f.put(out, (), (k, d), cast(as_expr(n), INT64))
    return out


@op("SequenceInsert", since=11)
def sequence_insert(
    f: Builder, data: Tensor, extents: Tensor, length: Tensor, x: Tensor, position: Tensor | None = None
) -> Three:
    """With `x` at `position`, by default behind the last (SequenceInsert-11)."""
    f.require(data.type is x.type or not data.count, f"elements are {data.type}, the new one is {x.type}")
    count, old = room_of(data)
    rank = max(len(old) if count else 0, x.rank)
    room = tuple(max((*old[d : d + 1], upper(x.shape[d]) if d < x.rank else 1)) for d in range(rank))
    at = place(f, position, length, count + 1, more=1)
    k, *axes = f.axes((count + 1, *room))
    zero = wrap(0, x.type.compute)
    inner = tuple(axes[: data.rank - 1])
    moved = data.at((k, *inner), outside=0) if position is None else shifted(data, at, k, inner)
    out = f.map((k, *axes), moved if count else zero, x.type, "data")
    points = f.axes(x.shape)
    f.put(out, points, (at, *points, *[0] * (rank - x.rank)), x[points])
    row: list[Extent] = [*x.shape, *[-1] * (rank - x.rank)]
    return out, inserted(f, extents, at, row), f.map((), integer(length) + 1, INT64, "length")


def shifted(data: Tensor, at: Expr, k: Var, inner: tuple[Var, ...]) -> Expr:
    """Elements before the place as they are, one further back from it on."""
    here, there = (data.at((i, *inner), outside=0) for i in (k, k - 1))
    return select(cast(k, INT64) < wide(at), here, there)


def inserted(f: Builder, extents: Tensor, at: Expr, row: list[Extent]) -> Tensor:
    """The table of extents with another row."""
    count, rank = upper(extents.shape[0]), len(row)
    if extents.value is not None and isinstance(at, Const) and all(isinstance(n, int) for n in row):
        wider = np.full((count, rank), -1, np.int64)
        wider[:, : extents.value.shape[1]] = extents.value
        return f.constant(np.insert(wider, int(at.value), np.array(row, np.int64), axis=0), "extents")
    k, d = f.axes((count + 1, rank), "k d")
    here, there = (extents.at((i, d), outside=-1) for i in (k, k - 1))
    out = f.map((k, d), select(cast(k, INT64) < wide(at), here, there), INT64, "extents")
    for i, n in enumerate(row):
        f.put(out, (), (at, i), cast(as_expr(n), INT64))
    return out


@op("SequenceErase", since=11)
def sequence_erase(
    f: Builder, data: Tensor, extents: Tensor, length: Tensor, position: Tensor | None = None
) -> Three:
    """Without the element at `position`, by default the last (SequenceErase-11)."""
    count, room = room_of(data)
    f.require(count > 0, "the sequence is always empty")
    at = place(f, position, length, count)
    k, *axes = f.axes((count - 1, *room))
    before = cast(k, INT64) < wide(at)
    out = f.map((k, *axes), select(before, data.at((k, *axes)), data.at((k + 1, *axes))), data.type, "data")
    if extents.value is not None and isinstance(at, Const):
        rows = f.constant(np.delete(extents.value, int(at.value), axis=0), "extents")
    else:
        k, d = f.axes((count - 1, len(room)), "k d")
        before = cast(k, INT64) < wide(at)
        rows = f.map((k, d), select(before, extents[k, d], extents[k + 1, d]), INT64, "extents")
    return out, rows, f.map((), integer(length) - 1, INT64, "length")


@op("SequenceAt", since=11)
def sequence_at(f: Builder, data: Tensor, extents: Tensor, length: Tensor, position: Tensor) -> Tensor:
    """The element at `position` (SequenceAt-11). Its extents are data, unless all elements have the same."""
    count, room = room_of(data)
    f.require(count > 0, "the sequence is always empty")
    at = place(f, position, length, count)
    if extents.value is not None and isinstance(at, Const):
        row = [int(n) for n in extents.value[int(at.value)]]
        shape: list[Extent] = [n for n in row if n >= 0]
    else:
        rank = _rank(f, extents)
        shape = [_extent(f, extents, at, d, n) for d, n in enumerate(room[:rank])]
    axes = f.axes(tuple(shape))
    return f.map(axes, data.at((at, *axes, *[0] * (len(room) - len(axes)))), data.type)


def _rank(f: Builder, extents: Tensor) -> int:
    """How many axes the elements have: those that the model says, if it does.

    Raises UnsupportedError where elements have different numbers of axes and nothing says which one is taken.
    """
    value = f.node.outputs[0]
    rank = int(upper(extents.shape[1]))
    if value is not None and value.shape is not None:
        return min(len(value.shape), rank)
    ranks = set() if extents.value is None else set((extents.value >= 0).sum(axis=1).tolist())
    if len(ranks) > 1:
        raise UnsupportedError(
            f"{f.node.label}: the sequence's elements have {' or '.join(map(str, sorted(ranks)))} axes, "
            "and only the run tells which is taken; declare the shape of the output in the model"
        )
    return rank


def _extent(f: Builder, extents: Tensor, at: Expr, d: int, most: int) -> Extent:
    """The extent along axis d of the element at a place."""
    if extents.value is not None:
        column = set(extents.value[:, d].tolist())
        if len(column) == 1 and min(column) >= 0:
            return int(column.pop())
    return f.measured(f.map((), extents[at, d], INT64, "extent"), most, axis=d)


@op("SequenceLength", since=11)
def sequence_length(f: Builder, data: Tensor, extents: Tensor, length: Tensor) -> Tensor:
    """How many elements there are (SequenceLength-11)."""
    return f.length_of(length, upper(data.shape[0]))


@op("ConcatFromSequence", since=11)
def concat_from_sequence(
    f: Builder, data: Tensor, extents: Tensor, length: Tensor, *, axis: int, new_axis: int = 0
) -> Tensor:
    """The elements one behind the other along an axis, or along a new one (ConcatFromSequence-11)."""
    count, room = room_of(data)
    f.require(count > 0, "the sequence is always empty")
    a = f.axis(axis, len(room) + new_axis)
    if new_axis:
        others = [_common(f, extents, length, d, n, d + (d >= a)) for d, n in enumerate(room)]
        many = f.measured(length, count, axis=a)
        axes = f.axes((*others[:a], many, *others[a:]))
        return f.map(axes, data.at((axes[a], *axes[:a], *axes[a + 1 :])), data.type)
    return _joined(f, data, extents, length, a)


def _common(f: Builder, extents: Tensor, length: Tensor, d: int, most: int, axis: int) -> Extent:
    """The extent along axis d, which all elements must share; `axis` of the result."""
    if extents.value is not None and len(set(extents.value[:, d].tolist())) == 1:
        return int(extents.value[0, d])
    (k,) = f.axes((extents.shape[0],), "k")
    live = cast(k, INT64) < integer(length)
    differs = select(live & not_equal(extents[k, d], extents[0, d]), Const(1, INT64), Const(0, INT64))
    apart = f.reduce("max", (), (k,), differs, init=0, name="apart")
    fine = equal(apart[()], 0) & (integer(length) > 0)
    return f.measured(f.map((), select(fine, extents[0, d], NONE), INT64, "extent"), most, axis=axis)


def _joined(f: Builder, data: Tensor, extents: Tensor, length: Tensor, a: int) -> Tensor:
    """Elements may differ along axis `a`: a table says whose each place of the result is."""
    count, room = room_of(data)
    others = [n if d == a else _common(f, extents, length, d, n, d) for d, n in enumerate(room)]
    most = count * room[a]
    owner = f.empty(INT64, (most + 1,), "owner", within=(0, count - 1))
    within = f.empty(INT64, (most + 1,), "within", within=(0, max(room[a] - 1, 0)))
    for table in (owner, within):
        (i,) = f.axes((most + 1,), "i")
        f.put(table, (i,), (i,), Const(0, INT64))
    total = f.map((), Const(0, INT64), name="total")
    (k,) = f.axes((count,), "k")

    def body() -> None:
        (j,) = f.axes((room[a],), "j")
        long = select(cast(k, INT64) < integer(length), extents[k, a], Const(0, INT64))
        to = select(cast(j, INT64) < long, total[()] + cast(j, INT64), Const(most, INT64))
        slot = Gathered(to, Const(0), Const(most + 1))
        f.put(owner, (j,), (slot,), cast(k, INT64))
        f.put(within, (j,), (slot,), cast(j, INT64))
        f.put(total, (), (), total[()] + long)

    f.scan(k, (owner, within, total), body)
    others[a] = f.measured(total, most, axis=a)
    axes = f.axes(tuple(others))
    who, where = cast(owner[axes[a]], INDEX), cast(within[axes[a]], INDEX)
    return f.map(axes, data.at((who, *(where if d == a else x for d, x in enumerate(axes)))), data.type)


@op("SplitToSequence", since=11)
def split_to_sequence(
    f: Builder, x: Tensor, split: Tensor | None = None, *, axis: int = 0, keepdims: int = 1
) -> Three:
    """Parts along an axis: of one element, of `split` elements each, or of its sizes (SplitToSequence-24)."""
    a, n = f.axis(axis, x.rank), x.shape[f.axis(axis, x.rank)]
    if split is None and not keepdims:
        return _slices(f, x, a)
    most = longest = upper(n)
    if split is not None and split.rank == 1:
        count, starts, sizes = _given(f, split, n)
        parts: Expr = Const(count, INT64)
    elif split is not None and split.value is None:
        count = most
        parts, starts, sizes = _chunks(f, integer(split), n)
    else:
        longest = 1 if split is None or split.value is None else int(split.value.reshape(-1)[0])
        f.require(longest > 0, f"parts of {longest} elements")
        longest = min(longest, max(most, 1))
        count, parts, starts, sizes = _equal_parts(f, longest, n)
    room = tuple(longest if d == a else upper(m) for d, m in enumerate(x.shape))
    k, *axes = f.axes((count, *room))
    start = Gathered(starts[k], Const(0), Const(most + 1))
    index = tuple(start + i if d == a else i for d, i in enumerate(axes))
    data = f.map((k, *axes), x.at(index, outside=0), x.type, "data")
    if sizes.value is not None and all(isinstance(m, int) for m in x.shape):
        own = [[sizes.value[i] if d == a else m for d, m in enumerate(x.shape)] for i in range(count)]
        table = f.constant(np.array(own, np.int64).reshape(count, x.rank), "extents")
        return data, table, f.constant(np.array(count, np.int64), "length")
    rows = f.empty(INT64, (count, x.rank), "extents")
    for d, m in enumerate(x.shape):
        (k,) = f.axes((count,), "k")
        f.put(rows, (k,), (k, d), sizes[k] if d == a else cast(as_expr(m), INT64))
    return data, rows, f.map((), parts, INT64, "length")


def _slices(f: Builder, x: Tensor, a: int) -> Three:
    """One element per place of an axis, without that axis."""
    count, rest = upper(x.shape[a]), (*x.shape[:a], *x.shape[a + 1 :])
    k, *axes = f.axes((count, *map(upper, rest)))
    index = (*axes[:a], k, *axes[a:])
    data = f.map((k, *axes), padded(x, tuple(index), tuple(map(upper, x.shape))), x.type, "data")
    rows = numbers(f, [list(rest)] * count, len(rest))
    return data, rows, f.map((), cast(as_expr(x.shape[a]), INT64), INT64, "length")


def _given(f: Builder, split: Tensor, n: Extent) -> tuple[int, Tensor, Tensor]:
    """Sizes that must make up the whole: where each part starts, and how long it is."""
    count = upper(split.shape[0])
    k, j = f.axes((count, count), "k j")
    before = select(j < k, cast(split[j], INT64), Const(0, INT64))
    (every,) = f.axes((count,), "j")
    size = cast(split[every], INT64)
    total = f.reduce("sum", (), (every,), size, init=0, name="total")
    least = f.reduce("min", (), (every,), size, init=0, name="least")
    fine = equal(total[()], cast(as_expr(n), INT64)) & (least[()] >= 0)
    starts = f.reduce("sum", (k,), (j,), before, init=0, name="before")
    (k,) = f.axes((count,), "k")
    ok = Gathered(select(fine, starts[k], NONE), Const(0), as_expr(n) + 1)
    sizes = f.map((k,), cast(split[k], INT64), name="sizes")
    return count, f.map((k,), cast(ok, INT64), name="starts"), sizes


def _equal_parts(f: Builder, longest: int, n: Extent) -> tuple[int, Expr, Tensor, Tensor]:
    """Parts of a known size: their largest number, how many there are, where each starts, how long it is."""
    count = -(-upper(n) // longest)
    at = np.arange(count, dtype=np.int64) * longest
    starts = f.constant(at, "starts")
    if isinstance(n, int):
        return count, Const(count, INT64), starts, f.constant(np.minimum(longest, n - at), "sizes")
    whole = cast(as_expr(n), INT64)
    (k,) = f.axes((count,), "k")
    left = maximum(minimum(Const(longest, INT64), whole - cast(k, INT64) * longest), Const(0, INT64))
    return count, (whole + (longest - 1)) // longest, starts, f.map((k,), left, INT64, "sizes")


def _chunks(f: Builder, size: Expr, n: Extent) -> tuple[Expr, Tensor, Tensor]:
    """Equal sizes, the last possibly smaller: how many parts, where each starts, how long it is."""
    whole, count = cast(as_expr(n), INT64), upper(n)
    near = f.map((), minimum(size, Const(max(count, 1), INT64)), INT64, "near")
    least = Gathered(near[()], Const(1), Const(max(count, 1) + 1))
    chunk = f.map((), cast(least, INT64), name="chunk")[()]
    (k,) = f.axes((count,), "k")
    start = minimum(cast(k, INT64) * chunk, whole)
    starts = f.map((k,), start, INT64, "starts")
    sizes = f.map((k,), minimum(chunk, whole - starts[k]), INT64, "sizes")
    return (whole + chunk - 1) // chunk, starts, sizes


@op("SequenceInput", domain="ingot")
def sequence_input(
    f: Builder,
    data: Tensor,
    extents: Tensor,
    length: Tensor,
    present: Tensor | None = None,
    *,
    shape: tuple[int, ...],
) -> tuple[Tensor, Tensor]:
    """A caller's sequence, checked: a length, up to which extents can be relied on (ERR_CAPACITY).

    The extents are constants if the model declares all; then nobody reads the caller's. `shape` has what the
    model declares: -1 for an axis of any extent, -2 if an element may also lack it.
    """
    count, room = room_of(data)
    fixed: Array = np.array([n if n >= 0 else -1 for n in shape], np.int64).reshape(-1)
    (k,) = f.axes((count,), "k")
    found = integer(length)
    here = found if present is None else select(present[()], found, Const(0, INT64))
    bad: Expr = Const(0, INT64)
    for d, (said, n) in enumerate(zip(shape, room, strict=True)):
        e = extents[k, d]
        wrong = not_equal(e, said) if said >= 0 else (e < (0 if said == -1 else -1)) | (e > n)
        bad = select(wrong, Const(1, INT64), bad)
    live = cast(k, INT64) < here
    wrongs = f.reduce("max", (), (k,), select(live, bad, Const(0, INT64)), init=0, name="wrong")
    fine = select(equal(wrongs[()], 0), here, NONE)
    taken = f.map((), cast(Gathered(fine, Const(0), Const(count + 1), "ERR_CAPACITY"), INT64), name="length")
    return f.constant(np.tile(fixed, (count, 1)), "extents"), taken


@op("OptionalGetElement", since=15)
def optional_get_element(f: Builder, x: Tensor, present: Tensor) -> Tensor:
    """The element of an optional; ERR_INDEX where there is none (OptionalGetElement-18)."""
    f.require(present.type is BOOL, "whether there is an element is a bool")
    there = select(present[(0,) * present.rank], Const(0, INT64), NONE)
    f.map((), cast(Gathered(there, Const(0), Const(1)), INT64), name="there")
    axes = f.axes(x.shape)
    return f.map(axes, x[axes], x.type)
