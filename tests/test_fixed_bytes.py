"""Sums that become bytes in fixed point, as TFLite has them: the routines, and what stands between layers.

The oracle is portable C, whose bits `test_tflite.py` holds to litert's.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.driver import stages
from ingot.emit.helpers import helper
from ingot.formula.operations import doubling_high, rounding_shr
from ingot.formula.types import INT8
from ingot.frontends.tflite.fixed import multipliers_of
from ingot.frontends.tflite.ops.settled import FACTOR, settled
from ingot.loops.evaluate import run
from ingot.options import Optimize, Options
from ingot.targets.fixed_sums import SCALARS as SUMS
from ingot.targets.fixed_sums import add_name
from ingot.targets.mve_windows import quad_name, quad_routines
from ingot.targets.records import find
from ingot.targets.routines import bytes_name, dot2_routines
from ingot.targets.thumb_routines import thumb_routines
from ingot.targets.window_routines import window_name, window_routines
from tests.here import require_program, require_runs
from tests.ops.tflite import divide, high_mul
from tests.test_paired_tiles import KINDS, TARGET, Array, in_plain_c, listed, operands, routines
from tests.tflite.cases import Draw, same
from tests.tflite.writer import Op, T, model

SAME = {"padding": 0, "stride_w": 1, "stride_h": 1}
TWO = {"padding": 0, "stride_w": 2, "stride_h": 2}
RELU = {"fused_activation_function": 1}


def conv(shape: tuple[int, ...], taps: int, filters: int, how: dict[str, int], zero: int = 5) -> bytes:
    """A convolution of int8 with a scale for each filter."""
    d = Draw(f"{shape} {taps} {filters}")
    x, step = d.like("INT8", shape), how["stride_w"]
    w = d.weights("INT8", (filters, taps, taps, shape[3]), 0, filters)
    to = d.sum_of("INT8", (shape[0], -(-shape[1] // step), -(-shape[2] // step), filters))
    to.zero = zero
    op = Op("CONV_2D", [0, 1, 2], [3], "Conv2DOptions", how)
    return model([x, w, d.bias(x, w, filters), to], [op], [0], [3])


def depthwise(shape: tuple[int, ...], how: dict[str, int], zero: int = 5) -> bytes:
    d = Draw(f"depthwise {shape}")
    x, step, channels = d.like("INT8", shape), how["stride_w"], shape[3]
    w = d.weights("INT8", (1, 3, 3, channels), 3, channels)
    to = d.sum_of("INT8", (shape[0], -(-shape[1] // step), -(-shape[2] // step), channels))
    to.zero = zero
    op = Op("DEPTHWISE_CONV_2D", [0, 1, 2], [3], "DepthwiseConv2DOptions", {**how, "depth_multiplier": 1})
    return model([x, w, d.bias(x, w, channels), to], [op], [0], [3])


def residual() -> bytes:
    """relu(x + conv(conv(x))), all of one size."""
    d, shape = Draw("residual"), (1, 16, 16, 8)
    x, between, made = d.like("INT8", shape), d.sum_of("INT8", shape), d.sum_of("INT8", shape)
    weights = [d.weights("INT8", (8, 3, 3, 8), 0, 8) for _ in range(2)]
    biases = [d.bias(t, w, 8) for t, w in zip((x, between), weights, strict=True)]
    ops = [
        Op("CONV_2D", [0, 1, 2], [3], "Conv2DOptions", {**SAME, **RELU}),
        Op("CONV_2D", [3, 4, 5], [6], "Conv2DOptions", SAME),
        Op("ADD", [0, 6], [7], "AddOptions", RELU),
        Op("CONV_2D", [7, 1, 8], [9], "Conv2DOptions", SAME),
    ]
    total = same(made, shape)
    tensors = [x, weights[0], biases[0], between, weights[1], biases[1], made, total]
    last: list[T] = [d.bias(total, weights[0], 8), d.sum_of("INT8", shape)]
    return model([*tensors, *last], ops, [0], [9])


LAYERS = {
    "pointwise": (conv((1, 5, 5, 12), 1, 8, SAME), "fixed_dot2_bytes_int8"),
    "odd rows of points, nine terms a row": (
        conv((1, 5, 5, 3), 3, 8, SAME),
        "fixed_dot2_points_int8_int8",
    ),
    "from the lowest byte on": (conv((1, 5, 4, 9), 3, 8, SAME, -128), "fixed_dot2_bytes_int8_plain"),
    "channels beyond whole tiles": (conv((2, 7, 6, 3), 3, 10, TWO), "fixed_dot2_bytes_int8"),
    "one channel": (conv((1, 9, 8, 1), 3, 8, SAME), "fixed_window_1_1_int8_narrow"),
    "limited": (conv((1, 6, 6, 4), 3, 8, {**SAME, **RELU}), "fixed_dot2_bytes_int8"),
    "depthwise": (depthwise((1, 9, 7, 5), SAME), "fixed_window_1_1_int8_narrow"),
    "depthwise, lowest": (depthwise((1, 8, 6, 3), SAME, -128), "fixed_window_1_1_int8_plain_narrow"),
    "depthwise by two, lowest": (depthwise((1, 9, 21, 20), TWO, -128), "fixed_window_2_2_int8_plain"),
    "depthwise by two": (depthwise((1, 9, 12, 4), TWO), "fixed_window_2_2_int8"),
}


def checked(data: bytes, folder: Path, target: str = TARGET) -> list[str]:
    """The routines of a model, once the evaluator and the assembly agree with portable C."""
    path = folder / "m.tflite"
    path.write_bytes(data)
    program = stages(path, Options(target=target)).program
    (name,) = (t.name for t in program.inputs)
    shape = tuple(int(n) for n in program.inputs[0].shape if isinstance(n, int))
    x = {name: np.random.default_rng(9).integers(-128, 128, shape).astype(np.int8)}
    (wanted,) = ingot.compile(path, target="c99").run(x).values()
    np.testing.assert_array_equal(run(program, x)[0], wanted)
    np.testing.assert_array_equal(next(iter(ingot.compile(path, target=target).run(x).values())), wanted)
    return routines(program)


@pytest.mark.parametrize("name", LAYERS)
def test_bytes_of_a_layer(name: str, tmp_path: Path) -> None:
    data, routine = LAYERS[name]
    assert routine in checked(data, tmp_path)


SCALARS = {
    "pointwise": (conv((1, 5, 5, 12), 1, 8, SAME), "fixed_scale8_int8"),
    "rows of fours": (conv((1, 5, 6, 4), 3, 10, TWO), "fixed_scale8_int8"),
    **{name: LAYERS[name] for name in LAYERS if "depthwise" in name},
}


@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m3", "cortex-m23"])
@pytest.mark.parametrize("name", SCALARS)
def test_bytes_of_a_layer_without_floats(name: str, target: str, tmp_path: Path) -> None:
    data, routine = SCALARS[name]
    found = checked(data, tmp_path, target)
    assert routine.replace("_plain", "") in found or (target == "cortex-m3" and not found)


def test_layers_without_floats_are_in_place(tmp_path: Path) -> None:
    """The image of a depthwise layer has no halo, and the layer takes no second image."""
    (tmp_path / "m.tflite").write_bytes(depthwise((1, 20, 20, 8), SAME))
    planned = stages(tmp_path / "m.tflite", Options(target="cortex-m0")).plan
    assert all(22 not in t.shape for t in planned.offsets)


HELIUM = {
    "long terms": (conv((1, 5, 5, 20), 1, 8, SAME), "fixed_long2_2_0_int8_int8"),
    "long terms, lowest": (conv((1, 5, 5, 20), 1, 8, SAME, -128), "fixed_long2_2_0_int8_int8_plain"),
    "odd points and channels": (conv((1, 5, 5, 7), 3, 6, TWO, -128), "fixed_long2_4_0_int8_int8_plain"),
    "one point, lowest": (
        conv((1, 3, 3, 24), 3, 12, {"padding": 1, "stride_w": 3, "stride_h": 3}, -128),
        "fixed_long1_2_4_int8_plain",
    ),
    "depthwise": (LAYERS["depthwise"][0], "fixed_quad_windows_1_int8"),
    "depthwise, lowest": (LAYERS["depthwise, lowest"][0], "fixed_quad_windows_1_int8_plain"),
    "depthwise by two": (LAYERS["depthwise by two"][0], "fixed_quad_windows_2_int8"),
    "depthwise by two, lowest": (
        LAYERS["depthwise by two, lowest"][0],
        "fixed_quad_windows_2_int8_plain",
    ),
    "depthwise, blocks and parts": (depthwise((2, 7, 70, 37), SAME), "fixed_quad_windows_1_int8"),
    "depthwise, high": (depthwise((1, 70, 7, 17), SAME, 3), "fixed_quad_windows_1_int8"),
    "one point": (
        conv((1, 3, 3, 24), 3, 12, {"padding": 1, "stride_w": 3, "stride_h": 3}),
        "fixed_long1_2_4_int8",
    ),
}


@pytest.mark.parametrize("name", {**LAYERS, **HELIUM})
def test_bytes_of_a_layer_on_helium(name: str, tmp_path: Path) -> None:
    data, routine = HELIUM.get(name) or LAYERS[name]
    found = checked(data, tmp_path, "armv8.1m")
    assert name not in HELIUM or routine in found, found
    sizes = ingot.compile(tmp_path / "m.tflite", target="armv8.1m").manifest["sizes"]
    assert sizes["stack_bytes"] is not None


VECTORS = ("x86-64", "x86-64-v3", "x86-64-v4-vnni", "aarch64", "riscv64-v", "wasm32-simd128", "ppc64le")


@pytest.mark.parametrize("target", VECTORS)
@pytest.mark.parametrize("name", ["pointwise", "channels beyond whole tiles", "depthwise"])
def test_bytes_of_a_layer_in_vectors(name: str, target: str, tmp_path: Path) -> None:
    """Both roundings are made of whole registers; only of two channels beyond, lane by lane."""
    require_runs(target)
    checked(LAYERS[name][0], tmp_path, target)
    bundle = ingot.compile(tmp_path / "m.tflite", target=target, name="net", emit=("c",))
    text = (bundle.save(tmp_path / "net") / "net.c").read_text()
    assert re.search(r"rounding_shr_i32_(4|8|16)\(", text)
    assert re.search(r"doubling_high_i32\(\w+\[", text) is None or "beyond" in name


EDGES = (-(1 << 31), 1 - (1 << 31), -(1 << 30), -1, 0, 1, 1 << 30, (1 << 31) - 1)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_roundings_of_vectors(lanes: int, tmp_path: Path) -> None:
    random = np.random.default_rng(lanes)
    drawn = random.integers(-(1 << 31), 1 << 31, (2, 192))
    x = np.concatenate([np.repeat(EDGES, 8), drawn[0] >> np.arange(192) % 31]).astype(np.int32)
    y = np.concatenate([np.tile(EDGES, 8), drawn[1]]).astype(np.int32)
    by = np.arange(256, dtype=np.int32) % 32
    found = {"doubling_high": (y, doubling_high(x, y)), "rounding_shr": (by, rounding_shr(x, by))}
    for operation, (other, wanted) in found.items():
        made = in_lanes(operation, lanes, x, other, tmp_path)
        np.testing.assert_array_equal(made, wanted, operation)


def in_lanes(operation: str, lanes: int, x: Array, y: Array, folder: Path) -> Array:
    """What the vectors of the C compiler here give."""
    vector = f"i32x{lanes}"
    source = f"""#include <stdint.h>
    #include <stdio.h>
    typedef int32_t {vector} __attribute__((vector_size({4 * lanes}), aligned(4), may_alias));
    {helper((operation, "int32", str(lanes)), find("x86-64"))}
    static int32_t x[] = {listed(x)}, y[] = {listed(y)};
    int main(void) {{
        for (int i = 0; i < {x.size}; i += {lanes})
            *({vector} *)&x[i] = {operation}_i32_{lanes}(*({vector} *)&x[i], *({vector} *)&y[i]);
        return fwrite(x, sizeof x, 1, stdout) != 1;
    }}"""
    (folder / "main.c").write_text(source)
    flags = ("-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-fsanitize=undefined", "-fno-sanitize-recover")
    subprocess.run(["gcc", *flags, "main.c", "-o", "main"], cwd=folder, check=True)
    return np.frombuffer(subprocess.run([folder / "main"], capture_output=True, check=True).stdout, np.int32)


def test_bytes_lie_between_the_layers_of_a_residual_block(tmp_path: Path) -> None:
    found = checked(residual(), tmp_path)
    assert len([r for r in found if r.startswith("fixed_dot2_bytes")]) == 3
    sizes = ingot.compile(tmp_path / "m.tflite", target=TARGET, optimize="size").manifest["sizes"]
    assert sizes["arena_bytes"] <= 3 * 18 * 18 * 8


def test_routines_that_nothing_calls_are_not_in_the_c(tmp_path: Path) -> None:
    """One whose name ends as another's begins calls none of that name."""
    require_program("arm-none-eabi-gcc")
    path = tmp_path / "m.tflite"
    path.write_bytes(residual())
    bundle = ingot.compile(path, target=TARGET, name="net", emit=("c",)).save(tmp_path / "net")
    flags = ("-O1", "-std=c99", "-ffreestanding", "-Wall", "-Wextra", "-Werror", "-c", "net.c")
    subprocess.run([*(find(TARGET).gcc or ()), *flags], cwd=bundle, check=True)


