"""Products of bytes by the routines of Cortex-M55: every way in which a layer fills its vectors badly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import ingot
from ingot.targets.mve_products import long_routines
from tests.oracles import exact_session
from tests.test_paired_tiles import (
    DENSE,
    KINDS,
    LAYERS,
    exact_routines,
    in_plain_c,
    layer,
    without_warnings,
)
from tests.test_quad_windows import MORE

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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depthwise", [False, True])
def test_what_leaves_int32_is_limited(kind: str, depthwise: bool) -> None:
    """Scaled by so much that no int32 holds it, a sum becomes the largest byte, not what is left of it."""
    shape, window, attributes = MORE["blocks by two"]
    random = np.random.default_rng(4)
    w = random.integers(-128, 128, (32, 1 if depthwise else 32, *window)).astype(np.int8)
    proto = layer(kind, shape, w, attributes if depthwise else "")
    for i, constant in enumerate(proto.graph.initializer):
        if constant.name == "ys":
            proto.graph.initializer[i].CopyFrom(onnx.numpy_helper.from_array(np.float32(1e-9), "ys"))
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    x = {"x": np.moveaxis(random.integers(low, high + 1, shape).astype(kind), 1, -1)}
    (wanted,) = exact_session(proto).run(None, x)
    assert {low, high} == set(np.unique(wanted).tolist())
    np.testing.assert_array_equal(ingot.compile(proto, target=TARGET).run(x)["y"], wanted)


def test_gcc_finds_nothing_to_warn_of(tmp_path: Path) -> None:
    without_warnings(layer("uint8", (1, 17, 3, 3), np.ones((9, 17, 1, 1), np.int8), ""), TARGET, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("points", [1, 2])
def test_products_in_plain_c(points: int, kind: str, tmp_path: Path) -> None:
    """The tests above run the assembly. Two blocks of channels, two vectors of terms."""
    random, terms, size = np.random.default_rng(5), 19, 8 // points
    a = random.integers(-128, 128, (points, 32)).astype(np.int8)
    w = random.integers(-128, 128, (2, 2, size, 16)).astype(np.int8)
    first, scale = random.integers(-900, 900, 2 * size), 2.0 ** random.integers(-12, -7, 2 * size)
    arrays = {
        "a": ("const int8_t", a),
        "w": ("const int8_t", w),
        "first": ("const int32_t", first),
        "scale": ("const float", scale),
        "y": (f"{kind}_t", np.zeros(40, kind)),
    }
    call = f"a, w, first, scale, y, {'21, ' if points == 2 else ''}2, {terms}, 9"
    found = in_plain_c(f"long{points}_{kind}", long_routines(), arrays, call, "y", tmp_path)
    weights = np.swapaxes(w, 1, 2).reshape(2 * size, 32).astype(np.int64)
    for p, c in np.ndindex(points, 2 * size):
        made = np.rint((first[c] + np.sum(a[p, :terms] * weights[c, :terms])) * scale[c]) + 9
        assert found[21 * p + c] == np.clip(made, np.iinfo(kind).min, np.iinfo(kind).max)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("points", [1, 2])
def test_copies_in_plain_c(points: int, kind: str, tmp_path: Path) -> None:
    x = np.random.default_rng(6).integers(0, 256, 90).astype(np.uint8).astype(kind)
    arrays = {"x": (f"const {kind}_t", x), "to": ("int8_t", np.zeros(64, np.int8))}
    call = "x, x + 7, to, 3, 11, 5, 32" if points == 2 else "x, to, 3, 11, 5"
    found = in_plain_c(f"bytes{points}_{kind}", long_routines(), arrays, call, "to", tmp_path)
    for p, row, term in np.ndindex(points, 3, 5):
        wanted = int(x[7 * p + 11 * row + term]) - (128 if kind == "uint8" else 0)
        assert found[32 * p + 5 * row + term] == wanted
