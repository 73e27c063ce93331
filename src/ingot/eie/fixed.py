"""The functional model: what the accelerator computes, to the bit, in fixed point.

In: a matrix in columns, its codebook, activations. Out: accumulators as integers. `ingot eie run` compares
them with the float model; `ingot.eie.steps` computes the same slot by slot.

Weights, activations and accumulators are integers of `bits` (16 in the paper) with a number of binary places
each, chosen per layer. A product has twice the bits; it is shifted to the accumulator's places, a half
rounding up, and added with saturation. A row's products are added in the order of the columns, so the result
does not depend on the timing. The codebook's first value is 0; its entries are never added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ingot.eie.columns import Columns
from ingot.formula.expr import Array


@dataclass(frozen=True, slots=True, eq=False)
class Arithmetic:
    """How one layer computes: its codebook as integers [16], the bits of a number, and the places behind the
    binary point of weights, activations and sums.
    """

    codebook: Array
    bits: int
    weight_places: int
    activation_places: int
    sum_places: int

    @property
    def shift(self) -> int:
        """How far a product is shifted right before it is added; left if negative.

        By all its bits at most: beside a bias that large, products are zero.
        """
        return min(self.weight_places + self.activation_places - self.sum_places, 2 * self.bits - 1)


def places(largest: float, bits: int) -> int:
    """The most binary places with which numbers up to `largest` fit into that many bits."""
    return bits - 1 - (math.frexp(largest)[1] if largest > 0 else 0)


def limit(bits: int) -> int:
    """The largest number of that many bits; the smallest is one further from 0."""
    return int((1 << (bits - 1)) - 1)


def quantise(x: Array, count: int, bits: int) -> Array:
    """Numbers as integers with that many binary places, rounded to the nearest, saturated: int64."""
    rounded = np.rint(np.ldexp(np.asarray(x, np.float64), count))
    return np.clip(rounded, -limit(bits) - 1, limit(bits)).astype(np.int64)


def real(x: Array, count: int) -> Array:
    """What integers with that many binary places stand for: float64."""
    return np.ldexp(x.astype(np.float64), -count)


def scaled(product: int, shift: int) -> int:
    """A product with the accumulator's binary places; halves round up."""
    return (product + (1 << (shift - 1))) >> shift if shift > 0 else product << -shift


def add(x: int, y: int, bits: int) -> int:
    """The sum, saturated."""
    return min(max(x + y, -limit(bits) - 1), limit(bits))


def arrange(
    columns: Columns,
    codebook: Array,
    activations: Array,
    bits: int = 16,
    initial: Array | None = None,
    activation_places: int | None = None,
    headroom: int = 1,
) -> Arithmetic:
    """Binary places for a layer, from activations it is to expect (float [cols], or [samples, cols]).

    Sums get the places with which the largest partial sum of these activations, in the order in which it
    comes about, fits with `headroom` bits to spare. `activation_places` is given where another layer made
    the activations.
    """
    samples = np.atleast_2d(activations)
    if activation_places is None:
        activation_places = places(float(np.abs(samples).max(initial=0)), bits)
    weight_places = places(float(np.abs(codebook).max()), bits)
    largest = max((_largest_partial(columns, codebook, a, initial) for a in samples), default=0.0)
    sum_places = min(places(largest, bits) - headroom, weight_places + activation_places)
    whole = quantise(codebook, weight_places, bits)
    return Arithmetic(whole, bits, weight_places, activation_places, sum_places)


def _largest_partial(columns: Columns, codebook: Array, a: Array, initial: Array | None) -> float:
    row, terms = _terms(columns, np.asarray(codebook, np.float64), np.asarray(a, np.float64))
    order = np.argsort(row, kind="stable")
    row, running = row[order], np.cumsum(terms[order])
    start = np.zeros(columns.shape[0]) if initial is None else np.asarray(initial, np.float64)
    if not row.size:
        return float(np.abs(start).max(initial=0))
    first = np.diff(row, prepend=-1) != 0
    base = (running - terms[order])[first][np.cumsum(first) - 1]
    partial = np.abs(running - base + start[row]).max()
    return max(float(partial), float(np.abs(start).max()))


def _terms(columns: Columns, codebook: Array, a: Array) -> tuple[Array, Array]:
    """Row and product of every weight that meets an activation, in the order of the columns of each PE."""
    row, column = columns.places
    used = (a != 0)[column] & (columns.codes != 0)
    return row[used], codebook[columns.codes[used]] * a[column[used]]


def product(
    columns: Columns, arithmetic: Arithmetic, activations: Array, initial: Array | None = None
) -> Array:
    """The accumulators after the product with activations as integers [cols]: int64 [rows].

    `initial`, int64 [rows], is what they held before: a bias, or the batches before this one.
    """
    row, terms = _terms(columns, arithmetic.codebook, activations)
    shift = arithmetic.shift
    terms = (terms + (1 << (shift - 1))) >> shift if shift > 0 else terms << -shift
    sums = np.zeros(columns.shape[0], np.int64) if initial is None else initial.astype(np.int64)
    # Whatever the order, a row whose magnitudes fit saturates nowhere.
    reach = np.abs(sums)
    np.add.at(reach, row, np.abs(terms))
    doubtful = reach > limit(arithmetic.bits)
    plain = ~doubtful[row]
    np.add.at(sums, row[plain], terms[plain])
    if doubtful.any():
        _add_in_order(sums, row[~plain], terms[~plain], arithmetic.bits)
    return sums


def _add_in_order(sums: Array, row: Array, terms: Array, bits: int) -> None:
    """Adds the terms one by one, the first of every row at once, then all the second ones, and so on."""
    order = np.argsort(row, kind="stable")
    row, terms = row[order], terms[order]
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    turn = np.arange(row.size) - np.repeat(begins, np.diff(np.append(begins, row.size)))
    order = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn))
    for part in np.split(order, ends[:-1]):
        at = row[part]
        sums[at] = np.clip(sums[at] + terms[part], -limit(bits) - 1, limit(bits))


def relu(x: Array) -> Array:
    """What a layer's accumulators are as the next layer's activations."""
    return np.maximum(x, 0)
