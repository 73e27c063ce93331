"""A tile of a product with weights in blocks, whose other operand has become digits of a byte.

    for each block of 32 terms:                       one point by a register, 4 bits, three digits
        c0, c1, c2 = -8 * sums[..]                    the zero point, taken out of every digit's sum
        for each word of the block:
            w = words[..]                             32 codes: four terms of sixteen lanes, twice
            c0 = dot4(c0, w & 15, d0[k:k+4]), c1 = dot4(c1, w & 15, d1[k:k+4]), c2 ..
            c0 = dot4(c0, w >> 4, d0[k+4:k+8]), ..
        t += (c0 + 256 * c1 + 65536 * c2) * (scales[..] * unit)

A multiply-add of floats takes a register for 16 weights, and unpacking them two more; here an instruction
multiplies 64 that two have unpacked. In: the operands and a segment of channels. Out: statements, up to the
sums `t` of the tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ingot.formula.expr import Binary, Const, Expr, Load, Tensor, Var, cast
from ingot.formula.index import simplify
from ingot.formula.statements import For, Instruction, Let, Madd, Prefetch, Statement
from ingot.formula.types import FLOAT32, INT8, INT32, UINT8, DType
from ingot.loops.kernels.contraction.block_floating_point import DIGIT_BITS, DIGITS, BlockFloats
from ingot.loops.kernels.contraction.tiles import AHEAD, LINE, Segment
from ingot.loops.kernels.contraction.weight_blocks import GROUP, WeightBlocks
from ingot.loops.layout import Storage
from ingot.targets.record import Target

MOST_INSTRUCTIONS = 4  # of a dot product of bytes that pays


@dataclass(frozen=True, slots=True)
class Dot:
    """The operation that multiplies four codes of every lane, of type `codes`, by four digits."""

    operation: str
    codes: DType
    instructions: int


def dot_of(target: Target, bits: int) -> Dot | None:
    """A target's operation for codes of so many bits; sums of pairs of 4-bit codes do not saturate."""
    width = target.vector_bytes
    for operation, codes, most in (("dot4", UINT8, 1), ("dot4", INT8, 1), ("dot4s", UINT8, 3)):
        is_exact = operation == "dot4" or bits < 8
        holds = codes is UINT8 or bits < 8
        cost = target.instructions.get((operation, codes.name), most)
        if target.spelling(operation, codes.name, width) and is_exact and holds and cost <= MOST_INSTRUCTIONS:
            return Dot(operation, codes, cost)
    return None


@dataclass(frozen=True, slots=True)
class DigitTile:
    """A tile of the points in `shifts`, which say how far each is from the first, by a segment's channels."""

    floats: BlockFloats
    w: WeightBlocks
    dot: Dot
    s: Segment
    storage: Storage
    lanes: int
    shifts: tuple[dict[str, int], ...]
    first: Expr

    def statements(self) -> Iterator[Statement]:
        """Add the products of all blocks to `t{point}_{register}`."""
        n = Var("block", self.w.blocks)
        yield For(n.name, Const(0), Const(self.w.blocks), 1, tuple(self._block(n)))

    def _block(self, n: Expr) -> Iterator[Statement]:
        yield from self._cleared(n)
        count = self.w.block // self.w.per_word
        word = Var("word", count)
        body = tuple(self._word(simplify(n * count + word)))
        yield For(word.name, Const(0), Const(count), 1, body)
        for i in range(len(self.shifts)):
            yield Let(f"u{i}", self._at(self.floats.units, i, n))
        scales = self.w.scales(self.s, self.storage)
        for j in range(len(self.s.widths)):
            yield Let(f"s{j}", self._lanes(scales, n, j, 1), self.lanes)
            for i in range(len(self.shifts)):
                yield from self._added(i, j)

    def _cleared(self, n: Expr) -> Iterator[Statement]:
        """Accumulators with what the zero point, a number or one of every channel, takes out of the sums."""
        registers = range(len(self.s.widths))
        taken: list[Expr] = [Const(-self.w.middle, INT32) for _ in registers]
        if self.w.zero is not None:
            zeros = self.w.zeros(self.s, self.storage)
            for j in registers:
                yield Let(f"z{j}", -cast(self._lanes(zeros, n, j, 1), INT32), self.lanes)
            taken = [Var(f"z{j}", None, INT32) for j in registers]
        for i, d in self._digits():
            yield Let(f"m{i}_{d}", self._at(self.floats.sums, i, n, Const(d)))
            for j in registers:
                total = Binary("mul", Var(f"m{i}_{d}", None, INT32), taken[j])
                yield Let(f"c{i}_{j}_{d}", total, self.lanes, mutable=True)

    def _digits(self) -> Iterator[tuple[int, int]]:
        return ((i, d) for i in range(len(self.shifts)) for d in range(DIGITS))

    def _word(self, word: Expr) -> Iterator[Statement]:
        """The terms of one word of every lane, four at a time."""
        words = self.w.grouped(self.s, self.storage)
        registers = range(len(self.s.widths))
        for j in registers:
            yield Let(f"w{j}", self._lanes(words, word, j, GROUP), GROUP * self.lanes)
        for byte in range(0, self.s.size * GROUP, LINE):
            yield Prefetch(Load(words, (self.first, word, Const(byte))), AHEAD)
        for f in range(self.w.per_word // GROUP):
            for j in registers:
                yield Let(f"q{j}_{f}", cast(self._codes(j, f), self.dot.codes), GROUP * self.lanes)
            term = simplify(word * self.w.per_word + f * GROUP)
            for i, d in self._digits():
                yield Let(
                    f"d{i}_{d}_{f}", self._at(self.floats.digits, i, Const(d), term, lanes=GROUP), GROUP
                )
                for j in registers:
                    q, digit = Var(f"q{j}_{f}", None, self.dot.codes), Var(f"d{i}_{d}_{f}", None, INT8)
                    yield Instruction(self.dot.operation, f"c{i}_{j}_{d}", q, digit, self.lanes)

    def _codes(self, j: int, field: int) -> Expr:
        """One code of every byte of a register."""
        bits, w = self.w.bits, Var(f"w{j}", None, UINT8)
        moved = Binary("shr", w, Const(bits * field, UINT8)) if field else w
        is_last = bits * (field + 1) == DIGIT_BITS
        return moved if is_last else moved & Const((1 << bits) - 1, UINT8)

    def _added(self, i: int, j: int) -> Iterator[Statement]:
        """The sums of all digits as a float, scaled."""
        low, *others = (cast(Var(f"c{i}_{j}_{d}", None, INT32), FLOAT32) for d in range(DIGITS))
        yield Let(f"f{i}_{j}", low, self.lanes, mutable=True)
        for d, sums in enumerate(others, 1):
            yield Madd(f"f{i}_{j}", sums, Const(float(1 << DIGIT_BITS * d), FLOAT32), self.lanes)
        scale = Binary("mul", Var(f"s{j}", None, FLOAT32), Var(f"u{i}", None, FLOAT32))
        yield Madd(f"t{i}_{j}", Var(f"f{i}_{j}", None, FLOAT32), scale, self.lanes)

    def _lanes(self, t: Tensor, n: Expr, j: int, group: int) -> Load:
        return Load(t, (self.first, n, Const(j * self.lanes * group)), lanes=self.lanes * group)

    def _at(self, t: Tensor, i: int, *index: Expr, lanes: int = 1) -> Load:
        """An element that belongs to the i-th point."""
        point = (x + self.shifts[i].get(x.name, 0) for x in self.floats.points)
        return simplify(Load(t, (*point, *index), lanes=lanes), self.floats.bounds)
