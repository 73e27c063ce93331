"""Weight sharing and pruning: beside brute force, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.compression.accounting import sizes_of
from ingot.compression.encode import AUTO, CODED, Choice, encode, entries
from ingot.compression.prune import largest
from ingot.compression.share import STARTS, centroids, distortion, nearest
from ingot.formula.expr import Array
from ingot.graph.encoding import Codebook, Sparse


def least_distortion(values: Array, count: int) -> float:
    """Over every way to cut the sorted values into clusters, by the plain recurrence."""
    ordered = np.sort(values).astype(np.float64)
    n = len(ordered)
    best = np.full((count + 1, n + 1), np.inf)
    best[0, 0] = 0
    for c in range(1, count + 1):
        for j in range(1, n + 1):
            parts = [ordered[i:j] for i in range(j)]
            best[c, j] = min(best[c - 1, i] + ((p - p.mean()) ** 2).sum() for i, p in enumerate(parts))
    return float(best[count, n])


@pytest.mark.parametrize("seed", range(12))
def test_optimal_clusters_have_the_least_distortion(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(6, 30)), int(rng.integers(1, 6))
    values = rng.standard_normal(n).astype(np.float32)
    values = np.round(values, 1) if seed % 3 == 0 else values
    least = least_distortion(values, count)
    for start in STARTS:
        found = distortion(values, centroids(values, count, start, seed))
        assert found >= least * (1 - 1e-6) - 1e-9
        if start == "optimal":
            assert found <= least * (1 + 1e-5) + 1e-9


@pytest.mark.parametrize("start", STARTS)
def test_many_values(start: str) -> None:
    values = np.random.default_rng(5).laplace(size=50_000).astype(np.float32)
    found = centroids(values, 16, start)  # type: ignore[arg-type]  # of the test
    assert found.dtype == np.float32 and found.shape == (16,) and (np.diff(found) >= 0).all()
    apart = np.abs(values[:, None] - found[None])
    near = apart[np.arange(len(values)), nearest(values, found)]
    np.testing.assert_allclose(near, apart.min(axis=1), atol=1e-6)
    best = distortion(values, centroids(values, 16, "optimal"))
    assert best <= distortion(values, found) * (1 + 1e-9)


def test_many_clusters_are_almost_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(5).laplace(size=4000).astype(np.float32)
    found = distortion(values, centroids(values, 255, "optimal"))
    monkeypatch.setattr("ingot.compression.share.WORK", 1 << 30)
    assert found <= 1.01 * distortion(values, centroids(values, 255, "optimal"))


def test_fewer_values_than_centroids_stand_for_themselves() -> None:
    found = centroids(np.array([3, -1, 3, 2], np.float32), 5)
    assert found.tolist() == [-1, 2, 3, 3, 3]
    assert centroids(np.zeros(0, np.float32), 3).tolist() == [0, 0, 0]


def test_the_largest_stay_and_of_equals_the_first() -> None:
    weights = np.array([[1, -3, 2], [-2, 0, 2]], np.float32)
    assert largest(weights, 1).tolist() == [[False, True, False], [False, False, False]]
    assert largest(weights, 3).tolist() == [[False, True, True], [True, False, False]]
    assert largest(weights, 6).sum() == 5 and largest(weights, 0).sum() == 0


@pytest.mark.parametrize("density", [0.001, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("gap_bits", [1, 3, 8])
def test_an_encoding_keeps_the_largest(density: float, gap_bits: int) -> None:
    weights = np.random.default_rng(3).standard_normal((40, 30)).astype(np.float32)
    kept = largest(weights, round(density * weights.size))
    for form in ("sparse", "codebook"):
        found = encode(weights, Choice(density, 5, gap_bits, form))  # type: ignore[arg-type]  # of the test
        assert found is not None
        found.check()
        np.testing.assert_array_equal(found.decode() != 0, kept)
        assert np.abs(found.decode() - weights)[kept].max() < 0.5
        if isinstance(found, Sparse):
            zeros = np.diff(np.flatnonzero(kept), prepend=-1) - 1
            assert len(found.codes) == entries(zeros, gap_bits)


def test_gaps_of_the_best_width() -> None:
    weights = np.random.default_rng(3).standard_normal((400, 300)).astype(np.float32)
    sizes = {}
    for width in (AUTO, CODED, *range(1, 9)):
        found = encode(weights, Choice(0.05, 4, width, "sparse"))
        assert found is not None
        sizes[width] = sizes_of("", "", found)
    assert sizes[AUTO].plain_bits == min(s.plain_bits for s in sizes.values())
    assert sizes[CODED].coded_bits <= 1.01 * min(s.coded_bits for s in sizes.values())
    assert sizes[CODED].coded_bits < sizes[AUTO].coded_bits


def test_the_smaller_form_is_taken() -> None:
    weights = np.random.default_rng(3).standard_normal((40, 30)).astype(np.float32)
    assert isinstance(encode(weights, Choice(0.1)), Sparse)
    assert isinstance(encode(weights, Choice(0.9)), Codebook)
    whole = encode(weights, Choice(1.0, 2))
    assert isinstance(whole, Codebook) and (whole.values != 0).all()
    assert encode(weights, Choice(0.1, 32)) is None
