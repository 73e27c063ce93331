"""The kinds of packages, as data: what the bundle is asked for, and where its files go.

`{name}` stands for the bundle's name. What a package has beside the bundle's files are templates in a
folder.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass, replace

from ingot.options import Emit


@dataclass(frozen=True, slots=True)
class Kind:
    """One ecosystem.

    `target` is what is compiled for where the user names nothing; `formats` are the objects that can be in
    it. `sources` is where the bundle's files go, `example` where its program with golden values does.
    `machine`: the build is told the processor; else the ecosystem knows it. `assembly`: constants of more
    than 4 MB, which the assembler takes from a file, are found. `plain`: numbers of fixed shapes. `first`
    stands before the C, where nobody can pass flags; the compiler's level is put in. `taken` are names of the
    language's own libraries, which would be found in place of the package.
    """

    name: str
    templates: str
    emit: tuple[Emit, ...] = ("c", "main")
    target: str = "native"
    formats: tuple[str, ...] = ("elf", "coff", "macho")
    sources: str = "src/"
    example: str = "examples/{name}_main.c"
    machine: bool = True
    assembly: bool = True
    plain: bool = False
    first: str = ""
    taken: Collection[str] = ()


PORTABLE = "c99"
RUST = ("alloc", "core", "proc_macro", "std", "test")
PYTHON = (*sys.stdlib_module_names, "numpy")
NODE = (
    *("assert", "buffer", "cluster", "console", "constants", "crypto", "dgram", "dns", "domain", "events"),
    *("fs", "http", "http2", "https", "inspector", "module", "net", "os", "path", "process", "punycode"),
    *("querystring", "readline", "repl", "stream", "sys", "timers", "tls", "tty", "url", "util", "v8", "vm"),
    *("wasi", "zlib"),
)
FLAGS_IN_C = '#pragma GCC optimize("{level}", "no-strict-aliasing")\n'


def _board(name: str, example: str, first: str = "") -> Kind:
    """Of an ecosystem of microcontrollers, which has flags for its boards."""
    return Kind(name, name, target=PORTABLE, example=example, machine=False, assembly=False, first=first)


KINDS = {
    kind.name: kind
    for kind in (
        Kind("cmake", "cmake"),
        Kind("make", "make"),
        Kind("pkg-config", "make"),
        Kind("cargo", "cargo", emit=("c",), sources="c/", plain=True, taken=RUST),
        Kind(
            "python",
            "python",
            emit=("shared",),
            formats=("elf",),
            sources="{name}/",
            plain=True,
            taken=PYTHON,
        ),
        Kind(
            "wasm",
            "npm",
            emit=("module",),
            target="wasm32-simd128",
            formats=("wasm",),
            sources="",
            plain=True,
            taken=NODE,
        ),
        _board("arduino", "examples/{name}_example/{name}_golden.h", FLAGS_IN_C),
        _board("platformio", "examples/golden/src/{name}_main.c"),
        _board("zephyr", "samples/{name}/src/{name}_main.c"),
        _board("esp-idf", "examples/basic/main/{name}_golden.h"),
        _board("cmsis-pack", "examples/{name}_main.c", FLAGS_IN_C),
        replace(_board("micropython", "", FLAGS_IN_C), emit=("c",), plain=True),
    )
}
