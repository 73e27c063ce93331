"""Options of custom operators: a map of names to numbers and lists, as FlexBuffers has them.

In: the bytes. Out: a dict, or one list. A value, a key and an offset are as wide as what holds them says;
the last three bytes are the root, its type and its width. Every offset is checked.
"""

from __future__ import annotations

import struct

from ingot.errors import ModelError

INT, UINT, FLOAT, BOOL, MAP = 1, 2, 3, 26, 9
VECTORS = {11: INT, 12: UINT}
INDIRECT = {6: INT, 7: UINT, 8: FLOAT}
FORMS = {INT: "bhiq", UINT: "BHIQ", BOOL: "BHIQ", FLOAT: " efd"}
WIDTHS = (1, 2, 4, 8)
Number = int | float
Value = Number | tuple[int, ...]


def numbers_of(data: bytes, label: str) -> dict[str, Number]:
    """The numbers of a map; what is of another type is left out. Raises ModelError for damaged bytes."""
    return {name: value for name, value in _root(data, label) if isinstance(value, Number)}


def integers_of(data: bytes, name: str, label: str) -> tuple[int, ...]:
    """A list of integers in a map, none if the map lacks it. Raises ModelError for damaged bytes."""
    found = dict(_root(data, label)).get(name)
    return found if isinstance(found, tuple) else ()


def _root(data: bytes, label: str) -> list[tuple[str, Value]]:
    try:
        return _Reader(data).root()
    except (struct.error, IndexError, ValueError, KeyError):
        raise ModelError(f"{label}: its custom options are damaged") from None


class _Reader:
    """Offsets lead backwards from where they stand; one that leaves the bytes is an IndexError."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def root(self) -> list[tuple[str, Value]]:
        width, packed = self.data[-1], self.data[-2]
        if packed >> 2 != MAP or width not in WIDTHS:
            raise ValueError("no map")
        return self._map(self._follow(len(self.data) - 2 - width, width), WIDTHS[packed & 3])

    def _map(self, at: int, width: int) -> list[tuple[str, Value]]:
        count = self._unsigned(at - width, width)
        if count > len(self.data):
            raise ValueError("too many")
        keys, key_width = self._follow(at - 3 * width, width), self._unsigned(at - 2 * width, width)
        if key_width not in WIDTHS:
            raise ValueError("a width")
        found = []
        for i in range(count):
            packed = self.data[at + count * width + i]
            value = self._value(at + i * width, width, packed)
            if value is not None:
                found.append((self._text(self._follow(keys + i * key_width, key_width)), value))
        return found

    def _value(self, at: int, width: int, packed: int) -> Value | None:
        kind = packed >> 2
        if kind in VECTORS:
            return self._integers(self._follow(at, width), WIDTHS[packed & 3], VECTORS[kind])
        if kind in INDIRECT:
            at, width, kind = self._follow(at, width), WIDTHS[packed & 3], INDIRECT[kind]
        if kind not in FORMS:
            return None
        form = FORMS[kind][WIDTHS.index(width)]
        found: Number = struct.unpack_from(f"<{form}", self.data, self._inside(at))[0]
        return found

    def _integers(self, at: int, width: int, kind: int) -> tuple[int, ...]:
        count = self._unsigned(at - width, width)
        if count > len(self.data):
            raise ValueError("too many")
        return struct.unpack_from(f"<{count}{FORMS[kind][WIDTHS.index(width)]}", self.data, self._inside(at))

    def _follow(self, at: int, width: int) -> int:
        return self._inside(at - self._unsigned(at, width))

    def _unsigned(self, at: int, width: int) -> int:
        return int(struct.unpack_from(f"<{FORMS[UINT][WIDTHS.index(width)]}", self.data, self._inside(at))[0])

    def _inside(self, at: int) -> int:
        if not 0 <= at < len(self.data):
            raise IndexError(at)
        return at

    def _text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode("ascii")
