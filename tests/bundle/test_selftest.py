"""NAME_selftest: every layer as it was computed at compile time, and the first one that is not, by number."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from typer.testing import CliRunner

import ingot
from ingot.cli import app
from ingot.emit.digest import checksum, sums_of
from ingot.errors import InputError
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c, execute, link_executable
from tests.bundle import build, models
from tests.here import require_program

PROGRAM = """
#include "net.h"
long ingot_write(int file, const void *from, long count);
static unsigned char arena[NET_ARENA_SIZE + 1] __attribute__((aligned(64)));
static unsigned char room[NET_SELFTEST_SIZE] __attribute__((aligned(64)));
{weights}
int main(void) {{
    int status;
    for (unsigned i = 0; i < sizeof arena; i++) arena[i] = 0xA5;
    for (unsigned i = 0; i < sizeof room; i++) room[i] = 0xA5;
    status = net_selftest({argument}arena, room);
    ingot_write(1, &status, sizeof status);
    return 0;
}}
"""
LOOPS = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1,4,8,8] x, int64 n, bool b) => (float[1,4,8,8] y, float[1,4,8,8] z, float[1,2,8,8] p)
{ a = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (x, k)
  r = Relu (a)
  p, q = Split <axis = 1, num_outputs = 2> (r)
  s = Sigmoid (q)
  both = Concat <axis = 1> (p, s)
  c = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (both, k)
  y = If (b) <then_branch = t () => (float[1,4,8,8] u) { u = Tanh (c) },
              else_branch = e () => (float[1,4,8,8] v) { v = Conv <kernel_shape = [1,1]> (c, l) }>
  z = Loop (n, b, y) <body = body (int64 i, bool go, float[1,4,8,8] h) => (bool on, float[1,4,8,8] o)
      { on = Identity (go)  o = Conv <kernel_shape = [1,1]> (h, l) }> }"""
TYPES = """<ir_version: 10, opset_import: ["" : 21]>
g (float16[2,64] h, bfloat16[2,64] b, double[2,64] d, int64[2,64] i, uint8[2,64] u)
    => (float16[2,32] hy, bfloat16[2,64] by, double[2,32] dy, int64[2,64] iy, uint8[2,64] uy, int64[2] arg)
{ hh = Tanh (h)  hy = MatMul (hh, wh)
  bb = Mul (b, b)  by = Exp (bb)
  dd = Sin (d)  dy = MatMul (dd, wd)
  ii = CumSum (i, one)  iy = Mul (ii, ii)
  uu = BitShift <direction = "LEFT"> (u, u)  uy = Max (uu, u)
  arg = ArgMax <axis = 1, keepdims = 0> (h) }"""


def looped() -> onnx.ModelProto:
    made = parser.parse_model(LOOPS)
    weights = (("k", (4, 4, 3, 3)), ("l", (4, 4, 1, 1)))
    made.graph.initializer.extend(numpy_helper.from_array(models.random(*s), n) for n, s in weights)
    return made


def typed() -> onnx.ModelProto:
    made = parser.parse_model(TYPES)
    constants = {
        "wh": models.random(64, 32).astype(np.float16),
        "wd": models.random(64, 32).astype(np.float64),
        "one": np.array(1, np.int64),
    }
    made.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
    return made


def quantised() -> onnx.ModelProto:
    """Bytes between floats."""
    made = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[1,4,8,8] x) => (float[1,8,8,8] y)
        { a = QuantizeLinear (x, s, z)  b = DequantizeLinear (a, s, z)
          w = DequantizeLinear (k, s, zk)
          c = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (b, w)
          d = QuantizeLinear (c, s, z)  y = DequantizeLinear (d, s, z) }"""
    )
    k = np.random.default_rng(0).integers(-127, 128, (8, 4, 3, 3), np.int8)
    constants = {"s": np.float32(0.05), "z": np.uint8(128), "zk": np.int8(0), "k": k}
    made.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items())
    return made


MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "small": (models.small, {}),
    "recurrent": (models.recurrent, {"state": {"state_out": "state_in"}}),
    "looped": (looped, {}),
    "typed": (typed, {}),
    "quantised": (quantised, {}),
}


def compiled(name: str, target: str, **more: Any) -> ingot.Bundle:
    model, options = MODELS[name]
    return ingot.compile(model(), target=target, name="net", selftest=True, **options, **more)


def status_of(bundle: ingot.Bundle, code: bytes | None = None, weights: bytes = b"") -> int:
    """What the bundle's self-test returns, on its target or under an emulator of it."""
    target = find(bundle.manifest["target"])
    if target.runner:
        require_program(target.runner[0])
    external = bundle.manifest["weights"] == "external"
    numbers = ",".join(map(str, weights or bundle.files.get("net.weights.bin", b"")))
    held = f"static const unsigned char held[] __attribute__((aligned(64))) = {{{numbers}}};"
    text = PROGRAM.format(weights=held if external else "", argument="held, " if external else "")
    files: dict[str, bytes | str] = {"main.c": text, "net.h": bundle.files["net.h"]}
    around = compile_c(files, target, name="main.c", relocation="static")
    answer = execute(link_executable([code or bundle.object, around], target), target)
    return int.from_bytes(answer, target.endian, signed=True)


