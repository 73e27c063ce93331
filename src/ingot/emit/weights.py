"""The constants: as the struct the code reads, as C text, as assembly around a binary file, and as bytes.

The struct, its initialiser and the binary image hold the members at the same offsets: each is aligned to 64
bytes, the whole is a multiple of 64. Weights that the caller brings start with a tag: a wrong file is found
before use.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

import numpy as np

from ingot.emit.helpers import text_types
from ingot.emit.literals import literal, quoted
from ingot.emit.statement import INDENT
from ingot.emit.unit import Part, Unit, provenance
from ingot.emit.wrap import COLUMNS
from ingot.formula.expr import Array, Tensor, static
from ingot.formula.types import DType
from ingot.memory.plan import ALIGN
from ingot.memory.tree import padded

MOST_TEXT = 4 << 20
"""Bytes of constants that are still printed as C; more are taken from a file by the assembler."""
ALIGNED = f"__attribute__((aligned({ALIGN})))"
WIDTH = 100  # and the name and braces before the first row


def offsets(unit: Unit) -> dict[Tensor, int]:
    """The byte at which each constant begins."""
    out, at = {}, ALIGN if unit.external else 0
    for t in unit.program.constants:
        out[t] = at
        at += room_of(t)
    return out


def room_of(t: Tensor) -> int:
    """Bytes of a member; `_array` gives an empty dimension one element."""
    return padded(math.prod(max(static(n), 1) for n in t.shape) * t.type.bytes)


def size(unit: Unit) -> int:
    """Bytes of the image."""
    return (ALIGN if unit.external else 0) + sum(map(room_of, unit.program.constants))


def image(unit: Unit) -> bytes:
    """The weights as the target's memory holds them."""
    out = bytearray(size(unit))
    for t, at in offsets(unit).items():
        assert t.value is not None
        data = _ordered(t.value, t.type, unit.target.endian).tobytes()
        out[at : at + len(data)] = data
    if unit.external:
        out[:8] = b"".join(n.to_bytes(4, unit.target.endian) for n in tag(unit))
    return bytes(out)


def tag(unit: Unit) -> tuple[int, int]:
    """Two 32-bit numbers that only this image has: from names, places, types and values of all constants."""
    digest = hashlib.sha256()
    for t, at in offsets(unit).items():
        assert t.value is not None
        digest.update(f"{t.name}\0{at}\0{t.type}\0{t.shape}\0".encode())
        digest.update(_ordered(t.value, t.type, "little").tobytes())
    key = digest.digest()
    return int.from_bytes(key[:4], "big"), int.from_bytes(key[4:8], "big")


def _ordered(array: Array, dtype: DType, endian: str) -> Array:
    flat = _plain(np.ascontiguousarray(array), dtype)
    if dtype.bits <= 8 or dtype.is_text:
        return flat
    return flat.view(f"uint{dtype.bits}").astype(f"{'<' if endian == 'little' else '>'}u{dtype.bytes}")


def _plain(array: Array, dtype: DType) -> Array:
    """Integers below 8 bits as C computes with them."""
    return array.astype(dtype.compute.numpy) if dtype.is_narrow and not dtype.is_float else array


def weights_struct(unit: Unit) -> str:
    """The type of the constants, and the object that holds them unless the caller does."""
    return "\n".join(line for part in unit.parts for line in _struct(unit, part))


def _struct(unit: Unit, part: Part) -> Iterator[str]:
    """The constants of one region of flash, or all."""
    yield f"struct {part.name} {{"
    if unit.external:
        yield f"{INDENT}uint32_t tag[2] {ALIGNED};"
    for t in part.constants:
        yield f"{INDENT}{t.type.c} {unit.constant(t)}{_array(t)} {ALIGNED};"
    yield "};"
    yield f"typedef char {unit.name}_assert_{part.name.removeprefix(f'{unit.name}_')}_size"
    yield f"{INDENT}[sizeof(struct {part.name}) == {part.macro}_SIZE ? 1 : -1];"
    if not unit.external:
        yield '__attribute__((visibility("hidden")))'
        yield f"extern const struct {part.name} {part.name}_data;"


def _array(t: Tensor) -> str:
    """`[1][8][8]`: the dimensions as C writes them; an empty one gets one element."""
    return "".join(f"[{max(static(n), 1)}]" for n in t.shape) or "[1]"


