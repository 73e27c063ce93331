"""The emitted text: valid under every standard and compiler, deterministic, safe whatever the names are."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import ingot
from ingot.emit.helpers import helper as emitted
from ingot.targets.process import zig_home
from ingot.targets.records import native

from .build import COMPILERS, STRICT, compile_c, run, write
from .models import bundle, image, made, random, scores, small

APIS = ("direct", "static", "dynamic", "argument")
C = ("c89", "gnu89", "c99", "gnu99", "c11", "c17", "gnu17", "c2x", "gnu2x")
CPP = ("c++98", "c++03", "c++11", "c++14", "c++17", "c++20", "gnu++17")
X86 = ("c99", "x86-64", "x86-64-v3", "x86-64-v4")
KERNEL_TYPES = """
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t, uintptr_t;
"""


def test_header_is_valid_in_every_standard(tmp_path: Path) -> None:
    """All conventions in one file, and each header twice: the guards work."""
    names = [f"net_{api}" for api in (*APIS, "external")]
    for name, api in zip(names, (*APIS, "direct"), strict=True):
        options = {"weights": "external"} if name == "net_external" else {"api": api}
        write(tmp_path, bundle(name, **options).files)
    includes = "".join(f'#include "{n}.h"\n' for n in names * 2)
    user = f"{includes}\nint use(void);\nint use(void) {{ return NET_DIRECT_OK; }}\n"
    write(tmp_path, {"user.c": user, "user.cpp": user})
    for standard in C:
        run(["gcc", f"-std={standard}", *STRICT, "-fsyntax-only", "user.c"], tmp_path)
    for standard in CPP:
        run(["g++", f"-std={standard}", *STRICT, "-fsyntax-only", "user.cpp"], tmp_path)
    for standard in ("c89", "c99", "c17", "c2x"):
        run([*COMPILERS["clang"], f"-std={standard}", *STRICT, "-fsyntax-only", "user.c"], tmp_path)


@pytest.mark.parametrize("kind", COMPILERS)
def test_kernel_code(kind: str, tmp_path: Path) -> None:
    """No <stdint.h>, no <limits.h>: the kernel's <linux/types.h> is all there is."""
    made_ = bundle(target="c99")
    write(tmp_path, made_.files)
    write(tmp_path / "linux", {"types.h": KERNEL_TYPES})
    flags = ("-std=gnu11", "-D__KERNEL__", "-ffreestanding", "-nostdinc", "-I.", *STRICT)
    command = ["gcc"] if kind == "gcc" else [str(zig_home() / "zig"), "clang", "-target", "x86_64-linux-gnu"]
    for name in ("net.c", "net_weights.c"):
        run([*command, *flags, "-c", name, "-o", "kernel.o"], tmp_path)


@pytest.mark.parametrize("kind", COMPILERS)
@pytest.mark.parametrize("target", X86 if native().name.startswith("x86") else ("c99",))
def test_no_warning_on_any_target(target: str, kind: str, tmp_path: Path) -> None:
    """Both models; the strictest standard and the one whose extensions a user most likely has on."""
    march = () if target == "c99" else (f"-march={target}",)
    for model, standard in itertools.product(("small", "recurrent"), ("c99", "gnu17")):
        files = bundle(of=model, target=target).files
        write(tmp_path, files)
        for name in (n for n in files if n.endswith(".c")):
            compile_c(kind, tmp_path, name, f"-std={standard}", *STRICT, "-O2", *march)


def test_lines_fit_a_screen_and_tell_where_they_come_from() -> None:
    for api in APIS:
        files = bundle(api=api).files
        for name in (n for n in files if n.endswith((".c", ".h"))):
            text = files[name].decode()
            head = text[: text.index("*/")]
            assert (
                "SPDX-License-Identifier: 0BSD" in head and bundle(api=api).manifest["model_sha256"] in head
            )
            assert "opset ai.onnx 17" in head and ingot.__version__ in head
            assert max(map(len, text.splitlines())) <= 120
    assert "api=static" in bundle(api="static").files["net.c"].decode()
    code = bundle().files["net.c"].decode()
    assert "conv" in code and "108 " not in code.splitlines()[0]
    assert not re.search(r"net_\w+\(\(\(", code), "doubled parentheses in a call"