ELSEWHERE = (
    *(("looped", "x86-64-v3"), ("recurrent", "aarch64"), ("typed", "s390x"), ("typed", "armv7e-m")),
    *(("quantised", "cortex-m0"), ("quantised", "armv8.1m"), ("small", "wasm32-simd128")),
)


@pytest.mark.parametrize(("name", "target"), [*((name, "c99") for name in MODELS), *ELSEWHERE])
def test_every_layer_is_as_it_was_computed(name: str, target: str) -> None:
    assert status_of(compiled(name, target)) == 0


@pytest.mark.parametrize("name", ["small", "quantised"])
def test_every_wrong_weight_is_found_in_its_layer(name: str) -> None:
    bundle = compiled(name, "c99", weights="external")
    data, found = bundle.files["net.weights.bin"], set()
    for at in range(64, len(data), 64):
        wrong = bytearray(data)
        wrong[at] ^= 1
        found.add(status_of(bundle, weights=bytes(wrong)))
    layers = len(bundle.manifest["kernels"])
    reading = [i for i, k in enumerate(bundle.manifest["kernels"], 1) if k["weights_bytes"]]
    assert found == set(reading), f"of {layers} layers"


@pytest.mark.parametrize("name", ["small", "looped", "quantised"])
def test_a_wrong_kernel_is_named(name: str, tmp_path: Path) -> None:
    """Every kernel in turn spoils one element of what it makes. What runs in a loop, the outputs show; the
    other side of a branch does not run.
    """
    unseen = {8, 9, 10} if name == "looped" else {}
    bundle = compiled(name, "c99", emit=("c", "obj", "weights-bin"))
    text = bundle.files["net.c"].decode()
    once = [k["name"] for k in bundle.manifest["kernels"]]
    for number, kernel in enumerate(once, 1):
        head = re.search(rf"void {kernel}\((.*?)\) \{{\n", text, re.S)
        assert head is not None
        c, pointer = re.findall(r"(?<!const )\b(\w+_t|float) \*?(?:restrict )?(\w+)", head[1])[-1]
        end = text.index("\n}", head.end())
        spoilt = f"\n    (({c} *){pointer})[0] = ({c})(1 - (({c} *){pointer})[0]);"
        wrong = text[:end] + spoilt + text[end:]
        found = status_of(bundle, _object(bundle, wrong))
        wanted = {once.index(kernel) + 1} if number not in unseen else {0, len(once) + 1}
        assert found in wanted, (number, kernel, found)


def _object(bundle: ingot.Bundle, text: str) -> bytes:
    files = {n: bundle.files[n] for n in ("net.h",)} | {
        "net.c": f'{text}\n#include "net_weights.c"\n'.encode()
    }
    files["net_weights.c"] = re.sub(
        rb"struct net_weights \{.*?data;\n", b"", bundle.files["net_weights.c"], flags=re.S
    )
    return compile_c(files, find("c99"), name="net.c", relocation="static")


def test_the_table_names_the_layers() -> None:
    bundle = compiled("small", "c99")
    text = bundle.files["net.h"].decode()
    names = re.search(r"NET_SELFTEST_NAMES \{(.*?)\}", text, re.S)
    assert names is not None
    assert re.findall(r'"(.*?)"', names[1]) == [
        *(" + ".join(k["nodes"]) for k in bundle.manifest["kernels"]),
        "outputs",
    ]
    assert "net_selftest" in bundle.manifest["symbols"]


