"""`ingot report`: one page about a model's build or a bundle, for people to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress
from ingot.cli.show import report as show
from ingot.options import fields_of

Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where the page goes.")]
Against = Annotated[
    str | None,
    typer.Option(
        metavar="OTHER",
        help="Another build beside it: a target, a bundle's directory, or options as math=exact,fuse=no.",
    ),
]
Time = Annotated[
    bool, typer.Option("--time/--no-time", help="Time every kernel, where the target runs in this process.")
]
Error = Annotated[
    bool, typer.Option("--error", help="Also the error of every layer beside an evaluation in float64.")
]
Histograms = Annotated[
    Path | None,
    typer.Option("--profile", metavar="P.yaml", help="Draw the histograms that `ingot profile` wrote."),
]
Listings = Annotated[bool, typer.Option("--assembly/--no-assembly", help="Put every function's assembly in.")]


def report(
    subject: arg.ModelOrBundle,
    output: Output = Path("report.html"),
    against: Against = None,
    time: Time = True,
    error: Error = False,
    profile: Histograms = None,
    assembly: Listings = True,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    capacity: arg.Capacities = None,
    string_bytes: arg.StringBytes = 64,
    state: arg.States = None,
    feeds: arg.Feeds = None,
    fetches: arg.Fetches = None,
    model_inputs: arg.ModelInputs = None,
    target: arg.TargetName = "native",
    cc: arg.Compiler = None,
    cflags: arg.Flags = None,
    math: arg.Arithmetic = "standard",
    activations: arg.Activations = "float",
    huffman: arg.Huffman = False,
    tuning: arg.TuningFile = None,
    as_json: arg.Json = False,
) -> None:
    """Write one page about a build: graph, layers, costs, memory, weights, assembly."""
    wanted = arg.options(
        target,
        define,
        cc,
        cflags,
        tuning,
        capacity,
        state,
        fix,
        math=math,
        activations=activations,
        huffman=huffman,
        string_bytes=string_bytes,
        **arg.edges(feeds, fetches, model_inputs),
    )
    with progress(f"Reporting on {subject.name}"):
        from ingot.api.reporting import report as reported

        made = reported(
            subject,
            output,
            against=against,
            time=time,
            error=error,
            histograms=profile,
            assembly=assembly,
            **fields_of(wanted),
        )
    note(f"wrote {output}")
    if made.untimed:
        note(f"no times: {made.untimed}")
    if as_json:
        show({"page": str(output), **made.as_dict()}, True)
