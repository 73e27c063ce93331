"""The constants: as C text, and as the bytes the target reads.

The struct in the C source, the C initialiser and the binary image hold the members at the same offsets: each is aligned to
64 bytes, the whole is a multiple of 64.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ingot.emit.literals import literal
from ingot.emit.source import Unit, provenance, weights_struct
from ingot.formula.expr import Array, Tensor
from ingot.formula.types import DType
from ingot.memory.plan import ALIGN

PER_LINE = 8


def offsets(unit: Unit) -> dict[Tensor, int]:
    """The byte at which each constant begins."""
    out, at = {}, 0
    for t in unit.program.constants:
        out[t] = at
        at += -(-max(t.bytes, 1) // ALIGN) * ALIGN
    return out


def size(unit: Unit) -> int:
    return sum(-(-max(t.bytes, 1) // ALIGN) * ALIGN for t in unit.program.constants)


def image(unit: Unit) -> bytes:
    """The weights as the target's memory holds them."""
    out = bytearray(size(unit))
    for t, at in offsets(unit).items():
        assert t.value is not None
        data = _ordered(t.value, t.type, unit.target.endian).tobytes()
        out[at : at + len(data)] = data
    return bytes(out)


def _ordered(array: Array, dtype: DType, endian: str) -> Array:
    raw = (
        np.ascontiguousarray(array).view(f"uint{dtype.bits}")
        if dtype.bits > 8
        else np.ascontiguousarray(array)
    )
    return raw if dtype.bits <= 8 else raw.astype(raw.dtype.newbyteorder("<" if endian == "little" else ">"))


def weights_source(unit: Unit, header: str) -> str:
    """The text of NAME_weights.c."""
    if not unit.program.constants:
        return f"{provenance(unit)}\ntypedef int {unit.name}_has_no_weights;\n"
    members = ",\n".join(_member(unit, t) for t in unit.program.constants)
    return (
        f'{provenance(unit)}\n\n#include "{header}"\n\n{weights_struct(unit)}\n\n'
        f"#ifndef {unit.name.upper()}_WEIGHTS_SECTION\n#define {unit.name.upper()}_WEIGHTS_SECTION\n#endif\n\n"
        f"{unit.name.upper()}_WEIGHTS_SECTION\n"
        f"const struct {unit.name}_weights {unit.name}_weights_data = {{\n{members}\n}};\n"
    )


def _member(unit: Unit, t: Tensor) -> str:
    assert t.value is not None
    flat = np.ascontiguousarray(t.value).reshape(-1)
    if t.type.is_float and t.type.bits < 32:
        items: Iterator[str] = (f"0x{v:04x}" for v in flat.view(np.uint16))
    else:
        items = (literal(v, t.type) for v in flat.tolist())
    words = list(items) or ["0"]
    rows = [", ".join(words[i : i + PER_LINE]) for i in range(0, len(words), PER_LINE)]
    opening, closing = "{" * max(t.rank, 1), "}" * max(t.rank, 1)
    return (
        f"    .{unit.constant(t)} = {_nest(words, t) if t.rank > 1 else opening + ', '.join(rows) + closing}"
    )


def _nest(words: list[str], t: Tensor) -> str:
    """Braces around every row, one row a line."""
    shape = [max(int(n), 1) for n in t.shape]  # type: ignore[arg-type]
    rows = ["{" + ", ".join(words[i : i + shape[-1]]) + "}" for i in range(0, len(words), shape[-1])]
    for n in reversed(shape[:-1]):
        rows = ["{" + ",\n     ".join(rows[i : i + n]) + "}" for i in range(0, len(rows), n)]
    return rows[0]
