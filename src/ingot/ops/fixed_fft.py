"""Fourier transforms of integers, to the bit those of KISS FFT in fixed point: TFLite Micro's SignalRfft and
SignalIrfft.

In: real signals of int16 or int32; out: real and imaginary parts in turn, divided by the length of the
transform, or the way back. A real signal is transformed as half as many complex numbers. Every step divides
by its radix before it adds, so that sums stay in range; what leaves the range wraps around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt, pi, prod

import numpy as np

from ingot.formula.expr import Array, Const, Expr, Tensor, Var, cast
from ingot.formula.types import INT16, INT32, INT64, DType
from ingot.ops.registry import Builder, op

DOMAIN = "ai.ingot.tflite"
LENGTH_LIMIT = 1 << 16
Complex = tuple[Expr, Expr]


@dataclass(frozen=True, slots=True)
class Fixed:
    """Numbers from -1 to 1 as integers of `type`, whose products are of `wide`."""

    type: DType
    wide: DType

    @property
    def one(self) -> int:
        """The largest number, which stands for 1."""
        return int(self.type.highest)

    def rounded(self, product: Expr) -> Expr:
        bits = self.type.bits - 1
        return cast((product + (1 << (bits - 1))) >> bits, self.type)

    def product(self, a: Complex, b: Complex) -> Complex:
        (x, y), (c, s) = ([cast(e, self.wide) for e in pair] for pair in (a, b))
        return self.rounded(x * c - y * s), self.rounded(x * s + y * c)

    def times(self, x: Expr, y: Expr) -> Expr:
        return self.rounded(cast(x, self.wide) * cast(y, self.wide))

    def divided(self, x: Expr, by: int) -> Expr:
        """By a multiplication, as everything here."""
        return self.rounded(cast(x, self.wide) * Const(self.one // by, self.wide))

    def half(self, x: Expr) -> Expr:
        """x / 2, rounded down, where x is a sum in C's type for it."""
        return cast(cast(x, INT32) >> 1, self.type)

    def wrapped(self, x: Expr) -> Expr:
        return cast(x, self.type)

    def widened(self, pair: Complex) -> Complex:
        return cast(pair[0], self.wide), cast(pair[1], self.wide)

    def roots(self, angles: Array) -> Array:
        """Cosines and sines: [2, n]."""
        parts = np.stack([np.cos(angles), np.sin(angles)])
        return np.floor(0.5 + self.one * parts).astype(self.type.numpy)


