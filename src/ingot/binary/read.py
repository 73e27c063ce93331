"""An object file of any format as records. Called by everything that looks into one."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ingot.binary.coff import MACHINES as COFF_MACHINES
from ingot.binary.coff import read_coff
from ingot.binary.elf import read_elf
from ingot.binary.macho import MAGIC as MACHO
from ingot.binary.macho import read_macho
from ingot.binary.record import ObjectFile
from ingot.binary.wasm import MAGIC as WASM
from ingot.binary.wasm import read_wasm
from ingot.errors import InputError

READERS: dict[bytes, tuple[str, Callable[[bytes], ObjectFile]]] = {
    WASM: ("WebAssembly", read_wasm),
    MACHO: ("Mach-O", read_macho),
    **{machine.to_bytes(2, "little"): ("COFF", read_coff) for machine in COFF_MACHINES},
}
"""By the first bytes of the file; ELF is what is none of these."""


def read_object(content: bytes) -> ObjectFile:
    """Parse and check. InputError for anything but a whole object, library or program of a known format."""
    if content[:8] == b"!<arch>\n":
        raise InputError("this is an archive", remedy="take its members apart: ar x FILE.a")
    what, read = next((r for magic, r in READERS.items() if content.startswith(magic)), ("ELF", read_elf))
    try:
        return read(content)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise InputError(f"the {what} file is truncated or wrong: {error}") from error
