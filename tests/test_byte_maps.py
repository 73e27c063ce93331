"""Additions of bytes, floats that become bytes, and bytes that become floats, on Cortex-M55 and M4: every way
to round.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import parser

import ingot
from ingot.audit.machine import MACHINES
from ingot.driver import stages
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.memory.inplace import overwritable
from ingot.options import Options
from ingot.targets.map_routines import map_routines
from ingot.targets.mve_maps import VECTORS
from tests.oracles import exact_session
from tests.test_paired_tiles import KINDS, in_plain_c, routines, without_warnings

TARGETS = ("armv8.1m", "armv7e-m")  # by vectors, and one by one
TARGET = TARGETS[0]


def shapeless(text: str) -> onnx.ModelProto:
    """A model whose output has the shape that it comes to."""
    proto = parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def added(
    kind: str,
    shape: tuple[int, ...],
    scales: tuple[float, ...],
    zeros: tuple[int, ...],
    relu: bool = False,
) -> onnx.ModelProto:
    """DequantizeLinear of two tensors, Add, QuantizeLinear; a Relu behind the Add."""
    dims = ",".join(map(str, shape))
    (a, b, c), (x, y, z) = scales, zeros
    return shapeless(
        f"""<ir_version: 10, opset_import: ["" : 21]> g ({kind}[{dims}] x, {kind}[{dims}] y) => ({kind} z)
        <float xs = {{{a!r}}}, {kind} xz = {{{x}}}, float ys = {{{b!r}}}, {kind} yz = {{{y}}},
         float zs = {{{c!r}}}, {kind} zz = {{{z}}}>
        {{ p = DequantizeLinear(x, xs, xz) q = DequantizeLinear(y, ys, yz)
           {"r = Add(p, q) s = Relu(r)" if relu else "s = Add(p, q)"} z = QuantizeLinear(s, zs, zz) }}"""
    )


def found(proto: onnx.ModelProto, x: dict[str, Array], *names: str) -> None:
    """Loops and C answer with the oracle's bytes, by those routines; the oracle fuses nothing."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    (wanted,) = exact_session(proto, options).run(None, x)
    program = stages(proto, Options(target=TARGET)).program
    assert routines(program) == list(names)
    np.testing.assert_array_equal(run(program, x)[0], wanted)
    for target in TARGETS:
        assert routines(stages(proto, Options(target=target)).program) == list(names)
        bundle = ingot.compile(proto, target=target)
        (made,) = bundle.run(x).values()
        np.testing.assert_array_equal(made, wanted)
        assert bundle.manifest["sizes"]["stack_bytes"] is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [4, 5, 7, 16, 33])
def test_additions_of_any_length(kind: str, count: int) -> None:
    random = np.random.default_rng(count)
    every = np.arange(np.iinfo(kind).min, np.iinfo(kind).max + 1, dtype=kind)
    x = {n: random.choice(every, (3, count)) for n in "xy"}
    found(
        added(kind, (3, count), (0.03, 0.02, 0.04), (7, -3 if kind == "int8" else 3, 12)),
        x,
        f"add_bytes_{kind}",
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["256", "3,5", "2,4"])
def test_what_bytes_stand_for(kind: str, shape: str) -> None:
    low = np.iinfo(kind).min
    proto = shapeless(
        f"""<ir_version: 10, opset_import: ["" : 21]> g ({kind}[{shape}] x) => (float y)
        <float s = {{0.0371}}, {kind} z = {{{low + 7}}}> {{ y = DequantizeLinear(x, s, z) }}"""
    )
    dims = [int(n) for n in shape.split(",")]
    x = {"x": np.resize(np.arange(low, low + 256), dims).astype(kind)}
    found(proto, x, f"from_bytes_{kind}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("above", [0, 5])
def test_a_relu_is_a_limit_of_bytes(kind: str, above: int) -> None:
    """Where the zero point is the smallest byte; other sums are limited before they are rounded."""
    random, zero = np.random.default_rng(above), np.iinfo(kind).min + above
    x = {n: random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, (3, 40)).astype(kind) for n in "xy"}
    proto = added(kind, (3, 40), (0.03, 0.02, 0.04), (7, 3, zero), relu=True)
    found(proto, x, *([] if above else [f"add_bytes_{kind}"]))


def test_a_sum_may_stand_where_an_operand_stood() -> None:
    (kernel,) = stages(
        added("uint8", (3, 8), (0.03, 0.02, 0.04), (7, 3, 1)), Options(target=TARGET)
    ).program.kernels
    assert {(x.name, y.name) for x, y in overwritable(kernel)} == {("x", "z"), ("y", "z")}


@pytest.mark.parametrize("seed", range(4))
def test_every_pair_of_bytes(seed: int) -> None:
    """By scales of any mantissa, and by those whose quotients are halves: what rounds otherwise is wrong."""
    random = np.random.default_rng(seed)
    scales = tuple(map(float, random.uniform(0.001, 2, 3).astype(np.float32))) if seed else (0.5, 0.25, 0.5)
    low = np.arange(256, dtype=np.uint8)
    x = dict(zip("xy", (a.copy() for a in np.broadcast_arrays(low[:, None], low)), strict=True))
    found(
        added("uint8", (256, 256), scales, tuple(map(int, random.integers(0, 256, 3)))), x, "add_bytes_uint8"
    )


