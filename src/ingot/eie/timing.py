"""How many cycles a product takes, by the published recurrence, for any size of layer in milliseconds.

In: the entries that each broadcast column has in each PE, and where the columns stand. Out: a `Timing`. The
sweep and the tables of the paper call it. `ingot.eie.steps` computes the same by moving state from cycle to
cycle; the tests hold the two equal.

With s[j][k] = max(1, entries of broadcast j in PE k), broadcast j leaves the scan in cycle P[j] and PE k
takes it from its queue in cycle L[k][j]:

    P[j] = max(P[j-1] + 1 + bubble(j), max_k L[k][j - waiting] + 1)
    L[k][j] = max(P[j] + 1, L[k][j-1] + s[j-1][k])
    cycles = max_k(L[k][J-1] + s[J-1][k]) + 5

bubble(j) is the number of rows of activations the scan goes forward before it, less one where the broadcast
before stood in the last lane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ingot.eie.columns import Columns
from ingot.eie.machine import Machine
from ingot.formula.expr import Array

DRAIN = 5  # from the last entry's turn in the pointer unit to its write


@dataclass(frozen=True, slots=True)
class Timing:
    """`entries` are those of the broadcast columns, fillers counted; `slots` counts one for an empty part of
    a column too. `busiest` is the least that any queue could reach: the PE with most slots, by itself.
    """

    pes: int
    cycles: int
    broadcasts: int
    entries: int
    slots: int
    busiest: int

    @property
    def theoretical(self) -> float:
        """Cycles if the entries were spread evenly and nobody waited."""
        return self.entries / self.pes

    @property
    def balance(self) -> float:
        """The share of cycles in which a PE computes, "load balance" in the paper."""
        return self.theoretical / self.cycles if self.cycles else 1.0


def broadcasts(activations: Array) -> Array:
    """The columns whose activation is not zero, in the order in which they are broadcast."""
    return np.flatnonzero(activations)


def time(columns: Columns, activations: Array, machine: Machine) -> Timing:
    """The product of a matrix with activations [cols]."""
    at = broadcasts(activations)
    return time_lengths(columns.lengths[:, at], at, len(activations), machine)


def time_lengths(lengths: Array, at: Array, length: int, machine: Machine) -> Timing:
    """As `time`: `lengths` are the entries [pes, broadcasts] of the columns `at`, of `length` columns."""
    slots = np.maximum(lengths.T, 1)
    own = slots.sum(axis=0)
    return Timing(
        machine.pes,
        _cycles(np.ascontiguousarray(slots), at, length, machine),
        len(at),
        int(lengths.sum()),
        int(own.sum()),
        int(own.max(initial=0)),
    )


def _cycles(slots: Array, at: Array, length: int, machine: Machine) -> int:
    rows = -(-length // machine.pes)
    if not len(at):
        return rows + 1  # the scan alone
    row, lane = np.divmod(at, machine.pes)
    is_last = lane == machine.pes - 1
    bubbles = np.diff(row, prepend=0)
    bubbles[1:] -= is_last[:-1] & (bubbles[1:] > 0)
    done = 1  # the first row is loaded
    free = np.zeros(machine.pes, np.int64)  # when each PE can take the next column
    taken = np.empty(len(at), np.int64)  # when the last PE took a column
    waiting = machine.waiting
    for j, bubble in enumerate(bubbles.tolist()):
        done += 1 + bubble
        if j >= waiting:
            done = max(done, int(taken[j - waiting]) + 1)
        np.maximum(free, done + 1, out=free)
        taken[j] = free.max()
        free += slots[j]
    # Rows of zeros behind the last broadcast are scanned too; a layer with a bias has none.
    scanned = done + rows - int(row[-1]) - int(is_last[-1])
    return max(int(free.max()) + DRAIN, scanned)
