"""Tables of a flatbuffer, every access checked. In: bytes of unknown origin; out: fields by name.

A table begins with the distance back to its vtable, which says where in the table each field stands; what a
field refers to lies at a distance ahead of it (FlatBuffers internals, "Tables"). Nothing is read before it is
known to lie inside the file. Vectors may overlap, so that a small file could list a large one many times:
a file may ask for so many elements for each of its bytes, and no more.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ingot.errors import ModelError

SCALARS = {
    "bool": "?",
    "byte": "b",
    "ubyte": "B",
    "ushort": "H",
    "int": "i",
    "uint": "I",
    "long": "q",
    "ulong": "Q",
    "float": "f",
}
PACKED = {form: struct.Struct("<" + form) for form in (*SCALARS.values(), "H")}
"""Little-endian numbers by their form."""
NUMPY = {kind: np.dtype("<" + form.replace("q", "i8").replace("Q", "u8")) for kind, form in SCALARS.items()}
EXPANSION = 64
"""Elements that may be read for each byte of a file."""
TABLE = 64
"""As many elements a table counts for, which takes as long to read."""


@dataclass(frozen=True, slots=True)
class Field:
    """One slot of a table: `kind` is a scalar, "string", "[scalar]", "table" or "[table]" (then `table`)."""

    name: str
    slot: int
    kind: str
    table: str = ""
    default: int | float = 0


Schema = Mapping[str, Mapping[str, Field]]


@dataclass(slots=True)
class Bytes:
    """The file, and how many elements may still be read from it."""

    data: bytes
    schema: Schema
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = EXPANSION * (len(self.data) + 1024)

    def number(self, at: int, form: str) -> Any:
        """A little-endian number. Raises ModelError where it does not lie in the file."""
        packed = PACKED[form]
        if at < 0 or at + packed.size > len(self.data):
            self.inside(at, packed.size)
        return packed.unpack_from(self.data, at)[0]

    def inside(self, at: int, size: int) -> None:
        if not 0 <= at <= len(self.data) - size or size < 0:
            raise ModelError(f"it is cut short or damaged: {size} bytes at {at} of {len(self.data)}")

    def ahead(self, at: int) -> int:
        """Where the reference at `at` leads."""
        return at + int(self.number(at, "I"))

    def vector(self, at: int, size: int) -> tuple[int, int]:
        """Where the elements of the vector at `at` begin, and how many there are."""
        count = int(self.number(at, "I"))
        self.inside(at + 4, count * size)
        return at + 4, count

    def spend(self, count: int) -> None:
        """Raises ModelError where a file lists the same elements too often."""
        self.left -= count
        if self.left < 0:
            raise ModelError("it is damaged: its tables overlap")

    def root(self, name: str) -> Table:
        return self.table(self.ahead(0), name)

    def table(self, at: int, name: str) -> Table:
        """The table at `at`, its vtable checked."""
        self.spend(TABLE)
        vtable = at - int(self.number(at, "i"))
        size, extent = int(self.number(vtable, "H")), int(self.number(vtable + 2, "H"))
        self.inside(vtable, size)
        self.inside(at, extent)
        return Table(self, name, at, vtable, size)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the kind `name`. Fields that are absent have the schema's default, lists are then empty."""

    file: Bytes
    name: str
    at: int
    vtable: int
    size: int

    def _place(self, f: Field) -> int:
        """Where the field stands, or 0."""
        slot = 4 + 2 * f.slot
        if slot + 2 > self.size:
            return 0
        offset = int(self.file.number(self.vtable + slot, "H"))
        return self.at + offset if offset else 0

    def _field(self, name: str, kind: str) -> tuple[Field, int]:
        found = self.file.schema[self.name][name]
        assert found.kind == kind, f"{self.name}.{name} is {found.kind}, not {kind}"
        return found, self._place(found)

    def has(self, name: str) -> bool:
        return self._place(self.file.schema[self.name][name]) != 0

    def number(self, name: str) -> Any:
        """A scalar field."""
        f = self.file.schema[self.name][name]
        at = self._place(f)
        return self.file.number(at, SCALARS[f.kind]) if at else f.default

    def text(self, name: str) -> str:
        """A string field; bytes that are no UTF-8 are replaced."""
        _, at = self._field(name, "string")
        if not at:
            return ""
        begin, count = self.file.vector(self.file.ahead(at), 1)
        self.file.spend(count)
        return self.file.data[begin : begin + count].decode(errors="replace")

    def numbers(self, name: str) -> np.ndarray[Any, Any]:
        """A vector of scalars, as a view of the file."""
        f = self.file.schema[self.name][name]
        dtype = NUMPY[f.kind[1:-1]]
        at = self._place(f)
        if not at:
            return np.zeros(0, dtype)
        begin, count = self.file.vector(self.file.ahead(at), dtype.itemsize)
        return np.frombuffer(self.file.data, dtype, count, begin)

    def integers(self, name: str) -> tuple[int, ...]:
        """A vector of integers, counted against what the file may list."""
        found = self.numbers(name)
        self.file.spend(len(found))
        return tuple(found.tolist())

    def child(self, name: str, table: str = "") -> Table | None:
        """A table field; the kind of a union's member is told by `table`."""
        f, at = self._field(name, "table")
        return self.file.table(self.file.ahead(at), table or f.table) if at else None

    def children(self, name: str) -> list[Table]:
        f, at = self._field(name, "[table]")
        if not at:
            return []
        begin, count = self.file.vector(self.file.ahead(at), 4)
        self.file.spend(count)
        return [self.file.table(self.file.ahead(begin + 4 * i), f.table) for i in range(count)]
