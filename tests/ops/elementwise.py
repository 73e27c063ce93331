"""Rows of the elementwise operators."""

from tests.ops.rows import Row, floats, special

ROWS = [
    Row("Relu", [special()]),
    Row("Add", [floats(2, 3, 4), floats(3, 1, seed=1)]),
]
