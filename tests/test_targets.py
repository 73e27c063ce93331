"""Targets, toolchain and object inspection: every record compiles, what can run runs, stack bounds are true.

A missing emulator or cross compiler skips with its name, except in CI, where it fails.
"""

from __future__ import annotations

import ctypes
import dataclasses
import io
import pickle
import struct
import subprocess
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from ingot.audit.stack import stack_usage
from ingot.binary.objects import defined_symbols, sections, undefined_symbols, writable_bytes
from ingot.errors import InputError, ToolchainError
from ingot.formula.operations import doubling_high
from ingot.loops.kernels.contraction.tiles import Sizes, best_tile
from ingot.targets import TARGETS, Target, find, native
from ingot.targets.records import ALIASES, OUT_OF_REACH, SEVERAL, cpu_features, find_all
from ingot.targets.toolchain import (
    archive,
    assemble,
    compile_c,
    execute,
    exported,
    is_gcc,
    link_executable,
    link_shared,
    obstacle,
    relocatable,
)
from tests.here import require_program, require_runs

STRICT = ("-Wall", "-Wextra", "-Werror")
PACKAGES = Path(__file__).parents[1] / "tools" / "debian-packages.txt"
GCCS = PACKAGES.read_text().split()
BUILDS = [
    (name, kind)
    for name, target in TARGETS.items()
    for kind in ("clang", "gcc")
    if kind == "clang" or (target.gcc and target.gcc[0] in GCCS)
]
SPELLED = [
    (name, kind) for name, kind in BUILDS if TARGETS[name].format in ("elf", "wasm")
]  # the others' too
HOSTED = [name for name, target in TARGETS.items() if target.runs]

KERNELS = """
#include <stddef.h>
#include <stdint.h>
static const float bias[8] = {0.5f, 1, 2, 3, 4, 5, 6, 7};
void matmul(const float *restrict a, const float *restrict b, float *restrict c, int m, int n, int k);
void matmul(const float *restrict a, const float *restrict b, float *restrict c, int m, int n, int k)
{
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            float s = bias[j & 7];
            for (int p = 0; p < k; ++p) s += a[i * k + p] * b[p * n + j];
            c[i * n + j] = s;
        }
}
int32_t dot(const int8_t *a, const int8_t *b, size_t n);
int32_t dot(const int8_t *a, const int8_t *b, size_t n)
{
    int32_t s = 0;
    for (size_t i = 0; i < n; ++i) s += (int32_t)a[i] * b[i];
    return s;
}
/* Loops that compilers like to replace by calls of memset and memcpy. */
void clear(float *restrict y);
void clear(float *restrict y) { for (int i = 0; i < 100000; i++) y[i] = 0; }
void copy(float *restrict y, const float *restrict x);
void copy(float *restrict y, const float *restrict x) { for (int i = 0; i < 100000; i++) y[i] = x[i]; }
"""

MAIN = """
#include <stddef.h>
#include <stdint.h>
long ingot_write(int file, const void *from, long count);
void matmul(const float *restrict a, const float *restrict b, float *restrict c, int m, int n, int k);
int32_t dot(const int8_t *a, const int8_t *b, size_t n);
static float a[35], b[77], c[55];
static int8_t x[1000], y[1000];
int main(void)
{
    for (int i = 0; i < 35; i++) a[i] = (float)(i % 7) - 3;
    for (int i = 0; i < 77; i++) b[i] = (float)(i % 5) - 2;
    for (int i = 0; i < 1000; i++) x[i] = (int8_t)(i * 7), y[i] = (int8_t)(i * 13 + 5);
    matmul(a, b, c, 5, 11, 7);
    int32_t d = dot(x, y, 1000);
    ingot_write(1, c, sizeof c);
    ingot_write(1, &d, sizeof d);
    return 0;
}
"""


def compiler(target: Target, kind: str) -> str | None:
    """`cc` argument: the pinned clang or the target's gcc, of those that the tests install."""
    if kind == "clang" or target.gcc is None:
        return None
    require_program(target.gcc[0])
    return target.gcc[0]


# ---- records -----------------------------------------------------------------------------------------------


def test_unknown_target_names_the_nearest():
    with pytest.raises(InputError) as caught:
        find("x86-64-v5")
    assert "did you mean 'x86-64-v" in str(caught.value) and caught.value.exit_code == 2
    for name, near in (
        ("stm32f9", "stm32f"),
        ("cortex-m5", "cortex-m"),
        ("esp32-c4", "esp32-"),
        ("arm8", "arm"),
        ("STM32F407VG", "stm32f4', which is armv7e-m"),
        ("stm32f103c8t6", "stm32f103', which is cortex-m3"),
        ("stm32wba55", "stm32wba', which is cortex-m33"),
        ("pico_w", "pico', which is cortex-m0"),
    ):
        with pytest.raises(InputError, match=f"did you mean '{near}.*ingot targets lists them"):
            find(name)
    with pytest.raises(InputError) as caught:
        find("quantum")
    assert "did you mean" not in str(caught.value)


