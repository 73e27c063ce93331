"""A COFF object, which is what Windows' compilers make, as records. Nothing in the file is believed.

In: the bytes of an object. Out: an `ObjectFile`. Called by `read.py`. The layout is that of Microsoft's "PE
Format", sections 3 to 5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from ingot.binary.record import ALLOC, EXEC, WRITE, ObjectFile, Relocation, Section, Symbol
from ingot.errors import InputError

MACHINES = {0x8664: ("EM_X86_64", 64), 0x14C: ("EM_386", 32), 0xAA64: ("EM_AARCH64", 64)}
HEADER, SECTION, SYMBOL, RELOCATION = map(struct.Struct, ("<HHIIIHH", "<8s6I2HI", "<8sIhHBB", "<IIH"))
NOT_LINKED, UNINITIALIZED, EXECUTED, WRITTEN = 0xA00, 0x80, 0x20000000, 0x80000000
EXTERNAL, STATIC, WEAK = 2, 3, 105
FUNCTION = 0x20
TYPES = {
    "EM_X86_64": "ABSOLUTE ADDR64 ADDR32 ADDR32NB REL32 REL32_1 REL32_2 REL32_3 REL32_4 REL32_5 SECTION "
    "SECREL",
    "EM_386": "ABSOLUTE DIR16 REL16 - - - DIR32 DIR32NB - SEG12 SECTION SECREL TOKEN - - - - - - - REL32",
    "EM_AARCH64": "ABSOLUTE ADDR32 ADDR32NB BRANCH26 PAGEBASE_REL21 REL21 PAGEOFFSET_12A PAGEOFFSET_12L "
    "SECREL SECREL_LOW12A SECREL_HIGH12A SECREL_LOW12L TOKEN SECTION ADDR64 BRANCH19 BRANCH14 REL32",
}


def read_coff(content: bytes) -> ObjectFile:
    """Parse and check; struct.error, IndexError or InputError where the file contradicts itself."""
    number, count, _, symbols_at, symbol_count, optional, _ = HEADER.unpack_from(content)
    machine, bits = MACHINES[number]
    end = symbols_at + symbol_count * SYMBOL.size
    strings = content[end : end + int.from_bytes(content[end : end + 4], "little")] if symbols_at else b""
    headers = [SECTION.unpack_from(content, HEADER.size + optional + i * SECTION.size) for i in range(count)]
    sections = [_section(i + 1, h, strings, len(content)) for i, h in enumerate(headers)]
    prefix = "_" if bits == 32 else ""
    symbols = _symbols(content, symbols_at, symbol_count, strings, len(sections), prefix)
    relocations = [
        r
        for s, h in zip(sections, headers, strict=True)
        for r in _relocations(content, machine, s, h, symbols)
    ]
    nothing = Section(0, "", "SHT_NULL", 0, 0, 0, 0, 0, 0, 0, 0)
    named = tuple(s for s in symbols if s is not None)
    return ObjectFile(
        machine, "ET_REL", bits, "little", 0, content, (nothing, *sections), named, tuple(relocations), "coff"
    )


def _section(index: int, header: tuple[bytes | int, ...], strings: bytes, length: int) -> Section:
    name, _, _, size, offset, *_, flags = header
    assert isinstance(name, bytes) and isinstance(size, int) and isinstance(offset, int)
    assert isinstance(flags, int)
    is_empty = bool(flags & UNINITIALIZED)
    if not is_empty and offset + size > length:
        raise InputError(f"section {index} of the COFF file ends at byte {offset + size} of {length}")
    text = name.rstrip(b"\0").decode("utf-8", errors="backslashreplace")
    text = _string(strings, int(text[1:])) if text.startswith("/") else text
    held = 0 if flags & NOT_LINKED else ALLOC
    held |= (EXEC if flags & EXECUTED else 0) | (WRITE if flags & WRITTEN else 0)
    align = 1 << max((flags >> 20 & 15) - 1, 0)
    kind = "SHT_NOBITS" if is_empty else "SHT_PROGBITS"
    return Section(index, text, kind, held, 0, offset, size, align, 0, 0, 0)


def _symbols(
    content: bytes, at: int, count: int, strings: bytes, sections: int, prefix: str
) -> list[Symbol | None]:
    """As many as the table has rows: what belongs to the symbol before it is None."""
    found: list[Symbol | None] = []
    while len(found) < count:
        row = SYMBOL.unpack_from(content, at + len(found) * SYMBOL.size)
        found += [_symbol(row, strings, sections, prefix), *[None] * row[5]]
    return found[:count]


def _symbol(row: tuple[bytes, int, int, int, int, int], strings: bytes, sections: int, prefix: str) -> Symbol:
    raw, value, section, kind, storage, more = row
    if raw[:4] == b"\0\0\0\0":
        name = _string(strings, int.from_bytes(raw[4:], "little"))
    else:
        name = raw.rstrip(b"\0").decode("utf-8", errors="backslashreplace")
    if section > sections:
        raise InputError(f"symbol '{name}' of the COFF file lies in section {section}, of {sections}")
    bind = {EXTERNAL: "global", WEAK: "weak"}.get(storage, "local")
    place = {0: "undefined" if not value else "common", -1: "absolute", -2: "absolute"}.get(section, "")
    shape = (
        "FUNC" if kind == FUNCTION else "SECTION" if storage == STATIC and more and not value else "OBJECT"
    )
    name = name.removeprefix(prefix)
    return Symbol(name, value, 0, shape, bind, "default", section if section > 0 else None, place)


def _relocations(
    content: bytes,
    machine: str,
    section: Section,
    header: Sequence[bytes | int],
    symbols: Sequence[Symbol | None],
) -> Iterator[Relocation]:
    at, count = int(header[5]), int(header[7])
    names = TYPES[machine].split()
    for i in range(count):
        offset, index, kind = RELOCATION.unpack_from(content, at + i * RELOCATION.size)
        symbol = symbols[index]
        if symbol is None or offset > section.size:
            raise InputError(
                f"a relocation in '{section.name}' of the COFF file is for no symbol or no place"
            )
        name = f"{names[kind]}" if kind < len(names) else f"type {kind}"
        yield Relocation(section.index, offset, name, symbol, None)


def _string(table: bytes, start: int) -> str:
    end = table.index(b"\0", start)
    return table[start:end].decode("utf-8", errors="backslashreplace")
