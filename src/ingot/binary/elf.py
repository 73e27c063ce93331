"""An ELF file as plain records: sections, symbols, relocations. Nothing in the file is believed.

In: the bytes of any ELF file. Out: an `ObjectFile`, or one InputError that says what is wrong. Called by
`read.py`. pyelftools knows the layouts and the names; the walk over the tables is here,
because every offset, size and count is checked against the file before anything is read by it.
"""

from __future__ import annotations

import bisect
import io
import struct
from collections.abc import Iterator
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.elf.descriptions import describe_reloc_type
from elftools.elf.elffile import ELFFile

from ingot.binary.record import ALLOC, TLS, ObjectFile, Relocation, Section, Symbol
from ingot.errors import InputError

NAME_LIMIT, SECTION_LIMIT = 1 << 16, 1 << 17
UNDEFINED, ABSOLUTE, COMMON, EXTENDED = 0, 0xFFF1, 0xFFF2, 0xFFFF
_RISCV = (
    "NONE 32 64 RELATIVE COPY JUMP_SLOT TLS_DTPMOD32 TLS_DTPMOD64 TLS_DTPREL32 TLS_DTPREL64 TLS_TPREL32 "
    "TLS_TPREL64 TLSDESC - - - BRANCH JAL CALL CALL_PLT GOT_HI20 TLS_GOT_HI20 TLS_GD_HI20 PCREL_HI20 "
    "PCREL_LO12_I PCREL_LO12_S HI20 LO12_I LO12_S TPREL_HI20 TPREL_LO12_I TPREL_LO12_S TPREL_ADD ADD8 ADD16 "
    "ADD32 ADD64 SUB8 SUB16 SUB32 SUB64 GOT32_PCREL - ALIGN RVC_BRANCH RVC_JUMP - - - - - RELAX SUB6 SET6 "
    "SET8 SET16 SET32 32_PCREL IRELATIVE PLT32 SET_ULEB128 SUB_ULEB128"
)
# Types of relocations that pyelftools does not know.
_RELOCATIONS = {
    "EM_RISCV": {i: f"R_RISCV_{name}" for i, name in enumerate(_RISCV.split()) if name != "-"},
    "EM_X86_64": {41: "R_X86_64_GOTPCRELX"},
    "EM_AARCH64": {299: "R_AARCH64_LDST128_ABS_LO12_NC"},
}
_MACHINES = {244: "EM_LANAI", 251: "EM_VE"}  # nor these
_KINDS = ("NOTYPE", "OBJECT", "FUNC", "SECTION", "FILE", "COMMON", "TLS", "", "", "", "IFUNC")
_BINDS = {0: "local", 1: "global", 2: "weak", 10: "global"}
_VISIBILITY = ("default", "internal", "hidden", "protected")


def read_elf(content: bytes) -> ObjectFile:
    """Parse and check. InputError for anything but a whole ELF file with section headers."""
    try:
        elf = ELFFile(io.BytesIO(content))
        return _Reader(elf, content).read()
    except (ELFError, UnicodeDecodeError, ValueError, KeyError, IndexError, OverflowError) as error:
        remedy = "give an object (.o), or the directory of a bundle, which `ingot compile` makes of a model"
        raise InputError(
            f"not an ELF object ({error}); first bytes {content[:4]!r}", remedy=remedy
        ) from error


