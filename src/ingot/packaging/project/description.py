"""One description of a bundle, from which every package's templates are filled.

In: a bundle, its target, golden values. Out: words by the names that stand as `@{word}` in templates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from ingot.bundle.bundle import Bundle
from ingot.emit.main import NEEDED
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.loops.priority import PRIORITIES
from ingot.packaging.project.interface import interface
from ingot.packaging.project.kinds import Kind
from ingot.packaging.project.micropython import micropython_words
from ingot.packaging.project.rust import rust_words
from ingot.targets.record import Target

VERSION = "1.0.0"
RELEASED = date(2026, 1, 1)  # the same bytes whenever it is made
MAIN_STACK = 4096  # bytes that an operating system's main thread needs beside a network
PLATFORMS = {
    "x86_64": "manylinux2014_x86_64",
    "i386": "manylinux2014_i686",
    "aarch64": "manylinux2014_aarch64",
    "armv7a": "manylinux2014_armv7l",
    "powerpc64le": "manylinux2014_ppc64le",
    "s390x": "manylinux2014_s390x",
    "riscv64": "manylinux_2_39_riscv64",
    "loongarch64": "manylinux_2_38_loongarch64",
}
"""What wheels call a processor, by the beginning of its triple."""


@dataclass(frozen=True, slots=True)
class Golden:
    """One run: arrays by the model's names."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


FASTEST = PRIORITIES["speed"].level


def level_of(bundle: Bundle) -> str:
    """What the C compiler is told to optimise; the templates say FASTEST, before what flags say."""
    return PRIORITIES[bundle.manifest["options"]["optimize"]].level


def described(bundle: Bundle, target: Target, kind: Kind, golden: Golden) -> dict[str, str]:
    """The words of the templates."""
    m, name = bundle.manifest, bundle.name
    sizes, sources = m["sizes"], sorted(f for f in bundle.files if re.match(rf"{name}(_weights)?\.[cS]$", f))
    level = level_of(bundle)
    flags = [
        *([level] if level != FASTEST else []),
        *NEEDED,
        *(target.gcc[1:] if kind.machine and target.gcc else ()),
    ]
    assembly = [f for f in sources if f.endswith(".S")]
    words = {
        "name": name,
        "upper": name.upper(),
        "dashed": name.replace("_", "-").lower(),
        "version": VERSION,
        "major": VERSION.partition(".")[0],
        "date": RELEASED.isoformat(),
        "author": "Ingot",
        "url": "https://example.org",
        "summary": f"The neural network {name}, compiled by Ingot for {target.name}.",
        "platform": PLATFORMS.get(target.triple.partition("-")[0], ""),
        "flash_bytes": str(sizes["flash_bytes"]),
        "arena_bytes": str(sizes["arena_bytes"]),
        "main_stack": str(-(-((sizes["stack_bytes"] or 0) + MAIN_STACK) // 1024) * 1024),
        "languages": " ASM" if assembly else "",
        "sources_in_src": " ".join(f"src/{f}" for f in sources),
        "sources_in_src_quoted": " ".join(f'"src/{f}"' for f in sources),
        "sources_quoted": ", ".join(f'"{f}"' for f in sources),
        "assembly_options": _assembly_options(assembly),
        "objects": " ".join(f"{f.rpartition('.')[0]}.o" for f in sources),
        "flags": " ".join(flags),
        "flags_semicolon": ";".join(flags),
        "flags_json": ", ".join(json.dumps(f) for f in flags),
        "flags_quoted": ", ".join(f'"{f}"' for f in flags),
        "pdsc_sources": "\n".join(f'        <file category="sourceC" name="src/{f}"/>' for f in sources),
        "python_usage": ", ".join(f'"{t["name"]}": array' for t in m["inputs"]),
        "js_usage": ", ".join(f"{json.dumps(t['name'])}: array" for t in m["inputs"]),
        "interface": interface(bundle),
    }
    if not kind.plain:
        return words
    return words | rust_words(m, golden.inputs, golden.outputs) | micropython_words(m)


def _assembly_options(files: Sequence[str]) -> str:
    if not files:
        return ""
    options = 'COMPILE_OPTIONS "-Wa,-I${CMAKE_CURRENT_SOURCE_DIR}/src"'
    return f"set_source_files_properties({' '.join(f'src/{f}' for f in files)} PROPERTIES {options})"


def require_plain(manifest: Mapping[str, Any], kind: str) -> None:
    """Numbers of fixed shapes, where a language wants types. Raises InputError."""
    if manifest["params"] or manifest["measured"]:
        names = ", ".join(p["name"] for p in (*manifest["params"], *manifest["measured"]))
        raise InputError(
            f"--package {kind} has fixed shapes, but {names} varies", remedy="--define one value"
        )
    odd = [
        t
        for t in (*manifest["inputs"], *manifest["outputs"])
        if "packed_bits" in t or t["dtype"][:6] == "string"
    ]
    if odd:
        raise InputError(
            f"--package {kind} takes and gives numbers of whole bytes; {odd[0]['name']} is {odd[0]['dtype']}",
            remedy="use --package cmake or make",
        )
