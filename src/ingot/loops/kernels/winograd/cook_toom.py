"""Cook-Toom algorithms: m outputs of a window of r taps by m + r - 1 multiplications (Winograd's F(m, r)).

    y = A [(G g) * (B d)]        d: m + r - 1 inputs, g: r taps, y: m outputs

A window that moves by a stride s is s windows that move by one, each over every s-th input with every s-th
tap, whose outputs are added: s (m - 1) + r inputs and as many multiplications.

In: m, r and s. Out: the three matrices as fractions, and the transforms by A and B as straight lines of sums
that share what points of opposite sign have in common. Read by the Winograd generator, which prints the
lines, and by the choice of m, which evaluates them to bound the error.

The points decide the error: of four finite points besides 0, {+-3/4, +-3/2} loses about a quarter of what
the textbook's {+-1, +-2} loses (measured; B. Barabasz et al., "Error analysis and improving the accuracy of
Winograd convolution for deep neural networks", ACM TOMS 2020, says why such choices help).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from ingot.formula.expr import Array

Matrix = tuple[tuple[Fraction, ...], ...]
Terms = tuple[tuple[Fraction, str], ...]

POINTS: dict[int, tuple[float, ...]] = {  # by their number; infinity is always one more
    2: (0, 1),
    3: (0, 1, -1),
    4: (0, 1.5, -1.5, -0.5),
    5: (0, 0.75, -0.75, 1.5, -1.5),
    6: (0, 1, -1, 2, -2, 0.25),
    7: (0, 0.5, -0.5, 1, -1, 1.5, -1.5),
}


@dataclass(frozen=True, slots=True)
class Line:
    """name = the sum of coefficient * what an earlier line or an input is called."""

    name: str
    terms: Terms


@dataclass(frozen=True, slots=True)
class Algorithm:
    """F(m, r): `a` is m x n, `g` n x r, `b` n x n for n points; `pairs` are of opposite sign."""

    m: int
    r: int
    stride: int
    a: Matrix
    g: Matrix
    b: Matrix
    pairs: tuple[tuple[int, int], ...]

    @property
    def points(self) -> int:
        return points(self.m, self.r, self.stride)

    def inputs(self) -> tuple[Line, ...]:
        """B d: from `x0`, `x1`, ... to `y0`, `y1`, ...: E + O and E - O for points of opposite sign."""
        return tuple(self._inputs())

    def _inputs(self) -> Iterator[Line]:
        for p, q in self.pairs:
            even = tuple((u + v) / 2 for u, v in zip(self.b[p], self.b[q], strict=True))
            odd = tuple((u - v) / 2 for u, v in zip(self.b[p], self.b[q], strict=True))
            yield Line(f"e{p}", _terms(even))
            yield Line(f"o{p}", _terms(odd))
            yield Line(f"y{p}", ((Fraction(1), f"e{p}"), (Fraction(1), f"o{p}")))
            yield Line(f"y{q}", ((Fraction(1), f"e{p}"), (Fraction(-1), f"o{p}")))
        paired = {i for pair in self.pairs for i in pair}
        for i in range(self.points):
            if i not in paired:
                yield Line(f"y{i}", _terms(self.b[i]))

    def outputs(self) -> tuple[Line, ...]:
        """A z: from `x0`, `x1`, ... to `y0`, ...: sums and differences of points of opposite sign first."""
        return tuple(self._outputs())

    def _outputs(self) -> Iterator[Line]:
        for p, q in self.pairs:
            yield Line(f"s{p}", ((Fraction(1), f"x{p}"), (Fraction(1), f"x{q}")))
            yield Line(f"d{p}", ((Fraction(1), f"x{p}"), (Fraction(-1), f"x{q}")))
        partner = {q for _, q in self.pairs}
        first = {p for p, _ in self.pairs}
        for i, row in enumerate(self.a):
            shared = "s" if i % 2 == 0 else "d"
            names = {j: f"{shared if j in first else 'x'}{j}" for j in range(self.points)}
            yield Line(f"y{i}", tuple((c, names[j]) for j, c in enumerate(row) if c and j not in partner))

    def weights(self, taps: Array, dims: int) -> Array:
        """G g along the last `dims` axes, in double precision: the points come last."""
        g = np.array([[float(v) for v in row] for row in self.g])
        every = np.ones((1, 1))
        for _ in range(dims):
            every = np.kron(every, g)
        shape = taps.shape[: taps.ndim - dims]
        points = taps.reshape(-1, self.r**dims).astype(np.float64) @ every.T
        out: Array = points.reshape(*shape, *[self.points] * dims)
        return out


def points(m: int, r: int, stride: int) -> int:
    """The multiplications of m outputs along one axis, and the inputs that they read."""
    return (m - 1) * stride + r


@cache
def cook_toom(m: int, r: int, stride: int = 1) -> Algorithm:
    """F(m, r) over `POINTS` and infinity; of a stride, side by side for every phase of the taps."""
    phases = [_of_stride_one(m, len(range(p, r, stride))) for p in range(stride)]
    n = points(m, r, stride)
    a: list[list[Fraction]] = [[] for _ in range(m)]
    b: list[tuple[Fraction, ...]] = []
    g: list[tuple[Fraction, ...]] = []
    pairs: list[tuple[int, int]] = []
    for p, phase in enumerate(phases):
        first = len(b)
        pairs += [(first + i, first + j) for i, j in phase.pairs]
        for i, row in enumerate(phase.a):
            a[i] += row
        b += [_every(row, p, stride, n) for row in phase.b]
        g += [_every(row, p, stride, r) for row in phase.g]
    return Algorithm(m, r, stride, tuple(map(tuple, a)), tuple(g), tuple(b), tuple(pairs))


def _every(row: tuple[Fraction, ...], first: int, stride: int, n: int) -> tuple[Fraction, ...]:
    """The row's elements at every stride-th place of n, zeros between."""
    out = [Fraction(0)] * n
    out[first::stride] = row
    return tuple(out)


