"""What a 32-bit processor has no instructions for: 64-bit integers, and doubles without a unit for them.

The compiler calls functions of its runtime library, which is built by the pinned compiler and linked into the
program that runs a bundle: on Linux's emulators, and on the board of the Cortex-M55.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import ingot
from ingot.binary.objects import undefined_symbols
from ingot.formula.expr import Array
from tests.fuzz.levels import formula
from tests.here import require_runs

TARGETS = ("armv7e-m", "armv8.1m", "i386")
INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    -7,
    10,
    2**31,
    -(2**31) - 1,
    2**33 + 5,
    -(2**40),
    2**53 + 1,
    2**62,
    2**63 - 1,
    -(2**63),
)
SHIFTS = (0, 1, 31, 32, 33, 63, 64)
REALS = (
    0.0,
    -0.0,
    0.5,
    -1.5,
    1e-300,
    3e9,
    -3e9,
    1e18,
    -1e18,
    1.7976931348623157e308,
    float("inf"),
    float("nan"),
)
TINY = np.finfo(np.float64).tiny
MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
g (int64[N] a, int64[N] b, uint64[N] u, uint64[N] s, double[N] p, double[N] q, float[N] r)
  => (int64[N] div, int64[N] mod, int64[N] fmod, int64[N] mul, uint64[N] udiv, uint64[N] umod, uint64[N] left,
      uint64[N] right, float[N] af, double[N] ad, float[N] uf, double[N] ud, int64[N] ri, int64[N] pi,
      double[N] sum, double[N] dif, double[N] product, double[N] quotient, float[N] narrow, double[N] wide,
      bool[N] less, bool[N] same, int32[N] small, double[N] root, double[N] power) {
    div = Div (a, b) mod = Mod (a, b) fmod = Mod <fmod = 1> (a, b) mul = Mul (a, b)
    udiv = Div (u, s) umod = Mod (u, s)
    left = BitShift <direction = "LEFT"> (u, s) right = BitShift <direction = "RIGHT"> (u, s)
    af = Cast <to = 1> (a) ad = Cast <to = 11> (a) uf = Cast <to = 1> (u) ud = Cast <to = 11> (u)
    ri = Cast <to = 7> (r) pi = Cast <to = 7> (p)
    sum = Add (p, q) dif = Sub (p, q) product = Mul (p, q) quotient = Div (p, q)
    narrow = Cast <to = 1> (p) wide = Cast <to = 11> (r)
    less = Less (p, q) same = Equal (p, q) small = Cast <to = 6> (q) root = Sqrt (p) power = Exp (q)
}"""


def pairs(first: tuple[float, ...], second: tuple[float, ...], kind: type, count: int) -> tuple[Array, Array]:
    """Every value with every other, repeated to `count`."""
    every = [(x, y) for x in first for y in second]
    every = (every * (count // len(every) + 1))[:count]
    return np.array([x for x, _ in every], kind), np.array([y for _, y in every], kind)


def feeds() -> dict[str, Array]:
    """Converting what no integer holds is left to `test_casts`."""
    count = len(INTEGERS) ** 2
    a, b = pairs(INTEGERS, INTEGERS, np.int64, count)
    u, s = pairs(tuple(n % 2**64 for n in INTEGERS), SHIFTS, np.uint64, count)
    p, q = pairs(REALS, REALS, np.float64, count)
    r = np.array([0.0, -1.5, 3e9, -3e9, 1e18, 2.0**62, -(2.0**63), 0.99] * count, np.float32)[:count]
    return {"a": a, "b": b, "u": u, "s": s, "p": p, "q": q, "r": r}


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_compiler_calls_functions_for(target: str) -> None:
    require_runs(target)
    given = feeds()
    model = parser.parse_model(MODEL.replace("[N]", f"[{len(given['a'])}]"))
    bundle = ingot.compile(model, target=target, name="net", emit=("c", "obj"))
    called = undefined_symbols(bundle.files["net.o"])
    assert called and all(name.startswith("__") for name in called)
    found = bundle.run(given)
    for (name, array), right in zip(found.items(), formula(model, given), strict=True):
        same = (array == right) | ((array != array) & (right != right))
        if (
            array.dtype == np.float64
        ):  # the library's quotients below the normal numbers are rounded otherwise
            with np.errstate(invalid="ignore"):
                same |= (abs(right) < TINY) & (abs(array - right) <= 5e-324)
        at = np.flatnonzero(~same)[:3]
        assert same.all() and array.dtype == right.dtype, (name, at, array[at], right[at])
