"""What is inside an object file: section sizes, symbols, functions.

In: the bytes of an ELF file. Out: numbers and names for reports, manifests and checks. Called by `bundle`,
`inspect` and tests; `stack.py` and `audit.py` build on `functions`. InputError for a file that is no ELF.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from ingot.binary.read import read_object
from ingot.binary.record import ALLOC, EXEC, WRITE, ObjectFile, Relocation, Section, Symbol
from ingot.errors import InputError

OVERLAP_LIMIT = 4
PROVIDED = ("", ".TOC.")  # what every linker defines itself: the base of Power's table of addresses
T = TypeVar("T")
MAPPING = ("$d", "$t", "$x", "$a")


@dataclass(frozen=True, slots=True)
class Sections:
    """Bytes that an object occupies once it is linked."""

    text: int
    rodata: int
    data: int
    bss: int


@dataclass(frozen=True, slots=True)
class Function:
    """Machine code of one function; `targets` maps offsets in it to the (symbol, addend) relocated there."""

    name: str
    section: int
    start: int
    code: bytes
    targets: dict[int, tuple[str, int]]
    data: tuple[tuple[int, int], ...] = ()  # offset ranges of constants between the instructions (Arm)
    is_arm: bool = False  # Arm's instructions of four bytes, not Thumb


def sections(object_bytes: bytes) -> Sections:
    """Sizes by kind; unwind tables and other allocated read-only data count as rodata."""
    sizes = dict.fromkeys(("text", "rodata", "data", "bss"), 0)
    for section in read_object(object_bytes).sections:
        if section.flags & ALLOC:
            sizes[kind_of(section)] += section.size
    return Sections(**sizes)


def kind_of(section: Section) -> str:
    """text, rodata, data or bss."""
    if section.flags & EXEC:
        return "text"
    if section.flags & WRITE:
        return "bss" if section.type == "SHT_NOBITS" else "data"
    return "rodata"


def writable_bytes(object_bytes: bytes) -> int:
    """Bytes of hidden state: allocated writable sections, .bss included. A bundle has none."""
    found = sections(object_bytes)
    return found.data + found.bss


def undefined_symbols(object_bytes: bytes) -> list[str]:
    """What the linker must find elsewhere, sorted."""
    return undefined_in(read_object(object_bytes))


def undefined_in(file: ObjectFile) -> list[str]:
    return sorted({s.name for s in file.symbols if s.place == "undefined" and s.name not in PROVIDED})


def defined_symbols(object_bytes: bytes) -> list[str]:
    """What other objects can link to (not the static ones), sorted."""
    return sorted({s.name for s in read_object(object_bytes).symbols if _is_external(s)})


def _is_external(symbol: Symbol) -> bool:
    return bool(symbol.bind != "local" and symbol.place != "undefined")


def functions(file: ObjectFile) -> list[Function]:
    """Every function symbol with its code; names of static functions may repeat."""
    marks, relocations = _marks(file), _relocations(file)
    content = {s.index: file.data(s) for s in file.code}
    room = OVERLAP_LIMIT * sum(map(len, content.values()))
    found = []
    for name, section, start, end in _named_code(file):
        room -= end - start
        if room < 0:
            raise InputError(
                "the ELF file's function symbols overlap: together they are longer than its code"
            )
        near = {at - start: to for at, to in _within(relocations.get(section, []), start, end)}
        kinds, here = marks.get(section, []), _within(marks.get(section, []), start, end)
        first = kinds[bisect_right(kinds, start, key=_first) - 1][1] if kinds and kinds[0][0] <= start else ""
        holes = _holes([(start, first), *here, (end, "")])
        code = content[section][start:end]
        found.append(Function(name, section, start, code, near, holes, first == "$a"))
    return found


def _first(row: tuple[int, T]) -> int:
    return row[0]


def _within(rows: list[tuple[int, T]], start: int, end: int) -> list[tuple[int, T]]:
    """The part of a sorted list that lies in a range."""
    return rows[bisect_left(rows, start, key=_first) : bisect_left(rows, end, key=_first)]


def _holes(marks: list[tuple[int, str]]) -> tuple[tuple[int, int], ...]:
    """Where constants lie, from the beginning of the function on."""
    start = marks[0][0]
    return tuple((a - start, b - start) for (a, kind), (b, _) in pairwise(marks) if kind == "$d" and b > a)


def _named_code(file: ObjectFile) -> Iterator[tuple[str, int, int, int]]:
    """(name, section, start, end) of the function symbols; one without a size ends where the next begins."""
    thumb = int(file.machine == "EM_ARM")  # whose lowest bit says how, not where
    sizes = {s.index: s.size for s in file.code}
    named = [s for s in file.symbols if s.kind in ("FUNC", "IFUNC") and s.section in sizes]
    starts: dict[int, list[int]] = {}
    for section, start in sorted({(s.section or 0, s.value & ~thumb) for s in named}):
        starts.setdefault(section, []).append(start)
    seen = set()
    for symbol in named:
        section, start = symbol.section or 0, symbol.value & ~thumb
        later = starts[section][bisect_right(starts[section], start) :]
        end = start + symbol.size if symbol.size else min([sizes[section], *later[:1]])
        row = (symbol.name, section, start, max(start, min(end, sizes[section])))
        if row not in seen:
            yield row
        seen.add(row)


def _relocations(file: ObjectFile) -> dict[int, list[tuple[int, tuple[str, int]]]]:
    """Section -> (offset, (symbol, addend)) in order; a place in a section is written `#INDEX`."""
    found: dict[int, list[tuple[int, tuple[str, int]]]] = {}
    for relocation in file.relocations:
        if not relocation.type.endswith(("_RELAX", "_NONE")):
            found.setdefault(relocation.section, []).append((relocation.offset, _goal(relocation)))
    return {section: sorted(rows) for section, rows in found.items()}


def _goal(relocation: Relocation) -> tuple[str, int]:
    symbol, addend = relocation.symbol, relocation.addend or 0
    if symbol.kind == "NOTYPE" and symbol.bind == "local" and symbol.section is not None:  # a label
        return f"#{symbol.section}", symbol.value + addend
    return (f"#{symbol.section}" if symbol.kind == "SECTION" else symbol.name), addend


def _marks(file: ObjectFile) -> dict[int, list[tuple[int, str]]]:
    """Mapping symbols `$d` ... `$t` say what follows them in a code section: constants or instructions."""
    marks: dict[int, list[tuple[int, str]]] = {}
    for symbol in file.symbols:
        if symbol.name[:2] in MAPPING and symbol.section is not None and symbol.kind == "NOTYPE":
            marks.setdefault(symbol.section, []).append((symbol.value, symbol.name[:2]))
    return {section: sorted(rows) for section, rows in marks.items()}
