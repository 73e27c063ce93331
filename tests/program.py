"""Many compiled models in one C program, built by gcc with whatever flags, run once on given inputs.

In: models and their inputs. Out: what each answered, twice in a row on an arena it knows nothing about. The
sanitizers, valgrind and the fuzz tests run their models so: one start of gcc a model, one program in all.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ingot.driver import stages
from ingot.emit.header import header
from ingot.emit.source import source
from ingot.emit.unit import Unit
from ingot.emit.weights import image
from ingot.formula.expr import Array
from ingot.loops.program import Program
from ingot.memory.plan import Plan
from ingot.options import Options
from ingot.targets.process import remembered, tool_version
from ingot.targets.record import Target
from ingot.targets.records import find

SANITIZERS = "-fsanitize=address,undefined,float-cast-overflow"
SANITIZED = ("-O0", "-g1", SANITIZERS, "-fno-sanitize-recover=all")
COMMON = ("-std=gnu99", "-ffp-contract=off", "-w")

MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
{includes}
/* `bytes` of standard input, or just room for them, aligned to `item` bytes and to no more */
static void *take(size_t item, size_t bytes, int read) {{
    unsigned char *const p = (unsigned char *)malloc(bytes + item) + item;
    if (read && fread(p, 1, bytes, stdin) != bytes) exit(3);
    return p;
}}
/* 64-byte aligned memory that ends where it says, filled unless it is valgrind who watches */
static void *memory(size_t bytes) {{
    void *const p = aligned_alloc(64, bytes ? bytes : 64);
    if (FILL) memset(p, 0xFF, bytes);
    return p;
}}
static void answer(int status, const void *p, size_t bytes) {{
    if (status == 0) fwrite(p, 1, bytes, stdout);
}}
{runs}
int main(void) {{
{calls}    return 0;
}}
"""
RUN = """\
static void run_{name}(void) {{
    void *const w = memory({weights});
    void *const in[] = {{{inputs}}}, *const out[] = {{{outputs}}};
    if (fread(w, 1, {weights}, stdin) != {weights}) exit(4);
    for (int i = 0; i < 2; i++) {{
        void *const arena = memory({arena});
        const int status = {name}({arguments});
        fwrite(&status, sizeof status, 1, stdout);
        {answers}
        free(arena);
    }}
}}
"""


@dataclass(frozen=True)
class Member:
    """One model of a program: its C and its weights, and where its answers go."""

    name: str
    files: dict[str, str]
    weights: bytes
    program: Program
    arena_bytes: int
    target: Target
    feeds: Mapping[str, Array]


@dataclass(frozen=True)
class Answer:
    """What a model answered: the status, and the outputs of each run unless the status is an error."""

    status: int
    runs: tuple[list[Array], ...]


def member(
    model: onnx.ModelProto, feeds: Mapping[str, Array], name: str, target: str = "c99", **options: Any
) -> Member:
    """The C of a model whose weights the program reads, which spares the compiler their text."""
    made = stages(model, Options(name=name, target=target, weights="external", **options))
    return planned(made.program, made.plan, feeds, target)


def planned(made: Program, plan: Plan, feeds: Mapping[str, Array], target: str = "c99") -> Member:
    """The C of a program that has its offsets."""
    unit = Unit(made, plan, find(target), made.name, external=True)
    files = {f"{unit.name}.h": header(unit, None), f"{unit.name}.c": source(unit)}
    return Member(unit.name, files, image(unit), made, plan.arena_bytes, unit.target, feeds)


def run(
    members: Sequence[Member],
    flags: Sequence[str] = SANITIZED,
    wrapper: Sequence[str] = (),
    fill: bool = True,
) -> list[Answer]:
    """The answers of all. AssertionError with the report where gcc, a sanitizer or `wrapper` objects."""
    with tempfile.TemporaryDirectory(prefix="ingot-") as name:
        folder = Path(name)
        for m in members:
            for file, text in m.files.items():
                (folder / file).write_text(text)
        (folder / "main.c").write_text(_main(members))
        _call(["gcc", *COMMON, *flags, f"-DFILL={int(fill)}", "-c", "main.c"], folder)
        for m in members:
            command = ("gcc", *COMMON, *(m.target.gcc or ("gcc",))[1:], *flags)
            _call([*command, *_parsed_header(command, m, folder), "-c", f"{m.name}.c"], folder)
        _call(["gcc", *flags, "-o", "program", *(str(p.name) for p in folder.glob("*.o"))], folder)
        return list(_answers(_call([*wrapper, "./program"], folder, _sent(members)), members))


def _parsed_header(command: Sequence[str], m: Member, folder: Path) -> tuple[str, ...]:
    """Options by which gcc takes the header of intrinsics as it was parsed once: half of its time."""
    files, parsed, name = {"unit.h": m.target.header}, "unit.h.gch", f"{m.name}_intrinsics.h"
    version = tool_version(("gcc",))
    made = (*command, "-x", "c-header", "unit.h", "-o", parsed)
    if not m.target.header or (found := remembered(made, files, parsed, version=version)) is None:
        return ()
    (folder / name).write_text(m.target.header)
    (folder / f"{name}.gch").symlink_to(found)
    return "-include", name


def _call(command: Sequence[str], folder: Path, stdin: bytes = b"") -> bytes:
    """Standard output. What no bundle allocates none can leak, and looking for it fails under a tracer."""
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(command, cwd=folder, input=stdin, capture_output=True, timeout=300, env=environment)
    report = done.stderr.decode(errors="replace")
    assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{report[:4000]}"
    return done.stdout


def _main(members: Sequence[Member]) -> str:
    return MAIN.format(
        includes="".join(f'#include "{m.name}.h"\n' for m in members),
        runs="".join(map(_run, members)),
        calls="".join(f"    run_{m.name}();\n" for m in members),
    )


def _run(m: Member) -> str:
    ins, outs = m.program.inputs, m.program.outputs
    room = [f"take({t.type.bytes}, {t.bytes}, 0)" for t in outs]
    names = ["w", *(f"in[{i}]" for i in range(len(ins))), *(f"out[{i}]" for i in range(len(outs))), "arena"]
    return RUN.format(
        name=m.name,
        weights=len(m.weights),
        arena=-(-m.arena_bytes // 64) * 64,
        inputs=", ".join(f"take({t.type.bytes}, {t.bytes}, 1)" for t in ins) or "0",
        outputs=", ".join(room),
        arguments=", ".join(names),
        answers="\n        ".join(f"answer(status, out[{i}], {t.bytes});" for i, t in enumerate(outs)),
    )


def _sent(members: Iterable[Member]) -> bytes:
    """What the program reads: each model's inputs in order, then its weights."""
    return b"".join(
        b"".join(np.ascontiguousarray(m.feeds[t.name]).tobytes() for t in m.program.inputs) + m.weights
        for m in members
    )


def _answers(said: bytes, members: Iterable[Member]) -> Iterable[Answer]:
    at = 0
    for m in members:
        runs: list[list[Array]] = []
        for _ in range(2):
            status = int.from_bytes(said[at : at + 4], "little", signed=True)
            at += 4
            runs.append([])
            for t in m.program.outputs if status == 0 else ():
                runs[-1].append(np.frombuffer(said[at : at + t.bytes], t.type.numpy).reshape(t.shape))
                at += t.bytes
        yield Answer(status, tuple(runs))
