"""The selection builder: the k largest or smallest elements of rows (TopK), in one pass instead of k.

    row      0.3  2.1  -1.0  0.9  2.1  ...        ->        2.1 at 1, 2.1 at 4, 0.9 at 3

In: the stages of TopK's definition (`ops/order.py`), told by their signature. Out: loops that keep the k best
elements so far and their places in registers, in order; an element that comes later stands behind its equals.

* Along rows that lie contiguous the list is a vector. A vector of the row is compared with a threshold at
  once, and only what reaches it is looked at. Where the list fits one register, the threshold is the k-th
  largest of as many lane maxima as a vector has lanes, for k of the row's elements are as large; what reaches
  it is noted first and sorted in afterwards. Else it is the last of the list as it grows.
* Where the rows lie beside each other (TopK along channels) every lane has a list of its own.

Elements are compared by keys, integers in the order of ONNX: NaN is greater than every number, 0 equals -0.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from ingot.formula.compute import Stage
from ingot.formula.expr import (
    Binary,
    Bitcast,
    Const,
    Expr,
    Lane,
    Load,
    Shuffle,
    Tensor,
    Unary,
    Var,
    cast,
    maximum,
    minimum,
    select,
    static,
    substitute,
    with_lanes,
)
from ingot.formula.index import Bounds, coefficient, simplify
from ingot.formula.statements import Assign, For, Let, Statement, Store, When
from ingot.formula.types import FLOAT32, INDEX, INT32, INT64
from ingot.loops.access import step
from ingot.loops.cuts import in_vectors
from ingot.loops.kernels.naive import nested
from ingot.loops.kernels.rows.selection_match import Selection, match
from ingot.loops.layout import Storage
from ingot.targets.record import Target

LISTS = 8  # vectors of keys that a list may fill, and as many of places
DEEPEST = 16  # elements of a list that every lane has for itself
CHAINS = 4  # vectors of lane maxima under way at once
FEWEST_LANES, SHORT = 8, 16  # of a vector, and the vectors of a row that is better cut into narrower ones
FEW_ROUNDS = 3  # elements, of which one after the other is found sooner than the rank of every lane
FEW = 8  # vectors of a row of which most hold an element that reaches the threshold
NAN = 0x7FFFFFFF  # the key of NaN among the largest
MAGNITUDE = Const(0x7FFFFFFF, INT32)
LOWEST = Const(-(1 << 31), INT32)  # below every element's key
INFINITY = Const(float("inf"), FLOAT32)


def selection(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds
) -> tuple[tuple[Statement, ...], int] | None:
    """Statements for the stages of a TopK of float32, and how many they are; None if it is none."""
    if target.vector_bytes == 0 or len(stages) < 3:
        return None
    found = match(stages[:3], storage, bounds)
    lanes = target.lanes(4)
    if found is None:
        return None
    if coefficient(found.x.index[found.x.tensor.lane_axis], found.i.name) == 1:
        fits = found.k <= LISTS * lanes
        return (tuple(_Rows(found, storage, _lanes_of_rows(found, lanes)).statements()), 3) if fits else None
    p = _beside(found) if found.k <= DEEPEST else None
    return None if p is None else (tuple(_Beside(found, storage, lanes).statements(p)), 3)


def _beside(s: Selection) -> Var | None:
    """The axis along which neighbouring lists lie."""
    along = [a for a in s.rest if step(s.x, a.name) == step(s.values, a.name) == 1]
    p = max(along, key=lambda a: static(a.extent), default=None)
    return p if p is None or coefficient(s.x.index[s.x.tensor.lane_axis], p.name) == 1 else None


# -- what both forms write


@dataclass(slots=True)
class _Writer:
    """The parts of a selection's loops. Registers: v keys of the list, w places of theirs."""

    s: Selection
    storage: Storage
    most: int  # lanes of a vector
    names: int = field(default=0, init=False)

    def let(self, name: str, value: Expr, lanes: int, out: list[Statement]) -> Var:
        self.names += 1
        out.append(Let(f"{name}{self.names}", value, lanes))
        return Var(f"{name}{self.names}", None, value.dtype)

    def element(self, at: dict[str, Expr], lanes: int = 1) -> Expr:
        """The element, or its negative: the least are the largest of those."""
        x = simplify(substitute(self.s.x, at), self.s.bounds)
        x = with_lanes(x, lanes) if lanes > 1 else x
        return x if self.s.largest else Unary("neg", x)

    def key(self, y: Expr, lanes: int, out: list[Statement]) -> Var:
        """An integer that orders elements as the definition does."""
        y = self.let("y", y, lanes, out)
        bits = self.let("b", Bitcast(y + 0.0, INT32), lanes, out)
        nan = Const(NAN if self.s.largest else 1 - NAN, INT32)
        ordered = bits ^ ((bits >> 31) & MAGNITUDE)
        return self.let("key", select(Binary("ne", y, y), nan, ordered), lanes, out)

    def results(self, at: dict[str, Expr], place: Expr, out: list[Statement]) -> None:
        """Store an element that `place` points to, and the place."""
        index = Var("place", None, INDEX)
        out.append(Let("place", maximum(minimum(cast(place, INDEX), self.s.n - 1), 0)))
        x = substitute(self.s.x, {**at, self.s.i.name: index})
        values, places = (substitute(to, at) for to in (self.s.values, self.s.places))
        out += [Store(values, x), Store(places, cast(index, INT64))]

    def scratch(self, what: str, *shape: int) -> Tensor:
        return self.storage.scratch(self.s.x.tensor, shape, what, INT32)


