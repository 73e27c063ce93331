"""Products of bytes by the routine of Cortex-M4: every way in which a layer fills its tiles badly."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
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
from ingot.loops.exact_scales import multipliers
from ingot.options import Options
from ingot.targets.plain_pairs import PLAIN_PAIRS
from ingot.targets.point_routines import point_routines
from ingot.targets.records import find
from ingot.targets.routines import SUM_LIMIT, called, dot2_routines
from tests.here import require_program
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
    "many terms": ((1, 64, 4, 4), (4, 64, 3, 3), ""),
    "the last channel alone": ((1, 4, 2, 2), (5, 4, 1, 1), ""),
    "rows of nine terms": ((1, 3, 6, 5), (8, 3, 3, 3), "<strides=[2,2], pads=[0,0,1,1]>"),
    "one term of each of two rows": ((1, 5, 2, 6), (4, 5, 2, 1), ""),
    "one term of each of five rows": ((1, 1, 6, 8), (4, 1, 5, 5), "<strides=[1,3]>"),
    "one term of rows of rows": ((1, 5, 6, 8), (4, 5, 3, 2), "<dilations=[2,2]>"),
    "a dilated window": ((1, 6, 7, 8), (5, 6, 3, 2), "<dilations=[2,3], pads=[2,0,2,3]>"),
    "dilated, and fewer channels than a load": (
        (1, 2, 6, 6),
        (4, 2, 3, 3),
        "<dilations=[2,2], pads=[2,2,2,2]>",
    ),
    "a row outside of its image": ((2, 3, 2, 9), (20, 3, 1, 3), "<pads=[1,0,0,1], strides=[2,2]>"),
    "one channel": ((1, 1, 9, 8), (9, 1, 5, 4), "<strides=[2,2], pads=[2,1,2,2]>"),
    "strides of three": ((2, 5, 8, 10), (8, 5, 2, 3), "<strides=[3,3]>"),
}


def layer(
    kind: str, shape: tuple[int, ...], weights: Array, attributes: str, last: bool = False
) -> onnx.ModelProto:
    """A QLinearConv of channels-last images: scales per channel, a bias, zero points that are not 0; its
    channels come `last`, too.
    """
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
    if last:
        proto.graph.node[-1].output[0] = "before"
        proto.graph.node.append(onnx.helper.make_node("Transpose", ["before"], ["y"], perm=[0, 2, 3, 1]))
    return proto


def routines(program: object) -> list[str]:
    kernels = program.kernels  # type: ignore[attr-defined]
    return [s.routine.name for k in kernels for s in flatten(k.body) if isinstance(s, For) and s.routine]


def exact_routines(
    kind: str,
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    attributes: str,
    seed: int,
    target: str = TARGET,
    last: bool = False,
) -> list[str]:
    """The routines of a layer's program, whose loops and C answer with the oracle's bytes."""
    random = np.random.default_rng(seed)
    w = random.integers(-127, 128, weights).astype(np.int8)
    images = random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
    x = {"x": np.moveaxis(images, 1, -1)}
    proto = layer(kind, shape, w, attributes, last)
    (wanted,) = exact_session(proto).run(None, x)
    program = stages(proto, Options(target=target)).program
    np.testing.assert_array_equal(run(program, x)[0], wanted)
    np.testing.assert_array_equal(ingot.compile(proto, target=target).run(x)["y"], wanted)
    return routines(program)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LAYERS)
def test_every_tile_is_right(name: str, kind: str) -> None:
    assert exact_routines(kind, *LAYERS[name], seed=2)


DENSE = {
    "whole blocks": ((1, 12, 1, 1), (16, 12, 1, 1), ""),
    "odd terms and channels": ((1, 13, 1, 1), (11, 13, 1, 1), ""),
    "fewer channels than a block": ((1, 8, 1, 1), (5, 8, 1, 1), ""),
    "a window as large as its image": ((1, 3, 4, 5), (9, 3, 4, 5), ""),
    "a padded window": ((1, 3, 4, 5), (9, 3, 5, 7), "<pads=[1,1,0,1]>"),
    "groups": ((1, 12, 1, 1), (18, 6, 1, 1), "<group=2>"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DENSE)
def test_one_point(name: str, kind: str) -> None:
    assert f"dot2_row_{kind}_{kind}" in exact_routines(kind, *DENSE[name], seed=9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "weights", "attributes", "wanted"),
    [
        ((1, 12, 3, 3), (8, 12, 1, 1), "", "dot2_bytes_{0}_plain"),
        ((1, 12, 1, 1), (16, 12, 1, 1), "", "dot2_row_{0}_{0}_plain"),
        ((1, 4, 7, 8), (4, 1, 3, 3), "<pads=[1,1,1,1], group=4>", "window_1_1_{0}"),
        ((1, 4, 7, 8), (4, 1, 3, 3), "<strides=[2,2], group=4>", "window_2_2_{0}"),
    ],
)
def test_numbers_from_zero_on(
    kind: str, shape: tuple[int, ...], weights: tuple[int, ...], attributes: str, wanted: str
) -> None:
    """What a Relu leaves: the zero point is the smallest byte, which products have routines for."""
    random, (low, high) = np.random.default_rng(7), (np.iinfo(kind).min, np.iinfo(kind).max)
    proto = layer(kind, shape, random.integers(-127, 128, weights).astype(np.int8), attributes)
    constant = next(i for i in proto.graph.initializer if i.name == "yz")
    constant.CopyFrom(onnx.numpy_helper.from_array(np.array(low, kind), "yz"))
    x = {"x": np.moveaxis(random.integers(low, high + 1, shape).astype(kind), 1, -1)}
    (y,) = exact_session(proto).run(None, x)
    assert wanted.format(kind) in routines(stages(proto, Options(target=TARGET)).program)
    np.testing.assert_array_equal(ingot.compile(proto, target=TARGET).run(x)["y"], y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("then", ["", "addition", "clip"])
def test_what_becomes_of_the_bytes(kind: str, then: str) -> None:
    """The routine writes results, or scratch that an addition or narrower limits read."""
    random = np.random.default_rng(4)
    w = random.integers(-127, 128, (6, 4, 3, 3)).astype(np.int8)
    proto = layer(kind, (1, 4, 5, 3), w, "<pads=[1,1,1,1]>")
    proto.graph.output[0].name = "z" if then else "y"
    low, high = (20, 90) if kind == "uint8" else (-70, 50)
    for array, name in ((np.array(low, kind), "low"), (np.array(high, kind), "high")):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    if then == "addition":
        proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
        names = ("y", "ys", "yz", "y", "ys", "yz", "ys", "low")
        proto.graph.node.append(onnx.helper.make_node("QLinearAdd", names, ["z"], domain="com.microsoft"))
    if then == "clip":
        proto.graph.node.append(onnx.helper.make_node("Clip", ("y", "low", "high"), ["z"]))
    x = {"x": random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, (1, 5, 3, 4)).astype(kind)}
    (wanted,) = exact_session(proto).run(None, x)
    program = stages(proto, Options(target=TARGET)).program
    assert any(name.startswith("dot2_bytes") for name in routines(program))
    np.testing.assert_array_equal(run(program, x)[0], wanted)
    (found,) = ingot.compile(proto, target=TARGET).run(x).values()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("value", [-128, -127, 127])
@pytest.mark.parametrize("terms", [256, 264])
def test_the_largest_sums_are_exact(value: int, terms: int) -> None:
    """Terms at their limits. What leaves its register or shares none with another goes another way."""
    w = np.full((4, terms, 1, 1), value, np.int8)
    w[::2] = 127
    x = {"x": np.zeros((1, 1, 2, terms), np.uint8)}
    x["x"][:, :, 1] = 255
    proto = layer("uint8", (1, terms, 1, 2), w, "")
    constant = next(i for i in proto.graph.initializer if i.name == "ws")
    constant.CopyFrom(onnx.numpy_helper.from_array(np.full(4, 1e-4, np.float32), "ws"))
    (wanted,) = exact_session(proto).run(None, x)
    program = stages(proto, Options(target=TARGET)).program
    assert bool(routines(program)) == (value != -128 and 255 * 127 * terms < SUM_LIMIT)
    np.testing.assert_array_equal(run(program, x)[0], wanted)
    np.testing.assert_array_equal(ingot.compile(proto, target=TARGET).run(x)["y"], wanted)


def test_large_results_and_biases_take_sums() -> None:
    """Results that fit no half are limited one by one; biases that leave no room are added one by one."""
    random = np.random.default_rng(5)
    w = random.integers(-127, 128, (7, 8, 1, 1)).astype(np.int8)
    x = {"x": random.integers(0, 256, (1, 3, 3, 8)).astype(np.uint8)}
    for name, array, wanted in (
        ("ws", np.full(7, 20.0, np.float32), ["widen2_uint8", "dot2_tile"]),
        ("b", np.full(7, 1 << 23, np.int32), []),
    ):
        proto = layer("uint8", (1, 8, 3, 3), w, "")
        constant = next(i for i in proto.graph.initializer if i.name == name)
        constant.CopyFrom(onnx.numpy_helper.from_array(array, name))
        program = stages(proto, Options(target=TARGET)).program
        assert list(dict.fromkeys(routines(program))) == wanted
        (y,) = exact_session(proto).run(None, x)
        np.testing.assert_array_equal(ingot.compile(proto, target=TARGET).run(x)["y"], y)


def test_layers_of_another_range_have_a_kernel_of_their_own() -> None:
    """Two layers alike but for a bias whose sums share no register."""
    random = np.random.default_rng(6)
    w = random.integers(-127, 128, (4, 4, 1, 1)).astype(np.int8)
    proto = layer("uint8", (1, 4, 3, 3), w, "")
    second = onnx.NodeProto()
    second.CopyFrom(proto.graph.node[1])
    for i, name in ((0, "y"), (3, "w2"), (4, "ws2"), (5, "wz2"), (8, "large")):
        second.input[i] = name
    second.output[0] = "z"
    same = {n.name: onnx.numpy_helper.to_array(n) for n in proto.graph.initializer}
    added = {**{f"{n}2": same[n] for n in ("w", "ws", "wz")}, "large": np.full(4, 1 << 23, np.int32)}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, k) for k, a in added.items())
    proto.graph.node.append(second)
    proto.graph.output[0].name = "z"
    x = {"x": random.integers(0, 256, (1, 3, 3, 4)).astype(np.uint8)}
    (wanted,) = exact_session(proto).run(None, x)
    np.testing.assert_array_equal(ingot.compile(proto, target=TARGET).run(x)["z"], wanted)


def listed(array: Array) -> str:
    return f"{{{', '.join(map(repr, array.reshape(-1).tolist()))}}}"


def with_calls(name: str, texts: Mapping[str, str]) -> list[str]:
    """The texts of a routine and of all that it calls, each once, what is called first."""
    found = [text for n in called(name, texts) for text in with_calls(n, texts)]
    return list(dict.fromkeys([*found, texts[name]]))


def in_plain_c(
    name: str,
    texts: Mapping[str, str],
    arrays: dict[str, tuple[str, Array]],
    call: str,
    out: str,
    folder: Path,
) -> list[int]:
    """What a routine's plain C gives on a machine that has no such instructions."""
    written = {**PLAIN_PAIRS, name: texts[name]}
    declared = "\n".join(f"    static {kind} {n}[] = {listed(a)};" for n, (kind, a) in arrays.items())
    source = f"""#include <stdint.h>
    #include <stdio.h>
    {chr(10).join(with_calls(name, written))}
    {declared}
    int main(void) {{
        {name}({call});
        for (unsigned i = 0; i < sizeof {out} / sizeof *{out}; i++) printf("%d ", {out}[i]);
    }}"""
    (folder / "main.c").write_text(source)
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "main.c", "-o", "main"], cwd=folder, check=True)
    return list(map(int, subprocess.run([folder / "main"], capture_output=True, check=True).stdout.split()))


