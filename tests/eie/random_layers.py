"""Random machines and layers for the tests of function and timing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ingot.eie.columns import Columns, encode, with_bias, with_one
from ingot.eie.fixed import Arithmetic
from ingot.eie.machine import Machine
from ingot.formula.expr import Array


@dataclass(frozen=True)
class Layer:
    """One machine, one matrix with integers to compute with."""

    machine: Machine
    columns: Columns
    arithmetic: Arithmetic
    activations: Array


def random_layer(seed: int, has_bias: bool = True) -> Layer:
    """Small, of any shape and density; some saturate."""
    rng = np.random.default_rng(seed)
    pes = int(rng.choice([1, 2, 3, 4, 5, 8, 16]))
    machine = Machine(pes, int(rng.choice([2, 3, 4, 8, 16])), int(rng.choice([8, 32, 64, 256])))
    rows, cols = (int(n) for n in rng.integers(1, 60, 2))
    density, active = rng.choice([0.02, 0.1, 0.4, 1.0], 2)
    codes = (rng.integers(1, 16, (rows, cols)) * (rng.random((rows, cols)) < density)).astype(np.uint8)
    activations = rng.integers(-(1 << 15), 1 << 15, cols) * (rng.random(cols) < active)
    if has_bias:
        codes = with_bias(codes, rng.integers(0, 16, rows).astype(np.uint8), pes)
        activations = with_one(activations, codes.shape[1])
    book = rng.integers(-(1 << 15), 1 << 15, 16) * (np.arange(16) > 0)
    places = int(rng.integers(10, 20))
    return Layer(machine, encode(codes, pes), Arithmetic(book, 16, places, 0, 0), activations)
