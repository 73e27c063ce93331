"""What is inside an object file: section sizes, symbols, relocations, functions.

In: the bytes of a relocatable ELF file. Out: numbers and names for reports, manifests and checks. Called by
`bundle`, `inspect` and tests; `stack.py` builds on `functions`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, Symbol, SymbolTableSection

from ..errors import ToolchainError


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


def read_elf(object_bytes: bytes) -> ELFFile:
    """Parsed file; ToolchainError for anything but ELF."""
    try:
        return ELFFile(io.BytesIO(object_bytes))
    except ELFError as error:
        raise ToolchainError(f"not an ELF object ({error}); first bytes {object_bytes[:4]!r}") from error


def sections(object_bytes: bytes) -> Sections:
    """Sizes by kind; unwind tables and other allocated read-only data count as rodata."""
    sizes = dict.fromkeys(("text", "rodata", "data", "bss"), 0)
    for section in _allocated(object_bytes):
        sizes[_kind(section)] += section["sh_size"]
    return Sections(**sizes)


def _allocated(object_bytes: bytes) -> Iterator[Section]:
    return (s for s in read_elf(object_bytes).iter_sections() if s["sh_flags"] & SH_FLAGS.SHF_ALLOC)


def _kind(section: Section) -> str:
    flags = section["sh_flags"]
    if flags & SH_FLAGS.SHF_EXECINSTR:
        return "text"
    if flags & SH_FLAGS.SHF_WRITE:
        return "bss" if section["sh_type"] == "SHT_NOBITS" else "data"
    return "rodata"


def writable_bytes(object_bytes: bytes) -> int:
    """Bytes of hidden state: allocated writable sections, .bss included. A bundle has none."""
    found = sections(object_bytes)
    return found.data + found.bss


def undefined_symbols(object_bytes: bytes) -> list[str]:
    """What the linker must find elsewhere, sorted."""
    return sorted(s.name for s in _symbols(read_elf(object_bytes)) if s.name and s["st_shndx"] == "SHN_UNDEF")


def defined_symbols(object_bytes: bytes) -> list[str]:
    """What other objects can link to (not the static ones), sorted."""
    return sorted(s.name for s in _symbols(read_elf(object_bytes)) if _is_external(s))


def _is_external(symbol: Symbol) -> bool:
    return bool(symbol["st_info"]["bind"] != "STB_LOCAL" and symbol["st_shndx"] != "SHN_UNDEF")


def _symbols(elf: ELFFile) -> Iterator[Symbol]:
    for section in elf.iter_sections():
        if isinstance(section, SymbolTableSection):
            yield from section.iter_symbols()


def functions(elf: ELFFile) -> list[Function]:
    """Every function symbol with its code; names of static functions may repeat."""
    symbols = list(_symbols(elf))
    data = _data_ranges(elf, symbols)
    relocations = _relocations(elf)
    thumb = elf["e_machine"] == "EM_ARM"
    found = []
    for symbol in symbols:
        if symbol["st_info"]["type"] != "STT_FUNC" or not isinstance(symbol["st_shndx"], int):
            continue
        index, start, size = symbol["st_shndx"], symbol["st_value"] & ~int(thumb), symbol["st_size"]
        code = elf.get_section(index).data()[start : start + size]
        near = {at - start: to for at, to in relocations.get(index, {}).items() if start <= at < start + size}
        holes = tuple(
            (lo - start, hi - start) for lo, hi in data.get(index, ()) if start <= lo < start + size
        )
        found.append(Function(symbol.name, index, start, code, near, holes))
    return found


def _relocations(elf: ELFFile) -> dict[int, dict[int, tuple[str, int]]]:
    """Section -> offset -> (symbol, addend); a section's own symbol is written `#INDEX`."""
    found: dict[int, dict[int, tuple[str, int]]] = {}
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection):
            continue
        table = elf.get_section(section["sh_link"])
        assert isinstance(table, SymbolTableSection), "relocations are against a symbol table"
        for relocation in section.iter_relocations():
            symbol = table.get_symbol(relocation["r_info_sym"])
            is_section = symbol["st_info"]["type"] == "STT_SECTION"
            name = f"#{symbol['st_shndx']}" if is_section else symbol.name
            addend = relocation["r_addend"] if relocation.is_RELA() else 0
            found.setdefault(section["sh_info"], {})[relocation["r_offset"]] = (name, addend)
    return found


def _data_ranges(elf: ELFFile, symbols: list[Symbol]) -> dict[int, list[tuple[int, int]]]:
    """Arm's mapping symbols `$d` ... `$t` say where code sections hold constants."""
    marks: dict[int, list[tuple[int, str]]] = {}
    for symbol in symbols:
        if symbol.name[:2] in ("$d", "$t", "$x", "$a") and isinstance(symbol["st_shndx"], int):
            marks.setdefault(symbol["st_shndx"], []).append((symbol["st_value"], symbol.name[:2]))
    ranges = {}
    for index, found in marks.items():
        found.sort()
        ends = [at for at, _ in found[1:]] + [elf.get_section(index)["sh_size"]]
        ranges[index] = [(at, end) for (at, kind), end in zip(found, ends, strict=True) if kind == "$d"]
    return ranges
