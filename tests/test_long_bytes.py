"""Products of bytes by the routines of Cortex-M55: every way in which a layer fills its vectors badly."""

from __future__ import annotations

import pytest

from tests.test_paired_tiles import DENSE, KINDS, LAYERS, exact_routines

TARGET = "armv8.1m"
VECTORS = {
    f"{n} terms": ((1, n, 3, 3), (9, n, 1, 1), "")
    for n in (15, 16, 17, 32, 48, 63, 64, 80, 95, 112, 128, 144)
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LAYERS)
def test_every_tile_is_right(name: str, kind: str) -> None:
    assert f"long2_{kind}" in exact_routines(kind, *LAYERS[name], seed=2, target=TARGET)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DENSE)
def test_one_point(name: str, kind: str) -> None:
    assert f"long1_{kind}" in exact_routines(kind, *DENSE[name], seed=9, target=TARGET)


@pytest.mark.parametrize("name", VECTORS)
def test_every_number_of_vectors_is_right(name: str) -> None:
    assert "long2_uint8" in exact_routines("uint8", *VECTORS[name], seed=3, target=TARGET)