class _Reader:
    def __init__(self, elf: ELFFile, content: bytes) -> None:
        self.elf, self.content = elf, content
        self.order = "<" if elf.little_endian else ">"
        self.wide = elf.elfclass == 64
        self.linked = elf["e_type"] != "ET_REL"
        self.kinds: dict[int, str] = {}

    def read(self) -> ObjectFile:
        elf = self.elf
        self.sections = self._sections()
        mapped = [s for s in self.sections if s.flags & ALLOC and s.size and not s.flags & TLS]
        self.mapped = sorted(mapped, key=lambda s: s.address)
        self.starts = [s.address for s in self.mapped]
        tables = {s.index: self._symbols(s) for s in self.sections if s.type in ("SHT_SYMTAB", "SHT_DYNSYM")}
        symbols = [symbol for table in tables.values() for symbol in table]
        relocations = [r for s in self.sections for r in self._relocations(s, tables)]
        return ObjectFile(
            _MACHINES.get(elf["e_machine"], str(elf["e_machine"])),
            str(elf["e_type"]),
            elf.elfclass,
            "little" if elf.little_endian else "big",
            int(elf["e_flags"]),
            self.content,
            tuple(self.sections),
            tuple(symbols),
            tuple(relocations),
        )

    def _sections(self) -> list[Section]:
        elf, layout = self.elf, self.elf.structs.Elf_Shdr
        start, each, size = elf["e_shoff"], elf["e_shentsize"], layout.sizeof()
        if not start:
            raise InputError("the ELF file has no section headers: nothing in it can be named")
        if each != size:
            raise InputError(f"the ELF file's section headers are {each} bytes each, not {size}")
        self._require(start, size, "the first section header")
        first = struct_parse(layout, elf.stream, start)
        count = elf["e_shnum"] or first["sh_size"]
        if count > SECTION_LIMIT:
            raise InputError(f"the ELF file counts {count} sections, more than {SECTION_LIMIT}")
        self._require(start, count * size, f"a table of {count} section headers")
        headers = [struct_parse(layout, elf.stream, start + i * size) for i in range(count)]
        for i, h in enumerate(headers):
            if h["sh_type"] not in ("SHT_NOBITS", "SHT_NULL"):
                self._require(h["sh_offset"], h["sh_size"], f"section {i}")
        if sum(h["sh_size"] for h in headers if h["sh_type"] not in ("SHT_NOBITS", "SHT_NULL")) > self.length:
            raise InputError("the ELF file's sections are more bytes than the file: they overlap")
        index = elf["e_shstrndx"] if elf["e_shstrndx"] != EXTENDED else first["sh_link"]
        names = self._slice(headers[index]) if 0 < index < count else b""
        return [self._section(i, h, names) for i, h in enumerate(headers)]

    @property
    def length(self) -> int:
        return len(self.content)

    def _require(self, start: int, size: int, what: str) -> None:
        if start + size > self.length:
            raise InputError(
                f"the ELF file is truncated or wrong: {what} at byte {start} is {size} bytes long, "
                f"the file {self.length}"
            )

    def _slice(self, header: Any) -> bytes:
        return self.content[header["sh_offset"] : header["sh_offset"] + header["sh_size"]]

    def _section(self, index: int, h: Any, names: bytes) -> Section:
        return Section(
            index,
            _string(names, h["sh_name"]),
            str(h["sh_type"]),
            h["sh_flags"],
            h["sh_addr"],
            h["sh_offset"],
            h["sh_size"],
            h["sh_addralign"],
            h["sh_link"],
            h["sh_info"],
            h["sh_entsize"],
        )

    def _bytes(self, section: Section) -> bytes:
        return self.content[section.offset : section.offset + section.size]

    def _table(self, section: Section, layout: str) -> Iterator[tuple[int, ...]]:
        """Records of a section that holds nothing else."""
        size = struct.calcsize(self.order + layout)
        if section.entry_size not in (0, size) or section.size % size:
            raise InputError(
                f"section '{section.name}' of the ELF file is {section.size} bytes with entries of "
                f"{section.entry_size}: no table of entries of {size}"
            )
        return struct.iter_unpack(self.order + layout, self._bytes(section))

    def _symbols(self, section: Section) -> list[Symbol]:
        names = self._bytes(self._linked(section))
        wider = [s for s in self.sections if s.type == "SHT_SYMTAB_SHNDX" and s.link == section.index]
        high = [n for (n,) in self._table(wider[0], "I")] if wider else []
        made = []
        for i, row in enumerate(self._table(section, "IBBHQQ" if self.wide else "IIIBBH")):
            name, info, other, index, value, size = row if self.wide else (row[0], *row[3:], *row[1:3])
            index = high[i] if index == EXTENDED and i < len(high) else index
            made.append(self._symbol(_string(names, name), info, other, index, value, size))
        return made

    def _symbol(self, name: str, info: int, other: int, index: int, value: int, size: int) -> Symbol:
        kind = _KINDS[info & 15] if info & 15 < len(_KINDS) else ""
        bind, seen = _BINDS.get(info >> 4, "global"), _VISIBILITY[other & 3]
        place = {UNDEFINED: "undefined", ABSOLUTE: "absolute", COMMON: "common"}.get(index, "")
        if place:
            return Symbol(name, value, size, kind, bind, seen, None, place)
        if index >= len(self.sections):
            raise InputError(
                f"symbol '{name}' of the ELF file lies in section {index}, of {len(self.sections)}"
            )
        section = self.sections[index]
        value -= section.address if self.linked and kind != "TLS" else 0
        name = section.name if kind == "SECTION" and not name else name
        return Symbol(name, value, size, kind, bind, seen, index)

    def _linked(self, section: Section) -> Section:
        if not 0 < section.link < len(self.sections):
            raise InputError(
                f"section '{section.name}' of the ELF file names section {section.link} as its own"
            )
        return self.sections[section.link]

    def _relocations(self, section: Section, tables: dict[int, list[Symbol]]) -> Iterator[Relocation]:
        if section.type not in ("SHT_REL", "SHT_RELA"):
            return
        has_addend = section.type == "SHT_RELA"
        number = ("Qq" if has_addend else "Q") if self.wide else ("Ii" if has_addend else "I")
        symbols = tables.get(section.link, [])
        for offset, info, *addend in self._table(section, ("Q" if self.wide else "I") + number):
            symbol, kind = self._target(info)
            if symbol and symbol >= len(symbols):
                raise InputError(
                    f"a relocation in '{section.name}' of the ELF file is against symbol {symbol}, "
                    f"of {len(symbols)}"
                )
            place, offset = self._place(section, offset)
            to = (
                symbols[symbol]
                if symbols
                else Symbol("", 0, 0, "NOTYPE", "local", "default", None, "absolute")
            )
            yield Relocation(place, offset, self._name(kind), to, addend[0] if addend else None)

    def _target(self, info: int) -> tuple[int, int]:
        """(symbol, type); MIPS of 64 bits packs both in an order of its own."""
        if not self.wide:
            return info >> 8, info & 0xFF
        if self.elf["e_machine"] == "EM_MIPS" and self.elf.little_endian:
            return info & 0xFFFFFFFF, info >> 56
        return info >> 32, info & (0xFF if self.elf["e_machine"] == "EM_MIPS" else 0xFFFFFFFF)

    def _place(self, section: Section, offset: int) -> tuple[int, int]:
        """Section and offset in it: of a linked file the relocation gives an address."""
        if self.linked:
            i = bisect.bisect_right(self.starts, offset) - 1
            s = self.mapped[i] if i >= 0 else None
            if s is None or offset > s.address + s.size:
                raise InputError(f"a relocation in '{section.name}' of the ELF file is for no section")
            return s.index, offset - s.address
        if not 0 < section.info < len(self.sections) or offset > self.sections[section.info].size:
            raise InputError(f"a relocation in '{section.name}' of the ELF file lies outside of its section")
        return section.info, offset

    def _name(self, kind: int) -> str:
        """A kind of relocation, each looked up once: a file has many of few kinds."""
        if kind not in self.kinds:
            known = _RELOCATIONS.get(self.elf["e_machine"], {}).get(kind)
            name = known or str(describe_reloc_type(kind, self.elf))
            self.kinds[kind] = name if name.startswith("R_") else f"type {kind}"
        return self.kinds[kind]


def _string(table: bytes, start: int) -> str:
    """The name at an offset of a string table; sections without one have the empty name."""
    if start >= len(table):
        if start or table:
            raise InputError(f"a name of the ELF file begins behind its table ({start}, of {len(table)})")
        return ""
    end = table.find(b"\0", start, start + NAME_LIMIT)
    if end < 0:
        raise InputError("a name of the ELF file has no end")
    return table[start:end].decode("utf-8", errors="backslashreplace")