def _for(axis: Var, lo: int, hi: int, by: int, body: list[Statement]) -> Iterator[For]:
    if lo < hi:
        yield For(axis.name, Const(lo), Const(hi), by, tuple(body))


def _reaches(y: Expr, threshold: Expr) -> Expr:
    """Whether an element has to be looked at: NaN always, and every one while there is no threshold."""
    return Unary("not", y < threshold)


# -- rows that lie contiguous


def _lanes_of_rows(s: Selection, lanes: int) -> int:
    """Vectors so wide that a row has several, most of which then have nothing that reaches the threshold."""
    while lanes > FEWEST_LANES and s.n < SHORT * lanes and 2 * s.k <= lanes:
        lanes //= 2
    return lanes


class _Rows(_Writer):
    """One list a row, in vectors."""

    def statements(self) -> Iterator[Statement]:
        s, lanes = self.s, self.most
        full = s.n // lanes * lanes
        body = list(self.noted(full) if s.k <= lanes and full >= 2 * lanes else self.running(full))
        places = self.scratch("order", self.lists * lanes)
        for r in range(self.lists):
            body.append(Store(Load(places, (Const(r * lanes),)), Var(f"w{r}", None, INT32), lanes))
        out: list[Statement] = []
        self.results({}, places.at(s.step), out)
        body += _for(s.step, 0, s.k, 1, out)
        yield from nested(s.rest, body)

    @property
    def lists(self) -> int:
        return -(-self.s.k // self.most)

    def empty(self) -> Iterator[Statement]:
        for r in range(self.lists):
            yield Let(f"v{r}", LOWEST, self.most, True)
            yield Let(f"w{r}", Const(0, INT32), self.most, True)

    def insert(self, at: Expr) -> Iterator[Statement]:
        """Sort one element in: what is less moves one place on, the last falls out."""
        lanes, out = self.most, list[Statement]()
        key = self.key(self.element({self.s.i.name: at}), 1, out)
        place = self.let("at", cast(at, INT32), 1, out)
        top = Const(NAN, INT32)  # nothing is greater
        before = [self.let("top", top, lanes, out), *(Var(f"v{r}", None, INT32) for r in range(self.lists))]
        first = [Var("w0", None, INT32), *(Var(f"w{r}", None, INT32) for r in range(self.lists))]
        along = tuple(range(lanes - 1, 2 * lanes - 1))
        for r, ((keys_before, keys), (places_before, places)) in reversed(
            list(enumerate(zip(pairwise(before), pairwise(first), strict=True)))
        ):
            moved = self.let("moved", Shuffle(keys_before, keys, along), lanes, out)
            moved_places = self.let("moved", Shuffle(places_before, places, along), lanes, out)
            out.append(
                Assign(f"w{r}", select(key > moved, moved_places, select(key > keys, place, places)), lanes)
            )
            out.append(Assign(f"v{r}", select(key > moved, moved, select(key > keys, key, keys)), lanes))
        yield from out

    def running(self, full: int) -> Iterator[Statement]:
        """The threshold is the last of the list; none as long as that is empty."""
        i, lanes, last = self.s.i, self.most, self.s.k - 1
        q, threshold = Var("q", lanes), Var("least", None, FLOAT32)
        yield from self.empty()
        yield Let(threshold.name, Const(float("nan"), FLOAT32), 1, True)

        def one(at: Expr) -> list[Statement]:
            body = [*self.insert(at)]
            bits = self.let("last", Lane(Var(f"v{last // lanes}", None, INT32), last % lanes), 1, body)
            body.append(Assign(threshold.name, Bitcast(bits ^ ((bits >> 31) & MAGNITUDE), FLOAT32)))
            return [When(_reaches(self.element({i.name: at}), threshold), tuple(body))]

        some = Unary("any", _reaches(self.element({}, lanes), threshold))
        yield from _for(i, 0, full, lanes, [When(some, tuple(_for(q, 0, lanes, 1, one(i + q))))])
        yield from _for(i, full, self.s.n, 1, one(i))

    def noted(self, full: int) -> Iterator[Statement]:
        """The threshold is known first; what reaches it is noted, then sorted."""
        i, lanes, n = self.s.i, self.most, self.s.n
        places, q, count = self.scratch("noted", n), Var("q", lanes), Var("count", None, INT32)
        threshold = yield from self.kth_maximum(full)
        yield Let(count.name, Const(0, INT32), 1, True)
        free = maximum(minimum(cast(count, INDEX), n - 1), 0)

        def note(at: Expr) -> list[Statement]:
            is_noted = _reaches(self.element({i.name: at}), threshold)
            more = Assign(count.name, count + select(is_noted, Const(1, INT32), Const(0, INT32)))
            return [Store(Load(places, (free,)), cast(at, INT32)), more]

        if full > FEW * lanes or self.s.k <= FEW_ROUNDS:
            some = Unary("any", _reaches(self.element({}, lanes), threshold))
            yield from _for(i, 0, full, lanes, [When(some, tuple(_for(q, 0, lanes, 1, note(i + q))))])
            yield from _for(i, full, n, 1, note(i))
        else:
            yield from _for(i, 0, n, 1, note(i))
        yield from self.empty()
        c, at = Var("c", n), Var("candidate", None, INDEX)
        one: list[Statement] = [Let(at.name, maximum(minimum(cast(places.at(c), INDEX), n - 1), 0))]
        yield For(c.name, Const(0), minimum(cast(count, INDEX), n), 1, (*one, *self.insert(at)))

    def kth_maximum(self, full: int) -> Generator[Statement, None, Expr]:
        """The k-th largest of the lanes' maxima, NaNs overlooked."""
        i, lanes, out = self.s.i, self.most, list[Statement]()
        chains = min(CHAINS, full // lanes)
        best = [Var(f"best{c}", None, FLOAT32) for c in range(chains)]
        wide = full // (chains * lanes) * chains * lanes

        def better(c: int, at: Expr) -> Assign:
            y = self.element({i.name: at}, lanes)
            return Assign(best[c].name, select(y > best[c], y, best[c]), lanes)

        out += [Let(b.name, Const(float("-inf"), FLOAT32), lanes, True) for b in best]
        out += _for(i, 0, wide, chains * lanes, [better(c, i + c * lanes) for c in range(chains)])
        out += [better(c, Const(wide + c * lanes)) for c in range((full - wide) // lanes)]
        while len(best) > 1:
            a, b = best.pop(0), best.pop(0)
            best.append(self.let("best_of", select(a > b, a, b), lanes, out))
        (b,) = best
        yield from out
        if self.s.k <= FEW_ROUNDS:
            return (yield from self.in_rounds(b))
        return (yield from self.by_rank(b))

    def in_rounds(self, b: Var) -> Generator[Statement, None, Expr]:
        """The largest lane, then without it and its equals the next: none is greater than the k-th."""
        out = list[Statement]()
        largest = self.across(b, "largest", out)
        for _ in range(1, self.s.k):
            b = self.let("rest", select(b < largest, b, Const(float("-inf"), FLOAT32)), self.most, out)
            largest = self.across(b, "largest", out)
        yield from out
        return largest

    def across(self, x: Expr, name: str, out: list[Statement]) -> Expr:
        """The largest lane, or the smallest, by halves."""
        lanes = self.most
        while lanes > 1:
            lanes //= 2
            low, high = Lane(x, 0, lanes), Lane(x, lanes, lanes)
            is_low = low > high if name == "largest" else low < high
            x = self.let(name, select(is_low, low, high), lanes, out)
        return x

    def by_rank(self, b: Var) -> Generator[Statement, None, Expr]:
        """The smallest of the lanes of which fewer than k are greater."""
        lanes, out = self.most, list[Statement]()
        one, none = Const(1, INT32), Const(0, INT32)
        rank = self.let("rank", none, lanes, out)
        for r in range(1, lanes):
            turned = self.let(
                "turned", Shuffle(b, b, tuple((r + j) % lanes for j in range(lanes))), lanes, out
            )
            rank = self.let("rank", rank + select(turned > b, one, none), lanes, out)
        least = self.across(self.let("least", select(rank < self.s.k, b, INFINITY), lanes, out), "least", out)
        yield from out
        return least


# -- rows that lie beside each other


class _Beside(_Writer):
    """A list for every lane: element j of all lanes' lists is a register."""

    def statements(self, p: Var) -> Iterator[Statement]:
        body: list[Statement] = []
        for lo, hi, lanes in in_vectors(static(p.extent), self.most):
            body += _for(p, lo, hi, lanes, list(self.lists(p, lanes)))
        yield from nested([a for a in self.s.rest if a is not p], body)

    def lists(self, p: Var, lanes: int) -> Iterator[Statement]:
        """The lists of neighbouring rows, and what they hold in the end."""
        s = self.s
        for j in range(s.k):
            yield Let(f"v{j}", LOWEST, lanes, True)
            yield Let(f"w{j}", Const(0, INT32), lanes, True)
        yield from _for(s.i, 0, s.n, 1, list(self.insert(lanes)))
        places, q, out = self.scratch(f"order{lanes}", s.k, lanes), Var("q", lanes), list[Statement]()
        for j in range(s.k):
            yield Store(Load(places, (Const(j), Const(0))), Var(f"w{j}", None, INT32), lanes)
        self.results({p.name: p + q}, places.at((s.step, q)), out)
        yield from _for(s.step, 0, s.k, 1, list(_for(q, 0, lanes, 1, out)))

    def insert(self, lanes: int) -> Iterator[Statement]:
        """Sort the element of each lane in, where one at least is greater than the last of its list."""
        k, out, body = self.s.k, list[Statement](), list[Statement]()
        key = self.key(self.element({}, lanes), lanes, out)
        place = self.let("at", cast(self.s.i, INT32), 1, out)
        v, w = ([Var(f"{name}{j}", None, INT32) for j in range(k)] for name in "vw")
        for j in reversed(range(1, k)):
            stays = select(key > v[j], place, w[j])
            body.append(Assign(w[j].name, select(key > v[j - 1], w[j - 1], stays), lanes))
            body.append(Assign(v[j].name, maximum(v[j], minimum(v[j - 1], key)), lanes))
        body.append(Assign(w[0].name, select(key > v[0], place, w[0]), lanes))
        body.append(Assign(v[0].name, maximum(v[0], key), lanes))
        enters = key > v[-1]
        yield from (*out, When(enters if lanes == 1 else Unary("any", enters), tuple(body)))
