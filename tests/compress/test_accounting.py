"""Accounts: the papers' own arithmetic, real streams, and densities found for a ratio."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.compression.accounting import Account, Part, Sizes, as_json, as_markdown, sizes_of
from ingot.compression.encode import Choice, encode
from ingot.compression.model import Wish, compress
from ingot.compression.propose import Scale
from ingot.compression.published import ALEXNET, NETWORKS, SMALL, TOTALS, Row
from ingot.errors import InputError
from ingot.graph import huffman
from ingot.graph.encoding import Codebook, Sparse
from tests.compress.models import answers, model, read

ROW = "(float[2,240] x) => (float[2,40] y)"


def stated(row: Row, plain: float, bits: float) -> Sizes:
    """A row of a table as the account has it, entries as many as `plain` % of the floats have room for.

    `bits`: how far coded bits of codes and of gaps are from those printed.
    """
    values_bits = 32 << row.code
    entries = int((plain / 100 * 32 * row.weights - values_bits) / (row.code + row.gap))
    codes = Part(entries, entries * row.code, round(entries * (row.coded_code + bits)))
    gaps = Part(entries, entries * row.gap, round(entries * (row.coded_gap + bits)))
    kept = round(row.weights * row.kept / 100)
    return Sizes("", "", "sparse", row.weights, kept, codes, gaps, values_bits, 32 * row.weights)


def within(row: Row, digits: float = 0.05) -> tuple[Sizes, Sizes]:
    """The least and the most that the printed figures mean, each rounded to its last digit."""
    return stated(row, row.plain - digits, -digits), stated(row, row.plain + digits, digits)


def percent(part: int, sizes: Sizes) -> float:
    return 100 * part / sizes.before_bits


ROWS = [(network, layer) for network, table in NETWORKS.items() for layer in table]


@pytest.mark.parametrize(("network", "layer"), ROWS)
def test_the_papers_columns_are_the_accounts(network: str, layer: str) -> None:
    """From weights kept, bits per entry and the codebook follows the size printed, before Huffman coding with
    the fillers that it leaves room for, and after it with the same entries: to the last digit."""
    row = NETWORKS[network][layer]
    least, most = within(row)
    assert percent(most.plain_bits, most) == pytest.approx(row.plain + 0.05, abs=64 * 100 / most.before_bits)
    # As many entries as weights are kept or more, but no more fillers than runs of zeros have room for.
    assert most.codes.count >= (row.kept - 0.5) / 100 * row.weights
    if (network, layer) not in SMALL:
        zeros = (100.5 - row.kept) / 100 * row.weights
        assert least.codes.count - (row.kept + 0.5) / 100 * row.weights <= zeros / (1 << row.gap)
    low, high = percent(least.coded_bits, least), percent(most.coded_bits, most)
    if (network, layer) in SMALL:
        low -= percent(least.values_bits // 10, least)
    assert low <= row.coded + 0.005 and row.coded - 0.005 <= high


@pytest.mark.parametrize("network", NETWORKS)
def test_the_papers_totals(network: str) -> None:
    """Within 8 %: the paper's rows, taken at their word, add up to its totals no closer."""
    account = Account(tuple(stated(row, row.plain, 0) for row in NETWORKS[network].values()))
    kept, plain, coded, plain_ratio, ratio = TOTALS[network]
    total = account.total
    assert percent(32 * total.kept, total) == pytest.approx(kept, abs=0.7)
    assert percent(total.plain_bits, total) == pytest.approx(plain, rel=0.08)
    assert percent(total.coded_bits, total) == pytest.approx(coded, rel=0.08)
    assert account.plain_ratio == pytest.approx(plain_ratio, rel=0.08)
    assert account.ratio == pytest.approx(ratio, rel=0.08)


def test_the_papers_example_of_weight_sharing() -> None:
    """Section 3: 16 weights of 32 bits, four clusters: 16 * 32 / (4 * 32 + 2 * 16) = 3.2."""
    codes = np.arange(16, dtype=np.uint8).reshape(4, 4) % 4
    sizes = sizes_of("w", "fc", Codebook(codes, np.arange(4, dtype=np.float32)))
    assert Account((sizes,)).plain_ratio == 3.2