def test_bytes_do_not_depend_on_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INGOT_CACHE", raising=False)
    found = []
    for place in ("a", "b/c"):
        (tmp_path / place).mkdir(parents=True)
        monkeypatch.chdir(tmp_path / place)
        kinds = ("c", "obj", "lib", "shared", "weights-bin", "weights-txt", "main")
        found.append(ingot.compile(small(), name="net", emit=kinds).files)
    assert found[0] == found[1]
    assert all(str(tmp_path).encode() not in data for data in found[0].values())


# ---- names

HOSTILE = (
    "*/ #include </etc/passwd>",
    'a"b\\',
    "%s%n%d",
    "int",
    "größe/模型",
    "x" * 10_000,
    "??/",
    "//",
    "\\\nnew line",
    "arena",
    "weights",
    "printf",
    "__LINE__",
    "net_run",
    "ARENA_SIZE",
    "NET_ARENA_SIZE",
    "NET_OK",
    "NET_ERR_NULL",
    "OK",
    "assert_int_is_32_bits",
    "0",
)


def hostile_model() -> onnx.ModelProto:
    """A chain of Add over every hostile name, each an input, a node, a constant and a tensor of its own."""
    nodes, previous = [], "*/ input"
    constants = {}
    for i, name in enumerate(HOSTILE):
        constant, result = f"{name} constant", f"{name} {i}" if i < len(HOSTILE) - 1 else "*/ output"
        constants[constant] = random(4, seed=i)
        nodes.append(helper.make_node("Add", [previous, constant], [result], name=name))
        nodes.append(helper.make_node("Tanh", [result], [f"{result} t"], name=f"{name} tanh"))
        previous = f"{result} t"
    inputs: dict[str, tuple[Any, ...]] = {"*/ input": (4,), **dict.fromkeys(HOSTILE, (4,))}
    for name in HOSTILE:
        nodes.append(helper.make_node("Add", [previous, name], [f"{previous}+"], name=f"{name} again"))
        previous += "+"
    outputs: dict[str, tuple[Any, ...]] = {previous: (4,), "*/ output": (4,)}
    return made(nodes, inputs, outputs, constants)


@pytest.mark.parametrize(("api", "name"), [*((api, "net") for api in APIS), ("direct", "NET")])
def test_hostile_names(api: str, name: str, tmp_path: Path) -> None:
    """They compile without a warning, stay out of the code, and come back exactly in the manifest."""
    model = hostile_model()
    found = ingot.compile(model, name=name, api=api, target="c99", emit=("c", "obj", "main", "weights-bin"))
    write(tmp_path, found.files)
    for kind in COMPILERS:
        for file in (n for n in found.files if n.endswith(".c")):
            compile_c(kind, tmp_path, file, "-std=c99", *STRICT, "-Wno-unknown-warning-option", "-trigraphs")
    run(["gcc", *STRICT, "-xc++", "-std=c++98", "-fsyntax-only", f"{name}.h"], tmp_path)
    text = b"".join(found.files[n] for n in found.files if n.endswith((".c", ".h", "Makefile")))
    bare = re.sub(rb"/\*.*?\*/", b"", text, flags=re.S)
    assert b"/etc" not in bare and b"%n" not in bare and text.isascii()
    inputs = {n: np.full(4, 0.25, np.float32) for n in ("*/ input", *HOSTILE)}
    assert [t["name"] for t in found.manifest["inputs"]] == list(inputs)
    answer = found.run(inputs)
    assert list(answer) == [o.name for o in model.graph.output]
    assert all(np.isfinite(a).all() for a in answer.values())
    macros = re.findall(r"#define (\w+)", found.files[f"{name}.h"].decode())
    assert len(macros) == len(set(macros))


def test_names_that_differ_in_case_or_punctuation_stay_apart(tmp_path: Path) -> None:
    names = ["x", "X", "x:0", "x_0", "x.0", "x_COUNT", "X_COUNT", "x_2", "NET_X_COUNT"]
    nodes = [helper.make_node("Neg", [n], [f"{n}'"]) for n in names]
    model = made(nodes, dict.fromkeys(names, (2,)), {f"{n}'": (2,) for n in names}, {})
    found = ingot.compile(model, name="net", api="static", target="c99", emit=("c", "obj", "weights-bin"))
    write(tmp_path, found.files)
    compile_c("gcc", tmp_path, "net.c", "-std=c99", *STRICT)
    symbols = [t["symbol"] for t in (*found.manifest["inputs"], *found.manifest["outputs"])]
    assert len(set(symbols)) == len(symbols)
    answer = found.run({n: np.array([i, -i], np.float32) for i, n in enumerate(names)})
    for i, n in enumerate(names):
        np.testing.assert_array_equal(answer[f"{n}'"], [-i, i])


