"""A bundle that holds one network several times, for processors of different strength, behind one entry.

`--target x86-64+x86-64-v3`: the header is that of any bundle, NAME.c picks the variant, NAME_x86_64.c and so
on hold them. All of it is one object. The arena is as large as the largest variant's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingot.bundle.build import sources
from ingot.bundle.bundle import Bundle
from ingot.bundle.manifest import Origin
from ingot.bundle.write import check_options, finish, provenance_rows
from ingot.emit.conventions import check
from ingot.emit.dispatch import dispatcher
from ingot.emit.header import header
from ingot.emit.names import identifier
from ingot.emit.unit import Unit
from ingot.errors import InputError
from ingot.loops.priority import PRIORITIES
from ingot.loops.program import Program
from ingot.memory.plan import Plan
from ingot.options import Options
from ingot.targets.record import Target

Made = tuple[Program, Plan, Target]


def write_variants(made: Sequence[Made], options: Options, origin: Origin) -> Bundle:
    """Print, compile and describe; `made` in the order of the targets' strength, weakest first."""
    check_options(options)
    if options.memory or options.flash:
        raise InputError(
            "several targets in one bundle have one memory", remedy="leave out --memory and --flash"
        )
    if options.api != "direct" or options.weights == "external" or options.threads or options.profile:
        raise InputError(
            "a bundle of several targets has --api direct, embedded weights, no threads and no profile",
            remedy="leave those options out, or name one target",
        )
    if options.selftest:
        raise InputError("--selftest: a bundle of several targets has no self-test", remedy="name one target")
    if apart := [t.name for _, _, t in made if not t.joins or t.format != "elf"]:
        raise InputError(
            f"several targets in one bundle make one ELF object, which {apart[0]} has not",
            remedy="name one target",
        )
    units = [_variant(m, options, origin) for m in made]
    face = _face(made, options, origin)
    files = {name: data for unit in units for name, data in sources(unit).items()}
    files[f"{face.name}.h"] = header(face, None).encode()
    files[f"{face.name}.c"] = dispatcher(face, units).encode()
    return finish(face, units, files, options, origin)


def _variant(made: Made, options: Options, origin: Origin) -> Unit:
    program, plan, target = made
    name = f"{program.name}_{identifier(target.name)}"
    rows = provenance_rows(target, options, origin)
    named, face = replace(program, name=name), program.name
    priority = PRIORITIES[options.optimize]
    return Unit(
        named,
        plan,
        target,
        name,
        rows,
        origin.sha256,
        rename=options.rename,
        variant_of=face,
        priority=priority,
    )


def _face(made: Sequence[Made], options: Options, origin: Origin) -> Unit:
    """What the user sees: the weakest variant's edge, the largest arena."""
    check("direct", options.weights, bool(made[0][0].params), options.threads)
    program, plan, target = made[0]
    arena = replace(plan, arena_bytes=max(p.arena_bytes for _, p, _ in made))
    rows = provenance_rows(target, options, origin)
    return Unit(
        program,
        arena,
        target,
        program.name,
        rows,
        origin.sha256,
        rename=options.rename,
        scales=origin.scales,
    )
