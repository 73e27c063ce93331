"""The bundle's header: valid C89 to C23, C++ and kernel C; sizes as macros, the entry of its convention."""

from __future__ import annotations

from collections.abc import Iterator

from ingot.emit.conventions import CONVENTIONS
from ingot.emit.literals import literal
from ingot.emit.selftest import header_lines as selftest_lines
from ingot.emit.state import header_lines
from ingot.emit.statement import INDENT
from ingot.emit.unit import Unit, describe, provenance
from ingot.emit.weights import tagged
from ingot.emit.wrap import wrap
from ingot.formula.types import FLOAT32, FLOAT64, INT32
from ingot.memory.plan import ALIGN

ABI = 1
INCLUDES = """\
#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif"""


def header(unit: Unit, stack_bytes: int | None) -> str:
    """The text of NAME.h."""
    parts = [
        f"{provenance(unit)}\n#ifndef {unit.upper}_H\n#define {unit.upper}_H",
        INCLUDES,
        "\n".join(_macros(unit, stack_bytes)),
        "\n".join(_errors(unit)),
        "\n".join(_assertions(unit)),
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        "\n".join(header_lines(unit)),
        "\n".join(CONVENTIONS[unit.api].header(unit)),
        "\n".join(selftest_lines(unit)),
        "#ifdef __cplusplus\n}\n#endif",
        f"#endif /* {unit.upper}_H */\n",
    ]
    return wrap("\n\n".join(p for p in parts if p))


def _macros(unit: Unit, stack_bytes: int | None) -> Iterator[str]:
    upper = unit.upper
    yield f"#define {upper}_ABI {ABI}"
    yield f'#define {upper}_MODEL_SHA256 "{unit.sha256}"'
    for a in unit.arenas:
        yield f"#define {upper}_{a.macro}_SIZE {a.bytes}u" + (f" /* in {a.section} */" if a.section else "")
    yield f"#define {upper}_ARENA_ALIGN {ALIGN}u"
    yield from tagged(unit)
    if stack_bytes is not None:
        yield f"#define {upper}_STACK_MAX {stack_bytes}u /* entry included */"
    for bytes_ in sorted({t.type.bytes for t in (*unit.edge, *unit.program.members) if t.type.is_text}):
        yield f"/* string{bytes_}: {bytes_} chars, UTF-8, ended by a zero and filled up with zeros; of"
        yield f"   an array char x[3][{bytes_}], the argument is *x */"
        yield f"#define {upper}_STRING_BYTES {bytes_}u"
    for t in unit.edge:
        yield f"#define {unit.count_macro(t)} {t.count}u /* {describe(t)} */"
        if (found := unit.scales.get(t.name)) is not None:
            scale, zero = unit.scale_macros(t)
            yield f"#define {scale} {literal(found.scale, FLOAT32)} /* value = (integer - zero) * scale */"
            yield f"#define {zero} {literal(found.zero_point, INT32)}"


def _errors(unit: Unit) -> Iterator[str]:
    """One enumerator a line, for the list is read more often than it is scrolled past."""
    yield "enum {"
    yield f"{INDENT}{unit.upper}_OK = 0,"
    rows = [f"{INDENT}{unit.upper}_{e} = {n}" for e, n in unit.statuses.items()]
    yield ",\n".join(rows)
    yield "};"


def _assertions(unit: Unit) -> Iterator[str]:
    """Typedefs of arrays whose size is negative where the compiler's types are not the ones computed with."""
    widths = {"int": 4, "float": 4}
    if any(t.type is FLOAT64 for k in unit.program.kernels for t in k.parameters):
        widths["double"] = 8
    for name, n in widths.items():
        yield f"typedef char {unit.name}_assert_{name}_is_{8 * n}_bits[sizeof({name}) == {n} ? 1 : -1];"
