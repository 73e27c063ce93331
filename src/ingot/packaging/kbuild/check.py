"""The text of what the selftest compares and prints: a table of the outputs, and the golden vectors.

In: the outputs' layout, what `golden` gave. Out: the content of NAME_check.c and NAME_selftest.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files as resources
from string import Template

from ingot.formula.types import FORMATS, DType, Format
from ingot.packaging.kbuild.golden import SelfTest
from ingot.packaging.kbuild.layout import Layout, Member, assertions
from ingot.packaging.kbuild.variants import Section

NUMBERS_PER_LINE = 12
SHARES = {"float32": 10_000, "float64": 10_000, "float16": 1_000, "bfloat16": 100}
"""By what the largest is divided to say how far numbers may be apart: compilers add in other orders."""
KINDS = {"f": "FLOAT", "i": "SIGNED", "u": "UNSIGNED", "b": "UNSIGNED", "s": "TEXT"}
POWERS = Format(8, 0, 127, 254, None, 255)
"""Of float8e8m0, which has no sign."""


def check_text(name: str, outputs: Layout, section: Section) -> str:
    template = Template(resources("ingot.packaging.kbuild").joinpath("check.c.in").read_text())
    rows = "\n".join(map(_row, outputs.members))
    return template.substitute(name=name, outputs=rows, enter=section.enter, leave=section.leave)


def _row(m: Member) -> str:
    share = SHARES.get(m.dtype.name, 0)
    return (
        f"\t{{ {m.offset}, {m.count}, {KINDS[m.dtype.kind]}, {m.dtype.bits}, {share}, {_format(m.dtype)} }},"
    )


def _format(dtype: DType) -> str:
    """Codes of infinity and NaN that a type does not have are codes that no element has."""
    if dtype.kind != "f" or dtype.bits >= 32:
        return "{ 0 }"
    f, none = FORMATS.get(dtype.name, POWERS), 1 << dtype.bits
    infinite = none if f.infinite is None else f.infinite
    first = none if f.nan is None else infinite + 1 if f.infinite is not None else f.nan
    return f"{{ {f.exponent}, {f.mantissa}, {f.bias}, {infinite}, {first}, {int(f.one_zero)} }}"


def selftest_text(name: str, inputs: Layout, outputs: Layout, test: SelfTest) -> str:
    lines = ["/* SPDX-License-Identifier: 0BSD */", "/* Inputs, and what the bundle gives in user space. */"]
    lines += assertions(f"{name}_inputs", inputs) + assertions(f"{name}_outputs", outputs)
    for what, rows in (("input", test.inputs), ("output", test.outputs)):
        head = f"static const unsigned char selftest_{what}[{len(rows)}][{len(rows[0])}]"
        lines.append(f"{head} __attribute__((aligned(64))) = {{")
        lines += [line for row in rows for line in _bytes(row)]
        lines.append("};")
    return "\n".join(lines) + "\n"


def _bytes(data: bytes) -> Iterator[str]:
    yield "\t{"
    for at in range(0, len(data), NUMBERS_PER_LINE):
        yield "\t\t" + " ".join(f"0x{b:02x}," for b in data[at : at + NUMBERS_PER_LINE])
    yield "\t},"
