"""Beyond the paper: which rows a PE gets, and in which order columns come, chosen when a model is compiled.

In: the non-zeros of layers. Out: permutations. All activations are taken to be zero as often: those that are
then measured must not be known before. The paper gives row i to PE i mod N. Here the rows with the most work
are dealt out first, each to the PE with the least so far, so that PEs have equal work; a PE's densest rows
come first, so that the ends of its columns hold fewer entries and need fewer fillers. The permutation of a
layer's rows becomes one of the next layer's columns; the host undoes the last one. Columns that the host
brings may come in any order: one is chosen in which no PE falls behind for long. `ingot eie run --balance`
and `ingot eie paper` use both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ingot.eie.columns import encode
from ingot.eie.layers import Product
from ingot.formula.expr import Array

WINDOW = 64
"""How many columns are looked at to choose the next."""


@dataclass(frozen=True, slots=True, eq=False)
class Balanced:
    """Products with rows and columns in their new order, their activations, and for each what its rows are
    by their old numbers.
    """

    products: list[Product]
    activations: dict[int, Array]
    rows: list[Array]

    def places(self, labels: Array) -> Array:
        """The new numbers of rows of the last product."""
        made: Array = np.argsort(self.rows[-1])[labels]
        return made


def row_order(work: Array, pes: int) -> Array:
    """The rows by their old numbers, int64 [rows]: row i of the new order belongs to PE i mod pes.

    `work`: float64 [rows], the entries that a row is expected to have in active columns.
    """
    rows = len(work)
    waiting = np.argsort(-work, kind="stable")
    load = np.zeros(pes)
    order = np.empty(rows, np.int64)
    for begin in range(0, rows, pes):
        part = waiting[begin : begin + pes]
        # The last round fills the first PEs only.
        eager = np.argsort(load[: len(part)], kind="stable")
        order[begin + eager] = part
        load[eager] += work[part]
    return order


def column_order(lengths: Array, active: Array) -> Array:
    """The columns by their old numbers, int64 [cols].

    `lengths`: entries of each column in each PE, [pes, cols]. `active`: how often a column is broadcast. Of
    the next columns the one is taken after which the PEs' work so far differs least.
    """
    work = (np.maximum(lengths, 1) * active).T.astype(np.float64)
    work = work - work.mean(axis=1, keepdims=True)
    count = len(work)
    window, following = list(range(min(WINDOW, count))), min(WINDOW, count)
    behind = np.zeros(lengths.shape[0])
    order = np.empty(count, np.int64)
    for n in range(count):
        after = work[window] + behind
        chosen = int((after * after).sum(axis=1).argmin())
        behind = after[chosen]
        order[n] = window[chosen]
        if following < count:
            window[chosen], following = following, following + 1
        else:
            window.pop(chosen)
    return order


def balanced(
    found: Sequence[Product], activations: Mapping[int, Array], pes: int, columns: bool = True
) -> Balanced:
    """Rows of all products placed, columns of those that the host feeds ordered."""
    products, inputs = list(found), dict(activations)
    rows = [np.arange(p.shape[0]) for p in found]
    fed = {p.next for p in found}
    for n in range(len(products)):
        p = products[n]
        rows[n] = row_order((p.codes != 0).sum(axis=1).astype(np.float64), pes)
        codes = p.codes[rows[n]]
        if columns and n not in fed:
            order = column_order(encode(codes, pes).lengths, np.ones(p.shape[1]))
            codes, inputs[n] = codes[:, order], inputs[n][:, order]
        bias = None if p.bias is None else p.bias[rows[n]]
        products[n] = replace(p, codes=np.ascontiguousarray(codes), bias=bias)
        if p.next is not None:
            after = products[p.next]
            products[p.next] = replace(after, codes=after.codes[:, rows[n]])
            inputs[p.next] = inputs[p.next][:, rows[n]]
    return Balanced(products, inputs, rows)