@pytest.mark.parametrize(
    "wanted", ["int", "exp", "main", "2-stage net", "a b", "", "größe", "class", "printf", "__x"]
)
def test_bad_bundle_names_become_good_ones(wanted: str, tmp_path: Path) -> None:
    found = ingot.compile(small(), name=wanted, target="c99", emit=("c", "main"))
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", found.name) and found.name != wanted
    write(tmp_path, found.files)
    assert run(["make", "-s", "run"], tmp_path).endswith("OK\n")
    np.testing.assert_allclose(found.run({"image": image()})["scores"], scores(), atol=1e-6)


def test_rename_gives_tensors_the_names_asked_for() -> None:
    model = small("gpu_0/data", "soft:max")
    options = dict(name="net", api="static", target="c99", emit=("c", "obj", "weights-bin"))
    plain = ingot.compile(model, **options).files["net.h"].decode()
    assert "#define NET_gpu_0_data 0\n" in plain and "#define NET_soft_max 192\n" in plain
    found = ingot.compile(model, rename={"soft:max": "softmax__1", "gpu_0/data": "data_"}, **options)
    header = found.files["net.h"].decode()
    assert "#define NET_data_ 0\n" in header and "#define NET_softmax__1 192\n" in header
    np.testing.assert_allclose(found.run({"gpu_0/data": image()})["soft:max"], scores(), atol=1e-6)


@pytest.mark.parametrize(
    ("rename", "words"),
    [
        ({"nothing": "x"}, "cannot rename"),
        ({"image": "int"}, "not a free C identifier"),
        ({"image": "a b"}, "not a free C identifier"),
        ({"image": "NET_OK"}, "not a free C identifier"),
        ({"image": "MEM_ALIGN"}, "not a free C identifier"),
        ({"image": "same", "scores": "same"}, "not a free C identifier"),
    ],
)
def test_bad_renames_are_refused(rename: dict[str, str], words: str) -> None:
    with pytest.raises(ingot.InputError, match=words):
        ingot.compile(small(), name="net", api="static", target="c99", rename=rename)


# ---- run-time extents


@pytest.mark.parametrize(
    "dimension", ["N", "n", "m", "w", "int", "acc", "x", "n+1 */ #include", "batch size"]
)
def test_extents_of_any_name(dimension: str, tmp_path: Path) -> None:
    """A dimension may be called like a loop variable, a keyword, a tensor or an attack."""
    options: dict[str, Any] = dict(name="net", define={dimension: (1, 8)}, target="c99")
    found = ingot.compile(dynamic(dimension), emit=("c", "obj", "main"), **options)
    assert [p["name"] for p in found.manifest["params"]] == [dimension]
    write(tmp_path, found.files)
    for name in ("net.c", "net_main.c"):
        compile_c("gcc", tmp_path, name, "-std=c99", *STRICT)
    assert run(["make", "-s", "run"], tmp_path).endswith("OK\n")
    for n in (1, 5, 8):
        x = random(n, 4)
        np.testing.assert_allclose(found.run({"x": x})["y"], np.tanh(x @ random(4, 3)), atol=1e-6)
    for n in (0, 9):
        with pytest.raises(ingot.InputError, match="ERR_CAPACITY"):
            found.run({"x": random(n, 4)})
    with pytest.raises(ingot.InputError, match="define="):
        ingot.compile(dynamic(dimension), api="static", **options)


def dynamic(dimension: str) -> onnx.ModelProto:
    """y[N, 3] = tanh(x[N, 4] w)."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"], name="mm"), helper.make_node("Tanh", ["z"], ["y"])]
    return made(nodes, {"x": (dimension, 4)}, {"y": (dimension, 3)}, {"w": random(4, 3)})


def test_helpers_need_no_macros_of_stdint() -> None:
    """The kernel has no INT32_MAX."""
    for source, to in itertools.product(
        ("float32", "float64"), ("int8", "uint16", "int32", "uint32", "int64")
    ):
        assert "INT" not in emitted(("to", source, to), native())
    assert "INT" not in emitted(("abs", "float32", "4"), native())
