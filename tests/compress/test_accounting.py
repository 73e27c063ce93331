"""Accounts: the papers' own arithmetic, real streams, and densities found for a ratio."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.compress import huffman
from ingot.compress.accounting import Account, Part, Sizes, as_json, as_markdown, sizes_of
from ingot.compress.encode import Choice, encode
from ingot.compress.model import Wish, compress
from ingot.errors import InputError
from ingot.graph.encoding import Codebook, Sparse
from tests.compress.models import answers, model, read

ROW = "(float[2,240] x) => (float[2,40] y)"

# Table 4 of the paper, AlexNet: weights, kept %, bits of a weight and of an index plain and coded, size %
# plain and coded; and the fillers per kept weight that its size column implies (its % are rounded).
TABLE4 = {
    "conv1": (34_848, 84, 8, 6.3, 4, 1.2, 32.6, 20.53, 0.0),
    "conv2": (307_200, 38, 8, 5.5, 4, 2.3, 14.5, 9.43, 0.0),
    "conv3": (884_736, 35, 8, 5.1, 4, 2.6, 13.1, 8.44, 0.0),
    "conv4": (663_552, 37, 8, 5.2, 4, 2.5, 14.1, 9.11, 0.0),
    "conv5": (442_368, 37, 8, 5.6, 4, 2.5, 14.0, 9.43, 0.0),
    "fc6": (37_748_736, 9, 5, 3.9, 4, 3.2, 3.0, 2.39, 0.185),
    "fc7": (16_777_216, 9, 5, 3.6, 4, 3.7, 3.0, 2.46, 0.185),
    "fc8": (4_096_000, 25, 5, 4.0, 4, 3.2, 7.3, 5.85, 0.03),
}


def stated(name: str) -> Sizes:
    """A row of the table as the account has it."""
    weights, percent, code, coded, gap, coded_gap, *_, filler = TABLE4[name]
    kept = round(weights * percent / 100)
    entries = round(kept * (1 + filler))
    codes = Part(entries, entries * code, round(entries * coded))
    gaps = Part(entries, entries * gap, round(entries * coded_gap))
    return Sizes(name, "", "sparse", weights, kept, codes, gaps, 32 << code)


@pytest.mark.parametrize("name", TABLE4)
def test_the_papers_size_columns(name: str) -> None:
    sizes, (*_, plain, coded, _) = stated(name), TABLE4[name]
    assert 100 * sizes.plain_bits / sizes.float_bits == pytest.approx(plain, abs=max(0.05, 0.02 * plain))
    assert 100 * sizes.coded_bits / sizes.float_bits == pytest.approx(coded, rel=0.1)


def test_the_papers_totals() -> None:
    account = Account(tuple(map(stated, TABLE4)))
    assert account.plain_ratio == pytest.approx(27, rel=0.05) and account.ratio == pytest.approx(35, rel=0.06)


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
    assert as_markdown(account).count("\n| w | fc | sparse | 9,600 | 10.00 |") == 1


@pytest.mark.parametrize("scale", ["sensitivity", "global"])
def test_densities_for_a_ratio(scale: str) -> None:
    weights = {"v": [240, 100], "w": [100, 40]}
    made = compress(
        model(ROW, "{ h = MatMul(x, v) r = Relu(h) y = MatMul(r, w) }", weights),
        read,
        Wish(ratio="20x", scale=scale),  # type: ignore[arg-type]  # of the test
    )
    assert 20 <= made.account.ratio < 22
    assert answers(made.model)[0].shape == (2, 40)


def test_layers_that_are_named_keep_their_density() -> None:
    weights = {"v": [240, 100], "w": [100, 40]}
    body = "{ h = MatMul(x, v) y = MatMul(h, w) }"
    made = compress(model(ROW, body, weights), read, Wish(ratio="15", density=("w=0.5",)))
    assert made.account.layers[1].kept == 2000 and made.account.ratio >= 15
    with pytest.raises(InputError, match="smaller at most"):
        compress(model(ROW, body, weights), read, Wish(ratio="60", density=("w=1",), bits=("w=8",)))
    with pytest.raises(InputError, match="as in 35x"):
        compress(model(ROW, body, weights), read, Wish(ratio="x35"))


def test_an_alexnet_with_masks_at_random() -> None:
    """Table 4's densities, dense layers a quarter as wide and high: what pruning leaves of normal weights."""
    rng = np.random.default_rng(0)
    sizes = []
    for name, (weights, percent, bits, *_) in TABLE4.items():
        n = weights // 16
        kept = n * percent // 100
        values = np.zeros(n, np.float32)
        drawn = rng.standard_normal(n)
        values[rng.choice(n, kept, replace=False)] = rng.permutation(drawn[np.argsort(np.abs(drawn))[-kept:]])
        found = encode(values, Choice(1.0, bits, 4, "sparse", "linear"))
        assert found is not None
        sizes.append(sizes_of(name, "", found))
    account = Account(tuple(sizes))
    assert account.plain_ratio > 25 and account.ratio > 31.5
