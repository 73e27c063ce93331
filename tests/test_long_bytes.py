"""Products of bytes by the routines of Cortex-M55: every way in which a layer fills its vectors badly."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import ingot
from tests.oracles import exact_session
from tests.test_paired_tiles import DENSE, KINDS, LAYERS, exact_routines, layer
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
