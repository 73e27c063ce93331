"""What an object does to those who link it: every fixup followed to its end, and what the code assumes.

In: the bytes of an ELF file, and where its source is at hand the fixups of LLVM's assembler (`listing.py`).
Out: an `Audit`, plain facts. Called by `ingot audit` and by packages; `policy.py` judges what is found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ingot.audit.decode import Instruction, decodes, instructions
from ingot.audit.features import Needs, beyond_base, outside
from ingot.audit.listing import Fixup as Noted
from ingot.audit.relocations import why_left
from ingot.audit.stack import StackUsage, stack_of_file
from ingot.binary.objects import PROVIDED, Function, functions, kind_of
from ingot.binary.read import read_object
from ingot.binary.record import ALLOC, EXEC, WRITE, ObjectFile, Relocation, Section
from ingot.binary.record import machine_name as machine_of
from ingot.targets.record import Target

Placed = Mapping[tuple[int, int], Sequence[Noted]]
"""(section, offset in it) -> what the assembler noted of the instruction there."""
MODULE_SECTIONS = (".gnu.linkonce.this_module", ".modinfo")
NOPS = ("nop", "int3", "data16", "xchg %ax,%ax", "c.nop", "udf", "bkpt", "trap", "cs nop")


@dataclass(frozen=True, slots=True)
class Left:
    """A relocation, and why the assembler left it."""

    type: str
    symbol: str
    addend: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Fixup:
    """One reference of the code or the data, and its end.

    `relocations` empty: resolved; then `patched` are the bytes that hold the distance to `goal`. `kind` and
    `value` are the assembler's own words, where the source is at hand.
    """

    section: str
    offset: int
    function: str
    instruction: str
    code: str
    patched: str
    goal: str
    kind: str
    value: str
    relocations: tuple[Left, ...]


@dataclass(frozen=True, slots=True)
class SectionFacts:
    name: str
    kind: str
    bytes: int
    align: int


@dataclass(frozen=True, slots=True)
class Aligned:
    """Instructions that fault, or go astray, unless an address is a multiple of `bytes`.

    `base`: stack (as the caller left it), realigned (the function aligned it itself), constant or pointer.
    """

    bytes: int
    base: str
    count: int
    first: str


@dataclass(frozen=True, slots=True)
class Outside:
    """Instructions that need what the declared target does not have."""

    count: int
    first: str


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """`stack` is its own, `deepest` with all it calls; None is unknown, and `why` says why.

    `least`: what a call takes by all that is known.
    """

    name: str
    section: str
    bytes: int
    stack: int | None
    deepest: int | None
    least: int
    path: tuple[str, ...]
    why: str
    red_zone: int
    features: dict[str, int]
    outside: dict[str, Outside]
    aligned: tuple[Aligned, ...]


@dataclass(frozen=True)
class Audit:
    """All that is known of one file; `undefined` are names with who needs them."""

    machine: str
    kind: str
    is_module: bool
    has_code: bool
    is_decoded: bool
    sections: tuple[SectionFacts, ...]
    undefined: dict[str, tuple[str, ...]]
    writable: dict[str, tuple[str, ...]]
    functions: tuple[FunctionFacts, ...]
    fixups: tuple[Fixup, ...]
    deepest: tuple[str, ...]
    has_red_zone: bool
    asks_alignment: bool
    declared: str

    @property
    def features(self) -> dict[str, int]:
        """Feature -> instructions that need it."""
        found: dict[str, int] = {}
        for function in self.functions:
            for name, count in function.features.items():
                found[name] = found.get(name, 0) + count
        return dict(sorted(found.items()))


def audit(
    content: bytes,
    placed: Placed | None = None,
    target: Target | None = None,
    flags: Sequence[str] = (),
) -> Audit:
    """Everything about an ELF file. InputError if it is none, or contradicts itself.

    With `target` (and more flags of its compiler) every instruction is held against what the processor has.
    """
    file = read_object(content)
    found = functions(file)
    code = [(f, list(instructions(file, f))) for f in found]
    unnamed = [(f, list(instructions(file, f))) for f in _unnamed(file, found)]
    code += [(f, insns) for f, insns in unnamed if _is_code(insns)]
    usage = stack_of_file(file, found)
    everything = [i for _, insns in code for i in insns]
    needs = beyond_base(file, everything)
    lacks = outside(file, everything, target, flags) if target else None
    facts = [_function(file, f, insns, usage, needs, lacks) for f, insns in code]
    known = {f.name: f.deepest for f in facts if f.deepest is not None}
    most = max(known, key=lambda name: known[name], default="")
    return Audit(
        machine_of(file),
        {"ET_REL": "object", "ET_DYN": "shared library", "ET_EXEC": "program"}.get(file.kind, file.kind),
        any(s.name in MODULE_SECTIONS for s in file.sections),
        bool(file.code) and file.format != "wasm",  # a module is checked where it is loaded
        decodes(file),
        tuple(SectionFacts(s.name, kind_of(s), s.size, s.align) for s in file.sections if _is_shown(s)),
        _undefined(file, found),
        _writable(file),
        tuple(facts),
        tuple(_fixups(file, code, placed or {})),
        usage.path(most) if most in usage.frames else (),
        file.machine == "EM_X86_64",
        file.machine in ("EM_X86_64", "EM_386", "EM_ARM", "EM_PPC64", "EM_PPC"),
        " ".join((target.name, *flags)) if target else "",
    )


def _is_shown(section: Section) -> bool:
    return bool(section.flags & ALLOC and section.size)


# ---- code that no symbol names -----------------------------------------------------------------------------


def _unnamed(file: ObjectFile, found: Sequence[Function]) -> Iterator[Function]:
    """What lies between the functions, under the label that stands there (hand-written code has no types)."""
    for section in file.code:
        covered = sorted((f.start, f.start + len(f.code)) for f in found if f.section == section.index)
        end = 0
        for start, stop in [*covered, (section.size, section.size)]:
            if start > end:
                yield _part(file, section, end, start)
            end = max(end, stop)


def _part(file: ObjectFile, section: Section, start: int, end: int) -> Function:
    labels = [s.name for s in file.symbols if s.section == section.index and s.value == start and s.name]
    named = [n for n in labels if not n.startswith(("$", ".L", section.name))]
    name = named[0] if named else section.name + (f"+{start:#x}" if start else "")
    return Function(name, section.index, start, file.data(section)[start:end], {})


def _is_code(insns: Sequence[Instruction]) -> bool:
    """Padding between functions is not."""
    return any(i.text and not i.text.startswith(NOPS) and any(i.code) for i in insns)


# ---- functions ---------------------------------------------------------------------------------------------


def _function(
    file: ObjectFile,
    function: Function,
    insns: Sequence[Instruction],
    usage: StackUsage,
    needs: Needs,
    lacks: Needs | None,
) -> FunctionFacts:
    name = function.name
    features = Counter(feature for i in insns for feature in needs(i))
    is_known = name in usage.frames
    return FunctionFacts(
        name,
        file.sections[function.section].name,
        len(function.code),
        usage.frames.get(name),
        usage.bytes(name) if is_known else None,
        usage.least(name) if is_known else 0,
        usage.path(name) if is_known else (),
        usage.why_unknown(name) if is_known else "no function symbol tells where it begins and ends",
        usage.red_zone.get(name, 0),
        dict(sorted(features.items())),
        _outside(function, insns, lacks) if lacks else {},
        tuple(_aligned(function, insns)),
    )


def _outside(function: Function, insns: Sequence[Instruction], lacks: Needs) -> dict[str, Outside]:
    """What the target does not have -> how often, and first where."""
    found: dict[str, list[Instruction]] = {}
    for i in insns:
        for feature in lacks(i):
            found.setdefault(feature, []).append(i)
    return {feature: Outside(len(some), _shown(function, some[0])) for feature, some in sorted(found.items())}


def _shown(function: Function, i: Instruction) -> str:
    return f"{i.text or i.code.hex(' ')} at {function.name}+{i.offset - function.start:#x}"


def _aligned(function: Function, insns: Sequence[Instruction]) -> Iterator[Aligned]:
    """Grouped by base and size; a frame pointer counts as the stack where it is one."""
    realigned = max((i.realigns for i in insns), default=0)
    has_frame = any(i.text in ("mov %rsp,%rbp", "mov %esp,%ebp") for i in insns)
    groups: dict[tuple[int, str], list[Instruction]] = {}
    for i in insns:
        if i.aligned is None:
            continue
        size, base = i.aligned
        if base == "frame":
            base = "stack" if has_frame else "pointer"
        elif base == "stack" and size <= realigned:
            base = "realigned"
        groups.setdefault((size, base), []).append(i)
    for (size, base), group in sorted(groups.items()):
        yield Aligned(size, base, len(group), _shown(function, group[0]))


# ---- symbols -----------------------------------------------------------------------------------------------


def _undefined(file: ObjectFile, found: Sequence[Function]) -> dict[str, tuple[str, ...]]:
    """Names to be found elsewhere, with the functions (or sections) that refer to them."""
    users: dict[str, dict[str, None]] = {
        s.name: {} for s in file.symbols if s.place == "undefined" and s.name not in PROVIDED
    }
    where = _Where(file, found)
    for r in file.relocations:
        if (
            r.symbol.place == "undefined"
            and r.symbol.name in users
            and file.sections[r.section].flags & ALLOC
        ):
            users[r.symbol.name][where.name(r.section, r.offset)] = None
    return {name: tuple(by) for name, by in sorted(users.items())}


def _writable(file: ObjectFile) -> dict[str, tuple[str, ...]]:
    """Writable sections that hold anything, with the symbols in them."""
    return {
        s.name: tuple(
            sorted({v.name for v in file.symbols if v.section == s.index and v.name and v.kind == "OBJECT"})
        )
        for s in file.sections
        if s.size and s.flags & ALLOC and s.flags & WRITE and not s.flags & EXEC
    }


class _Where:
    """Places in sections by the functions around them."""

    def __init__(self, file: ObjectFile, found: Sequence[Function]) -> None:
        self.file = file
        self.rows: dict[int, list[tuple[int, int, str]]] = {}
        for f in found:
            self.rows.setdefault(f.section, []).append((f.start, f.start + len(f.code), f.name))
        for rows in self.rows.values():
            rows.sort()

    def function(self, section: int, offset: int) -> tuple[str, int] | None:
        """(name, offset in it)"""
        rows = self.rows.get(section, [])
        i = bisect_right(rows, (offset, 1 << 64, "")) - 1
        if i < 0 or not rows[i][0] <= offset < max(rows[i][1], rows[i][0] + 1):
            return None
        return rows[i][2], offset - rows[i][0]

    def name(self, section: int, offset: int) -> str:
        found = self.function(section, offset)
        return found[0] if found else self.file.sections[section].name

    def place(self, section: int, offset: int) -> str:
        whole = self.file.sections[section].name
        name, at = self.function(section, offset) or (whole, offset)
        name, at = (whole, offset) if name.startswith(f"{whole}+") else (name, at)
        return f"{name}+{at:#x}" if at else name


# ---- fixups ------------------------------------------------------------------------------------------------


def _fixups(
    file: ObjectFile, code: Sequence[tuple[Function, Sequence[Instruction]]], placed: Placed
) -> Iterator[Fixup]:
    """Those of the code in its order, then those of the data."""
    where = _Where(file, [f for f, _ in code])
    left: dict[int, list[Relocation]] = {}
    for r in file.relocations:
        if file.sections[r.section].flags & ALLOC:
            left.setdefault(r.section, []).append(r)
    for rows in left.values():
        rows.sort(key=_offset)
    done = set()
    for function, insns in code:
        rows = left.get(function.section, [])
        for i in insns:
            here = rows[bisect_left(rows, i.offset, key=_offset) :]
            here = here[: bisect_left(here, i.offset + len(i.code), key=_offset)]
            done |= {id(r) for r in here}
            noted = placed.get((function.section, i.offset), ())
            yield from _of_instruction(file, where, function, i, here, noted)
    for section, rows in sorted(left.items()):
        for r in rows:
            if id(r) not in done:
                yield replace(_blank(file, section, r.offset), relocations=(_left(file, r),))


def _offset(relocation: Relocation) -> int:
    return relocation.offset


def _blank(file: ObjectFile, section: int, offset: int) -> Fixup:
    return Fixup(file.sections[section].name, offset, "", "", "", "", "", "", "", ())


def _left(file: ObjectFile, r: Relocation) -> Left:
    return Left(r.type, r.symbol.name, r.addend, why_left(file, r))


def _of_instruction(
    file: ObjectFile,
    where: _Where,
    function: Function,
    i: Instruction,
    here: Sequence[Relocation],
    noted: Sequence[Noted],
) -> Iterator[Fixup]:
    base = replace(
        _blank(file, function.section, i.offset),
        function=function.name,
        instruction=i.text,
        code=i.code.hex(" "),
    )
    start, end = i.patched
    goal = where.place(function.section, i.goal) if i.goal is not None else ""
    for note in noted:
        mine = [r for r in here if r.offset == i.offset + note.offset]
        named = replace(base, kind=note.kind, value=note.value)
        if mine:
            yield replace(named, relocations=tuple(_left(file, r) for r in mine))
        else:
            held = (start, end) if end else (note.offset, len(i.code))
            first, last = note.span(len(i.code)) or held
            yield replace(named, patched=i.code[first:last].hex(" "), goal=goal)
    if noted:
        here = [r for r in here if r.offset not in {i.offset + n.offset for n in noted}]
    for offset in sorted({r.offset for r in here}):
        yield replace(base, relocations=tuple(_left(file, r) for r in here if r.offset == offset))
    if goal and not noted and not here:
        yield replace(base, patched=i.code[start:end].hex(" "), goal=goal)
