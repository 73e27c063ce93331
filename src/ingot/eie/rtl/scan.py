"""Leading non-zero detection: the nodes of the tree, and the unit at its root that walks the activations.

A node passes on the first of up to four candidates, with its number. The root, the central control unit in
computing mode, broadcasts one activation per cycle unless a queue is full; a row of activations without any
left costs it a cycle, the last lane none.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from ingot.eie.rtl.sizes import Sizes, width

RADIX = 4


class Detector(Component):  # type: ignore[misc]  # Amaranth ships no types
    """A node: the lowest of its children that has something, that child's value, and its number."""

    def __init__(self, bits: int, number_bits: int) -> None:
        self.number_bits = number_bits
        ports: dict[str, Any] = {
            "any_pending": Out(1),
            "value": Out(signed(bits)),
            "number": Out(number_bits),
        }
        for child in range(RADIX):
            ports[f"pending{child}"] = In(1)
            ports[f"value{child}"] = In(signed(bits))
            ports[f"number{child}"] = In(number_bits)
        super().__init__(ports)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        flags = [getattr(self, f"pending{child}") for child in range(RADIX)]
        value, number = getattr(self, f"value{RADIX - 1}"), getattr(self, f"number{RADIX - 1}")
        for child in reversed(range(RADIX - 1)):
            value = Mux(flags[child], getattr(self, f"value{child}"), value)
            number = Mux(flags[child], getattr(self, f"number{child}"), number)
        m.d.comb += [self.any_pending.eq(Cat(*flags).any()), self.value.eq(value), self.number.eq(number)]
        return m


class Scan(Component):  # type: ignore[misc]  # Amaranth ships no types
    """The root. `pending` and `lane` are what the tree found in the row; `load` fetches row `row` into the
    lanes, `is_row` saying whether there is one; `push` broadcasts.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        super().__init__(
            {
                "restart": In(1),
                "running": In(1),
                "rows": In(width(sizes.machine.registers + 1)),
                "pending": In(1),
                "lane": In(sizes.lane_bits),
                "any_full": In(1),
                "load": Out(1),
                "is_row": Out(1),
                "row": Out(sizes.place_bits),
                "push": Out(1),
                "column": Out(sizes.column_bits),
                "is_done": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        pes = self.sizes.machine.pes
        following = Signal.like(self.rows)  # the row after the one in the lanes
        base = Signal(self.sizes.column_bits)  # the first column of the row in the lanes
        m.d.comb += [
            self.push.eq(self.running & self.pending & ~self.any_full),
            self.load.eq(self.running & (~self.pending | (self.push & (self.lane == pes - 1)))),
            self.is_row.eq(following != self.rows),
            self.row.eq(following),
            self.column.eq(base + self.lane),
            self.is_done.eq(~self.pending & ~self.is_row),
        ]
        with m.If(self.restart):
            m.d.sync += [following.eq(0), base.eq((1 << self.sizes.column_bits) - pes)]
        with m.Elif(self.load & self.is_row):
            m.d.sync += [following.eq(following + 1), base.eq(base + pes)]
        return m
