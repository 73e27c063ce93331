"""The discrete Fourier transform as stages: mixed radix, and Bluestein's algorithm for large primes.

In: a tensor [..., 2, n] of real and imaginary parts. Out: its transform, [..., 2, n]. Called by `fourier`.
Tables are computed in float64 when the bundle is made; integers in them are exact before they become angles.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import cos, pi, sin

import numpy as np

from ingot.formula.expr import Array, Expr, Tensor, Var, call, cast, maximum, minimum, static
from ingot.formula.index import as_expr
from ingot.formula.types import FLOAT64, INDEX, INT64, DType
from ingot.ops.registry import Builder

WRITTEN_OUT = 5  # odd radices up to this are sums of pairs, written out
LARGEST_RADIX = 61  # a larger prime is cheaper by Bluestein's algorithm
Complex = tuple[Expr, Expr]


def fft(f: Builder, z: Tensor, inverse: bool) -> Tensor:
    """y[..., k] = sum over t of z[..., t] * e^(-2 pi i k t / n); `inverse`: e^(+...), not divided by n.

    The steps go to and fro between `z`, which is overwritten, and one tensor more.
    """
    n = z.shape[-1]
    if not isinstance(n, int):
        return _direct(f, z, inverse)
    radices = _radices(n)
    if max(radices, default=1) > LARGEST_RADIX:
        return _bluestein(f, z, inverse)
    roots = f.constant(_roots(n, inverse, z.type), "roots")
    done, out = 1, f.empty(z.type, z.shape, "other")
    for radix in radices:
        step = _step if radix <= WRITTEN_OUT else _sums
        step(f, z, out, roots, done, radix, inverse)
        z, out = out, z
        done *= radix
    return z


def _radices(n: int) -> list[int]:
    """The factors of n: fours, then primes."""
    out = []
    for p in (4, 2, *range(3, n + 1, 2)):
        while n % p == 0:
            out.append(p)
            n //= p
        if p * p > n and p > 4:
            break
    return out + [n] * (n > 1)


def _roots(n: int, inverse: bool, dtype: DType) -> Array:
    """Cosines and sines of -2 pi j / n: [2, n]."""
    angle = np.arange(n) * ((2 if inverse else -2) * np.pi / n)
    return np.stack([np.cos(angle), np.sin(angle)]).astype(dtype.numpy)


# -- one step of Stockham's algorithm: z[k + done*s, m] from z[k, m + rest*q], decimation in frequency


def _step(f: Builder, z: Tensor, out: Tensor, roots: Tensor, done: int, radix: int, inverse: bool) -> None:
    """A short transform over q of every k and m, each of its results turned by the root s * done * m."""
    rest = static(z.shape[-1]) // (done * radix)
    *lead, _ = f.axes(z.shape[:-1])
    k, m = Var("k", done), Var("m", rest)
    taken = [_read(z, lead, k * (rest * radix) + (m + q * rest)) for q in range(radix)]
    for s, short in enumerate(_short(taken, inverse)):
        turn = m * (s * done)
        turned = product(short, (roots.at((0, turn)), roots.at((1, turn)))) if s and rest > 1 else short
        for part in (0, 1):
            f.put(out, (*lead, k, m), (*lead, part, (k + s * done) * rest + m), turned[part])


def _short(x: Sequence[Complex], inverse: bool) -> list[Complex]:
    """The transform of two, four, or an odd number of values."""
    if len(x) == 2:
        return [_sum(x[0], x[1]), _difference(x[0], x[1])]
    if len(x) == 4:
        even, odd = _sum(x[0], x[2]), _sum(x[1], x[3])
        kept, turned = _difference(x[0], x[2]), _quarter(_difference(x[1], x[3]), inverse)
        return [_sum(even, odd), _sum(kept, turned), _difference(even, odd), _difference(kept, turned)]
    return _odd(x, inverse)


def _odd(x: Sequence[Complex], inverse: bool) -> list[Complex]:
    """Values q and -q are multiplied together: by the cosines their sum, by the sines their difference."""
    n, half = len(x), len(x) // 2
    sums = [_sum(x[q], x[n - q]) for q in range(1, half + 1)]
    differences = [_difference(x[q], x[n - q]) for q in range(1, half + 1)]
    out = [reduce(_sum, sums, x[0])] * n
    for s in range(1, half + 1):
        angles = [2 * pi * (s * q % n) / n for q in range(1, half + 1)]
        even = reduce(_sum, map(_scaled, sums, map(cos, angles)), x[0])
        odd = reduce(_sum, map(_scaled, differences, map(sin, angles)))
        out[s], out[n - s] = _sum(even, _quarter(odd, inverse)), _difference(even, _quarter(odd, inverse))
    return out


def _sum(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def _difference(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _scaled(a: Complex, factor: float) -> Complex:
    return a[0] * factor, a[1] * factor


def _quarter(a: Complex, inverse: bool) -> Complex:
    """i * a, or -i * a on the way to the spectrum."""
    return (-a[1], a[0]) if inverse else (a[1], -a[0])


def product(a: Complex, b: Complex) -> Complex:
    """a * b, real and imaginary part."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _read(z: Tensor, lead: Sequence[Expr], at: Expr) -> Complex:
    return z.at((*lead, 0, at)), z.at((*lead, 1, at))


