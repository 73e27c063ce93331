"""A bundle that holds one network several times, for processors of different strength, behind one entry.

`--target x86-64+x86-64-v3`: the header is that of any bundle, NAME.c picks the variant, NAME_x86_64.c and so
on hold them. All of it is one object. The arena is as large as the largest variant's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from ingot.bundle.bundle import Bundle
from ingot.bundle.manifest import manifest
from ingot.bundle.write import Origin, check_options, object_of, provenance_rows, sources, stack_of
from ingot.emit.conventions import check
from ingot.emit.dispatch import dispatcher
from ingot.emit.header import header
from ingot.emit.names import identifier
from ingot.emit.unit import Unit
from ingot.errors import InputError
from ingot.loops.program import Program
from ingot.memory.plan import Plan
from ingot.options import Options
from ingot.targets.record import Target
from ingot.targets.toolchain import compile_c, relocatable

Made = tuple[Program, Plan, Target]


def write_variants(made: Sequence[Made], options: Options, origin: Origin) -> Bundle:
    """Print, compile and describe; `made` in the order of the targets' strength, weakest first."""
    check_options(options)
    if options.api != "direct" or options.weights == "external" or options.threads:
        raise InputError(
            "several targets in one bundle need --api direct with embedded weights and no threads"
        )
    units = [_variant(m, options, origin) for m in made]
    face = _face(made, options, origin)
    files: dict[str, bytes] = {}
    objects = []
    for unit in units:
        files |= sources(unit)
        objects.append(object_of(unit, files, options))
    files[f"{face.name}.h"] = header(face, None).encode()
    files[f"{face.name}.c"] = dispatcher(face, units).encode()
    text = {n: files[n].decode() for n in (f"{face.name}.h", f"{face.name}.c")}
    objects.insert(
        0, compile_c(text, face.target, name=f"{face.name}.c", cc=options.cc, flags=options.cflags)
    )
    code = relocatable(objects)
    stack = stack_of(face, code)
    files[f"{face.name}.h"] = header(face, stack).encode()
    files[f"{face.name}.o"] = code
    shown = manifest(face, options, origin.opsets, code, stack)
    shown["variants"] = [u.target.name for u in units]
    shown["files"] = {n: hashlib.sha256(data).hexdigest() for n, data in sorted(files.items())}
    return Bundle(face.name, files, shown, files)


def _variant(made: Made, options: Options, origin: Origin) -> Unit:
    program, plan, target = made
    name = f"{program.name}_{identifier(target.name)}"
    rows = provenance_rows(target, options, origin)
    return Unit(replace(program, name=name), plan, target, name, rows, origin.sha256, rename=options.rename)


def _face(made: Sequence[Made], options: Options, origin: Origin) -> Unit:
    """What the user sees: the weakest variant's edge, the largest arena."""
    check("direct", options.weights, bool(made[0][0].params), options.threads)
    program, plan, target = made[0]
    arena = replace(plan, arena_bytes=max(p.arena_bytes for _, p, _ in made))
    rows = provenance_rows(target, options, origin)
    return Unit(program, arena, target, program.name, rows, origin.sha256, rename=options.rename)
