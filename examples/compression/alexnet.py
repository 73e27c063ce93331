"""How small an AlexNet becomes whose layers keep what they keep in the paper: sizes only, nothing is trained.

The weights are noise, pruned by magnitude to the densities of Table 4 of "Deep Compression", shared by 256
values in convolutions and 32 in dense layers. Masks are independent (normal weights), or clumped: what a unit
reads and what reads it are as large as normal noise makes them, so that rows and columns differ in density.
Out: a table, and an exit code that is 0 only if the ratios are those required. `make compression` calls this.
"""

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ingot.compression.accounting import Account, Sizes, sizes_of
from ingot.compression.encode import AUTO, CODED, Choice, encode
from ingot.formula.expr import Array

# Rows, columns, the share that stays, bits of a code.
LAYERS = {
    "conv1": (96, 363, 0.84, 8),
    "conv2": (256, 1200, 0.38, 8),
    "conv3": (384, 2304, 0.35, 8),
    "conv4": (384, 1728, 0.37, 8),
    "conv5": (256, 1728, 0.37, 8),
    "fc6": (4096, 9216, 0.09, 5),
    "fc7": (4096, 4096, 0.09, 5),
    "fc8": (1000, 4096, 0.25, 5),
}
GAPS = {"4 bits": 4, "auto": AUTO, "coded": CODED}


@dataclass(frozen=True)
class Case:
    """Masks, how relative indices are stored, and the ratios required without and with Huffman coding."""

    spread: float
    gaps: str
    plain: float = 0.0
    coded: float = 0.0


CASES = (
    Case(0.0, "4 bits", 25.5, 33),
    Case(0.0, "auto"),
    Case(0.0, "coded"),
    Case(0.17, "4 bits"),
    Case(0.17, "auto", 27, 35),
    Case(0.17, "coded", coded=35),
)


def noise(rows: int, columns: int, spread: float, seed: int) -> Array:
    """Normal weights; the logarithms of the scales of rows and columns are normal, of that deviation."""
    rng = np.random.default_rng(seed)
    row, column = (np.exp(spread * rng.standard_normal(n)).astype(np.float32) for n in (rows, columns))
    weights = rng.standard_normal((rows, columns), np.float32)
    weights *= row[:, None]
    weights *= column
    return weights


def account(case: Case, seed: int) -> Account:
    """All layers, pruned, shared and counted."""
    sizes: list[Sizes] = []
    for n, (name, (rows, columns, density, bits)) in enumerate(LAYERS.items()):
        choice = Choice(density, bits, GAPS[case.gaps], "sparse", "linear")
        found = encode(noise(rows, columns, case.spread, seed + n), choice)
        assert found is not None, "sparse layers are encoded"
        sizes.append(sizes_of(name, "", found))
    return Account(tuple(sizes))


def main() -> int:
    """Counts every case; returns the exit code."""
    parser = argparse.ArgumentParser(description="Count what an AlexNet-shaped network takes, compressed.")
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    console = Console()
    table = Table("masks", "indices", "without Huffman", "required", "with", "required")
    table.title = "AlexNet, Table 4's densities (the paper: 27x and 35x)"
    is_good = True
    with Progress(console=console) as bar:
        for case in bar.track(CASES, description="pruning, sharing and counting 61 million weights"):
            found = account(case, seed)
            is_good &= found.plain_ratio >= case.plain and found.ratio >= case.coded
            masks = f"clumped, {case.spread:.0%}" if case.spread else "independent"
            ratios = (found.plain_ratio, case.plain), (found.ratio, case.coded)
            cells = [
                text for got, wanted in ratios for text in (f"{got:.1f}x", f"{wanted}x" if wanted else "")
            ]
            table.add_row(masks, case.gaps, *cells)
    console.print(table)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
