"""The builder of one math function: it collects straight-line definitions and knows the float type.

A library function is a Python function `f(b, x)` that adds definitions to the `Body` b and returns its
result; calling it from another one inlines it. Names are made unique here, so nothing has to be renamed. Only
float arithmetic, integer arithmetic of the same width, `Bitcast` and `Select` are used: no conversions
between floats and integers (they would need helper functions on targets without the instruction). A loop has
a fixed number of iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ingot.formula.expr import (
    Binary,
    Bitcast,
    Const,
    Entry,
    Expr,
    Fma,
    Operand,
    Unary,
    Var,
    maximum,
    minimum,
    wrap,
)
from ingot.formula.statements import Assign, For, Let, Statement
from ingot.formula.types import FLOAT32, INT32, INT64, DType
from ingot.loops.math.coefficients import CONSTANTS, POLYNOMIALS, TABLES


@dataclass(slots=True)
class Body:
    """Definitions in the making.

    `native`: operations the target has as instructions: sqrt, round and trunc stay Unary nodes, with madd
    products are added in one rounding, with scalef results are scaled in one, with pick8 or pick16 registers
    are tables of so many entries.
    """

    dtype: DType
    native: frozenset[str] = frozenset()
    statements: list[Statement] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)

    @property
    def integer(self) -> DType:
        return INT32 if self.dtype is FLOAT32 else INT64

    @property
    def digits(self) -> int:
        """Binary digits of the significand, the hidden one included."""
        return 24 if self.dtype is FLOAT32 else 53

    @property
    def bias(self) -> int:
        return 127 if self.dtype is FLOAT32 else 1023

    @property
    def sign_bit(self) -> int:
        return -(1 << (self.dtype.bits - 1))

    @property
    def magic(self) -> float:
        """1.5 * 2^(digits-1): adding it rounds to an integer, which then stands in the low bits."""
        return 1.5 * 2.0 ** (self.digits - 1)

    @property
    def smallest(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)

    def let(self, name: str, value: Expr, mutable: bool = False) -> Var:
        """Define `name` (numbered where it is taken) and return it."""
        unique = self.unique(name)
        self.statements.append(Let(unique, value, mutable=mutable))
        return Var(unique, type=value.dtype)

    def unique(self, name: str) -> str:
        count = self.used.get(name, 0) + 1
        self.used[name] = count
        return name if count == 1 else f"{name}_{count}"

    def repeat(self, turns: int, carried: dict[str, Expr], turn: Callable[..., Iterable[Expr]]) -> list[Var]:
        """The values `carried` by name, after each iteration has replaced them by `turn` of them."""
        state = [self.let(name, value, mutable=True) for name, value in carried.items()]
        outside, self.statements = self.statements, []
        new = [self.let("next", value) for value in turn(*state)]
        inside = (*self.statements, *(Assign(v.name, n) for v, n in zip(state, new, strict=True)))
        self.statements = [*outside, For(self.unique("i"), Const(0), Const(turns), 1, inside)]
        return state

    def named(self, x: Expr) -> Expr:
        """x, defined under a name if it is not that or a literal already: for what is used more than once."""
        return x if isinstance(x, Var | Const) else self.let("term", x)

    def call(self, op: str, f: Callable[[Body, Expr], Expr], x: Expr) -> Expr:
        """f(x) inlined, or the target's own instruction for it."""
        return self.let(op, Unary(op, x)) if op in self.native else f(self, x)

    def number(self, v: float) -> Const:
        return Const(v, self.dtype)

    def constants(self, name: str) -> tuple[float, ...]:
        return CONSTANTS[name][self.digits]

    def constant(self, name: str) -> float:
        return self.constants(name)[0]

    @property
    def is_fused(self) -> bool:
        return "madd" in self.native

    def fma(self, x: Operand, y: Operand, z: Operand) -> Expr:
        """x * y + z, in one rounding where the target has that."""
        x, y, z = (wrap(v, self.dtype) for v in (x, y, z))
        return Fma(x, y, z) if self.is_fused else x * y + z

    def polynomial(self, name: str, u: Expr, *below: float) -> Expr:
        """P(u) by Horner's rule; `below` are coefficients of lower powers, lowest first, that P lacks."""
        return self.horner([self.number(c) for c in (*below, *POLYNOMIALS[name][self.digits])], u)

    def horner(self, coefficients: Iterable[Expr], u: Expr) -> Expr:
        total, *rest = reversed(list(coefficients))
        for c in rest:
            total = self.let("p", self.fma(total, u, c)) if self.is_fused else total * u + c
        return total

    @property
    def table_bits(self) -> int:
        """A register is a table of 2 to this power float32 entries; 0 where it is none."""
        sizes = {"pick16": 4, "pick8": 3} if self.dtype is FLOAT32 else {}
        return next((bits for op, bits in sizes.items() if op in self.native), 0)

    def entries(self, name: str, index: Expr) -> list[Expr]:
        """The rows of a table at `index`; only where the target has `pick16`."""
        return [Entry(row, index, self.dtype) for row in TABLES[name]]

    def bits(self, x: Expr) -> Expr:
        return Bitcast(x, self.integer)

    def floating(self, bits: Expr) -> Expr:
        return Bitcast(bits, self.dtype)

    def two_to(self, k: Expr) -> Expr:
        """2^k for an integer k within the exponent's range."""
        return self.of_exponent(k + self.bias)

    def of_exponent(self, biased: Expr) -> Expr:
        """The power of two whose exponent stands in its bits as this integer."""
        return self.floating(biased << (self.digits - 1))

    def scaled(self, x: Expr, n: Expr) -> Expr:
        """x * 2^n for an integral float n; only where the target has `scalef`."""
        return Binary("scalef", x, n)

    def to_float(self, k: Expr) -> Expr:
        """A small integer as a float, by way of `magic`."""
        return self.floating(k + self.magic_bits) - self.magic

    @property
    def magic_bits(self) -> int:
        return (self.bias + self.digits - 1 << self.digits - 1) | (1 << self.digits - 2)

    def nearest(self, x: Expr, factor: float = 1.0, more: int = 0) -> tuple[Var, Var]:
        """The integer nearest to x * factor as a float, and so many more as an integer, if below
        2^(digits-2); half to even.
        """
        n, shifted = self.nearest_float(x, factor, more)
        return n, self.let("k", self.bits(shifted) - self.magic_bits)

    def nearest_float(
        self, x: Expr, factor: float = 1.0, more: int = 0, fraction_bits: int = 0
    ) -> tuple[Var, Var]:
        """The same as a float, and the float that holds it, and so many more, in its low bits; with fraction
        bits the nearest multiple of 2^-fraction_bits. A rounding instruction would be two operations, after
        the product.
        """
        magic = self.magic / 2.0**fraction_bits + more
        shifted = self.let("shifted", x + magic if factor == 1.0 else self.fma(x, factor, magic))
        return self.let("n", shifted - magic), shifted

    def with_sign(self, magnitude: Expr, x: Expr) -> Expr:
        """A magnitude that is not negative, with the sign of x."""
        return self.floating(self.bits(magnitude) | (self.bits(x) & self.sign_bit))


def clamp(x: Expr, lo: float, hi: float) -> Expr:
    """x within lo..hi; NaN stays NaN."""
    return minimum(maximum(x, lo), hi)


def size(x: Expr) -> Expr:
    return Unary("abs", x)


def is_nan(x: Expr) -> Expr:
    return Unary("isnan", x)
