"""Counts, energy, area, and the places of AlexNet and VGG in the SRAMs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ingot.eie.activity import activity
from ingot.eie.benchmark import BENCHMARKS, draw
from ingot.eie.columns import Columns, encode
from ingot.eie.energy import energy, read_picojoules, square_millimetres, steady_milliwatts
from ingot.eie.machine import Machine
from ingot.eie.memory import packed_pointers, place, tiles
from ingot.eie.steps import run
from ingot.eie.timing import time
from ingot.errors import InputError
from tests.eie.random_layers import random_layer

LAYERS = {layer.name: layer for layer in BENCHMARKS}


@pytest.mark.parametrize("seed", range(60))
def test_counts_are_those_of_the_machine(seed: int) -> None:
    layer = random_layer(seed, has_bias=seed % 2 == 0)
    counted = activity(layer.columns, layer.activations, layer.machine)
    found = run(layer.columns, layer.arithmetic, layer.activations, layer.machine).counts
    for name in ("queue_writes", "pointer_reads", "matrix_reads", "entries", "writes"):
        assert getattr(counted, name) == found[name], name


def test_the_paper_s_power_and_area() -> None:
    machine = Machine()
    assert machine.detectors == 21
    assert steady_milliwatts(machine) == pytest.approx(590, rel=0.01)
    assert square_millimetres(machine) == pytest.approx(40.8, rel=0.005)
    drawn = draw(LAYERS["Alex-7"])
    columns = drawn.columns(64)
    cycles = time(columns, drawn.activations, machine).cycles
    spent = energy(activity(columns, drawn.activations, machine), cycles, machine)
    assert spent.total / machine.microseconds(cycles) == pytest.approx(590, rel=0.03)
    assert read_picojoules(32) < read_picojoules(64) < read_picojoules(512) < 180


@cache
def drawn_layers(names: tuple[str, ...]) -> list[Columns]:
    return [draw(LAYERS[n]).columns(64) for n in names]


def test_alexnet_fits_the_srams() -> None:
    layers = drawn_layers(("Alex-6", "Alex-7", "Alex-8"))
    machine = Machine()
    parts = tiles(layers, machine)
    found = place(parts, machine)
    assert found.fits and found.pointers > 16384
    assert {p.pointers for p in found.placed} == {"own", "spilled"}
    used = np.zeros(machine.matrix_bytes * 8 // machine.sram_width, int)
    for p in found.placed:
        assert p.tile.columns.shape[1] <= machine.batch
        even, odd = packed_pointers(p.tile, 5)
        assert even.dtype == np.uint16 and len(even) + len(odd) == p.tile.pointers
        used[p.base_row : p.base_row + p.tile.matrix_rows(machine.line)] += 1
    assert used.max() == 1
    codes = sum(len(p.tile.columns.codes) for p in found.placed)
    assert codes == sum(len(layer.codes) for layer in layers)


def test_vgg_s_pointers_come_from_the_host() -> None:
    """33,283 pointers and 131,000 entries of each PE are more than the stated SRAMs hold."""
    machine = Machine()
    found = place(tiles(drawn_layers(("VGG-6", "VGG-7", "VGG-8")), machine), machine)
    assert not found.fits and found.streamed_bytes < found.loaded_bytes / 2
    larger = Machine(pointer_bytes=68 * 1024, matrix_bytes=256 * 1024)
    assert place(tiles(drawn_layers(("VGG-6", "VGG-7", "VGG-8")), larger), larger).fits


@pytest.mark.parametrize("seed", range(6))
def test_tiles_are_the_layer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, cols = (int(n) for n in rng.integers(10, 90, 2))
    codes = (rng.integers(1, 16, (rows, cols)) * (rng.random((rows, cols)) < 0.3)).astype(np.uint8)
    machine = Machine(pes=4, registers=8, matrix_bytes=40)
    out = np.zeros_like(codes)
    for tile in tiles([encode(codes, 4)], machine):
        part = tile.columns.dense()
        assert part.shape[0] <= 32 and part.shape[1] <= 32 and tile.columns.pointers.max() < 40
        out[tile.row : tile.row + part.shape[0], tile.column : tile.column + part.shape[1]] += part
    np.testing.assert_array_equal(out, codes)


def test_a_column_that_no_sram_holds() -> None:
    with pytest.raises(InputError, match="does not fit the matrix SRAM"):
        tiles([encode(np.ones((64, 2), np.uint8), 1)], Machine(pes=1, matrix_bytes=8))
