"""Rows of floats as block floating point: integers of a common exponent, each as three digits of a byte.

    x[k] = (d0[k] + 256 * d1[k] + 65536 * d2[k]) * unit[k / 32]      -128 <= d <= 127, unit a power of two

The unit of a block is the one at which its largest element becomes an integer of 22 bits, so that each one
is off by at most 2^-22 of the largest. A sum of products with small integers is then three dot products of
bytes, all of them exact, which become a float at the end of a block: less is rounded than where floats are
added up one by one. The unit of a block with a NaN or an infinity is NaN. In: the operand of a product. Out:
the statements that make the digits, and tensors to load them from.

Source: J. H. Wilkinson, "Rounding Errors in Algebraic Processes", 1963, for block floating point; H. Ootomo,
K. Ozaki, R. Yokota, "DGEMM on Integer Matrix Multiplication Unit", 2024, for products of integer digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ingot.formula.expr import (
    Binary,
    Bitcast,
    Const,
    Expr,
    Load,
    Select,
    Tensor,
    Unary,
    Var,
    cast,
    maximum,
    static,
    substitute,
)
from ingot.formula.index import Bounds, interval, simplify
from ingot.formula.statements import Let, Statement, Store
from ingot.formula.types import FLOAT32, INT8, INT32
from ingot.loops.access import step
from ingot.loops.kernels.horizontal_reduction import reduce_lanes
from ingot.loops.kernels.naive import nested
from ingot.loops.layout import Storage

DIGITS, DIGIT_BITS = 3, 8
LONGEST_BLOCK = 256  # terms: sums of their digits are far from the ends of int32
EXPONENT, FRACTION_BITS, BIAS = 0x7F800000, 23, 127  # of a float32
WHOLE_BITS = 21  # the largest element, at least 2^e, becomes an integer from 2^21 on
LEAST = 1 << FRACTION_BITS + 5  # exponents below this one (2^-95) count as it: their units would be subnormal


@dataclass(frozen=True, slots=True)
class BlockFloats:
    """The rows of `a`, which the axes `points` and `term` move, in blocks of `block` terms.

    `digits` are int8 [point.., digit, term], `units` float32 [point.., block]; `sums`, int32 [point.., block,
    digit], are the digits of a block added up.
    """

    a: Load
    points: tuple[Var, ...]
    term: Var
    block: int
    lanes: int
    bounds: Bounds
    digits: Tensor
    sums: Tensor
    units: Tensor

    def statements(self) -> Iterator[Statement]:
        """Make digits, sums and units of all rows."""
        block = Var("part", static(self.term.extent) // self.block)
        yield from nested((*self.points, block), tuple(self._block(block)))

    def _block(self, block: Var) -> Iterator[Statement]:
        """One block: the exponent of its largest element first."""
        pieces = range(self.block // self.lanes)
        for i in pieces:
            yield Let(f"x{i}", self._elements(block, i), self.lanes)
        bits = [Bitcast(Var(f"x{i}", None, FLOAT32), INT32) & Const(EXPONENT, INT32) for i in pieces]
        yield Let("exponents", _largest(bits), self.lanes)
        largest = yield from reduce_lanes([Var("exponents", None, INT32)], self.lanes, "max", "most")
        yield Let("exponent", maximum(largest, Const(LEAST, INT32)))
        exponent = Var("exponent", None, INT32)
        unit = Bitcast(exponent - Const(WHOLE_BITS << FRACTION_BITS, INT32), FLOAT32)
        is_finite = Binary("lt", exponent, Const(EXPONENT, INT32))
        at = (*self.points, block)
        yield Store(Load(self.units, at), Select(is_finite, unit, Const(float("nan"), FLOAT32)))
        inverse = Const(2 * BIAS << FRACTION_BITS, INT32) - exponent  # of the power of two itself
        yield Let("inverse", Bitcast(inverse + Const(WHOLE_BITS << FRACTION_BITS, INT32), FLOAT32))
        for i in pieces:
            yield from self._digits_of(i, block * self.block + i * self.lanes)
        for d in range(DIGITS):
            yield from self._sum(d, at)

    def _elements(self, block: Var, i: int) -> Expr:
        """The i-th vector of a block."""
        at = {self.term.name: block * self.block + i * self.lanes}
        whole = substitute(replace(self.a, lanes=self.lanes), at)
        return simplify(whole, {**self.bounds, block.name: interval(block)})

    def _digits_of(self, i: int, first: Expr) -> Iterator[Statement]:
        """The digits of a vector, the lowest first: what is left of the integer is divided by 256."""
        x = Binary("mul", Var(f"x{i}", None, FLOAT32), Var("inverse", None, FLOAT32))
        yield Let(f"n{i}_0", cast(Unary("round", x), INT32), self.lanes)
        for d in range(DIGITS):
            left = Var(f"n{i}_{d}", None, INT32)
            yield Let(f"d{i}_{d}", _low_byte(left) if d < DIGITS - 1 else left, self.lanes)
            digit = Var(f"d{i}_{d}", None, INT32)
            yield Store(Load(self.digits, (*self.points, Const(d), first)), cast(digit, INT8), self.lanes)
            if d < DIGITS - 1:
                rest = Binary("shr", left - digit, Const(DIGIT_BITS, INT32))
                yield Let(f"n{i}_{d + 1}", rest, self.lanes)

    def _sum(self, d: int, at: tuple[Expr, ...]) -> Iterator[Statement]:
        total: Expr = Var(f"d0_{d}", None, INT32)
        for i in range(1, self.block // self.lanes):
            total = total + Var(f"d{i}_{d}", None, INT32)
        yield Let(f"s{d}", total, self.lanes)
        added = yield from reduce_lanes([Var(f"s{d}", None, INT32)], self.lanes, "add", f"s{d}")
        yield Store(Load(self.sums, (*at, Const(d))), added)


def block_floats(
    a: Load, points: tuple[Var, ...], term: Var, block: int, lanes: int, bounds: Bounds, storage: Storage
) -> BlockFloats | None:
    """The rows of an operand, in scratch; None where they are not whole blocks of whole vectors."""
    terms = static(term.extent)
    if step(a, term.name) != 1 or terms % block or block % lanes or block > LONGEST_BLOCK:
        return None
    rows = tuple(static(x.extent) for x in points)
    digits = storage.scratch(a.tensor, (*rows, DIGITS, terms), "digits", INT8)
    sums = storage.scratch(a.tensor, (*rows, terms // block, DIGITS), "sums", INT32)
    units = storage.scratch(a.tensor, (*rows, terms // block), "units", FLOAT32)
    return BlockFloats(a, points, term, block, lanes, bounds, digits, sums, units)


def _largest(parts: list[Expr]) -> Expr:
    first, *others = parts
    for x in others:
        first = maximum(first, x)
    return first


def _low_byte(n: Expr) -> Expr:
    """The lowest byte of every lane, as a number with a sign."""
    return cast(cast(n, INT8), INT32)
