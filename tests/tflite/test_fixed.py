"""Factors in float32 that round every sum as factors in float64 do."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.frontends.tflite.fixed import float32_factors

LIMITS = (-98, 157)


@pytest.mark.parametrize("factor", [0.5, 0.0029795, 0.037, 0.25, 1 / 3, 0.0101])
def test_sums_round_alike(factor: float) -> None:
    """Ties included: half of an odd sum is one."""
    found = float32_factors(np.array([factor]), *LIMITS)
    assert found is not None
    reach = int(max(map(abs, LIMITS)) / factor) + 9
    sums = np.concatenate([np.arange(-reach, reach + 1), [-(2**31), 2**31 - 1]])
    wide = np.abs(sums * factor)
    away = np.copysign(np.floor(wide) + (wide - np.floor(wide) >= 0.5), sums).clip(*LIMITS)
    nearest = np.rint(sums.astype(np.float32) * found[0]).clip(*LIMITS)
    np.testing.assert_array_equal(nearest, away)


@pytest.mark.parametrize("factor", [1.5, 1e-7, 1.2345678e-5])
def test_none_where_no_float32_does(factor: float) -> None:
    assert float32_factors(np.array([0.25, factor]), *LIMITS) is None
