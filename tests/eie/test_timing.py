"""Cycles and bits: the published recurrence written out, the fast one, and the machine moved step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ingot.eie import fixed
from ingot.eie.columns import encode
from ingot.eie.machine import Machine
from ingot.eie.steps import run
from ingot.eie.timing import time
from ingot.errors import InputError
from tests.eie.random_layers import Layer, random_layer

PARTS = 8


def published(layer: Layer) -> int:
    """The recurrence, literally."""
    pes, cap = layer.machine.pes, layer.machine.fifo - 1
    at = [j for j, a in enumerate(layer.activations) if a]
    s = [[max(1, int(layer.columns.lengths[k, j])) for k in range(pes)] for j in at]
    p, taken, row = 1, [], 0
    for j, column in enumerate(at):
        forward, row = column // pes - row, column // pes
        bubble = forward - (forward > 0 and j > 0 and at[j - 1] % pes == pes - 1)
        p = max(p + 1 + bubble, max(taken[j - cap]) + 1 if j >= cap else 0)
        before = [taken[-1][k] + s[j - 1][k] if j else 0 for k in range(pes)]
        taken.append([max(p + 1, b) for b in before])
    return max(t + n for t, n in zip(taken[-1], s[-1], strict=True)) + 5


@pytest.mark.parametrize("part", range(PARTS))
def test_equal_on_random_machines_and_layers(part: int) -> None:
    saturated = bypassed = 0
    for seed in range(part, 200, PARTS):
        layer = random_layer(seed)
        found = run(layer.columns, layer.arithmetic, layer.activations, layer.machine)
        told = time(layer.columns, layer.activations, layer.machine)
        assert told.cycles == published(layer) == found.cycles, seed
        exact = fixed.product(layer.columns, layer.arithmetic, layer.activations)
        np.testing.assert_array_equal(found.accumulators, exact, err_msg=str(seed))
        assert found.counts["entries"] == told.entries
        saturated += int((np.abs(exact) >= fixed.limit(16)).sum())
        bypassed += found.counts["bypasses"]
    assert saturated and bypassed


@pytest.mark.parametrize("seed", range(40))
def test_equal_without_a_bias(seed: int) -> None:
    """Rows of zeros at the end are scanned, and there may be nothing else."""
    layer = random_layer(seed, has_bias=False)
    if seed % 4 == 0:
        zeros = np.zeros_like(layer.activations)
        layer = replace(layer, activations=zeros)
    found = run(layer.columns, layer.arithmetic, layer.activations, layer.machine)
    assert time(layer.columns, layer.activations, layer.machine).cycles == found.cycles
    exact = fixed.product(layer.columns, layer.arithmetic, layer.activations)
    np.testing.assert_array_equal(found.accumulators, exact)


def test_a_run_ends_when_all_is_done() -> None:
    """A machine that stops as soon as no PE writes would end here before the last column is computed."""
    codes = np.zeros((64, 128), np.uint8)
    codes[0, 0], codes[63, 127] = 1, 2
    activations = np.zeros(128, np.int64)
    activations[[0, 127]] = 3
    book = np.arange(16)
    arithmetic = fixed.Arithmetic(book, 16, 0, 0, 0)
    for pes in (1, 4):
        found = run(encode(codes, pes), arithmetic, activations, Machine(pes))
        assert found.accumulators[[0, 63]].tolist() == [3, 6]


def test_the_accumulators_start_from_what_is_given() -> None:
    layer = random_layer(5)
    start = 100 + np.arange(layer.columns.shape[0])
    found = run(layer.columns, layer.arithmetic, layer.activations, layer.machine, start)
    exact = fixed.product(layer.columns, layer.arithmetic, layer.activations, start)
    np.testing.assert_array_equal(found.accumulators, exact)
    assert (exact != fixed.product(layer.columns, layer.arithmetic, layer.activations)).any()


def test_a_deeper_queue_never_takes_longer() -> None:
    layer = random_layer(11)
    cycles = [
        time(layer.columns, layer.activations, replace(layer.machine, fifo=n)).cycles for n in (2, 4, 8, 64)
    ]
    assert cycles == sorted(cycles, reverse=True)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"pes": 0}, "0 PEs"),
        ({"fifo": 1}, "FIFO"),
        ({"sram_width": 12}, "no whole number"),
        ({"precision": 12}, "12 bits"),
        ({"clock_mhz": float("nan")}, "nan MHz"),
    ],
)
def test_machines_that_cannot_be(wrong: dict[str, float], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Machine(**wrong)  # type: ignore[arg-type]  # a wrong number is the point
