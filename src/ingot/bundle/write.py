"""From a planned program to a bundle: print, compile, describe.

Called by the driver, once. Everything is made in memory; `Bundle.save` writes it. The code is always
compiled, for the stack bound and the sizes come from the object; a file that `options.emit` does not ask for
is not in the bundle.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

from ingot.binary.note import with_note
from ingot.binary.objects import sections
from ingot.bundle.budget import require_room
from ingot.bundle.build import build, libraries, object_of, sources, stack_of, wanted
from ingot.bundle.bundle import Bundle
from ingot.bundle.flash import in_flash
from ingot.bundle.golden import golden_run
from ingot.bundle.manifest import Origin, facts, manifest
from ingot.bundle.selftest import selftest_of
from ingot.emit.board import board_files
from ingot.emit.conventions import CONVENTIONS, check
from ingot.emit.digest import SelfTest
from ingot.emit.header import header
from ingot.emit.main import main_source, makefile
from ingot.emit.unit import Group, Unit
from ingot.emit.weights import size
from ingot.errors import InputError
from ingot.loops.priority import PRIORITIES
from ingot.loops.program import Program
from ingot.memory.plan import Plan
from ingot.options import Emit, Options
from ingot.targets.record import Target


def write(program: Program, plan: Plan, target: Target, options: Options, origin: Origin) -> Bundle:
    """The bundle of one program."""
    check_options(options)
    require_regional(target, options)
    external = check(options.api, options.weights, bool(program.params), options.threads)
    code_bytes, test = 0, golden_test(program, plan, target, options, origin)
    if options.flash:  # how much of the first region the code takes is known when it is compiled
        anywhere = unit_of(program, plan, target, replace(options, flash={}), origin, external, 0, test)
        code_bytes = sections(object_of(anywhere, sources(anywhere), options)).text
    made = unit_of(program, plan, target, options, origin, external, code_bytes, test)
    return finish(made, [made], sources(made), options, origin)


def golden_test(
    program: Program, plan: Plan, target: Target, options: Options, origin: Origin
) -> SelfTest | None:
    """What a self-test compares, where one is asked for."""
    if not options.selftest:
        return None
    plain = replace(options, selftest=False, emit=("c",), max_ram=None, max_flash=None)
    return selftest_of(program, write(program, plan, target, plain, origin))


def unit_of(
    program: Program,
    plan: Plan,
    target: Target,
    options: Options,
    origin: Origin,
    external: bool,
    code_bytes: int,
    test: SelfTest | None,
    group: Group | None = None,
) -> Unit:
    """The bundle of one program about to be printed, its constants in their regions beside so much code."""
    program, flash = in_flash(program, options.flash, code_bytes)
    return Unit(
        program,
        replace(plan, program=program),
        target,
        program.name,
        provenance_rows(target, options, origin),
        origin.sha256,
        api=options.api,
        external=external,
        is_threaded=options.threads,
        is_profiled=options.profile,
        pauses=options.pauses,
        rename=options.rename,
        scales=origin.scales,
        flash=flash,
        selftest=test,
        priority=PRIORITIES[options.optimize],
        group=group,
    )


def finish(
    face: Unit, units: Sequence[Unit], files: dict[str, bytes], options: Options, origin: Origin
) -> Bundle:
    """Compile and describe what is printed; `face` is what the user calls, `units` hold the kernels."""
    name = face.name
    options = replace(options, emit=options.emit or _default_emit(face))
    _require_kinds(face, options)
    code = build(face, units, files, options)
    stack = stack_of(face, code)
    files[f"{name}.h"] = header(face, stack).encode()
    shown = manifest(face, options, origin, code, stack)
    if len(units) > 1:
        shown["variants"] = [u.target.name for u in units]
        shown["sizes"]["weights_bytes"] = sum(map(size, units))
    require_room(face, options, shown["sizes"])
    files[f"{name}.o"] = with_note(code, json.dumps(facts(shown)))
    keep = wanted(face, units, options.emit)
    if "main" in options.emit:
        golden = golden_run(face, Bundle(name, files, shown))
        files[f"{name}_main.c"] = main_source(face, golden).encode()
        files |= {n: text.encode() for n, text in board_files(face).items()}
        files["Makefile"] = makefile(face, options, f"{name}.o" in keep).encode()
    files |= libraries(face, units, files, options, shown)
    kept = {n: data for n, data in files.items() if n in keep}
    shown["files"] = {n: hashlib.sha256(data).hexdigest() for n, data in sorted(kept.items())}
    return Bundle(name, kept, shown, files)


def _default_emit(face: Unit) -> tuple[Emit, ...]:
    """Text of the weights is for who brings them: it takes five times their bytes."""
    more: list[Emit] = ["weights-txt"] if face.external else []
    more += ["module"] if face.target.format == "wasm" and not _module_obstacle(face) else []
    return ("c", "obj", "weights-bin", *more)


def _module_obstacle(face: Unit) -> str:
    """Why no WebAssembly module can be made of a bundle; empty if one can."""
    if face.target.format != "wasm":
        return f"{face.target.name} is not WebAssembly"
    if face.api != "direct":
        return f"its functions are called by the api direct, not {face.api}"
    asks = [what for what, is_so in (("profile", face.is_profiled), ("pauses", face.pauses)) if is_so]
    return f"nothing defines the function that a bundle with {asks[0]} calls" if asks else ""


def check_options(options: Options) -> None:
    unknown = [e for e in options.emit if e not in get_args(Emit)]
    if unknown:
        raise InputError(
            f"cannot emit {', '.join(map(repr, unknown))}", remedy=f"choose from {', '.join(get_args(Emit))}"
        )
    if options.api not in CONVENTIONS:
        raise InputError(f"unknown api {options.api!r}", remedy=f"choose from {', '.join(CONVENTIONS)}")
    if options.pauses and options.threads:
        raise InputError("a bundle that pauses has no threads", remedy="leave out one of pauses and threads")


def require_regional(target: Target, options: Options) -> None:
    """InputError where regions of memory are asked for and nothing could place them."""
    flag = "--memory" if options.memory else "--flash" if options.flash else ""
    if flag and target.format != "elf":
        raise InputError(f"{flag}: {target.name} has no linker that places sections", remedy="leave it out")
    if options.memory and options.api != "direct":
        raise InputError(
            f"--memory: --api {options.api} has one memory for everything", remedy="use --api direct"
        )
    if options.flash and (options.weights == "external" or CONVENTIONS[options.api].brings_weights):
        raise InputError("--flash: the weights are the caller's", remedy="use --weights embedded")
    both = {n.lower() for n in options.memory} & {n.lower() for n in options.flash}
    if both:
        raise InputError(f"{sorted(both)[0]!r} is a region of --memory and of --flash: name them apart")


LACKING = {
    "coff": ("shared", "main"),
    "macho": ("shared", "main"),
    "wasm": ("shared", "main"),
}
"""What is not made for a format: their linkers are the systems' own, and programs want libraries."""


