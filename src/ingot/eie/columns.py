"""The encoder: a matrix of codes as interleaved compressed columns, one list of entries per PE.

In: codes of a matrix [rows, cols], where 0 stands for zero. Out: `Columns`. Row i belongs to PE i mod N; each
PE keeps its part of every column as entries of a code and the number of zeros before it, counted within the
PE's part and from the start of the column; more zeros than a gap can say are bridged by fillers: code 0 with
the largest gap (section III of the paper). The models of function and timing read these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ingot.errors import InputError
from ingot.formula.expr import Array


@dataclass(frozen=True, eq=False)
class Columns:
    """A matrix in the accelerator's form.

    `codes`, `gaps`: uint8 [entries], PE after PE, column after column. `pointers`: int64 [pes, cols + 1],
    where each column of a PE begins within the PE's entries, fillers counted.
    """

    shape: tuple[int, int]
    codes: Array
    gaps: Array
    pointers: Array
    gap_bits: int

    @property
    def pes(self) -> int:
        return len(self.pointers)

    @cached_property
    def lengths(self) -> Array:
        """Entries of each column in each PE, fillers counted: int64 [pes, cols]."""
        return np.diff(self.pointers, axis=1)

    @cached_property
    def starts(self) -> Array:
        """Where the entries of each PE begin: int64 [pes + 1]."""
        return np.concatenate(([0], np.cumsum(self.pointers[:, -1])))

    @property
    def fillers(self) -> int:
        """Entries that only bridge zeros."""
        return int(np.count_nonzero(self.codes == 0))

    def part(self, pe: int) -> tuple[Array, Array]:
        """Codes and gaps of one PE."""
        own = slice(self.starts[pe], self.starts[pe + 1])
        return self.codes[own], self.gaps[own]

    @cached_property
    def places(self) -> tuple[Array, Array]:
        """Row and column of each entry (fillers too): int64 [entries] twice."""
        counts = self.lengths.reshape(-1)
        segment = np.repeat(np.arange(counts.size), counts)
        before = np.concatenate(([0], np.cumsum(self.gaps.astype(np.int64) + 1)))
        first = np.concatenate(([0], np.cumsum(counts)))[:-1]
        local = before[1:] - before[first][segment] - 1
        pe, column = np.divmod(segment, self.shape[1])
        return local * self.pes + pe, column

    def dense(self) -> Array:
        """The codes as a matrix again: uint8 of `shape`."""
        out = np.zeros(self.shape, np.uint8)
        row, column = self.places
        kept = self.codes != 0
        out[row[kept], column[kept]] = self.codes[kept]
        return out


def encode(codes: Array, pes: int, gap_bits: int = 4) -> Columns:
    """The columns of `codes`, uint8 [rows, cols], for that many PEs. Raises InputError for other arrays."""
    if codes.ndim != 2 or codes.dtype != np.uint8:
        raise InputError(
            f"codes of a matrix are uint8 with two axes, not {codes.dtype}", shapes=[codes.shape]
        )
    turned = np.ascontiguousarray(codes.T).reshape(-1)
    at = np.flatnonzero(turned)
    return encode_sorted(codes.shape, at, turned[at], pes, gap_bits)


def encode_sorted(shape: tuple[int, ...], at: Array, codes: Array, pes: int, gap_bits: int = 4) -> Columns:
    """As `encode`, of the non-zeros alone.

    `at`: int64 [n], ascending, column * rows + row of each. `codes`: uint8 [n], none of them 0.
    """
    rows, cols = int(shape[0]), int(shape[1])
    column, row = np.divmod(at, max(rows, 1))
    local, pe = np.divmod(row, pes)
    # A stable sort of small integers counts them: the order within a PE stays.
    order = np.argsort(pe.astype(np.uint16), kind="stable")
    segment, local = (pe * cols + column)[order], local[order]
    before = np.concatenate(([-1], local[:-1]))
    before[np.diff(segment, prepend=-1) != 0] = -1
    zeros = local - before - 1
    reach = 1 << gap_bits
    fillers = zeros // reach
    ends = np.cumsum(fillers + 1) - 1
    entries = int(ends[-1]) + 1 if ends.size else 0
    gaps, kept = np.full(entries, reach - 1, np.uint8), np.zeros(entries, np.uint8)
    gaps[ends], kept[ends] = zeros % reach, codes[order]
    counts = np.bincount(segment, minlength=pes * cols) + _sums(segment, fillers, pes * cols)
    pointers = np.zeros((pes, cols + 1), np.int64)
    np.cumsum(counts.reshape(pes, cols), axis=1, out=pointers[:, 1:])
    return Columns((rows, cols), kept, gaps, pointers, gap_bits)


def _sums(segment: Array, values: Array, size: int) -> Array:
    """The sum of the values of each segment; most are 0."""
    some = np.flatnonzero(values)
    return np.bincount(segment[some], values[some], minlength=size).astype(np.int64)


def joined(shape: tuple[int, int], parts: Sequence[tuple[Array, Array, Array]], gap_bits: int = 4) -> Columns:
    """Columns from what each PE's memories hold: codes, gaps, and pointers [cols + 1] from 0 on.

    Raises InputError where these do not fit each other or the shape.
    """
    codes, gaps = (np.concatenate([part[n] for part in parts]).astype(np.uint8) for n in (0, 1))
    pointers = np.array([part[2] for part in parts], np.int64)
    counts = [len(part[0]) for part in parts]
    fits = pointers.shape == (len(parts), shape[1] + 1) and codes.shape == gaps.shape
    if not fits or (pointers[:, -1] != counts).any() or (pointers[:, 0] != 0).any():
        raise InputError(f"the pointers do not fit {sum(counts)} entries in {shape[1]} columns")
    made = Columns(shape, codes, gaps, pointers, gap_bits)
    if (made.lengths < 0).any() or int(made.places[0].max(initial=-1)) >= shape[0]:
        raise InputError(f"the entries leave their {shape[0]} rows, or pointers go back")
    return made


def with_bias(codes: Array, bias: Array, pes: int) -> Array:
    """The matrix with its bias as one more column, whose activation is 1.

    It follows the last whole row of activations: column ceil(cols / pes) * pes; those before it are empty.
    """
    rows, cols = codes.shape
    if bias.shape != (rows,):
        raise InputError("a bias has one code per row", shapes=[codes.shape, bias.shape])
    out = np.zeros((rows, bias_column(cols, pes) + 1), np.uint8)
    out[:, :cols], out[:, -1] = codes, bias
    return out


def bias_column(cols: int, pes: int) -> int:
    """The column that holds the bias of a matrix with that many columns."""
    return -(-cols // pes) * pes


def with_one(activations: Array, cols: int) -> Array:
    """The activations of a matrix made by `with_bias` with that many columns: zeros, then a one."""
    out = np.zeros(cols, activations.dtype)
    out[: len(activations)], out[-1] = activations, 1
    return out