def operands(pairs: int, blocks: int) -> tuple[Array, Array, Array]:
    """Activations, weights as they share an int16, and the sums [point, channel]."""
    random = np.random.default_rng(pairs)
    a = random.integers(-128, 256, (pairs, 2, 2)).astype(np.int16)
    low, high = random.integers(-127, 128, (2, blocks, pairs, 2, 2))
    sums = np.stack([np.einsum("kpt,bkdt->pbd", a, w) for w in (low, high)], -1).reshape(2, -1)
    return a, (256 * high + low).astype(np.int16), sums


def random_scales(count: int) -> Array:
    return np.random.default_rng(5).uniform(0.0009, 0.004, count).astype(np.float32)


@pytest.mark.parametrize("pairs", [2, 4, 6, 8, 10, 12, 14, 16, 24, 26])
def test_sums_in_plain_c(pairs: int, tmp_path: Path) -> None:
    """The tests above run the assembly."""
    a, w, wanted = operands(pairs, 1)
    sums = np.arange(8, dtype=np.int32)
    arrays = {"a": ("const int16_t", a), "w": ("const int16_t", w), "sums": ("int32_t", sums)}
    found = in_plain_c("dot2_tile", dot2_routines(), arrays, f"a, w, sums, {pairs}", "sums", tmp_path)
    assert found == (wanted.reshape(-1) + sums).tolist()


