"""Every kind of package: what is in it, and that it builds, runs and answers as it should."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
import yaml

from ingot.driver import compile_with
from ingot.errors import InputError
from ingot.formula.types import dtype_named
from ingot.options import Options
from ingot.options import Package as PackageName
from ingot.packaging.project import KINDS, project
from tests.here import require_program
from tests.packages.models import MODELS, model, package

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-fno-strict-aliasing", "-ffp-contract=off")
ALL = os.environ.get("INGOT_PACKAGES") == "1"
"""Whether tools are installed that take minutes or the network: `make packages`."""


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    require_program(str(command[0]))
    env = {**os.environ, **environment}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def require_right(answer: str) -> None:
    assert answer.rstrip().endswith("OK"), answer


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_it(kind: str, tmp_path: Path) -> None:
    made = package(kind, "floats", tmp_path / "p")
    assert set(made.files) == {
        str(p.relative_to(tmp_path / "p")) for p in (tmp_path / "p").rglob("*") if p.is_file()
    }
    assert {"README.md", "LICENSE"} <= made.files.keys() and made.manifest["package"] == kind
    for name, content in made.files.items():
        assert b"@{" not in content and "NAME" not in name, name
    readme = made.files["README.md"].decode()
    assert "image" in readme and "1x2x6x6" in readme and "scores" in readme
    again = project(model("floats"), Options(name="floats_net"), compile_with, kind)
    assert again.files == made.files


@pytest.mark.parametrize("name", [*MODELS, "quantised", "texts"])
def test_the_call_in_a_readme_compiles(name: str, tmp_path: Path) -> None:
    made = package("make", name, tmp_path / "p", target="c99")
    readme = made.files["README.md"].decode()
    before, _, call = readme.split("```c\n")[2].split("```")[0].rpartition("\n\n")
    (tmp_path / "use.c").write_text(f"{before}\nint main(void) {{ {call.strip()} return 0; }}\n")
    sources = [f"p/{n}" for n in made.files if n.startswith("src/") and n.endswith(".c")]
    run(["gcc", *STRICT, "-Ip/src", "use.c", *sources, "-o", "m"], tmp_path)
    run([tmp_path / "m"], tmp_path)
    assert ("value = (integer - 3) * 0.25" in readme) == (name == "quantised")


@pytest.mark.parametrize(("kind", "name"), [("cargo", "std"), ("python", "json"), ("wasm", "net")])
def test_no_package_hides_a_library_of_its_language(kind: str, name: str) -> None:
    with pytest.raises(InputError, match=f"--package {kind}: {name} is the name of a library"):
        project(model("floats"), Options(name=name), compile_with, kind)
    assert project(model("floats"), Options(name=name), compile_with, "make")


def test_the_command_line_knows_the_kinds() -> None:
    assert set(get_args(PackageName)) == {*KINDS, "kbuild"}


@pytest.mark.parametrize(("name", "shared"), [("floats", "ON"), ("mixed", "OFF"), ("state", "ON")])
def test_cmake(name: str, shared: str, tmp_path: Path) -> None:
    """Built, installed elsewhere, found from a scratch project."""
    package("cmake", name, tmp_path / "p")
    found = f"{name}_net"
    run(["cmake", "-S", "p", "-B", "b", f"-DBUILD_SHARED_LIBS={shared}"], tmp_path)
    run(["cmake", "--build", "b"], tmp_path)
    require_right(run([tmp_path / "b" / f"{found}_example"], tmp_path))
    run(["cmake", "--install", "b", "--prefix", str(tmp_path / "i")], tmp_path)
    scratch = tmp_path / "s"
    scratch.mkdir()
    text = f"cmake_minimum_required(VERSION 3.16)\nproject(s C)\nfind_package({found} 1.0 REQUIRED)\n"
    text += (
        f"add_executable(s ../p/examples/{found}_main.c)\ntarget_link_libraries(s PRIVATE {found}::{found})\n"
    )
    (scratch / "CMakeLists.txt").write_text(text)
    run(["cmake", "-S", ".", "-B", "b", f"-DCMAKE_PREFIX_PATH={tmp_path / 'i'}"], scratch)
    run(["cmake", "--build", "b"], scratch)
    require_right(run([scratch / "b" / "s"], scratch))
    where = next((tmp_path / "i").rglob("*.pc")).parent
    flags = run(["pkg-config", "--cflags", "--libs", found], tmp_path, PKG_CONFIG_PATH=str(where)).split()
    assert Path(flags[0][2:]).resolve() == (tmp_path / "i" / "include").resolve()


@pytest.mark.parametrize("name", MODELS)
def test_make_and_pkg_config(name: str, tmp_path: Path) -> None:
    package("pkg-config", name, tmp_path / "p")
    require_right(run(["make", "-s", "run"], tmp_path / "p"))
    run(["make", "-s", "install", f"PREFIX={tmp_path / 'i'}"], tmp_path / "p")
    where = str(tmp_path / "i" / "lib")
    asked = ["pkg-config", "--cflags", "--libs", f"{name}_net"]
    flags = run(asked, tmp_path, PKG_CONFIG_PATH=f"{where}/pkgconfig").split()
    run(["gcc", f"p/examples/{name}_net_main.c", *flags, "-o", "m"], tmp_path)
    require_right(run([tmp_path / "m"], tmp_path, LD_LIBRARY_PATH=where))
    assert "so.1" in run(["readelf", "-d", "m"], tmp_path)


@pytest.mark.parametrize("name", MODELS)
def test_cargo(name: str, tmp_path: Path) -> None:
    package("cargo", name, tmp_path / "p")
    offline = ["cargo", "run", "--offline", "--quiet", "--example", "golden"]
    require_right(run(offline, tmp_path / "p", RUSTFLAGS="-D warnings"))


@pytest.mark.parametrize("name", MODELS)
def test_python(name: str, tmp_path: Path) -> None:
    """As it lies there; with `make packages` as a wheel in an environment of its own."""
    package("python", name, tmp_path / "p")
    require_right(run([sys.executable, "-m", f"{name}_net"], tmp_path / "p"))
    if ALL:
        run([sys.executable, "-m", "venv", "v"], tmp_path)
        run([tmp_path / "v" / "bin" / "pip", "install", "--quiet", "./p"], tmp_path)
        require_right(run([tmp_path / "v" / "bin" / "python", "-m", f"{name}_net"], tmp_path / "v"))


@pytest.mark.parametrize("name", MODELS)
def test_wasm(name: str, tmp_path: Path) -> None:
    """As it lies there, and installed as a package of another project."""
    package("wasm", name, tmp_path / "p")
    require_right(run(["node", "example.mjs"], tmp_path / "p"))
    (tmp_path / "package.json").write_text("{}")
    run(["npm", "install", "--offline", "--no-audit", "./p"], tmp_path)
    text = (
        f'import {{ load, inputs }} from "{name}-net"; await load(); console.log(inputs.length ? "OK" : "");'
    )
    (tmp_path / "use.mjs").write_text(text)
    require_right(run(["node", "use.mjs"], tmp_path))
    if ALL:
        assert "All good" in run(["npx", "-y", "publint", "p"], tmp_path)


ARDUINO = """
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
static struct {
    void begin(long) {}
    void print(const char *text) { fputs(text, stdout); }
    void print(unsigned long n) { printf("%lu", n); }
    void println(const char *text) { puts(text); }
} Serial;
static unsigned long micros() { return 1; }
static void delay(int) {}
"""


@pytest.mark.parametrize("name", MODELS)
def test_arduino(name: str, tmp_path: Path) -> None:
    """The sketch as C++ behind a stand-in for the board's library; the properties that its rules ask for."""
    made = package("arduino", name, tmp_path / "p")
    found, here = f"{name}_net", tmp_path / "p" / "examples" / f"{name}_net_example"
    rows = dict(line.split("=", 1) for line in made.files["library.properties"].decode().splitlines())
    asked = ["name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url"]
    asked += ["architectures", "includes"]
    assert list(rows) == asked and all(rows.values()) and re.fullmatch(r"[\w .-]{1,63}", rows["name"])
    assert rows["category"] == "Data Processing" and (tmp_path / "p" / "src" / rows["includes"]).exists()
    sketch = (
        ARDUINO
        + (here / f"{found}_example.ino").read_text()
        + "\nint main() { setup(); loop(); return 0; }\n"
    )
    (tmp_path / "sketch.cpp").write_text(sketch)
    sources = [p for p in (tmp_path / "p" / "src").iterdir() if p.suffix == ".c"]
    flags = ["-O2", "-Wall", "-Werror", f"-I{tmp_path / 'p' / 'src'}", f"-I{here}"]
    for source in (*sources, here / f"{found}_check.c"):
        run(["gcc", *flags, "-c", source], tmp_path)
    run(["g++", *flags, "sketch.cpp", *sorted(str(p) for p in tmp_path.glob("*.o")), "-o", "m"], tmp_path)
    answer = run([tmp_path / "m"], tmp_path)
    assert "right, two inferences" in answer and "0 of " in answer


