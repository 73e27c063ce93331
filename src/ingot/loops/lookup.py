"""The entry of a byte in a table of 256: what maps of bytes become, what vectors look up, what fusion leaves.

Entries stand in the order of the bytes' values, so those of int8 begin with the one of -128.
"""

from __future__ import annotations

from ingot.formula.expr import Expr, Gathered, Load, Tensor, cast, loads, walk
from ingot.formula.types import INDEX, INT8, INT32, UINT8

BYTES = (INT8, UINT8)


def looked_up(table: Tensor, byte: Load) -> Load:
    """The entry of a byte."""
    lowest = int(byte.dtype.lowest)
    place = cast(byte, INT32) - lowest if lowest else byte
    return Load(table, (cast(place, INDEX),))


def is_lookup(value: Expr) -> bool:
    """Whether a value is read at a place that data gives and that needs no check."""
    places = [n for load in loads(value) for i in load.index for n in walk(i)]
    by_data = any(isinstance(n, Load) and n.tensor.value is None for n in places)
    return by_data and not any(isinstance(n, Gathered) for n in places)
