"""The machine cycle by cycle: what each register holds after every clock edge.

In: a matrix in columns, a codebook and activations as integers. Out: `Steps`: the cycles, the accumulators,
and what happened. Slow and literal, with the registers and handshakes of the hardware: every unit reads what
the registers held before the edge. The tests compare it with `timing` (cycles), `fixed` (bits) and `activity`
(counts).

    scan -> queues -> pointers -> matrix -> weight | address -> product | operand -> sum -> write

A unit of work is a slot: an entry, or the one cycle that an empty part of a column takes. Fillers and empty
slots go through the pipe and write nothing. The end is seen when scan, queues and pipes are empty.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ingot.eie.columns import Columns
from ingot.eie.fixed import Arithmetic, add, scaled
from ingot.eie.machine import Machine
from ingot.formula.expr import Array

NOWHERE = -1


class Slot(NamedTuple):
    """What leaves the pointer unit: the entry's address (NOWHERE if the column is empty), whether it is its
    column's first and last, and the activation.
    """

    address: int
    is_first: bool
    is_last: bool
    activation: int


class Entry(NamedTuple):
    """What leaves the matrix SRAM."""

    code: int
    gap: int
    is_first: bool
    activation: int


class Operands(NamedTuple):
    """A weight and its activation, and the accumulator they are for."""

    weight: int
    activation: int
    place: int
    writes: bool


class Product(NamedTuple):
    """A product and what was read of its accumulator."""

    product: int
    operand: int
    place: int
    writes: bool


class Sum(NamedTuple):
    """What is about to be written."""

    value: int
    place: int
    writes: bool


@dataclass(slots=True)
class Scan:
    """The activation register files and the tree that finds the lowest lane that is not zero."""

    rows: list[list[tuple[int, int]]]  # of each row, what is not zero: lane and activation
    next: int = 0
    pending: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return not self.pending and self.next == len(self.rows)

    def step(self, lanes: int, blocked: bool) -> tuple[int, int] | None:
        """One cycle: the column and activation that are broadcast, if any."""
        if not self.pending:
            self._load()  # found nothing in this row: a bubble
            return None
        if blocked:
            return None
        lane, activation = self.pending.pop(0)
        column = (self.next - 1) * lanes + lane
        if lane == lanes - 1:
            self._load()  # there is nothing behind the last lane to look for
        return column, activation

    def _load(self) -> None:
        if self.next < len(self.rows):
            self.pending = list(self.rows[self.next])
            self.next += 1


@dataclass(slots=True)
class Queue:
    """A ring of which one entry stays free, so that full and empty differ."""

    ring: list[tuple[int, int]]
    read: int = 0
    write: int = 0

    @property
    def is_empty(self) -> bool:
        return self.read == self.write

    @property
    def is_full(self) -> bool:
        return (self.write + 1) % len(self.ring) == self.read

    def push(self, item: tuple[int, int]) -> None:
        self.ring[self.write] = item
        self.write = (self.write + 1) % len(self.ring)

    def pop(self) -> tuple[int, int]:
        item = self.ring[self.read]
        self.read = (self.read + 1) % len(self.ring)
        return item


@dataclass(slots=True)
class Element:
    """One PE: its memories, and its registers named after the stage that reads them."""

    machine: Machine
    arithmetic: Arithmetic
    pointers: Array
    codes: Array
    gaps: Array
    accumulators: list[int]
    queue: Queue
    slot: Slot | None = None
    entry: Entry | None = None
    operands: Operands | None = None
    product: Product | None = None
    sum: Sum | None = None
    end: int = 0
    place: int = NOWHERE
    line: int = NOWHERE
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_idle(self) -> bool:
        units = (self.slot, self.entry, self.operands, self.product, self.sum)
        return self.queue.is_empty and all(unit is None for unit in units)

    def step(self) -> None:
        """One cycle, from the end of the pipe to its start: each unit reads what the one before it held."""
        written = self.sum
        self.sum = self._add(written)
        self.product = self._multiply(written)
        self._write(written)
        self.operands = self._look_up()
        self.entry = self._read_matrix()
        self.slot = self._read_pointers()

    def _write(self, written: Sum | None) -> None:
        if written is not None and written.writes:
            self.accumulators[written.place] = written.value

    def _add(self, written: Sum | None) -> Sum | None:
        p = self.product
        if p is None:
            return None
        operand = p.operand
        if written is not None and written.writes and written.place == p.place:
            operand = written.value  # the accumulator was read one cycle too early
            self.counts["bypasses"] += p.writes
        value = add(operand, scaled(p.product, self.arithmetic.shift), self.arithmetic.bits)
        return Sum(value, p.place, p.writes)

    def _multiply(self, written: Sum | None) -> Product | None:
        o = self.operands
        if o is None:
            return None
        operand = self.accumulators[o.place] if o.writes else 0
        if written is not None and written.writes and written.place == o.place:
            operand = written.value  # a write and a read of one register in one cycle
        return Product(o.weight * o.activation, operand, o.place, o.writes)

    def _look_up(self) -> Operands | None:
        e = self.entry
        if e is None:
            return None
        # A column's first entry counts from the top; an empty slot has no place.
        self.place = e.gap if e.is_first else self.place + e.gap + 1
        writes = e.code != 0
        self.counts["writes"] += writes
        return Operands(int(self.arithmetic.codebook[e.code]), e.activation, self.place, writes)

    def _read_matrix(self) -> Entry | None:
        s = self.slot
        if s is None:
            return None
        if s.address == NOWHERE:
            return Entry(0, 0, True, 0)
        line = s.address // self.machine.line
        self.counts["matrix_reads"] += line != self.line
        self.counts["entries"] += 1
        self.line = line
        return Entry(int(self.codes[s.address]), int(self.gaps[s.address]), s.is_first, s.activation)

    def _read_pointers(self) -> Slot | None:
        s = self.slot
        if s is not None and not s.is_last:
            address = s.address + 1
            return Slot(address, False, address + 1 == self.end, s.activation)
        if self.queue.is_empty:
            return None
        column, activation = self.queue.pop()
        self.counts["pointer_reads"] += 1
        start, self.end = int(self.pointers[column]), int(self.pointers[column + 1])
        if start == self.end:
            return Slot(NOWHERE, True, True, activation)
        return Slot(start, True, start + 1 == self.end, activation)


@dataclass(frozen=True, slots=True)
class Steps:
    """What a run ended with: `accumulators` int64 [rows], counts of all PEs together."""

    cycles: int
    accumulators: Array
    counts: Counter[str]


def run(
    columns: Columns,
    arithmetic: Arithmetic,
    activations: Array,
    machine: Machine,
    initial: Array | None = None,
) -> Steps:
    """The product of a matrix with activations, int64 [cols], to its end.

    `initial`, int64 [rows], is what the accumulators hold before.
    """
    pes, rows = machine.pes, columns.shape[0]
    start = np.zeros(rows, np.int64) if initial is None else initial
    scan = Scan(_rows(activations, pes))
    elements = [
        Element(
            machine,
            arithmetic,
            columns.pointers[k],
            *columns.part(k),
            start[k::pes].tolist(),
            Queue([(0, 0)] * machine.fifo),
        )
        for k in range(pes)
    ]
    cycles, pushed = 1, 0
    while not (scan.is_done and all(e.is_idle for e in elements)):
        sent = scan.step(pes, any(e.queue.is_full for e in elements))
        for element in elements:
            element.step()  # what is sent now is seen from the next cycle on
            if sent is not None:
                element.queue.push(sent)
        pushed += sent is not None
        cycles += 1
    found = np.zeros(rows, np.int64)
    for k, element in enumerate(elements):
        found[k::pes] = element.accumulators
    counts = sum((e.counts for e in elements), Counter[str]())
    counts["queue_writes"] = pushed * pes
    return Steps(cycles, found, counts)


def _rows(activations: Array, pes: int) -> list[list[tuple[int, int]]]:
    rows = [activations[i : i + pes].tolist() for i in range(0, len(activations), pes)]
    return [[(lane, value) for lane, value in enumerate(row) if value] for row in rows]
