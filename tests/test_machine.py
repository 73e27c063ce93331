"""--cpu, --features, --float-abi, --code-model: what is valid runs, what is not is one error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser
from typer.testing import CliRunner

import ingot
from ingot.cli import app
from ingot.errors import InputError
from ingot.targets.machine import Machine, adapted
from ingot.targets.records import find
from tests.here import require_runs

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1,8] x) => (float[1,8] y) <float[8] k = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}> 
{ t = Mul (x, k) y = Tanh (t) }"""
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("x86-64-v3", {"cpu": "skylake"}),
        ("x86-64", {"features": ("+sse4.1", "+popcnt"), "code_model": "small"}),
        ("armv7e-m", {"float_abi": "softfp"}),
        ("armv7e-m", {"float_abi": "softfp", "cpu": "cortex-m7"}),
        ("cortex-m0", {"float_abi": "soft", "cpu": "cortex-m0plus"}),
        ("aarch64", {"cpu": "cortex-a72", "code_model": "tiny"}),
        ("riscv64", {"cpu": "sifive-u74", "code_model": "medium"}),
        ("s390x", {"cpu": "z13"}),
        ("mips", {"cpu": "mips32r5"}),
        ("armv7e-m", {"cpu": "cortex-m55"}),
    ],
)
def test_a_machine_of_the_users_runs(target: str, options: dict[str, Any]) -> None:
    require_runs(target)
    bundle = ingot.compile(parser.parse_model(MODEL), target=target, name="net", **options)
    assert np.allclose(bundle.run({"x": X})["y"], np.tanh(X * np.arange(1, 9)), atol=1e-5)


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (
            "armv7e-m",
            {"cpu": "cortex-m9"},
            "cpu= cortex-m9 is not a processor of armv7e-m; did you mean cortex-",
        ),
        ("x86-64", {"cpu": "skylke"}, "did you mean skylake"),
        (
            "x86-64-v3",
            {"cpu": "x86-64-v2"},
            "cpu= x86-64-v2 has no .*avx.*, which code for x86-64-v3 uses; target= x86-64-v2",
        ),
        (
            "x86-64-v3",
            {"features": ("-fma",)},
            "features= -fma has no fma, which code for x86-64-v3 uses; target=",
        ),
        (
            "x86-64",
            {"features": ("+avx512vnn",)},
            r"x86-64 has no features= \+avx512vnn; did you mean \+avx512vnni",
        ),
        (
            "armv7e-m",
            {"features": ("+mve",)},
            r"features= \+mve is of another architecture than armv7e-m; target= armv8.1m",
        ),
        ("x86-64", {"features": ("avx2",)}, r"write \+NAME or -NAME"),
        (
            "cortex-m0",
            {"float_abi": "hard"},
            "float_abi='hard': cortex-m0 has no unit for floats; float_abi='soft'",
        ),
        ("armv7e-m", {"cpu": "cortex-m3"}, "cpu= cortex-m3 has no .*arm_fp, .*; target= cortex-m3"),
        ("armv7e-m+cortex-m7", {}, "armv7e-m has no way to ask .*; join targets of 64-bit x86"),
        ("x86-64-v3+aarch64", {}, "aarch64 has no way to ask which instructions there are"),
        ("armv7e-m", {"cc": "gcc"}, "cc= gcc compiles for .*, not for armv7e-m; cc= arm-none-eabi-gcc"),
        ("ppc", {"cc": "gcc"}, "cc= gcc compiles for .*, not for ppc; cc= powerpc-linux-gnu-gcc"),
        ("esp32-s3", {}, "no target 'esp32-s3': its core is an Xtensa"),
        ("Arduino_Uno", {}, "no target 'Arduino_Uno': its int has 16 bits"),
        ("armv7e-m", {"float_abi": "soft"}, "float_abi='soft' has no .*arm_fp, .*; target= cortex-m4-nofp"),
        ("x86-64", {"float_abi": "hard"}, "float_abi= is for 32-bit Arm; x86-64 has one way"),
        (
            "x86-64",
            {"code_model": "tiny"},
            "x86-64 has no code_model='tiny'; choose from small, kernel, medium, large",
        ),
        ("armv7e-m", {"code_model": "large"}, "armv7e-m has no code_model='large'; leave it out"),
        ("windows-x86-64", {"relocation": "pic"}, "windows-x86-64 has no relocation='pic'"),
        (
            "x86-64",
            {"features": ("+avx",), "cc": "gcc"},
            "features= are words of the pinned compiler; with cc=",
        ),
    ],
)
def test_a_wrong_combination_is_one_error(target: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        ingot.compile(parser.parse_model(MODEL), target=target, name="net", **options)
    assert "\n" not in str(caught.value) and caught.value.exit_code == 2


def test_what_is_not_asked_for_changes_nothing() -> None:
    assert adapted(find("armv7e-m"), Machine()) is find("armv7e-m")
    kept = adapted(find("armv8.1m"), Machine(cpu="cortex-m85"))
    assert kept.flags == ("-fshort-enums", "-mcpu=cortex-m85+nomve.fp")  # which the record was written for
    stronger = adapted(find("armv7e-m"), Machine(cpu="cortex-m55"))
    assert stronger.flags[-1] == "-mcpu=cortex-m55+nomve.fp" and stronger.board == find("armv8.1m").board


def test_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "net.onnxtxt"
    path.write_text(MODEL)
    words = [
        "--target",
        "cortex-m4",
        "--float-abi",
        "softfp",
        "-o",
        str(tmp_path / "b"),
        "--features",
        "+dsp",
    ]
    result = CliRunner().invoke(app, ["compile", str(path), *words])
    assert result.exit_code == 0, result.output
    assert ingot.load(tmp_path / "b").manifest["options"]["float_abi"] == "softfp"