def test_a_family_is_no_target_and_its_members_are_named():
    for name, members in SEVERAL.items():
        assert name not in TARGETS and name not in ALIASES
        with pytest.raises(InputError, match="stands for several processors; name one, such as") as caught:
            find(name)
        assert all(member in str(caught.value) and find(member) for member in members)


def test_every_architecture_of_glow_is_a_target_or_gets_its_reason():
    """What LLVM 8 lists in Glow's guide to ahead-of-time compilation."""
    listed = """aarch64 aarch64_be amdgcn arm arm64 armeb avr bpf bpfeb bpfel hexagon lanai mips mips64
    mips64el mipsel msp430 nvptx nvptx64 ppc32 ppc64 ppc64le r600 sparc sparcel sparcv9 systemz thumb thumbeb
    wasm32 wasm64 x86 x86-64 xcore"""
    out = set(OUT_OF_REACH)
    for name in listed.split():
        if name in out or name in SEVERAL:
            with pytest.raises(InputError, match=r"there is no target|stands for several"):
                find(name)
        else:
            assert find(name)


def test_aliases_are_what_users_type():
    known = {
        "cortex-m4": "armv7e-m",
        "stm32f4": "armv7e-m",
        "rp2040": "cortex-m0",
        "cortex-m0+": "cortex-m0",
        "esp32-c3": "rv32imc",
        "esp32c3": "rv32imc",
        "raspberrypi4": "aarch64",
        "raspberry_pi_4": "aarch64",
        "STM32H7": "cortex-m7",
        "nrf52840": "armv7e-m",
        "x86_64": "x86-64",
        "apple-m1": "macos-aarch64",
        "AArch64_BE": "aarch64-be",
        "ARMV7-A": "armv7-a",
    }
    assert {alias: find(alias).name for alias in known} == known
    assert len(ALIASES) == sum(len(t.aliases) for t in TARGETS.values()) and not ALIASES.keys() & TARGETS
    assert [t.name for t in find_all("cortex-m0+")] == ["cortex-m0"]
    assert [t.name for t in find_all("x86-64+haswell")] == ["x86-64", "x86-64-v3"]
    with pytest.raises(InputError, match="has c99 twice"):
        find_all("c99+c99")


def test_native_never_exceeds_the_processor():
    assert cpu_features().issuperset(native().features)
    assert find("native") is native()


