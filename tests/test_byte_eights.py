"""Products of bytes eight channels at a time, by the routine of cores that have 16-bit instructions only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ingot.targets.thumb_routines import thumb_routines
from tests.test_paired_tiles import KINDS, exact_routines, in_plain_c

LAYERS = {
    "whole blocks": ((1, 8, 3, 4), (16, 8, 1, 1), ""),
    "odd points, and channels that are left": ((1, 4, 3, 3), (13, 4, 1, 1), ""),
    "one point": ((1, 12, 1, 1), (9, 12, 1, 1), ""),
    "groups": ((2, 16, 3, 2), (24, 8, 1, 1), "<group=2>"),
    "a padded window": ((1, 4, 5, 4), (9, 4, 3, 3), "<pads=[1,1,1,1]>"),
    "a dilated window": ((1, 4, 6, 7), (8, 4, 2, 3), "<dilations=[2,2]>"),
    "strides": ((1, 20, 5, 5), (8, 20, 1, 1), "<strides=[2,2]>"),
}
ELSEWHERE = {
    "terms that are no fours": ((1, 6, 3, 3), (8, 6, 1, 1), ""),
    "rows that are no fours": ((1, 3, 4, 4), (8, 3, 2, 2), ""),
    "fewer channels than a block": ((1, 8, 3, 3), (7, 8, 1, 1), ""),
}


@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m23"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_right(name: str, kind: str, target: str) -> None:
    assert f"dot8_{kind}" in exact_routines(kind, *LAYERS[name], seed=4, target=target)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_other_layers_do_without(name: str) -> None:
    assert exact_routines("int8", *ELSEWHERE[name], seed=5, target="cortex-m0") == []


@pytest.mark.parametrize("kind", KINDS)
def test_sums_in_plain_c(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    x = random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, 12).astype(kind)
    weights = random.integers(-128, 128, (2, 12, 8))
    arrays = {"x": (f"const {kind}_t", x), "w": ("const uint8_t", (weights + 128).astype(np.uint8))}
    arrays |= {"sums": ("int32_t", np.ones(16, np.int32))}
    found = in_plain_c(f"dot8_{kind}", thumb_routines(), arrays, "x, w, sums, 12, 2", "sums", tmp_path)
    assert found == (1 + np.einsum("k,bkc->bc", x.astype(np.int64), weights)).reshape(-1).tolist()