def fixed_of(f: Builder, x: Tensor, n: int) -> Fixed:
    f.require(x.type in (INT16, INT32), f"{x.type}: int16 or int32 are transformed in fixed point")
    f.require(x.rank > 0, "a signal has one axis or more")
    f.require(4 <= n <= LENGTH_LIMIT and n % 2 == 0, f"a transform of {n}: an even length from 4 is needed")
    f.require(max(radices(n // 2)) <= 5, f"a transform of {n}: its half may have the factors 2, 3 and 5")
    return Fixed(x.type, INT32 if x.type is INT16 else INT64)


@op("Rfft", domain=DOMAIN)
def rfft(f: Builder, x: Tensor, *, fft_length: int) -> Tensor:
    """The spectrum of real signals, [..., fft_length + 2], by fft_length. Zeros follow a short one."""
    how, n = fixed_of(f, x, fft_length), fft_length // 2
    (length,) = f.fixed(x.shape[-1:], "the length of the signal")
    f.require(length <= fft_length, f"{length} elements are more than a transform of {fft_length} takes")
    lead = f.axes(x.shape[:-1])
    z = transform(f, how, lead, n, lambda j, p: x.at((*lead, j * 2 + p), outside=0), inverse=False)
    ends = [how.divided(z.at((*lead, p, 0)), 2) for p in (0, 1)]
    sums, turned = _mirrored(f, how, lead, n, lambda k, p: z.at((*lead, p, k)), inverse=False)
    y = f.empty(x.type, (*x.shape[:-1], 2 * n + 2))
    zero = Const(0, x.type)
    real, imaginary = (cast(e, how.wide) for e in ends)
    for k, value in ((0, real + imaginary), (n, real - imaginary)):
        f.put(y, lead, (*lead, 2 * k), how.wrapped(value))
        f.put(y, lead, (*lead, 2 * k + 1), zero)
    low, high = Var("k", (n - 1) // 2), Var("k", n // 2)
    a, b = (_pair(how, t, lead, low) for t in (sums, turned))
    for p in (0, 1):
        f.put(y, (*lead, low), (*lead, low * 2 + (2 + p)), how.half(a[p] + b[p]))
    a, b = (_pair(how, t, lead, high) for t in (sums, turned))
    for p, value in enumerate((a[0] - b[0], b[1] - a[1])):
        f.put(y, (*lead, high), (*lead, high * -2 + (2 * n - 2 + p)), how.half(value))
    return y


@op("Irfft", domain=DOMAIN)
def irfft(f: Builder, x: Tensor, *, fft_length: int) -> Tensor:
    """The real signals [..., fft_length] of spectra."""
    how, n = fixed_of(f, x, fft_length), fft_length // 2
    f.require(x.shape[-1] == 2 * n + 2, f"a spectrum of {2 * n + 2} elements is needed, not {x.shape[-1]}")
    lead = f.axes(x.shape[:-1])
    z = f.empty(x.type, (*x.shape[:-1], 2, n), "z")
    first, last = (cast(x.at((*lead, 2 * k)), how.wide) for k in (0, n))
    for p, value in enumerate((first + last, first - last)):
        f.put(z, lead, (*lead, p, 0), how.divided(how.wrapped(value), 2))
    sums, turned = _mirrored(f, how, lead, n, lambda k, p: x.at((*lead, k * 2 + p)), inverse=True)
    low, high = Var("k", (n - 1) // 2), Var("k", n // 2)
    a, b = (_pair(how, t, lead, low) for t in (sums, turned))
    for p in (0, 1):
        f.put(z, (*lead, low), (*lead, p, low + 1), how.wrapped(a[p] + b[p]))
    a, b = (_pair(how, t, lead, high) for t in (sums, turned))
    for p, value in enumerate((a[0] - b[0], b[1] - a[1])):
        f.put(z, (*lead, high), (*lead, p, high * -1 + (n - 1)), how.wrapped(value))
    y = transform(f, how, lead, n, lambda j, p: z.at((*lead, p, j)), inverse=True)
    j, part = f.axes((n, 2), "j p")
    out = f.empty(x.type, (*x.shape[:-1], 2 * n))
    f.put(out, (*lead, j, part), (*lead, j * 2 + part), y.at((*lead, part, j)))
    return out


def _pair(how: Fixed, t: Tensor, lead: Sequence[Var], k: Var) -> Complex:
    return how.widened((t.at((*lead, 0, k)), t.at((*lead, 1, k))))


def _mirrored(
    f: Builder,
    how: Fixed,
    lead: Sequence[Var],
    n: int,
    read: Callable[[Expr, Expr | int], Expr],
    *,
    inverse: bool,
) -> tuple[Tensor, Tensor]:
    """Of numbers k and n - k, for k = 1 to n / 2: the sum of one and the other's conjugate, and their
    difference turned by half a step more than a quarter: [..., 2, n / 2] each.
    """
    count = n // 2
    angles = pi * ((np.arange(count) + 1) / n + 0.5) * (1 if inverse else -1)
    roots = f.constant(how.roots(angles), "turns")
    shape = (*(v.extent or 0 for v in lead), 2, count)
    sums, parts = f.empty(how.type, shape, "sums"), f.empty(how.type, shape, "differences")
    k = Var("k", count)
    for p in (0, 1):
        one = cast(how.divided(read(k + 1, p), 2), how.wide)
        mirrored = read(k * -1 + (n - 1), p)
        conjugate = how.wrapped(Const(0, how.wide) - cast(mirrored, how.wide)) if p else mirrored
        other = cast(how.divided(conjugate, 2), how.wide)
        f.put(sums, (*lead, k), (*lead, p, k), how.wrapped(one + other))
        f.put(parts, (*lead, k), (*lead, p, k), how.wrapped(one - other))
    turned = f.empty(how.type, shape, "turned")
    difference = (parts.at((*lead, 0, k)), parts.at((*lead, 1, k)))
    both = how.product(difference, (roots.at((0, k)), roots.at((1, k))))
    for p in (0, 1):
        f.put(turned, (*lead, k), (*lead, p, k), both[p])
    return sums, turned


# -- the transform of complex numbers: decimation in time


def radices(n: int) -> list[int]:
    """The factors of n in KISS FFT's order: fours, twos, then odd ones.

    >>> radices(480)
    [4, 4, 2, 3, 5]
    """
    p, root, found = 4, isqrt(n), list[int]()
    while True:
        while n % p:
            p = {4: 2, 2: 3}.get(p, p + 2)
            p = n if p > root else p
        n //= p
        found.append(p)
        if n <= 1:
            return found


def transform(
    f: Builder,
    how: Fixed,
    lead: Sequence[Var],
    n: int,
    read: Callable[[Expr, Expr], Expr],
    *,
    inverse: bool,
) -> Tensor:
    """[..., 2, n] of n complex numbers; `read` gives a part of one."""
    factors = radices(n)
    shape = (*(v.extent or 0 for v in lead), 2, n)
    z, other = f.empty(how.type, shape, "z"), f.empty(how.type, shape, "other")
    digits, part = f.axes(tuple(factors), " ".join(f"d{i}" for i in range(len(factors)))), Var("p", 2)
    place: Expr = Const(0)
    source: Expr = Const(0)
    below = n
    for i, (digit, p) in enumerate(zip(digits, factors, strict=True)):
        below //= p
        place, source = place + digit * below, source + digit * prod(factors[:i])
    f.put(z, (*lead, part, *digits), (*lead, part, place), read(source, part))
    roots = f.constant(how.roots(np.arange(n) * ((2 if inverse else -2) * pi / n)), "roots")
    step = Step(f, how, lead, n, roots, inverse)
    below = 1
    for p in reversed(factors):
        step.turn(z, other, p, below)
        step.short(other, z, p, below)
        below *= p
    return z


@dataclass(frozen=True, slots=True)
class Step:
    """One factor's step: numbers g*p*m + q*m + k, for q = 0 to p - 1, become as many others."""

    f: Builder
    how: Fixed
    lead: Sequence[Var]
    n: int
    roots: Tensor
    inverse: bool

    def _read(self, z: Tensor, at: Expr) -> Complex:
        return z.at((*self.lead, 0, at)), z.at((*self.lead, 1, at))

    def _put(self, out: Tensor, axes: Sequence[Var], at: Expr, value: Complex) -> None:
        for p in (0, 1):
            self.f.put(out, (*self.lead, *axes), (*self.lead, p, at), value[p])

    def turn(self, z: Tensor, out: Tensor, p: int, m: int) -> None:
        """All by the radix, then number q by q * k steps of the circle."""
        g, q, k = self.f.axes((self.n // (p * m), p - 1, m), "g q k")
        first = g * (p * m) + k
        a, b = self._read(z, first)
        self._put(out, (g, k), first, (self.how.divided(a, p), self.how.divided(b, p)))
        at = g * (p * m) + q * m + k + m
        a, b = self._read(z, at)
        turn = (q + 1) * k * (self.n // (p * m))
        root = (self.roots.at((0, turn)), self.roots.at((1, turn)))
        self._put(
            out, (g, q, k), at, self.how.product((self.how.divided(a, p), self.how.divided(b, p)), root)
        )

    def short(self, z: Tensor, out: Tensor, p: int, m: int) -> None:
        """A transform of 2, 3, 4 or 5 numbers that are turned already."""
        g, k = self.f.axes((self.n // (p * m), m), "g k")
        taken = [self._read(z, g * (p * m) + k + q * m) for q in range(p)]
        made = {2: self._two, 3: self._three, 4: self._four, 5: self._five}[p](taken)
        for q, value in enumerate(made):
            wrapped = self.how.wrapped(value[0]), self.how.wrapped(value[1])
            self._put(out, (g, k), g * (p * m) + k + q * m, wrapped)

    def _two(self, taken: Sequence[Complex]) -> list[Complex]:
        a, b = (self.how.widened(z) for z in taken)
        return [_sum(a, b), _difference(a, b)]

    def _four(self, taken: Sequence[Complex]) -> list[Complex]:
        a, b, c, d = (self.how.widened(z) for z in taken)
        even, odd = _sum(a, c), _sum(b, d)
        kept, turned = _difference(a, c), _quarter(_difference(b, d), self.inverse)
        return [_sum(even, odd), _sum(kept, turned), _difference(even, odd), _difference(kept, turned)]

    def _three(self, taken: Sequence[Complex]) -> list[Complex]:
        """The root's sine; of its cosine, -1/2, the shift."""
        how = self.how
        a, b, c = (how.widened(z) for z in taken)
        both, apart = self._narrow(_sum(b, c)), self._narrow(_difference(b, c))
        halves = [cast(e, how.wide) >> 1 for e in both]
        sine = self.roots.at((1, self.n // 3))
        turned = how.widened((how.times(apart[0], sine), how.times(apart[1], sine)))
        kept = a[0] - halves[0], a[1] - halves[1]
        aside = Const(0, how.wide) - turned[1], turned[0]
        return [_sum(a, how.widened(both)), _sum(kept, aside), _difference(kept, aside)]

    def _five(self, taken: Sequence[Complex]) -> list[Complex]:
        """Pairs at the same distance from 0: cosines of their sums, sines of their differences."""
        how, n = self.how, self.n
        a, b, c, d, e = (how.widened(z) for z in taken)
        sums = self._narrow(_sum(b, e)), self._narrow(_sum(c, d))
        apart = self._narrow(_difference(b, e)), self._narrow(_difference(c, d))
        cosines = [self.roots.at((0, n // 5 * i)) for i in (1, 2)]
        sines = [self.roots.at((1, n // 5 * i)) for i in (1, 2)]

        def weighted(pairs: Sequence[Complex], factors: Sequence[Expr]) -> list[Complex]:
            return [
                how.widened((how.times(z[0], w), how.times(z[1], w)))
                for z, w in zip(pairs, factors, strict=True)
            ]

        (near, far), (far_sine, near_sine) = weighted(apart, sines), weighted(apart, sines[::-1])
        kept = _sum(a, _sum(*weighted(sums, cosines)))
        crossed = _sum(a, _sum(*weighted(sums, cosines[::-1])))
        aside = _quarter(_sum(near, far), True)
        across = _quarter(_difference(far_sine, near_sine), True)
        total = _sum(a, _sum(how.widened(sums[0]), how.widened(sums[1])))
        return [
            total,
            _sum(kept, aside),
            _sum(crossed, across),
            _difference(crossed, across),
            _difference(kept, aside),
        ]

    def _narrow(self, z: Complex) -> Complex:
        return self.how.wrapped(z[0]), self.how.wrapped(z[1])


def _sum(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def _difference(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _quarter(a: Complex, inverse: bool) -> Complex:
    """A quarter of the circle: times -i, or i."""
    zero = Const(0, a[0].dtype)
    return (zero - a[1], a[0]) if inverse else (a[1], zero - a[0])
