"""Exact decimals: rows of nine decimal digits each ("limbs"), a point somewhere between them.

In: tensors uint64 [numbers, limbs], the most significant limb first. They are multiplied or divided by powers
of two, a few bits at a time. Called by `ops/text/decimals.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ingot.formula.expr import Const, Expr, Tensor, Var, binary, cast, minimum, select
from ingot.formula.types import BOOL, INDEX, INT32, UINT64
from ingot.ops.registry import Builder

LIMB = 9
BASE = 10**LIMB
CHUNK = 32  # bits at once: a limb and a carry stay within 64
TENS = np.array([10**n for n in range(19)], np.uint64)


@dataclass(frozen=True, slots=True)
class Span:
    """How many limbs stand before the point and behind it, and the largest power of two either way."""

    whole: int
    fraction: int
    power: int

    @property
    def count(self) -> int:
        return self.whole + self.fraction


def scaled(f: Builder, limbs: Tensor, span: Span, power: Expr) -> Tensor:
    """limbs *= 2^power, in place; whether something fell off the end, for each number."""
    rest = f.map((), power, INT32, "rest")
    (t,) = f.axes(limbs.shape[:1], "t")
    lost = f.map((t,), Const(False, BOOL), name="lost")
    chunk = Var("c", -(-span.power // CHUNK))
    for grows in (True, False):
        active = f.map((), rest[()] > 0 if grows else rest[()] < 0, name="active")

        def step(grows: bool = grows, active: Tensor = active) -> None:
            left = rest[()] if grows else 0 - rest[()]
            k = f.map((), minimum(left, CHUNK), name="k")
            _multiply(f, limbs, k) if grows else _divide(f, limbs, k, lost)
            f.put(rest, (), (), rest[()] - k[()] if grows else rest[()] + k[()])
            f.put(active, (), (), binary("ne", rest[()], 0))

        f.scan(chunk, (limbs, rest, lost, active), step, active)
    return lost


def _multiply(f: Builder, limbs: Tensor, k: Tensor) -> None:
    """limbs *= 2^k, from the last on."""
    t, j = f.axes(limbs.shape, "t j")
    carry = f.map((t,), Const(0, UINT64), name="carry")
    back = limbs.shape[1] - 1 - j

    def step() -> None:
        total = f.map((t,), (limbs[t, back] << cast(k[()], UINT64)) + carry[t], name="total")
        f.put(limbs, (t,), (t, back), total[t] % BASE)
        f.put(carry, (t,), (t,), total[t] // BASE)

    f.scan(j, (limbs, carry), step)


def _divide(f: Builder, limbs: Tensor, k: Tensor, lost: Tensor) -> None:
    """limbs /= 2^k, from the first on; a remainder is noted."""
    t, j = f.axes(limbs.shape, "t j")
    carry = f.map((t,), Const(0, UINT64), name="carry")
    bits = cast(k[()], UINT64)

    def step() -> None:
        total = f.map((t,), carry[t] * BASE + limbs[t, j], name="total")
        f.put(limbs, (t,), (t, j), total[t] >> bits)
        f.put(carry, (t,), (t,), total[t] - ((total[t] >> bits) << bits))

    f.scan(j, (limbs, carry), step)
    f.put(lost, (t,), (t,), lost[t] | (carry[t] > 0))


def leading(f: Builder, limbs: Tensor, span: Span, which: int) -> tuple[Tensor, Tensor]:
    """The first limb of a number that is not 0, and how many digits it has: int32 scalars."""
    (j, n), last = f.axes((span.count, LIMB), "j n"), Const(span.count - 1, INT32)
    place = select(limbs[which, j] > 0, cast(j, INT32), last)
    head = f.reduce("min", (), (j,), place, init=last, name="head")
    first, tens = limbs.at((which, cast(head[()], INDEX)), outside=0), f.constant(TENS, "tens")
    one = select(first >= tens[n], Const(1, INT32), Const(0, INT32))
    return head, f.reduce("sum", (), (n,), one, name="begun")