@pytest.mark.parametrize("level", ["size", "balanced"])
def test_small_code_has_one_routine_for_all_zero_points(level: Optimize, tmp_path: Path) -> None:
    data, routine = LAYERS["from the lowest byte on"]
    path = tmp_path / "m.tflite"
    path.write_bytes(data)

    def called(which: Optimize) -> list[str]:
        return routines(stages(path, Options(target=TARGET, optimize=which)).program)

    assert routine in called("speed") and routine.endswith("_plain")
    assert routine.removesuffix("_plain") in called(level) and routine not in called(level)


def fixed(total: int, multiplier: int, shift: int) -> int:
    return divide(high_mul(total, multiplier), shift)


CONSTANTS = np.array(
    [[1 << 30, (1 << 31) - 1, 1518500250, 1100000000], [9, 12, 10, 8]], np.int32
)  # multipliers and shifts of four channels


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_in_plain_c(kind: str, plain: bool, tmp_path: Path) -> None:
    a, w, sums = operands(6, 1)
    first = np.arange(-2, 2, dtype=np.int32) * 100
    low = np.iinfo(kind).min
    zero = low if plain else 3
    made = [
        [fixed(int(total), *map(int, CONSTANTS[:, c])) + zero for c, total in enumerate(row)]
        for row in sums + first
    ]
    first[1::2] = 256 * first[1::2] + first[::2]
    scales = CONSTANTS.T.astype(np.int64)
    scales[::2, 0] *= 1 + plain  # of the first of two channels
    arrays: dict[str, tuple[str, Array]] = {
        "a": ("const int16_t", a),
        "w": ("const int16_t", w),
        "first": ("const int32_t", first),
        "scale": ("const int32_t", scales.astype(np.int32)),
        "y": (f"{kind}_t", np.zeros(16, kind)),
    }
    call = f"a, w, first, scale, y, 11, 1, 6, {(zero - low) * 65537}"
    found = in_plain_c(
        bytes_name("dot2_bytes", kind, plain, True), dot2_routines(), arrays, call, "y", tmp_path
    )
    assert [found[:4], found[11:15]] == np.clip(made, low, low + 255).tolist()


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_sums_in_plain_c(kind: str, tmp_path: Path) -> None:
    sums = np.array([-(2**31), -70000, -400, -3, 0, 129, 9000, 2**31 - 1])
    m, s = np.array([1518500250] * 7 + [2**30]), np.array([1, 7, 7, 1, 1, 9, 12, 30])
    arrays = {"sums": ("const int32_t", sums), "by": ("const int32_t", np.stack([m, s], 1).reshape(-1))}
    arrays |= {"y": (f"{kind}_t", np.zeros(8, kind))}
    found = in_plain_c(f"fixed_scale8_{kind}", thumb_routines(), arrays, "sums, by, y, 8, 130", "y", tmp_path)
    low = np.iinfo(kind).min
    made = [fixed(int(a), int(b), int(c)) + 130 + low for a, b, c in zip(sums, m, s, strict=True)]
    assert found == np.clip(made, low, low + 255).tolist()


