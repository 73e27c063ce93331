"""How a target computes a step of a product with an encoded matrix, if it has the instructions.

In: a contraction and a target. Out: a `Way`, and how many values the matrix may have. Asked by
`sparse_lanes` and by the estimate of what pays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ingot.formula.index import value_range
from ingot.formula.types import FLOAT32, INT8, UINT8
from ingot.loops.kernels.contraction.roles import Contraction
from ingot.loops.kernels.sparse.schedule import Form
from ingot.targets.record import Target

FEW, MANY = 16, 32  # values of a matrix, zero among them, that registers hold: codes of half a byte, of one
GROUP = 4  # bytes that one lane of a dot product takes


@dataclass(frozen=True, slots=True)
class Way:
    """How a target computes a step: of `form.window` elements, in two registers of `part` lanes."""

    form: Form
    part: int
    dot: str = ""  # the instruction that adds products of bytes; floats are multiplied and added


def way_of(c: Contraction, target: Target) -> Way | None:
    """The way of the target for the operands' types, if it has one."""
    rows, types = target.lanes(4), (c.a.tensor.type, c.b.tensor.type)
    if types == (FLOAT32, FLOAT32) and rows >= 8 and target.spelling("pick16", "float32"):
        return Way(Form(rows, 2, 2 * rows), rows)
    if types not in ((UINT8, INT8), (INT8, INT8)) or not target.spelling("pick32", "int8"):
        return None
    slots, dot = 2 * GROUP, "dot4" if target.spelling("dot4", "uint8") else "dot4s"
    if dot == "dot4s" and not (target.spelling(dot, "uint8") and _never_saturates(c)):
        return None
    if target.spelling("pick128", "uint8"):
        return Way(Form(rows, slots, 128), 64, dot)
    return Way(Form(rows, slots, 32), 16, dot) if target.spelling("pick32", "uint8") else None


def most_values(c: Contraction, target: Target) -> int:
    """How many values a matrix may have, zero among them."""
    return MANY if target.spelling(f"pick{MANY}", c.b.tensor.type.name) else FEW


def _never_saturates(c: Contraction) -> bool:
    """Whether two products of what the operand holds with these weights fit 16 bits."""
    assert c.b.tensor.codebook is not None
    most = 255 if c.a.tensor.type is INT8 else (value_range(c.a.tensor) or (0, 255))[1]
    return 2 * most * int(np.abs(c.b.tensor.codebook.astype(int)).max()) < 1 << 15
