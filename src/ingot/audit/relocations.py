"""Relocations in words: why a reference was left to the linker.

In: a relocation, read by `elf.py`. Out: one clause. Called by `audit.py`.
"""

from __future__ import annotations

import re

from ingot.binary.record import ObjectFile, Relocation

_BY_TYPE = (
    (r"TLS|TPOFF|TPREL|DTP", "a thread's own copy: known when the thread's storage is laid out"),
    (r"GOT", "its address is read from the table of addresses (GOT), which the linker makes"),
    (r"RELAX$", "a mark: the linker may shorten this code"),
    (r"ALIGN$", "a mark: the linker trims this padding when it has shortened what stands before"),
    (r"(RELATIVE|GLOB_DAT|JUMP_SLO?T|COPY)", "written by the dynamic loader, which knows the address"),
)
_PAGE = r"_(PG_|HI21|LO12|ADR_PREL|ADD_ABS_LO|LDST\d+_ABS|HI20|TOC|HA$|HI$|LO$|LO_DS)"
_DISTANCE = r"(PC\d|REL\d|PREL|_CALL|JUMP|PLT|BRANCH|_JAL|JAL$|CONDBR|TSTBR|THM_|DBL)"


def why_left(file: ObjectFile, relocation: Relocation) -> str:
    """Why an assembler could not finish this reference by itself."""
    kind, symbol = relocation.type, relocation.symbol
    for pattern, reason in _BY_TYPE:
        if re.search(pattern, kind):
            return reason
    if symbol.place == "undefined" and symbol.name:
        return f"'{symbol.name}' is not in this file"
    if symbol.section is None:
        return "it names no place in this file"
    if symbol.section != relocation.section:
        return f"it lies in another section, {file.sections[symbol.section].name}: the linker places both"
    if symbol.bind != "local" and symbol.visibility == "default":
        return "it is global: the linker may put another definition in its place"
    if symbol.bind != "local":
        return "it is global: the linker binds such names"
    if file.machine == "EM_RISCV":
        return "no distance is final: the linker may shorten code between here and there"
    if re.search(_PAGE, kind):
        return "a part of an address: known when the section is placed"
    if not re.search(_DISTANCE, kind):
        return "an absolute address: known when the section is placed"
    return "the assembler leaves this type to the linker"
