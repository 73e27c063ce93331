"""Copies whose columns are parted by the stride of the windows that read them.

    x        |a b c d e f g h|      windows of three columns, two apart:  a b c, c d e, e f g
    x_parted |a c e g| b d f h|     the first columns of all windows lie side by side, and so do the second

A vector of each tap is then loaded as it lies, where `picked_columns` picks it by shuffles: of long rows the
copy costs less. In: a tensor, and how far apart windows are. Out: the copy, the stage that makes it, and the
stages that read it.
"""

from __future__ import annotations

from ingot.formula.compute import Compute, Stage
from ingot.formula.expr import Binary, Const, Expr, Load, Tensor, Var, static
from ingot.formula.index import coefficient, simplify
from ingot.loops.picked_windows import MOST_APART, combined, is_picked
from ingot.loops.region import read_through

LONG_ROW = 16  # elements of a result
SHORT_ROW = 8  # the same, where windows are too large for columns to be picked


def parts_of(c: Compute, load: Load) -> int:
    """In how many parts the windows of a stage should find the columns of what they read; 1 if as they lie.

    Windows are those of a convolution whose stride divides the rows.
    """
    assert c.reduction is not None
    t, x = load.tensor, c.axes[-1]
    apart = coefficient(load.index[-1], x.name) or 0
    least = LONG_ROW if is_picked(c.reduction, apart) else SHORT_ROW
    if not len(c.axes) == t.rank > 2 or not 1 < apart <= MOST_APART or static(x.extent) < least:
        return 1
    found = combined(c.reduction)
    return 1 if found is None or found[1] is None else apart


def parted(source: Tensor, parts: int) -> Tensor:
    """A tensor for the elements of another: parted[..., p, q] = source[..., parts * q + p]."""
    shape = (*source.shape[:-1], parts, -(-static(source.shape[-1]) // parts))
    return Tensor(f"{source.name}_parted", source.type, shape)


def parting(source: Tensor, copy: Tensor, fill: float | int) -> Compute:
    """The stage that makes the copy; what lies beyond the rows of the source is `fill`."""
    names = ["n", "c", *(f"h{d}" for d in range(source.rank - 3)), "p", "q"]
    axes = tuple(Var(name, n) for name, n in zip(names, copy.shape, strict=True))
    *rest, p, q = axes
    parts = static(copy.shape[-2])
    outside = fill if static(source.shape[-1]) % parts else None
    return Compute(copy, axes, source.at((*rest, parts * q + p), outside))


def read_parted(stage: Stage, source: Tensor, copy: Tensor) -> Stage:
    """The stage with every read of the source made a read of the copy."""
    parts = Const(static(copy.shape[-2]))

    def place(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        *rest, column = index
        p, q = (simplify(Binary(op, column, parts)) for op in ("mod", "floordiv"))
        return (*rest, p, q)

    return read_through(stage, source, copy, place)
