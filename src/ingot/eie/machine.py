"""The accelerator's parameters. In: what `ingot eie` was asked for; out: a checked `Machine`.

Everything in this package takes one; the defaults are those of the paper (section VI).
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.errors import InputError

MOST_PES, MOST_FIFO, MOST_WIDTH = 4096, 1 << 16, 4096
MOST_BYTES = 1 << 30
SLOWEST_MHZ, FASTEST_MHZ = 1e-3, 1e6
PRECISIONS = (8, 16, 32)


@dataclass(frozen=True, slots=True)
class Machine:
    """One array of processing elements (PEs).

    `fifo`: entries of the ring that queues activations; one stays free, so it holds one less. `sram_width`:
    bits of one read of the matrix SRAM; an entry has `code_bits + gap_bits`. `precision`: bits of an
    activation, a weight and an accumulator. `registers`: activations of the register files of one PE.
    `host_bits`: what the host interface moves per cycle in I/O mode.
    """

    pes: int = 64
    fifo: int = 8
    sram_width: int = 64
    precision: int = 16
    clock_mhz: float = 800.0
    code_bits: int = 4
    gap_bits: int = 4
    matrix_bytes: int = 128 * 1024
    pointer_bytes: int = 32 * 1024
    activation_bytes: int = 2 * 1024
    registers: int = 64
    host_bits: int = 64

    def __post_init__(self) -> None:
        """Raises InputError for a machine that cannot be."""
        _within("PEs", self.pes, 1, MOST_PES)
        _within("FIFO entries (one of them stays free)", self.fifo, 2, MOST_FIFO)
        _within("bits of an SRAM read", self.sram_width, self.entry_bits, MOST_WIDTH)
        _within("bits the host moves per cycle", self.host_bits, 1, MOST_WIDTH)
        for what in ("matrix", "pointer", "activation"):
            _within(f"bytes of {what} SRAM", getattr(self, f"{what}_bytes"), 1, MOST_BYTES)
        if self.sram_width % self.entry_bits:
            raise InputError(f"an SRAM read of {self.sram_width} bits holds no whole number of entries")
        if self.precision not in PRECISIONS:
            raise InputError(f"no arithmetic of {self.precision} bits", remedy="choose 8, 16 or 32")
        if not SLOWEST_MHZ <= self.clock_mhz <= FASTEST_MHZ:
            raise InputError(
                f"no clock runs at {self.clock_mhz:g} MHz",
                remedy=f"{SLOWEST_MHZ:g} to {FASTEST_MHZ:g} make sense",
            )

    @property
    def entry_bits(self) -> int:
        """Bits of an entry of the matrix: a code and the zeros before it."""
        return self.code_bits + self.gap_bits

    @property
    def line(self) -> int:
        """Entries that one read of the matrix SRAM brings."""
        return self.sram_width // self.entry_bits

    @property
    def waiting(self) -> int:
        """Activations that a queue can hold."""
        return self.fifo - 1

    @property
    def batch(self) -> int:
        """Activations that the register files of all PEs hold."""
        return self.pes * self.registers

    @property
    def detectors(self) -> int:
        """Nodes of the tree that finds the next non-zero activation, four children each."""
        nodes, level = 0, self.pes
        while level > 1:
            level = -(-level // 4)
            nodes += level
        return nodes

    def microseconds(self, cycles: float) -> float:
        """How long that many cycles take."""
        return cycles / self.clock_mhz


def _within(what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InputError(f"{value} {what}, where {low} to {high} make sense")
