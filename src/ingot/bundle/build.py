"""Compiling a bundle: the texts of its units, the one object they make, libraries of it, and which files are
kept.

In: units about to be printed. Out: bytes by file name. Called by `write` and `variants`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ingot.audit.stack import stack_usage
from ingot.bundle.binding import capacity
from ingot.emit.board import board_files
from ingot.emit.conventions import CONVENTIONS, public
from ingot.emit.header import header
from ingot.emit.module import declarations, script
from ingot.emit.regions import linker_script, memory_source
from ingot.emit.source import source
from ingot.emit.unit import Unit
from ingot.emit.weights import assembly, image, in_assembly, weights_file, weights_source, weights_text
from ingot.options import Emit, Options, Relocation
from ingot.targets.toolchain import archive, compile_c, link_shared, link_wasm, relocatable

Files = Mapping[str, bytes]
SHOWN, HIDDEN = "-fvisibility=default", "-fvisibility=hidden"


def sources(unit: Unit) -> dict[str, bytes]:
    """Everything that is text before a compiler has run, and the weights as bytes."""
    name = unit.name
    files = {f"{name}.h": header(unit, None).encode(), f"{name}.c": source(unit).encode(), **weights_of(unit)}
    if unit.plan.regions:
        files[f"{name}_memory.c"] = memory_source(unit).encode()
    if unit.plan.regions or unit.flash:
        files[f"{name}.ld"] = linker_script(unit).encode()
    return files


def weights_of(unit: Unit) -> dict[str, bytes]:
    """The constants: as bytes, and as what defines them unless the caller brings them."""
    files = {f"{unit.name}.weights.bin": image(unit)} if unit.has_weights else {}
    weights = weights_file(unit)
    return files | ({weights: weights_source(unit).encode()} if weights else {})


def texts_of(units: Sequence[Unit], files: Files, options: Options) -> dict[str, bytes]:
    """The constants as text, where that is asked for."""
    asked = [u for u in units if u.has_weights and "weights-txt" in options.emit]
    return {f"{u.name}.weights.txt": weights_text(files[f"{u.name}.weights.bin"]) for u in asked}


def compiled_parts(units: Sequence[Unit], name: str, files: Files, options: Options) -> bytes:
    """The object of a group: its file of C, and the constants of each network."""
    target, embedded = units[0].target, [u for u in units if weights_file(u)]
    texts = {n: data for n, data in files.items() if n.endswith(".h") or n == f"{name}.c"}
    data = {u.name: {f"{u.name}.weights.bin": files[f"{u.name}.weights.bin"]} for u in embedded}
    parts: dict[str, Files] = {f"{name}.c": texts}
    if target.joins:
        parts |= {
            f"{u.name}_weights.S": {f"{u.name}_weights.S": assembly(u).encode(), **data[u.name]}
            for u in embedded
        }
    elif embedded:
        whole = "\n".join([f'#include "{name}.c"', *map(in_assembly, embedded)])
        held = {n: content for some in data.values() for n, content in some.items()}
        parts = {f"{name}_unit.c": {**texts, f"{name}_unit.c": whole.encode(), **held}}
    return _joined(parts, units[0], options, options.relocation)


def object_of(unit: Unit, files: Mapping[str, bytes], options: Options, *more: str) -> bytes:
    """The code, with its weights unless the caller brings them; `more` flags for a build of another kind.

    The weights come from their bytes: the same as from C text, which takes a compiler seconds per megabyte.
    """
    name, data = unit.name, f"{unit.name}.weights.bin"
    parts: dict[str, Files] = {f"{name}.c": {n: files[n] for n in (f"{name}.c", f"{name}.h")}}
    if weights_file(unit) and unit.target.joins:
        parts[f"{name}_weights.S"] = {f"{name}_weights.S": assembly(unit).encode(), data: files[data]}
    elif weights_file(unit):
        whole = f'#include "{name}.c"\n{in_assembly(unit)}'
        parts = {
            f"{name}_unit.c": {**parts[f"{name}.c"], f"{name}_unit.c": whole.encode(), data: files[data]}
        }
    return _joined(parts, unit, options, "pic" if more else options.relocation, *more)


def _joined(
    parts: Mapping[str, Files], unit: Unit, options: Options, relocation: Relocation | None, *more: str
) -> bytes:
    """One object of several files, each of which is compiled with what lies beside it."""
    objects = [
        compile_c(
            part,
            unit.target,
            name=main,
            cc=options.cc,
            optimize=unit.priority.level,
            flags=(*options.cflags, *more),
            relocation=relocation,
        )
        for main, part in parts.items()
    ]
    return objects[0] if len(objects) == 1 else relocatable(objects, options.cc)


def stack_of(unit: Unit, code: bytes) -> int | None:
    """The deepest of the public functions; None where one is not known."""
    usage = stack_usage(code)
    names = [e.format(name=unit.name) for e in CONVENTIONS[unit.api].entries]
    names += [f"{unit.name}_selftest"] if unit.selftest else []
    if not usage.frames.keys() >= set(names):  # WebAssembly's is no memory of the program
        return None
    if unit.has_tasks:  # the caller's own `parallel_for` comes on top of what is counted here
        tasks = [usage.bytes(f) for f in usage.frames if re.search(r"_task\d+$", f)]
        if None in tasks:
            return None
        usage = stack_usage(code, indirect=max(t for t in tasks if t is not None))
        usage = stack_usage(code, indirect=usage.bytes(f"{unit.name}_serial"))
    depths = [usage.bytes(n) for n in names]
    return None if None in depths else max(d for d in depths if d is not None)


def build(face: Unit, units: Sequence[Unit], files: Files, options: Options, shared: bool = False) -> bytes:
    """The object of the whole bundle; for a shared library only what the user calls is visible."""
    if list(units) == [face]:
        return object_of(face, files, options, *([SHOWN] if shared else []))
    name = f"{face.name}.c"
    entry = compile_c(
        {n: files[n] for n in (name, f"{face.name}.h")},
        face.target,
        name=name,
        cc=options.cc,
        flags=(*options.cflags, *([SHOWN] if shared else [])),
        relocation="pic" if shared else options.relocation,
    )
    parts = [object_of(u, files, options, *([HIDDEN] if shared else [])) for u in units]
    return relocatable([entry, *parts], options.cc)


def libraries(
    face: Unit, units: Sequence[Unit], files: Files, options: Options, shown: Mapping[str, Any]
) -> dict[str, bytes]:
    """What is made of the object, and the weights as text; `shown` is the manifest."""
    name, made = face.name, {}
    if "lib" in options.emit:
        made[f"lib{name}.a"] = archive({f"{name}.o": files[f"{name}.o"]})
    if "shared" in options.emit:
        made[f"lib{name}.so"] = link_shared([build(face, units, files, options, shared=True)], [])
    if "module" in options.emit:
        made |= _module(face, files[f"{name}.o"], shown)
    keep = wanted(face, units, options.emit)
    for u in units:
        if u.has_weights and f"{u.name}.weights.txt" in keep:
            made[f"{u.name}.weights.txt"] = weights_text(files[f"{u.name}.weights.bin"])
    return made


def _module(face: Unit, code: bytes, shown: Mapping[str, Any]) -> dict[str, bytes]:
    """What Node and browsers load."""
    name = face.name
    return {
        f"{name}.wasm": link_wasm([code], public(face)),
        f"{name}.mjs": script(shown, capacity(shown)).encode(),
        f"{name}.d.mts": declarations(shown).encode(),
    }


def wanted(face: Unit, units: Sequence[Unit], emit: tuple[Emit, ...]) -> set[str]:
    """The names of the files of each kind; a header goes with every kind that is code."""
    name = face.name
    texts = {f"{name}.c", *(f for u in units for f in _texts(u))}
    if list(units) != [face]:
        texts |= {f"{u.name}.h" for u in units}
    kinds: dict[str, set[str]] = {
        "c": texts,
        "obj": {f"{name}.o"},
        "lib": {f"lib{name}.a"},
        "shared": {f"lib{name}.so"},
        "weights-bin": {f"{u.name}.weights.bin" for u in units},
        "weights-txt": {f"{u.name}.weights.txt" for u in units},
        "module": {f"{name}.wasm", f"{name}.mjs", f"{name}.d.mts"},
        "main": {
            *(f"{name}_main.c", "Makefile", *board_files(face)),
            *([f"{name}.weights.txt"] if face.external else []),
        },
    }
    if "main" in emit and "obj" not in emit:  # variants need flags of their own each: link their object
        kinds["main"] |= texts if list(units) == [face] else kinds["obj"]
    found = set().union(*(kinds[e] for e in emit))
    if set(emit) & {"c", "obj", "lib", "shared", "main"}:
        found |= {f"{name}.h", *_regional(face)}
    return found


def _regional(face: Unit) -> set[str]:
    """What places the memory of a bundle in regions."""
    found = {f"{face.name}_memory.c"} if face.plan.regions else set()
    return found | ({f"{face.name}.ld"} if face.plan.regions or face.flash else set())


def _texts(unit: Unit) -> set[str]:
    """The C of a unit, and what it cannot be compiled without."""
    weights = weights_file(unit)
    found = {f"{unit.name}.c", *([weights] if weights else [])}
    return found | ({f"{unit.name}.weights.bin"} if weights and weights.endswith(".S") else set())
