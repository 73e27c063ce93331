"""The bundle's header: valid C89 to C23 and C++, sizes as macros, one entry."""

from __future__ import annotations

from collections.abc import Iterator

from ingot.emit.names import comment
from ingot.emit.source import ERRORS, Unit, entry_parameters, provenance
from ingot.formula.expr import Tensor, text
from ingot.memory.plan import ALIGN

ABI = 1


def header(unit: Unit, model_sha256: str, stack_bytes: int | None) -> str:
    """The text of NAME.h."""
    upper = unit.name.upper()
    return "\n".join(
        [
            provenance(unit),
            f"#ifndef {upper}_H",
            f"#define {upper}_H",
            "",
            "#include <stdint.h>",
            "",
            f"#define {upper}_ABI {ABI}",
            f'#define {upper}_MODEL_SHA256 "{model_sha256}"',
            f"#define {upper}_ARENA_SIZE {unit.plan.arena_bytes}u",
            f"#define {upper}_ARENA_ALIGN {ALIGN}u",
            *(
                [f"#define {upper}_STACK_MAX {stack_bytes}u /* entry included */"]
                if stack_bytes is not None
                else []
            ),
            *_counts(unit),
            "",
            f"enum {{ {upper}_OK = 0, " + ", ".join(f"{upper}_{e} = {n}" for e, n in ERRORS.items()) + " };",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            f"typedef char {unit.name}_assert_float_is_32_bits[sizeof(float) == 4 ? 1 : -1];",
            "",
            f"int {unit.name}({entry_parameters(unit)});",
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            f"#endif /* {upper}_H */",
            "",
        ]
    )


def _counts(unit: Unit) -> Iterator[str]:
    for t in (*unit.program.inputs, *unit.program.outputs):
        macro = f"{unit.name}_{unit.argument(t)}_COUNT".upper()
        yield f"#define {macro} {t.count}u /* {describe(t)} */"


def describe(t: Tensor) -> str:
    """float32, 1x1x28x28"""
    return comment(f"{t.type}, {'x'.join(map(text, t.shape)) or 'scalar'}")
