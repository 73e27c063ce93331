"""What the README of a package says of a network: its tensors, a call in C, its costs.

In: a bundle. Out: Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ingot.bundle.bundle import Bundle

PARAMETER = re.compile(r"(?:const )?((?:struct )?\w+) \*(\w+)")
"""A pointer among the parameters: what it points to, and its name."""


def interface(bundle: Bundle) -> str:
    """How the C is called, what goes in and out, what it costs."""
    m, header = bundle.manifest, bundle.files.get(f"{bundle.name}.h", b"").decode()
    sizes = m["sizes"]
    stack = f", {sizes['stack_bytes']} of stack" if sizes["stack_bytes"] is not None else ""
    costs = [
        "",
        f"As compiled by Ingot: {sizes['flash_bytes']} bytes of code and constants, {sizes['arena_bytes']} "
        f"of RAM for the arena{stack}. Tensors are row-major. You may use all of this under 0BSD.",
    ]
    return "\n".join([*tensors(m), *_in_c(bundle.name, header, m), *costs])


def tensors(manifest: Mapping[str, Any]) -> list[str]:
    """The table of inputs and outputs, and what the integers of quantised ones stand for."""
    lines = ["## Inputs and outputs", "", "| | type | shape |", "|---|---|---|"]
    for side in ("inputs", "outputs"):
        lines += [f"| {side[:-1]} `{t['name']}` | {_type(t)} | {_shape(t)} |" for t in manifest[side]]
    return lines


def _type(t: Mapping[str, Any]) -> str:
    if t.get("scale") is None:
        return str(t["dtype"])
    zero = t["zero_point"]
    shifted = f"(integer {'-' if zero >= 0 else '+'} {abs(zero)})" if zero else "integer"
    return f"{t['dtype']}: value = {shifted} * {t['scale']:.9g}"


def _shape(t: Mapping[str, Any]) -> str:
    return "x".join(map(str, t["shape"])) or "one number"


def _in_c(name: str, header: str, manifest: Mapping[str, Any]) -> list[str]:
    """The prototypes, and a call of the network where every argument is a pointer."""
    found = re.findall(rf"^(?:int|void|unsigned|size_t|\w+) \*?{name}\w*\([^;]*;", header, re.M)
    if not found:
        return []
    lines = ["", f"In C (`{name}.h`):", "", "```c", *found, "```"]
    entry = next((f for f in found if f.startswith(f"int {name}(")), "")
    arguments = [p.strip() for p in entry.partition("(")[2].rstrip(");").replace("\n", " ").split(",")]
    pointers = [PARAMETER.fullmatch(a) for a in arguments]
    if not all(pointers):
        return lines  # extents, which only the caller can choose
    return [*lines, *_call(name, header, manifest, [(p[1], p[2]) for p in pointers if p])]


def _call(
    name: str, header: str, manifest: Mapping[str, Any], parameters: Sequence[tuple[str, str]]
) -> list[str]:
    """A program's lines that call the network with memory of their own, by the names of the prototype."""
    upper, states = name.upper(), {kind: p for kind, p in parameters if kind.startswith("struct ")}
    counts = re.findall(r"^#define (\w+_COUNT\w*) ", header, re.M)
    arrays = [
        f"static {kind} {p}[{count}]{f'[{upper}_STRING_BYTES]' if kind == 'char' else ''};"
        for (kind, p), count in zip(parameters, counts, strict=False)
    ]
    arena = parameters[-1][1] if manifest["sizes"]["arena_bytes"] else ""
    room = f"static unsigned char {arena}[{upper}_ARENA_SIZE] __attribute__((aligned({upper}_ARENA_ALIGN)));"
    given = [f"*{p}" if kind == "char" else p for kind, p in parameters[: len(arrays)]]
    passed = ", ".join([*given, *(f"&{p}" for p in states.values()), arena or "0"])
    return [
        *("", "A call:", "", "```c", f'#include "{name}.h"', ""),
        *([room] if arena else []),
        *(
            f"static {kind} {p}; /* {name}_state_init(&{p}) before the first run */"
            for kind, p in states.items()
        ),
        *arrays,
        "",
        f"if ({name}({passed}) != {upper}_OK) {{ /* an error */ }}",
        "```",
    ]
