"""Several networks in one object: what they compute alike is there once, and one arena serves them all.

In: planned programs, each with a name of its own. Out: a `Collection`: the bundle of each network, as ever,
but for its C and its object, which are the collection's. Called by the driver.

All networks are one file of C, so that a function which several call is as private as it ever was, and
nothing is asked of the linker: no weak symbols, no sections to be collected. A kernel module, a static
library and an object take it alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ingot.binary.note import with_note
from ingot.bundle.budget import require_room
from ingot.bundle.build import compiled_parts, stack_of, texts_of, weights_of
from ingot.bundle.bundle import Bundle
from ingot.bundle.manifest import Origin, facts, manifest
from ingot.bundle.stored import store_all
from ingot.bundle.write import check_options, golden_test, require_regional, unit_of
from ingot.emit.conventions import check
from ingot.emit.header import header
from ingot.emit.names import Scope
from ingot.emit.several import group_header, require_apart
from ingot.emit.source import source
from ingot.emit.unit import MACROS, SYMBOLS, Group, Unit, begins
from ingot.errors import InputError
from ingot.loops.alike import generals
from ingot.loops.priority import PRIORITIES
from ingot.loops.program import Program
from ingot.memory.plan import Plan
from ingot.options import Options
from ingot.tables import Result, Table, table
from ingot.targets.record import Target
from ingot.targets.toolchain import archive

KINDS = ("c", "obj", "lib", "weights-bin", "weights-txt")


@dataclass(frozen=True, slots=True)
class Made:
    """One network, ready to be printed."""

    program: Program
    plan: Plan
    target: Target
    origin: Origin


class Collection(Result):
    """What `ingot.compile_several` returns: all `files`, and `bundles` by their names, which can be run."""

    def __init__(self, name: str, files: Mapping[str, bytes], bundles: Mapping[str, Bundle]) -> None:
        self.name = name
        self.bundles = dict(bundles)
        self.files = {**files, **{n: b.files[n] for b in bundles.values() for n in b.files}}

    def as_dict(self) -> dict[str, Any]:
        """Return plain data: the bytes of each file, and the manifest of each network."""
        files = {file: len(content) for file, content in sorted(self.files.items())}
        return {"files": files, "manifests": {n: b.manifest for n, b in self.bundles.items()}}

    def tables(self) -> list[Table]:
        """Return what the networks take alone and together."""
        sizes = [b.manifest["sizes"] for b in self.bundles.values()]
        rows: list[tuple[object, ...]] = [
            (n, f"{s['weights_bytes']:,}", f"{s['arena_bytes']:,}")
            for n, s in zip(self.bundles, sizes, strict=True)
        ]
        most = max(s["arena_bytes"] for s in sizes)
        rows.append(("together", f"{sum(s['weights_bytes'] for s in sizes):,}", f"{most:,}"))
        title = f"{self.name}: code {sizes[0]['code_bytes']:,} bytes"
        return [table(title, ("network", "weights>", "arena>"), rows)]

    def save(self, directory: str | Path, *, force: bool = False) -> Path:
        """Write the files: all of them whole, or none. See `Bundle.save`."""
        store_all(Path(directory), tuple(self.bundles), self.files, force)
        return Path(directory)


def write_several(made: Sequence[Made], options: Options, name: str) -> Collection:
    """Print, compile and describe. InputError for what a collection has not, or networks of one name."""
    _require(made, options, name)
    group = _group(made, options, name)
    units = [_unit(m, options, group) for m in made]
    require_apart(units)
    options = replace(options, emit=options.emit or ("c", "obj", "weights-bin"))
    files = {n: data for unit in units for n, data in weights_of(unit).items()}
    files |= {f"{unit.name}.h": header(unit, None).encode() for unit in units}
    files[f"{name}.c"] = source(*units).encode()
    code = compiled_parts(units, name, files, options)
    shown = [_described(unit, m, options, code, group) for unit, m in zip(units, made, strict=True)]
    _require_room(units, shown, options)
    for unit, manifest_ in zip(units, shown, strict=True):
        files[f"{unit.name}.h"] = header(unit, manifest_["sizes"]["stack_bytes"]).encode()
    files[f"{name}.h"] = group_header(name, units).encode()
    files[f"{name}.o"] = with_note(code, json.dumps({"group": {m["name"]: facts(m) for m in shown}}))
    files |= texts_of(units, files, options)
    if "lib" in options.emit:
        files[f"lib{name}.a"] = archive({f"{name}.o": files[f"{name}.o"]})
    return _collected(name, units, files, shown, options)


def _collected(
    name: str,
    units: Sequence[Unit],
    files: Mapping[str, bytes],
    shown: Sequence[dict[str, Any]],
    options: Options,
) -> Collection:
    """The files that are asked for, those of each network listed in its manifest."""
    common = set(_wanted(name, options))
    kept: dict[str, bytes] = {}
    bundles = {}
    for unit, manifest_ in zip(units, shown, strict=True):
        own = {n: files[n] for n in files if n in common or n in _own(unit, options)}
        manifest_["files"] = {n: hashlib.sha256(data).hexdigest() for n, data in sorted(own.items())}
        parts = {**files, f"{unit.name}.o": files[f"{name}.o"]}
        bundles[unit.name] = Bundle(unit.name, own, manifest_, parts)
        kept |= own
    return Collection(name, kept, bundles)


def _wanted(name: str, options: Options) -> Iterator[str]:
    kinds = {"c": f"{name}.c", "obj": f"{name}.o", "lib": f"lib{name}.a"}
    yield from (file for kind, file in kinds.items() if kind in options.emit)
    yield f"{name}.h"


def _own(unit: Unit, options: Options) -> set[str]:
    """The names of one network's files."""
    kinds = {
        "c": {f"{unit.name}_weights.c", f"{unit.name}_weights.S"},
        "weights-bin": {f"{unit.name}.weights.bin"},
        "weights-txt": {f"{unit.name}.weights.txt"},
    }
    return {f"{unit.name}.h"}.union(*(files for kind, files in kinds.items() if kind in options.emit))


