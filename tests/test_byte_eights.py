"""Products of bytes eight channels at a time, by the routine of cores that have 16-bit instructions only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import ingot
from ingot.driver import stages
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.options import Options
from ingot.targets.thumb_routines import thumb_routines
from tests.oracles import exact_session
from tests.test_paired_tiles import KINDS, exact_routines, in_plain_c, layer, routines

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


def routines_of_scales(kind: str, name: str, scales: Array) -> list[str]:
    """The routines of a layer of scales as given, channels last, which answers with the oracle's bytes."""
    shape, weights, attributes = LAYERS[name]
    random, limits = np.random.default_rng(6), np.iinfo(kind)
    w = random.integers(-127, 128, weights).astype(np.int8)
    proto = layer(kind, shape, w, attributes, last=True)
    for changed, array in (("xs", 1.0), ("ys", 1.0), ("ws", np.resize(scales, len(w)))):
        constant = next(i for i in proto.graph.initializer if i.name == changed)
        constant.CopyFrom(onnx.numpy_helper.from_array(np.asarray(array, np.float32), changed))
    images = random.integers(limits.min, limits.max + 1, shape).astype(kind)
    x = {"x": np.moveaxis(images, 1, -1)}
    (wanted,) = exact_session(proto).run(None, x)
    program = stages(proto, Options(target="cortex-m0")).program
    np.testing.assert_array_equal(run(program, x)[0], wanted)
    np.testing.assert_array_equal(ingot.compile(proto, target="cortex-m0").run(x)["y"], wanted)
    return routines(program)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LAYERS)
def test_bytes_that_lie_side_by_side(name: str, kind: str) -> None:
    scales = np.random.default_rng(2).uniform(0.0005, 0.02, 24)
    assert f"scale8_{kind}" in routines_of_scales(kind, name, scales)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("scale", "is_scaled"), [(1 / 64, True), (0.3, False), (2.0**-13, False)])
def test_sums_that_lie_on_ties(kind: str, scale: float, is_scaled: bool) -> None:
    """Of two bytes that are equally near the even one is right; other scales go another way."""
    found = routines_of_scales(kind, "whole blocks", np.array([scale]))
    assert (f"scale8_{kind}" in found) == is_scaled


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_in_plain_c(kind: str, tmp_path: Path) -> None:
    sums = np.array([-70000, -400, -3, 0, 129, 200, 9000, 8000000])
    arrays = {"sums": ("const int32_t", sums), "by": ("const int32_t", np.full(8, 2**32 // 100))}
    arrays |= {"y": (f"{kind}_t", np.zeros(8, kind)), "near": ("int32_t", np.zeros(1))}
    call = "sums, by, y, near, 8, 130"
    found = in_plain_c(f"scale8_{kind}", thumb_routines(), arrays, call, "y", tmp_path)
    low = np.iinfo(kind).min
    assert found == (np.rint(sums / 100) + 130 + low).clip(low, low + 255).tolist()
    for sum, near in ((150, 1), (151, 0)):
        arrays["sums"] = ("const int32_t", np.full(8, sum))
        assert in_plain_c(f"scale8_{kind}", thumb_routines(), arrays, call, "near", tmp_path) == [near]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_other_layers_do_without(name: str) -> None:
    assert exact_routines("int8", *ELSEWHERE[name], seed=5, target="cortex-m0") == []


@pytest.mark.parametrize("kind", KINDS)
def test_sums_in_plain_c(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    x = random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, 12).astype(kind)
    weights = random.integers(-128, 128, (2, 12, 8))
    arrays = {"x": (f"const {kind}_t", x), "w": ("const uint8_t", (weights + 128).astype(np.uint8))}
    arrays |= {"first": ("const int32_t", np.ones(16, np.int32)), "sums": ("int32_t", np.zeros(16, np.int32))}
    found = in_plain_c(f"dot8_{kind}", thumb_routines(), arrays, "x, w, first, sums, 12, 2", "sums", tmp_path)
    assert found == (1 + np.einsum("k,bkc->bc", x.astype(np.int64), weights)).reshape(-1).tolist()
