"""What compilers make of the C: gcc keeps tiles in registers and makes no branch that data decide, and no
standard of C changes an instruction.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper, parser

import ingot
from ingot.emit.source import helper_texts
from ingot.formula.expr import Array
from ingot.targets.records import TARGETS, find
from ingot.targets.toolchain import compile_c
from tests.test_targets import compiler

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'


def assembly(text: str, **weights: Array) -> str:
    """What the target's gcc makes of a model for x86-64-v4."""
    target = find("x86-64-v4")
    model = parser.parse_model(HEAD + text)
    model.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in weights.items())
    files = dict(ingot.compile(model, target=target.name, name="net", emit=("c",)).files)
    made = compile_c(files, target, name="net.c", cc=compiler(target, "gcc"), kind="assembly")
    return made.decode()


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def test_a_tile_that_fills_the_registers_is_not_spilled() -> None:
    """Heads of an attention joined by a product, twice: no multiply-add has an operand on the stack."""
    sides = "".join(
        f"t{i} = Transpose<perm=[0,2,1,3]>(x{i}) k{i} = Reshape(t{i}, joined) "
        f"p{i} = MatMul(k{i}, w{i}) s{i} = Add(p{i}, b{i}) y{i} = Add(s{i}, r{i}) "
        for i in (1, 2)
    )
    heads = "float[1,4,128,64] x1, float[1,4,128,64] x2, float[1,128,256] r1, float[1,128,256] r2"
    weights = {f"{n}{i}": ones(*shape) * i for n, shape in (("w", (256, 256)), ("b", (256,))) for i in (1, 2)}
    text = f"heads ({heads}) => (float[1,128,256] y1, float[1,128,256] y2) {{ {sides} }}"
    made = assembly(text, joined=np.array([1, 128, 256]), **weights)
    assert "vfmadd" in made
    assert not re.findall(r"vfmadd.*\(%rsp\).*zmm.*", made)


@pytest.mark.parametrize("kind", ["clang", "gcc"])
def test_the_standard_of_c_changes_no_instruction(kind: str) -> None:
    target = find("x86-64-v4")
    text = """net (float[1,3,9,9] x) => (float[1,20] y) {
        c = Conv(x, w) r = Relu(c) m = GlobalAveragePool(r) f = Flatten(m) t = Tanh(f) y = Softmax(t)
    }"""
    model = parser.parse_model(HEAD + text)
    model.graph.initializer.append(numpy_helper.from_array(ones(20, 3, 3, 3), "w"))
    made = {
        ingot.compile(
            model, target=target.name, cc=compiler(target, kind), cflags=(f"-std={standard}",)
        ).object
        for standard in ("c99", "gnu99", "c11", "gnu17")
    }
    assert len(made) == 1


@pytest.mark.parametrize("channels", [17, 18, 34])
def test_what_is_left_of_a_vector_is_clamped_without_branches(channels: int) -> None:
    text = f"""relu (float[1,8,28,28] x) => (float[1,{channels},28,28] y) {{
        c = Conv(x, w) y = Relu(c)
    }}"""
    made = assembly(text, w=ones(channels, 8, 1, 1))
    assert "zmm" in made
    assert not re.findall(r"v?u?comiss.*", made)


@pytest.mark.parametrize("name", [t.name for t in TARGETS.values() if t.routines])
def test_gnu_takes_the_assembly_of_every_routine(name: str, tmp_path: Path) -> None:
    """Its assembler refuses what clang's takes, such as a range of registers that is one register."""
    target = find(name)
    texts = helper_texts({("routine", r) for r in target.routines}, target)
    source = "\n\n".join(("#include <stdint.h>", target.header, *texts))
    (tmp_path / "routines.c").write_text(source)
    flags = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-c", "routines.c")
    command = (compiler(target, "gcc") or "", *(target.gcc or ())[1:], *flags)
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