def arm_loops(name: str, texts: Mapping[str, str]) -> list[tuple[int, int]]:
    """Innermost loops that gcc makes of a routine's plain C for a Cortex-M4: how many instructions, and how
    many of them multiply pairs.
    """
    require_program("arm-none-eabi-gcc")
    wanted = "\n".join(with_calls(name, {**PLAIN_PAIRS, name: texts[name]}))
    source = "#include <stdint.h>\n" + wanted.replace("#if defined(__GNUC__) && ", "#if 0 && ")
    used = f"\nextern void *const used_{name};\nvoid *const used_{name} = (void *){name};\n"
    command = [*find(TARGET).gcc, "-O2", "-ffp-contract=off", "-S", "-o", "-", "-x", "c", "-"]
    text = subprocess.run(command, input=source + used, capture_output=True, text=True, check=True).stdout
    lines = [line for line in text.splitlines() if re.match(r"\.L\d+:|\t[a-z]", line)]
    loops = []
    for end, line in enumerate(lines):
        label = re.match(r"\tb\w*\t(\.L\d+)", line)
        if label and f"{label[1]}:" in lines[:end]:
            code = [one for one in lines[lines.index(f"{label[1]}:") : end + 1] if one[0] == "\t"]
            if not any(re.match(r"\tb\w*\t\.L", one) for one in code[:-1]):
                loops.append((len(code), sum("\tsmla" in one for one in code)))
    return loops


