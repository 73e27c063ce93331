"""The math library: each function is defined once, in the expression language, as straight-line code.

`function("exp", FLOAT32)` gives parameters, definitions and result. `run` evaluates them by numpy; the C
printer prints them as a scalar function or with vector registers (a Select becomes a mask). No tables, loops,
branches, calls, or conversions between floats and integers; float32 functions need no float64.

The accuracy that the modules state holds with and without contraction to fused multiply-adds (measured both
ways, gcc and clang); the last bit may differ. Without contraction C and numpy agree to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from ingot.errors import UnsupportedError
from ingot.formula.evaluate import value
from ingot.formula.expr import Array, Expr, Var
from ingot.formula.statements import Let
from ingot.formula.types import FLOAT32, FLOAT64, DType
from ingot.loops.math import (
    arcs,
    error,
    exponential,
    hyperbolic,
    logarithm,
    power,
    root,
    rounding,
    trigonometric,
)
from ingot.loops.math.body import Body


@dataclass(frozen=True, slots=True)
class Function:
    """`result` as a function of `parameters`, through the definitions of `body` (all scalar, lanes == 1)."""

    name: str
    parameters: tuple[Var, ...]
    body: tuple[Let, ...]
    result: Expr


UNARY: dict[str, Callable[[Body, Expr], Expr]] = {
    "acos": arcs.acos,
    "acosh": hyperbolic.acosh,
    "asin": arcs.asin,
    "asinh": hyperbolic.asinh,
    "atan": arcs.atan,
    "atanh": hyperbolic.atanh,
    "ceil": rounding.ceil,
    "cos": trigonometric.cos,
    "cosh": hyperbolic.cosh,
    "erf": error.erf,
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "floor": rounding.floor,
    "log": logarithm.log,
    "log1p": logarithm.log1p,
    "log2": logarithm.log2,
    "round": rounding.nearest,
    "sigmoid": exponential.sigmoid,
    "sin": trigonometric.sin,
    "sinh": hyperbolic.sinh,
    "sqrt": root.sqrt,
    "tan": trigonometric.tan,
    "tanh": hyperbolic.tanh,
    "trunc": rounding.trunc,
}
BINARY: dict[str, Callable[[Body, Expr, Expr], Expr]] = {"fmod": rounding.fmod, "pow": power.power}
FUNCTIONS = frozenset(UNARY) | frozenset(BINARY)


@cache
def function(op: str, dtype: DType, native: frozenset[str] = frozenset()) -> Function:
    """The definition of `op`; operations of `native` (sqrt, round) that it uses stay Unary nodes.

    Raises UnsupportedError where there is none.
    """
    if op not in FUNCTIONS or dtype not in (FLOAT32, FLOAT64):
        known = f"for float32 and float64 there are {', '.join(sorted(FUNCTIONS))}"
        raise UnsupportedError(f"the math library has no {op} for {dtype}", remedy=known)
    b = Body(dtype, native)
    if op in UNARY:
        parameters = (_parameter(b, "x"),)
        result = UNARY[op](b, *parameters)
        return Function(op, parameters, tuple(b.lets), result)
    x, y = _parameter(b, "x"), _parameter(b, "y")
    result = BINARY[op](b, x, y)
    return Function(op, (x, y), tuple(b.lets), result)


def _parameter(b: Body, name: str) -> Var:
    b.used[name] = 1
    return Var(name, type=b.dtype)


def run(f: Function, *arguments: Array) -> Array:
    """The results on numpy arrays, to the bit what the C computes without contraction."""
    registers = {p.name: x for p, x in zip(f.parameters, arguments, strict=True)}
    with np.errstate(all="ignore"):
        for let in f.body:
            registers[let.name] = value(let.value, {}, registers)
        return np.asarray(value(f.result, {}, registers))
