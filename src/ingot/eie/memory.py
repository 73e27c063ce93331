"""Where a model lies in the SRAMs, and what the host must bring.

In: the layers in columns. Out: `Placement`. A pointer has 16 bits, 13 of a row of the matrix SRAM and 3 of
an entry: half of that SRAM, and its own SRAM holds 16,384 pointers where AlexNet's dense layers have 17,411.
So a layer is cut into tiles, each with base registers for both SRAMs, its pointers counted from its base: at
most as many columns as the register files hold activations, as many rows as they hold sums, and as many
entries as a pointer tells apart. Pointers that find no room in their SRAM lie in free rows of the matrix SRAM
and are moved when their tile comes, four per row and cycle; what finds no room at all is brought by the host
for every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ingot.eie.columns import Columns, encode_sorted
from ingot.eie.machine import Machine
from ingot.errors import InputError
from ingot.formula.expr import Array

POINTER_BITS = 16
CODEBOOK_BYTES = 32


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """A rectangle of a layer that runs without a change of base registers."""

    layer: int
    row: int
    column: int
    columns: Columns

    @property
    def pointers(self) -> int:
        """Pointers of each PE: one per column, and where the last one ends."""
        return self.columns.shape[1] + 1

    def matrix_rows(self, line: int) -> int:
        """Rows of the matrix SRAM, the same in each PE."""
        return -(-int(self.columns.pointers[:, -1].max(initial=0)) // line)


@dataclass(frozen=True, slots=True)
class Placed:
    """Base registers of a tile. `pointers`: own (in their SRAM), spilled (in matrix rows), or host.
    `is_resident`: its entries stay in the matrix SRAM from run to run.
    """

    tile: Tile
    base_row: int
    base_pointer: int
    pointers: str
    is_resident: bool


@dataclass(frozen=True, slots=True)
class Placement:
    """All tiles in the order in which they run.

    `loaded_bytes` is what the host brings once, `streamed_bytes` what it brings for every run; `move_cycles`
    is the time to move spilled pointers.
    """

    placed: tuple[Placed, ...]
    matrix_rows: int
    pointers: int
    loaded_bytes: int
    streamed_bytes: int
    move_cycles: int

    @property
    def fits(self) -> bool:
        return not self.streamed_bytes


def tiles(layers: list[Columns], machine: Machine) -> list[Tile]:
    """Every layer in tiles."""
    return [t for n, layer in enumerate(layers) for t in _tiles(n, layer, machine)]


def _tiles(number: int, layer: Columns, machine: Machine) -> Iterator[Tile]:
    rows, cols = layer.shape
    reach = min(1 << POINTER_BITS, machine.matrix_bytes * 8 // machine.entry_bits)
    for row in range(0, rows, machine.batch):
        block = _rows(layer, row, min(row + machine.batch, rows)) if rows > machine.batch else layer
        column = 0
        while column < cols:
            limit = block.pointers[:, column] + reach - 1
            ends = [
                int(np.searchsorted(p, e, "right")) - 1 for p, e in zip(block.pointers, limit, strict=True)
            ]
            end = min(*ends, column + machine.batch, cols)
            if end == column:
                raise InputError(f"a column of {rows} rows does not fit the matrix SRAM of {machine.pes} PEs")
            yield Tile(number, row, column, _cut(block, column, end))
            column = end


def _rows(layer: Columns, low: int, high: int) -> Columns:
    row, column = layer.places
    kept = (layer.codes != 0) & (row >= low) & (row < high)
    at = column[kept] * (high - low) + row[kept] - low
    order = np.argsort(at)
    shape = (high - low, layer.shape[1])
    return encode_sorted(shape, at[order], layer.codes[kept][order], layer.pes, layer.gap_bits)


def _cut(layer: Columns, low: int, high: int) -> Columns:
    if (low, high) == (0, layer.shape[1]):
        return layer
    inside = np.zeros(layer.shape[1], bool)
    inside[low:high] = True
    kept = np.repeat(np.tile(inside, layer.pes), layer.lengths.reshape(-1))
    pointers = layer.pointers[:, low : high + 1] - layer.pointers[:, low : low + 1]
    shape = (layer.shape[0], high - low)
    return Columns(shape, layer.codes[kept], layer.gaps[kept], pointers, layer.gap_bits)


def packed_pointers(tile: Tile, pe: int) -> tuple[Array, Array]:
    """The pointers of one PE as its two banks hold them, even columns and odd ones: uint16 each."""
    own = tile.columns.pointers[pe]
    if int(own[-1]) >= 1 << POINTER_BITS:
        raise InputError(f"{int(own[-1])} entries of one PE are more than a pointer tells apart")
    words = own.astype(np.uint16)
    return words[0::2], words[1::2]


def place(parts: list[Tile], machine: Machine) -> Placement:
    """Base registers for all tiles, and what of them stays."""
    line = max(machine.line, 1)
    rows_of = [t.matrix_rows(line) for t in parts]
    all_rows = machine.matrix_bytes * 8 // machine.sram_width
    all_pointers = machine.pointer_bytes * 8 // POINTER_BITS
    resident = _kept(rows_of, all_rows)
    own = _kept([t.pointers if r else 0 for t, r in zip(parts, resident, strict=True)], all_pointers)
    per_row = machine.sram_width // POINTER_BITS
    free = all_rows - sum(n for n, r in zip(rows_of, resident, strict=True) if r)
    placed, moves, streamed, row, pointer = [], 0, 0, 0, 0
    for t, rows, stays, is_own in zip(parts, rows_of, resident, own, strict=True):
        needs = -(-t.pointers // per_row) if per_row else all_rows + 1
        where = "own" if stays and is_own else "spilled" if stays and needs <= free else "host"
        if where == "spilled":
            free, moves = free - needs, moves + needs
        if where == "host":
            streamed += 2 * t.pointers * machine.pes
        if not stays:
            streamed += _entry_bytes(t, machine)
        placed.append(Placed(t, row if stays else all_rows - rows, pointer, where, stays))
        row, pointer = row + rows * stays, pointer + t.pointers * (where == "own")
    loaded = sum(_entry_bytes(t, machine) + 2 * t.pointers * machine.pes for t in parts)
    loaded += CODEBOOK_BYTES * machine.pes * len({t.layer for t in parts})
    return Placement(tuple(placed), sum(rows_of), sum(t.pointers for t in parts), loaded, streamed, moves)


def _kept(sizes: list[int], room: int) -> list[bool]:
    """Which parts stay: all if they fit, else the first that leave room for the largest of the others."""
    if sum(sizes) <= room:
        return [True] * len(sizes)
    for count in range(len(sizes) - 1, -1, -1):
        if sum(sizes[:count]) + max(sizes[count:]) <= room:
            return [n < count for n in range(len(sizes))]
    return [False] * len(sizes)


def _entry_bytes(tile: Tile, machine: Machine) -> int:
    return -(-len(tile.columns.codes) * machine.entry_bits // 8)


def host_cycles(data_bytes: int, machine: Machine) -> int:
    """How long the host interface (the CCU in I/O mode) takes to move that much."""
    return -(-8 * data_bytes // machine.host_bits)