def test_records_are_consistent():
    for name, target in TARGETS.items():
        assert target.name == name and target == pickle.loads(pickle.dumps(target))
        assert hash(target) and target.lanes(4) == max(1, target.vector_bytes // 4)
        for tables in (target.operations, target.scalar_operations, *target.narrow_operations.values()):
            assert all(text.format(a="x", b="y", c="z", tables="x, y") for text in tables.values())
    assert TARGETS["x86-64-v4"].spelling("madd", "float32", 32) == TARGETS["x86-64-v3"].spelling(
        "madd", "float32"
    )


@pytest.mark.parametrize("name", TARGETS)
def test_register_tiles_fit(name):
    target = TARGETS[name]
    for channels, points, terms in product((1, 3, 10, 24, 58, 64, 1000), ((), (7, 7), (169,)), (3, 1000)):
        tile = best_tile(target, Sizes(channels, target.lanes(4), points, terms))
        needed = tile.rows * tile.vectors + tile.vectors * (tile.rows > 1)
        assert needed < target.registers and tile.rows <= prod(points), f"{name}: {tile}"


# ---- compiling ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), BUILDS)
def test_compiles_without_undefined_symbols(name, kind):
    cc = compiler(TARGETS[name], kind)
    runtime = (
        bool(TARGETS[name].runtime) or not TARGETS[name].runs
    )  # what a 32-bit processor has functions for
    for optimize in ("-O0", "-O3"):
        made = compile_c(KERNELS, TARGETS[name], cc=cc, optimize=optimize, flags=STRICT)
        assert made == compile_c(KERNELS, TARGETS[name], cc=cc, optimize=optimize, flags=STRICT)
        assert writable_bytes(made) == 0
        assert [n for n in undefined_symbols(made) if not (runtime and n.startswith("__"))] == []
        assert defined_symbols(made) == ["clear", "copy", "dot", "matmul"]
        assert sections(made).text > 100 and sections(made).rodata >= 32


def test_continuous_integration_installs_every_runner():
    """`qemu-user` has the emulators of all processors; each other program is listed by its name."""
    lines = [line.split() for line in PACKAGES.read_text().splitlines() if not line.startswith("#")]
    assert "qemu-user" in {package for package, _ in lines}
    runners = {target.runner[0] for target in TARGETS.values() if target.runner}
    alone = {name for name in runners if not name.startswith("qemu-") or name.startswith("qemu-system")}
    assert {"wine", "node"} <= alone <= {program for _, program in lines}


@pytest.mark.parametrize("name", HOSTED)
def test_same_results_everywhere(name):
    target = TARGETS[name]
    order = ">" if target.endian == "big" else "<"
    a = (np.arange(35) % 7 - 3).reshape(5, 7)
    b = (np.arange(77) % 5 - 2).reshape(7, 11)
    bias = np.array([0.5, 1, 2, 3, 4, 5, 6, 7])[np.arange(11) & 7]
    i = np.arange(1000)
    dot = (i * 7).astype(np.int8).astype(int) @ (i * 13 + 5).astype(np.int8).astype(int)
    require_runs(target)
    out = execute(link_executable([compile_c(KERNELS, target), compile_c(MAIN, target)], target), target)
    assert np.array_equal(np.frombuffer(out[:220], order + "f4").reshape(5, 11), a @ b + bias)
    assert struct.unpack(order + "i", out[220:]) == (dot,)


def test_shared_library_of_the_unchanged_object(tmp_path):
    made = compile_c(KERNELS, native())
    path = tmp_path / "kernels.so"
    path.write_bytes(link_shared([made], ["dot", "matmul"]))
    library = ctypes.CDLL(str(path))
    values = (ctypes.c_int8 * 4)(1, -2, 3, 100)
    assert library[exported("dot")](values, values, ctypes.c_size_t(4)) == 10014
    assert not hasattr(library, "dot")  # hidden: two bundles in one process do not meet


@pytest.mark.parametrize("name", [n for n, t in TARGETS.items() if "none-eabi" in t.triple and t.gcc])
def test_the_linker_of_arms_firmware_warns_of_nothing(name, tmp_path):
    """Which sizes of enumerations and which calls an object notes are those of arm-none-eabi-gcc."""
    target = TARGETS[name]
    (tmp_path / "net.o").write_bytes(compile_c("int net(void) { return 0; }", target))
    (tmp_path / "main.c").write_text("enum { A } a;\nint net(void);\nvoid reset(void) { a = net(); }\n")
    require_program(target.gcc[0])
    command = [
        *target.gcc,
        "-nostdlib",
        "-Wl,--fatal-warnings,-z,noexecstack,-ereset",
        "main.c",
        "net.o",
    ]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


def test_link_errors_name_the_symbol():
    made = compile_c("int missing(void);\nint f(void) { return missing(); }\n", native())
    assert undefined_symbols(made) == ["missing"]
    with pytest.raises(ToolchainError, match="missing"):
        link_shared([made], ["f"])


def test_byte_identical_in_two_directories(tmp_path, monkeypatch):
    source = {
        "unit.c": '#include "k.h"\nconst char *f(void) { return __FILE__; }\n',
        "k.h": "const char *f(void);\n",
    }
    made = []
    for name in ("one", "another/deeper"):
        (tmp_path / name).mkdir(parents=True)
        monkeypatch.setenv("TMPDIR", str(tmp_path / name))
        monkeypatch.setattr("tempfile.tempdir", None)
        made.append(compile_c(source, native(), flags=("-g",)))
    assert made[0] == made[1] and bytes(tmp_path) not in made[0]


def test_constants_from_a_file_and_one_object_of_two(tmp_path):
    data = tmp_path / "weights.bin"
    data.write_bytes(bytes(range(256)))
    text = '.section .rodata.w,"a"\n.globl weights\n.hidden weights\n.balign 64\nweights: .incbin "w.bin"\n'
    weights = compile_c({"w.S": text, "w.bin": data}, native(), name="w.S")
    code = compile_c("extern const unsigned char weights[];\nint f(int i) { return weights[i]; }\n", native())
    both = relocatable([code, weights])
    assert undefined_symbols(both) == [] and sections(both).rodata == 256
    path = tmp_path / "both.so"
    path.write_bytes(link_shared([both], ["f"]))
    assert ctypes.CDLL(str(path))[exported("f")](201) == 201
    library = archive({"code.o": code, "weights.o": weights})
    assert library.startswith(b"!<arch>\n") and library == archive({"code.o": code, "weights.o": weights})


def test_compiler_errors_show_the_line_and_the_command():
    with pytest.raises(ToolchainError) as caught:
        compile_c("int f(void) { return nonsense; }\n", native())
    assert caught.value.exit_code == 3
    assert (
        "unit.c:1" in str(caught.value)
        and "nonsense" in str(caught.value)
        and "command:" in str(caught.value)
    )
    with pytest.raises(ToolchainError, match="no-such-compiler"):
        compile_c("", native(), cc="no-such-compiler -m64")
    with pytest.raises(ToolchainError, match="no command: No closing quotation"):
        compile_c("", native(), cc="gcc '-m64")


def test_a_small_copy_of_bytes_compiles_on_every_x86():
    """clang's vectorizer of straight code never ended on this one, for 64-byte vectors."""
    text = """void f(const signed char x[2][4][11][6], signed char *restrict y) {
        for (int n = 0; n < 2; n++) for (int h = 0; h < 11; h++) for (int w = 0; w < 6; w++)
            for (int c = 0; c < 4; c++) y[264 * n + 24 * h + 4 * w + c] = x[n][c][h][w]; }"""
    for target in (find(t) for t in TARGETS if t.startswith("x86-64")):
        assert defined_symbols(compile_c(text, target)) == ["f"]


def test_cache_returns_the_same_object(tmp_path, monkeypatch):
    first = compile_c(KERNELS, native(), cache=tmp_path)
    monkeypatch.setattr("ingot.targets.process._produce", lambda *_: pytest.fail("not from the cache"))
    assert compile_c(KERNELS, native(), cache=tmp_path) == first
    with pytest.raises(pytest.fail.Exception):
        compile_c(KERNELS, native(), cache=tmp_path, optimize="-O1")


def test_failing_programs_and_absent_emulators_are_errors():
    target = TARGETS["c99"]
    program = link_executable([compile_c("int main(void);\nint main(void) { return 7; }\n", target)], target)
    with pytest.raises(ToolchainError, match="failed with status 7"):
        execute(program, target)
    absent = dataclasses.replace(target, runner=("qemu-absent",))
    assert obstacle(absent) == "qemu-absent is not installed"
    with pytest.raises(ToolchainError, match="qemu-absent is not installed"):
        execute(program, absent)
    with pytest.raises(ToolchainError, match="no programs are made for target 'macos-aarch64'"):
        link_executable([], TARGETS["macos-aarch64"])


def test_programs_read_standard_input():
    target = TARGETS["c99"]
    text = """
    long ingot_read(int, void *, long); long ingot_write(int, const void *, long);
    int main(void) { char x[100]; return ingot_write(1, x, ingot_read(0, x, 100)) != 5; }
    """
    assert execute(link_executable([compile_c(text, target)], target), target, b"12345") == b"12345"


def test_gcc_is_known_by_its_version_line():
    assert is_gcc("cc (Debian 12.2.0-14) 12.2.0") and is_gcc("arm-none-eabi-gcc (15:12.2.rel1-1) 12.2.1")
    assert not is_gcc("Debian clang version 16.0.6") and not is_gcc("Apple clang version 17.0.0")


def test_assembler_shows_encodings_and_fixups():
    shown = assemble("a: ret\n jmp b\n", "x86_64-unknown-none", listing=True).decode()
    assert "# encoding: [0xc3]" in shown and "fixup A - offset: 1" in shown
    assert undefined_symbols(assemble("a: ret\n jmp b\n", "x86_64-unknown-none")) == ["b"]


# ---- spellings ---------------------------------------------------------------------------------------------

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "int32": "int",
    "int64": "int64_t",
}
MEANING: dict[str, Callable[..., np.ndarray]] = {
    "max": lambda a, b, c: np.maximum(a, b),
    "min": lambda a, b, c: np.minimum(a, b),
    "larger": lambda a, b, c: np.where(a > b, a, b),
    "sqrt": lambda a, b, c: np.sqrt(a),
    "select": lambda a, b, c: np.where(a != 0, b, c),
    "round": lambda a, b, c: np.round(a),
    "floor": lambda a, b, c: np.floor(a),
    "ceil": lambda a, b, c: np.ceil(a),
    "trunc": lambda a, b, c: np.trunc(a),
    "convert_int32": lambda a, b, c: np.trunc(a).astype(np.int32),
    "nearest_int32": lambda a, b, c: np.round(a).astype(np.int32),
    "convert_float32": lambda a, b, c: a.astype(np.float32),
    "scalef": lambda a, b, c: np.where(np.isnan(b), b, np.ldexp(a, np.nan_to_num(np.floor(b)).astype(int))),
    "dot2": lambda a, b, c: c + (a.astype(np.int32) * b).reshape(-1, 2).sum(axis=1, dtype=np.int32),
    "dot16": lambda a, b, c: c + (a.astype(np.int32) * b).reshape(-1, 16).sum(axis=1, dtype=np.int32),
    "dot4": lambda a, b, c: c + (a.astype(np.int32) * b).reshape(-1, 4).sum(axis=1, dtype=np.int32),
    "dot4s": lambda a, b, c: (
        c + np.clip((a.astype(np.int32) * b).reshape(-1, 2, 2).sum(-1), -32768, 32767).sum(1)
    ),
    "any": lambda a, b, c: np.any(a != 0, keepdims=True),
    "doubling_high": lambda a, b, c: doubling_high(a, b),
    "madd16": lambda a, b, c: c + a.astype(np.int16).astype(np.int32) * b.astype(np.int16),
    "widen_int32": lambda a, b, c: a.astype(np.int32),
    "widen_even_int16": lambda a, b, c: a[0::2].astype(np.int16),
    "widen_odd_int16": lambda a, b, c: a[1::2].astype(np.int16),
    "saturate_uint8": lambda a, b, c: np.clip(a, 0, 255).astype(np.uint8),
    "saturate_int8": lambda a, b, c: np.clip(a, -128, 127).astype(np.int8),
    "pack_int16": lambda a, b, c: packed(a, b, np.int16),
    "pack_int8": lambda a, b, c: packed(a, b, np.int8),
    "pack_uint8": lambda a, b, c: packed(a, b, np.uint8),
    "gather": lambda a, b, c: a[c],
    "pick8": lambda a, b, c: a[c],
    "pick16": lambda a, b, c: np.append(a, b)[c],
    "pick32": lambda a, b, c: np.append(a, b)[c],
    "pick64": lambda a, b, c: np.append(a, b)[c],
    "pick128": lambda a, b, c: np.append(a, b)[c],
    "madd": lambda a, b, c: np.array([fma(*each) for each in zip(a, b, c, strict=True)], a.dtype),
}


