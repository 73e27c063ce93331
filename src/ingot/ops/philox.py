"""The generator of random numbers: Philox4x32-10, numbers by counting.

In: how many words, a key, and the number of the call. Out: a tensor of random words, and numbers made of
them. Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
Evaluators and C run this one definition and give the same words; docs/random.md has the user's view.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass

from ingot.formula.expr import Const, Expr, Extent, Tensor, Var, binary, call, cast
from ingot.formula.index import upper
from ingot.formula.types import FLOAT32, FLOAT64, UINT32, UINT64, DType
from ingot.graph.ir import Node
from ingot.ops.registry import Builder

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
MASK = 0xFFFFFFFF
Key = tuple[int, int]


def key_of(node: Node, seed: float | int | None) -> Key:
    """The bits of the seed as float64; of a node without one, the hash of the value it makes."""
    if seed is not None:
        data = struct.pack("<d", float(seed))
    else:
        made = next((v.name for v in node.outputs if v is not None), "")
        data = hashlib.sha256(made.encode("utf-8", "surrogatepass")).digest()[:8]
    low, high = struct.unpack("<II", data)
    return low, high


@dataclass(frozen=True, slots=True)
class Random:
    """Random words, [4, blocks], and the type of the numbers to be made of them."""

    words: Tensor
    type: DType

    def word(self, i: Expr) -> Expr:
        """The i-th of all words."""
        return self.words.at((i % 4, i // 4))

    def unit(self, i: Expr, bits: int | None = None) -> Expr:
        """The i-th number of those in [0, 1): every multiple of 2^-53 (float64) or 2^-24 is as likely.

        `bits` gives other multiples: as many as a narrow type tells apart.
        """
        if self.type is FLOAT64:
            high, low = cast(self.word(i * 2) >> 5, FLOAT64), cast(self.word(i * 2 + 1) >> 6, FLOAT64)
            return (high * 2.0**26 + low) * 2.0**-53
        bits = bits or 24
        return cast(self.word(i) >> (32 - bits), FLOAT32) * 2.0**-bits

    def normal(self, i: Expr) -> Expr:
        """The i-th standard normal number, by Box and Muller: two numbers make two.

        The logarithm is taken of numbers down to 2^-33 (float64: 2^-54): the tails end beyond 6.7 (8.6).
        """
        first = i // 2 * 2
        if self.type is FLOAT64:
            u = self.unit(first) + 2.0**-54
        else:
            u = cast(self.word(first), FLOAT32) * 2.0**-32 + 2.0**-33
        turn = self.unit(first + 1) - cast(i % 2, u.dtype) * 0.25  # the sine is the cosine a quarter before
        return call("sqrt", call("log", u) * -2.0) * call("cos", turn * (2 * math.pi))


def random(f: Builder, count: Extent, dtype: DType, key: Key, number: Tensor | None) -> Random:
    """What `count` numbers of a type are made of; `number` is that of the call, an int64 scalar."""
    wide = FLOAT64 if dtype is FLOAT64 else FLOAT32
    words = (upper(count) + 1) // 2 * 2 * (2 if wide is FLOAT64 else 1)  # normal numbers come in pairs
    return Random(_words(f, max((words + 3) // 4, 1), key, number), wide)


def _words(f: Builder, blocks: int, key: Key, number: Tensor | None) -> Tensor:
    """The blocks of four words: counters (block, 0, call), ten rounds each."""
    counter, other = (f.empty(UINT32, (4, blocks), name) for name in ("words", "other"))
    i, pair = Var("i", blocks), Var("pair", ROUNDS // 2)
    call_ = Const(0, UINT64) if number is None else cast(number.at((0,) * number.rank), UINT64)
    start = (cast(i, UINT32), Const(0, UINT32), cast(call_, UINT32), cast(call_ >> 32, UINT32))
    for row, value in enumerate(start):
        f.put(counter, (i,), (row, i), value)

    def keys(after: int) -> list[Expr]:
        """The key grows by a constant every round."""
        steps = zip(WEYL, key, strict=True)
        return [cast(pair, UINT32) * (2 * w & MASK) + (k + after * w & MASK) for w, k in steps]

    def two_rounds() -> None:
        _round(f, counter, other, i, keys(0))
        _round(f, other, counter, i, keys(1))

    f.scan(pair, (counter,), two_rounds)
    return counter


def _round(f: Builder, c: Tensor, out: Tensor, i: Var, keys: list[Expr]) -> None:
    """Two multiplications to double width mix the four words, their high halves with the keys."""
    high, low = zip(*(_product(c[2 * j, i], m) for j, m in enumerate(MULTIPLIERS)), strict=True)
    values = (high[1] ^ c[1, i] ^ keys[0], low[1], high[0] ^ c[3, i] ^ keys[1], low[0])
    for row, value in enumerate(values):
        f.put(out, (i,), (row, i), value)


def _product(a: Expr, b: int) -> tuple[Expr, Expr]:
    return binary("mulhi", a, b), a * b
