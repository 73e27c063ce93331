"""What windows read outside of their tensors: whether it counts, and whether rows may be left in place.

Vectors at the ends of a row can be put together in registers (`kernels/windows/edge_rows.py`), so that
nothing has to be copied to have a border. The layout of a region depends on that, so both ask here. In: a
reduction, and what it reads.
"""

from __future__ import annotations

from math import prod

from ingot.formula.compute import LARGEST, Reduction
from ingot.formula.expr import Binary, Const, Load, Var, loads, static
from ingot.formula.index import coefficient, mentions
from ingot.targets.record import Target

MOST_TAPS = 49  # of a window, without the channels it sums: all of them are written out at the ends of rows
FEW_TAPS = 9  # the same where there are fewer than REGISTERS: a copy costs less than weights that are spilled
REGISTERS = 32
MOST_CUT = 4  # rows outside of an image, for which windows are clipped where they read it as it lies


def is_identity_outside(r: Reduction) -> bool:
    """Whether there is one operand with an outside, and what it is there changes no result."""
    guarded = [load for load in loads(r.term) if load.outside is not None]
    if len(guarded) != 1 or not isinstance(guarded[0].outside, Const):
        return False
    other = guarded[0].outside.value
    match r.combine, r.term:
        case "sum", Binary("mul", a, b):
            return other == 0 and (a == guarded[0] or b == guarded[0])
        case "sum", Load():
            return other == 0
        case combine, Load() if combine in ("max", *LARGEST):
            return other == r.term.dtype.lowest
        case "min", Load():
            return other == r.term.dtype.highest
    return False


def most_taps(target: Target) -> int:
    """The taps of windows for which vectors at the ends of rows pay."""
    return MOST_TAPS if target.registers >= REGISTERS else FEW_TAPS


def most_together(target: Target) -> int:
    """The outputs of a column of pooling that are one tile, although each has taps of its own."""
    return target.registers // 2


def may_be_cut(r: Reduction, outside: tuple[int, int], target: Target) -> bool:
    """Whether windows are clipped that leave an image by so many rows before it and behind it, instead of a
    copy with a halo: those without weights share what they combine at each end.
    """
    each = most_together(target) // 2
    return sum(outside) <= MOST_CUT or (isinstance(r.term, Load) and max(outside) <= each)


def is_made_at_ends(r: Reduction, load: Load, x: Var, most: int = MOST_TAPS, most_apart: int = 1) -> bool:
    """Whether vectors along x may leave the rows of a load: its windows have `most` taps and neighbours are
    `most_apart` elements apart, what lies outside changes no result, and a row is as long as the result's.
    """
    along = [d for d, i in enumerate(load.index) if mentions(i, x.name)]
    if (
        len(along) != 1
        or coefficient(load.index[along[0]], x.name) not in range(1, most_apart + 1)
        or not is_identity_outside(r)
    ):
        return False
    row, taps = load.tensor.shape[along[0]], [k for k in r.axes if _slides(load, k)]
    if not all(isinstance(n, int) for n in (row, x.extent, *(k.extent for k in taps))):
        return False  # where a row ends is known at run time only
    return static(row) >= static(x.extent) and prod(static(k.extent) for k in taps) <= most


def _slides(load: Load, k: Var) -> bool:
    """Whether an index moves with a tap and with something else."""
    return any(mentions(i, k.name) and i != k for i in load.index)