def packed(a: np.ndarray, b: np.ndarray, to: type[np.integer]) -> np.ndarray:
    """By turns 16 bytes of either, each element limited to what the narrower type holds."""
    parts = (x.reshape(-1, 16 // x.dtype.itemsize) for x in (a, b))
    info = np.iinfo(to)
    return np.clip(np.stack(list(parts), 1).reshape(-1), info.min, info.max).astype(to)


def fma(a: float, b: float, c: float) -> float:
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) if b == b else None
    return float("nan") if exact is None else float(exact)


def signature(operation: str, dtype: str) -> tuple[str, str, str, str]:
    """dtypes of {a}, {b}, {c} and the result."""
    match operation:
        case "select":
            mask = {"float32": "int32", "float64": "int64", "uint8": "int8"}.get(dtype, dtype)
            return mask, dtype, dtype, dtype
        case "convert_int32" | "nearest_int32":
            return dtype, dtype, dtype, "int32"
        case "convert_float32":
            return dtype, dtype, dtype, "float32"
        case "dot2" | "dot16":
            return dtype, dtype, "int32", "int32"
        case "dot4" | "dot4s":
            return dtype, "int8", "int32", "int32"
        case "widen_int32" | "any":
            return dtype, dtype, dtype, "int32"
        case "widen_even_int16" | "widen_odd_int16":
            return dtype, dtype, dtype, "int16"
        case "saturate_int8" | "saturate_uint8" | "pack_int8" | "pack_uint8" | "pack_int16":
            return dtype, dtype, dtype, operation.partition("_")[2]
    if operation.startswith(("pick", "gather")):
        return dtype, dtype, {"float32": "int32"}.get(dtype, "uint8"), dtype
    return dtype, dtype, dtype, dtype


def operand_bytes(width: int, operation: str, dtype: str, each: str) -> int:
    """Of {a}, {b}, {c} or the result, as {each} says: not all registers are as wide as the widest."""
    item = np.dtype(dtype).itemsize
    if operation == "gather" and each in "ab":
        return 64
    if operation == "any" and each == "r":
        return 0  # a number that is not 0, where a lane is not
    if operation == "madd16" or (f"{operation}{width}" in ("dot24", "dot1616") and each in "cr"):
        return 0  # one lane is a number
    if operation == "widen_int32" and each in "abc":
        return width // 4
    if operation.startswith("saturate") and each == "r":
        return width // np.dtype(dtype).itemsize
    if operation.startswith("pick") and each in "ab":
        table = int(operation.removeprefix("pick")) * item
        return table // 2 if table > (16 if item == 1 else width) else table
    return width


def sample(which: str, dtype: str, operation: str) -> np.ndarray:
    """64 bytes; ties, halves, big and small magnitudes, and in {b} a NaN ({a} of `larger`, which ignores
    it). Of a look-up {c} are indices.
    """
    if operation == "larger":
        which = {"a": "b", "b": "a"}.get(which, which)
    if operation.startswith(("pick", "gather")) and which == "c":
        most = int(operation.removeprefix("pick")) if operation != "gather" else 64
        return (np.arange(64 // np.dtype(dtype).itemsize) * 37 % most).astype(dtype)
    count = 64 // np.dtype(dtype).itemsize
    if operation in ("select", "any") and which == "a":
        return -(np.arange(count) % 3 == 1).astype(dtype)
    if not dtype.startswith("float"):
        random = np.random.default_rng(ord(which))
        info = np.iinfo(dtype)
        if operation == "doubling_high":
            return np.append([info.min] * 4, random.integers(info.min, info.max, count - 4)).astype(dtype)
        return random.integers(max(info.min, -30000), min(info.max, 30000), count).astype(dtype)
    tiny = 2.0 ** (-12 if dtype == "float32" else -30)
    if which == "a":
        return np.resize([1 + tiny, 2.5, -2.5, 0.5, 3.75, -7.25, 1e6 + 0.25, 0.0, 1e-30], count).astype(dtype)
    if which == "b":
        return np.resize([1 - tiny, np.nan, -3.5, 7.0, -0.5, 2.25, 1.5, 4.0, -140.0], count).astype(dtype)
    return np.resize([-1, 5, 1e-5, -7, 3, 0.1, 9, 2, 1], count).astype(dtype)


def cases(target: Target) -> list[tuple[int, str, str, str]]:
    """(width, operation, dtype, template) of all tables; width 0 is scalar."""
    return [case for case in everything(target) if not case[1].startswith("extend")]


def everything(target: Target) -> list[tuple[int, str, str, str]]:
    tables = {target.vector_bytes: target.operations, **target.narrow_operations, 0: target.scalar_operations}
    return [(w, op, dtype, text) for w, table in tables.items() for (op, dtype), text in table.items()]


def extensions(target: Target) -> str:
    """C with a program that extends every vector it can and answers what the first lanes are then."""
    lines, calls = [target.header, "long ingot_write(int file, const void *from, long count);"], []
    for i, (width, operation, dtype, template) in enumerate(everything(target)):
        if not operation.startswith("extend"):
            continue
        part = int(operation.removeprefix("extend"))
        for name, size in ((f"p{i}", part), (f"w{i}", width)):
            attributes = f"__attribute__((vector_size({size}), aligned(4), may_alias))"
            lines.append(f"typedef {C_TYPES[dtype]} {name} {attributes};")
        body = f"w{i} w = {template.format(a=f'*(const p{i} *)p')}; ingot_write(1, &w, {part});"
        lines.append(f"__attribute__((__noinline__)) static void f{i}(const void *p) {{ {body} }}")
        calls.append(f"f{i}(bytes);")
    bytes_ = ", ".join(str(n) for n in range(32))
    main = f"static const unsigned char bytes[] = {{{bytes_}}}; {' '.join(calls)} return 0;"
    return "\n".join([*lines, f"int main(void) {{ {main} }}"]) + "\n"


@pytest.mark.parametrize(("name", "kind"), [b for b in BUILDS if b[0] in ("x86-64-v3", "x86-64-v4")])
def test_extended_vectors_keep_their_lanes(name, kind):
    target = TARGETS[name]
    require_runs(target)
    made = compile_c(extensions(target), target, cc=compiler(target, kind))
    answer = execute(link_executable([made], target), target)
    parts = [int(op.removeprefix("extend")) for _, op, _, _ in everything(target) if op.startswith("extend")]
    assert parts and answer == b"".join(bytes(range(n)) for n in parts)


def spelled(target: Target) -> str:
    """C with one function per operation: `void fI(const void *a, const void *b, const void *c, void *r)`."""
    lines = ["#include <stdint.h>", target.header]
    for i, (width, operation, dtype, template) in enumerate(cases(target)):
        for letter, each in zip("abcr", signature(operation, dtype), strict=True):
            size = operand_bytes(width, operation, dtype, letter)
            vector = f" __attribute__((vector_size({size}), may_alias))" if size else ""
            lines.append(f"typedef {C_TYPES[each]} {letter}{i}{vector};")
        names = {each: f"*(const {each}{i} *){each}" for each in "abc"}
        names |= {"a": "a"} if operation == "gather" else {}
        halves = (f"*(const r{i} *)((const char *){each} + {k})" for each in "ab" for k in (0, 16))
        names |= {"tables": ", ".join(halves)} if operation == "pick64" else {}
        head = f"void f{i}(const void *a, const void *b, const void *c, void *r)"
        cast = operation.startswith(("pick", "widen_even", "widen_odd"))  # as the printer does
        as_result = f"(r{i})" if cast else ""
        body = f"(void)a; (void)b; (void)c; *(r{i} *)r = {as_result}{template.format(**names)};"
        lines += [f"{head};", f"{head} {{ {body} }}"]
    return "\n".join(lines) + "\n"


def spelled_main(target: Target) -> str:
    """Feed every function its samples; 64 bytes out for each."""
    lines = ["long ingot_write(int file, const void *from, long count);"]
    calls = []
    for i, (_, operation, dtype, _) in enumerate(cases(target)):
        lines.append(f"void f{i}(const void *a, const void *b, const void *c, void *r);")
        for letter, each in zip("abc", signature(operation, dtype), strict=False):
            order = ">" if target.endian == "big" else "<"
            values = sample(letter, each, operation)
            data = ", ".join(map(str, values.astype(values.dtype.newbyteorder(order)).tobytes()))
            lines.append(f"static const _Alignas(64) unsigned char {letter}{i}[] = {{{data}}};")
        calls.append(f"f{i}(a{i}, b{i}, c{i}, r); ingot_write(1, r, 64);")
    body = "\n".join(calls)
    return "\n".join(lines) + f"\nint main(void) {{ static _Alignas(64) char r[64]; {body} return 0; }}\n"


@pytest.mark.parametrize(("name", "kind"), SPELLED)
def test_spellings_compile_to_instructions(name, kind):
    """No operation becomes a call, whatever the compiler and the level."""
    target = TARGETS[name]
    cc = compiler(target, kind)
    for optimize in ("-O0", "-O1", "-O2", "-O3", "-Os"):
        made = compile_c(spelled(target), target, cc=cc, optimize=optimize, flags=STRICT)
        assert undefined_symbols(made) == []


@pytest.mark.parametrize(("name", "kind"), [build for build in SPELLED if build[0] in HOSTED])
def test_spellings_mean_what_the_table_says(name, kind):
    target = TARGETS[name]
    require_runs(target)
    cc = compiler(target, kind)
    objects = [compile_c(spelled(target), target, cc=cc), compile_c(spelled_main(target), target)]
    stream = io.BytesIO(execute(link_executable(objects, target), target))
    order = ">" if target.endian == "big" else "<"
    for width, operation, dtype, template in cases(target):
        types = signature(operation, dtype)
        size = width or np.dtype(dtype).itemsize
        inputs = [
            sample(letter, each, operation)[
                : max(1, operand_bytes(width, operation, dtype, letter) // np.dtype(each).itemsize)
            ]
            for letter, each in zip("abc", types, strict=False)
        ]
        with np.errstate(all="ignore"):
            want = MEANING[operation](*inputs).astype(types[3])
        got = np.frombuffer(stream.read(64)[:size], np.dtype(types[3]).newbyteorder(order))
        if operation == "any":
            got = (got[:1] != 0).astype(np.int32)
        got = got[: want.size]  # a number, of vectors
        assert np.array_equal(got, want, equal_nan=want.dtype.kind == "f"), (operation, dtype, template)


# ---- stack -------------------------------------------------------------------------------------------------

STACK = """
__attribute__((__noinline__)) void sink(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }
int leaf(int a) { return a + 1; }
__attribute__((__noinline__)) int frame(int a)
{
    char x[4096];
    for (int i = 0; i < 4096; i++) x[i] = (char)a;
    sink(x);
    return x[a & 4095];
}
int outer(int a) { char x[64]; sink(x); int r = frame(a) + 1; sink(x); return r; }
int aligned(int a)
{
    _Alignas(64) char x[1024];
    for (int i = 0; i < 1024; i++) x[i] = (char)a;
    sink(x);
    return x[a & 1023];
}
int tail(int a) { char x[32]; sink(x); return frame(a); }
int recursive(int a) { char x[32]; sink(x); return a > 0 ? recursive(a - 1) + x[1] : 0; }
int indirect(int (*f)(int)) { return f(1) + 1; }
int variable(int n) { char x[n]; sink(x); return x[0]; }
"""

PROBE = """
long ingot_write(int file, const void *from, long count);
int FUNCTION(int a);
#if defined(__s390x__)
enum { FRAME = 160 }; /* of the caller, which has room for what is saved */
#elif defined(__powerpc__) || defined(__mips__)
enum { FRAME = 128 };
#else
enum { FRAME = 0 };
#endif
static _Alignas(64) unsigned char area[65536 + FRAME];
int main(void)
{
    for (int i = 0; i < 65536; i++) area[i] = 0xa5;
#if defined(__s390x__)
    register long r2 __asm__("r2") = 5;
    __asm__ volatile("lgr %%r10, %%r15\\n lgr %%r15, %1\\n basr %%r14, %2\\n lgr %%r15, %%r10"
        : "+r"(r2) : "a"(area + 65536), "a"(FUNCTION)
        : "r0", "r1", "r3", "r4", "r5", "r10", "r14", "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7",
          "memory", "cc");
#elif defined(__powerpc__)
    register long r3 __asm__("r3") = 5;
    register int (*r12)(int) __asm__("r12") = FUNCTION;
    __asm__ volatile("mr 29, 1\\n mr 1, %2\\n mtctr 12\\n bctrl\\n mr 1, 29"
        : "+r"(r3), "+r"(r12) : "r"(area + 65536)
        : "r0", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r29", "ctr", "lr", "cr0", "cr1", "cr5",
          "cr6", "cr7", "memory");
#elif defined(__mips__)
    register long a0 __asm__("$4") = 5;
    register int (*t9)(int) __asm__("$25") = FUNCTION;
    __asm__ volatile(".set noreorder\\n move $16, $29\\n move $29, %2\\n jalr $25\\n nop\\n"
        " move $29, $16\\n .set reorder"
        : "+r"(a0), "+r"(t9) : "r"(area + 65536)
        : "$2", "$3", "$5", "$6", "$7", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15", "$16", "$24",
          "$31", "memory");
#elif defined(__x86_64__)
    __asm__ volatile("mov %%rsp, %%rbx\\n mov %0, %%rsp\\n call *%1\\n mov %%rbx, %%rsp"
        : : "r"(area + 65536), "r"(FUNCTION), "D"(5)
        : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "memory", "cc");
#elif defined(__arm__)
    register int r0 __asm__("r0") = 5;
    __asm__ volatile("mov r8, sp\\n mov sp, %1\\n blx %2\\n mov sp, r8"
        : "+r"(r0) : "r"(area + 65536), "r"(FUNCTION)
        : "r1", "r2", "r3", "r8", "r12", "lr", "memory", "cc");
#elif defined(__riscv)
    register long a0 __asm__("a0") = 5;
    __asm__ volatile("mv s2, sp\\n mv sp, %1\\n jalr %2\\n mv sp, s2"
        : "+r"(a0) : "r"(area + 65536), "r"(FUNCTION)
        : "x1", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s2",
          "memory");
#else
    register long x0 __asm__("x0") = 5;
    __asm__ volatile("mov x19, sp\\n mov sp, %1\\n blr %2\\n mov sp, x19"
        : "+r"(x0) : "r"(area + 65536), "r"(FUNCTION)
        : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
          "x16", "x17", "x19", "x30", "v0", "v1", "memory", "cc");
#endif
    int lowest = 0;
    while (area[lowest] == 0xa5) lowest++;
    lowest = 65536 - lowest;
    ingot_write(1, &lowest, 4);
    return 0;
}
"""


FRAMED = ("ppc", "ppc64", "ppc64le", "mips", "mipsel", "mips64", "mips64el")
"""Of whose frames those that are aligned to more than the stack are unknown."""


@pytest.mark.parametrize("optimize", ["-O0", "-O2", "-Os"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *product(("x86-64", "x86-64-v3", "aarch64", "armv7e-m", "armv8.1m", "riscv64"), ("clang", "gcc")),
        *product(("rv32imc", "rv32gc", "riscv64-v", *FRAMED, "s390x"), ("clang",)),
    ],
)
def test_stack_bound_holds_and_is_tight(name, kind, optimize):
    """Run on a painted stack: the bound covers what was touched, by at most an alignment."""
    target = TARGETS[name]
    require_runs(target)
    made = compile_c(STACK, target, cc=compiler(target, kind), optimize=optimize)
    more = (("aligned", 160),) if name not in FRAMED else ()
    unused = 160 if name == "s390x" else 0  # of a frame, for registers that what it calls may save
    for function, slack in (("outer", 64), ("tail", 64), *more):
        probe = compile_c(PROBE.replace("FUNCTION", function), target)
        answer = execute(link_executable([made, probe], target), target)
        touched = int.from_bytes(answer, target.endian)
        bound = stack_usage(made).bytes(function)
        assert bound is not None and touched <= bound <= touched + slack + unused, (function, touched, bound)


@pytest.mark.parametrize("kind", ["clang", "gcc"])
@pytest.mark.parametrize(
    ("name", "word"), [("x86-64-v3", 8), ("i386", 4), ("aarch64", 0), ("armv7e-m", 0), ("riscv64", 0)]
)
def test_frame_of_4_kilobytes(name, kind, word):
    """`word` is the return address; -mstackrealign may keep a frame pointer in addition."""
    target = TARGETS[name]
    usage = stack_usage(compile_c(STACK, target, cc=compiler(target, kind), optimize="-Os"))
    assert 4096 + word <= usage.frames["frame"] <= 4096 + 48
    assert usage.frames["leaf"] in (word, 2 * word)
    assert usage.path("outer")[:2] == ("outer", "frame")
    assert usage.frames["outer"] + usage.frames["frame"] <= usage.bytes("outer") <= 4096 + 256
    assert usage.bytes("tail") <= usage.bytes("outer")


LOOPS = """
#include <arm_mve.h>
__attribute__((__noinline__))
int32_t f(const int8_t *restrict a, const int8_t *restrict b, uint8_t *restrict c, int n)
{
    int32_t s = 0;
    for (int i = 0; i < n; i++) s = vmladavaq_s8(s, vld1q_s8(a + 16 * i), vld1q_s8(b + 16 * i));
    for (int i = 0; i < n; i++) c[i] = c[i] + 3;
    return s;
}
int32_t g(const int8_t *a)
{
    int8_t copy[64];
    uint8_t more[4] = {0};
    for (int i = 0; i < 64; i++) copy[i] = a[i] ^ 1;
    return f(a, copy, more, 4) + more[1];
}
void h(int32_t *restrict y, const int32_t *restrict x, int k, int n)
{
    for (int i = 0; i < n; i++) y[i] += x[i] * k;
}
void w(int16_t *y, const int8_t *x) { vst1q_s16(y, vmulhq_s16(vmovlbq_s8(vld1q_s8(x)), vld1q_s16(y))); }
"""


def test_stacks_of_vectors_and_loops_on_a_cortex_m55():
    """What capstone does not know of what the pinned compiler writes is told from its encoding."""
    usage = stack_usage(compile_c(LOOPS, TARGETS["armv8.1m"]))
    assert 8 <= usage.bytes("f") <= 64 and 64 <= usage.bytes("g") <= 256 and usage.bytes("h") <= 64
    assert usage.bytes("w") <= 16


def test_unknown_stacks_are_none():
    usage = stack_usage(compile_c(STACK, TARGETS["x86-64"]))
    assert [usage.bytes(name) for name in ("recursive", "indirect", "variable")] == [None] * 3
    assert usage.path("recursive") == () and usage.frames["recursive"] > 32
    assert stack_usage(compile_c(STACK, TARGETS["x86-64"]), indirect=100).bytes("indirect") == 116
    assert set(stack_usage(compile_c(STACK, TARGETS["loongarch64"])).frames.values()) == {None}
    for name in FRAMED:
        assert stack_usage(compile_c(STACK, TARGETS[name])).bytes("aligned") is None
    cut = assemble(".type f, %function\nf: ret\n.2byte 0\n.size f, .-f\n", "aarch64")
    assert stack_usage(cut).frames == {"f": 0}  # ends within an instruction
