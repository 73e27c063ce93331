"""From a planned program to the files of a bundle: C, header, weights, object, libraries, manifest.

Called by the driver, once. Everything is made in memory; `Bundle.save` writes it. The code is always
compiled, for the stack bound and the sizes come from the object; a file that `options.emit` does not ask
for is not in the bundle.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from ingot.bundle.bundle import Bundle
from ingot.bundle.golden import golden_run
from ingot.bundle.manifest import manifest
from ingot.emit.conventions import CONVENTIONS, check
from ingot.emit.header import header
from ingot.emit.main import main_source, makefile
from ingot.emit.source import source
from ingot.emit.unit import Unit
from ingot.emit.weights import assembly, image, weights_file, weights_source, weights_text
from ingot.errors import InputError
from ingot.loops.program import Program
from ingot.memory.plan import Plan
from ingot.options import Emit, Options
from ingot.targets.record import Target
from ingot.targets.stack import stack_usage
from ingot.targets.toolchain import archive, compile_c, link_shared, relocatable


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a program came from: the model file's hash, and the opsets its nodes were written in."""

    sha256: str
    opsets: Mapping[str, int]


def write(program: Program, plan: Plan, target: Target, options: Options, origin: Origin) -> Bundle:
    """Print, compile and describe."""
    check_options(options)
    external = check(options.api, options.weights, bool(program.params), options.threads)
    unit = Unit(
        program,
        plan,
        target,
        program.name,
        provenance_rows(target, options, origin),
        origin.sha256,
        api=options.api,
        external=external,
        is_threaded=options.threads,
        rename=options.rename,
    )
    name = unit.name
    everything = sources(unit)
    everything[f"{name}.o"] = object_of(unit, everything, options)
    stack = stack_of(unit, everything[f"{name}.o"])
    everything[f"{name}.h"] = header(unit, stack).encode()
    shown = manifest(unit, options, origin.opsets, everything[f"{name}.o"], stack)
    if "main" in options.emit:
        golden = golden_run(unit, Bundle(name, everything, shown))
        everything[f"{name}_main.c"] = main_source(unit, golden).encode()
        everything["Makefile"] = makefile(unit, options).encode()
    everything |= _libraries(unit, everything, options)
    wanted = _wanted(unit, options.emit)
    files = {n: data for n, data in everything.items() if n in wanted}
    shown["files"] = {n: hashlib.sha256(data).hexdigest() for n, data in sorted(files.items())}
    return Bundle(name, files, shown, everything)


def check_options(options: Options) -> None:
    unknown = [e for e in options.emit if e not in get_args(Emit)]
    if unknown:
        raise InputError(
            f"cannot emit {', '.join(map(repr, unknown))}", remedy=f"know {', '.join(get_args(Emit))}"
        )
    if options.api not in CONVENTIONS:
        raise InputError(f"unknown api {options.api!r}", remedy=f"know {', '.join(CONVENTIONS)}")


def provenance_rows(target: Target, options: Options, origin: Origin) -> tuple[str, ...]:
    from importlib.metadata import version

    opsets = ", ".join(f"{domain} {v}" for domain, v in sorted(origin.opsets.items()))
    return (
        f"Made by Ingot {version('ingot')} for {target.name}: {target.description}.",
        f"Model SHA-256 {origin.sha256}; opset {opsets or 'none'}.",
        f"Options: {', '.join(_given(options)) or 'none'}.",
        "This file belongs to you: 0BSD.",
    )


def _given(options: Options) -> list[str]:
    """The options that differ from their defaults."""
    plain = Options()
    return [
        f"{f.name}={_shown(getattr(options, f.name))}"
        for f in dataclasses.fields(options)
        if f.name not in ("name", "target", "emit") and getattr(options, f.name) != getattr(plain, f.name)
    ]


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {v}" for k, v in sorted(value.items())) + "}"
    return str(value)


