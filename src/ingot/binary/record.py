"""An object file as plain records, whatever its format: sections, symbols, relocations.

The words are ELF's. A reader for each format makes an `ObjectFile`; everything that is asked of one
is asked of these records (`objects.py`, `audit/`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

WRITE, ALLOC, EXEC, TLS = 0x1, 0x2, 0x4, 0x400


@dataclass(frozen=True, slots=True)
class Section:
    """`offset` is where its content lies in the file; a NOBITS section has none."""

    index: int
    name: str
    type: str
    flags: int
    address: int
    offset: int
    size: int
    align: int
    link: int
    info: int
    entry_size: int

    @property
    def is_code(self) -> bool:
        return bool(self.flags & EXEC and self.flags & ALLOC and self.type != "SHT_NOBITS")


@dataclass(frozen=True, slots=True)
class Symbol:
    """`value` is an offset in `section`; None: not defined here, absolute or common, as `place` says."""

    name: str
    value: int
    size: int
    kind: str
    bind: str
    visibility: str
    section: int | None
    place: str = ""


@dataclass(frozen=True, slots=True)
class Relocation:
    """What the linker still has to write at `offset` of `section`; `addend` None lies in the bytes there."""

    section: int
    offset: int
    type: str
    symbol: Symbol
    addend: int | None


@dataclass(frozen=True, eq=False)
class ObjectFile:
    """`kind`: ET_REL is an object or a kernel module, ET_DYN and ET_EXEC are linked. `format`: elf, coff,
    macho, wasm.
    """

    machine: str
    kind: str
    bits: int
    endian: str
    flags: int
    content: bytes
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]
    format: str = "elf"

    def data(self, section: Section) -> bytes:
        """Its bytes in the file; empty if it takes memory only."""
        is_empty = section.type == "SHT_NOBITS"
        return b"" if is_empty else self.content[section.offset : section.offset + section.size]

    @cached_property
    def code(self) -> tuple[Section, ...]:
        return tuple(s for s in self.sections if s.is_code)


def machine_name(file: ObjectFile) -> str:
    """EM_X86_64 as people write it, with bits and byte order."""
    name = file.machine.removeprefix("EM_").lower().replace("_", "-")
    return f"{name}, {file.bits} bits, {file.endian}-endian"
