"""Integers that scale sums as floats do: every sum beside every other way to compute it."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.loops.exact_scales import multipliers, words

LIMITS = ((0, 255), (-128, 127), (-5, 250), (-255, 0), (3, 258), (0, 0))


@pytest.mark.parametrize("limits", LIMITS)
def test_every_sum_becomes_the_same_number(limits: tuple[int, int]) -> None:
    scales = np.exp2(np.random.default_rng(1).uniform(-11, -1.5, 60)).astype(np.float32)
    found = multipliers(scales, *limits)
    for scale, m in zip(scales, found, strict=True):
        reach = int(300 / scale)
        sums = np.arange(-reach, reach + 1, dtype=np.int64)
        floats = np.rint(sums.astype(np.float32) * scale).clip(*limits)
        if m:
            whole = ((sums * m + (1 << 31)) >> 32).clip(*limits)
            assert np.array_equal(whole, floats)
    assert np.mean(found > 0) > 0.7 or limits == (0, 0)


def test_scales_that_have_no_integer() -> None:
    """Halves are rounded to even numbers, a product has 32 bits, and a sum has 31."""
    assert not multipliers(np.array([0.25, 1 / 128, 0.5, 3.0, 1e-8, -0.3], np.float32), 0, 255).any()
    assert multipliers(np.zeros(2, np.float32), 0, 255).tolist() == [1, 1]


def test_a_block_is_integers_or_floats() -> None:
    scales = np.array([[0.0312567, 0.0171717], [0.0312567, 0.25]], np.float32)
    assert (multipliers(scales.reshape(-1), 0, 255) > 0).tolist() == [True, True, True, False]
    made = words(scales, 0, 255, block=2)
    assert (made > 0).tolist() == [[True, True], [False, False]]
    assert (-made[1].view(np.float32)).tolist() == scales[1].tolist()
