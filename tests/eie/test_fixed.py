"""The functional model: rounding, saturation, binary places, agreement with floats."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.eie import fixed
from ingot.eie.columns import encode


def layer(rows: int = 200, cols: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    codes = (rng.integers(1, 16, (rows, cols)) * (rng.random((rows, cols)) < 0.2)).astype(np.uint8)
    book = np.concatenate(([0], np.linspace(-0.1, 0.13, 15)))
    return codes, book, np.maximum(rng.standard_normal(cols), 0)


@pytest.mark.parametrize(("bits", "most"), [(8, 0.25), (16, 1e-3), (32, 1e-7)])
def test_agrees_with_floats(bits: int, most: float) -> None:
    codes, book, a = layer()
    columns = encode(codes, 16)
    arithmetic = fixed.arrange(columns, book, a, bits)
    got = fixed.product(columns, arithmetic, fixed.quantise(a, arithmetic.activation_places, bits))
    wanted = book[codes] @ a
    found = np.abs(fixed.real(got, arithmetic.sum_places) - wanted).max() / np.abs(wanted).max()
    assert found < most
    assert np.abs(got).max() > fixed.limit(bits) // 8  # the places are used


def test_halves_round_up() -> None:
    assert [fixed.scaled(n, 1) for n in (-3, -1, 1, 3)] == [-1, 0, 1, 2]
    assert fixed.scaled(5, 0) == 5 and fixed.scaled(5, -2) == 20


def test_sums_saturate_on_the_way() -> None:
    """30000 + 30000 - 30000 is 2767 with saturation, whatever the other rows do."""
    codes = np.array([[1, 1, 2], [1, 2, 0]], np.uint8)
    arithmetic = fixed.Arithmetic(np.array([0, 30000, -30000, *[0] * 13]), 16, 0, 0, 0)
    got = fixed.product(encode(codes, 2), arithmetic, np.ones(3, np.int64))
    assert got.tolist() == [2767, 0]


def test_places_hold_the_largest() -> None:
    for largest in (0.1, 0.5, 0.999, 1.0, 1.5, 3.99, 1000.0):
        n = fixed.places(largest, 16)
        assert largest * 2.0**n <= 1 << 15
        assert largest * 2.0 ** (n + 1) > fixed.limit(16)
    assert fixed.places(0.0, 16) == 15
    assert fixed.quantise(np.array([1e9, -1e9]), 3, 8).tolist() == [127, -128]


def test_batches_give_what_the_whole_gives() -> None:
    codes, book, a = layer()
    whole = encode(codes, 4)
    arithmetic = fixed.arrange(whole, book, a)
    ints = fixed.quantise(a, arithmetic.activation_places, 16)
    sums = None
    for at in range(0, 300, 70):
        part = encode(np.ascontiguousarray(codes[:, at : at + 70]), 4)
        sums = fixed.product(part, arithmetic, ints[at : at + 70], sums)
    np.testing.assert_array_equal(sums, fixed.product(whole, arithmetic, ints))


def test_no_activations_and_no_weights() -> None:
    columns = encode(np.zeros((3, 4), np.uint8), 2)
    arithmetic = fixed.arrange(columns, np.zeros(16), np.zeros(4))
    assert fixed.product(columns, arithmetic, np.zeros(4, np.int64)).tolist() == [0, 0, 0]
