"""Networks of shuffles: squares of elements turned in registers, in groups of 16 bytes and between these."""

from __future__ import annotations

from dataclasses import dataclass, field

from ingot.formula.expr import Shuffle, Var
from ingot.formula.statements import Let, Statement


@dataclass(slots=True)
class Network:
    """The shuffles that turn a square of `lanes` rows; each result is a register `name`N.

    Within groups of 16 bytes rows are interleaved, by ones, then by twos; then whole groups change places.
    """

    name: str
    lanes: int
    group: int
    statements: list[Statement] = field(default_factory=list)

    def columns(self, rows: list[Var]) -> list[Var]:
        g = self.group
        blocks = [self.interleaved(rows[i : i + g], 1) for i in range(0, self.lanes, g)]
        across = [self.exchanged([block[c] for block in blocks]) for c in range(g)]
        return [across[i % g][i // g] for i in range(self.lanes)]

    def interleaved(self, rows: list[Var], unit: int) -> list[Var]:
        """Columns of a square of group x group elements, for every group of the vectors."""
        if len(rows) == 1:
            return rows
        pairs = list(zip(rows[::2], rows[1::2], strict=True))
        low, high = ([self.mixed(a, b, unit, half) for a, b in pairs] for half in (0, 1))
        return [*self.interleaved(low, 2 * unit), *self.interleaved(high, 2 * unit)]

    def mixed(self, a: Var, b: Var, unit: int, half: int) -> Var:
        """By turns `unit` elements of a and b, from the lower or upper half of each group."""
        index = []
        for lo in range(0, self.lanes, self.group):
            for i in range(lo + half * self.group // 2, lo + (half + 1) * self.group // 2, unit):
                index += [*range(i, i + unit), *range(self.lanes + i, self.lanes + i + unit)]
        return self.shuffled(a, b, index)

    def exchanged(self, parts: list[Var]) -> list[Var]:
        """Vector i of the result has the i-th group of each vector."""
        if len(parts) == 1:
            return parts
        pairs = list(zip(parts[::2], parts[1::2], strict=True))
        even, odd = (self.exchanged([self.picked(a, b, parity) for a, b in pairs]) for parity in (0, 1))
        return [v for both in zip(even, odd, strict=True) for v in both]

    def picked(self, a: Var, b: Var, parity: int) -> Var:
        """Every second group of a, then of b."""
        starts = range(parity * self.group, 2 * self.lanes, 2 * self.group)
        return self.shuffled(a, b, [i for lo in starts for i in range(lo, lo + self.group)])

    def shuffled(self, a: Var, b: Var, index: list[int]) -> Var:
        name = f"{self.name}{len(self.statements)}"
        self.statements.append(Let(name, Shuffle(a, b, tuple(index)), self.lanes))
        return Var(name, None, a.dtype)