@pytest.mark.parametrize(("shift", "plain"), [(8, False), (31, False), (1, True), (8, True), (23, True)])
def test_windows_in_plain_c(shift: int, plain: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    plane = random.integers(-128, 128, (9, 64)).astype(np.int16)
    w = np.pad(random.integers(-128, 128, (3, 3)), ((0, 0), (0, 1))).astype(np.int8)
    arrays: dict[str, tuple[str, Array]] = {
        "plane": ("const int16_t", plane),
        "w": ("const int8_t", w),
        "y": ("int8_t", np.zeros(40, np.int8)),
        "first": ("const int32_t", np.array([-77])),
        "scale": ("const int32_t", np.array([1518500250, shift])),
    }
    name, zero = window_name((1, 1), "int8", True, plain=plain), -128 if plain else 9
    call = f"plane, w, first, scale, y, 3, 4, 11, 2, {zero}"
    found = in_plain_c(name, window_routines(), arrays, call, "y", tmp_path)
    for i, j in np.ndindex(3, 4):
        total = int(np.sum(plane[i : i + 3, j : j + 3].astype(np.int64) * w[:, :3])) - 77
        assert found[11 * i + 2 * j] == np.clip(fixed(total, 1518500250, shift) + zero, -128, 127)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_quad_windows_in_plain_c(stride: int, plain: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    a = random.integers(-128, 128, (12, 16, 4)).astype(np.int8)
    w = np.pad(random.integers(-128, 128, (2, 3, 3)), ((0, 0), (0, 1), (0, 1))).astype(np.int8)
    rows, scale = 3 - stride, [1518500250, 8, 1 << 30, 31]
    arrays: dict[str, tuple[str, Array]] = {
        "a": ("const int8_t", a),
        "w": ("const int8_t", w),
        "y": ("int8_t", np.zeros(40, np.int8)),
        "first": ("const int32_t", np.array([-77, 1 << 28])),
        "scale": ("const int32_t", np.array(scale)),
    }
    zero, name = -128 if plain else 9, quad_name(stride, "int8", True, plain)
    call = f"a, w, first, scale, y, {rows}, 5, 2, 17, 3, 1, {zero}"
    found = in_plain_c(name, quad_routines(), arrays, call, "y", tmp_path)
    for c, i, j in np.ndindex(2, rows, 5):
        window = a[stride * j :, c, stride * i :][:3, :3].astype(np.int64)
        total = int(np.sum(window * w[c, :3, :3])) + (-77, 1 << 28)[c]
        made = fixed(total, *scale[2 * c : 2 * c + 2]) + zero
        assert found[17 * i + 3 * j + c] == np.clip(made, -128, 127)


def addition(kind: str, shape: tuple[int, ...], scales: tuple[float, ...], zeros: tuple[int, ...]) -> bytes:
    """ADD of two inputs."""
    d = Draw("addition")
    x, y, to = d.like(kind, shape), d.like(kind, shape), d.like(kind, shape)
    for t, scale, zero in zip((x, y, to), scales, zeros, strict=True):
        t.scale, t.zero = scale, zero
    return model([x, y, to], [Op("ADD", [0, 1], [2], "AddOptions", {})], [0, 1], [2])


ADDITIONS = {
    "the first by a half": ((0.05, 0.012, 0.04), (7, 3, 12), True),
    "the second by a half": ((0.012, 0.05, 0.06), (3, 7, 100), True),
    "nearly alike": ((0.05, 0.0499, 0.09), (0, 127, -5), True),
    "a small result": ((0.05, 0.03, 0.0004), (0, 5, 1), True),
    "a large result": ((0.05, 0.03, 7.0), (0, 5, 1), True),
    "alike": ((0.05, 0.05, 0.09), (7, 3, 12), False),
}


@pytest.mark.parametrize("target", [TARGET, "armv8.1m"])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("name", [*ADDITIONS, "from the lowest byte on"])
def test_additions(name: str, kind: str, target: str, tmp_path: Path) -> None:
    """All pairs of bytes; portable C is the oracle."""
    scales, zeros, is_called = ADDITIONS.get(name) or ((0.05, 0.03, 0.04), (7, 3, -128), True)
    low = np.iinfo(kind).min
    zeros = tuple(z + 128 + low for z in zeros)
    path = tmp_path / "m.tflite"
    path.write_bytes(addition(kind.upper(), (1, 256, 256), scales, zeros))
    program = stages(path, Options(target=target)).program
    bytes_ = np.arange(low, low + 256).astype(kind)
    pairs = np.meshgrid(bytes_, bytes_)
    x = {t.name: a[None] for t, a in zip(program.inputs, pairs, strict=True)}
    (wanted,) = ingot.compile(path, target="c99").run(x).values()
    np.testing.assert_array_equal(run(program, x)[0], wanted)
    bundle = ingot.compile(path, target=target)
    np.testing.assert_array_equal(next(iter(bundle.run(x).values())), wanted)
    assert bundle.manifest["sizes"]["stack_bytes"] is not None
    plain = name == "from the lowest byte on"
    assert routines(program) == ([add_name(kind, plain)] if is_called else [])


@pytest.mark.parametrize("count", [4, 5, 6, 7, 16, 33])
@pytest.mark.parametrize("target", [TARGET, "armv8.1m"])
def test_additions_of_any_length(count: int, target: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(addition("INT8", (3, count), (0.05, 0.012, 0.04), (7, 3, 12)))
    program = stages(path, Options(target=target)).program
    random = np.random.default_rng(count)
    x = {t.name: random.integers(-128, 128, (3, count)).astype(np.int8) for t in program.inputs}
    (wanted,) = ingot.compile(path, target="c99").run(x).values()
    np.testing.assert_array_equal(run(program, x)[0], wanted)
    np.testing.assert_array_equal(next(iter(ingot.compile(path, target=target).run(x).values())), wanted)
    assert routines(program) == [add_name("int8", False)]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_additions_in_plain_c(kind: str, plain: bool, tmp_path: Path) -> None:
    random, low = np.random.default_rng(5), np.iinfo(kind).min
    x, y = random.integers(0, 256, (2, 40)).astype(np.uint8).astype(kind)
    out = (f"{kind}_t", np.zeros(40, kind))
    arrays = {"x": (f"const {kind}_t", x), "y": (f"const {kind}_t", y), "to": out}
    zero = low if plain else 5
    call = f"x, y, to, 40, 3, 4, 1518500250, 2, 1100000000, 17, {zero}"
    made = []
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        total = ((a - 3) << 19) + fixed((b - 4) << 20, 1518500250, 2)
        made.append(min(max(fixed(total, 1100000000, 17) + zero, low), low + 255))
    assert in_plain_c(add_name(kind, plain), SUMS, arrays, call, "to", tmp_path) == made


def test_a_byte_has_no_room_beside_a_shift(tmp_path: Path) -> None:
    """Sums near the half of what they are divided by: routines that add a byte first would overflow."""
    d, shape = Draw("far"), (1, 6, 6, 2)
    x, to = d.like("INT8", shape), d.sum_of("INT8", shape)
    to.zero = -128
    w = d.weights("INT8", (1, 3, 3, 2), 3, 2)
    bias = d.bias(x, w, 2)
    assert isinstance(bias.data, np.ndarray) and isinstance(w.scale, list)
    for c in range(2):
        w.scale[c] = to.scale / x.scale / (1 << 26)
        bias.data[c] = (1 << 25) + c
    op = Op("DEPTHWISE_CONV_2D", [0, 1, 2], [3], "DepthwiseConv2DOptions", {**SAME, "depth_multiplier": 1})
    data = model([x, w, bias, to], [op], [0], [3])
    assert "fixed_window_1_1_int8_narrow" in checked(data, tmp_path)
    checked(data, tmp_path, "armv8.1m")


def test_channels_that_no_image_changes(tmp_path: Path) -> None:
    """Dead ones of a network, with biases and scales beyond all measure: the layer keeps its routine."""
    d, filters = Draw("dead"), 8
    x, to = d.like("INT8", (1, 6, 6, 12)), d.sum_of("INT8", (1, 6, 6, 8))
    to.zero = -128
    w = d.weights("INT8", (filters, 1, 1, 12), 0, filters)
    bias = d.bias(x, w, filters)
    assert isinstance(w.scale, list) and isinstance(bias.data, np.ndarray)
    for dead, scale, first in ((1, 1e-12, -(1 << 30)), (4, 1e-9, 1 << 30), (6, 1e-3, -90000)):
        w.scale[dead], bias.data[dead] = scale, first
    op = Op("CONV_2D", [0, 1, 2], [3], "Conv2DOptions", {**SAME, **RELU})
    assert "fixed_dot2_bytes_int8_plain" in checked(model([x, w, bias, to], [op], [0], [3]), tmp_path)


@pytest.mark.parametrize("zero", [-128, -3, 100])
def test_settled_channels_give_the_same_bytes(zero: int) -> None:
    """Every channel of random layers by its own constants, at the least, the largest and other sums."""
    random = np.random.default_rng(zero + 200)
    kernel = random.integers(-127, 128, (200, 2, 3)).astype(np.int32)
    bias = (random.normal(size=200) * 10.0 ** random.integers(2, 10, 200)).clip(-(2**31), 2**31 - 1)
    factors = (10.0 ** random.uniform(-11, -2, 200)).tolist()
    made = settled(kernel, bias.astype(np.int32), factors, (INT8, 7), (zero, max(zero, -128), 127))
    assert made is not None
    assert 20 < sum(f == FACTOR for f in made[2]) < 180
    x = random.integers(-128, 128, (500, 2, 3)).astype(np.int64) - 7
    answers = []
    for w, b, f in ((kernel, bias.astype(np.int32), factors), made):
        multipliers, shifts = multipliers_of(f)
        sums = np.einsum("nij,cij->nc", x, w.astype(np.int64)) + b
        inside = np.abs(sums) < 1 << 31
        high = doubling_high(sums.clip(-(1 << 31), (1 << 31) - 1), multipliers)
        answers.append(np.where(inside, np.clip(rounding_shr(high, -shifts) + zero, zero, 127), -999))
    known = answers[0] != -999
    np.testing.assert_array_equal(answers[1][known], answers[0][known])
