"""One PE in hardware: the registers and handshakes of `ingot.eie.steps`, with memories that answer a cycle
after they were asked.

    queue -> pointers -> matrix -> weight | address -> product | operand -> sum -> write

Each stage's register is named as there. What `steps` finds in a memory at an edge is, here, the memory's
output after that edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Mux, Signal, signed
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from ingot.eie.memory import POINTER_BITS
from ingot.eie.rtl.sizes import Sizes, width

SRAM = "eie_sram"


def element_ports(sizes: Sizes) -> dict[str, Any]:
    """A PE's ports. `*_write` are strobes of the host; its address and data are shared by all of them.

    `load` takes row `row` of the source registers into the lane's register, whose value and flag the
    scan reads; `taken` clears the flag. `push` queues what is broadcast. `swap` says which register file is
    the source; `relu` makes the scan see negative activations as zeros.
    """
    strobes = ("matrix", "pointer", "codebook", "source", "destination")
    return {
        **{f"{name}_write": In(1) for name in strobes},
        "address": In(sizes.address_bits),
        "data": In(sizes.data_bits),
        "result": Out(signed(sizes.bits)),
        "matrix_base": In(width(sizes.lines * sizes.machine.line)),
        "column_base": In(width(sizes.pointers)),
        "shift": In(width(2 * sizes.bits)),
        "swap": In(1),
        "relu": In(1),
        "running": In(1),
        "load": In(1),
        "is_row": In(1),
        "row": In(sizes.place_bits),
        "taken": In(1),
        "lane_pending": Out(1),
        "lane_value": Out(signed(sizes.bits)),
        "push": In(1),
        "column": In(sizes.column_bits),
        "activation": In(signed(sizes.bits)),
        "is_full": Out(1),
        "is_idle": Out(1),
    }


@dataclass(frozen=True, eq=False)
class Sram:
    """A memory that is a macro in silicon: `eie_sram.v` says what it does. The wires of its ports."""

    depth: int
    write: Any
    write_address: Any
    write_data: Any
    read: Any
    read_address: Any
    found: Any

    def instance(self) -> Instance:
        address = width(self.depth)
        return Instance(
            SRAM,
            p_WIDTH=len(self.found),
            p_DEPTH=self.depth,
            p_ADDRESS=address,
            i_clk=ClockSignal(),
            i_write=self.write,
            i_write_address=_fit(self.write_address, address),
            i_write_data=_fit(self.write_data, len(self.found)),
            i_read=self.read,
            i_read_address=_fit(self.read_address, address),
            o_read_data=self.found,
        )


def _fit(wires: Any, count: int) -> Any:
    """The lowest wires, zeros above them where there are too few: a port has all it names."""
    return Cat(wires[:count], Const(0, max(0, count - len(wires))))


class Element(Component):  # type: ignore[misc]  # Amaranth ships no types
    """A PE with `element_ports`."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        super().__init__(element_ports(sizes))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        self._stages(m)
        self._queue(m)
        self._pointers(m)
        self._matrix(m)
        self._look_up(m)
        self._multiply(m)
        self._add(m)
        self._registers(m)
        units = (self.slot_valid, self.entry_valid, self.operands_valid, self.product_valid, self.sum_valid)
        m.d.comb += self.is_idle.eq(self.queue_empty & ~Cat(*units).any())
        return m

    def _stages(self, m: Module) -> None:
        """The registers between the stages."""
        s, machine = self.sizes, self.sizes.machine
        bits, place = signed(s.bits), s.place_bits
        self.head_column, self.head_activation = Signal(s.column_bits), Signal(bits)
        self.queue_empty, self.pop = Signal(), Signal()
        self.slot_valid, self.slot_first, self.slot_last, self.slot_empty = (Signal() for _ in range(4))
        self.slot_address, self.slot_activation = Signal(POINTER_BITS), Signal(bits)
        self.entry_valid, self.entry_first, self.entry_empty = Signal(), Signal(), Signal()
        self.entry_code, self.entry_gap = Signal(machine.code_bits), Signal(machine.gap_bits)
        self.entry_activation = Signal(bits)
        self.operands_valid, self.operands_writes = Signal(), Signal()
        self.operands_weight, self.operands_activation = Signal(bits), Signal(bits)
        self.operands_place = Signal(place)
        self.product_valid, self.product_writes = Signal(), Signal()
        self.product, self.product_operand = Signal(signed(2 * s.bits)), Signal(bits)
        self.product_place = Signal(place)
        self.sum_valid, self.sum_writes = Signal(), Signal()
        self.sum_value, self.sum_place = Signal(bits), Signal(place)
        self.accumulator = Signal(bits)

    def _queue(self, m: Module) -> None:
        """A ring of which one entry stays free, so that full and empty differ."""
        size = self.sizes.machine.fifo
        columns = m.submodules.queue_columns = Memory(shape=self.column.shape(), depth=size, init=[])
        values = m.submodules.queue_values = Memory(shape=self.activation.shape(), depth=size, init=[])
        read, write, after = (Signal(width(size), name=n) for n in ("q_read", "q_write", "q_after"))
        m.d.comb += [
            after.eq(Mux(write == size - 1, 0, write + 1)),
            self.queue_empty.eq(read == write),
            self.is_full.eq(after == read),
        ]
        for memory, item, head in (
            (columns, self.column, self.head_column),
            (values, self.activation, self.head_activation),
        ):
            into, out = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [into.addr.eq(write), into.data.eq(item), into.en.eq(self.push)]
            m.d.comb += [out.addr.eq(read), head.eq(out.data)]
        with m.If(self.push):
            m.d.sync += write.eq(after)
        with m.If(self.pop):
            m.d.sync += read.eq(Mux(read == size - 1, 0, read + 1))

    def _pointers(self, m: Module) -> None:
        """Two banks, of even and odd columns, give a column's beginning and end in one cycle; then the
        entries are counted through.
        """
        wide = width(self.sizes.pointers)
        column = Signal(wide, name="pointer_column")
        is_odd, end, begin, stop = Signal(), Signal(POINTER_BITS), Signal(POINTER_BITS), Signal(POINTER_BITS)
        counted = Signal(POINTER_BITS, name="slot_counted")
        m.d.comb += column.eq(self.column_base + self.head_column)
        even_bank = self._bank(m, "even", (column + 1)[1:wide])
        odd_bank = self._bank(m, "odd", column[1:wide])
        m.d.comb += [
            begin.eq(Mux(is_odd, odd_bank, even_bank)),
            stop.eq(Mux(self.slot_first, Mux(is_odd, even_bank, odd_bank), end)),
            self.slot_address.eq(Mux(self.slot_first, begin, counted)),
            self.slot_empty.eq(self.slot_first & (begin == stop)),
            self.slot_last.eq(self.slot_empty | ((self.slot_address + 1)[:POINTER_BITS] == stop)),
            self.pop.eq((~self.slot_valid | self.slot_last) & ~self.queue_empty),
        ]
        m.d.sync += [
            self.slot_valid.eq((self.slot_valid & ~self.slot_last) | self.pop),
            self.slot_first.eq(self.pop),
            counted.eq(self.slot_address + 1),
            end.eq(stop),
        ]
        with m.If(self.pop):
            m.d.sync += [self.slot_activation.eq(self.head_activation), is_odd.eq(column[0])]

    def _bank(self, m: Module, name: str, address: Any) -> Any:
        """Every second pointer, read for the queue's head as it is popped."""
        mine = self.pointer_write & (self.address[0] == (name == "odd"))
        found = Signal(POINTER_BITS, name=f"pointer_{name}")
        sram = Sram(
            (self.sizes.pointers + 1) // 2, mine, self.address[1:], self.data, self.pop, address, found
        )
        m.submodules[f"pointers_{name}"] = sram.instance()
        return found

    def _matrix(self, m: Module) -> None:
        """The SRAM is read when the line changes; its output is the line's buffer."""
        s, machine = self.sizes, self.sizes.machine
        offset = width(machine.line) if machine.line > 1 else 0
        address = Signal.like(self.matrix_base, name="matrix_address")
        line, held, is_held = Signal(width(s.lines)), Signal(width(s.lines)), Signal()
        reads, at, found = Signal(), Signal(max(1, offset)), Signal(machine.sram_width, name="matrix_line")
        m.d.comb += [
            address.eq(self.matrix_base + self.slot_address),
            line.eq(address >> offset),
            reads.eq(self.slot_valid & ~self.slot_empty & ~(is_held & (held == line))),
        ]
        sram = Sram(s.lines, self.matrix_write, self.address, self.data, reads, line, found)
        m.submodules.matrix = sram.instance()
        m.d.sync += [
            self.entry_valid.eq(self.slot_valid),
            self.entry_first.eq(self.slot_first),
            self.entry_empty.eq(self.slot_empty),
            self.entry_activation.eq(self.slot_activation),
            at.eq(address[:offset] if offset else 0),
        ]
        with m.If(reads):
            m.d.sync += [held.eq(line), is_held.eq(1)]
        with m.If(self.matrix_write):
            m.d.sync += is_held.eq(0)
        entry = found.word_select(at, machine.entry_bits)
        m.d.comb += [
            self.entry_code.eq(Mux(self.entry_empty, 0, entry[: machine.code_bits])),
            self.entry_gap.eq(entry[machine.code_bits :]),
        ]

    def _look_up(self, m: Module) -> None:
        """The codebook, and beside it the accumulator's address."""
        memory = Memory(shape=signed(self.sizes.bits), depth=1 << self.sizes.machine.code_bits, init=[])
        m.submodules.codebook = memory
        into, out = memory.write_port(), memory.read_port(domain="comb")
        place = Signal(self.sizes.place_bits, name="place")
        m.d.comb += [
            into.addr.eq(self.address),
            into.data.eq(self.data),
            into.en.eq(self.codebook_write),
            out.addr.eq(self.entry_code),
            # A column's first entry counts from the top.
            place.eq(Mux(self.entry_first, self.entry_gap, self.operands_place + self.entry_gap + 1)),
        ]
        m.d.sync += [
            self.operands_valid.eq(self.entry_valid),
            self.operands_writes.eq(self.entry_valid & (self.entry_code != 0)),
            self.operands_weight.eq(out.data),
            self.operands_activation.eq(self.entry_activation),
        ]
        with m.If(self.entry_valid):
            m.d.sync += self.operands_place.eq(place)

    def _multiply(self, m: Module) -> None:
        same = self.sum_writes & (self.sum_place == self.operands_place)
        m.d.sync += [
            self.product_valid.eq(self.operands_valid),
            self.product_writes.eq(self.operands_writes),
            self.product_place.eq(self.operands_place),
            self.product.eq(self.operands_weight * self.operands_activation),
            # A write and a read of one register in one cycle.
            self.product_operand.eq(Mux(same, self.sum_value, self.accumulator)),
        ]

    def _add(self, m: Module) -> None:
        """The product with the accumulator's binary places, halves rounded up, and the sum saturated."""
        bits = self.sizes.bits
        half, scaled = Signal(2 * bits), Signal(signed(2 * bits + 1))
        operand, total = Signal(signed(bits)), Signal(signed(2 * bits + 2))
        most = Const((1 << (bits - 1)) - 1, signed(bits))
        least = Const(-(1 << (bits - 1)), signed(bits))
        same = self.sum_writes & (self.sum_place == self.product_place)
        m.d.comb += [
            half.eq((Const(1, 2 * bits) << self.shift) >> 1),
            scaled.eq((self.product + half) >> self.shift),
            # The accumulator was read one cycle too early.
            operand.eq(Mux(same, self.sum_value, self.product_operand)),
            total.eq(operand + scaled),
        ]
        m.d.sync += [
            self.sum_valid.eq(self.product_valid),
            self.sum_writes.eq(self.product_writes),
            self.sum_place.eq(self.product_place),
            self.sum_value.eq(Mux(total > most, most, Mux(total < least, least, total))),
        ]

    def _registers(self, m: Module) -> None:
        """Two files that exchange their roles from layer to layer: source, and accumulators."""
        reads = []
        for number in range(2):
            memory = Memory(shape=signed(self.sizes.bits), depth=self.sizes.machine.registers, init=[])
            m.submodules[f"file{number}"] = memory
            into, out = memory.write_port(), memory.read_port(domain="comb")
            is_source, written = self.swap == number, Signal(name=f"written{number}")
            host = Mux(is_source, self.source_write, self.destination_write)
            m.d.comb += [
                written.eq(~is_source & self.sum_writes),
                into.en.eq(host | written),
                into.addr.eq(Mux(host, self.address, self.sum_place)),
                into.data.eq(Mux(host, self.data[: self.sizes.bits], self.sum_value)),
                out.addr.eq(Mux(is_source, self.row, Mux(self.running, self.operands_place, self.address))),
            ]
            reads.append(out.data)
        source = Signal(signed(self.sizes.bits), name="source")
        m.d.comb += [
            source.eq(Mux(self.swap, reads[1], reads[0])),
            self.accumulator.eq(Mux(self.swap, reads[0], reads[1])),
            self.result.eq(self.accumulator),
        ]
        with m.If(self.load):
            m.d.sync += [
                self.lane_value.eq(source),
                self.lane_pending.eq(self.is_row & (source != 0) & ~(self.relu & (source < 0))),
            ]
        with m.Elif(self.taken):
            m.d.sync += self.lane_pending.eq(0)
