"""Fit the polynomials of `ingot.loops.math` and print `coefficients.py`; needs mpmath (pip install mpmath).

    python tools/fit_math.py | ruff format - > src/ingot/loops/math/coefficients.py

Each fit is the Remez exchange (Remez 1934) on a dense Chebyshev grid in 60-digit arithmetic: it minimises the
largest relative error that the polynomial causes in the function it serves. Only then are coefficients
rounded to the type."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 60
TINY = mp.mpf("1e-12")
Number = Any  # mpmath's real
Curve = Callable[[Number], Number]


@dataclass(frozen=True)
class Fit:
    """P(u) ~ goal(u) on lo..hi, error weighted by `weight`; how many coefficients each type takes."""

    name: str
    note: str
    goal: Curve
    weight: Curve
    lo: Number
    hi: Number
    terms: tuple[int, int]  # float32, float64


def odd(name: str, f: Curve, limit: Number, terms: tuple[int, int], lead: Number = 1) -> Fit:
    """f(x) == lead*x + x^3 * P(x^2)."""
    return Fit(
        name,
        f"{name}: f(x) == {'x' if lead == 1 else 'lead*x'} + x^3 * P(x^2), |x| <= {mp.nstr(limit, 4)}",
        lambda z: (f(mp.sqrt(z)) - lead * mp.sqrt(z)) / mp.sqrt(z) ** 3,
        lambda z: mp.sqrt(z) ** 3 / f(mp.sqrt(z)),
        limit**2 * mp.mpf("1e-9"),
        limit**2,
        terms,
    )


def exponentials() -> list[Fit]:
    half = mp.log(2) / 2 * mp.mpf("1.001")
    return [
        Fit(
            "exp",
            "exp: exp(r) == 1 + r + r^2 * P(r), |r| <= ln(2)/2",
            lambda r: (mp.exp(r) - 1 - r) / r**2 if abs(r) > TINY else mp.mpf(1) / 2,
            lambda r: r**2 / mp.exp(r),
            -half,
            half,
            (5, 10),
        ),
        *(
            Fit(
                f"exp_{parts}",
                f"exp_{parts}: exp(r) == 1 + r + r^2 * P(r), |r| <= ln(2)/{2 * parts}",
                lambda r: (mp.exp(r) - 1 - r) / r**2 if abs(r) > TINY else mp.mpf(1) / 2,
                lambda r: r**2 / mp.exp(r),
                -half / parts,
                half / parts,
                (2, 0),
            )
            for parts in (8, 16)
        ),
        Fit(
            "exp2",
            "exp2: 2^f == 1 + ln(2)*f + f^2 * P(f), |f| <= 1/2",
            lambda f: (mp.mpf(2) ** f - 1 - mp.log(2) * f) / f**2 if abs(f) > TINY else mp.log(2) ** 2 / 2,
            lambda f: f**2 / mp.mpf(2) ** f,
            mp.mpf("-0.5005"),
            mp.mpf("0.5005"),
            (5, 10),
        ),
    ]


def atanh_tail(order: int) -> Curve:
    """The series of 2*atanh(s)/s in z = s^2 without its first `order` terms, divided by z^order."""

    def tail(z: Number) -> Number:
        if z < mp.mpf("1e-4"):
            return mp.nsum(lambda i: 2 * z**i / (2 * (i + order) + 1), [0, 16])
        s = mp.sqrt(z)
        known = sum(2 * z**i / mp.mpf(2 * i + 1) for i in range(order))
        return (2 * mp.atanh(s) / s - known) / z**order

    return tail


def logarithms() -> list[Fit]:
    top = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.001")
    return [
        Fit(
            "log",
            "log: log((1+s)/(1-s)) == 2*s + s^3 * P(s^2), s^2 <= (3-sqrt(8))^2",
            atanh_tail(1),
            lambda z: z / (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z)) if z else mp.mpf(0),
            mp.mpf(0),
            top,
            (3, 7),
        ),
        Fit(
            "log_polynomial",
            "log_polynomial: log(1+f) == f - f^2/2 + f^3 * P(f), sqrt(1/2) <= 1+f <= sqrt(2)",
            lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3 if abs(f) > TINY else mp.mpf(1) / 3 - f / 4,
            lambda f: f**3 / mp.log1p(f) if abs(f) > TINY else mp.mpf(0),
            (mp.sqrt(mp.mpf(1) / 2) - 1) * mp.mpf("1.001"),
            (mp.sqrt(mp.mpf(2)) - 1) * mp.mpf("1.001"),
            (8, 0),
        ),
        Fit(
            "log2_tail",
            "log2_tail: log2((1+s)/(1-s)) == s * ((2 + 2/3*s^2) / ln(2) + s^4 * P(s^2))",
            lambda z: atanh_tail(2)(z) / mp.log(2),
            lambda z: z**2,
            mp.mpf(0),
            top,
            (3, 7),
        ),
    ]


def circular() -> list[Fit]:
    quarter = mp.pi / 4 * mp.mpf("1.03")
    return [
        odd("sin", mp.sin, quarter, (3, 6)),
        Fit(
            "cos",
            "cos: cos(x) == 1 - x^2/2 + x^4 * P(x^2), |x| <= pi/4",
            lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
            lambda z: z**2,
            quarter**2 * mp.mpf("1e-9"),
            quarter**2,
            (3, 6),
        ),
        odd("tan", mp.tan, quarter, (7, 15)),
        odd("asin", mp.asin, mp.mpf("0.5"), (5, 13)),
        odd("atan", mp.atan, mp.mpf("0.5"), (5, 12)),
    ]


def hyperbolics() -> list[Fit]:
    return [
        odd("tanh", mp.tanh, mp.mpf("0.625"), (0, 11)),
        odd("sinh", mp.sinh, mp.mpf(1), (4, 7)),
        odd("asinh", mp.asinh, mp.mpf("0.5"), (5, 12)),
        odd("atanh", mp.atanh, mp.mpf("0.5"), (6, 14)),
    ]


ERF_SPLIT = mp.mpf("0.875")
ERF_FAR = mp.mpf("2.25")
ERF_END = {24: mp.mpf("3.96875"), 53: mp.mpf("5.9375")}
ERF_STEP = mp.mpf(274716) / 2**20  # erf of its first multiples is almost a float32


def error_function() -> list[Fit]:
    """erf near zero, and the logarithm of 1 - erf elsewhere (smooth, and wants fewer digits as it grows)."""
    return [
        odd("erf", mp.erf, mp.mpf("0.88"), (5, 11), lead=2 / mp.sqrt(mp.pi)),
        *(
            Fit(
                f"erf_tail{suffix}",
                f"erf_tail{suffix}: 1 - erf == 2^P(x - lo), lo = {mp.nstr(lo, 5)}, x <= {mp.nstr(hi, 5)}",
                lambda u, lo=lo: mp.log(mp.erfc(u + lo), 2),  # type: ignore[misc]
                lambda u, lo=lo: mp.log(2) * (mp.erfc(u + lo) + mp.mpf("1e-19")),  # type: ignore[misc]
                mp.mpf(0),
                hi - lo,
                terms,
            )
            for suffix, lo, hi, terms in (
                ("", ERF_SPLIT, ERF_END[24], (7, 0)),
                ("_near", ERF_SPLIT, ERF_FAR, (0, 15)),
                ("_far", ERF_FAR, ERF_END[53], (0, 12)),
            )
        ),
    ]


def error_function_about(c: Number) -> Fit:
    """erf(c + t) of |t| up to half a step; about 0 it is t + t * P(t)."""
    half = ERF_STEP / 2 * mp.mpf("1.001")
    if c == 0:
        return Fit(
            "erf", "", lambda t: (mp.erf(t) - t) / t, lambda t: t / mp.erf(t), mp.mpf("1e-9"), half, (5, 0)
        )
    return Fit("erf", "", lambda t: mp.erf(c + t), lambda t: 1 / mp.erf(c + t), -half, half, (6, 0))


def tables() -> str:
    """Coefficients about 16 points: a row for each power."""
    columns = []
    for k in range(16):
        fit = error_function_about(k * ERF_STEP)
        coefficients, peak = remez(fit, fit.terms[0])
        print(f"erf about {k} steps: error 2^{mp.nstr(mp.log(peak, 2), 4)}", file=sys.stderr)
        columns.append([rounded(c, 24) for c in ([mp.mpf(0)] * (6 - len(coefficients)) + coefficients)])
    rows = ("        (" + ", ".join(map(repr, row)) + ")," for row in zip(*columns, strict=True))
    note = f"    # erf: about k * {mp.nstr(ERF_STEP, 8)}, k < 16: start + t * P(t); about 0 the start is t"
    head = "TABLES: dict[str, tuple[tuple[float, ...], ...]] = {"
    return "\n".join([head, note, '    "erf": (', *rows, "    ),", "}"])


def remez(fit: Fit, terms: int) -> tuple[list[Number], Number]:
    """The minimax coefficients, lowest power first, and the largest weighted error."""
    points = [_node(fit, mp.cos(mp.pi * i / (60 * terms))) for i in range(60 * terms, -1, -1)]
    samples = [(u, fit.goal(u), fit.weight(u)) for u in points]
    samples = [s for s in samples if s[2] != 0]
    chosen = [samples[round(i * (len(samples) - 1) / terms)] for i in range(terms + 1)]
    chosen = [_nearest(samples, fit, mp.cos(mp.pi * (1 - mp.mpf(i) / terms))) for i in range(terms + 1)]
    for _ in range(30):
        coefficients, level = _levelled(chosen, terms)
        errors = [(w * (mp.polyval(coefficients[::-1], u) - g), (u, g, w)) for u, g, w in samples]
        peak = max(abs(e) for e, _ in errors)
        if peak <= abs(level) * mp.mpf("1.001"):
            break
        chosen = _extremes(errors, terms + 1)
    return coefficients, peak


TANH_END = mp.mpf("8.3")
TANH_TERMS = 4  # of the numerator and of the denominator, behind the ones that both begin with


def hyperbolic_tangent() -> tuple[tuple[float, ...], tuple[float, ...], str]:
    """tanh(x) == x * P(x^2) / Q(x^2), |x| <= TANH_END: the minimax P and Q for float32, and a note.

    The exchange as in `remez`; the level, which multiplies Q, is found by repeated solution.
    """
    count, end, n = 1500, TANH_END**2, 2 * TANH_TERMS
    points = [((1 - mp.cos(mp.pi * i / count)) / 2) ** 2 for i in range(1, count + 1)]
    samples = [(t, mp.tanh(mp.sqrt(end * t)) / mp.sqrt(end * t)) for t in points]
    chosen = [samples[int((count - 1) * (1 - mp.cos(mp.pi * (i + 0.5) / (n + 1))) / 2)] for i in range(n + 1)]
    for _ in range(30):
        over, under, level = _levelled_quotient(chosen)
        errors = [(mp.polyval(over, t) / mp.polyval(under, t) / g - 1, (t, g)) for t, g in samples]
        peak = max(abs(e) for e, _ in errors)
        if peak <= abs(level) * mp.mpf("1.001"):
            break
        chosen = _extremes(errors, n + 1)
    p, q = (tuple(rounded(c / end**k, 24) for k, c in enumerate(reversed(c))) for c in (over, under))
    return p, q, f"  24 digits: error 2^{mp.nstr(mp.log(peak, 2), 4)}"


def _levelled_quotient(chosen: list[Any]) -> tuple[list[Number], list[Number], Number]:
    """Solve P(t) == g * (1 +- level) * Q(t) at the chosen points; highest powers first."""
    m, n = TANH_TERMS, 2 * TANH_TERMS
    denominators, level = [mp.mpf(1)] * (n + 1), mp.mpf(0)
    for _ in range(20):
        rows, right = mp.matrix(n + 1, n + 1), mp.matrix(n + 1, 1)
        for i, (t, g) in enumerate(chosen):
            for k in range(m):
                rows[i, k], rows[i, m + k] = t ** (k + 1), -g * t ** (k + 1)
            rows[i, n] = -((-1) ** i) * g * denominators[i]
            right[i] = g - 1
        solution = mp.lu_solve(rows, right)
        over, under = ([*(solution[j + k] for k in reversed(range(m))), mp.mpf(1)] for j in (0, m))
        denominators, before, level = [mp.polyval(under, t) for t, _ in chosen], level, solution[n]
        if abs(level - before) <= abs(level) * TINY:
            break
    return over, under, level


def _node(fit: Fit, t: Number) -> Number:
    return (fit.lo + fit.hi) / 2 + (fit.hi - fit.lo) / 2 * t


def _nearest(samples: list[Any], fit: Fit, t: Number) -> Any:
    u = _node(fit, t)
    return min(samples, key=lambda s: abs(s[0] - u))


def _levelled(chosen: list[Any], terms: int) -> tuple[list[Number], Number]:
    """Solve w*(P(u) - g) == +-level at the chosen points."""
    rows = mp.matrix(terms + 1, terms + 1)
    right = mp.matrix(terms + 1, 1)
    for i, (u, g, w) in enumerate(chosen):
        for k in range(terms):
            rows[i, k] = w * u**k
        rows[i, terms] = (-1) ** i
        right[i] = w * g
    solution = mp.lu_solve(rows, right)
    return [solution[k] for k in range(terms)], solution[terms]


def _extremes(errors: list[Any], count: int) -> list[Any]:
    """One peak per run of equal sign; the smallest end peaks go until `count` are left."""
    peaks: list[Any] = []
    for e, sample in errors:
        if peaks and (e > 0) == (peaks[-1][0] > 0):
            if abs(e) > abs(peaks[-1][0]):
                peaks[-1] = (e, sample)
        else:
            peaks.append((e, sample))
    while len(peaks) > count:
        peaks.pop(0 if abs(peaks[0][0]) < abs(peaks[-1][0]) else -1)
    assert len(peaks) == count, f"{len(peaks)} alternations where {count} are needed"
    return [sample for _, sample in peaks]


def rounded(x: Number, digits: int) -> float:
    """`x` to nearest in a binary format of `digits` digits."""
    if x == 0:
        return 0.0
    shift = digits - 1 - int(mp.floor(mp.log(abs(x), 2)))
    return float(mp.ldexp(mp.nint(mp.ldexp(x, shift)), -shift))


def parts(x: Number, digits: int, pieces: tuple[int, ...]) -> tuple[float, ...]:
    """`x` as a sum: the first pieces with so many binary digits each, the last with all the type has."""
    found = []
    for piece in (*pieces, digits):
        found.append(rounded(x, piece))
        x -= mp.mpf(found[-1])
    return tuple(found)


def constants(digits: int) -> dict[str, tuple[float, ...]]:
    """Numbers that must be known to more digits than the type has: as sums of parts."""
    return {
        "LOG2_E": parts(1 / mp.log(2), digits, ()),
        "LN2": parts(mp.log(2), digits, ({24: 14, 53: 40}[digits],)),
        "LN2_EXACT": parts(mp.log(2), digits, ()),
        "TWO_LOG2_E": parts(2 / mp.log(2), digits, (digits,)),
        "TWO_THIRDS_LOG2_E": parts(2 / (3 * mp.log(2)), digits, (digits,)),
        "HALF_PI": parts(mp.pi / 2, digits, (digits,)),
        "HALF_PI_FULL": parts(mp.pi / 2, digits, (digits, digits)),
        "HALF_PI_PARTS": parts(mp.pi / 2, digits, {24: (14, 14, 14), 53: (30, 30, 30)}[digits]),
        "TWO_OVER_PI": parts(2 / mp.pi, digits, ()),
        "ERF_LEAD": parts(2 / mp.sqrt(mp.pi) - 1, digits, ()),
        "ERF_SPLIT": parts(ERF_SPLIT, digits, ()),
        "ERF_FAR": parts(ERF_FAR, digits, ()),
        "ERF_END": parts(ERF_END[digits], digits, ()),
        "ERF_STEP": (*parts(ERF_STEP, digits, ()), *parts(1 / ERF_STEP, digits, ())),
    }


def two_over_pi(digits: int) -> tuple[int, ...]:
    """The binary digits of 2/pi in limbs of half a word, a limb of zeros first."""
    word, count = {24: (16, 14), 53: (32, 38)}[digits]
    with mp.workprec(2 * word * count):
        whole = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (word * (count - 1))))
    return tuple(whole >> word * i & (1 << word) - 1 for i in reversed(range(count)))


HEADER = '''"""The numbers of the math library, written by tools/fit_math.py: do not edit.

