"""Which entry of a sparse matrix is multiplied when: rows in lanes, a window that slides over the columns.

A step serves `rows` neighbouring rows. It sees `window` columns from its start on, and has `slots` entries
for each row. The row that is furthest behind says where the window starts; the others may be ahead by what
the window lets them. Within a row the entries keep their order. In: codes, of which 0 is no entry. Out: the
arrays that the loops read. Called by `sparse_lanes`, for all blocks of rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ingot.formula.expr import Array

NOWHERE = 1 << 40


@dataclass(frozen=True, slots=True)
class Form:
    """Rows that a step serves, entries it takes of each, columns it sees."""

    rows: int
    slots: int
    window: int


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Steps of block g are number first[g] to first[g + 1]. Per step: the column at which its window starts;
    per slot and row the column within the window, and the code; slots without an entry have code 0.
    """

    first: Array
    starts: Array
    picks: Array
    codes: Array

    @property
    def steps(self) -> int:
        return len(self.starts)


def schedule(codes: Array, places: Array, form: Form) -> Schedule:
    """The schedule of a matrix of codes, uint8 [rows, columns]; column j stands at `places[j]`.

    Places ascend; a window lies between the first and the last.
    """
    blocks = -(-len(codes) // form.rows)
    row, column = np.nonzero(codes)
    counts = np.bincount(row, minlength=blocks * form.rows)
    ends = np.cumsum(counts).reshape(blocks, form.rows)
    at = ends - counts.reshape(blocks, form.rows)
    where = np.append(places[column], NOWHERE)
    code = np.append(codes[row, column], np.uint8(0))
    last = int(places[-1]) + 1 - form.window
    live, made = np.arange(blocks), []
    while live.size:
        p, end = at[live], ends[live]
        starts = np.minimum(_places(p, end, where).min(1), last)
        picks = np.zeros((live.size, form.slots, form.rows), np.uint8)
        taken = np.zeros_like(picks)
        for slot in range(form.slots):
            here = _places(p, end, where) - starts[:, None]
            fits = here < form.window
            picks[:, slot] = np.where(fits, here, 0)
            taken[:, slot] = np.where(fits, code[np.minimum(p, len(row))], 0)
            p = p + fits
        at[live] = p
        made.append((live, starts, picks, taken))
        live = live[(p < end).any(1)]
    return _in_order(made, blocks)


def _places(p: Array, end: Array, where: Array) -> Array:
    """Where each row's next entry stands."""
    return np.where(p < end, where[np.minimum(p, len(where) - 1)], NOWHERE)


def _in_order(made: list[tuple[Array, Array, Array, Array]], blocks: int) -> Schedule:
    """Steps of one block behind each other."""
    block = np.concatenate([m[0] for m in made])
    order = np.argsort(block, kind="stable")
    starts, picks, codes = (np.concatenate([m[k] for m in made])[order] for k in (1, 2, 3))
    first = np.append(0, np.cumsum(np.bincount(block, minlength=blocks)))
    return Schedule(first, starts, picks, codes)
