"""What compilers are told: loops that a version of one gets wrong."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import ingot
from ingot.binary.read import read_object
from ingot.emit.expression import Printer
from ingot.emit.helpers import helper
from ingot.emit.statement import lines
from ingot.emit.vector import VectorPrinter
from ingot.errors import InputError, ToolchainError
from ingot.formula.expr import Binary, Cast, Const, Expr, Load, Select, Tensor, Unary, Var
from ingot.formula.statements import For, Store
from ingot.formula.types import FLOAT32, INT32, UINT8
from ingot.targets import toolchain
from ingot.targets.records import TARGETS, find
from ingot.targets.toolchain import compile_c, exported, link_shared
from tests.here import require_program, require_runs

WEIGHTS = ", ".join(f"{n % 7 - 3}" for n in range(900))
PRODUCT = f"""<ir_version: 10, opset_import: ["" : 21]>
net (float[2,300] x) => (float[2,3] y) <float[300,3] w = {{{WEIGHTS}}}> {{ y = MatMul (x, w) }}
"""
FED = {"x": np.arange(600, dtype=np.float32).reshape(2, 300) / 600}
GUARDED = """
static __attribute__((__noinline__)) int kernel(int n, const float c[restrict 9][4],
        const float s[restrict 9][4], const float *restrict x, float *restrict c2, float *restrict s2,
        float *restrict z) {
    for (int b = 0; b < 2; b++) {
        for (int k = 0; k < n; k++) {
            for (int j = 0; j < 4; j++) {
                const int at = (int)0ll + k;
                if (!((at >= 0) && (at < 9))) return -3;
                c2[4 * (n * b) + 4 * k + j] = c[at][j];
            }
        }
    }
    for (int b = 0; b < 2; b++) {
        for (int k = 0; k < n; k++) {
            for (int j = 0; j < 4; j++) {
                const int at = (int)0ll + k;
                if (!((at >= 0) && (at < 9))) return -3;
                s2[4 * (n * b) + 4 * k + j] = s[at][j];
            }
        }
    }
    for (int k = 0; k < n; k++) {
        for (int b = 0; b < 2; b++) {
            for (int i = 0; i < 16; i++) {
                z[16 * (n * b) + 16 * k + i] = (x[16 * (n * b) + 16 * k + i] *
                        c2[4 * (n * b) + 4 * k + i % 4]) +
                        (((i % 8 < 4) ? (-((i + 4 < 16) ? x[16 * (n * b) + 16 * k + i + 4] : 0.0f)) :
                        ((i - 4 >= 0) ? x[16 * (n * b) + 16 * k + i - 4] : 0.0f)) *
                        s2[4 * (n * b) + 4 * k + i % 4]);
            }
        }
    }
    return 0;
}
int turned(int n, const float (*c)[4], const float (*s)[4], const float *x, unsigned char *a, float *z) {
    if (n < 1 || n > 9) return -4;
    return kernel(n, c, s, x, (float *)a, (float *)(a + 320), z);
}
"""


@pytest.mark.parametrize("target", ["c99", "x86-64", "x86-64-v3", "x86-64-v4"])
def test_conditional_reads_inside_conditions(target: str, tmp_path: Path) -> None:
    """clang 22 makes wrong vectors of this loop for AVX2, unless it is told not to convert conditions."""
    _turns(compile_c(GUARDED, find(target), relocation="pic"), target, tmp_path)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_emitted_loops_protect_themselves(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever compiles the C with flags of his own gets the same numbers."""
    loop = "    for (int k = 0; k < n; k++) {\n        for (int b = 0; b < 2; b++) {\n"
    inner = "            for (int i = 0; i < 16"
    before, after = GUARDED.split(loop)
    marked = f"NOT_VECTORIZED\n{loop}{after.replace(inner, 'NOT_VECTORIZED' + chr(10) + inner)}"
    marked = marked.replace("        for (int b", "NOT_VECTORIZED\n        for (int b", 1)
    text = f"{helper(('not_vectorized',), find(target))}\n{before}{marked}"
    monkeypatch.setattr("ingot.targets.toolchain.CLANG", ())
    _turns(compile_c(text, find(target), relocation="pic"), target, tmp_path)


