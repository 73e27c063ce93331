"""Depthwise sums of bytes by vectors of four by four: every way in which windows and sizes fill them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.driver import stages
from ingot.formula.types import INT8
from ingot.options import Options
from ingot.targets.mve_windows import quad_name, quad_routines, quads_name
from tests.corpus import Case
from tests.corpus.integer import Layers
from tests.corpus.net import Net
from tests.test_paired_tiles import KINDS, in_plain_c, layer, routines, without_warnings
from tests.test_plane_windows import LAYERS, taken
from tests.test_slides import network

TARGET = "armv8.1m"
MORE = {
    "whole blocks of channels": ((1, 32, 6, 9), (3, 3), "<pads=[1,1,1,1], group=32>"),
    "a block and a part, in batches": ((2, 19, 5, 6), (3, 3), "<pads=[1,1,1,1], group=19>"),
    "blocks by two": ((1, 32, 7, 21), (3, 3), "<strides=[2,2], pads=[1,1,1,1], group=32>"),
    "two rows of taps": ((1, 17, 6, 9), (2, 3), "<pads=[0,1,1,1], group=17>"),
    "two columns of taps, by two": ((1, 17, 8, 9), (3, 2), "<strides=[2,2], pads=[0,1,1,1], group=17>"),
    "nine results by two": ((1, 3, 5, 17), (3, 3), "<strides=[2,2], pads=[1,1,1,1], group=3>"),
    "wider than a part": ((1, 17, 4, 150), (3, 3), "<pads=[1,1,1,1], group=17>"),
    "wider, by two": ((1, 17, 4, 280), (3, 3), "<strides=[2,2], pads=[1,1,1,1], group=17>"),
}
UNLIKE = ("another stride down than along", "and the other way", "four channels of seven columns")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*LAYERS, *MORE])
def test_every_vector_is_right(name: str, kind: str) -> None:
    found = taken(kind, *{**LAYERS, **MORE}[name], target=TARGET)
    assert found == ("window" if name in UNLIKE else "quad")


@pytest.mark.parametrize(("channels", "wanted"), [(9362, "quad"), (9363, "window")])
def test_results_too_far_apart(channels: int, wanted: str) -> None:
    """Eight results are stored at once, at offsets of sixteen bits from the first."""

    def build(net: Net) -> str:
        q = Layers(net, np.int8, qdq=True)
        windows = {"pads": [1] * 4, "strides": [2, 2], "group": channels}
        x = q.conv(q.feed(1, channels, 3, 3), channels, channels, (3, 3), **windows)
        return q.conv(x, channels, 4, (1, 1)).name

    program = stages(Case("far", build).model, Options(target=TARGET)).program
    assert {name.split("_")[0] for name in routines(program) if "window" in name} == {wanted}


def test_images_have_no_halo_and_results_replace_them() -> None:
    """Two rows and two columns around the image would be 14 % more, and a second image as much again."""
    made = stages(network(32, 32, 28), Options(target=TARGET)).plan
    image, quads = 28 * 28 * 32, (28 + 2) * 64
    assert all(30 not in t.shape for t in made.offsets if t.type is INT8 and t.rank == 4)
    assert image + quads <= made.arena_bytes < image + quads + 512


@pytest.mark.parametrize("name", ["odd sides", "strides of two"])
def test_the_stack_is_bounded(name: str) -> None:
    """The audit follows every instruction of the routines."""
    shape, window, attributes = LAYERS[name]
    w = np.ones((shape[1], 1, *window), np.int8)
    bundle = ingot.compile(layer("uint8", shape, w, attributes), target=TARGET)
    assert 168 <= bundle.manifest["sizes"]["stack_bytes"] < 600


def test_gcc_finds_nothing_to_warn_of(tmp_path: Path) -> None:
    shape, window, attributes = MORE["blocks by two"]
    w = np.ones((shape[1], 1, *window), np.int8)
    without_warnings(layer("uint8", shape, w, attributes), TARGET, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stride", [1, 2])
def test_windows_in_plain_c(stride: int, kind: str, tmp_path: Path) -> None:
    """The tests above run the assembly."""
    random = np.random.default_rng(7)
    a = random.integers(-128, 128, (12, 16, 4)).astype(np.int8)
    w = np.zeros((2, 4, 4), np.int8)
    w[:, :3, :3] = random.integers(-128, 128, (2, 3, 3))
    rows = 3 - stride
    arrays = {
        "a": ("const int8_t", a),
        "w": ("const int8_t", w),
        "y": (f"{kind}_t", np.zeros(40, kind)),
        "first": ("const int32_t", np.array([-77, 5])),
        "scale": ("const float", np.array([0.015625, 0.03125])),
    }
    call = f"a, w, first, scale, y, {rows}, 5, 2, 17, 3, 1, 9"
    found = in_plain_c(quad_name(stride, kind), quad_routines(), arrays, call, "y", tmp_path)
    for c, i, j in np.ndindex(2, rows, 5):
        window = a[stride * j :, c, stride * i :][:3, :3].astype(np.int64)
        made = np.rint((np.sum(window * w[c, :3, :3]) + (-77, 5)[c]) / (64, 32)[c]) + 9
        assert found[17 * i + 3 * j + c] == np.clip(made, np.iinfo(kind).min, np.iinfo(kind).max)


@pytest.mark.parametrize("is_next", [False, True])
@pytest.mark.parametrize("below", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_quads_in_plain_c(kind: str, below: int, is_next: bool, tmp_path: Path) -> None:
    """One row of what is filled above, and none or one below."""
    x = np.random.default_rng(8).integers(0, 256, 90).astype(np.uint8).astype(kind)
    arrays = {"x": (f"const {kind}_t", x), "to": ("int8_t", np.zeros((5, 16, 4), np.int8))}
    arrays["to"] = ("int8_t", np.arange(320).astype(np.int8))
    new, first = (2, 2) if is_next else (4, 0)
    call = f"x, to, 1, {new - 1 - below}, 5, 30, 5, 4, 77"
    found = in_plain_c(quads_name(kind, is_next), quad_routines(), arrays, call, "to", tmp_path)
    for column, channel, row in np.ndindex(5, 4, 4):
        at = row - first - 1
        wanted = 77 if at < 0 or at >= new - 1 - below else int(x[30 * at + 5 * column + channel])
        wanted -= 128 if kind == "uint8" else 0
        if row < first:
            wanted = int(arrays["to"][1][64 * column + 4 * channel + row + 2])
        assert found[64 * column + 4 * channel + row] == wanted
