"""Tables 4 and 5 of "Deep Compression" beside our own: AlexNet and VGG-16, layer by layer. Nothing trains.

The weights are drawn: Laplace's distribution, times scales of rows and columns whose logarithms are normal
with a deviation of 0.3 (trained layers have such tails, and units that matter more than others). They are
pruned by magnitude to the densities of the tables, shared by 256 values in convolutions and 32 in dense
layers from centroids spread evenly, and their gaps have the tables' bits: 4 for AlexNet, 5 for VGG-16.
`--gaps auto` and `--gaps coded` choose widths, `--normal` draws independent normal weights instead.

Out: the tables, and an exit code that is 0 only if both become as small as the paper has them.
"""

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ingot.compression.accounting import Account, Part, Sizes, sizes_of
from ingot.compression.encode import AUTO, CODED, Choice, encode
from ingot.compression.published import NETWORKS, TOTALS, Row
from ingot.formula.expr import Array

CHOSEN = {"AlexNet": "Table 4", "VGG-16": "Table 5"}
SPREAD = 0.3
GAPS = {"auto": AUTO, "coded": CODED}
BITS = ("weight bits", "+Huffman", "index bits", "+Huffman")
COLUMNS = ("layer", "#weights", "kept %", *BITS, "size %", "paper", "+Huffman", "paper")


def drawn(row: Row, seed: int, is_normal: bool) -> Array:
    """Weights of a layer, in rows of as many terms as one result adds."""
    rng = np.random.default_rng(seed)
    shape = row.weights // row.terms, row.terms
    if is_normal:
        return rng.standard_normal(shape, np.float32)
    weights = rng.standard_exponential(shape, np.float32)
    weights *= rng.integers(0, 2, shape, np.int8) * np.float32(2) - 1
    weights *= np.exp(SPREAD * rng.standard_normal((shape[0], 1), np.float32))
    weights *= np.exp(SPREAD * rng.standard_normal((1, shape[1]), np.float32))
    return weights


def counted(name: str, row: Row, gap_bits: int, seed: int, is_normal: bool) -> Sizes:
    """A layer pruned, shared and counted."""
    choice = Choice(row.kept / 100, row.code, gap_bits, "sparse", "linear")
    found = encode(drawn(row, seed, is_normal), choice)
    assert found is not None, "sparse layers are encoded"
    return sizes_of(name, "", found)


def pair(part: Part, plain: float, coded: float) -> tuple[str, str]:
    """Bits of an entry before and after Huffman coding, the paper's in brackets."""
    ours = part.plain_bits / part.count, part.coded_bits / part.count
    return f"{ours[0]:.2g} ({plain:g})", f"{ours[1]:.1f} ({coded:g})"


def percent(bits: int, sizes: Sizes) -> str:
    return f"{100 * bits / sizes.before_bits:.2f}"


def table_of(network: str, layers: Sequence[Sizes]) -> Table:
    """The paper's table, ours beside it."""
    table = Table(*COLUMNS, title=f"{network}, {CHOSEN[network]} of the paper (its figures in brackets)")
    for sizes, row in zip(layers, NETWORKS[network].values(), strict=True):
        codes = pair(sizes.codes, row.code, row.coded_code)
        gaps = pair(sizes.gaps, row.gap, row.coded_gap)
        plain, coded = percent(sizes.plain_bits, sizes), percent(sizes.coded_bits, sizes)
        share = f"{100 * sizes.kept / sizes.weights:.0f} ({row.kept})"
        cells = (plain, f"{row.plain}", coded, f"{row.coded}")
        table.add_row(sizes.name, f"{sizes.weights:,}", share, *codes, *gaps, *cells)
    account, (kept, plain_size, coded_size, plain_ratio, ratio) = Account(tuple(layers)), TOTALS[network]
    total = account.total
    share = f"{100 * total.kept / total.weights:.1f} ({kept})"
    sizes_cells = (percent(total.plain_bits, total), f"{plain_size}")
    coded_cells = (percent(total.coded_bits, total), f"{coded_size}")
    table.add_section()
    table.add_row("total", f"{total.weights:,}", share, "", "", "", "", *sizes_cells, *coded_cells)
    ratios = (f"{account.plain_ratio:.1f}x", f"{plain_ratio}x", f"{account.ratio:.1f}x", f"{ratio}x")
    table.add_row("times smaller", "", "", "", "", "", "", *ratios)
    return table


def main() -> int:
    """Prints both tables; returns the exit code."""
    parser = argparse.ArgumentParser(description="Count what AlexNet and VGG-16 take, compressed.")
    parser.add_argument("--gaps", choices=["paper", *GAPS], default="paper")
    parser.add_argument("--normal", action="store_true", help="independent normal weights")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    console, is_good = Console(width=140), True
    for network in CHOSEN:
        layers, rows = [], NETWORKS[network]
        with Progress(console=Console(stderr=True)) as bar:
            for n, (name, row) in enumerate(bar.track(rows.items(), description=network)):
                bits = GAPS.get(asked.gaps, row.gap)
                layers.append(counted(name, row, bits, asked.seed + n, asked.normal))
        console.print(table_of(network, layers))
        is_good &= Account(tuple(layers)).ratio >= TOTALS[network][-1]
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
