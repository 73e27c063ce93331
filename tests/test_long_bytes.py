"""Products of bytes by the routines of Cortex-M55: every way in which a layer fills its vectors badly."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest

import ingot
from ingot.driver import stages
from ingot.formula.expr import Array
from ingot.formula.statements import For, flatten
from ingot.options import Options
from ingot.targets.mve_products import long_routines, walk_of
from tests.corpus import Case
from tests.corpus.integer import Layers
from tests.corpus.net import Net
from tests.oracles import exact_session
from tests.test_paired_tiles import (
    DENSE,
    KINDS,
    LAYERS,
    exact_routines,
    in_plain_c,
    layer,
    routines,
    without_warnings,
)
from tests.test_quad_windows import MORE

TARGET = "armv8.1m"
TERMS = (15, 16, 17, 48, 63, 64, 80, 95, 112, 128, 144, 160, 176, 191, 208)


def families(names: Iterable[str]) -> set[str]:
    """The routines' names, without how they walk and what types they take."""
    return {name.split("_")[0] for name in names}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LAYERS)
def test_every_tile_is_right(name: str, kind: str, last: bool) -> None:
    assert "long2" in families(exact_routines(kind, *LAYERS[name], seed=2, target=TARGET, last=last))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DENSE)
def test_one_point(name: str, kind: str) -> None:
    assert "long1" in families(exact_routines(kind, *DENSE[name], seed=9, target=TARGET))


@pytest.mark.parametrize("points", [1, 3])
@pytest.mark.parametrize("terms", TERMS)
def test_every_number_of_vectors_is_right(terms: int, points: int) -> None:
    """Signed, points that are whole vectors are read where they are, but for the last of an odd number."""
    shape, weights = (1, terms, points, points), (8, terms, 1, 1)
    walk = walk_of(-(-terms // 16), is_small=False)
    found = exact_routines("int8", shape, weights, "", seed=3, target=TARGET, last=True)
    assert walk.name(min(points, 2), *["int8"] * min(points, 2)) in found
    assert "bytes2_int8" not in found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("terms", [16, 48, 300])
def test_small_code_walks_vector_by_vector(terms: int, kind: str) -> None:
    random = np.random.default_rng(6)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    for points in (1, 3):
        w = random.integers(-128, 128, (8, terms, 1, 1)).astype(np.int8)
        proto = layer(kind, (1, terms, points, points), w, "", last=True)
        x = {"x": random.integers(low, high + 1, (1, points, points, terms)).astype(kind)}
        (wanted,) = exact_session(proto).run(None, x)
        made = ingot.compile(proto, target=TARGET, optimize="size")
        np.testing.assert_array_equal(made.run(x)["y"], wanted)
        kinds = [kind] * min(points, 2)
        name = walk_of(-(-terms // 16), is_small=True).name(len(kinds), *kinds)
        assert name in routines(stages(proto, Options(target=TARGET, optimize="size")).program)


def test_results_too_far_apart() -> None:
    """Eight bytes are stored at once, at offsets of sixteen bits: others by way of scratch."""

    def build(net: Net) -> str:
        q = Layers(net, np.int8, qdq=True)
        x = q.conv(q.feed(1, 2, 2, 129), 2, 512, (3, 3), pads=[1] * 4)
        return q.conv(x, 512, 4, (1, 1)).name

    program = stages(Case("far", build).model, Options(target=TARGET)).program
    loops = [s for k in program.kernels for s in flatten(k.body) if isinstance(s, For) and s.routine]
    calls = [s.routine for s in loops if s.routine and s.routine.name.startswith("long2")]
    steps = [call.numbers[5] for call in calls]
    assert 512 in steps and 129 * 512 not in steps
    assert any(call.arguments[-1].tensor.name.endswith("made") for call in calls)


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


def operands(points: int, size: int) -> tuple[Array, Array, Array, Array]:
    """Activations of 32 terms, weights of two blocks of two vectors, first values, scales."""
    random = np.random.default_rng(5)
    a = random.integers(-128, 128, (points, 32)).astype(np.int8)
    w = random.integers(-128, 128, (2, 2, size, 16)).astype(np.int8)
    return a, w, random.integers(-900, 900, 2 * size), 2.0 ** random.integers(-12, -7, 2 * size)


def bytes_of(a: Array, w: Array, first: Array, scale: Array, kind: str) -> Array:
    """[point, channel] of some terms of each point, and a zero point of 9."""
    weights = np.swapaxes(w, 1, 2).reshape(first.size, 32).astype(np.int64)[:, : a.shape[1]]
    made = np.rint((first + a.astype(np.int64) @ weights.T) * scale) + 9
    return np.clip(made, np.iinfo(kind).min, np.iinfo(kind).max)


def declared(w: Array, first: Array, scale: Array, kind: str) -> dict[str, tuple[str, Array]]:
    made = {"w": ("const int8_t", w), "first": ("const int32_t", first), "scale": ("const float", scale)}
    return made | {"y": (f"{kind}_t", np.zeros(100, kind))}


@pytest.mark.parametrize("kind", KINDS)
def test_a_point_in_plain_c(kind: str, tmp_path: Path) -> None:
    """The tests above run the assembly."""
    a, *rest = operands(1, 8)
    arrays = {"a": ("const int8_t", a), **declared(*rest, kind)}
    name = walk_of(2, is_small=False).name(1, kind)
    found = in_plain_c(name, long_routines(), arrays, "a, w, first, scale, y, 2, 19, 32, 9", "y", tmp_path)
    np.testing.assert_array_equal(found[:16], bytes_of(a[:, :19], *rest, kind)[0])


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("of", KINDS)
def test_pairs_in_plain_c(of: str, to: str, tmp_path: Path) -> None:
    """Four points of two rows of nine terms; of signed ones whole vectors where they are, too."""
    a, *rest = operands(4, 4)
    x = (a.astype(np.int16) + 128).astype(np.uint8) if of == "uint8" else a
    arrays = {"x": (f"const {of}_t", x), "row": ("int8_t", np.zeros(64, np.int8)), **declared(*rest, to)}
    terms = np.concatenate([a[:, :9], a[:, 11:20]], axis=1)
    cases = [("2, 32, 2, 11, 9", terms)] + [("2, 32, 0, 0, 32", a)] * (of == "int8")
    name = walk_of(2, is_small=False).name(2, of, to)
    for points, read in cases:
        call = f"x, row, w, first, scale, y, {points}, 21, 2, 32, 9"
        found = np.array(in_plain_c(name, long_routines(), arrays, call, "y", tmp_path))
        wanted = bytes_of(read, *rest, to)
        np.testing.assert_array_equal(found[:84].reshape(4, 21)[:, :8], wanted)


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
