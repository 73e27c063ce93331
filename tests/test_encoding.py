"""Encodings: the published golden vector, round trips with fillers, and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.formula.expr import Array
from ingot.graph.encoding import Codebook, Sparse

VALUES = np.linspace(-1, 1, 16, dtype=np.float32) * (np.arange(16) != 0)


def test_the_published_column() -> None:
    """EIE (arXiv:1602.01528), section III.B: [0, 0, 1, 2, 18 zeros, 3]."""
    column = np.array([0, 0, 1, 2, *[0] * 18, 3], np.uint8)
    sparse = Sparse.of(column, VALUES, 4)
    assert sparse.codes.tolist() == [1, 2, 0, 3]
    assert sparse.gaps.tolist() == [2, 0, 15, 2]


@pytest.mark.parametrize("gap_bits", [1, 3, 4, 5, 8])
@pytest.mark.parametrize("density", [0.0, 0.003, 0.09, 0.5, 1.0])
def test_a_round_trip(gap_bits: int, density: float) -> None:
    rng = np.random.default_rng(gap_bits)
    shape = (7, 3, 41)
    codes = (rng.integers(1, 16, shape) * (rng.random(shape) < density)).astype(np.uint8)
    sparse = Sparse.of(codes, VALUES, gap_bits)
    sparse.check()
    assert sparse.bits == 4
    np.testing.assert_array_equal(sparse.dense().codes, codes)
    np.testing.assert_array_equal(sparse.decode(), VALUES[codes])


def test_runs_at_the_reach_of_a_gap() -> None:
    for zeros, fillers in ((14, 0), (15, 0), (16, 1), (31, 1), (32, 2)):
        codes = np.array([0] * zeros + [5], np.uint8)
        assert len(Sparse.of(codes, VALUES, 4).codes) == fillers + 1


BYTES = np.arange(4, dtype=np.uint8)
BAD: list[tuple[Codebook | Sparse, str]] = [
    (Codebook(BYTES, VALUES[:2]), "code 3 stands for none of the 2 values"),
    (Codebook(BYTES, VALUES[:3]), "3 values, where a power of two"),
    (Sparse((9,), BYTES, BYTES[:3], VALUES, 4), "one list each"),
    (Sparse((99,), BYTES, BYTES, VALUES, 1), "do not fit 1 bits"),
    (Sparse((9,), BYTES, BYTES, VALUES, 4), "reach to 10 of 9 elements"),
    (Sparse((99,), BYTES, BYTES, VALUES + 1, 4), "value of code 0 should be 0"),
]


@pytest.mark.parametrize("encoding, message", BAD)
def test_what_does_not_fit(encoding: Codebook | Sparse, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encoding.check()


def test_elements_are_arrays_of_float32() -> None:
    elements: Array = Codebook(np.eye(3, dtype=np.uint8), VALUES).decode()
    assert elements.dtype == np.float32 and elements.shape == (3, 3)