def _described(unit: Unit, made: Made, options: Options, code: bytes, group: Group) -> dict[str, Any]:
    return {**manifest(unit, options, made.origin, code, stack_of(unit, code)), "group": group.name}


def _require_room(units: Sequence[Unit], shown: Sequence[Mapping[str, Any]], options: Options) -> None:
    """InputError where all networks together take too much: the largest arena, and what each keeps."""
    sizes = [m["sizes"] for m in shown]
    kept = {k: sum(s[k] for s in sizes) for k in ("state_bytes", "mutable_bytes", "weights_bytes")}
    unit, own = max(zip(units, sizes, strict=True), key=lambda pair: pair[1]["arena_bytes"])
    require_room(unit, options, {**own, **kept})


def _group(made: Sequence[Made], options: Options, name: str) -> Group:
    """What the networks share: kernels that are equal, or alike where code is to be small."""
    taken = {f"{m.program.name}_{symbol}" for m in made for symbol in SYMBOLS}
    kernels = [k for m in made for k in m.program.kernels]
    alike = PRIORITIES[options.optimize].alike or made[0].target.shares
    shared = generals(kernels, differ="numbers" if alike else "lengths")
    names = tuple(m.program.name for m in made)
    scope = Scope({name, *names, *taken}, begins((name, *names)))
    return Group(name, names, scope, shared, tuple(m.plan for m in made))


def _unit(made: Made, options: Options, group: Group) -> Unit:
    external = check(options.api, options.weights, bool(made.program.params), options.threads)
    test = golden_test(made.program, made.plan, made.target, options, made.origin)
    return unit_of(made.program, made.plan, made.target, options, made.origin, external, 0, test, group)


def _require(made: Sequence[Made], options: Options, name: str) -> None:
    check_options(options)
    require_regional(made[0].target, options)
    names = [m.program.name for m in made]
    taken = {f"{n}_{own}".upper() for n in names for own in (*SYMBOLS, *MACROS)}
    if len({n.upper() for n in (name, *names)}) <= len(names) or taken & {n.upper() for n in (name, *names)}:
        raise InputError(
            f"a bundle and its networks need different names: {', '.join((*names, name))}",
            remedy="--name sets the name of the bundle; networks have the names of their files",
        )
    refused = {
        "--memory and --flash": bool(options.memory or options.flash),
        "--api argument, which owns its memory": options.api == "argument",
        "pauses": options.pauses,
        "profile": options.profile,
        f"--emit {next((e for e in options.emit if e not in KINDS), '')}": bool(
            set(options.emit) - set(KINDS)
        ),
    }
    for what, is_asked in refused.items():
        if is_asked:
            raise InputError(f"several networks in one bundle have no {what}", remedy="compile them apart")
