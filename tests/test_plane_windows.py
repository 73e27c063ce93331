"""Depthwise sums of bytes in planes: every way in which windows, strides and sizes fill tiles badly."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.driver import stages
from ingot.loops.evaluate import run
from ingot.options import Options
from ingot.targets.window_routines import (
    LANE,
    LANES,
    NARROW,
    PITCH,
    STRIDES,
    of_pitch,
    window_name,
    window_routines,
)
from tests.oracles import exact_session
from tests.test_paired_tiles import KINDS, TARGET, in_plain_c, layer, routines, without_warnings
from tests.test_slides import network

LAYERS = {
    "odd sides": ((1, 5, 5, 7), (3, 3), "<pads=[1,1,1,1], group=5>"),
    "one row and one column of results beyond whole tiles": (
        (1, 2, 4, 6),
        (3, 3),
        "<pads=[0,1,1,0], group=2>",
    ),
    "strides of two": ((1, 8, 9, 8), (3, 3), "<strides=[2,2], pads=[1,1,1,1], group=8>"),
    "another stride down than along": ((1, 5, 7, 8), (3, 3), "<strides=[2,1], pads=[1,0,1,2], group=5>"),
    "and the other way": ((2, 5, 6, 9), (3, 2), "<strides=[1,2], pads=[0,0,2,1], group=5>"),
    "small windows": ((1, 5, 4, 4), (2, 2), "<group=5>"),
    "four channels in a plane": ((1, 8, 6, 6), (3, 3), "<pads=[1,1,1,1], group=8>"),
    "four channels of one column more than whole pairs": ((2, 4, 3, 3), (3, 3), "<pads=[1,1,1,1], group=4>"),
    "four channels that fill a plane": ((1, 12, 14, 14), (3, 3), "<pads=[1,1,1,1], group=12>"),
    "four channels of odd rows, by two": ((1, 4, 13, 12), (3, 3), "<strides=[2,2], pads=[0,0,1,1], group=4>"),
    "four channels of seven columns": ((1, 4, 9, 5), (3, 3), "<strides=[2,1], pads=[1,1,1,1], group=4>"),
    "dilated as far as it moves": (
        (1, 2, 9, 9),
        (3, 3),
        "<strides=[2,2], dilations=[2,2], pads=[2,2,2,2], group=2>",
    ),
    "as wide as narrow planes go": ((1, 3, 6, 25), (3, 3), "<pads=[1,1,1,1], group=3>"),
    "one column wider": ((1, 3, 6, 26), (3, 3), "<pads=[1,1,1,1], group=3>"),
    "without a border on the left": ((1, 3, 6, 26), (3, 3), "<pads=[1,0,1,1], group=3>"),
    "wider than a plane": ((1, 5, 5, 70), (3, 3), "<pads=[1,1,1,1], group=5>"),
    "higher than a plane": ((1, 5, 67, 4), (3, 3), "<pads=[1,1,1,1], group=5>"),
    "larger both ways, by two": ((1, 5, 131, 66), (3, 3), "<strides=[2,2], pads=[1,1,1,1], group=5>"),
}
OTHERS = {
    "dilated": ((1, 5, 8, 8), (3, 3), "<dilations=[2,2], pads=[2,2,2,2], group=5>"),
    "large windows": ((1, 5, 8, 8), (5, 5), "<pads=[2,2,2,2], group=5>"),
    "strides of three": ((1, 5, 9, 9), (3, 3), "<strides=[3,3], group=5>"),
}


def taken(
    kind: str, shape: tuple[int, ...], window: tuple[int, int], attributes: str, target: str = TARGET
) -> str:
    """What a layer's routines are named after, once the evaluator and the assembly agree with the oracle."""
    random = np.random.default_rng(3)
    w = random.integers(-128, 128, (shape[1], 1, *window)).astype(np.int8)
    proto = layer(kind, shape, w, attributes)
    images = random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
    x = {"x": np.moveaxis(images, 1, -1)}
    (wanted,) = exact_session(proto).run(None, x)
    program = stages(proto, Options(target=target)).program
    np.testing.assert_array_equal(run(program, x)[0], wanted)
    np.testing.assert_array_equal(ingot.compile(proto, target=target).run(x)["y"], wanted)
    return next((name.split("_")[0] for name in routines(program) if "window" in name), "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LAYERS)
def test_every_tile_is_right(name: str, kind: str) -> None:
    assert taken(kind, *LAYERS[name]) == "window"


def test_gcc_finds_nothing_to_warn_of(tmp_path: Path) -> None:
    shape, window, attributes = LAYERS["odd sides"]
    w = np.ones((shape[1], 1, *window), np.int8)
    without_warnings(layer("uint8", shape, w, attributes), TARGET, tmp_path)


@pytest.mark.parametrize("name", OTHERS)
def test_what_planes_do_not_serve(name: str) -> None:
    assert not taken("uint8", *OTHERS[name])


@pytest.mark.parametrize(("strides", "kind"), list(product(product(STRIDES, STRIDES), KINDS)))
@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("pitch", [PITCH, NARROW])
def test_windows_in_plain_c(
    strides: tuple[int, int], kind: str, is_whole: bool, pitch: int, tmp_path: Path
) -> None:
    """The tests above run the assembly."""
    if window_name(strides, kind, pitch=pitch) not in window_routines():
        assert pitch == NARROW and strides != (1, 1)
        return
    random = np.random.default_rng(7)
    plane = random.integers(-128, 256, (9, pitch)).astype(np.int16)
    w = np.pad(random.integers(-128, 128, (3, 3)), ((0, 0), (0, 1))).astype(np.int8)
    by = 1 << 26 if is_whole else int(np.float32(-1 / 64).view(np.int32))
    arrays = {
        "plane": ("const int16_t", plane),
        "w": ("const int8_t", w),
        "y": (f"{kind}_t", np.zeros(40, kind)),
    }
    arrays |= {"first": ("const int32_t", np.array([-77])), "scale": ("const int32_t", np.array([by]))}
    call = "plane, w, first, scale, y, 3, 4, 11, 2, 9"
    name = window_name(strides, kind, pitch=pitch)
    found = in_plain_c(name, window_routines(), arrays, call, "y", tmp_path)
    for i, j in np.ndindex(3, 4):
        window = plane[strides[0] * i :, strides[1] * j :][:3, :3].astype(np.int64)
        scaled = (np.sum(window * w[:, :3]) - 77) / 64
        made = (np.floor(scaled + 0.5) if is_whole else np.rint(scaled)) + 9
        assert found[11 * i + 2 * j] == np.clip(made, np.iinfo(kind).min, np.iinfo(kind).max)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pitch", [PITCH, NARROW])
def test_planes_in_plain_c(kind: str, pitch: int, tmp_path: Path) -> None:
    x = np.random.default_rng(8).integers(0, 256, 60).astype(np.uint8).astype(kind)
    arrays = {"x": (f"const {kind}_t", x), "plane": ("int16_t", np.zeros((3, pitch), np.int16))}
    name = of_pitch(f"plane_{kind}", pitch)
    found = in_plain_c(name, window_routines(), arrays, "x, plane, 3, 5, 20, 3", "plane", tmp_path)
    for row in range(3):
        assert found[pitch * row :][:5] == x[20 * row :][:15:3].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_four_planes_in_plain_c(kind: str, tmp_path: Path) -> None:
    x = np.random.default_rng(8).integers(0, 256, 90).astype(np.uint8).astype(kind)
    arrays = {"x": (f"const {kind}_t", x), "plane": ("int16_t", np.zeros((3, PITCH), np.int16))}
    found = in_plain_c(
        f"planes4_{kind}", window_routines(), arrays, "x, plane, 3, 5, 30, 4", "plane", tmp_path
    )
    for row, lane in np.ndindex(3, LANES):
        assert found[PITCH * row + LANE * lane :][:5] == x[30 * row + lane :][:20:4].tolist()


def test_planes_are_narrow_where_the_layer_would_be_the_largest() -> None:
    """Where rows of 64 elements would take more than is left beside the image."""
    names = routines(stages(network(3, 3, 25), Options(target=TARGET)).program)
    assert "window_1_1_int8_narrow" in names
    proto = layer("int8", (1, 3, 6, 26), np.ones((3, 1, 3, 3), np.int8), "<pads=[1,1,1,1], group=3>")
    assert "window_1_1_int8" in routines(stages(proto, Options(target=TARGET)).program)


def test_images_in_memory_have_no_halo() -> None:
    """What lies around them is in the planes; a plane of a part of an image reads a halo."""
    shapes = {
        t.shape
        for k in stages(network(8, 8, 6), Options(target=TARGET)).program.kernels
        for t in k.parameters
    }
    assert (1, 6, 6, 8) in shapes and (1, 8, 8, 8) not in shapes
    shapes = {
        t.shape
        for k in stages(network(4, 4, 70), Options(target=TARGET)).program.kernels
        for t in k.parameters
    }
    assert (1, 72, 72, 4) in shapes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lanes", [1, LANES])
def test_planes_begin_within_words(kind: str, lanes: int) -> None:
    """Next to a column of the border, with all that may be left of a row behind it."""
    for width in (2, 3, 4, 5, 6):
        shape = (1, 4 if lanes == LANES else 3, 2, width)
        assert taken(kind, shape, (3, 3), f"<pads=[1,1,1,1], group={shape[1]}>") == "window"
