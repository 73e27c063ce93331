"""How a target multiplies and adds in a contraction: one term of a lane at a time, or a group of neighbours.

    float32     c[i] += a * b[i]                                                    madd, a group of one
    bytes       c[i] += a[0] * b[i][0] + a[1] * b[i][1] + ... + a[3] * b[i][3]      dot4, a group of four

In: a contraction and a target. Out: the `Product` of the fewest instructions per term, as `instructions` in
the target's record counts them. A new instruction is a row of `ROWS`, a meaning in `loops/instructions.py`
and the target's spelling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ingot.formula.expr import Const, Expr, Load, Tensor, cast, static
from ingot.formula.index import value_range
from ingot.formula.types import INT8, INT16, INT32, UINT8, DType
from ingot.loops.access import step
from ingot.loops.instructions import GROUP
from ingot.loops.kernels.contraction.roles import Contraction
from ingot.targets.record import Target

SIGN = 128  # what added to an int8, or taken from a uint8, makes it the other


@dataclass(frozen=True, slots=True)
class Product:
    """`instruction` adds the products of `group` terms to each lane; none: a multiply-add of single terms.

    Operands are made what it takes: `a` and `b`. Bytes of the other sign are moved by `SIGN`, which the first
    value of the sums makes up for. `stored`: the type of packed constants, which are widened where registers
    are loaded.
    """

    a: DType
    b: DType
    stored: DType
    instruction: str = ""
    is_moved: bool = False

    @property
    def group(self) -> int:
        return GROUP[self.instruction] if self.instruction else 1

    def operand(self, load: Expr) -> Expr:
        """The element, or the group of elements, as the instruction takes it."""
        if not self.is_moved:
            return cast(load, self.a)
        return cast(load ^ Const(-SIGN if load.dtype is INT8 else SIGN, load.dtype), self.a)

    def is_wider(self, load: Load) -> bool:
        """Whether elements are made wider: of all of them at once, before the loops."""
        return bool(self.instruction) and self.a.bits != load.tensor.type.bits

    @property
    def excess(self) -> int:
        """What is added to each element of `a`."""
        if not self.is_moved:
            return 0
        return -SIGN if self.a is INT8 else SIGN


ROWS = (("dot16", INT8, INT8), ("dot4", UINT8, INT8), ("dot4", INT8, INT8), ("dot2", INT16, INT16))
"""The instructions that bytes may be multiplied by, and the types of their operands."""


def product_of(c: Contraction, target: Target) -> Product:
    """How the target multiplies the terms of a contraction."""
    if c.b.dtype.is_float:
        return Product(c.a.dtype, c.b.dtype, c.b.dtype)
    inner = c.reduce[-1]
    most = static(inner.extent) if step(c.a, inner.name) == 1 else 1
    found = [p for p in products_of_bytes(c.a.tensor, c.b.tensor, target) if p.group <= most]
    return min([Product(INT32, INT32, _stored(c.b.tensor)), *found], key=lambda p: cost(p, target))


def products_of_bytes(a: Tensor, b: Tensor, target: Target) -> Iterator[Product]:
    """The instructions of a target that multiply bytes by constant ones."""
    for name, x, y in ROWS:
        if target.spelling(name, x.name) is not None and is_held(b, y):
            yield Product(x, y, _stored(b), name, x.bits == 8 and x is not a.type)


def _stored(b: Tensor) -> DType:
    """Bytes with a sign where they hold the constants: products of bytes take these."""
    return INT8 if is_held(b, INT8) else b.type


def is_held(t: Tensor, to: DType) -> bool:
    """Whether an integer type holds all elements of a constant."""
    lo, hi = value_range(t) or (0, 0)
    return -(1 << (to.bits - 1)) <= lo and hi < 1 << (to.bits - 1)


def cost(p: Product, target: Target) -> float:
    """Instructions for each term of a vector of sums."""
    return (instructions_of(p, target) + p.is_moved / 8) / p.group


def instructions_of(p: Product, target: Target) -> int:
    """Instructions that add a product to a vector of sums; 0: the target's multiply-add of floats."""
    if p.a.is_float:
        return 0
    return target.instructions.get((p.instruction, p.a.name), 1) if p.instruction else 3
