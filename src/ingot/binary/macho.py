"""A Mach-O object of 64 bits, which is what macOS' compilers make, as records. Nothing in the file is
believed.

In: the bytes of an object. Out: an `ObjectFile`. Called by `read.py`. The layout is that of the headers
`mach-o/loader.h`, `mach-o/nlist.h` and `mach-o/reloc.h`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from ingot.binary.record import ALLOC, EXEC, WRITE, ObjectFile, Relocation, Section, Symbol
from ingot.errors import InputError

MAGIC = b"\xcf\xfa\xed\xfe"
MACHINES = {0x0100_0007: "EM_X86_64", 0x0100_000C: "EM_AARCH64"}
KINDS = {1: "ET_REL", 2: "ET_EXEC", 6: "ET_DYN", 8: "ET_DYN"}
HEADER, COMMAND, SEGMENT, SECTION, TABLE, SYMBOL = map(
    struct.Struct, ("<8I", "<2I", "<2I16s4Q4I", "<16s16s2Q8I", "<6I", "<IBBHQ")
)
LC_SEGMENT, LC_SYMTAB = 0x19, 0x2
INSTRUCTIONS, ZERO_FILLED = 0x8000_0400, (1, 12)
DEBUGGING, EXTERNAL, KIND, HIDDEN = 0xE0, 0x01, 0x0E, 0x10
UNDEFINED, DEFINED = 0x0, 0xE
TYPES = {
    "EM_X86_64": "UNSIGNED SIGNED BRANCH GOT_LOAD GOT SUBTRACTOR SIGNED_1 SIGNED_2 SIGNED_4 TLV",
    "EM_AARCH64": "UNSIGNED SUBTRACTOR BRANCH26 PAGE21 PAGEOFF12 GOT_LOAD_PAGE21 GOT_LOAD_PAGEOFF12 "
    "POINTER_TO_GOT TLVP_LOAD_PAGE21 TLVP_LOAD_PAGEOFF12 ADDEND",
}


def read_macho(content: bytes) -> ObjectFile:
    """Parse and check; struct.error, IndexError or InputError where the file contradicts itself."""
    _, cpu, _, kind, commands, *_ = HEADER.unpack_from(content)
    if cpu not in MACHINES:
        raise InputError(f"the Mach-O file is for an unknown processor, {cpu:#x}")
    machine, headers, symbols = MACHINES[cpu], [], []
    for command, at in _commands(content, commands):
        if command == LC_SEGMENT:
            count = SEGMENT.unpack_from(content, at)[9]
            headers += [
                SECTION.unpack_from(content, at + SEGMENT.size + i * SECTION.size) for i in range(count)
            ]
        if command == LC_SYMTAB:
            symbols = _symbols(content, at, headers)
    sections = [_section(i + 1, h, len(content)) for i, h in enumerate(headers)]
    relocations = [
        r
        for s, h in zip(sections, headers, strict=True)
        for r in _relocations(content, machine, s, h, symbols)
    ]
    nothing = Section(0, "", "SHT_NULL", 0, 0, 0, 0, 0, 0, 0, 0)
    named = tuple(s for s in symbols if s is not None)
    everything = (nothing, *sections)
    what = KINDS.get(kind, f"Mach-O type {kind}")
    return ObjectFile(machine, what, 64, "little", 0, content, everything, named, tuple(relocations), "macho")


def _commands(content: bytes, count: int) -> Iterator[tuple[int, int]]:
    at = HEADER.size
    for _ in range(count):
        command, size = COMMAND.unpack_from(content, at)
        if size < COMMAND.size:
            raise InputError(f"a load command of the Mach-O file has {size} bytes")
        yield command, at
        at += size


def _section(index: int, header: tuple[bytes | int, ...], length: int) -> Section:
    name, segment, address, size, offset, align, _, _, flags, *_ = header
    assert isinstance(name, bytes) and isinstance(segment, bytes) and isinstance(flags, int)
    numbers = [n for n in (address, size, offset, align) if isinstance(n, int)]
    is_empty = flags & 0xFF in ZERO_FILLED
    if not is_empty and numbers[2] + numbers[1] > length:
        raise InputError(f"section {index} of the Mach-O file ends beyond its {length} bytes")
    where = segment.rstrip(b"\0").decode(errors="replace")
    text = f"{where},{name.rstrip(bytes(1)).decode(errors='replace')}"
    held = 0 if where in ("__DWARF", "__LD", "__LLVM") else ALLOC
    held |= (EXEC if flags & INSTRUCTIONS else 0) | (WRITE if where == "__DATA" else 0)
    kind = "SHT_NOBITS" if is_empty else "SHT_PROGBITS"
    return Section(
        index, text, kind, held, numbers[0], numbers[2], numbers[1], 1 << min(numbers[3], 63), 0, 0, 0
    )


def _symbols(content: bytes, at: int, sections: Sequence[tuple[bytes | int, ...]]) -> list[Symbol | None]:
    """As many as the table has rows; None for what debuggers read. C's names begin with an underscore."""
    _, _, first, count, strings, size = TABLE.unpack_from(content, at)
    names = content[strings : strings + size]
    found: list[Symbol | None] = []
    for i in range(count):
        start, kind, section, _, value = SYMBOL.unpack_from(content, first + i * SYMBOL.size)
        name = names[start : names.index(b"\0", start)].decode("utf-8", errors="backslashreplace")
        found.append(None if kind & DEBUGGING else _symbol(name, kind, section, value, sections))
    return found


def _symbol(
    name: str, kind: int, section: int, value: int, sections: Sequence[tuple[bytes | int, ...]]
) -> Symbol:
    bind = "global" if kind & EXTERNAL else "local"
    seen = "hidden" if kind & HIDDEN else "default"
    shown = name.removeprefix("_")
    if kind & KIND != DEFINED:
        place = ("common" if value else "undefined") if kind & KIND == UNDEFINED else "absolute"
        return Symbol(shown, value, 0, "NOTYPE", bind, seen, None, place)
    if not 0 < section <= len(sections):
        raise InputError(f"symbol '{shown}' of the Mach-O file lies in section {section}, of {len(sections)}")
    header = sections[section - 1]
    address, flags = header[2], header[8]
    assert isinstance(address, int) and isinstance(flags, int)
    is_code = flags & INSTRUCTIONS and name.startswith("_")
    return Symbol(shown, value - address, 0, "FUNC" if is_code else "OBJECT", bind, seen, section)


def _relocations(
    content: bytes,
    machine: str,
    section: Section,
    header: Sequence[bytes | int],
    symbols: Sequence[Symbol | None],
) -> Iterator[Relocation]:
    """Those without a symbol are against a section, whose number stands in its place."""
    at, count = int(header[6]), int(header[7])
    names = TYPES[machine].split()
    for i in range(count):
        offset, info = struct.unpack_from("<iI", content, at + 8 * i)
        index, kind = info & 0xFFFFFF, info >> 28
        name = names[kind] if kind < len(names) else f"type {kind}"
        symbol = symbols[index] if info >> 27 & 1 else _of_section(index, name)
        if symbol is None or not 0 <= offset <= section.size:
            raise InputError(f"a relocation in '{section.name}' of the Mach-O file is for no symbol or place")
        yield Relocation(section.index, offset, name, symbol, None)


def _of_section(index: int, kind: str) -> Symbol:
    """ADDEND's number is one, and no section."""
    if kind == "ADDEND":
        return Symbol("", index, 0, "NOTYPE", "local", "default", None, "absolute")
    return Symbol(f"section {index}", 0, 0, "SECTION", "local", "default", index)
