"""Layers on the hardware beside the simulator: the same cycles, the same bits?

In: layers as integers, a machine, the program that `simulate.build` made of its Verilog. Out: `Comparison`s.
Called by `ingot eie rtl --model` and by `make rtl`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ingot.eie import fixed
from ingot.eie.columns import Columns
from ingot.eie.layers import Product
from ingot.eie.machine import Machine
from ingot.eie.memory import tiles
from ingot.eie.rtl import host
from ingot.eie.rtl.simulate import simulate
from ingot.eie.run import arranged, passed_on, prepare
from ingot.eie.timing import time
from ingot.formula.expr import Array


@dataclass(frozen=True, slots=True)
class Comparison:
    """A layer's cycles in the simulator and in hardware, and whether all accumulators are equal."""

    name: str
    shape: tuple[int, int]
    cycles: int
    hardware: int
    bits_agree: bool

    @property
    def ok(self) -> bool:
        return self.cycles == self.hardware and self.bits_agree


def compare(
    name: str,
    columns: Columns,
    arithmetic: fixed.Arithmetic,
    activations: Array,
    machine: Machine,
    program: Path,
    initial: Array | None = None,
) -> Comparison:
    """One layer, batch after batch; `activations` as integers [cols], `initial` int64 [rows] as in `fixed`.

    Raises InputError for what the hardware has no room for, ToolchainError where the simulation fails.
    """
    start = np.zeros(columns.shape[0], np.int64) if initial is None else initial
    commands: list[host.Command] = []
    cycles, parts = 0, tiles([columns], machine)
    for number, part in enumerate(parts):
        rows, cols = part.columns.shape
        own = activations[part.column : part.column + cols]
        cycles += time(part.columns, own, machine).cycles
        before = start[part.row : part.row + rows] if part.column == 0 else None
        commands += host.tile(part.columns, arithmetic, own, machine, before)
        if number + 1 == len(parts) or parts[number + 1].column == 0:
            commands += host.reading(rows, machine)
    found = simulate(program, commands)
    same = np.array_equal(fixed.product(columns, arithmetic, activations, start), found.read)
    return Comparison(name, columns.shape, cycles, sum(found.cycles), same)


def compare_products(
    found: Sequence[Product], activations: Mapping[int, Array], machine: Machine, program: Path
) -> Iterator[Comparison]:
    """A model's products with the first of their vectors, chained as `ingot.eie.run` chains them."""
    feeds: dict[int, tuple[Array, int]] = {}
    for n, product in enumerate(found):
        w = prepare(product, activations[n][:1], machine, False)
        arithmetic, ints, start = arranged(w, feeds.get(n), machine)
        yield compare(product.name, w.columns, arithmetic, ints[0], machine, program, start)
        sums = np.array([fixed.product(w.columns, arithmetic, a, start) for a in ints])
        if product.next is not None:
            feeds[product.next] = passed_on(product, sums), arithmetic.sum_places
