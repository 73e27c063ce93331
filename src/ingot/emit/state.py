"""The state a bundle keeps between runs: a struct of the caller's, and what puts it at its start.

In: a `Unit`. Out: lines of header and C.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ingot.emit.literals import quoted
from ingot.emit.statement import INDENT
from ingot.emit.unit import Unit, describe
from ingot.emit.weights import words
from ingot.formula.expr import Tensor
from ingot.loops.program import Kept, Program


def state_parameter(unit: Unit) -> str:
    return f"struct {unit.owner}_state *state"


def header_lines(unit: Unit) -> Iterator[str]:
    """The struct, its functions and what may be done with it."""
    if not unit.program.states:
        return
    name, structure = unit.owner, f"struct {unit.owner}_state"
    yield "/* What one run leaves to the next, in the caller's memory, aligned as C aligns the struct. A copy"
    yield " * saves it, a copy back restores it. After an error it is as it was before the run. */"
    yield f"{structure} {{"
    for t in unit.state_layout:
        chars = t.type.bytes if t.type.is_text else 1
        yield f"{INDENT}{t.type.edge} {unit.member(t)}[{max(t.count, 1) * chars}]; /* {describe(t)} */"
    yield "};"
    if name == unit.name:
        yield f"void {name}_state_init({structure} *state); /* before the first run */"
        yield f"void {name}_state_reset({structure} *state); /* the same: back to the start */"


def code_lines(unit: Unit) -> Iterator[str]:
    """What the header declares."""
    name, structure = unit.name, f"struct {unit.name}_state"
    yield f"void {name}_state_init({structure} *state) {{"
    for kept in unit.program.states:
        yield from (INDENT + line for line in _start(unit, kept))
    yield "}"
    yield ""
    yield f"void {name}_state_reset({structure} *state) {{"
    yield f"{INDENT}{name}_state_init(state);"
    yield "}"


def _start(unit: Unit, kept: Kept) -> Iterator[str]:
    """The first content of one member."""
    t, member = kept.member, f"state->{unit.member(kept.member)}"
    if t.type.is_text:
        yield from _start_text(kept, member)
        return
    content = kept.initial if kept.initial is not None else np.zeros(1, t.type.numpy)
    literals = words(content, t.type) or ["0"]
    if len(set(literals)) == 1:
        yield f"for (int i = 0; i < {max(t.count, 1)}; i++) {member}[i] = {literals[0]};"
        return
    yield "{"
    yield f"{INDENT}static const {t.type.c} first[{len(literals)}] = {{{', '.join(literals)}}};"
    yield f"{INDENT}for (int i = 0; i < {len(literals)}; i++) {member}[i] = first[i];"
    yield "}"


def _start_text(kept: Kept, member: str) -> Iterator[str]:
    """The same for strings, which are plain characters in the struct."""
    t, size = kept.member, kept.member.type.bytes
    if kept.initial is None or not kept.initial.size:
        yield f"for (int i = 0; i < {max(t.count, 1) * size}; i++) {member}[i] = 0;"
        return
    rows = ", ".join(quoted(v) for v in kept.initial.reshape(-1).tolist())
    yield "{"
    yield f"{INDENT}static const char first[{t.count}][{size}] = {{{rows}}};"
    yield f"{INDENT}for (int i = 0; i < {t.count * size}; i++) {member}[i] = first[i / {size}][i % {size}];"
    yield "}"


def final_copies(program: Program) -> Iterator[tuple[Tensor, Tensor]]:
    """(made, member) of what is still to be copied after the last step."""
    for kept in program.states:
        if program.place(kept.made).base is not kept.member:
            yield kept.made, kept.member
