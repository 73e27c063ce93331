"""Products of bytes by the routine of Cortex-M4: every way in which a layer fills its tiles badly."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import ingot
from ingot.driver import stages
from ingot.formula.expr import Array
from ingot.formula.statements import For, flatten
from ingot.loops.evaluate import run
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.routines import MOST_TERMS, STEPS, dot2_tile, dot2_tiles
from tests.oracles import exact_session

TARGET = "armv7e-m"
KINDS = ("uint8", "int8")
LAYERS = {
    "odd points, channels and terms": ((1, 5, 4, 3), (7, 5, 1, 1), ""),
    "one row of two points": ((1, 8, 1, 2), (4, 8, 1, 1), ""),
    "a padded window of few channels": ((1, 3, 5, 6), (6, 3, 3, 3), "<pads=[1,1,1,1]>"),
    "a strided window": ((1, 4, 7, 7), (8, 4, 3, 3), "<strides=[2,2]>"),
    "groups": ((1, 8, 3, 4), (12, 4, 1, 1), "<group=2>"),
    "a batch": ((3, 4, 2, 3), (5, 4, 2, 2), "<pads=[0,1,1,0]>"),
    "a call for each row of a window": ((1, 64, 4, 4), (4, 64, 3, 3), ""),
    "the last channel alone": ((1, 4, 2, 2), (5, 4, 1, 1), ""),
}


def layer(kind: str, shape: tuple[int, ...], weights: Array, attributes: str) -> onnx.ModelProto:
    """A QLinearConv of channels-last images: scales per channel, a bias, zero points that are not 0."""
    n, channels, *size = shape
    dims = ",".join(map(str, (n, *size, channels)))
    proto = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]> g ({kind}[{dims}] x) => ({kind} y)
        <float xs = {{0.03}}, {kind} xz = {{7}}, float ys = {{0.9}}, {kind} yz = {{3}}>
        {{ t = Transpose<perm=[0,3,1,2]>(x) y = QLinearConv{attributes}(t, xs, xz, w, ws, wz, ys, yz, b) }}"""
    )
    random, features = np.random.default_rng(1), len(weights)
    constants = {
        "w": weights,
        "ws": random.uniform(0.002, 0.02, features).astype(np.float32),
        "wz": np.zeros(features, np.int8),
        "b": random.integers(-9000, 9000, features).astype(np.int32),
    }
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, k) for k, a in constants.items())
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def routines(program: object) -> list[str]:
    kernels = program.kernels  # type: ignore[attr-defined]
    return [s.routine.name for k in kernels for s in flatten(k.body) if isinstance(s, For) and s.routine]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LAYERS)
def test_every_tile_is_right(name: str, kind: str) -> None:
    shape, weights, attributes = LAYERS[name]
    random = np.random.default_rng(2)
    w = random.integers(-127, 128, weights).astype(np.int8)
    images = random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
    x = {"x": np.moveaxis(images, 1, -1)}
    proto = layer(kind, shape, w, attributes)
    (wanted,) = exact_session(proto).run(None, x)
    program = stages(proto, Options(target=TARGET)).program
    assert routines(program)
    np.testing.assert_array_equal(run(program, x)[0], wanted)
    np.testing.assert_array_equal(ingot.compile(proto, target=TARGET).run(x)["y"], wanted)


@pytest.mark.parametrize("value", [-128, -127, 127])
def test_the_largest_sums_are_exact(value: int) -> None:
    """512 terms at their limits; a weight of -128 shares no int16 with another and goes another way."""
    w = np.full((4, MOST_TERMS, 1, 1), value, np.int8)
    w[::2] = 127
    x = {"x": np.zeros((1, 1, 2, MOST_TERMS), np.uint8)}
    x["x"][:, :, 1] = 255
    proto = layer("uint8", (1, MOST_TERMS, 1, 2), w, "")
    constant = next(i for i in proto.graph.initializer if i.name == "ws")
    constant.CopyFrom(onnx.numpy_helper.from_array(np.full(4, 1e-4, np.float32), "ws"))
    (wanted,) = exact_session(proto).run(None, x)
    program = stages(proto, Options(target=TARGET)).program
    assert bool(routines(program)) == (value != -128)
    np.testing.assert_array_equal(ingot.compile(proto, target=TARGET).run(x)["y"], wanted)


@pytest.mark.parametrize("terms", STEPS)
def test_plain_c_beside_the_assembly_means_the_same(terms: int, tmp_path: Path) -> None:
    """Compiled for a machine that has no such instructions; the tests above run the assembly."""
    random = np.random.default_rng(terms)
    a, low, high = (
        random.integers(lo, hi, (2 * terms, 2, 2)) for lo, hi in ((-128, 128), (-127, 128), (-127, 128))
    )
    both = (256 * high + low).astype(np.int16)
    wanted = np.stack([np.einsum("kpt,kdt->pd", a, w) for w in (low, high)], -1).reshape(-1)
    name = dot2_tile(2 * terms)
    arrays = (f"{{{', '.join(map(str, v.reshape(-1)))}}}" for v in (a, both))
    source = f"""#include <stdint.h>
    #include <stdio.h>
    {dot2_tiles()[name]}
    int main(void) {{
        const int16_t a[] = {next(arrays)}, w[] = {next(arrays)};
        int32_t sums[8] = {{1}};
        {name}(a, w, sums, {2 * terms});
        for (int i = 0; i < 8; i++) printf("%d ", sums[i] - !i);
    }}"""
    (tmp_path / "main.c").write_text(source)
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "main.c", "-o", "main"], cwd=tmp_path, check=True)
    out = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert list(map(int, out.split())) == wanted.tolist()


def test_targets_without_the_instruction_have_no_routine() -> None:
    assert not find("c99").routines and find(TARGET).routines.keys() == dot2_tiles().keys()
