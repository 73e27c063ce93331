"""The nine layers of the paper's evaluation, drawn at random with its densities (Table III).

In: a name and a seed. Out: a matrix of codes and activations. Rows of trained layers differ in density;
`spread` is how much (the standard deviation over the mean), `density` and `active` are the shares of weights
and activations that are not zero, fitted where the paper's rounded percentages do not give its own times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ingot.eie.columns import Columns, encode_sorted
from ingot.formula.expr import Array

TABLE = 1 << 15
Shares = Literal["fitted", "told", "printed"]
SPREAD = 0.13
"""Of the rows of Alex-8 in the data of the authors' simulator, beyond what chance makes of the weights."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A layer of Table III: `weights` and `activations` are its percentages, `flops` what is left of the
    operations.
    """

    name: str
    inputs: int
    outputs: int
    weights: float
    activations: float
    flops: float
    density: float
    active: float
    spread: float

    @property
    def told(self) -> float:
        """The middle of the densities that round to the percentages of Table III, that of the operations
        included: of NT-LSTM 10 % of the weights are left, but 11 % of the operations, so it is 10.5.
        """
        each = 100 / self.activations
        low = max(self.weights - 0.5, (self.flops - 0.5) * each)
        high = min(self.weights + 0.5, (self.flops + 0.5) * each)
        return (low + high) / 200


BENCHMARKS = (
    Benchmark("Alex-6", 9216, 4096, 9, 35.1, 3, 0.09, 0.36, 0.3),
    Benchmark("Alex-7", 4096, 4096, 9, 35.3, 3, 0.09, 0.33, 0.0),
    Benchmark("Alex-8", 4096, 1000, 25, 37.5, 10, 0.25683, 0.4294, 0.2),
    Benchmark("VGG-6", 25088, 4096, 4, 18.3, 1, 0.04, 0.222, 0.8),
    Benchmark("VGG-7", 4096, 4096, 4, 37.5, 2, 0.04, 0.383, 0.0),
    Benchmark("VGG-8", 4096, 1000, 23, 41.1, 9, 0.23, 0.394, 0.2),
    Benchmark("NT-We", 4096, 600, 10, 100, 10, 0.1083, 1.0, 0.4),
    Benchmark("NT-Wd", 600, 8791, 11, 100, 11, 0.1092, 1.0, 0.5),
    Benchmark("NT-LSTM", 1201, 2400, 10, 100, 11, 0.1042, 1.0, 0.4),
)


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The non-zeros of a layer, column by column, and one vector of activations."""

    name: str
    shape: tuple[int, int]
    at: Array
    codes: Array
    activations: Array

    def columns(self, pes: int, gap_bits: int = 4) -> Columns:
        """Encoded for that many PEs."""
        return encode_sorted(self.shape, self.at, self.codes, pes, gap_bits)


def codebook() -> Array:
    """Sixteen values as training leaves them: none near zero but the first, which is zero."""
    half = np.array([0.013, 0.018, 0.022, 0.027, 0.032, 0.037, 0.043])
    return np.concatenate(([0.0], -half[::-1], half, [0.0617]))


def draw(layer: Benchmark, seed: int = 0, shares: Shares = "fitted") -> Drawn:
    """The layer with independent weights, rows of different density, and non-negative activations.

    `shares`: those that were fitted, those that Table III tells (with rows that differ as those of the
    authors' data do), or those printed there (with rows alike).
    """
    rng = np.random.default_rng([seed, layer.inputs, layer.outputs])
    density, active, spread = layer.density, layer.active, layer.spread
    if shares != "fitted":
        active = layer.activations / 100
        density, spread = (layer.told, SPREAD) if shares == "told" else (layer.weights / 100, 0.0)
    at = _positions(rng, layer.outputs, layer.inputs, density, spread)
    codes = _code_table()[rng.integers(0, TABLE, at.size, np.uint16)]
    values = np.abs(rng.standard_normal(layer.inputs)).astype(np.float32) + np.float32(1e-3)
    activations = values * (rng.random(layer.inputs) < active)
    return Drawn(layer.name, (layer.outputs, layer.inputs), at, codes, activations)


def _code_table() -> Array:
    """Codes as often as they occur: the small weights are the many."""
    shares = np.exp(-((codebook()[1:] / 0.03) ** 2))
    steps = (np.arange(TABLE) + 0.5) / TABLE
    made: Array = 1 + np.searchsorted(np.cumsum(shares) / shares.sum(), steps).astype(np.uint8)
    return made


def _positions(rng: np.random.Generator, rows: int, cols: int, density: float, spread: float) -> Array:
    """Where weights are, column * rows + row ascending: each cell by itself, with its row's chance.

    Events of a Poisson process along the cells, column after column, as dense as a cell's chance asks for.
    """
    shares = rng.gamma(1 / spread**2, spread**2, rows) if spread else np.ones(rows)
    chance = np.clip(density * shares / shares.mean(), 0, 0.98)
    ends = np.cumsum(-np.log1p(-chance))
    length = ends[-1]
    most = length * cols
    events = np.cumsum(rng.standard_exponential(int(most + 10 * np.sqrt(most) + 100)))
    column, rest = np.divmod(events[events < most], length)
    row = np.minimum(np.searchsorted(ends, rest, "right"), rows - 1)
    at = column.astype(np.int64) * rows + row
    made: Array = at[np.diff(at, prepend=-1) > 0]
    return made
