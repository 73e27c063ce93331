"""Counts, energy, area, and the places of AlexNet and VGG in the SRAMs."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.eie import sweep
from ingot.eie.activity import activity
from ingot.eie.benchmark import BENCHMARKS, Shares, draw
from ingot.eie.columns import encode, encode_sorted
from ingot.eie.energy import energy, read_picojoules, square_millimetres, steady_milliwatts
from ingot.eie.machine import Machine
from ingot.eie.memory import Placement, digits, expanded, packed_pointers, place, tiles
from ingot.eie.steps import run
from ingot.eie.sweep import benchmark_load
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


def placement_of(*names: str, shares: Shares, placed: bool = False) -> Placement:
    machine = Machine()
    loads = [benchmark_load(n, shares) for n in names]
    loads = [sweep.placed(load, 64, False) if placed else load for load in loads]
    columns = [encode_sorted(load.shape, load.at, load.codes, 64) for load in loads]
    return check_places(place(tiles(columns, machine), machine), machine)


def check_places(found: Placement, machine: Machine) -> Placement:
    """Nothing lies where something else does, and what is packed expands to the pointers."""
    used = [np.zeros(machine.matrix_bytes, int) for _ in range(machine.pes)]
    own, buffer, lengths = 0, 0, {"matrix": 0, "pointers": 0}
    for p in found.placed:
        assert p.tile.columns.shape[1] <= machine.batch
        even, odd = packed_pointers(p.tile, 5)
        assert even.dtype == np.uint16 and len(even) + len(odd) == p.tile.pointers
        for k in range(machine.pes if p.is_resident else 0):
            used[k][p.base[k] : p.base[k] + p.tile.entries[k]] += 1
        if p.way.kind == "own":
            own += 2 * p.tile.pointers
            continue
        buffer = max(buffer, 2 * p.tile.pointers)
        if p.way.kind == "packed":
            words = digits(p.tile.columns.lengths[5], p.way.digit_bits)
            np.testing.assert_array_equal(expanded(words, p.way.digit_bits), p.tile.columns.pointers[5])
            assert len(words) * p.way.digit_bits <= 8 * p.way.size and p.way.cycles * 2 >= len(words)
            lengths[p.way.home] += p.way.size
    assert max(u.max() for u in used) <= 1
    for p in (p for p in found.placed if not p.is_resident):
        assert all(not u[b : b + n].any() for u, b, n in zip(used, p.base, p.tile.entries, strict=True))
        assert (p.base + p.tile.entries).max() <= found.matrix_bytes
    entries = max(int(u.sum()) for u in used)
    assert entries + lengths["matrix"] <= found.matrix_bytes <= machine.matrix_bytes
    assert own + buffer + lengths["pointers"] == found.pointer_bytes <= machine.pointer_bytes
    return found


@pytest.mark.parametrize("shares", ["printed", "fitted"])
def test_alexnet_fits_the_srams(shares: Shares) -> None:
    found = placement_of("Alex-6", "Alex-7", "Alex-8", shares=shares)
    assert found.fits and found.pointers > 16384 and found.packed == 2
    assert sum(p.tile.columns.codes.size for p in found.placed) < found.loaded_bytes


@pytest.mark.parametrize("shares", ["printed", "fitted"])
def test_vgg_fits_the_srams_with_its_rows_placed(shares: Shares) -> None:
    """33,289 pointers, and with the densities as printed 131,023 entries, where 131,072 have room."""
    found = placement_of("VGG-6", "VGG-7", "VGG-8", shares=shares, placed=True)
    assert found.fits and found.pointers > 33000
    assert found.move_cycles < 15000
    as_they_come = placement_of("VGG-6", "VGG-7", "VGG-8", shares=shares)
    assert 0 < as_they_come.streamed_bytes < as_they_come.loaded_bytes / 3
    assert {p.way.kind for p in as_they_come.placed} == {"own", "packed", "host"}


@pytest.mark.parametrize("bits", [4, 8])
def test_lengths_as_digits(bits: int) -> None:
    assert digits(np.array([0, 14, 15, 31]), 4).tolist() == [0, 14, 15, 0, 15, 15, 1]
    lengths = np.random.default_rng(bits).integers(0, 600, 500)
    made = digits(lengths, bits)
    assert made.max() < 1 << bits
    np.testing.assert_array_equal(np.diff(expanded(made, bits)), lengths)
    assert expanded(digits(np.zeros(0, int), bits), bits).tolist() == [0]


@pytest.mark.parametrize("seed", range(20))
def test_places_in_small_memories(seed: int) -> None:
    rng = np.random.default_rng(seed)
    machine = Machine(pes=6, registers=5, matrix_bytes=8 * int(rng.integers(20, 60)), pointer_bytes=150)
    layers = []
    for _ in range(3):
        rows, cols = (int(n) for n in rng.integers(1, 60, 2))
        codes = rng.integers(1, 16, (rows, cols)) * (rng.random((rows, cols)) < rng.choice([0.05, 0.3, 1.0]))
        layers.append(encode(codes.astype(np.uint8), 6))
    check_places(place(tiles(layers, machine), machine), machine)


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
