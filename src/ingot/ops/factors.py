"""What a recurrent operator multiplies by: matrices of floats, or of bytes.

In: an operand, a matrix, its rows. Out: stages that multiply them, and how to read a sum. By bytes the
operand is quantised as the bundle runs, each of its rows for itself: x once, a state in every step; an x that
the model holds as bytes is multiplied as it is. `in_bytes` makes an operator whose matrices are bytes of one
whose matrices are floats.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from ingot.formula.expr import Expr, Extent, Tensor, Var, call, cast, minimum
from ingot.formula.types import FLOAT32, INT8, INT32, UINT8, DType
from ingot.ops.operand import LARGEST, bounded, fine
from ingot.ops.quantize import saturated
from ingot.ops.registry import Builder, Definition, Outputs

Index = tuple[Expr, ...]
Sums = Callable[[Index, Expr], Expr]  # of a point and a row of the matrix
Post = Callable[[Expr, Expr], Expr]  # of a sum and the row


@dataclass(frozen=True, slots=True)
class Dequantised:
    """Floats of which the model holds bytes: (bytes - zero) * scale."""

    bytes: Tensor
    scale: float
    zero: int
    type: DType = FLOAT32

    @property
    def shape(self) -> tuple[Extent, ...]:
        return self.bytes.shape

    @property
    def rank(self) -> int:
        return self.bytes.rank

    def steps(self, index: Index) -> Expr:
        """An element in units of the scale, as int32."""
        return cast(self.bytes[index], INT32) - self.zero


Activations = Tensor | Dequantised


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of which `index` reads the element `k` of a point."""

    tensor: Activations
    index: Index
    points: tuple[Var, ...]
    k: Var

    @property
    def element(self) -> Expr:
        if isinstance(self.tensor, Dequantised):
            return cast(self.tensor.steps(self.index), FLOAT32) * self.tensor.scale
        return self.tensor[self.index]


@dataclass(frozen=True, slots=True)
class InBytes:
    """A matrix that is `scale` times these bytes. What is multiplied by it becomes bytes up to `levels`, in
    units of the largest of its row: `parts` of them, the second of which stands for what the first leaves.
    """

    bytes: Tensor
    scale: float
    levels: int
    parts: int

    @property
    def shape(self) -> tuple[Extent, ...]:
        return self.bytes.shape

    @property
    def zero(self) -> int:
        return (self.levels + 1) // 2

    def quantised(self, f: Builder, a: Operand) -> tuple[Tensor, Tensor]:
        """uint8 of [part, point.., k], and what a step of each part and point stands for, the scale in it."""
        points, k, steps = a.points, a.k, float(self.levels - self.zero)
        largest = f.reduce("max", points, (k,), call("abs", a.element), name="largest")
        inverse = f.map(points, minimum(steps / largest[points], LARGEST), name="inverse")
        shape = tuple(v.extent or 0 for v in points)
        unit = f.empty(FLOAT32, (self.parts, *shape), "unit")
        q = f.empty(UINT8, (self.parts, *shape, k.extent or 0), "q", within=(0, self.levels))
        taken, scale = a.element * inverse[points], self.scale
        for part in range(self.parts):
            f.put(unit, points, (part, *points), scale / inverse[points])
            value = bounded(saturated(taken, float(self.zero), UINT8), self.levels)
            f.put(q, (*points, k), (part, *points, k), value)
            taken = (taken - call("round", taken)) * float(fine(self.levels))
            scale /= fine(self.levels)
        return q, unit

    def times(self, f: Builder, a: Operand, g: Var, at: Index, post: Post, name: str) -> Sums:
        """Sums of each part for itself: who reads one adds them."""
        q, unit = self.quantised(f, a)
        part = Var("part", self.parts)
        of_a, of_w, of_unit = (part, *a.points, a.k), (*at, a.k), (part, *a.points)
        term = (cast(q[of_a], INT32) - self.zero) * cast(self.bytes[of_w], INT32)

        def scaled(acc: Expr) -> Expr:
            return cast(acc, FLOAT32) * unit[of_unit]

        sums = f.reduce("sum", (part, *a.points, g), (a.k,), term, post=scaled, name=name)

        def read(point: Index, row: Expr) -> Expr:
            each: list[Expr] = [sums.at((n, *point, row)) for n in range(self.parts)]
            return post(reduce(add, each), row)

        return read


Matrix = Tensor | InBytes


def product(f: Builder, a: Operand, w: Matrix, g: Var, at: Index, post: Post, name: str) -> Sums:
    """post(sum over k of a * w[at, k], row) for all rows g of the matrix and points of the operand."""
    if isinstance(w, InBytes) and not isinstance(a.tensor, Dequantised):
        return w.times(f, a, g, at, post, name)
    term, scaled = _term(a, w, (*at, a.k))
    made = f.reduce("sum", (*a.points, g), (a.k,), term, post=lambda acc: post(scaled(acc), g), name=name)

    def read(point: Index, row: Expr) -> Expr:
        place = (*point, row)
        return made[place]

    return read


def _term(a: Operand, w: Matrix, of_w: Index) -> tuple[Expr, Callable[[Expr], Expr]]:
    """What one product's sum adds up, and the float that the sum is: of bytes by bytes the sum is exact."""
    if isinstance(w, InBytes) and isinstance(a.tensor, Dequantised):
        unit = a.tensor.scale * w.scale
        term = a.tensor.steps(a.index) * cast(w.bytes[of_w], INT32)
        return term, lambda acc: cast(acc, FLOAT32) * unit
    assert isinstance(w, Tensor)
    return a.element * w[of_w], lambda acc: acc


def in_bytes(define: Definition) -> Definition:
    """A recurrent operator by matrices of bytes, w_scale and r_scale of which are the floats; either may be
    floats itself. So may x, x_scale of whose distances from x_zero are the floats; x_parts then say nothing.
    """

    def defined(
        f: Builder,
        x: Tensor,
        w: Tensor,
        r: Tensor,
        *others: Tensor | None,
        w_scale: float = 1.0,
        r_scale: float = 1.0,
        x_scale: float = 1.0,
        x_zero: int = 0,
        levels: int = 255,
        x_parts: int = 1,
        h_parts: int = 1,
        **attributes: Any,
    ) -> Outputs:
        are_bytes = x.type in (INT8, UINT8)
        f.same_type((x,), "i" if x.type is INT8 else "u" if x.type is UINT8 else "f")
        by_w = InBytes(w, w_scale, levels, x_parts) if w.type is INT8 else w
        by_r = InBytes(r, r_scale, levels, h_parts) if r.type is INT8 else r
        of = Dequantised(x, x_scale, x_zero) if are_bytes else x
        return define(f, of, by_w, by_r, *others, **attributes)

    own, known = inspect.signature(defined).parameters, inspect.signature(define).parameters
    more = [p for p in own.values() if p.kind is p.KEYWORD_ONLY]
    # the registry reads inputs and attributes off it; to mypy functions have no such attribute
    defined.__signature__ = inspect.Signature([*known.values(), *more])  # type: ignore[attr-defined]
    return defined