def weights_file(unit: Unit) -> str | None:
    """The name of the file that defines the constants; None if the code needs none."""
    if unit.external or not unit.program.constants:
        return None
    return f"{unit.name}_weights.{'c' if size(unit) <= MOST_TEXT else 'S'}"


def weights_source(unit: Unit) -> str:
    """The text of NAME_weights.c or, beyond MOST_TEXT, of NAME_weights.S, which includes NAME.weights.bin."""
    return _c_source(unit) if size(unit) <= MOST_TEXT else assembly(unit)


def _c_source(unit: Unit) -> str:
    types = text_types(t.type for t in unit.program.constants)
    types += "\n\n" if types else ""
    return f'{provenance(unit)}\n\n#include "{unit.name}.h"\n\n{types}{weights_struct(unit)}\n\n' + "\n".join(
        _definition(unit, part) for part in unit.parts
    )


def _definition(unit: Unit, part: Part) -> str:
    """One struct's object, in the section of its region or the user's."""
    members = ",\n".join(_member(unit, t) for t in part.constants)
    section = f"{part.macro}_SECTION"
    region = f'#else\n__attribute__((section("{part.section}")))\n' if part.section else ""
    return (
        f"#ifdef {section} /* a string: where the linker puts the constants */\n"
        f"__attribute__((section({section})))\n{region}#endif\n"
        f"const struct {part.name} {part.name}_data = {{\n{members}\n}};\n"
    )


def assembly(unit: Unit) -> str:
    """The constants as the assembler takes them, out of NAME.weights.bin."""
    parts = "\n".join(_assembled(unit, part) for part in unit.parts)
    where = f"/* Assemble with -I DIR, where DIR holds {unit.name}.weights.bin. */\n"
    return f"{provenance(unit)}\n{where}{parts}{STACK_MARK if unit.target.format == 'elf' else ''}"


def _assembled(unit: Unit, part: Part) -> str:
    section = f"{part.macro}_SECTION"
    lines = [f"    {line}" if not line.endswith(":") else line for line in _directives(unit, part, section)]
    return f"""
#ifndef {section}
#define {section} {_section(unit, part)}
#endif

{chr(10).join(lines)}
"""


def in_assembly(unit: Unit) -> str:
    """The same inside a file of C, where no linker makes one object of two."""
    rows = (
        quoted(line.encode() + b"\n")
        for part in unit.parts
        for line in _directives(unit, part, _section(unit, part))
    )
    lines = "\n".join(f"        {row}" for row in rows)
    return f"__asm__(\n{lines});\n"


STACK_MARK = """
    .section .note.GNU-stack, "", %progbits
"""
SECTIONS = {"elf": '".rodata.{}"', "coff": ".rdata", "macho": "__TEXT,__const", "wasm": '".rodata.{}"'}
DIRECTIVES = {
    "elf": '.section {section}, "a", %progbits\n.balign {align}\n.globl {symbol}\n.hidden {symbol}\n'
    ".type {symbol}, %object\n.size {symbol}, {size}\n{symbol}:\n{content}",
    "coff": '.section {section}, "dr"\n.balign {align}\n.globl {symbol}\n{symbol}:\n{content}',
    "macho": ".section {section}\n.balign {align}\n.globl _{symbol}\n.private_extern _{symbol}\n"
    "_{symbol}:\n{content}",
    "wasm": '.section {section}, "", @\n.p2align 6\n.globl {symbol}\n.hidden {symbol}\n'
    ".type {symbol}, @object\n{symbol}:\n{content}\n.size {symbol}, {size}",
}
"""How each format's assembler is told of read-only data, by the format."""


def _section(unit: Unit, part: Part) -> str:
    return f'"{part.section}"' if part.section else SECTIONS[unit.target.format].format(f"{part.name}_data")


def part_bytes(part: Part) -> int:
    """Bytes of the constants of one region."""
    return sum(map(room_of, part.constants))


def _directives(unit: Unit, part: Part, section: str) -> list[str]:
    start, length = offsets(unit)[part.constants[0]], part_bytes(part)
    which = f", {start}, {length}" if part.section else ""
    text = DIRECTIVES[unit.target.format].format(
        section=section,
        align=ALIGN,
        symbol=f"{part.name}_data",
        size=length,
        content=f'.incbin "{unit.name}.weights.bin"{which}',
    )
    return text.split("\n")