MICROPYTHON = {
    "py/runtime.h": """
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef struct { size_t len; void *buf; } mp_buffer_info_t;
typedef mp_buffer_info_t *mp_obj_t;
typedef struct { const char *key; const void *value; } mp_rom_map_elem_t;
typedef struct { const mp_rom_map_elem_t *table; } mp_obj_dict_t;
typedef struct { struct { const void *type; } base; mp_obj_dict_t *globals; } mp_obj_module_t;
static const int mp_type_ValueError, mp_type_module;
enum { MP_BUFFER_READ, MP_BUFFER_WRITE };
#define mp_const_none NULL
#define MP_ERROR_TEXT(text) text
#define mp_raise_msg_varg(type, ...) ((void)(type), fprintf(stderr, __VA_ARGS__), exit(9))
#define MP_DEFINE_CONST_FUN_OBJ_0(name, f) mp_obj_t (*const name)(void) = f
#define MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(name, lo, hi, f) \\
    mp_obj_t (*const name)(size_t, const mp_obj_t *) = f
#define MP_ROM_QSTR(name) #name
#define MP_ROM_PTR(p) p
#define MP_DEFINE_CONST_DICT(name, rows) const mp_obj_dict_t name = {rows}
#define MP_REGISTER_MODULE(name, module) extern const mp_obj_module_t module
static inline void mp_get_buffer_raise(mp_obj_t given, mp_buffer_info_t *buffer, unsigned flags)
{
    (void)flags;
    *buffer = *given;
}
"""
}


