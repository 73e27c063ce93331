"""Operators that no model has: the operand of a product in bytes, and what its rounding left over.

In: floats. Out: bytes, `levels` steps from the least element to the largest, and whether these are too coarse
for the data; then bytes of much smaller steps that stand for the rest; and what windows of an image hold.
`passes.byte_activations` uses them.
"""

from __future__ import annotations

from ingot.formula.expr import Const, Expr, Operand, Tensor, call, cast, maximum, minimum, select
from ingot.formula.types import UINT8
from ingot.ops.quantize import saturated
from ingot.ops.registry import Builder, op
from ingot.ops.window import window

LARGEST = 2.0**126  # of an inverse: a step is no denormal, and that of nothing but zeros no 0


def fine(levels: int) -> int:
    """How many steps of a rest make one step."""
    return levels - 1


def _bytes(f: Builder, x: Tensor, value: Expr, zero: Operand, levels: int, name: str) -> Tensor:
    """uint8 of x's shape: round(value) + zero, from 0 to `levels`."""
    axes, q = f.axes(x.shape), f.empty(UINT8, x.shape, name, within=(0, levels))
    f.put(q, axes, axes, bounded(saturated(value, zero, UINT8), levels))
    return q


def bounded(value: Expr, levels: int) -> Expr:
    """A byte that is no more than `levels`, said so that it shows."""
    return value if levels == UINT8.highest else minimum(value, levels)


@op("QuantizeOperand", domain="ingot")
def quantize_operand(
    f: Builder, x: Tensor, allowed: Tensor, *, levels: int = 255
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """uint8 of x up to `levels`, steps in 1, the size of a step, the byte of 0.0, and whether rounding lost
    too much.

    Lost is |x - what the bytes stand for|^2 / |x|^2, lengths of vectors: more than allowed[0] where no
    element is negative, than allowed[1] elsewhere.
    """
    f.same_type((x, allowed), "f")
    f.require(allowed.shape == (2,), f"two limits are needed, not {allowed.shape}")
    axes = f.axes(x.shape)
    low, high = (f.reduce(e, (), axes, x[axes], init=0, name=e) for e in ("min", "max"))
    steps_in_1, zero = _grid(f, low[()], high[()], levels)
    inverse = f.map((), steps_in_1, name="inverse")
    step = f.map((), 1.0 / inverse[()], name="step")
    middle = f.map((), cast(zero, UINT8), name="zero")
    steps = x[axes] * inverse[()]
    q = _bytes(f, x, steps, cast(middle[()], x.type), levels, "q")
    left = steps - call("round", steps)
    lost = f.reduce("sum", (), axes, left * left, name="lost")
    whole = f.reduce("sum", (), axes, steps * steps, name="whole")
    most = select(low[()] < 0, allowed[1], allowed[0])
    return q, inverse, step, middle, f.map((), whole[()] * most < lost[()], name="coarse")


def _grid(f: Builder, low: Expr, high: Expr, levels: int) -> tuple[Expr, Expr]:
    """Steps in 1, and the byte of 0.0: the extreme farther from 0 lies on a byte, the other within.

    Were the zero point rounded after the steps are known, both extremes could lie between two bytes, and the
    rounding errors of data of few values, -1 and 1, would all have one sign. The side of fewer steps gets
    them rounded up, which costs the other one step. high - low may overflow, their quotient does not.
    """
    large, small = f.map((), maximum(high, 0.0 - low), name="large")[()], minimum(high, 0.0 - low)
    ratio = f.map((), select(large > 0, small / large, 0), name="ratio")[()]
    few = f.map((), call("ceil", float(levels) * ratio / (ratio + 1)), name="few")[()]
    most = float(levels) - few
    return minimum(most / large, LARGEST), select(high < 0.0 - low, most, few)


@op("QuantizeRest", domain="ingot")
def quantize_rest(
    f: Builder, x: Tensor, q: Tensor, zero: Tensor, inverse: Tensor, *, levels: int = 255
) -> tuple[Tensor, Tensor]:
    """uint8 of what x is more than its bytes q, from 1 (half a step less) to `levels` (half more), and the
    byte of nothing.
    """
    axes = f.axes(x.shape)
    taken = cast(q[axes], x.type) - cast(zero[()], x.type)
    left = (x[axes] * inverse[()] - taken) * float(fine(levels))
    middle = (levels + 1) // 2
    rest = _bytes(f, x, left, float(middle), levels, "rest")
    return rest, f.map((), Const(middle, UINT8), name="middle")


@op("Patches", domain="ingot")
def patches(
    f: Builder,
    x: Tensor,
    outside: Tensor,
    *,
    kernel_shape: tuple[int, ...],
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """y[n, place.., tap.., c]: what each window of a Conv with these attributes holds of an image whose
    channels come last; `outside` where it leaves the image.
    """
    where = window(f, x.shape[1:-1], tuple(kernel_shape), auto_pad, dilations, pads, strides)
    count = len(where.kernel)
    axes = f.axes((x.shape[0], *where.out, *where.kernel, x.shape[-1]))
    n, places, taps, c = axes[0], axes[1 : count + 1], axes[count + 1 : -1], axes[-1]
    made = f.empty(x.type, tuple(a.extent or 0 for a in axes), "patches", within=x.within)
    other = outside[()] if x.within is None else bounded(outside[()], x.within[1])
    f.put(made, axes, axes, x.at((n, *where.positions(places, taps), c), outside=other))
    return made