def weights_text(data: bytes) -> bytes:
    """Bytes as `0x12,0x34,...`, twenty a line: what an array's initialiser can `#include`."""
    words = np.frombuffer(b"".join(f"0x{i:02x},".encode() for i in range(256)), np.uint8).reshape(256, 5)
    values = np.frombuffer(data, np.uint8)
    whole = len(values) // 20 * 20
    lines = np.full((whole // 20, 101), ord("\n"), np.uint8)
    lines[:, :100] = words[values[:whole]].reshape(-1, 100)
    rest = words[values[whole:]].tobytes()
    return lines.tobytes() + (rest + b"\n" if rest or not whole else b"")


def _member(unit: Unit, t: Tensor) -> str:
    assert t.value is not None
    items = words(t.value, t.type) or ["{0}" if t.type.is_text else "0"]
    nested = _nest(items, t) if t.rank > 1 else _row(items)
    return f"{INDENT}.{unit.constant(t)} = {nested}"


def words(array: Array, dtype: DType) -> list[str]:
    """The elements as C initialisers that read back as the same bits."""
    flat = _plain(np.ascontiguousarray(array), dtype).reshape(-1)
    if dtype.is_text:
        return [f"{{{quoted(v)}}}" for v in flat.tolist()]
    if dtype.is_float and dtype.is_narrow:
        return [f"0x{v:0{2 * dtype.bytes}x}" for v in flat.view(f"u{dtype.bytes}").tolist()]
    if dtype.bits == 32 and dtype.is_float and np.isfinite(flat).all():
        return [f"{w}f" for w in flat.astype("U32").tolist()]  # numpy's shortest text that round-trips
    if dtype.kind in "iu" and dtype.bits <= 16:
        return list(map(str, flat.tolist()))
    return [_bare(literal(v, dtype)) for v in flat.tolist()]


def array_text(name: str, t: Tensor, values: Array) -> str:
    """A constant array of what the caller has of an input or output, as a flat list."""
    rows, row = [], INDENT
    items = [quoted(v) for v in values.reshape(-1).tolist()] if t.type.is_text else words(values, t.type)
    for word in items or ["{0}" if t.type.is_text else "0"]:
        if len(row) + len(word) + 2 > COLUMNS:
            rows.append(row.rstrip())
            row = INDENT
        row += f"{word}, "
    body = "\n".join([*rows, row.rstrip(", ")])
    return f"static const {t.type.edge} {name}[{max(values.size, 1)}]{chars(t)} = {{\n{body}\n}};"


def chars(t: Tensor) -> str:
    """The dimension of a string's characters."""
    return f"[{t.type.bytes}]" if t.type.is_text else ""


def ordered_words(t: Tensor) -> Array:
    """The elements of a constant as unsigned numbers of their size."""
    assert t.value is not None
    return _ordered(t.value, t.type, "little").view(f"<u{t.type.bytes}")


def _bare(word: str) -> str:
    """A negative number needs no parentheses in an initialiser."""
    return word[1:-1] if word.startswith("(-") and word.count("(") == 1 else word


def _row(items: list[str]) -> str:
    """One innermost row in braces, broken into lines that fit."""
    lines, line = [], ""
    for item in items:
        if line and len(line) + len(item) > WIDTH:
            lines.append(line)
            line = ""
        line += f"{item}, "
    return "{" + f"\n{INDENT}{INDENT}".join(x.rstrip() for x in [*lines, line.rstrip(", ")]) + "}"


def _nest(items: list[str], t: Tensor) -> str:
    """Braces around every row, one row a line."""
    shape = [max(static(n), 1) for n in t.shape]
    rows: list[str] = [_row(items[i : i + shape[-1]]) for i in range(0, len(items), shape[-1])]
    for n in reversed(shape[:-1]):
        rows = ["{" + f",\n{INDENT}{INDENT}".join(rows[i : i + n]) + "}" for i in range(0, len(rows), n)]
    return rows[0]


def tagged(unit: Unit) -> Iterator[str]:
    """Header macros about the weights."""
    for part in unit.parts:
        length = part_bytes(part) if part.section else size(unit)
        yield f"#define {part.macro}_SIZE {length}u{_where(part)}"
    if unit.has_weights:
        yield f"#define {unit.upper}_WEIGHTS_ALIGN {ALIGN}u"


def _where(part: Part) -> str:
    return f" /* in {part.section} */" if part.section else ""
