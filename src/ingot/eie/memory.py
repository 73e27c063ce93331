"""Where a model lies in the SRAMs, and what the host must bring.

In: the layers in columns. Out: `Placement`. A pointer has 16 bits, 13 of a row of the matrix SRAM and 3 of
an entry: half of that SRAM, and its own SRAM holds 16,384 pointers where AlexNet's dense layers have 17,411
and VGG-16's 33,283. So a layer is cut into tiles, its pointers counted from each tile's base: at most as many
columns as the register files hold activations, as many rows as they hold sums, and as many entries as a
pointer tells apart.

Entries of all tiles follow each other without holes; each PE has a base register, which its last pointer
moves on to the next tile. Of tiles whose pointers find no room only the lengths of columns are kept, as
digits of four or eight bits; they are added up into a buffer in the pointer SRAM before the tile runs. What
finds no room at all is brought by the host for every run, into the place behind what stays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ingot.eie.columns import Columns, encode_sorted
from ingot.eie.machine import Machine
from ingot.errors import InputError
from ingot.formula.expr import Array

POINTER_BITS = 16
CODEBOOK_BYTES = 32
DIGIT_BITS = (4, 8)
DIGITS_PER_CYCLE = 2
"""That the unit which expands lengths takes: a pointer for each bank."""


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

    @property
    def entries(self) -> Array:
        """Entries of each PE: int64 [pes]."""
        own: Array = self.columns.pointers[:, -1]
        return own


@dataclass(frozen=True, slots=True)
class Way:
    """How a tile's pointers are kept, by `kind`: "own" in their SRAM; "packed" as digits of `digit_bits`,
    `size` bytes in the SRAM `home` ("matrix" or "pointers"), which take `cycles` to expand; "host" nowhere.
    """

    kind: str
    digit_bits: int = 0
    home: str = ""
    size: int = 0
    cycles: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where a tile lies. `base`: its first entry in each PE, int64 [pes], of the matrix SRAM if
    `is_resident`: its entries stay there from run to run.
    """

    tile: Tile
    base: Array
    is_resident: bool
    way: Way


@dataclass(frozen=True, slots=True)
class Placement:
    """All tiles in the order in which they run.

    `entries`, `pointers`: of a PE, the most of any. `matrix_bytes`, `pointer_bytes`: what is used of both
    SRAMs. `loaded_bytes` is what the host brings once, `streamed_bytes` what it brings for every run;
    `move_cycles` is the time to expand packed pointers.
    """

    placed: tuple[Placed, ...]
    entries: int
    pointers: int
    matrix_bytes: int
    pointer_bytes: int
    loaded_bytes: int
    streamed_bytes: int
    move_cycles: int

    @property
    def fits(self) -> bool:
        return not self.streamed_bytes

    @property
    def packed(self) -> int:
        """Tiles whose pointers are kept as lengths."""
        return sum(p.way.kind == "packed" for p in self.placed)


def tiles(layers: list[Columns], machine: Machine) -> list[Tile]:
    """Every layer in tiles."""
    return [t for n, layer in enumerate(layers) for t in _tiles(n, layer, machine)]