@pytest.mark.parametrize("density", [0.02, 0.1, 0.4])
def test_sizes_are_those_of_real_streams(density: float) -> None:
    weights = np.random.default_rng(4).standard_normal((120, 90)).astype(np.float32)
    found = encode(weights, Choice(density, 4, 4, "sparse", "linear"))
    assert isinstance(found, Sparse)
    streams = [huffman.encode(found.codes, 16), huffman.encode(found.gaps, 16)]
    for stream, symbols in zip(streams, (found.codes, found.gaps), strict=True):
        np.testing.assert_array_equal(huffman.decode(stream), symbols)
    plain = -(-4 * len(found.codes) // 8) * 8
    sizes = sizes_of("w", "fc", found)
    assert sizes.coded_bits == 32 * 16 + sum(min(s.bits, plain) for s in streams)
    assert sizes.plain_bits == 32 * 16 + 2 * plain
    assert sizes.kept == round(density * weights.size) <= sizes.codes.count


def test_everything_is_counted() -> None:
    made = compress(
        model(ROW, "{ y = Gemm (x, w, b) }", {"w": [240, 40], "b": [40]}), read, Wish(density=("0.1",))
    )
    account = made.account
    assert account.other_bits == 32 * 40
    assert account.whole_ratio < account.ratio
    data = as_json(account)
    assert data["layers"][0]["bits"][1] == account.layers[0].coded_bits == account.total.coded_bits
    assert as_markdown(account, "net.onnx").count("\n| w | fc | sparse | 9,600 | 10.00 |") == 1


@pytest.mark.parametrize("scale", ["sensitivity", "global", "deviation"])
def test_densities_for_a_ratio(scale: Scale) -> None:
    weights = {"v": [240, 100], "w": [100, 40]}
    made = compress(
        model(ROW, "{ h = MatMul(x, v) r = Relu(h) y = MatMul(r, w) }", weights),
        read,
        Wish(ratio="20x", scale=scale),
    )
    assert 20 <= made.account.ratio < 22
    assert answers(made.model)[0].shape == (2, 40)


@pytest.mark.parametrize("scale", ["sensitivity", "global", "deviation"])
def test_densities_for_all_weights_together(scale: Scale) -> None:
    """The second layer's weights are a tenth of the first's: global pruning leaves few of them."""
    rng = np.random.default_rng(7)
    weights = {"v": rng.standard_normal((240, 100)), "w": rng.standard_normal((100, 40)) / 10}
    before = model(
        ROW, "{ h = MatMul(x, v) y = MatMul(h, w) }", {n: a.astype(np.float32) for n, a in weights.items()}
    )
    made = compress(before, read, Wish(total_density="10%", scale=scale))
    v, w = (layer.kept / layer.weights for layer in made.account.layers)
    assert made.account.total.kept == pytest.approx(2800, abs=3)
    if scale == "global":
        magnitudes = np.sort(np.abs(np.concatenate([a.reshape(-1) for a in weights.values()])))
        assert w * 4000 == pytest.approx(np.count_nonzero(np.abs(weights["w"]) >= magnitudes[-2800]), abs=2)
    else:
        assert v == pytest.approx(0.1, abs=0.01 if scale == "deviation" else 0.05) and w > 0.05


def test_goals_out_of_reach_or_twice() -> None:
    weights = {"v": [240, 100], "w": [100, 40]}
    for wish, message in (
        (
            Wish(total_density="0.1", density=("w=1",)),
            "keep at least 14.29% of their weights, more than the 10.00%",
        ),
        (
            Wish(total_density="0.99", density=("w=0.4",)),
            "keep at most 91.43% of their weights, less than the 99.00%",
        ),
        (Wish(total_density="0.1", ratio="20x"), "take one"),
        (Wish(total_density="2"), "--total-density 2: a density is"),
    ):
        with pytest.raises(InputError, match=message):
            compress(model(ROW, "{ h = MatMul(x, v) y = MatMul(h, w) }", weights), read, wish)


def test_layers_that_are_named_keep_their_density() -> None:
    weights = {"v": [240, 100], "w": [100, 40]}
    body = "{ h = MatMul(x, v) y = MatMul(h, w) }"
    made = compress(model(ROW, body, weights), read, Wish(ratio="15", density=("w=0.5",)))
    assert made.account.layers[1].kept == 2000 and made.account.ratio >= 15
    with pytest.raises(InputError, match="become at most"):
        compress(model(ROW, body, weights), read, Wish(ratio="60", density=("w=1",), bits=("w=8",)))
    with pytest.raises(InputError, match="as in 35x"):
        compress(model(ROW, body, weights), read, Wish(ratio="x35"))


def test_an_alexnet_with_masks_at_random() -> None:
    """Table 4's densities, dense layers a quarter as wide and high: what pruning leaves of normal weights."""
    rng = np.random.default_rng(0)
    sizes = []
    for name, row in ALEXNET.items():
        n = row.weights // 16
        kept = n * row.kept // 100
        values = np.zeros(n, np.float32)
        drawn = rng.standard_normal(n)
        values[rng.choice(n, kept, replace=False)] = rng.permutation(drawn[np.argsort(np.abs(drawn))[-kept:]])
        found = encode(values, Choice(1.0, row.code, 4, "sparse", "linear"))
        assert found is not None
        sizes.append(sizes_of(name, "", found))
    account = Account(tuple(sizes))
    assert account.plain_ratio > 25 and account.ratio > 32
