"""Variants of one network in one object, and the function that picks the best the processor can run.

In: the face (the unit whose header and name the user sees) and its variants, each a unit of its own, weakest
first. Out: the C of the public entry. x86 only: it asks CPUID what the processor has, and XGETBV what the
system saves.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.emit.entry import entry_parameters
from ingot.emit.extents import size_lines
from ingot.emit.state import code_lines
from ingot.emit.statement import INDENT
from ingot.emit.unit import Unit, provenance
from ingot.targets.record import Target

BASIC, FEATURES, MORE, EXTENDED = LEAVES = ((1, 0), (7, 0), (7, 1), (0x80000001, 0))
"""Leaves of CPUID and their subleaves; one that a processor lacks is all zeros."""

# Where CPUID tells of a feature: (leaf, index in eax ebx ecx edx, bit). Intel SDM volume 2A, CPUID.
CPUID = {
    "sse2": (BASIC, 3, 26),
    "pni": (BASIC, 2, 0),
    "ssse3": (BASIC, 2, 9),
    "fma": (BASIC, 2, 12),
    "cx16": (BASIC, 2, 13),
    "sse4_1": (BASIC, 2, 19),
    "sse4_2": (BASIC, 2, 20),
    "movbe": (BASIC, 2, 22),
    "popcnt": (BASIC, 2, 23),
    "xsave": (BASIC, 2, 27),
    "avx": (BASIC, 2, 28),
    "f16c": (BASIC, 2, 29),
    "bmi1": (FEATURES, 1, 3),
    "avx2": (FEATURES, 1, 5),
    "bmi2": (FEATURES, 1, 8),
    "avx512f": (FEATURES, 1, 16),
    "avx512dq": (FEATURES, 1, 17),
    "avx512cd": (FEATURES, 1, 28),
    "avx512bw": (FEATURES, 1, 30),
    "avx512vl": (FEATURES, 1, 31),
    "avx512vbmi": (FEATURES, 2, 1),
    "avx512_vnni": (FEATURES, 2, 11),
    "avx_vnni": (MORE, 0, 4),
    "lahf_lm": (EXTENDED, 2, 0),
    "abm": (EXTENDED, 2, 5),
}
YMM_STATE, ZMM_STATE = 0x6, 0xE6  # XCR0: what the system must save for AVX, for AVX-512

PROBE = """\
/* What the processor has (CPUID leaves and subleaves) and which registers the system saves (XCR0). */
static void probe(unsigned int found[4][4], unsigned int *saved) {
    static const unsigned int leaves[4][2] = {{1u, 0u}, {7u, 0u}, {7u, 1u}, {0x80000001u, 0u}};
    unsigned int top, high;
    __asm__("cpuid" : "=a"(top), "=b"(found[0][1]), "=c"(found[0][2]), "=d"(found[0][3]) : "a"(0), "c"(0));
    for (int i = 0; i < 4; i++) {
        const unsigned int leaf = leaves[i][0], subleaf = leaves[i][1];
        unsigned int *const r = found[i];
        r[0] = r[1] = r[2] = r[3] = 0;
        if (leaf >= 0x80000000u || leaf <= top)
            __asm__("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "a"(leaf), "c"(subleaf));
    }
    *saved = 0;
    if (found[0][2] >> 27 & 1u) __asm__("xgetbv" : "=a"(*saved), "=d"(high) : "c"(0));
}"""


def dispatcher(face: Unit, variants: Sequence[Unit]) -> str:
    """The text of NAME.c: the entry that calls the strongest variant the processor runs."""
    parts = [
        provenance(face),
        f'#include "{face.name}.h"',
        _declarations(variants),
        PROBE,
        _entry(face, variants),
        "\n".join(size_lines(face, variants)) if face.program.params else "",
        "\n".join(code_lines(face)) if face.program.states else "",
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


def _declarations(variants: Sequence[Unit]) -> str:
    return "\n".join(f"int {v.entry}({entry_parameters(v)}); /* {v.target.description} */" for v in variants)


def _entry(face: Unit, variants: Sequence[Unit]) -> str:
    arguments = ", ".join(_names(face))
    rows = ["unsigned int found[4][4], saved;", "probe(found, &saved);"]
    for v in reversed(variants[1:]):
        rows.append(f"if ({condition(v.target)})")
        rows.append(f"{INDENT}return {v.entry}({arguments});")
    rows.append(f"return {variants[0].entry}({arguments});")
    head = f"int {face.entry}({entry_parameters(face)}) {{"
    return "\n".join([head, *(INDENT + r for r in rows), "}"])


def _names(face: Unit) -> list[str]:
    """The arguments of the entry, by name."""
    weights = ["weights"] if face.external else []
    threads = ["parallel_for", "user"] if face.is_threaded else []
    return [
        *weights,
        *(face.extent(p) for p in face.program.params),
        *map(face.argument, face.edge),
        *(["state"] if face.program.states else []),
        *threads,
        "arena",
    ]


def condition(target: Target) -> str:
    """C that is true where the processor has the features and the system saves the registers."""
    masks: dict[tuple[int, int], int] = {}
    for feature in target.features:
        leaf, register, bit = CPUID[feature]
        key = (LEAVES.index(leaf), register)
        masks[key] = masks.get(key, 0) | 1 << bit
    tests = [f"(found[{i}][{r}] & 0x{m:x}u) == 0x{m:x}u" for (i, r), m in sorted(masks.items())]
    state = ZMM_STATE if target.vector_bytes == 64 else YMM_STATE if target.vector_bytes == 32 else 0
    tests += [f"(saved & 0x{state:x}u) == 0x{state:x}u"] if state else []
    return " && ".join(tests) or "1"