def test_it_costs_nothing_where_it_is_off() -> None:
    on, off = compiled("small", "c99"), ingot.compile(models.small(), target="c99", name="net")
    text, plain = on.files["net.c"].decode(), off.files["net.c"].decode()
    body = plain[plain.index("#include") :].rstrip()
    assert body in text and "selftest" not in plain + off.files["net.h"].decode()
    assert on.manifest["sizes"]["arena_bytes"] == off.manifest["sizes"]["arena_bytes"]


@pytest.mark.parametrize("api", ["static", "dynamic", "argument"])
def test_every_convention_has_it(api: str) -> None:
    bundle = compiled("recurrent", "c99", api=api)
    assert status_of(bundle) == 0


def test_arguments_are_checked(tmp_path: Path) -> None:
    bundle = compiled("small", "c99")
    text = PROGRAM.format(weights="", argument="").replace("arena, room)", "arena, room + 1)")
    files: dict[str, bytes | str] = {"main.c": text, "net.h": bundle.files["net.h"]}
    around = compile_c(files, find("c99"), name="main.c", relocation="static")
    answer = execute(link_executable([bundle.object, around], find("c99")), find("c99"))
    assert int.from_bytes(answer, "little", signed=True) == -2


@pytest.mark.parametrize("kind", build.COMPILERS)
def test_strict_compilers_take_it(kind: str, tmp_path: Path) -> None:
    bundle = compiled("typed", "c99")
    build.write(tmp_path, bundle.files)
    build.compile_c(kind, tmp_path, "net.c", "-std=c99", *build.STRICT, "-O2")
    (tmp_path / "names.cpp").write_text(
        '#include "net.h"\nextern const char *const names[];\nconst char *const names[] = '
        "NET_SELFTEST_NAMES;\n"
        "typedef char count[sizeof names / sizeof *names == NET_SELFTEST_LAYERS ? 1 : -1];\n"
    )
    build.run([*build.COMPILERS[kind], *build.STRICT, "-c", "names.cpp"], tmp_path)


def test_models_without_golden_inputs_are_refused() -> None:
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[1,4] x, int8[2] i) => (float[1,2] y)
        { l = Cast <to = 7> (i)  y = Gather <axis = 1> (x, l) }"""
    )
    with pytest.raises(InputError, match=r"selftest: the model refuses golden inputs.*remedy|leave .*out"):
        ingot.compile(model, target="c99", name="net", selftest=True)
    with pytest.raises(InputError, match="several targets has no self-test"):
        ingot.compile(models.small(), target="x86-64+x86-64-v3", name="net", selftest=True)


def test_command_line(tmp_path: Path) -> None:
    onnx.save(models.small(), tmp_path / "net.onnx")
    words = [
        "compile",
        str(tmp_path / "net.onnx"),
        "-o",
        str(tmp_path / "b"),
        "--selftest",
        "--target",
        "c99",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "int net_selftest(void *arena, void *room);" in (tmp_path / "b" / "net.h").read_text()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint64])
def test_no_single_wrong_element_keeps_the_checksum(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    array = rng.integers(info.min, info.max, 999, dtype, endpoint=True)
    for at in (0, 500, 998):
        for bit in range(info.bits):
            wrong = array.copy()
            wrong.view(f"u{array.itemsize}")[at] ^= np.array(1 << bit, f"u{array.itemsize}")
            assert checksum(wrong) != checksum(array)


def test_sums_forgive_rounding_and_find_errors() -> None:
    rng = np.random.default_rng(1)
    array = rng.standard_normal(4096).astype(np.float32)
    golden = sums_of(array, 1e-4)

    def is_off(found: Any) -> bool:
        """As C compares, with the scale of the golden numbers."""
        other = sums_of(np.append(found, np.float32(np.abs(array).max())), 1e-4)
        assert other.scale == golden.scale
        reference = sums_of(np.append(array, np.float32(np.abs(array).max())), 1e-4)
        pairs = zip(other.sums, reference.sums, strict=True)
        return any(abs(a - b) > golden.allowed for a, b in pairs) or other.beyond != reference.beyond

    assert not is_off(array * np.float32(1 + 1e-6))
    assert not is_off(array + rng.standard_normal(4096).astype(np.float32) * np.float32(1e-6))
    assert is_off(array + rng.standard_normal(4096).astype(np.float32) * np.float32(1e-2))
    for at in (0, 1000, 4095):
        wrong = array.copy()
        wrong[at] += np.float32(0.1)
        assert is_off(wrong)
        wrong[at] = np.nan
        assert is_off(wrong)