def _require_kinds(face: Unit, options: Options) -> None:
    target, emit = face.target, options.emit
    lacking = [kind for kind in emit if kind in LACKING.get(target.format, ())]
    if "shared" in emit and target.triple.split("-")[1] == "none":  # a board's; x86-64-unknown-none is a PC's
        raise InputError(
            f"{target.name} has no system that loads shared libraries",
            remedy="--emit obj, and link it",
        )
    if options.relocation == "pic" and target.format == "coff":
        raise InputError(
            f"{target.name} has no --relocation-model pic: its code runs at any address",
            remedy="--relocation-model static",
        )
    if "module" in emit and (reason := _module_obstacle(face)):
        raise InputError(f"no module is made: {reason}", remedy="--target wasm32-simd128 --api direct")
    if lacking:
        raise InputError(f"no {lacking[0]} is made for {target.name}", remedy="--emit obj, and link it there")


def provenance_rows(target: Target, options: Options, origin: Origin) -> tuple[str, ...]:
    from importlib.metadata import version

    opsets = ", ".join(f"{domain} {v}" for domain, v in sorted(origin.opsets.items()))
    return (
        f"Made by Ingot {version('ingot')} for {target.name}: {target.description}.",
        f"Model SHA-256 {origin.sha256}; opset {opsets or 'none'}.",
        f"Options: {', '.join(_given(options)) or 'none'}.",
        *(f"A row of {p.name}: a map of {p.keys}." for p in origin.ports[1] if p.kind == "maps"),
        "This file belongs to you: 0BSD.",
    )


def _given(options: Options) -> list[str]:
    """The options that differ from their defaults."""
    plain = Options()
    return [
        f"{f.name}={_shown(getattr(options, f.name), f.name in ('memory', 'flash'))}"
        for f in dataclasses.fields(options)
        if f.name not in ("name", "target", "emit") and getattr(options, f.name) != getattr(plain, f.name)
    ]


def _shown(value: object, is_ordered: bool = False) -> str:
    if isinstance(value, Mapping) and isinstance(value.get("choices"), Mapping):
        return f"{len(value['choices'])} stages"  # a tuning file; the manifest has all of it
    if isinstance(value, Mapping):
        items = value.items() if is_ordered else sorted(value.items())
        return "{" + ", ".join(f"{k}: {v}" for k, v in items) + "}"
    return str(value)