@pytest.mark.parametrize(("name", "most"), [("dot2_bytes_int8", 1.85), ("dot2_row_int8_int8", 2.9)])
def test_gcc_keeps_sums_in_registers(name: str, most: float) -> None:
    """Instructions for each that multiplies pairs: assembly takes 1.5 and 2.2, sums in memory 2.1 and 4.4."""
    count, products = max(arm_loops(name, dot2_routines()), key=lambda loop: loop[1])
    assert products >= 16
    assert count / products <= most


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_in_plain_c(kind: str, tmp_path: Path) -> None:
    a, w, sums = operands(6, 2)
    first = np.arange(-4, 4, dtype=np.int32) * 100
    low, scale = np.iinfo(kind).min, random_scales(32)
    scale = scale[multipliers(scale, low - 3, low + 252) > 0][:8]
    made = (np.rint((sums + first) * scale) + 3).clip(low, low + 255)
    first[1::2] = 256 * first[1::2] + first[::2]
    by = multipliers(scale, low - 3, low + 252).astype(np.int32)
    scale[1::2] /= 256
    by[:4] = (-scale[:4]).view(np.int32)
    arrays = {"a": ("const int16_t", a), "w": ("const int16_t", w), "first": ("const int32_t", first)}
    arrays |= {"scale": ("const int32_t", by), "y": (f"{kind}_t", np.zeros(20, kind))}
    call = f"a, w, first, scale, y, 11, 2, 6, {3 - low}"
    found = in_plain_c(f"dot2_bytes_{kind}", dot2_routines(), arrays, call, "y", tmp_path)
    assert [found[:8], found[11:19]] == made.tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loads", [1, 2, 3, 6])
