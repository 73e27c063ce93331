"""Encodings: how a constant is held in less room than its elements take.

In: codes, the values they stand for, and for sparse ones the gaps between them. Out: the elements. `compress`
makes them, the ONNX reader attaches them to constants, the generators of contractions compute on them, and
`eie` feeds them to the accelerator. Everything else sees the elements that `decode` returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ingot.formula.expr import Array

MOST_BITS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Codebook:
    """Weight sharing: each element is a code, and the codes number the values (Han et al., "Deep
    Compression", arXiv:1510.00149, section 3).

    `codes`: uint8 of the tensor's shape, each below `len(values)`. `values`: float32 [2 ** bits]; int8 where
    the constant is these, cast.
    """

    codes: Array
    values: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.codes.shape)

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return _bits(self.values)

    def dense(self) -> Codebook:
        """The constant with a code for every element: itself."""
        return self

    def decode(self) -> Array:
        """The elements: of `shape`, and of the values' type."""
        return self.values[self.codes]

    def check(self) -> None:
        """Raises ValueError where the codes do not fit the values."""
        _check_codes(self.codes, self.values)


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """Pruning and weight sharing: the non-zeros of the flattened tensor in row-major order, each with the
    number of zeros before it (the same paper, section 2 and figure 2).

    `codes`, `gaps`: uint8 [entries]. `values`: float32 [2 ** bits], the first of them 0.0. A run of more than
    2 ** gap_bits - 1 zeros is bridged by fillers: entries of code 0 with the largest gap.
    """

    shape: tuple[int, ...]
    codes: Array
    gaps: Array
    values: Array
    gap_bits: int

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return _bits(self.values)

    @classmethod
    def of(cls, codes: Array, values: Array, gap_bits: int) -> Sparse:
        """The sparse form of codes of the tensor's shape, among which 0 stands for a zero."""
        flat = codes.reshape(-1)
        at = np.flatnonzero(flat)
        zeros = np.diff(at, prepend=-1) - 1
        reach = 1 << gap_bits
        # A filler covers a whole reach: its gap of zeros and its own place.
        fillers = zeros // reach
        ends = np.cumsum(fillers + 1) - 1
        entries = int(ends[-1]) + 1 if at.size else 0
        gaps = np.full(entries, reach - 1, np.uint8)
        kept = np.zeros(entries, np.uint8)
        gaps[ends] = zeros % reach
        kept[ends] = flat[at]
        return cls(tuple(codes.shape), kept, gaps, values, gap_bits)

    def positions(self) -> Array:
        """Where each entry stands in the flattened tensor: int64 [entries]."""
        return np.cumsum(self.gaps.astype(np.int64) + 1) - 1

    def dense(self) -> Codebook:
        """The same constant with a code for every element."""
        codes = np.zeros(prod(self.shape), np.uint8)
        codes[self.positions()] = self.codes
        return Codebook(codes.reshape(self.shape), self.values)

    def decode(self) -> Array:
        """The elements: float32 of `shape`."""
        return self.dense().decode()

    def check(self) -> None:
        """Raises ValueError where codes, gaps, values and shape do not fit each other."""
        _check_codes(self.codes, self.values)
        if self.codes.shape != self.gaps.shape or self.codes.ndim != 1:
            raise ValueError(f"codes {self.codes.shape} and gaps {self.gaps.shape} should be one list each")
        if not 1 <= self.gap_bits <= MOST_BITS or (self.gaps >> self.gap_bits).any():
            raise ValueError(f"gaps do not fit {self.gap_bits} bits")
        if self.values[0] != 0:
            raise ValueError("the value of code 0 should be 0, for code 0 fills long runs of zeros")
        covered = int(self.gaps.astype(np.int64).sum()) + len(self.gaps)
        if covered > prod(self.shape):
            raise ValueError(f"the entries reach to {covered} of {prod(self.shape)} elements")


Encoding = Codebook | Sparse


def codes_of(array: Array, values: Array) -> Array | None:
    """Which of `values` each element is, to the bit: uint8 of the array's shape; None if one is none of them.

    However a constant was transposed, cut and repeated, its elements still are those of its codebook.
    """
    if array.dtype != values.dtype:
        return None
    bits = f"u{values.dtype.itemsize}"
    table, found = (np.ascontiguousarray(a).view(bits) for a in (values, array))
    order = np.argsort(table, kind="stable")
    at = np.searchsorted(table[order], found)
    codes = order[np.minimum(at, len(values) - 1)].astype(np.uint8)
    return codes if (table[codes] == found).all() else None


def _bits(values: Array) -> int:
    return (len(values) - 1).bit_length()


def _check_codes(codes: Array, values: Array) -> None:
    if values.ndim != 1 or not 2 <= len(values) <= 1 << MOST_BITS or len(values) & (len(values) - 1):
        raise ValueError(f"{len(values)} values, where a power of two up to {1 << MOST_BITS} belongs")
    if codes.size and int(codes.max()) >= len(values):
        raise ValueError(f"code {int(codes.max())} stands for none of the {len(values)} values")
