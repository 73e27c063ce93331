"""Strings, character by character: what stands in them, seen as rows of bytes.

Operators take strings as uint8 [..., capacity] and give such rows back; both are views of the strings'
memory. A string ends at its first zero, or fills its capacity; a result that does not fit with the zero at
its end is ERR_CAPACITY.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.expr import Const, Expr, Extent, Tensor, Var, call, cast, equal, maximum, select, wrap
from ingot.formula.extents import extent
from ingot.formula.index import as_expr
from ingot.formula.types import INDEX, INT32, INT64
from ingot.ops.nonzero import set_places
from ingot.ops.registry import Builder, broadcast_index, broadcast_shape, op
from ingot.ops.text.casing import changed, other_case
from ingot.ops.text.regex.characters import byte_ranges
from ingot.ops.text.rows import ZERO, fitting, full_match, lengths


def byte_axis(capacity: int) -> Var:
    return Var("k", capacity)


@op("StringConcat", since=20)
def string_concat(f: Builder, x: Tensor, y: Tensor) -> Tensor:
    """The bytes of x, then those of y; broadcast as numpy does (StringConcat-20)."""
    f.same_type((x, y), "s")
    a, b = f.bytes_of(x), f.bytes_of(y)
    first, second = lengths(f, a), lengths(f, b)
    axes, capacity = f.axes(broadcast_shape(f, x.shape, y.shape)), x.type.bytes
    i, j, k = broadcast_index(x, axes), broadcast_index(y, axes), byte_axis(capacity)
    total = f.map(axes, fitting(first[i] + second[j], capacity), name="total")
    behind = b.at((*j, k - cast(first[i], INDEX)), outside=0)
    rest = select(cast(k, INT32) < total[axes], behind, ZERO)
    joined = select(cast(k, INT32) < first[i], a.at((*i, k)), rest)
    return f.text_of(f.map((*axes, k), joined, name="joined"))


@op("RegexFullMatch", since=20)
def regex_full_match(f: Builder, x: Tensor, *, pattern: str) -> Tensor:
    """Whether the whole string matches a pattern of RE2 (RegexFullMatch-20)."""
    f.same_type((x,), "s")
    return full_match(f, f.bytes_of(x), pattern)


@op("StringNormalizer", since=10)
def string_normalizer(
    f: Builder,
    x: Tensor,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "",
    stopwords: tuple[str, ...] = (),
) -> Tensor:
    """Without the stopwords, then in another case; one empty string if nothing is left (StringNormalizer-10).

    Cases are those of Unicode, whatever the locale.
    """
    f.same_type((x,), "s")
    f.require(x.rank == 1 or (x.rank == 2 and x.shape[0] == 1), "a shape [C] or [1, C] is needed")
    f.require(case_change_action in ("LOWER", "UPPER", "NONE"), f"case {case_change_action!r} is unknown")
    if x.shape[-1] == 0:
        return f.constant(np.zeros((1,) * x.rank, x.type.numpy), "nothing")
    result = x if case_change_action == "NONE" else _in_case(f, x, case_change_action)
    if not stopwords:
        return result if result is not x else f.call("Identity", x)
    compared, words = x, set(stopwords)
    if not is_case_sensitive:
        case = "UPPER" if case_change_action == "UPPER" else "LOWER"
        compared = result if result is not x else _in_case(f, x, case)
        words = {other_case(w, case) for w in words}
    return _without(f, result, compared, sorted(w for w in words if len(w.encode()) < x.type.bytes))


def _in_case(f: Builder, x: Tensor, case: str) -> Tensor:
    rows = f.bytes_of(x)
    return f.text_of(changed(f, rows, lengths(f, rows), case))


def _without(f: Builder, x: Tensor, compared: Tensor, words: list[str]) -> Tensor:
    """The strings of `x` whose partner in `compared` is none of the words."""
    lead = (Const(0),) * (x.rank - 1)
    stops = f.texts(words)
    i, s = f.axes((x.shape[-1], len(words)), "i s")
    hit = f.reduce("or", (i,), (s,), equal(compared.at((*lead, i)), stops[s]), init=False, name="is_stop")
    places, found = set_places(f, f.map((i,), call("not", hit[i]), name="is_kept"))
    count = f.map((), maximum(found[()], 1), name="count")
    n = f.measured(count, extent(maximum(as_expr(x.shape[-1]), 1)), axis=x.rank - 1)
    axes = f.axes((*x.shape[:-1], n))
    place = cast(places.at((axes[-1],), outside=0), INDEX)
    kept = select(equal(found[()], 0), wrap(b"", x.type), x.at((*lead, place), outside=b""))
    return f.map(axes, kept, x.type)


WHITE = (
    *((9, 13), (28, 32), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
    *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
)
"""Space, as Python has it."""


@op("StringSplit", since=20)
def string_split(
    f: Builder, x: Tensor, *, delimiter: str = "", maxsplit: int | None = None
) -> tuple[Tensor, Tensor]:
    """The parts of strings, filled up with empty ones, and how many there are (StringSplit-20).

    Between delimiters, or between runs of space, as Python's `split` does it.
    """
    f.same_type((x,), "s")
    most = None if maxsplit is None or maxsplit < 0 else maxsplit
    rows, mark = f.bytes_of(x), delimiter.encode()
    length = lengths(f, rows)
    cut = _between_marks(f, rows, length, mark, most) if mark else _between_space(f, rows, length, most)
    part, counts = cut
    axes, capacity = f.axes(x.shape), x.type.bytes
    z = f.map(axes, cast(counts[axes], INT64), name="z")
    largest = f.reduce("max", (), axes, z[axes], init=0, name="most")
    limit = capacity // len(mark) + 1 if mark else (capacity + 1) // 2
    n = f.measured(largest, limit if most is None else min(limit, most + 1), axis=x.rank)
    return f.text_of(_parts(f, rows, part, n)), z


def _parts(f: Builder, rows: Tensor, part: Tensor, n: Extent) -> Tensor:
    """[..., n, capacity]: part p has the bytes to which `part` gives the number p, one behind the other."""
    (*axes, k), p = f.axes(rows.shape), Var("p", n)
    number, here = cast(as_expr(p), INT32), (*axes, p)
    belongs = equal(part.at((*axes, k)), number)
    far = cast(as_expr(rows.shape[-1]), INT32)
    first = f.reduce("min", here, (k,), select(belongs, cast(k, INT32), far), init=far, name="first")
    one, none = Const(1, INT32), Const(0, INT32)
    size = f.reduce("sum", here, (k,), select(belongs, one, none), name="size")
    byte = rows.at((*axes, k + cast(first[here], INDEX)), outside=0)
    return f.map((*here, k), select(cast(k, INT32) < size[here], byte, ZERO), name="parts")


def _between_marks(
    f: Builder, rows: Tensor, length: Tensor, mark: bytes, most: int | None
) -> tuple[Tensor, Tensor]:
    """To which part each byte belongs (-1: to none), and how many there are; the marks from the left."""
    (*axes, k), point = f.axes(rows.shape), f.axes(rows.shape[:-1])
    word = f.constant(np.frombuffer(mark, np.uint8), "delimiter")
    (j,) = f.axes(word.shape, "j")
    same = equal(rows.at((*axes, k + j), outside=0), word[j])
    hit = f.reduce("and", (*axes, k), (j,), same, init=True, name="hit")
    zero, one = Const(0, INT32), Const(1, INT32)
    part = f.map((*axes, k), Const(-1, INT32), name="part")
    counts, left = f.map(point, one, name="counts"), f.map(point, zero, name="left")

    def body() -> None:
        here = cast(k, INT32) < length[point]
        cut = hit.at((*point, k)) & here & equal(left[point], 0)
        if most is not None:
            cut = cut & (counts[point] <= most)
        is_cut = f.map(point, select(cut, one, zero), name="is_cut")
        inside = here & equal(left[point], 0) & equal(is_cut[point], 0)
        f.put(part, point, (*point, k), select(inside, counts[point] - 1, -1))
        fewer = maximum(left[point] - 1, 0)
        f.put(left, point, point, select(equal(is_cut[point], 1), Const(len(mark) - 1, INT32), fewer))
        f.put(counts, point, point, counts[point] + is_cut[point])

    f.scan(k, (part, counts, left), body)
    return part, counts


def _between_space(f: Builder, rows: Tensor, length: Tensor, most: int | None) -> tuple[Tensor, Tensor]:
    """The same between runs of space; space at the ends is dropped, that of the last part is kept."""
    (*axes, k), point = f.axes(rows.shape), f.axes(rows.shape[:-1])
    white = _white(f, rows)
    zero, one = Const(0, INT32), Const(1, INT32)
    part = f.map((*axes, k), Const(-1, INT32), name="part")
    counts, inside = f.map(point, zero, name="counts"), f.map(point, zero, name="inside")

    def body() -> None:
        active: Expr = call("not", white.at((*point, k)))
        if most is not None:  # the last part goes on to the end
            active = active | (equal(inside[point], 1) & (counts[point] > most))
        active = active & (cast(k, INT32) < length[point])
        begins = active & equal(inside[point], 0)
        f.put(counts, point, point, counts[point] + select(begins, one, zero))
        f.put(inside, point, point, select(active, one, zero))
        f.put(part, point, (*point, k), select(equal(inside[point], 1), counts[point] - 1, -1))

    f.scan(k, (part, counts, inside), body)
    return part, counts


def _within(byte: Expr, lo: int, hi: int) -> Expr:
    return equal(byte, lo) if lo == hi else (byte >= lo) & (byte <= hi)


def _white(f: Builder, rows: Tensor) -> Tensor:
    """Whether a byte belongs to a space."""
    (*axes, k) = f.axes(rows.shape)

    def at(offset: int) -> Expr:
        return rows.at((*axes, k + offset), outside=0)

    size: Expr = Const(0, INT32)
    for lo, hi in WHITE:
        for sequence in byte_ranges(lo, hi):
            hit = _within(at(0), *sequence[0])
            for d, pair in enumerate(sequence[1:], 1):
                hit = hit & _within(at(d), *pair)
            size = select(hit, Const(len(sequence), INT32), size)
    begun = f.map((*axes, k), size, name="space")
    covered = begun.at((*axes, k)) > 0
    for back in (1, 2):
        covered = covered | (begun.at((*axes, k - back), outside=0) > back)
    return f.map((*axes, k), covered, name="white")
