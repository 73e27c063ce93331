"""A WebAssembly object or module as records. Nothing in the file is believed.

In: the bytes of an object (with the custom section `linking`) or of a linked module. Out: an `ObjectFile`: a
section for the code and one for each segment of data; of a module the undefined symbols are its imports, and
its exports are what it defines. Called by `read.py`. The layouts are those of the WebAssembly specification,
5.5, and of the tool conventions' "WebAssembly Object File Linking".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from ingot.binary.record import ALLOC, EXEC, WRITE, ObjectFile, Section, Symbol
from ingot.errors import InputError

MAGIC = b"\0asm\1\0\0\0"
SEGMENTS, SYMBOLS = 5, 8
FUNCTION, OBJECT, SECTION = 0, 1, 3
HIDDEN, ABSENT, NAMED, LOCAL, WEAK = 0x04, 0x10, 0x40, 0x02, 0x01


class Part(IntEnum):
    """The numbers of the sections that are looked at."""

    CUSTOM, IMPORTS, EXPORTS, CODE, DATA = 0, 2, 7, 10, 11


class _Bytes:
    """A part of the file that is read from its beginning to its end."""

    def __init__(self, content: bytes, at: int, end: int) -> None:
        self.content, self.at, self.end = content, at, end
        if end > len(content):
            raise InputError(
                f"the WebAssembly file is truncated: a part ends at {end} of {len(content)} bytes"
            )

    def take(self, count: int) -> bytes:
        self.at += count
        if self.at > self.end:
            raise InputError("the WebAssembly file is truncated or wrong: a part of it is too short")
        return self.content[self.at - count : self.at]

    def number(self) -> int:
        """LEB128, without a sign."""
        found = shift = 0
        while True:
            (byte,) = self.take(1)
            found |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return found
            if shift > 63:
                raise InputError("a number of the WebAssembly file has no end")

    def name(self) -> str:
        return self.take(self.number()).decode("utf-8", errors="backslashreplace")

    def part(self) -> _Bytes:
        """What follows its own length."""
        size = self.number()
        self.take(size)
        return _Bytes(self.content, self.at - size, self.at)

    @property
    def is_left(self) -> bool:
        return self.at < self.end


@dataclass
class _Read:
    """What the sections said so far."""

    imported: dict[int, list[str]] = field(default_factory=dict)  # by kind
    modules: list[str] = field(default_factory=list)
    exported: list[str] = field(default_factory=list)
    code: tuple[int, int] = (0, 0)
    segments: list[tuple[int, int]] = field(default_factory=list)
    names: list[tuple[str, int]] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    is_object: bool = False


def read_wasm(content: bytes) -> ObjectFile:
    """Parse and check; IndexError or InputError where the file contradicts itself."""
    whole, found = _Bytes(content, len(MAGIC), len(content)), _Read()
    while whole.is_left:
        (kind,) = whole.take(1)
        _section(kind, whole.part(), found)
    start, end = found.code
    sections = [Section(0, "", "SHT_NULL", 0, 0, 0, 0, 0, 0, 0, 0)]
    sections.append(Section(1, "code", "SHT_PROGBITS", ALLOC | EXEC, 0, start, end - start, 1, 0, 0, 0))
    names = found.names or [(f".data.{i}", 0) for i in range(len(found.segments))]
    for (name, align), (at, size) in zip(names, found.segments, strict=True):
        held = ALLOC | (0 if name.startswith(".rodata") or not found.is_object else WRITE)
        kind_of = "SHT_NOBITS" if name.startswith(".bss") else "SHT_PROGBITS"
        sections.append(
            Section(len(sections), name, kind_of, held, 0, at, size, 1 << min(align, 63), 0, 0, 0)
        )
    symbols = found.symbols if found.is_object else list(_of_module(found))
    kind_of_file = "ET_REL" if found.is_object else "ET_EXEC"
    return ObjectFile(
        "EM_WASM", kind_of_file, 32, "little", 0, content, tuple(sections), tuple(symbols), (), "wasm"
    )


def custom_section(content: bytes, wanted: str) -> bytes | None:
    """The content of a custom section of that name."""
    whole = _Bytes(content, len(MAGIC), len(content))
    while whole.is_left:
        (kind,) = whole.take(1)
        part = whole.part()
        if kind == Part.CUSTOM and part.name() == wanted:
            return part.take(part.end - part.at)
    return None


def _of_module(found: _Read) -> Iterator[Symbol]:
    for name in found.modules:
        yield Symbol(name, 0, 0, "NOTYPE", "global", "default", None, "undefined")
    for name in found.exported:
        yield Symbol(name, 0, 0, "NOTYPE", "global", "default", 1)


def _section(kind: int, part: _Bytes, found: _Read) -> None:
    match kind:
        case Part.IMPORTS:
            for _ in range(part.number()):
                _import(part, found)
        case Part.EXPORTS:
            for _ in range(part.number()):
                found.exported.append(part.name())
                part.take(1)
                part.number()
        case Part.CODE:
            found.code = part.at, part.end
        case Part.DATA:
            found.segments += [_segment(part) for _ in range(part.number())]
        case Part.CUSTOM if part.name() == "linking":
            found.is_object = True
            part.number()
            while part.is_left:
                (what,) = part.take(1)
                _linking(what, part.part(), found)


def _import(part: _Bytes, found: _Read) -> None:
    module, name, (kind,) = part.name(), part.name(), part.take(1)
    found.imported.setdefault(kind, []).append(name)
    found.modules.append(f"{module}.{name}")
    if kind == 1:  # a table: the type of its elements, its limits
        part.take(1)
    if kind in (1, 2):
        flags = part.number()
        part.number()
        if flags & 1:
            part.number()
    elif kind == 3:
        part.take(2)
    else:
        if kind == 4:
            part.take(1)
        part.number()


def _segment(part: _Bytes) -> tuple[int, int]:
    """Where its bytes are; the address before them is a constant expression."""
    flags = part.number()
    if flags == 2:
        part.number()
    if flags != 1:
        while part.take(1) != b"\x0b":
            pass
    size = part.number()
    part.take(size)
    return part.at - size, size


def _linking(what: int, part: _Bytes, found: _Read) -> None:
    if what == SEGMENTS:
        for _ in range(part.number()):
            name, align, _ = part.name(), part.number(), part.number()
            found.names.append((name, align))
    if what == SYMBOLS:
        for _ in range(part.number()):
            symbol = _symbol(part, found)
            found.symbols += [symbol] if symbol else []


def _symbol(part: _Bytes, found: _Read) -> Symbol | None:
    """Functions and data: globals, tables and tags are what every module has for itself."""
    kind, flags = part.take(1)[0], part.number()
    if kind == SECTION:
        part.number()
        return None
    bind = "local" if flags & LOCAL else "weak" if flags & WEAK else "global"
    seen = "hidden" if flags & HIDDEN else "default"
    if kind == OBJECT:
        name = part.name()
        if flags & ABSENT:
            return Symbol(name, 0, 0, "OBJECT", bind, seen, None, "undefined")
        segment, offset, size = part.number(), part.number(), part.number()
        return Symbol(name, offset, size, "OBJECT", bind, seen, 2 + segment)
    index = part.number()
    name = part.name() if not flags & ABSENT or flags & NAMED else ""
    if kind != FUNCTION:
        return None
    if flags & ABSENT:
        name = name or found.imported[0][index]
        return Symbol(name, 0, 0, "NOTYPE", bind, seen, None, "undefined")
    return Symbol(name, 0, 0, "NOTYPE", bind, seen, 1)