`POLYNOMIALS[name][digits]`: coefficients, lowest power first; `CONSTANTS[name][digits]`: numbers, in parts.
`digits` is the type's significand: 24 for float32, 53 for float64. `TABLES[name]`: for each power, lowest
first, the float32 coefficients about 16 points. `TWO_OVER_PI_LIMBS[digits]`: the binary
digits of 2/pi in limbs of 16 (24) or 32 (53), a limb of zeros first.
"""
'''


def limbs() -> str:
    rows = (f"    {digits}: ({', '.join(map(hex, two_over_pi(digits)))})," for digits in (24, 53))
    return "\n".join(["TWO_OVER_PI_LIMBS: dict[int, tuple[int, ...]] = {", *rows, "}"])


def table(name: str, entries: dict[str, dict[int, tuple[float, ...]]], notes: dict[str, list[str]]) -> str:
    lines = [f"{name}: dict[str, dict[int, tuple[float, ...]]] = {{"]
    for key, by_digits in entries.items():
        lines += [f"    # {note}" for note in notes.get(key, [])]
        lines.append(f'    "{key}": {{')
        for digits, numbers in by_digits.items():
            lines.append(f"        {digits}: ({', '.join(map(repr, numbers))}{',' * (len(numbers) == 1)}),")
        lines.append("    },")
    return "\n".join([*lines, "}"])


def main() -> None:
    polynomials: dict[str, dict[int, tuple[float, ...]]] = {}
    notes: dict[str, list[str]] = {}
    for fit in [*exponentials(), *logarithms(), *circular(), *hyperbolics(), *error_function()]:
        polynomials[fit.name], notes[fit.name] = {}, [fit.note]
        for digits, terms in zip((24, 53), fit.terms, strict=True):
            if terms:
                coefficients, peak = remez(fit, terms)
                polynomials[fit.name][digits] = tuple(rounded(c, digits) for c in coefficients)
                notes[fit.name].append(f"  {digits} digits: error 2^{mp.nstr(mp.log(peak, 2), 4)}")
                print(fit.name, notes[fit.name][-1], file=sys.stderr)
    over, under, note = hyperbolic_tangent()
    polynomials["tanh_over"], polynomials["tanh_under"] = {24: over}, {24: under}
    notes["tanh_over"] = [f"tanh(x) == x * over(x^2) / under(x^2), |x| <= {mp.nstr(TANH_END, 4)}", note]
    sums = {k: {d: constants(d)[k] for d in (24, 53)} for k in constants(24)}
    assert all(np.float32(v) == v for by in (polynomials, sums) for e in by.values() for v in e.get(24, ()))
    made = (table("POLYNOMIALS", polynomials, notes), tables(), table("CONSTANTS", sums, {}), limbs())
    print(HEADER, *made, sep="\n")


if __name__ == "__main__":
    main()
