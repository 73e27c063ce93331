"""Diagonals, segments, sorted searches: small things around matrices and groups of rows."""

from __future__ import annotations

import numpy as np

from ingot.formula.types import BOOL, INT32, INT64
from ingot.frontends.orders import like
from ingot.frontends.tensorflow.ops.table import Call, Result, op


def _main_diagonal(c: Call, i: int) -> None:
    if any(c.ints(i, "which diagonal")):
        raise c.refuse("k is not 0, but only the main diagonal is supported")


@op("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def matrix_diag(c: Call) -> Result:
    """Inputs: diagonal, which, rows, columns (-1: as many as the diagonal has), what lies beside it."""
    x = c.tensor(0)
    c.require(x.rank > 0, "the diagonal is a scalar, but it must have an axis")
    n = x.shape[-1]
    rows = columns = n
    beside = like(c.b, x.value, 0)
    if c.node.op != "MatrixDiag":
        _main_diagonal(c, 1)
        rows, columns = (int(c.number(i, "an extent")) for i in (2, 3))
        rows, columns = (n if m == -1 else m for m in (rows, columns))
        beside = c.b.reshape(c.plain(4), ())
    if (rows, columns) != (n, n):
        raise c.refuse(f"a matrix of {rows} x {columns} is asked for, but only {n} x {n} is supported")
    c.require(c.b.is_modest([n, n], BOOL), f"a diagonal matrix of {n} x {n} elements is too large")
    raised = c.b.reshape(c.b.plain(x), (*x.shape, 1))
    return c.b.one("Where", c.b.constant(np.eye(n, dtype=bool)), raised, beside)


@op("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def matrix_diag_part(c: Call) -> Result:
    x = c.tensor(0)
    c.require(x.rank > 1, f"the input must be a matrix, with at least two axes, but it has {x.rank}")
    if c.node.op != "MatrixDiagPart":
        _main_diagonal(c, 1)
    *outer, rows, columns = x.shape
    flat = c.b.reshape(c.b.plain(x), (*outer, rows * columns))
    places = [i * (columns + 1) for i in range(min(rows, columns))]
    return c.b.one("Gather", flat, c.b.ints(places), axis=len(outer))


@op("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag(c: Call) -> Result:
    x, diagonal = c.tensor(0), c.tensor(1)
    fits = x.rank > 1 and diagonal.rank == x.rank - 1
    c.require(fits, "a matrix and a diagonal with one axis less are needed")
    if c.node.op != "MatrixSetDiag":
        _main_diagonal(c, 2)
    *outer, rows, columns = x.shape
    length = min(rows, columns)
    c.require(diagonal.shape == (*outer, length), f"the diagonal must be of shape {[*outer, length]}")
    is_modest = c.b.is_modest([rows, columns], BOOL)
    c.require(is_modest, f"a matrix of {rows} x {columns} elements is too large")
    shape = (*outer, length, 1) if rows <= columns else (*outer, 1, length)
    raised = c.b.reshape(c.b.plain(diagonal), shape)
    return c.b.one("Where", c.b.constant(np.eye(rows, columns, dtype=bool)), raised, c.b.plain(x))


@op("SegmentSum", "UnsortedSegmentSum")
def segment_sum(c: Call) -> Result:
    """Rows of one number are added; those of a negative number are left out."""
    x, ids = c.tensor(0), c.known(1, "the numbers of the segments").astype(np.int64)
    fits = x.shape[: ids.ndim] == ids.shape and ids.size > 0
    c.require(fits, f"there must be a segment's number for each row, but they are of shape {list(ids.shape)}")
    count = int(c.number(2, "the number of segments")) if len(c.items) > 2 else int(ids.max()) + 1
    fits = ids.max(initial=0) < max(count, 1) < 1 << 24
    c.require(fits, f"segment {ids.max(initial=0)} is named, but there are {count} (at most 2^24 - 1)")
    rest = x.shape[ids.ndim :]
    flat = c.b.reshape(c.b.plain(x), (ids.size, *rest))
    kept = np.flatnonzero(ids.reshape(-1) >= 0)
    if len(kept) < ids.size:
        flat = c.b.one("Gather", flat, c.b.constant(kept), axis=0)
    zeros = c.b.filled((count, *rest), 0, x.dtype)
    where = c.b.constant(ids.reshape(-1)[kept].reshape(-1, 1))
    return c.b.one("ScatterND", zeros, where, flat, reduction="add")


@op("LowerBound", "UpperBound")
def bound(c: Call) -> Result:
    """How many elements of each sorted row are smaller (or not greater) than a value."""
    rows, values = c.tensor(0), c.tensor(1)
    fits = rows.rank == values.rank == 2 and rows.shape[0] == values.shape[0]
    c.require(fits, "the sorted rows and the values must be matrices with equally many rows")
    batch, n = rows.shape
    sorted_ = c.b.reshape(c.b.plain(rows), (batch, 1, n))
    value = c.b.reshape(c.b.plain(values), (batch, values.shape[1], 1))
    before = c.b.one("Less" if c.node.op == "LowerBound" else "LessOrEqual", sorted_, value)
    found = c.b.one("ReduceSum", c.b.cast(before, INT32), c.b.ints([2]), keepdims=0)
    return c.b.cast(found, c.node.dtype("out_type") if c.node.has("out_type") else INT32)


@op("Where")
def where(c: Call) -> Result:
    """The places of what is not 0, where the elements are known: the number of places is a shape."""
    return c.b.constant(np.argwhere(c.known(0, "the condition")), INT64)
