"""The accelerator's encoder: the published vectors, round trips, bias."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.eie.columns import encode, joined, with_bias, with_one
from ingot.errors import InputError

# Figure 2 of arXiv:1602.01528, the rows of PE 0 (0, 4, 8, 12) of a 16 x 8 matrix over four PEs.
FIGURE_2 = {0: (0, 2, 4, 5, 6), 4: (1, 4), 8: (0, 7), 12: (0, 2, 5, 7)}
FIGURE_3_GAPS = [0, 1, 0, 1, 0, 2, 0, 0, 0, 2, 0, 2, 0]
FIGURE_3_POINTERS = [0, 3, 4, 6, 6, 8, 10, 11, 13]


def test_the_published_column() -> None:
    """Section III.B: [0, 0, 1, 2, 18 zeros, 3]."""
    made = encode(np.array([[0, 0, 1, 2, *[0] * 18, 3]], np.uint8).T, 1)
    assert made.codes.tolist() == [1, 2, 0, 3]
    assert made.gaps.tolist() == [2, 0, 15, 2]
    assert made.pointers.tolist() == [[0, 4]]


def test_the_published_memory_of_a_pe() -> None:
    codes = np.zeros((16, 8), np.uint8)
    for row, columns in FIGURE_2.items():
        codes[row, columns] = 1 + row
    codes[1::2] = 7  # the other PEs change nothing
    made = encode(codes, 4)
    kept, gaps = made.part(0)
    rows = [0, 8, 12, 4, 0, 12, 0, 4, 0, 12, 0, 8, 12]
    assert (kept - 1).tolist() == rows
    assert gaps.tolist() == FIGURE_3_GAPS
    assert made.pointers[0].tolist() == FIGURE_3_POINTERS


@pytest.mark.parametrize("pes", [1, 3, 4, 64])
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (130, 7), (37, 20), (0, 5), (5, 0), (700, 3)])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.3, 1.0])
def test_a_round_trip(pes: int, rows: int, cols: int, density: float) -> None:
    rng = np.random.default_rng(rows)
    codes = (rng.integers(1, 16, (rows, cols)) * (rng.random((rows, cols)) < density)).astype(np.uint8)
    for gap_bits in (2, 4):
        made = encode(codes, pes, gap_bits)
        np.testing.assert_array_equal(made.dense(), codes)
        assert len(made.codes) - made.fillers == np.count_nonzero(codes)
        assert int(made.gaps.max(initial=0)) < 1 << gap_bits
        assert made.starts[-1] == len(made.codes)


def test_gaps_start_again_at_every_column() -> None:
    codes = np.zeros((40, 2), np.uint8)
    codes[[0, 39], [0, 1]] = 3
    made = encode(codes, 1)
    assert made.pointers.tolist() == [[0, 1, 4]]
    assert made.gaps.tolist() == [0, 15, 15, 7]


def test_the_bias_follows_the_last_whole_row_of_activations() -> None:
    codes, bias = np.ones((5, 6), np.uint8), np.arange(5, dtype=np.uint8)
    whole = with_bias(codes, bias, 4)
    assert whole.shape == (5, 9)
    assert whole[:, 8].tolist() == [0, 1, 2, 3, 4] and not whole[:, 6:8].any()
    assert with_one(np.full(6, 2.0), 9).tolist() == [2.0] * 6 + [0.0, 0.0, 1.0]


def test_columns_from_the_memories_of_pes() -> None:
    rng = np.random.default_rng(0)
    codes = (rng.integers(1, 16, (70, 9)) * (rng.random((70, 9)) < 0.2)).astype(np.uint8)
    made = encode(codes, 4)
    parts = [(*made.part(k), made.pointers[k]) for k in range(4)]
    again = joined((70, 9), parts)
    np.testing.assert_array_equal(again.dense(), codes)
    with pytest.raises(InputError, match="do not fit"):
        joined((70, 8), parts)
    with pytest.raises(InputError, match="leave their 20 rows"):
        joined((20, 9), parts)
    back = made.pointers[0].copy()
    back[3] = back[-1] + 1
    with pytest.raises(InputError, match="go back"):
        joined((70, 9), [(*made.part(0), back), *parts[1:]])


def test_what_is_no_matrix_of_codes() -> None:
    with pytest.raises(InputError, match="two axes"):
        encode(np.zeros((2, 2, 2), np.uint8), 4)
    with pytest.raises(InputError, match="uint8"):
        encode(np.zeros((2, 2), np.int64), 4)
    with pytest.raises(InputError, match="one code per row"):
        with_bias(np.zeros((2, 2), np.uint8), np.zeros(3, np.uint8), 4)
