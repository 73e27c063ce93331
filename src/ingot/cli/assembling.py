"""`ingot asm`: the assembly of a model's kernels, with encodings and fixups as LLVM's assembler sees them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.compiling import loaded
from ingot.cli.show import progress, report, text_block
from ingot.errors import InputError
from ingot.files import read_text

if TYPE_CHECKING:
    from ingot.inspection.assembly import Listed
    from ingot.options import Options

Subject = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL_OR_DIR", help="A model, the directory of a bundle, or a .s file.", show_default=False
    ),
]
Functions = Annotated[
    list[str] | None, typer.Option("--function", metavar="NAME", help="Show only this C function.")
]
Encoding = Annotated[
    bool, typer.Option("--show-encoding", help="Show the bytes of each instruction, and their fixups.")
]
Triple = Annotated[str | None, typer.Option("--triple", help="For a .s file: LLVM's name of the processor.")]
ASSEMBLY = (".s", ".S", ".asm")


def asm(
    subject: Subject,
    function: Functions = None,
    show_encoding: Encoding = False,
    triple: Triple = None,
    target: arg.TargetName = "native",
    cc: arg.Compiler = None,
    cflags: arg.Flags = None,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    capacity: arg.Capacities = None,
    string_bytes: arg.StringBytes = 64,
    state: arg.States = None,
    inputs: arg.Feeds = None,
    outputs: arg.Fetches = None,
    model_inputs: arg.ModelInputs = None,
    math: arg.Arithmetic = "standard",
    as_json: arg.Json = False,
) -> None:
    """Show the assembly of each kernel with its layers, encodings and fixups."""
    if subject.suffix in ASSEMBLY and not subject.is_dir():
        _file(subject, triple, target, arg.parse_flags(cflags), function, show_encoding, as_json)
        return
    if triple is not None:
        raise InputError("--triple is of a .s file", remedy="a model is compiled for a --target")
    more: dict[str, Any] = {
        "math": math,
        "string_bytes": string_bytes,
        **arg.edges(inputs, outputs, model_inputs),
    }
    wanted = arg.options(target, define, cc, cflags, None, capacity, state, fix, **more)
    with progress(f"Assembling {subject.name}"):
        found, marks = _listed(subject, wanted, function)
    if as_json:
        report([asdict(f) for f in found], True)
        return
    from ingot.inspection.assembly import shown

    for f in found:
        mark = marks[f.file]
        text_block(f"{mark} {f.file}: {f.name}{': ' if f.layers else ''}{f.layers}")
        text_block(f"{f.name}:\n{shown(f.lines, mark, show_encoding)}\n")


def _listed(
    subject: Path, wanted: Options, functions: list[str] | None
) -> tuple[list[Listed], dict[str, str]]:
    """The functions asked for, and what begins a comment in each file."""
    from ingot.inspection.assembly import comment_mark, listed, units

    parts = units(loaded(subject, wanted), (), wanted.cc)
    marks = {u.file: comment_mark(u.how.listing(u.text)) for u in parts}
    everything = [f for u in parts for f in listed(u)]
    unknown = sorted(set(functions or ()) - {f.name for f in everything})
    if unknown:
        names = ", ".join(f.name for f in everything)
        raise InputError(f"no function is called {', '.join(unknown)}", remedy=f"there are {names}")
    return [f for f in everything if not functions or f.name in functions], marks


def _file(
    path: Path,
    triple: str | None,
    target: str,
    flags: tuple[str, ...],
    functions: list[str] | None,
    show_encoding: bool,
    as_json: bool,
) -> None:
    """A .s file as it stands, or the part of it behind the labels named."""
    from ingot.audit.listing import Assembly
    from ingot.inspection.assembly import comment_mark, parsed, shown, split
    from ingot.targets.records import find

    how = Assembly.of_triple(triple) if triple else Assembly.of_target(find(target), flags, of_user=True)
    listing = how.listing(read_text(path))
    lines = list(parsed(listing))
    if functions:
        parts = dict(split(listing))
        missing = [f for f in functions if f not in parts]
        if missing:
            raise InputError(
                f"no function is called {', '.join(missing)} (.type NAME,@function says it is one)"
            )
        lines = [line for f in functions for line in parts[f]]
    if as_json:
        report([asdict(line) for line in lines], True)
    else:
        text_block(shown(lines, comment_mark(listing), show_encoding))