def quantised(kind: str, dims: str, scale: float, zero: int, first: str = "") -> onnx.ModelProto:
    return shapeless(
        f"""<ir_version: 10, opset_import: ["" : 21]> g (float[{dims}] x) => ({kind} y)
        <float s = {{{scale!r}}}, {kind} z = {{{zero}}}>
        {{ {first or "t = Identity(x)"} y = QuantizeLinear(t, s, z) }}"""
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.037, 1.0, 0.5, 1.1e-15, 9.3e14])
def test_floats_of_any_size(kind: str, scale: float) -> None:
    """Halves, both neighbours of each, what is too large or infinite, denormals and both zeros."""
    halves = (np.arange(-300, 300, dtype=np.float32) / 2 * np.float32(scale)).astype(np.float32)
    odd = np.float32([0, -0.0, 1e-40, -1e-40, 3e38, -3e38, np.inf, -np.inf, 1e9, -1e9, scale, -scale])
    x = np.concatenate(
        [halves, np.nextafter(halves, np.float32(9e9)), np.nextafter(halves, np.float32(-9e9)), odd]
    )
    assert x.dtype == np.float32
    found(quantised(kind, str(x.size), scale, 9), {"x": x}, f"to_bytes_{kind}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 3, 5, 7), (1, 4, 2, 4), (2, 1, 3, 9), (1, 5, 1, 6)])
def test_images_to_channels_last(kind: str, shape: tuple[int, ...]) -> None:
    """A routine writes a row of one channel, its bytes as far apart as there are channels."""
    proto = quantised(kind, ",".join(map(str, shape)), 0.037, 5, "t = Transpose<perm=[0,2,3,1]>(x)")
    x = (np.random.default_rng(1).standard_normal(shape) * 4).astype(np.float32)
    found(proto, {"x": x}, f"to_bytes_{kind}")


@pytest.mark.parametrize(
    ("code", "wanted"),
    {
        "25ee635e": ("vorr", "q0"),  # vmul.i32 q2, q2, r3
        "31ee442e": ("vorr", "q0"),  # vfma.f32 q1, q0, r4
        "31ee642e": ("vorr", "q0"),  # vmul.f32 q1, q0, r4
        "edee100a": ("vorr", "q0"),  # vmsr p0, r0: by which clang masks what fills a short row
        "fdee102a": ("vmladav", "r2"),  # vmrs r2, p0
    }.items(),
)
def test_the_audit_reads_what_the_routines_and_clang_write(code: str, wanted: tuple[str, str]) -> None:
    assert MACHINES["EM_ARM"].beyond(bytes.fromhex(code), 0) == wanted


def test_no_number_is_the_lowest_byte() -> None:
    """As everywhere: limits are compared with what is larger. The oracle's answer is not defined."""
    proto = quantised("uint8", "9", 0.5, 9)
    x = {"x": np.float32([np.nan, 1, 2, np.nan, -3, 4, np.nan, 5, np.nan])}
    wanted = run(stages(proto, Options(target=TARGET)).program, x)[0]
    for target in TARGETS:
        np.testing.assert_array_equal(ingot.compile(proto, target=target).run(x)["y"], wanted)
    assert wanted[[0, 3, 6, 8]].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("scale", [1e-16, 1e16])
def test_scales_near_the_ends_of_floats_are_divided_by(scale: float) -> None:
    program = stages(quantised("uint8", "8", scale, 9), Options(target=TARGET)).program
    assert routines(program) == []


@pytest.mark.parametrize("scale", [1.1e-15, 9.3e14])
def test_additions_by_the_smallest_and_largest_scales(scale: float) -> None:
    random = np.random.default_rng(8)
    x = {n: random.integers(0, 256, (40, 50)).astype(np.uint8) for n in "xy"}
    found(added("uint8", (40, 50), (scale, scale, 1.05 * scale), (7, 3, 12)), x, "add_bytes_uint8")


@pytest.mark.parametrize("target", TARGETS)
def test_gcc_finds_nothing_to_warn_of(target: str, tmp_path: Path) -> None:
    without_warnings(added("int8", (2, 9), (0.03, 0.02, 0.04), (7, -3, 12)), target, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_plain_c(kind: str, tmp_path: Path) -> None:
    """The tests above run the assembly."""
    random, low = np.random.default_rng(5), np.iinfo(kind).min
    x, y = random.integers(0, 256, (2, 40)).astype(np.uint8).astype(kind)
    floats = np.arange(-300, 300, dtype=np.float32)
    out = (f"{kind}_t", np.zeros(40, kind))
    arrays = {"x": (f"const {kind}_t", x), "y": (f"const {kind}_t", y), "to": out}
    call = "x, y, to, 40, 3, -4, 5, 0.5f, 0.25f, 2.0f, 0.5f"
    made = np.rint(((x.astype(int) - 3) * 0.5 + (y.astype(int) + 4) * 0.25) / 2) + 5
    wanted = np.clip(made, low, low + 255)
    assert (
        in_plain_c(f"add_bytes_{kind}", map_routines(VECTORS), arrays, call, "to", tmp_path)
        == wanted.tolist()
    )
    arrays = {"x": ("const float", floats), "to": (f"{kind}_t", np.zeros(1800, kind))}
    call = "x, to, 600, 3, 5, 2.0f, 0.5f, 2048.0f"
    bytes_ = in_plain_c(f"to_bytes_{kind}", map_routines(VECTORS), arrays, call, "to", tmp_path)
    assert bytes_[::3] == np.clip(np.rint(floats / 2) + 5, low, low + 255).tolist()
    arrays = {"x": (f"const {kind}_t", x), "bits": ("int32_t", np.zeros(40, np.int32))}
    call = "x, (float *)(void *)bits, 40, 3, 0.3f"
    bits = in_plain_c(f"from_bytes_{kind}", map_routines(VECTORS), arrays, call, "bits", tmp_path)
    assert bits == ((x.astype(np.float32) - 3) * np.float32(0.3)).view(np.int32).tolist()