def test_rows_in_plain_c(kind: str, loads: int, tmp_path: Path) -> None:
    random = np.random.default_rng(loads)
    x = random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, 4 * loads).astype(kind)
    weights = random.integers(-127, 128, (16, 4 * loads))
    first = random.integers(-999, 999, 16).astype(np.int32)
    scale = random.uniform(0.0005, 0.002, 16).astype(np.float32)
    sums = (weights @ x.astype(np.int64) + first).astype(np.float32)
    wanted = (np.rint(sums * scale) + 5).clip(0, 255)
    # block, pair of channels, channel, load, term of the half, half -> block, load, pair, half, term
    by = weights.reshape(2, 4, 2, loads, 2, 2).transpose(2, 0, 3, 1, 5, 4)
    first[1::2] = 256 * first[1::2] + first[::2]
    scale[1::2] /= 256
    w = ("const int16_t", (by[0] + 256 * by[1]).astype(np.int16))
    arrays = {"x": (f"const {kind}_t", x), "w": w, "first": ("const int32_t", first)}
    arrays |= {"scale": ("const float", scale), "y": ("uint8_t", np.zeros(16, np.uint8))}
    call = f"x, w, first, scale, y, 2, {loads}, 5"
    found = in_plain_c(f"dot2_row_{kind}_uint8", dot2_routines(), arrays, call, "y", tmp_path)
    assert found == wanted.tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("terms", "count"), [(4, 2), (6, 2), (7, 3), (8, 2), (5, 1), (9, 3), (13, 4), (5, 6)]
)
def test_widening_in_plain_c(kind: str, terms: int, count: int, tmp_path: Path) -> None:
    """Where one term is left behind the fours of a row, those of four rows are gathered."""
    random = np.random.default_rng(terms)
    a = random.integers(-128, 128, 20 * count + 40).astype(np.int16) + (128 if kind == "uint8" else 0)
    whole, rest = divmod(terms, 4)
    loads = -(-count // 4) + whole * count if rest == 1 else -(-terms // 4) * count
    arrays = {"a": (f"const {kind}_t", a), "to": ("int16_t", np.zeros((loads, 2, 2, 2), np.int16))}
    call = f"a, a + 16, to, {count}, 20, {terms}"
    found = in_plain_c(f"widen2_{kind}", dot2_routines(), arrays, call, "to", tmp_path)
    wanted = np.zeros((2, 4 * loads), np.int64)
    for point in range(2):
        rows = np.stack([a[16 * point + 20 * row :][:terms] for row in range(count)])
        if rest == 1:
            fours = [rows[first : first + 4] for first in range(0, count, 4)]
            lasts = [np.pad(four[:, -1], (0, 4 - len(four))) for four in fours]
            made = np.concatenate(
                [
                    part
                    for pair in zip(fours, lasts, strict=True)
                    for part in (pair[0][:, :-1].ravel(), pair[1])
                ]
            )
        else:
            made = np.pad(rows, ((0, 0), (0, -terms % 4))).reshape(-1)
        wanted[point, : made.size] = made
    # point, load, half of the pair, pair -> load, pair, point, half
    assert found == wanted.reshape(2, loads, 2, 2).transpose(1, 3, 0, 2).reshape(-1).tolist()


def test_targets_without_the_instruction_have_no_routine() -> None:
    assert not find("c99").routines and find(TARGET).routines.keys() >= dot2_routines().keys()


def without_warnings(model: onnx.ModelProto, target: str, where: Path) -> None:
    """Compiles what is emitted by GCC, every warning an error."""
    require_program("arm-none-eabi-gcc")
    ingot.compile(model, target=target, name="net", emit=("c",)).save(where)
    flags = ("-O2", "-std=gnu99", "-ffreestanding", "-Wall", "-Wextra", "-Werror", "-c", "net.c")
    subprocess.run([*(find(target).gcc or ()), *flags], cwd=where, check=True)


@pytest.mark.parametrize("terms", [8, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_points_in_plain_c(kind: str, terms: int, tmp_path: Path) -> None:
    """What both other routines give, pair of points after pair."""
    random, low = np.random.default_rng(terms), np.iinfo(kind).min
    x = random.integers(low, low + 256, 90).astype(kind)
    w = np.pad(random.integers(-127, 128, (4, 2, terms)), ((0, 0), (0, 0), (0, -terms % 4)))
    if terms % 4 == 1:  # the last ones of both rows lie side by side
        w = np.concatenate([w[..., :8].reshape(4, -1), np.pad(w[..., 8], ((0, 0), (0, 2)))], -1)
    # channel, load, term -> load, pair, duo, term of the pair, channel of the duo
    duos = w.reshape(2, 2, -1, 2, 2).transpose(2, 4, 0, 3, 1)
    by = np.array([1 << 20] * 4, np.int32)
    arrays: dict[str, tuple[str, Array]] = {
        "x": (f"const {kind}_t", x),
        "wide": ("int16_t", np.zeros((w.size, 2), np.int16)),
        "w": ("const int16_t", (duos[..., 0] + 256 * duos[..., 1]).astype(np.int16)),
        "first": ("const int32_t", np.array([5, 5 - 256 * 5, 0, 256 * 70], np.int32)),
        "scale": ("const int32_t", by),
        "y": (f"{kind}_t", np.zeros(32, kind)),
    }
    pairs = w.size // 8
    call = f"x, wide, w, first, scale, y, 2, 30, {terms}, 11, 1, {pairs}, 6, {-low - 3}, 2"
    name, texts = f"dot2_points_{kind}_{kind}", {**dot2_routines(), **point_routines()}
    found = in_plain_c(name, texts, arrays, call, "y", tmp_path)
    for point in range(4):
        rows = np.stack([x[11 * point + 30 * row :][:terms] for row in range(2)]).astype(np.int64)
        flat = np.concatenate([rows[:, :8].reshape(-1), *([rows[:, 8], [0, 0]] if terms == 9 else [])])
        sums = w.reshape(4, -1) @ flat + [5, -5, 0, 70]
        wanted = (((sums << 20) + (1 << 31)) >> 32) - 3
        assert found[6 * point :][:4] == wanted.clip(low, low + 255).tolist()
