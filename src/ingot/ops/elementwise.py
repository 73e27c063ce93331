"""Arithmetic and the elementary functions, element by element, inputs broadcast: one line each.

Activations are in `activation.py`, comparisons and everything on bits in `compare.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from ingot.formula.expr import Const, Expr, Tensor, binary, call, cast, equal, maximum, minimum, select
from ingot.formula.types import FLOAT64
from ingot.ops.registry import (
    Builder,
    broadcast_index,
    broadcast_map,
    broadcast_shape,
    elementwise,
    op,
    stretched,
)


def legacy(name: str, f: Callable[[Expr, Expr], Expr], kinds: str) -> None:
    """The form of opsets 1 to 6: with `broadcast`, the axes of b stand at `axis` of a (default: last)."""

    @op(name)
    def define(b: Builder, x: Tensor, y: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
        b.same_type((x, y), kinds)
        at = x.rank - y.rank if axis is None else b.axis(axis, x.rank)
        fits = 0 <= at <= x.rank - y.rank and all(
            n in (1, m) for n, m in zip(y.shape, x.shape[at:], strict=False)
        )
        b.require(fits, f"shape {y.shape} does not fit {x.shape} at axis {at}")
        b.require(
            bool(broadcast) or x.shape == y.shape, f"shapes {x.shape} and {y.shape}, broadcast is not set"
        )
        axes = b.axes(x.shape)
        value = f(x[axes], y[broadcast_index(y, axes[: at + y.rank])])
        return b.map(axes, value, x.type if value.dtype is x.type.compute else value.dtype)


def binary_operator(
    name: str, f: Callable[[Expr, Expr], Expr], *, kinds: str = "fiu", old: str | None = None
) -> None:
    """One of the operators that opset 7 gave numpy's broadcasting. `old`: what kinds it took before."""
    elementwise(name, f, since=7, kinds=kinds)
    legacy(name, f, old or kinds)


@op("Identity")
def identity(f: Builder, x: Tensor) -> Tensor:
    """y = x: a view, it costs nothing."""
    f.view = x
    axes = f.axes(x.shape)
    return f.map(axes, x[axes], x.type)


# -- arithmetic. Integers wrap; Div truncates towards zero, by zero it gives 0

binary_operator("Add", lambda a, b: a + b)
binary_operator("Sub", lambda a, b: a - b)
binary_operator("Mul", lambda a, b: a * b)
binary_operator("Div", lambda a, b: a / b)
elementwise("Neg", lambda x: -x, kinds="fi")
elementwise("Abs", lambda x: call("abs", x))
elementwise("Sign", lambda x: call("sign", x))
elementwise("Reciprocal", lambda x: 1 / x, kinds="f")

# -- of any number of inputs

AT_ONCE = 64
"""Inputs in one kernel: deeper expressions are beyond recursion, and a C compiler takes the square of the
number of pointers.
"""


def of_many(name: str, combine: Callable[[Expr, Expr], Expr], kinds: str = "fiu", mean: bool = False) -> None:
    """One input after the other, from the left. More than AT_ONCE pass through tensors in the type that is
    computed in, so that results are the same.
    """

    @op(name)
    def define(b: Builder, *inputs: Tensor) -> Tensor:
        b.same_type(inputs, kinds)
        axes = b.axes(broadcast_shape(b, *(t.shape for t in inputs)))
        elements = [stretched(b, t, axes) for t in inputs]
        while len(elements) > AT_ONCE:
            so_far = b.map(axes, reduce(combine, elements[:AT_ONCE]), name="so_far")
            b.cuts.append(len(b.stages))
            elements = [so_far[axes], *elements[AT_ONCE:]]
        value = reduce(combine, elements)
        return b.map(axes, value / len(inputs) if mean else value, inputs[0].type)


of_many("Sum", lambda a, b: a + b, "f")
of_many("Mean", lambda a, b: a + b, "f", mean=True)
of_many("Max", maximum)
of_many("Min", minimum)

# -- elementary functions


def function(name: str) -> None:
    """An operator that is a function of the expression language under the same name."""
    elementwise(name, lambda x: call(name.lower(), x), kinds="f")


function("Exp")
function("Log")
function("Sqrt")
function("Sin")
function("Cos")
function("Tan")
function("Asin")
function("Acos")
function("Atan")
function("Sinh")
function("Cosh")
function("Tanh")
function("Asinh")
function("Acosh")
function("Atanh")
elementwise(
    "Erf", lambda x: cast(call("erf", cast(x, FLOAT64) if x.dtype.is_integer else x), x.dtype), kinds="fiu"
)
function("Floor")
function("Ceil")
function("Round")  # halves to even (Round-11)


def _mod(a: Expr, b: Expr, *, fmod: int = 0) -> Expr:
    """Mod-28: the sign of the divisor, or of the dividend with `fmod`."""
    if fmod or a.dtype.is_integer:
        return binary("fmod" if fmod else "mod", a, b)
    r = binary("fmod", a, b)
    zero = select(b < 0, Const(-0.0, r.dtype), 0.0)
    return select(equal(r, 0.0), zero, select(binary("ne", r < 0, b < 0), r + b, r))


elementwise("Mod", _mod, since=10)

# -- powers. The result has the base's type


def _power(f: Builder, x: Tensor, y: Tensor) -> Callable[[Expr, Expr], Expr]:
    exponent = y.value.item() if y.value is not None and y.value.size == 1 else None
    if exponent == 2:
        return lambda a, b: a * a
    if exponent == 3:
        return lambda a, b: a * a * a
    if x.type.is_integer and y.type.is_integer and x.type.bits >= y.type.bits:
        return lambda a, b: binary("pow", a, cast(b, a.dtype))
    if x.type.is_float and (y.type.is_float or y.type.bits <= 32) and FLOAT64 not in (x.type, y.type):
        return lambda a, b: binary("pow", a, cast(b, a.dtype))
    return lambda a, b: cast(binary("pow", cast(a, FLOAT64), cast(b, FLOAT64)), a.dtype)


@op("Pow", since=7)
def power(f: Builder, x: Tensor, y: Tensor) -> Tensor:
    """x ** y; exponents may be of another type (Pow-12)."""
    f.same_type((x,), "fiu")
    f.same_type((y,), "fiu")
    return broadcast_map(f, (x, y), _power(f, x, y))


legacy("Pow", lambda a, b: binary("pow", a, b), "f")


@op("Where", since=9)
def where(f: Builder, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """x where the condition holds, else y."""
    f.same_type((condition,), "b")
    f.same_type((x, y), "fiubsn")
    return broadcast_map(f, (condition, x, y), select, x.type)
