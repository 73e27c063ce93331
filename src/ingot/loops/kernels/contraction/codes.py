"""Weights of few values, read as codes: two codes a byte of up to 16, the values in a table.

    w[k, oc]        ->        values[codes[k, oc / 2] >> 4 * (oc % 2) & 15]

On vectors the table lies in registers and a look-up gives a register of weights; scalars read it from memory.
In: a contraction's constant operand. Out: what `contract` puts in the place of loads of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ingot.formula.expr import Array, Binary, Const, Expr, Load, Pick, Tensor, Var, cast
from ingot.formula.statements import Let
from ingot.formula.types import FLOAT32, INDEX, INT32
from ingot.graph.encoding import codes_of
from ingot.loops.kernels.contraction.roles import Contraction
from ingot.loops.layout import Storage
from ingot.targets.record import Target

VALUES, MOST_VALUES = 16, 256  # of codes of half a byte, which registers hold; of a byte
TAKEN = 4  # registers: the table's, a byte vector, an index


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """The table of a constant's values, held in registers of `lanes`. `shared`: codes two a byte."""

    values: Tensor
    lanes: int
    shared: bool

    def table(self) -> Iterator[Let]:
        """The registers."""
        for k in range(VALUES // self.lanes if self.lanes > 1 else 0):
            yield Let(f"values{k}", Load(self.values, (Const(k * self.lanes),), lanes=self.lanes), self.lanes)

    def value(self, code: Expr) -> Expr:
        """The weights of codes, which are int32 below 16."""
        if self.lanes == 1:
            return Load(self.values, (cast(code & Const(self.values.count - 1, INT32), INDEX),))
        count = VALUES // self.lanes
        return Pick(tuple(Var(f"values{k}", None, FLOAT32) for k in range(count)), code)

    def half(self, pair: Expr, j: int) -> Expr:
        """The codes of register j, of the two that share bytes."""
        if not self.shared:
            return pair
        return Binary("shr", pair, Const(4, INT32)) if j % 2 else pair & Const(VALUES - 1, INT32)

    def packed(self, weights: Array, exists: Array, lanes: int) -> Array:
        """uint8 of elements whose last axis is registers of `lanes` side by side."""
        assert self.values.value is not None
        codes = codes_of(weights.astype(np.float32), self.values.value)
        assert codes is not None, "every element is among the values"
        codes = np.where(exists, codes, 0).astype(np.uint8)
        if not self.shared:
            return codes
        registers = codes.reshape(*codes.shape[:-1], -1, lanes)
        if registers.shape[-2] % 2:
            registers = np.concatenate([registers, np.zeros_like(registers[..., :1, :])], axis=-2)
        pairs = registers[..., 0::2, :] | registers[..., 1::2, :] << 4
        return np.asarray(pairs.reshape(*codes.shape[:-1], -1))


def codes_for(c: Contraction, storage: Storage, target: Target) -> Codes | None:
    """How a target reads a constant operand by codes; None where it is not encoded so."""
    codebook, lanes = c.b.tensor.codebook, target.lanes(4)
    if codebook is None or c.b.tensor.type is not FLOAT32 or c.b.tensor.value is None:
        return None
    if lanes > 1 and target.spelling("pick16", "float32") is None:
        return None
    values = np.unique(codebook.view(np.uint32)).view(np.float32)
    shared = len(values) <= VALUES
    if len(values) > MOST_VALUES or (lanes > 1 and not shared):
        return None
    table = np.zeros(VALUES if shared else MOST_VALUES, np.float32)
    table[: len(values)] = values
    held = storage.derived(c.b.tensor, "values", lambda _: table, FLOAT32, "values")
    return Codes(held, min(lanes, VALUES), shared)