def _sums(f: Builder, z: Tensor, out: Tensor, roots: Tensor, done: int, radix: int, inverse: bool) -> None:
    """The same for any radix: each result is a sum over q, its roots those of the sum and of the turn."""
    rest = static(z.shape[-1]) // (done * radix)
    *lead, _ = f.axes(z.shape[:-1])
    s, k, m, q = (Var(name, e) for name, e in zip("skmq", (radix, done, rest, radix), strict=True))
    j = s * done + k
    at, turn = k * (rest * radix) + q * rest + m, s * (q * rest + m) % (rest * radix) * done
    both = product(_read(z, lead, at), (roots.at((0, turn)), roots.at((1, turn))))
    for part in (0, 1):
        f.reduce("sum", (*lead, s, k, m), (q,), both[part], into=(out, (*lead, part, j * rest + m)))


def _direct(f: Builder, z: Tensor, inverse: bool) -> Tensor:
    """The sum as it stands, for a length known at run time only."""
    n = z.shape[-1]
    *lead, _ = f.axes(z.shape[:-1])
    j, k, t = (Var(name, n) for name in "jkt")
    size, way = cast(as_expr(n), FLOAT64), 2 * pi if inverse else -2 * pi
    angle = cast(j, FLOAT64) * way / size
    roots = _pair(f, (), j, (call("cos", angle), call("sin", angle)), "roots")
    turn = cast(k, INT64) * cast(t, INT64) % cast(as_expr(n), INT64)
    at = maximum(minimum(cast(turn, INDEX), as_expr(n) - 1), 0)
    out = f.empty(z.type, z.shape, "z")
    root = [cast(r, z.type) for r in _read(roots, (), at)]
    both = product(_read(z, lead, t), (root[0], root[1]))
    for part in (0, 1):
        f.reduce("sum", (*lead, k), (t,), both[part], into=(out, (*lead, part, k)))
    return out


def _bluestein(f: Builder, z: Tensor, inverse: bool) -> Tensor:
    """k*t == (k^2 + t^2 - (k-t)^2) / 2 makes it a convolution, done by transforms of a power of 2."""
    n = static(z.shape[-1])
    size = 1 << (2 * n - 1).bit_length()
    square = np.arange(n, dtype=np.int64) ** 2 % (2 * n)
    angle = square * ((1 if inverse else -1) * np.pi / n)
    chirp = f.constant(np.stack([np.cos(angle), np.sin(angle)]), "chirp")
    filled = np.zeros(size, np.complex128)
    filled[:n] = np.exp(-1j * angle)
    filled[size - n + 1 :] = filled[1:n][::-1]
    filled = np.fft.fft(filled) / size
    filters = f.constant(np.stack([filled.real, filled.imag]), "filters")
    *lead, _ = f.axes(z.shape[:-1])
    t, w, k = Var("t", size), Var("w", size), Var("k", n)

    def modulated() -> Complex:
        inside = [cast(z.at((*lead, p, t), outside=0), FLOAT64) for p in (0, 1)]
        factor = [chirp.at((p, t), outside=0) for p in (0, 1)]
        return product((inside[0], inside[1]), (factor[0], factor[1]))

    a = fft(f, _pair(f, lead, t, modulated(), "modulated"), False)
    filtered = product(_read(a, lead, w), (filters[0, w], filters[1, w]))
    b = fft(f, _pair(f, lead, w, filtered, "filtered"), True)
    real, imaginary = product(_read(b, lead, k), (chirp[0, k], chirp[1, k]))
    return _pair(f, lead, k, (cast(real, z.type), cast(imaginary, z.type)), "z")


def _pair(f: Builder, lead: Sequence[Var], t: Var, values: Complex, name: str) -> Tensor:
    """Both parts over an axis as one tensor."""
    out = f.empty(values[0].dtype, (*(a.extent or 0 for a in lead), 2, t.extent or 0), name)
    for part, value in enumerate(values):
        f.put(out, (*lead, t), (*lead, part, t), value)
    return out