def sources(unit: Unit) -> dict[str, bytes]:
    """Everything that is text before a compiler has run, and the weights as bytes."""
    name, data = unit.name, image(unit)
    files = {f"{name}.h": header(unit, None).encode(), f"{name}.c": source(unit).encode()}
    if weights := weights_file(unit):
        files[weights] = weights_source(unit).encode()
    if unit.has_weights:
        files[f"{name}.weights.bin"] = data
        files[f"{name}.weights.txt"] = b""  # printed in `_libraries`, if it is wanted at all
    return files


def object_of(unit: Unit, files: Mapping[str, bytes], options: Options, *more: str) -> bytes:
    """The code, with its weights unless the caller brings them; `more` flags for a build of another kind.

    The weights come from their bytes: the same as from C text, which takes a compiler seconds per megabyte.
    """
    name, data = unit.name, f"{unit.name}.weights.bin"
    parts = {f"{name}.c": {n: files[n] for n in (f"{name}.c", f"{name}.h")}}
    if weights_file(unit):
        parts[f"{name}_weights.S"] = {f"{name}_weights.S": assembly(unit).encode(), data: files[data]}
    objects = [
        compile_c(
            part,
            unit.target,
            name=main,
            cc=options.cc,
            flags=(*options.cflags, *more),
            relocation="pic" if more else options.relocation,
        )
        for main, part in parts.items()
    ]
    return objects[0] if len(objects) == 1 else relocatable(objects)


def stack_of(unit: Unit, code: bytes) -> int | None:
    """The deepest of the public functions; None where one is not known."""
    usage = stack_usage(code)
    if unit.has_tasks:  # the caller's own `parallel_for` comes on top of what is counted here
        tasks = [usage.bytes(f) for f in usage.frames if re.search(r"_task\d+$", f)]
        if None in tasks:
            return None
        usage = stack_usage(code, indirect=max(t for t in tasks if t is not None))
        usage = stack_usage(code, indirect=usage.bytes(f"{unit.name}_serial"))
    names = [e.format(name=unit.name) for e in CONVENTIONS[unit.api].entries]
    depths = [usage.bytes(n) for n in names]
    return None if None in depths else max(d for d in depths if d is not None)


def _libraries(unit: Unit, files: Mapping[str, bytes], options: Options) -> dict[str, bytes]:
    """What is made of the object, and the weights as text."""
    name, made = unit.name, {}
    if "lib" in options.emit:
        made[f"lib{name}.a"] = archive({f"{name}.o": files[f"{name}.o"]})
    if "shared" in options.emit:
        made[f"lib{name}.so"] = link_shared([object_of(unit, files, options, "-fvisibility=default")], [])
    if f"{name}.weights.txt" in _wanted(unit, options.emit) and unit.has_weights:
        made[f"{name}.weights.txt"] = weights_text(files[f"{name}.weights.bin"]).encode()
    return made


def _wanted(unit: Unit, emit: tuple[Emit, ...]) -> set[str]:
    """The files of each kind; a header goes with every kind that is code."""
    name, weights = unit.name, weights_file(unit)
    source_files = {f"{name}.c", *([weights] if weights else [])}
    if weights and weights.endswith(".S"):
        source_files.add(f"{name}.weights.bin")
    kinds: dict[str, set[str]] = {
        "c": source_files,
        "obj": {f"{name}.o"},
        "lib": {f"lib{name}.a"},
        "shared": {f"lib{name}.so"},
        "weights-bin": {f"{name}.weights.bin"},
        "weights-txt": {f"{name}.weights.txt"},
        "main": {f"{name}_main.c", "Makefile", *([f"{name}.weights.txt"] if unit.external else [])},
    }
    if "main" in emit and "obj" not in emit:
        kinds["main"] |= source_files
    found = set().union(*(kinds[e] for e in emit))
    return found | ({f"{name}.h"} if set(emit) & {"c", "obj", "lib", "shared", "main"} else set())
