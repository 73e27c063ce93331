"""The array: PEs, the tree over them, and the central control unit with its host's interface.

In I/O mode the host writes one word per cycle into a memory of one PE or of all; a write to `Control.START`
begins the computing mode, which ends by itself. docs/eie.md has the map of addresses.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, ResetSignal, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from ingot.eie.rtl.element import element_ports
from ingot.eie.rtl.host import Control, Space
from ingot.eie.rtl.scan import RADIX, Scan
from ingot.eie.rtl.sizes import Sizes, width

REGISTERS = ("shift", "swap", "relu", "matrix_base", "column_base")
"""Those of the array's registers that the PEs see."""

ELEMENT, DETECTOR = "eie_element", "eie_detector"
"""The modules that the array holds many of: described once, in files of their own."""


class Array(Component):  # type: ignore[misc]  # Amaranth ships no types
    """The array's ports. `write` stores `data` at `address` of `space` in PE `pe`, or in all with `to_all`;
    `result` is the accumulator `address` of PE `pe`. `cycles` counts from the start to the end of `running`.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        super().__init__(
            {
                "write": In(1),
                "to_all": In(1),
                "space": In(width(len(Space))),
                "pe": In(sizes.lane_bits),
                "address": In(sizes.address_bits),
                "data": In(sizes.data_bits),
                "result": Out(signed(sizes.bits)),
                "running": Out(1),
                "cycles": Out(32),
            }
        )
        wires = element_ports(sizes)
        self.registers = {n: Signal(wires[n].shape, name=n) for n in REGISTERS}
        self.rows = Signal(width(sizes.machine.registers + 1))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        scan = m.submodules.scan = Scan(self.sizes)
        activation = Signal(signed(self.sizes.bits))
        shared = {n: getattr(scan, n) for n in ("load", "is_row", "row", "push", "column")}
        shared |= {n: getattr(self, n) for n in ("address", "data", "running")}
        shared |= {**self.registers, "activation": activation}
        elements = [self._element(m, k, shared, scan.lane) for k in range(self.sizes.machine.pes)]
        pending, value, lane = self._tree(m, [(e["lane_pending"], e["lane_value"]) for e in elements])
        every = {name: Cat(*(e[name] for e in elements)) for name in ("result", "is_full", "is_idle")}
        m.d.comb += [
            activation.eq(value),
            scan.running.eq(self.running),
            scan.rows.eq(self.rows),
            scan.pending.eq(pending),
            scan.lane.eq(lane),
            scan.any_full.eq(every["is_full"].any()),
            self.result.eq(every["result"].word_select(self.pe, self.sizes.bits).as_signed()),
        ]
        self._control(m, scan, every["is_idle"].all())
        return m

    def _element(self, m: Module, k: int, shared: dict[str, Any], lane: Any) -> dict[str, Any]:
        """Instance k of the PE, with the wires that go to all alike; its outputs by name."""
        mine = self.write & (self.to_all | (self.pe == k))
        strobes = {
            f"{space.name.lower()}_write": mine & (self.space == space)
            for space in Space
            if space is not Space.CONTROL
        }
        outputs = {
            "lane_pending": Signal(name=f"pending{k}"),
            "lane_value": Signal(signed(self.sizes.bits), name=f"value{k}"),
            "is_full": Signal(name=f"full{k}"),
            "is_idle": Signal(name=f"idle{k}"),
            "result": Signal(signed(self.sizes.bits), name=f"result{k}"),
        }
        taken = shared["push"] & (lane == k)
        inputs = {**shared, **strobes, "taken": taken, "clk": ClockSignal(), "rst": ResetSignal()}
        m.submodules[f"pe{k}"] = Instance(
            ELEMENT,
            **{f"i_{name}": wire for name, wire in inputs.items()},
            **{f"o_{name}": wire for name, wire in outputs.items()},
        )
        return outputs

    def _tree(self, m: Module, leaves: list[tuple[Any, Any]]) -> tuple[Any, Any, Any]:
        """The first lane with an activation: whether there is one, its value, its number."""
        bits, lane_bits = self.sizes.bits, self.sizes.lane_bits
        nodes = [(flag, value, Const(k, lane_bits)) for k, (flag, value) in enumerate(leaves)]
        level = 0
        while len(nodes) > 1:
            above = []
            for first in range(0, len(nodes), RADIX):
                group = nodes[first : first + RADIX]
                group += [(Const(0, 1), Const(0, signed(bits)), Const(0, lane_bits))] * (RADIX - len(group))
                name = f"detector{level}_{first // RADIX}"
                found = (
                    Signal(name=f"{name}_any"),
                    Signal(signed(bits), name=f"{name}_value"),
                    Signal(lane_bits, name=f"{name}_lane"),
                )
                ports = dict(zip(("o_any_pending", "o_value", "o_number"), found, strict=True))
                for child, wires in enumerate(group):
                    names = (f"i_pending{child}", f"i_value{child}", f"i_number{child}")
                    ports.update(zip(names, wires, strict=True))
                m.submodules[name] = Instance(DETECTOR, **ports)
                above.append(found)
            nodes, level = above, level + 1
        return nodes[0]

    def _control(self, m: Module, scan: Scan, idle: Any) -> None:
        control = Signal()
        m.d.comb += control.eq(self.write & (self.space == Space.CONTROL))
        kept = {
            Control.ROWS: self.rows,
            **{Control[n.upper()]: signal for n, signal in self.registers.items()},
        }
        for number, signal in kept.items():
            with m.If(control & (self.address == number)):
                m.d.sync += signal.eq(self.data)
        start = control & (self.address == Control.START)
        finished = scan.is_done & idle
        m.d.comb += scan.restart.eq(start)
        with m.If(start):
            m.d.sync += [self.running.eq(1), self.cycles.eq(1)]
        with m.Elif(self.running):
            m.d.sync += [self.running.eq(~finished), self.cycles.eq(self.cycles + ~finished)]
