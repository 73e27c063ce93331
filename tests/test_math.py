"""The math library against wider arithmetic: every function, both types, special values, limits in ulp.

`samples`, `reference`, `ulps` and `LIMITS` are the sample table; the C printer's tests use them too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ingot.errors import UnsupportedError
from ingot.formula.expr import Binary, Bitcast, Const, Entry, Expr, Fma, Select, Unary, Var, walk
from ingot.formula.operations import fma
from ingot.formula.statements import Assign, For, Let, expressions, flatten
from ingot.formula.types import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType
from ingot.loops.math import FAR, FUNCTIONS, function, run

Array = np.ndarray[Any, Any]
TYPES = (FLOAT32, FLOAT64)
EXACT = ("away", "ceil", "floor", "fmod", "round", "trunc")
# The largest error in units of the last place, float32 and float64 (the reference's own error included).
LIMITS: dict[str, tuple[float, float]] = {
    **{op: (0.0, 0.0) for op in EXACT},
    "acos": (1.3, 1.3),
    "acosh": (0.8, 0.8),
    "asin": (1.3, 1.3),
    "asinh": (0.8, 0.8),
    "atan": (1.5, 1.5),
    "atanh": (0.8, 0.8),
    "cos": (0.9, 0.9),
    "cosh": (1.7, 1.7),
    "erf": (1.7, 2.3),
    "exp": (1.2, 1.2),
    "exp2": (1.2, 1.2),
    "exp_nonpositive": (1.2, 1.2),
    "exp_steady": (1.2, 1.2),
    "expm1": (1.8, 1.8),
    "log": (0.8, 0.8),
    "log1p": (0.8, 0.8),
    "log2": (0.6, 0.6),
    "pow": (1.4, 1.4),
    "sigmoid": (3.1, 2.1),
    "sin": (0.9, 0.9),
    "sinh": (1.8, 1.8),
    "sqrt": (0.5, 0.5),
    "tan": (1.5, 1.5),
    "tanh": (5.8, 1.4),
}
# What targets have as instructions: none, NEON, AVX2, AVX-512 on 8 lanes and on 16.
NATIVE = (
    frozenset[str](),
    frozenset({"madd", "round", "sqrt", "trunc"}),
    frozenset({"madd", "round", "sqrt", "trunc", "pick8"}),
    frozenset({"madd", "round", "sqrt", "trunc", "scalef"}),
    frozenset({"madd", "round", "sqrt", "trunc", "scalef", "pick16"}),
)
NEAR_RANGE = {FLOAT32: 2.0**18, FLOAT64: 2.0**40}  # beyond it sin, cos and tan take the longer way
# m * 2^e closest to multiples of pi/2, by the continued fraction of 2^(e+1)/pi: to 2^-27.5 and 2^-59.
CLOSEST = {
    FLOAT32: (
        *((16367173, 72), (10741887, 11), (16367173, 73), (10741887, 12), (16573937, -16), (16367173, 74)),
        *((10057457, 62), (11617958, 17), (9012376, 53), (10741887, 13)),
    ),
    FLOAT64: (
        *((6381956970095103, 797), (6411027962775774, -47), (6381956970095103, 798)),
        *((6411027962775774, -46), (7763785107565477, -29), (5916243447979695, 79)),
        *((6381956970095103, 799), (8444920710073313, 939), (6411027962775774, -45), (5850965514341686, 525)),
    ),
}


def specials(dtype: DType) -> Array:
    """Zeros, ones, borders of the type and of the methods, infinities, NaN."""
    info = np.finfo(dtype.numpy)
    bits = info.nmant + 1
    borders = [
        info.max,
        info.tiny,
        info.smallest_subnormal,
        info.tiny * 0.75,
        info.eps,
        1 - info.epsneg,
        1 + info.eps,
    ]
    plain = [
        0.0,
        0.5,
        0.625,
        0.7,
        0.875,
        1,
        1.5,
        2,
        2.5,
        3,
        4,
        88.8,
        100,
        710,
        745.2,
        2.0**bits,
        2.0**bits - 1,
    ]
    positive = np.array(
        [*plain, 2.0 ** (bits - 1) + 1, 2.0 ** (bits - 2) + 0.5, *borders, np.inf], dtype.numpy
    )
    return np.concatenate([positive, -positive, np.array([np.nan], dtype.numpy)])


def samples(op: str, dtype: DType, count: int = 20000, seed: int = 0) -> tuple[Array, ...]:
    """Arguments in every binade, branch and hard neighbourhood, where `op` promises its limit."""
    random = np.random.default_rng(seed)
    if op in ("fmod", "pow"):
        return _pairs(op, dtype, random, count)
    anywhere = random.integers(0, 1 << dtype.bits - 1, count, dtype=np.uint64).astype(f"u{dtype.bytes}")
    anywhere = np.copysign(anywhere.view(dtype.numpy), random.choice([-1, 1], count).astype(dtype.numpy))
    spans = [random.uniform(-s, s, count) for s in (0.1, 1, 2, 10, 100, 1000)]
    spans += [1 + random.uniform(-1e-3, 1e-3, count), -1 + random.uniform(-1e-3, 1e-3, count)]
    x = np.concatenate([specials(dtype), anywhere, *(s.astype(dtype.numpy) for s in spans)])
    if op in ("exp_nonpositive", "exp_steady"):
        x = -np.abs(x)
    return (_on_the_circle(x, dtype, random) if op in ("cos", "sin", "tan") else x,)


def _on_the_circle(x: Array, dtype: DType, random: np.random.Generator) -> Array:
    """Multiples of pi/2 and their neighbours added, and the border between near and far."""
    limit = NEAR_RANGE[dtype]
    k = np.concatenate([np.arange(1, 20000), random.integers(1, int(limit / 1.6), 20000)])
    near = (k * (np.longdouble(np.pi / 2) + np.longdouble(6.123233995736766e-17))).astype(dtype.numpy)
    wide = random.uniform(-limit, limit, 20000).astype(dtype.numpy)
    zero, top = dtype.numpy.type(0), dtype.numpy.type(np.inf)
    closest = np.array([np.ldexp(dtype.numpy.type(m), e) for m, e in CLOSEST[dtype]])
    border = np.array([limit, -limit, np.nextafter(dtype.numpy.type(limit), top)], dtype.numpy)
    near = np.concatenate([near, -near, closest, -closest])
    return np.concatenate([x, near, np.nextafter(near, zero), np.nextafter(near, top), wide, border])


def _pairs(op: str, dtype: DType, random: np.random.Generator, count: int) -> tuple[Array, Array]:
    x, y = (grid.ravel() for grid in np.meshgrid(specials(dtype), specials(dtype)))
    reach = 120 if dtype is FLOAT32 else 1000
    a = np.concatenate([2.0 ** random.uniform(-reach, reach, count), random.uniform(0.5, 2, count)])
    a = a.astype(dtype.numpy)
    if op == "pow":
        wanted = random.uniform(-1.2, 1.05, 2 * count) * reach  # the result's exponent
        b = np.where(np.arange(2 * count) % 7 == 0, random.uniform(-10, 10, 2 * count), wanted / np.log2(a))
        b = np.where(np.arange(2 * count) % 11 == 0, np.rint(b), b).astype(dtype.numpy)
        a = np.where((np.arange(2 * count) % 11 == 0) & (a > 1), -a, a)
    else:
        quotient = np.rint(2.0 ** random.uniform(-1, 2 * np.finfo(dtype.numpy).nmant, 2 * count))
        b, away = a / np.maximum(quotient, 1).astype(dtype.numpy), random.choice([0, np.inf], 2 * count)
        b = np.where(random.uniform(size=2 * count) < 0.5, b, np.nextafter(b, away.astype(dtype.numpy)))
        patterns = random.integers(0, 1 << dtype.bits, (2, count), np.uint64, endpoint=False)
        anything = patterns.astype(f"u{dtype.bytes}").view(dtype.numpy)
        a, b = np.concatenate([a, anything[0]]), np.concatenate([b, anything[1]])
    return np.concatenate([x, a]), np.concatenate([y, b])


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


NUMPY: dict[str, Callable[..., Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "pow": np.power,
    "exp_nonpositive": np.exp,
    "exp_steady": np.exp,
    "away": lambda x: np.copysign(np.floor(np.abs(x)) + (np.abs(x) % 1 >= 0.5), x),
    "round": np.rint,
    "sigmoid": _sigmoid,
    "erf": lambda x: np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64)),
}


def reference(op: str, *arguments: Array) -> Array:
    """The results in a wider type: float64 for float32, long double for float64 (erf: float64 only)."""
    wide = np.float64 if arguments[0].dtype == np.float32 else np.longdouble
    f = NUMPY[op] if op in NUMPY else getattr(np, op)
    with np.errstate(all="ignore"):
        return np.asarray(f(*(x.astype(wide) for x in arguments)))


def ulps(found: Array, wanted: Array, dtype: DType) -> Array:
    """The distance in units of the last place of `wanted`; infinite where NaN, infinity or sign differ.

    Between the largest number and infinity the distance counts as one.
    """
    info = np.finfo(dtype.numpy)
    with np.errstate(all="ignore"):
        nearest = wanted.astype(dtype.numpy)
        exponent = np.frexp(np.where(np.isfinite(nearest), nearest, 0))[1] - info.nmant - 1
        unit = np.ldexp(wanted.dtype.type(1), np.maximum(exponent, info.minexp - info.nmant))
        distance = np.abs(found.astype(wanted.dtype) - wanted) / unit
        bounded = np.clip(found, info.min, info.max) - np.clip(nearest, info.min, info.max)
    overflow, step = np.isinf(found) != np.isinf(nearest), np.spacing(info.max / 2) * 2
    distance = np.where(overflow, np.where(np.abs(bounded) <= step, 1, np.inf), distance)
    distance = np.where(np.isinf(found) & np.isinf(nearest), 0, distance)
    distance = np.where(np.signbit(found) != np.signbit(nearest), np.inf, distance)
    return np.where(
        np.isnan(found) | np.isnan(nearest),
        np.where(np.isnan(found) & np.isnan(nearest), 0, np.inf),
        distance,
    )


def worst(op: str, dtype: DType, found: Array, arguments: tuple[Array, ...]) -> tuple[float, str]:
    """The largest distance, and where."""
    wanted = reference(op, *arguments)
    distance = ulps(found, wanted, dtype)
    i = int(np.argmax(distance))
    at = ", ".join(f"{float(x[i]).hex()} ({x[i]!r})" for x in arguments)
    return float(distance[i]), f"{op} {dtype} at {at}: {found[i]!r}, should be {wanted[i]!r}"


@pytest.mark.parametrize("native", NATIVE, ids=lambda n: "+".join(sorted(n)) or "plain")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_within_limit(op: str, dtype: DType, native: frozenset[str]) -> None:
    arguments = samples(op, dtype)
    found = run(function(op, dtype, native), *arguments)
    assert found.dtype == dtype.numpy
    distance, where = worst(op, dtype, found, arguments)
    assert distance <= LIMITS[op][TYPES.index(dtype)] + 1e-3, f"{distance:.3f} ulp: {where}"


INF, NAN = math.inf, math.nan
ODD = {"asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "log1p", "sqrt", "erf", "sin", "tan"}
SPECIAL: list[tuple[str, tuple[float, ...], float]] = [  # C99 annex F.9
    *[(op, (-0.0,), -0.0) for op in sorted(ODD)],
    *[(op, (-0.0,), -0.0) for op in EXACT if op != "fmod"],
    *[(op, (NAN,), NAN) for op in sorted(FUNCTIONS - {"fmod", "pow"})],
    *[(op, (x,), NAN) for op in ("sin", "cos", "tan") for x in (INF, -INF)],
    *[(op, (x,), NAN) for op in ("asin", "acos") for x in (1.5, -1.5, INF)],
    *[
        (op, (x,), y)
        for op in ("exp_nonpositive", "exp_steady")
        for x, y in ((-INF, 0.0), (0.0, 1.0), (-0.0, 1.0))
    ],
    *[("exp", (-INF,), 0.0), ("exp", (INF,), INF), ("expm1", (-INF,), -1.0), ("expm1", (INF,), INF)],
    *[("exp2", (-INF,), 0.0), ("exp2", (-3.0,), 0.125), ("exp2", (100.0,), 2.0**100)],
    *[("log", (0.0,), -INF), ("log", (-0.0,), -INF), ("log", (-1.0,), NAN), ("log", (1.0,), 0.0)],
    *[("log", (INF,), INF), ("log2", (8.0,), 3.0), ("log2", (-0.0,), -INF), ("log2", (INF,), INF)],
    *[("log1p", (-1.0,), -INF), ("log1p", (-2.0,), NAN), ("log1p", (INF,), INF)],
    *[("sqrt", (-1.0,), NAN), ("sqrt", (INF,), INF), ("acosh", (1.0,), 0.0), ("acosh", (0.5,), NAN)],
    *[("acosh", (INF,), INF), ("asinh", (-INF,), -INF), ("atanh", (-1.0,), -INF), ("atanh", (2.0,), NAN)],
    *[("cosh", (-INF,), INF), ("sinh", (-INF,), -INF), ("tanh", (-INF,), -1.0), ("erf", (-INF,), -1.0)],
    *[("tanh", (x,), math.copysign(1.0, x)) for x in (30.0, -30.0, 1e30, -1e30)],
    *[("acos", (1.0,), 0.0), ("cos", (0.0,), 1.0), ("sigmoid", (-INF,), 0.0), ("sigmoid", (INF,), 1.0)],
    *[("round", (0.5,), 0.0), ("round", (1.5,), 2.0), ("round", (-2.5,), -2.0), ("ceil", (-0.5,), -0.0)],
    *[("away", (0.5,), 1.0), ("away", (-2.5,), -3.0), ("away", (-0.25,), -0.0)],
    *[("trunc", (-0.5,), -0.0), ("floor", (-0.5,), -1.0), ("floor", (-INF,), -INF)],
    *[("pow", (x, 0.0), 1.0) for x in (0.0, -3.0, INF, NAN)],
    *[("pow", (1.0, y), 1.0) for y in (NAN, INF, -INF)],
    *[("pow", (-1.0, y), 1.0) for y in (INF, -INF)],
    *[
        ("pow", (-0.0, 3.0), -0.0),
        ("pow", (-0.0, 2.0), 0.0),
        ("pow", (-0.0, -3.0), -INF),
        ("pow", (0.0, -0.5), INF),
    ],
    *[
        ("pow", (-8.0, 1 / 3), NAN),
        ("pow", (-2.0, 3.0), -8.0),
        ("pow", (NAN, 2.0), NAN),
        ("pow", (2.0, NAN), NAN),
    ],
    *[
        ("pow", (-INF, -3.0), -0.0),
        ("pow", (-INF, 3.0), -INF),
        ("pow", (-INF, 0.5), INF),
        ("pow", (INF, -1.0), 0.0),
    ],
    *[
        ("pow", (0.5, INF), 0.0),
        ("pow", (0.5, -INF), INF),
        ("pow", (2.0, INF), INF),
        ("pow", (-2.0, -INF), 0.0),
    ],
    *[
        ("fmod", (-0.0, 2.0), -0.0),
        ("fmod", (3.0, 0.0), NAN),
        ("fmod", (INF, 2.0), NAN),
        ("fmod", (3.0, -INF), 3.0),
    ],
    *[
        ("fmod", (-6.0, 3.0), -0.0),
        ("fmod", (5.5, -2.0), 1.5),
        ("fmod", (NAN, 1.0), NAN),
        ("fmod", (1.0, NAN), NAN),
    ],
]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("op", "arguments", "wanted"), SPECIAL, ids=lambda v: str(v).replace(" ", ""))
def test_special_value(op: str, arguments: tuple[float, ...], wanted: float, dtype: DType) -> None:
    for native in NATIVE:
        found = run(function(op, dtype, native), *(np.array([x], dtype.numpy) for x in arguments))[0]
        assert math.isnan(found) if math.isnan(wanted) else found == wanted
        assert math.isnan(wanted) or math.copysign(1, found) == math.copysign(1, wanted)


ALLOWED = {
    **{
        op: {FLOAT32, FLOAT64, INT32, INT64}
        for op in ("add", "sub", "mul", "lt", "le", "gt", "ge", "eq", "ne")
    },
    **{op: {INT32, INT64, BOOL} for op in ("and", "or", "xor")},
    "div": {FLOAT32, FLOAT64},
    "shl": {INT32, INT64},
    "shr": {INT32, INT64},
    "isnan": {FLOAT32, FLOAT64},
    "abs": {FLOAT32, FLOAT64},
    "max": {FLOAT32, FLOAT64},
    "min": {FLOAT32, FLOAT64},
    "neg": {FLOAT32, FLOAT64, INT32, INT64},
    "round": {FLOAT32, FLOAT64},
    "scalef": {FLOAT32, FLOAT64},
    "sqrt": {FLOAT32, FLOAT64},
    "trunc": {FLOAT32, FLOAT64},
}
KEYWORDS = (
    " auto break case char const continue default do double else enum extern float for goto if inline int "
    "long register restrict return short signed sizeof static struct switch typedef union unsigned void "
    "volatile while "
)


@pytest.mark.parametrize("native", NATIVE, ids=lambda n: "+".join(sorted(n)) or "plain")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", [*sorted(FUNCTIONS), *(f"{op}_far" for op in sorted(FAR))])
def test_few_node_kinds_each_name_defined_once(op: str, dtype: DType, native: frozenset[str]) -> None:
    f = function(op, dtype, native)
    known = {p.name for p in f.parameters} | {"near", "far"}
    for s in flatten(f.body):
        _check_nodes(expressions(s), known, native)
        assert isinstance(s, Let | For | Assign)
        name = s.var if isinstance(s, For) else s.name
        assert (name in known) == isinstance(s, Assign)
        assert f" {name} " not in KEYWORDS.replace("\n", "")
        known.add(name)
    _check_nodes((f.result,), known, native)


def _check_nodes(values: tuple[Expr, ...], known: set[str], native: frozenset[str]) -> None:
    for e in values:
        assert e.dtype is not BOOL
        for node in walk(e):
            assert isinstance(node, Const | Var | Unary | Binary | Select | Bitcast | Fma | Entry)
            assert not isinstance(node, Fma) or "madd" in native
            assert not isinstance(node, Entry) or f"pick{len(node.values)}" in native
            assert not isinstance(node, Var) or node.name in known
            assert not isinstance(node, Unary | Binary) or node.a.dtype in ALLOWED[node.op]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_fma_rounds_once(dtype: DType) -> None:
    """Beside exact fractions, where the sum cancels, ties, or one part is far below the other."""
    random = np.random.default_rng(1)
    a, b = (random.uniform(-2, 2, 400).astype(dtype.numpy) for _ in range(2))
    near = (
        -a
        * b
        * (1 + np.ldexp(random.integers(-3, 4, 400).astype(dtype.numpy), 1 - np.finfo(dtype.numpy).nmant))
    )
    far = np.ldexp(random.uniform(-2, 2, 400), random.integers(-60, 60, 400))
    for c in (near, far.astype(dtype.numpy), np.rint(far).astype(dtype.numpy)):
        exact = [
            Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            for x, y, z in zip(a, b, c, strict=True)
        ]
        found = fma(a, b, c)
        assert found.dtype == dtype.numpy
        for x, wanted in zip(found, exact, strict=True):
            other = np.nextafter(x, dtype.numpy.type(np.inf if Fraction(float(x)) < wanted else -np.inf))
            distance, next_best = abs(Fraction(float(x)) - wanted), abs(Fraction(float(other)) - wanted)
            assert distance < next_best or (distance == next_best and x.view(f"i{dtype.bytes}") % 2 == 0)


def test_fma_of_large_numbers() -> None:
    a, b, c = np.float64(3.0), np.float64(2.0**1022 * (1 + 2.0**-52)), np.float64(-(2.0**1023))
    assert fma(a, b, c) == fma(b, a, c) == 2.0**1022 * (1 + 3 * 2.0**-52)


def test_fma_of_infinities() -> None:
    x = np.array([np.inf, -np.inf, np.inf, np.nan], np.float32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(fma(x, np.float32(2), np.float32(1)), x)
        assert np.isnan(fma(x[:1], np.float32(0), np.float32(1)))[0]


def test_native_operations_stay() -> None:
    f = function("asin", FLOAT32, frozenset({"sqrt"}))
    values = [e for s in f.body for e in expressions(s)]
    assert any(isinstance(e, Unary) and e.op == "sqrt" for e in values)
    assert len(f.body) < len(function("asin", FLOAT32).body)
    with pytest.raises(UnsupportedError):
        function("gamma", FLOAT32)
