"""`ingot bench`: how fast the shipped object is, beside other runtimes, and where its time goes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress, report, text_block
from ingot.options import fields_of

if TYPE_CHECKING:
    from ingot.check.bench import Benchmark

BUSY = 1.5
Against = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PEER",
        help="Compare with onnxruntime, openvino, tvm, iree, torch, litert, xla, or c:PATH.c for a C file; "
        "separate several by commas.",
    ),
]
Seconds = Annotated[float, typer.Option(min=0, help="The time for each contender.")]
PeersPython = Annotated[
    str | None,
    typer.Option(
        metavar="CMD", envvar="INGOT_PEERS_PYTHON", help="The Python that has the peers (default: this one)."
    ),
]
PeerCompiler = Annotated[
    str | None, typer.Option(metavar="CMD", help="The compiler for c:PATH.c (default: gcc -O3 -march=native)")
]
Entry = Annotated[str | None, typer.Option(metavar="NAME", help="The function of c:PATH.c to call.")]
Profile = Annotated[
    bool, typer.Option("--profile", help="Also time every kernel, and compare it with the machine's peak.")
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print the report as a Markdown table.")]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="DIR", help="Also write report.md, report.json, report.svg."),
]


def bench(
    model: arg.ModelFile,
    against: Against = None,
    seconds: Seconds = 4.0,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    capacity: arg.Capacities = None,
    string_bytes: arg.StringBytes = 64,
    infer_shapes: arg.InferShapes = False,
    feeds: arg.Feeds = None,
    fetches: arg.Fetches = None,
    model_inputs: arg.ModelInputs = None,
    target: arg.TargetName = "native",
    cc: arg.Compiler = None,
    cflags: arg.Flags = None,
    peers_python: PeersPython = None,
    peer_cc: PeerCompiler = None,
    entry: Entry = None,
    math: arg.Arithmetic = "standard",
    activations: arg.Activations = "float",
    huffman: arg.Huffman = False,
    tuning: arg.TuningFile = None,
    profile: Profile = False,
    report_to: Report = None,
    markdown: Markdown = False,
    as_json: arg.Json = False,
) -> None:
    """Measure the speed of a bundle on one core, compared with other runtimes, or kernel by kernel."""
    rest: dict[str, Any] = {
        "math": math,
        "activations": activations,
        "huffman": huffman,
        "string_bytes": string_bytes,
        "infer_shapes": infer_shapes,
        **arg.edges(feeds, fetches, model_inputs),
    }
    wanted = arg.options(target, define, cc, cflags, tuning, capacity, fix=fix, **rest)
    names = [n.strip() for word in against or () for n in word.split(",") if n.strip()]
    with progress(f"Measuring {model.name}"):
        from ingot.api.checking import bench as measured
        from ingot.check import report as reporting
        from ingot.check.profile import profile_markdown

        found = measured(
            model,
            against=names,
            seconds=seconds,
            kernels=profile,
            peers_python=peers_python,
            peer_cc=peer_cc,
            entry=entry,
            **fields_of(wanted),
        )
    more = f"\n{profile_markdown(found.kernels)}" if found.kernels is not None else ""
    if report_to is not None:
        kernels = {} if found.kernels is None else {"profile": asdict(found.kernels)}
        reporting.write([found], report_to, more, kernels)
    if markdown and not as_json:
        text_block((reporting.markdown([found]) + more).rstrip("\n"))
    else:
        report(found.as_dict(), as_json, *found.tables())
    _remarks(found)


def _remarks(found: Benchmark) -> None:
    """What to know before one believes the figures; exit code 1 where outputs differ."""
    if found.load > BUSY:
        note(f"the machine is busy (load {found.load:.1f}); trust the minima more than the medians")
    for rival in found.rivals:
        if rival.error:
            note(f"not measured: {rival.error}")
        elif not rival.agrees:
            note(f"the outputs of {rival.name} differ by {rival.relative:.3g} of max|y|; see ingot verify")
    if not found.agrees:
        raise typer.Exit(1)