def _tiles(number: int, layer: Columns, machine: Machine) -> Iterator[Tile]:
    rows, cols = layer.shape
    reach = min(1 << POINTER_BITS, machine.matrix_bytes * 8 // machine.entry_bits)
    # Batches alike in width: the buffer for expanded pointers is as large as the largest.
    lanes = -(-cols // machine.pes)
    most = -(-lanes // max(1, -(-lanes // machine.registers))) * machine.pes
    for row in range(0, rows, machine.batch):
        block = _rows(layer, row, min(row + machine.batch, rows)) if rows > machine.batch else layer
        column = 0
        while column < cols:
            limit = block.pointers[:, column] + reach - 1
            ends = [
                int(np.searchsorted(p, e, "right")) - 1 for p, e in zip(block.pointers, limit, strict=True)
            ]
            end = min(*ends, column + most, cols)
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


def digits(lengths: Array, bits: int) -> Array:
    """Lengths as digits of so many bits, uint8: the largest digit stands for itself and the digits after it.

    15 is then 15 and 0, and 31 is 15, 15 and 1.
    """
    top = (1 << bits) - 1
    out = np.full(int((lengths // top + 1).sum()), top, np.uint8)
    out[np.cumsum(lengths // top + 1) - 1] = lengths % top
    return out


def expanded(found: Array, bits: int) -> Array:
    """The pointers that digits stand for, from 0 on: int64."""
    sums = np.cumsum(found.astype(np.int64))
    return np.concatenate(([0], sums[found != (1 << bits) - 1]))


def place(parts: Sequence[Tile], machine: Machine) -> Placement:
    """Bases for all tiles, and what of them stays."""
    stays = _resident(parts, machine)
    matrix = _matrix_bytes(parts, stays, machine)
    ways = _ways(parts, stays, machine.matrix_bytes - matrix, machine)
    base, placed = np.zeros(machine.pes, np.int64), []
    behind = sum((t.entries for t, s in zip(parts, stays, strict=True) if s), base)
    for part, is_resident, way in zip(parts, stays, ways, strict=True):
        placed.append(Placed(part, base if is_resident else behind, is_resident, way))
        base = base + part.entries * is_resident
    loaded = sum(loaded_bytes(p, machine) for p in placed)
    streamed = sum(_entry_bytes(p.tile, machine) for p in placed if not p.is_resident)
    streamed += sum(_pointer_bytes(p, machine) for p in placed if p.way.kind == "host")
    return Placement(
        placed=tuple(placed),
        entries=int(np.max(sum((t.entries for t in parts), np.zeros(machine.pes, np.int64)))),
        pointers=sum(t.pointers for t in parts),
        matrix_bytes=matrix + sum(w.size for w in ways if w.home == "matrix"),
        pointer_bytes=_pointer_sram(parts, ways),
        loaded_bytes=loaded + CODEBOOK_BYTES * machine.pes * len({t.layer for t in parts}),
        streamed_bytes=streamed,
        move_cycles=sum(w.cycles for w in ways),
    )


def _resident(parts: Sequence[Tile], machine: Machine) -> list[bool]:
    """Which tiles' entries stay: all if they fit, else all but the smallest, which leave room for one."""
    stays, room = [True] * len(parts), machine.matrix_bytes * 8 // machine.entry_bits
    left = sum((t.entries for t in parts), np.zeros(machine.pes, np.int64))
    largest = 0
    for n in sorted(range(len(parts)), key=lambda n: int(parts[n].entries.max())):
        if left.max() + largest <= room:
            break
        stays[n], left = False, left - parts[n].entries
        largest = int(parts[n].entries.max())  # those that go share the room of the largest of them
    return stays


def _matrix_bytes(parts: Sequence[Tile], stays: Sequence[bool], machine: Machine) -> int:
    """What entries take of a matrix SRAM, in whole lines; what is brought has room for the largest."""
    left = np.zeros(machine.pes, np.int64)
    largest = 0
    for part, is_resident in zip(parts, stays, strict=True):
        left += part.entries * is_resident
        largest = max(largest, 0 if is_resident else int(part.entries.max()))
    return -(-int(left.max() + largest) // machine.line) * machine.sram_width // 8


def _ways(parts: Sequence[Tile], stays: Sequence[bool], spare: int, machine: Machine) -> list[Way]:
    """Where pointers are kept, in the way that costs fewest cycles; `spare` bytes of matrix SRAM are free."""
    forms = {n: form for n, s in enumerate(stays) if s and (form := _packed(parts[n])) is not None}
    order = sorted(forms, key=lambda n: parts[n].pointers)
    best: _Packing | None = None
    for turned in (order, order[::-1]):
        for made in _packings(parts, stays, turned, forms, spare, machine):
            if best is None or made.score < best.score:
                best = made
    if best is None:
        return [Way("host") for _ in parts]
    ways = [Way("own") if s else Way("host") for s in stays]
    for n in best.order[: best.count]:
        ways[n] = replace(forms[n], home="matrix")
    for n in best.spilled[: best.spilled_count]:
        ways[n] = Way("host")
    for low, high in best.kept:
        for n in best.spilled[low:high]:
            ways[n] = replace(forms[n], home="pointers")
    return ways


@dataclass(frozen=True, slots=True)
class _Packing:
    """The first `count` tiles of `order` are packed; the first `spilled_count` of `spilled`, which spare rows
    of the matrix SRAM do not hold, only in the ranges `kept`. `score`: bytes of pointers that the host
    brings, then cycles.
    """

    score: tuple[int, int]
    order: Sequence[int]
    count: int
    spilled: Sequence[int]
    spilled_count: int
    kept: Sequence[tuple[int, int]]


def _packings(
    parts: Sequence[Tile],
    stays: Sequence[bool],
    order: Sequence[int],
    forms: Mapping[int, Way],
    spare: int,
    machine: Machine,
) -> Iterator[_Packing]:
    """The first tiles of `order` packed, more and more: into spare rows of the matrix SRAM, else into the
    pointer SRAM, else left out. The last one leaves none out: after it there are only more cycles.
    """
    sizes = [2 * t.pointers for t in parts]
    away = [size for size, s in zip(sizes, stays, strict=True) if not s]
    brought, buffer = sum(away), max(away, default=0)
    room = machine.pointer_bytes - sum(sizes) + brought
    inside, spill = 0, _Spill()
    for count in range(len(order) + 1):
        if count:
            n = order[count - 1]
            form = forms[n]
            room, buffer = room + sizes[n], max(buffer, sizes[n])
            if form.size <= spare:
                spare, inside = spare - form.size, inside + form.cycles
            else:
                spill.add(n, sizes[n], form)
        if room < buffer:
            continue
        kept = spill.kept(room - buffer)
        left = spill.own[-1] - sum(spill.own[high] - spill.own[low] for low, high in kept)
        cycles = inside + sum(spill.cycles[high] - spill.cycles[low] for low, high in kept)
        score = brought + left, cycles
        yield _Packing(score, order, count, spill.tiles, len(spill.tiles), kept)
        if not left:
            break


@dataclass(slots=True)
class _Spill:
    """What is to be packed into the pointer SRAM: tiles, and running sums from 0 on of the bytes they take
    packed, of those of their pointers, and of cycles."""

    tiles: list[int] = field(default_factory=list)
    packed: list[int] = field(default_factory=lambda: [0])
    own: list[int] = field(default_factory=lambda: [0])
    cycles: list[int] = field(default_factory=lambda: [0])
    least: int = 0

    def add(self, n: int, own: int, form: Way) -> None:
        self.least = min(self.least, form.size) if self.tiles else form.size
        self.tiles.append(n)
        self.packed.append(self.packed[-1] + form.size)
        self.own.append(self.own[-1] + own)
        self.cycles.append(self.cycles[-1] + form.cycles)

    def kept(self, room: int) -> list[tuple[int, int]]:
        """Ranges of the tiles that so many bytes hold, where each is taken that still fits."""
        found, low = [], 0
        while low < len(self.tiles) and room >= self.least:
            high = bisect_right(self.packed, self.packed[low] + room) - 1
            if high > low:
                found.append((low, high))
                room -= self.packed[high] - self.packed[low]
            low = high + 1  # the one there does not fit
        return found


def _packed(part: Tile) -> Way | None:
    """The lengths of a tile's columns as digits of the width that takes least room, if less than pointers."""
    best = None
    for bits in DIGIT_BITS:
        count = int((part.columns.lengths // ((1 << bits) - 1) + 1).sum(axis=1).max(initial=0))
        size = -(-count * bits // 64) * 8
        if size < 2 * part.pointers and (best is None or size < best.size):
            best = Way("packed", bits, size=size, cycles=-(-count // DIGITS_PER_CYCLE))
    return best


def _pointer_sram(parts: Sequence[Tile], ways: Sequence[Way]) -> int:
    """Bytes of a pointer SRAM: own pointers, lengths, and a buffer for the largest tile without its own."""
    own = sum(2 * t.pointers for t, w in zip(parts, ways, strict=True) if w.kind == "own")
    buffer = max((2 * t.pointers for t, w in zip(parts, ways, strict=True) if w.kind != "own"), default=0)
    return own + buffer + sum(w.size for w in ways if w.home == "pointers")


def _entry_bytes(tile: Tile, machine: Machine) -> int:
    return -(-len(tile.columns.codes) * machine.entry_bits // 8)


def _pointer_bytes(p: Placed, machine: Machine) -> int:
    return machine.pes * (p.way.size if p.way.kind == "packed" else 2 * p.tile.pointers)


def loaded_bytes(p: Placed, machine: Machine) -> int:
    """What the host brings of a tile, for all PEs: entries, and pointers or lengths."""
    return _entry_bytes(p.tile, machine) + _pointer_bytes(p, machine)


def host_cycles(data_bytes: int, machine: Machine) -> int:
    """How long the host interface (the CCU in I/O mode) takes to move that much."""
    return -(-8 * data_bytes // machine.host_bits)
