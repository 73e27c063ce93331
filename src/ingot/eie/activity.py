"""What a product makes the parts of the machine do, counted without moving them.

In: a matrix in columns and activations. Out: `Activity`, which the energy model weighs. The tests hold it
equal to what `ingot.eie.steps` counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ingot.eie.columns import Columns
from ingot.eie.machine import Machine
from ingot.eie.timing import broadcasts
from ingot.formula.expr import Array


@dataclass(frozen=True, slots=True)
class Activity:
    """Counts of all PEs together. `writes` are the entries that are no fillers."""

    queue_writes: int
    pointer_reads: int
    matrix_reads: int
    entries: int
    writes: int

    def __add__(self, other: Activity) -> Activity:
        return Activity(
            self.queue_writes + other.queue_writes,
            self.pointer_reads + other.pointer_reads,
            self.matrix_reads + other.matrix_reads,
            self.entries + other.entries,
            self.writes + other.writes,
        )


NOTHING = Activity(0, 0, 0, 0, 0)


def activity(columns: Columns, activations: Array, machine: Machine) -> Activity:
    """The counts of the product of a matrix with activations [cols]."""
    at = broadcasts(activations)
    begin, end = columns.pointers[:, at], columns.pointers[:, at + 1]
    used = (activations != 0)[columns.places[1]]
    pushed = len(at) * machine.pes
    return Activity(
        queue_writes=pushed,
        pointer_reads=pushed,
        matrix_reads=line_reads(begin, end, machine.line),
        entries=int((end - begin).sum()),
        writes=int(np.count_nonzero(columns.codes[used])),
    )


def line_reads(begin: Array, end: Array, line: int) -> int:
    """Reads of the matrix SRAM for columns that begin and end at these entries, int64 [pes, columns].

    The last line stays in a buffer; addresses grow from column to column.
    """
    if not begin.size:
        return 0
    some = end > begin
    first, last = begin // line, np.where(some, (end - 1) // line, -1)
    before = np.maximum.accumulate(np.pad(last, ((0, 0), (1, 0)), constant_values=-1), axis=1)[:, :-1]
    return int(np.where(some, last - first + 1 - (first == before), 0).sum())
