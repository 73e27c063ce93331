"""What a host does to have a layer computed: the words it writes, then the start, then what it reads.

In: a layer in columns, its arithmetic, activations. Out: `Command`s, for a driver or for the testbench.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ingot.eie.columns import Columns
from ingot.eie.fixed import Arithmetic
from ingot.eie.machine import Machine
from ingot.eie.memory import POINTER_BITS
from ingot.eie.rtl.sizes import Sizes
from ingot.errors import InputError
from ingot.formula.expr import Array


class Space(IntEnum):
    """What of a PE the host writes; CONTROL is the array's own."""

    MATRIX = 0
    POINTER = 1
    CODEBOOK = 2
    SOURCE = 3
    DESTINATION = 4
    CONTROL = 5


class Control(IntEnum):
    """The registers of the array. START begins with what the others hold."""

    START = 0
    ROWS = 1
    SHIFT = 2
    SWAP = 3
    RELU = 4
    MATRIX_BASE = 5
    COLUMN_BASE = 6


@dataclass(frozen=True, slots=True)
class Command:
    """One word written to `address` of `space` in PE `pe` (None: in all), or with `is_read` the accumulator
    that is read there.
    """

    space: Space
    address: int
    data: int = 0
    pe: int | None = None
    is_read: bool = False


def layer(
    columns: Columns,
    arithmetic: Arithmetic,
    activations: Array,
    machine: Machine,
    initial: Array | None = None,
) -> Iterator[Command]:
    """All that one layer takes from empty memories to its start; `activations` as integers [cols], `initial`,
    int64 [rows], what the accumulators hold before. Raises InputError for what does not fit.
    """
    start = np.zeros(columns.shape[0], np.int64) if initial is None else initial
    yield from loading(columns, arithmetic, machine)
    yield from _spread(Space.SOURCE, activations, machine)
    yield from _spread(Space.DESTINATION, start, machine)
    yield from computing(len(activations), arithmetic.shift, machine)


def tile(
    columns: Columns, arithmetic: Arithmetic, activations: Array, machine: Machine, initial: Array | None
) -> Iterator[Command]:
    """As `layer`, for one of several tiles of the same rows; without `initial` the accumulators stay."""
    yield from loading(columns, arithmetic, machine)
    yield from _spread(Space.SOURCE, activations, machine)
    if initial is not None:
        yield from _spread(Space.DESTINATION, initial, machine)
    yield from computing(len(activations), arithmetic.shift, machine)


def loading(columns: Columns, arithmetic: Arithmetic, machine: Machine) -> Iterator[Command]:
    """The matrix, its pointers and its codebook. Raises InputError for what does not fit."""
    _require_room(columns, arithmetic, machine)
    for pe in range(machine.pes):
        yield from _matrix(columns, machine, pe)
        for column, pointer in enumerate(columns.pointers[pe].tolist()):
            yield Command(Space.POINTER, column, pointer % (1 << POINTER_BITS), pe)
    for code, weight in enumerate(arithmetic.codebook.tolist()):
        yield Command(Space.CODEBOOK, code, weight)


def _spread(space: Space, values: Array, machine: Machine) -> Iterator[Command]:
    """Values over the PEs, whose last row is filled with zeros: the scan looks at all its lanes."""
    rows = -(-len(values) // machine.pes)
    padded = np.zeros(rows * machine.pes, np.int64)
    padded[: len(values)] = values
    for number, value in enumerate(padded.tolist()):
        yield Command(space, number // machine.pes, value, number % machine.pes)


def computing(
    length: int, shift: int, machine: Machine, swap: bool = False, relu: bool = False
) -> Iterator[Command]:
    """The control registers, and the start."""
    values = {
        Control.ROWS: -(-length // machine.pes),
        Control.SHIFT: shift,
        Control.SWAP: int(swap),
        Control.RELU: int(relu),
        Control.MATRIX_BASE: 0,
        Control.COLUMN_BASE: 0,
        Control.START: 1,
    }
    for register, value in values.items():
        yield Command(Space.CONTROL, register, value)


def reading(rows: int, machine: Machine) -> Iterator[Command]:
    """The accumulators, row after row."""
    for row in range(rows):
        yield Command(Space.DESTINATION, row // machine.pes, pe=row % machine.pes, is_read=True)


def _matrix(columns: Columns, machine: Machine, pe: int) -> Iterator[Command]:
    codes, gaps = columns.part(pe)
    entries = codes.astype(np.uint64) | gaps.astype(np.uint64) << np.uint64(machine.code_bits)
    padded = np.zeros(-(-len(entries) // machine.line) * machine.line, np.uint64)
    padded[: len(entries)] = entries
    shifts = np.arange(machine.line, dtype=np.uint64) * np.uint64(machine.entry_bits)
    lines = np.bitwise_or.reduce(padded.reshape(-1, machine.line) << shifts, axis=1)
    for address, line in enumerate(lines.tolist()):
        yield Command(Space.MATRIX, address, line, pe)


def _require_room(columns: Columns, arithmetic: Arithmetic, machine: Machine) -> None:
    sizes, (rows, cols) = Sizes(machine), columns.shape
    needs = {
        "entries of the matrix": (int(columns.pointers[:, -1].max(initial=0)), sizes.lines * machine.line),
        "entries that a pointer reaches": (int(columns.pointers[:, -1].max(initial=0)), 1 << POINTER_BITS),
        "pointers": (cols + 1, sizes.pointers),
        "activations": (cols, machine.batch),
        "accumulators": (rows, machine.batch),
    }
    for what, (wanted, most) in needs.items():
        if wanted > most:
            raise InputError(f"{wanted} {what}, where the hardware has room for {most}")
    if arithmetic.shift < 0:
        raise InputError("the hardware shifts products to the right only; give sums fewer binary places")
