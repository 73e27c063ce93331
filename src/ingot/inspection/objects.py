"""What `ingot audit` is given, made into audits: objects, assembly, bundles.

In: a path. Out: `Subject`s. Called by the command line. Of a bundle the C is at hand: it is compiled again as
it was, and where that gives the code of the object, the assembler's fixups stand beside what became of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ingot.audit.audit import NOPS, Audit, Outside, audit
from ingot.audit.decode import Instruction, instructions
from ingot.audit.listing import Assembly, Fixup, placed_fixups
from ingot.binary.objects import Function, functions
from ingot.binary.read import read_object
from ingot.binary.record import ObjectFile
from ingot.bundle.bundle import Bundle, load
from ingot.emit.names import identifier
from ingot.errors import InputError
from ingot.files import read_file, read_text
from ingot.inspection.assembly import target_of, units, variants_of
from ingot.targets.record import Target
from ingot.targets.records import find

OBJECT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Subject:
    """One object, what is worth saying of how it was read, and names that its package defines beside it."""

    name: str
    audit: Audit
    notes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def read(path: Path, triple: str | None, target: str | None, flags: tuple[str, ...]) -> list[Subject]:
    """The object or objects of a path. InputError for what holds none."""
    wanted = find(target) if target else None
    if path.is_dir() or path.suffix == ".json":
        return list(_bundle(path, wanted, flags))
    if path.suffix in (".s", ".S", ".asm"):
        return [_assembled(path, triple, wanted, flags)]
    if triple is not None:
        raise InputError("--triple says how assembly is assembled, but this is no .s file")
    return [Subject(path.name, audit(read_file(path, OBJECT_BYTES), None, wanted, flags))]


def _assembled(path: Path, triple: str | None, target: Target | None, flags: tuple[str, ...]) -> Subject:
    if triple is None and target is None:
        raise InputError(f"{path} is assembly", remedy="say for which processor: --triple aarch64")
    how = (
        Assembly.of_triple(triple)
        if triple
        else Assembly.of_target(target or find("native"), flags, of_user=True)
    )
    made, placed = placed_fixups(read_text(path), how)
    return Subject(path.name, audit(made, placed, target, flags))


def _bundle(path: Path, target: Target | None, flags: tuple[str, ...]) -> Iterator[Subject]:
    bundle = load(path)
    if bundle.manifest.get("package") == "kbuild":
        yield from _module(path if path.is_dir() else path.parent, bundle, target, flags)
        return
    name = f"{bundle.name}.o"
    if name not in bundle.files:
        raise InputError(
            f"bundle '{bundle.name}' holds no object", remedy="compile the model with --emit c,obj"
        )
    code = bundle.files[name]
    placed, notes = _placed(bundle, read_object(code))
    own = variants_of(bundle) or [target_of(bundle)]
    found = [audit(code, placed, t, flags) for t in ([target] if target else map(find, own))]
    yield Subject(name, _by_variant(bundle.name, own, found), notes)


def _module(path: Path, bundle: Bundle, target: Target | None, flags: tuple[str, ...]) -> Iterator[Subject]:
    """The module, if it is built, and the objects that it was shipped with."""
    built = [path / f"{bundle.name}.ko"] if (path / f"{bundle.name}.ko").is_file() else []
    for file in built:
        yield Subject(file.name, audit(read_file(file, OBJECT_BYTES), None, target, flags))
    for t in variants_of(bundle):
        name = f"{bundle.name}_{identifier(t)}.o_shipped"
        if name in bundle.files:
            found = audit(bundle.files[name], None, target or find(t), flags)
            yield Subject(name, found, (), (f"{bundle.name}_{identifier(t)}_pause",))
        elif not built:
            raise InputError(
                f"{path} holds C only", remedy=f"build it (make -C {path}), or make it --prebuilt"
            )


def _by_variant(name: str, targets: Sequence[str], found: Sequence[Audit]) -> Audit:
    """One audit of a bundle of several: each function held against the target that it was made for."""
    if len(found) == 1:
        return found[0]
    longest = sorted(range(len(found)), key=lambda i: -len(identifier(targets[i])))

    def variant(function: str) -> int:
        return next((i for i in longest if function.startswith(f"{name}_{identifier(targets[i])}")), 0)

    rows = zip(*(a.functions for a in found), strict=True)
    chosen = [row[variant(row[0].name)] for row in rows]
    # The entry reads what the system saves (xgetbv) where the processor says that it can.
    chosen = [replace(f, outside=_without(f.outside, "xsave")) if f.name == name else f for f in chosen]
    return replace(found[0], functions=tuple(chosen), declared=" and ".join(targets))


def _without(outside: dict[str, Outside], feature: str) -> dict[str, Outside]:
    return {name: found for name, found in outside.items() if name != feature}


def _placed(
    bundle: Bundle, file: ObjectFile
) -> tuple[dict[tuple[int, int], tuple[Fixup, ...]], tuple[str, ...]]:
    """The assembler's fixups by section and offset of the object, and what could not be placed."""
    shipped = {f.name: f for f in functions(file)}
    placed: dict[tuple[int, int], tuple[Fixup, ...]] = {}
    other = []
    try:
        parts = units(bundle)
    except InputError as error:
        return {}, (f"{error}; the fixups are those of the object alone",)
    for unit in parts:
        made, holes = placed_fixups(unit.text, unit.how)
        again = read_object(made)
        for f in functions(again):
            mine = shipped.get(f.name)
            if mine is None or not _same(file, mine, again, f):
                other.append(f.name)
                continue
            here = {at: found for (section, at), found in holes.items() if section == f.section}
            for at, found in here.items():
                if f.start <= at < f.start + len(f.code):
                    placed[mine.section, mine.start + at - f.start] = found
    if not other:
        return placed, ()
    names = ", ".join(other[:4]) + (f" and {len(other) - 4} more" if len(other) > 4 else "")
    return placed, (f"the C gives other code here for {names}: their fixups are those of the object alone",)


def _same(file: ObjectFile, shipped: Function, again: ObjectFile, made: Function) -> bool:
    """Whether two functions are the same but for padding, and for what relocations left in their bytes."""
    rows = [
        [
            (i.offset - f.start, len(i.code), b"" if _is_left(f, i) else i.code)
            for i in instructions(of, f)
            if not i.text.startswith(NOPS)
        ]
        for of, f in ((file, shipped), (again, made))
    ]
    return len(shipped.code) == len(made.code) and rows[0] == rows[1]


def _is_left(function: Function, i: Instruction) -> bool:
    start = i.offset - function.start
    return any(at in function.targets for at in range(start, start + len(i.code)))
