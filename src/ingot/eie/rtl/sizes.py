"""How wide the hardware's wires are. In: a `Machine`; out: what `element`, `scan` and `array` are built from.

A pointer has 16 bits whatever the matrix SRAM holds: it counts from a base that the host sets per layer, as
do the columns from theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.eie.machine import Machine
from ingot.eie.memory import POINTER_BITS


def width(count: int) -> int:
    """Bits that number `count` things, at least one."""
    return max(1, (count - 1).bit_length())


@dataclass(frozen=True, slots=True)
class Sizes:
    """Counts of what one PE has, and the bits that number them."""

    machine: Machine

    @property
    def bits(self) -> int:
        """Of an activation, a weight and an accumulator."""
        return self.machine.precision

    @property
    def lines(self) -> int:
        """Lines of the matrix SRAM."""
        return self.machine.matrix_bytes * 8 // self.machine.sram_width

    @property
    def pointers(self) -> int:
        """Pointers of both banks together."""
        return self.machine.pointer_bytes * 8 // POINTER_BITS

    @property
    def place_bits(self) -> int:
        """Of an index into a register file."""
        return width(self.machine.registers)

    @property
    def lane_bits(self) -> int:
        """Of the number of a PE."""
        return width(self.machine.pes)

    @property
    def column_bits(self) -> int:
        """Of a column within a batch: the row of activations, and the lane."""
        return width(self.machine.batch)

    @property
    def address_bits(self) -> int:
        """Of an address on the host's bus, whatever it writes."""
        spaces = (self.lines, self.pointers, self.machine.registers, 1 << self.machine.code_bits, 8)
        return max(map(width, spaces))

    @property
    def data_bits(self) -> int:
        """Of a word on the host's bus."""
        return max(self.machine.sram_width, POINTER_BITS + 1, self.bits)