@pytest.mark.parametrize("name", MODELS)
def test_micropython(name: str, tmp_path: Path) -> None:
    """The module as C behind a stand-in for MicroPython's objects, called with the golden values."""
    made = package("micropython", name, tmp_path / "p")
    for path, text in MICROPYTHON.items():
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    ins, outs = made.manifest["inputs"], made.manifest["outputs"]
    sizes = [_bytes(tensor) for tensor in (*ins, *outs)]
    golden, natmod = made.files["golden.bin"], made.files["natmod/Makefile"].decode()
    assert all(file in natmod for file in made.files if file.endswith(".c"))
    assert len(golden) == sum(sizes)
    (tmp_path / "main.c").write_text(_caller(f"{name}_net", sizes, len(ins)))
    sources = sorted((tmp_path / "p" / "src").glob("*.c"))
    flags = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-Wdouble-promotion", "-Wfloat-conversion", "-Os"]
    run(["gcc", *flags, "-I.", "-Ip", "-Ip/src", "main.c", *sources, "-o", "m"], tmp_path)
    found = subprocess.run([tmp_path / "m"], cwd=tmp_path, capture_output=True, check=True).stdout
    at = sum(sizes[: len(ins)])
    for tensor, size in zip(outs, sizes[len(ins) :], strict=True):
        got, right = (
            np.frombuffer(data[:size], dtype_named(tensor["dtype"]).numpy) for data in (found, golden[at:])
        )
        np.testing.assert_allclose(got, right, rtol=1e-5)
        found, at = found[size:], at + size
    compile((tmp_path / "p" / "example.py").read_text(), "example.py", "exec")
    wrong = subprocess.run([tmp_path / "m", "short"], cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode == 9 and "bytes, not 1" in wrong.stderr


def _bytes(tensor: Mapping[str, Any]) -> int:
    return dtype_named(tensor["dtype"]).bytes * math.prod(tensor["shape"])


def _caller(name: str, sizes: Sequence[int], inputs: int) -> str:
    """A program that runs the module on golden.bin and writes the outputs; `short` cuts an input."""
    rows = ", ".join(f"{{{n}, malloc({n})}}" for n in sizes)
    return f"""#include "{name}_module.c"
int main(int argc, char **argv)
{{
    mp_buffer_info_t all[] = {{{rows}}};
    mp_obj_t given[{len(sizes)}];
    FILE *file = fopen("p/golden.bin", "rb");
    for (int i = 0; i < {len(sizes)}; i++) given[i] = &all[i];
    for (int i = 0; i < {inputs}; i++)
        if (fread(all[i].buf, 1, all[i].len, file) != all[i].len) return 1;
    if (argc > 1 && argv[1][0] == 's') all[0].len = 1;
    module_run_obj({len(sizes)}, given);
    for (int i = {inputs}; i < {len(sizes)}; i++) fwrite(all[i].buf, 1, all[i].len, stdout);
    return (int)({name}_user_cmodule.globals == NULL);
}}
"""


@pytest.mark.parametrize(
    ("kind", "example"), [("platformio", "golden/src/"), ("cmsis-pack", ""), ("zephyr", "")]
)
def test_sources_and_examples_are_c(kind: str, example: str, tmp_path: Path) -> None:
    made = package(kind, "mixed", tmp_path / "p")
    mains = [n for n in made.files if n.endswith("_main.c")]
    assert len(mains) == 1 and example in mains[0]
    sources = [n for n in made.files if n.endswith(".c")]
    flags = [f for f in STRICT if kind != "cmsis-pack" or f != "-std=c99"]
    run(["gcc", *flags, "-Ip/src", *(f"p/{n}" for n in sources), "-o", "m"], tmp_path)
    require_right(run([tmp_path / "m"], tmp_path))


def test_platformio(tmp_path: Path) -> None:
    made = package("platformio", "floats", tmp_path / "p")
    library = json.loads(made.files["library.json"])
    assert library["name"] == "floats_net" and f"src/{library['headers']}" in made.files
    for example in library["examples"]:
        assert all(f"{example['base']}/{f}" in made.files for f in example["files"])


def test_cmsis_pack(tmp_path: Path) -> None:
    made = package("cmsis-pack", "floats", tmp_path / "p")
    tree = xml.fromstring(made.files["Ingot.floats_net.pdsc"])
    named = [e.attrib["name"] for e in tree.iter("file")] + [tree.findtext("license") or "?"]
    assert len(named) == 6 and set(named) <= made.files.keys()


ZEPHYR = """
cmake_minimum_required(VERSION 3.16)
project(stand_in C)
set(CONFIG_MIXED_NET y)
macro(zephyr_library_named name)
  add_library(${name} STATIC)
  set(here ${name})
endmacro()
macro(zephyr_include_directories)
  target_include_directories(${here} PUBLIC ${ARGV})
endmacro()
macro(zephyr_library_sources)
  target_sources(${here} PRIVATE ${ARGV})
endmacro()
macro(zephyr_library_compile_options)
  target_compile_options(${here} PRIVATE ${ARGV})
endmacro()
add_subdirectory(p)
add_executable(m p/samples/mixed_net/src/mixed_net_main.c)
target_link_libraries(m PRIVATE mixed_net)
"""
IDF = """
cmake_minimum_required(VERSION 3.16)
project(stand_in C)
macro(idf_component_register)
  cmake_parse_arguments(IDF "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
  set(COMPONENT_LIB mixed_net)
  add_library(mixed_net STATIC ${IDF_SRCS})
  target_include_directories(mixed_net PUBLIC ${IDF_INCLUDE_DIRS})
endmacro()
add_subdirectory(p)
add_executable(m p/examples/basic/main/main.c start.c)
target_link_libraries(m PRIVATE mixed_net)
"""


@pytest.mark.parametrize(("kind", "text"), [("zephyr", ZEPHYR), ("esp-idf", IDF)])
def test_modules_of_other_builds(kind: str, text: str, tmp_path: Path) -> None:
    """By CMake, with a stand-in for the functions of Zephyr's build and of ESP-IDF's."""
    made = package(kind, "mixed", tmp_path / "p")
    (tmp_path / "CMakeLists.txt").write_text(text)
    (tmp_path / "start.c").write_text("void app_main(void);\nint main(void) { app_main(); return 0; }\n")
    for name in ("zephyr/module.yml", "samples/mixed_net/sample.yaml", "idf_component.yml"):
        assert name not in made.files or yaml.safe_load(made.files[name])
    run(["cmake", "-S", ".", "-B", "b"], tmp_path)
    run(["cmake", "--build", "b"], tmp_path)
    require_right(run([tmp_path / "b" / "m"], tmp_path))
    if ALL and kind == "esp-idf":
        run(["compote", "manifest", "lint"], tmp_path / "p")


def test_a_target_of_the_users(tmp_path: Path) -> None:
    """C for the processor, and its flags where the build does not know them."""
    made = package("make", "floats", tmp_path / "a", target="stm32f4")
    assert "-mcpu=cortex-m4" in made.files["Makefile"].decode() and made.manifest["target"] == "armv7e-m"
    board = package("arduino", "floats", tmp_path / "b", target="stm32f4")
    assert b"-mcpu" not in b"".join(d for n, d in board.files.items() if not n.endswith((".json", ".c")))


def test_what_cannot_be_packed_is_one_error(tmp_path: Path) -> None:
    varies = onnx.parser.parse_model(f"{HEAD}g (float[N] x) => (float[N] y) {{ y = Relu (x) }}")
    for kind, options, message in (
        ("wasm", {"target": "x86-64"}, "cannot be made for x86-64"),
        ("python", {"target": "armv7e-m"}, "no wheels are made for armv7e-m"),
        ("make", {"api": "static"}, "calls the bundle itself"),
    ):
        with pytest.raises(InputError, match=message):
            package(kind, "floats", tmp_path, **options)
    with pytest.raises(InputError, match="fixed shapes, but N varies"):
        project(varies, Options(name="net", define={"N": (1, 4)}), compile_with, "cargo")
    made = project(varies, Options(name="net", define={"N": (1, 4)}), compile_with, "make")
    made.save(tmp_path / "m")
    require_right(run(["make", "-s", "run"], tmp_path / "m"))


HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'


def test_many_constants_are_for_builds_with_an_assembler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingot.emit.weights.MOST_TEXT", 0)
    with pytest.raises(InputError, match=r"compiles constants as C, and [0-9,]+ bytes are too many"):
        package("arduino", "floats", tmp_path / "a")
    package("make", "floats", tmp_path / "m")
    require_right(run(["make", "-s", "run"], tmp_path / "m"))
    package("cmake", "floats", tmp_path / "c")
    run(["cmake", "-S", "c", "-B", "b"], tmp_path)
    run(["cmake", "--build", "b"], tmp_path)
    require_right(run([tmp_path / "b" / "floats_net_example"], tmp_path))
    package("cargo", "floats", tmp_path / "r")
    require_right(run(["cargo", "run", "--offline", "--quiet", "--example", "golden"], tmp_path / "r"))
