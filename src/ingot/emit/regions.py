"""Memory in regions: the arrays of NAME_memory.c, and the part of a linker script that places all sections.

In: a `Unit` whose plan or flash has regions. Out: lines of header, C and linker script. The sections are
called `.ingot.` and the region; the linker must know a memory of the region's name.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.emit.unit import Unit, provenance
from ingot.memory.plan import ALIGN


def declarations(unit: Unit) -> Iterator[str]:
    """What NAME_memory.c defines, for who has no memory of his own to bring."""
    if not unit.plan.regions:
        return
    yield f"/* Memory of these sizes in the sections of its regions: link {unit.name}_memory.c for it. */"
    for a in unit.arenas:
        yield f"extern unsigned char {a.symbol}[{unit.upper}_{a.macro}_SIZE];"
    if unit.program.states:
        yield f"extern struct {unit.name}_state {unit.own_state};"


def memory_source(unit: Unit) -> str:
    """The text of NAME_memory.c."""
    rows = [
        f"unsigned char {a.symbol}[{unit.upper}_{a.macro}_SIZE]\n"
        f'    __attribute__((section("{a.section}"), aligned({ALIGN})));'
        for a in unit.arenas
    ]
    rows += [
        f"struct {unit.name}_state {unit.own_state}\n"
        f'    __attribute__((section(".ingot.{r.name}"), aligned({ALIGN})));'
        for r in unit.plan.regions
        if r.state_bytes
    ]
    return f'{provenance(unit)}\n\n#include "{unit.name}.h"\n\n' + "\n".join(rows) + "\n"


def linker_script(unit: Unit) -> str:
    """The text of NAME.ld: it adds to the script of the program, whose MEMORY names the regions."""
    ram = [r.name for r in unit.plan.regions if r.bytes + r.state_bytes]
    kept = [p.region for p in unit.parts if p.region]
    rows = [f"  .ingot.{n} (NOLOAD) : ALIGN({ALIGN}) {{ *(.ingot.{n}) }} > {n}" for n in ram]
    rows += [f"  .ingot.{n} : ALIGN({ALIGN}) {{ *(.ingot.{n}) }} > {n}" for n in kept]
    sections = "\n".join(["SECTIONS", "{", *rows, "}"]) if rows else ""
    names = ", ".join([*ram, *kept]) or "none"
    return (
        f"{provenance(unit)}\n\n"
        f"/* For the linker, behind the program's script: -T program.ld -T {unit.name}.ld. The MEMORY of\n"
        f" * that script has these regions: {names}. Of RAM nothing is loaded: it may hold anything. */\n"
        f"{sections}\n"
    )
