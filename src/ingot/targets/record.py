"""What a target is: one frozen record of data. No other place asks "which target is this?".

In: nothing. Out: `Target`. The records themselves are in `records.py`, the spellings of instructions in
`spelling.py`; generators read the sizes, `emit` reads the spellings, `toolchain` reads the flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Format = Literal["elf", "coff", "macho", "wasm"]
"""What an object file is: Linux's and of all bare machines, Windows', macOS', WebAssembly's."""

Spellings = Mapping[tuple[str, str], str]
"""(operation, dtype name of {a}) -> C expression with {a} {b} {c}; the vocabulary is in `spelling.py`."""


@dataclass(frozen=True, slots=True)
class Target:
    """A processor, how C is compiled for it, and which instructions are worth spelling out.

    `flags` are for the pinned clang, `gcc` is command and flags of the gcc that builds for it (its flags also
    serve a `cc` of the user's own). An operation that `spelling` does not know is written in GNU C.
    `aliases` are what users call it: other names of the processor, boards and chips that have it.
    """

    name: str
    description: str
    triple: str
    flags: tuple[str, ...] = ()
    gcc: tuple[str, ...] | None = None
    aliases: tuple[str, ...] = ()
    is_portable: bool = False  # its C is for any processor: a `cc` of the user's own may build for another
    format: Format = "elf"
    joins: bool = True  # whether the pinned linker makes one object of several
    endian: Literal["little", "big"] = "little"
    pointer_bytes: int = 8
    vector_bytes: int = 0  # 0: scalar
    has_floats: bool = True  # instructions for them; where not, networks of integers have none
    registers: int = 16  # of vector_bytes each; of scalar floats when vector_bytes is 0
    by_element: bool = False  # multiplies a vector by any element of another one, without repeating it first
    caches: tuple[int, int, int] = (32 << 10, 256 << 10, 8 << 20)  # bytes of L1 data, L2, L3 per core
    widens: bool = False  # floats become int32 before they become narrower integers
    shares: bool = False  # layers that differ in sizes only share functions, however they are optimised
    accumulators: int = 0  # the most of a register tile, where code is to be small; 0: what registers hold
    frame_bytes: int = 0  # the most stack that a function should take; 0: any
    header: str = ""
    features: tuple[str, ...] = ()  # as /proc/cpuinfo spells them
    runner: tuple[str, ...] = ()  # command before a program; () runs as it is, see `runs`
    runs: bool = True  # whether programs are made for it at all: Linux's, an emulated board's or Node's
    board: str = ""  # linker script of programs on such a board
    runtime: tuple[
        str, ...
    ] = ()  # how `zig build-lib` is told the machine, where clang calls functions of its own
    relocation: Literal["static", "pic"] = "static"
    operations: Spellings = field(default_factory=dict, hash=False)  # on vectors of vector_bytes
    narrow_operations: Mapping[int, Spellings] = field(default_factory=dict, hash=False)  # bytes -> narrower
    scalar_operations: Spellings = field(default_factory=dict, hash=False)
    instructions: Mapping[tuple[str, str], int] = field(
        default_factory=dict, hash=False
    )  # that an operation on vectors is, where more than one
    routines: Mapping[str, str] = field(default_factory=dict, hash=False)
    """C of functions that compute what a loop of a kernel does (`routines.py`), by name."""

    def spelling(self, operation: str, dtype: str, width_bytes: int | None = None) -> str | None:
        """Return the template for vectors of `width_bytes` (default: full vectors; 0: scalars), or None."""
        width = self.vector_bytes if width_bytes is None else width_bytes
        if width == 0:
            return self.scalar_operations.get((operation, dtype))
        table = self.operations if width == self.vector_bytes else self.narrow_operations.get(width, {})
        return table.get((operation, dtype))

    def lanes(self, item_bytes: int) -> int:
        """Return the number of elements of a full vector; 1 on a scalar target."""
        return max(1, self.vector_bytes // item_bytes)