def test_loops_with_nested_conditions_are_marked() -> None:
    """Each loop around an element that is read under two conditions, and no other."""
    x, y, i = Tensor("x", FLOAT32, (4,)), Tensor("y", FLOAT32, (4,)), Var("i", 4)
    inner = Select(Binary("lt", i, Const(3)), Load(x, (i,)), Const(0.0, FLOAT32))
    outer = Select(Binary("ge", i, Const(1)), inner, Const(1.0, FLOAT32))
    for value, marks in ((inner, 0), (outer, 1)):
        loop = For("i", Const(0), Const(4), 1, (Store(Load(y, (i,)), value),))
        printed = list(lines((loop,), VectorPrinter(find("c99"), lambda t: t.name), {}))
        assert printed.count("NOT_VECTORIZED") == marks, printed


def test_each_part_of_an_expression_is_printed_once() -> None:
    """Text that is made twice at each level, and thrown away once, would take 2^depth steps."""
    x, seen = Tensor("x", FLOAT32, (4,)), list[str]()
    value: Expr = Load(x, (Const(0),))
    for _ in range(3):  # what a chain of QuantizeLinear and DequantizeLinear is
        byte = Cast(Binary("sub", Cast(Unary("round", value), INT32), Const(3, INT32)), UINT8)
        value = Binary("mul", Cast(Cast(byte, INT32), FLOAT32), Const(0.5, FLOAT32))

    def name_of(tensor: Tensor) -> str:
        seen.append(tensor.name)
        return tensor.name

    Printer(find("c99"), name_of).scalar(value)
    assert seen == ["x"]


def _turns(object_: bytes, target: str, folder: Path) -> None:
    """Link the function, call it and compare with a rotation written in numpy."""
    require_runs(find(target))
    n = 5
    library = folder / "turned.so"
    library.write_bytes(link_shared([object_], ["turned"]))
    random = np.random.default_rng(0)
    c, s, x = (random.standard_normal(size).astype(np.float32) for size in ((9, 4), (9, 4), (2, n, 16)))
    z = np.zeros_like(x)
    pointers = (v.ctypes.data_as(ctypes.c_void_p) for v in (c, s, x, np.zeros(1024, np.uint8), z))
    assert getattr(ctypes.CDLL(str(library)), exported("turned"))(n, *pointers) == 0
    first, second = x.reshape(2, n, 2, 8)[..., :4], x.reshape(2, n, 2, 8)[..., 4:]
    cos, sin = c[:n, None], s[:n, None]
    wanted = np.concatenate([first * cos - second * sin, second * cos + first * sin], -1).reshape(x.shape)
    np.testing.assert_allclose(z, wanted, rtol=1e-5, atol=1e-6)


def test_objects_that_the_pinned_linker_does_not_know_are_joined_by_their_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an Xtensa's are; here of this machine, whose objects run."""
    require_program("gcc")
    model = parser.parse_model(PRODUCT)
    wanted = ingot.compile(model, target="c99").run(FED)["y"]
    machine = read_object(ingot.compile(model, target="c99", cc="gcc").object).machine
    monkeypatch.setattr(toolchain, "STRANGERS", frozenset((machine,)))
    monkeypatch.setitem(toolchain.JOINERS, "elf", "no-linker")
    with pytest.raises(ToolchainError, match="no-linker"):
        ingot.compile(model, target="c99")
    np.testing.assert_array_equal(ingot.compile(model, target="c99", cc="gcc").run(FED)["y"], wanted)


@pytest.mark.parametrize("target", ["c99", "cortex-m4"])
def test_a_compiler_for_ints_of_16_bits_is_refused(target: str, tmp_path: Path) -> None:
    script = tmp_path / "avr-gcc"
    script.write_text("#!/bin/sh\necho avr\n")
    script.chmod(0o755)
    with pytest.raises(InputError, match="avr-gcc compiles for avr, whose int has 16 bits"):
        ingot.compile(parser.parse_model(PRODUCT), target=target, cc=str(script))


FIRST = {find(name).header: name for name in reversed(TARGETS) if find(name).header}


@pytest.mark.parametrize("target", FIRST.values())
def test_a_header_parsed_once_changes_no_object(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is gone when it is used; where nothing can be kept it is read as it stands."""
    monkeypatch.delenv("INGOT_CACHE", raising=False)
    one, two = (
        f"{find(target).header}float f{n}(const float *x) {{ return x[0] * x[{n}]; }}\n" for n in (1, 2)
    )
    plain = [compile_c(text, find(target)) for text in (one, two)]
    files = [{"unit.c": text.encode()} for text in (one, two)]  # as bundles have them
    assert [compile_c(f, find(target), cache=tmp_path) for f in files] == plain
    assert len(list(tmp_path.iterdir())) == 3, "two objects and a parsed header"
    (tmp_path / "file").write_text("")
    assert compile_c(one, find(target), cache=tmp_path / "file" / "below") == plain[0]
