"""What an object says of itself: a note that no linker maps and no program sees.

In: an object and a text. Out: the object with a section `.note.ingot`, which takes no memory where it runs (a
custom section in WebAssembly; in COFF and Mach-O bytes behind all that the headers name); and the text back.
Called by `bundle`, whose manifests are held against it: a file beside the object may have been changed, the
object is what runs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ingot.binary.read import read_object
from ingot.binary.record import ObjectFile
from ingot.binary.wasm import custom_section
from ingot.errors import InputError

SECTION, OWNER, KIND = ".note.ingot", b"Ingot\0", 1
SHT_NOTE = 7


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where an ELF header has what, and how a section header is packed."""

    order: str
    section: str
    offset: str
    offset_at: int
    counts_at: int

    @classmethod
    def of(cls, code: bytes) -> _Layout:
        order = "<" if code[5] == 1 else ">"
        return cls(order, "IIQQQQIIQQ", "Q", 40, 58) if code[4] == 2 else cls(order, "10I", "I", 32, 46)


def with_note(code: bytes, text: str) -> bytes:
    """The object with the note at its end; everything else stays where it is."""
    match read_object(code).format:  # everything that is followed below lies inside the file
        case "elf":
            return _with_section(code, text)
        case "wasm":
            name, data = SECTION.encode(), text.encode()
            return code + b"\0" + _counted(_counted(name) + data)
        case _:
            return code + text.encode() + len(text.encode()).to_bytes(4, "little") + OWNER


def _counted(data: bytes) -> bytes:
    """Behind its length in LEB128."""
    size, head = len(data), b""
    while size > 0x7F:
        head += bytes([size & 0x7F | 0x80])
        size >>= 7
    return head + bytes([size]) + data


def _with_section(code: bytes, text: str) -> bytes:
    """One section more, and the headers once more behind it."""
    layout = _Layout.of(code)
    shape = struct.Struct(layout.order + layout.section)
    (start,) = struct.unpack_from(layout.order + layout.offset, code, layout.offset_at)
    _, count, index = struct.unpack_from(layout.order + "3H", code, layout.counts_at)
    headers = [list(shape.unpack_from(code, start + i * shape.size)) for i in range(count)]
    names, size = headers[index][4:6]
    table = code[names : names + size] + SECTION.encode() + b"\0"
    note, where = _note(layout.order, text), _aligned(len(code))
    headers[index][4:6] = where + len(note), len(table)
    headers.append([size, SHT_NOTE, 0, 0, where, len(note), 0, 0, 4, 0])
    end = _aligned(where + len(note) + len(table))
    made = bytearray(code.ljust(where, b"\0") + note + table)
    made += bytes(end - len(made)) + b"".join(shape.pack(*h) for h in headers)
    struct.pack_into(layout.order + layout.offset, made, layout.offset_at, end)
    struct.pack_into(layout.order + "H", made, layout.counts_at + 2, count + 1)
    return bytes(made)


def note_of(code: bytes) -> str | None:
    """The text of an object's note, None without one. InputError for what is no object, or no note."""
    file = read_object(code)
    match file.format:
        case "elf":
            return _of_section(file)
        case "wasm":
            text = custom_section(code, SECTION)
        case _:
            head, size = len(code) - len(OWNER), int.from_bytes(code[-len(OWNER) - 4 : -len(OWNER)], "little")
            text = code[max(head - 4 - size, 0) : head - 4] if code.endswith(OWNER) else None
    return None if text is None else text.decode(errors="replace")


def _of_section(file: ObjectFile) -> str | None:
    found = [file.data(s) for s in file.sections if s.name == SECTION]
    if not found:
        return None
    order, head = "<" if file.endian == "little" else ">", struct.calcsize("3I") + len(_padded(OWNER))
    data = found[0]
    length = struct.unpack_from(order + "I", data, 4)[0] if len(data) >= head else -1
    if not 0 <= length <= len(data) - head:
        raise InputError(f"the object's section {SECTION} is no note")
    return data[head : head + length].decode(errors="replace")


def _note(order: str, text: str) -> bytes:
    data = text.encode()
    return struct.pack(order + "3I", len(OWNER), len(data), KIND) + _padded(OWNER) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data.ljust(-(-len(data) // 4) * 4, b"\0")


def _aligned(at: int) -> int:
    return -(-at // 8) * 8