def _of_stride_one(m: int, r: int) -> Algorithm:
    if r == 1:
        unit = tuple(tuple(Fraction(int(i == j)) for j in range(m)) for i in range(m))
        return Algorithm(m, r, 1, unit, ((Fraction(1),),) * m, unit, ())
    finite = [Fraction(p) for p in POINTS[m + r - 2]]
    count = len(finite)
    b, g = [], []
    for j, p in enumerate(finite):
        others = [q for i, q in enumerate(finite) if i != j]
        scale = Fraction(1)
        for q in others:
            scale *= p - q
        g.append(tuple(p**k / scale for k in range(r)))
        b.append((*_polynomial(others), Fraction(0)))
    g.append(tuple(Fraction(int(k == r - 1)) for k in range(r)))
    b.append(tuple(_polynomial(finite)))
    a = tuple((*(p**i for p in finite), Fraction(int(i == m - 1))) for i in range(m))
    pairs = tuple((i, j) for i in range(count) for j in range(i + 1, count) if finite[i] == -finite[j] != 0)
    return Algorithm(m, r, 1, a, tuple(g), tuple(b), pairs)


def _polynomial(roots: list[Fraction]) -> list[Fraction]:
    """The coefficients of the product of (x - root), constant first."""
    out = [Fraction(1)]
    for root in roots:
        out = [low - root * high for low, high in zip([Fraction(0), *out], [*out, Fraction(0)], strict=True)]
    return out


def _terms(row: tuple[Fraction, ...]) -> Terms:
    return tuple((c, f"x{j}") for j, c in enumerate(row) if c)


def follow(lines: tuple[Line, ...], inputs: list[Array]) -> list[Array]:
    """The lines on arrays of single precision, in the order the C code adds."""
    known = {f"x{i}": x for i, x in enumerate(inputs)}
    for line in lines:
        total = None
        for c, name in in_order(line.terms):
            term = known[name] * np.float32(c)
            total = term if total is None else total + term
        assert total is not None
        known[line.name] = total
    return [known[f"y{i}"] for i in range(sum(1 for x in lines if x.name.startswith("y")))]


def in_order(terms: Terms) -> Terms:
    """A coefficient of 1 first, for it needs no multiplication; then -1, then the others."""
    return tuple(sorted(terms, key=lambda t: (t[0] != 1, abs(t[0]) != 1)))
