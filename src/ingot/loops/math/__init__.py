"""The math library: each function is defined once, in the expression language, as straight-line code.

`function("exp", FLOAT32)` gives parameters, definitions and result. `run` evaluates them by numpy; the C
printer prints them as a scalar function or with vector registers (a Select becomes a mask). No branches,
calls, or conversions between floats and integers, and no tables but those that a register holds (`Entry`,
where the target has `pick8` or `pick16`); float32 functions need no float64.

Arguments that are rare and take much longer are left to a second function, `FAR`, which is called where any
lane has one: the only branch there is.

The accuracy that the modules state holds with and without contraction to fused multiply-adds (measured both
ways, gcc and clang); the last bit may differ. Without contraction C and numpy agree to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from ingot.errors import UnsupportedError
from ingot.formula.evaluate import value
from ingot.formula.expr import Array, Const, Expr, Var
from ingot.formula.statements import Assign, For, Let, Statement
from ingot.formula.types import FLOAT32, FLOAT64, DType
from ingot.loops.math import (
    arcs,
    error,
    exponential,
    hyperbolic,
    logarithm,
    power,
    remainder,
    root,
    rounding,
    trigonometric,
)
from ingot.loops.math.body import Body


@dataclass(frozen=True, slots=True)
class Function:
    """`result` as a function of `parameters`, through the definitions of `body` (all scalar, lanes == 1).

    Where `far` holds, the function of that name with `_far` behind it has the result. `native` is what the
    target does itself.
    """

    name: str
    parameters: tuple[Var, ...]
    body: tuple[Statement, ...]
    result: Expr
    far: Expr | None
    native: frozenset[str]


UNARY: dict[str, Callable[[Body, Expr], Expr]] = {
    "acos": arcs.acos,
    "acosh": hyperbolic.acosh,
    "asin": arcs.asin,
    "asinh": hyperbolic.asinh,
    "atan": arcs.atan,
    "atanh": hyperbolic.atanh,
    "away": rounding.away,
    "ceil": rounding.ceil,
    "cos": trigonometric.cos,
    "cosh": hyperbolic.cosh,
    "erf": error.erf,
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "exp_nonpositive": exponential.exp_nonpositive,
    "exp_steady": exponential.exp_steady,
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
BINARY: dict[str, Callable[[Body, Expr, Expr], Expr]] = {"fmod": remainder.fmod, "pow": power.power}
FUNCTIONS = frozenset(UNARY) | frozenset(BINARY)


class Far(NamedTuple):
    """Where the condition holds, the second definition does."""

    condition: Callable[..., Expr]
    definition: Callable[..., Expr]


FAR = {
    "cos": Far(trigonometric.is_far, trigonometric.cos_far),
    "fmod": Far(remainder.is_far, remainder.fmod_far),
    "sin": Far(trigonometric.is_far, trigonometric.sin_far),
    "tan": Far(trigonometric.is_far, trigonometric.tan_far),
}


@cache
def function(op: str, dtype: DType, native: frozenset[str] = frozenset()) -> Function:
    """The definition of `op`; operations of `native` (sqrt, round) that it uses stay Unary nodes.

    Raises UnsupportedError where there is none.
    """
    name = op.removesuffix("_far")
    if name not in FUNCTIONS or (op != name and name not in FAR) or dtype not in (FLOAT32, FLOAT64):
        known = f"for float32 and float64 there are {', '.join(sorted(FUNCTIONS))}"
        raise UnsupportedError(f"the math library has no {op} for {dtype}", remedy=known)
    b = Body(dtype, native, used={"near": 1, "far": 1})  # names of the C printer
    parameters = tuple(_parameter(b, p) for p in ("x" if name in UNARY else "xy"))
    definition: Callable[..., Expr] = UNARY.get(name) or BINARY[name]
    if op != name:
        definition = FAR[name].definition
    result = definition(b, *parameters)
    far = FAR[op].condition(b, *parameters) if op in FAR else None
    return Function(op, parameters, tuple(b.statements), result, far, native)


def _parameter(b: Body, name: str) -> Var:
    b.used[name] = 1
    return Var(name, type=b.dtype)


def run(f: Function, *arguments: Array) -> Array:
    """The results on numpy arrays, to the bit what the C computes without contraction."""
    registers = {p.name: x for p, x in zip(f.parameters, arguments, strict=True)}
    with np.errstate(all="ignore"):
        _execute(f.body, registers)
        result = np.array(value(f.result, {}, registers))
        far = np.flatnonzero(value(f.far, {}, registers)) if f.far is not None else ()
    if len(far):
        other = function(f"{f.name}_far", f.parameters[0].dtype, f.native)
        result[far] = run(other, *(x[far] for x in arguments))
    return result


def _execute(body: tuple[Statement, ...], registers: dict[str, Array]) -> None:
    for s in body:
        match s:
            case Let(name, e) | Assign(name, e):
                registers[name] = value(e, {}, registers)
            case For(_, _, Const(turns), _, inside):
                for _ in range(int(turns)):
                    _execute(inside, registers)
