"""`ingot report`: one page about a model's build or a bundle, for people to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress
from ingot.cli.show import report as show
from ingot.options import fields_of

Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page to write.")]
Against = Annotated[
    str | None,
    typer.Option(
        metavar="OTHER",
        help="Compare with another build: a target, a bundle's directory, or options (math=exact,fuse=no).",
    ),
]
Time = Annotated[
    bool, typer.Option("--time/--no-time", help="Time every kernel, if the target runs on this machine.")
]
Error = Annotated[
    bool,
    typer.Option(
        "--error", help="Also show the error of every layer, compared with an evaluation in float64."
    ),
]
Histograms = Annotated[
    Path | None,
    typer.Option(
        "--profile", metavar="P.yaml", help="Draw the histograms of this profile from `ingot profile`."
    ),
]
Listings = Annotated[
    bool, typer.Option("--assembly/--no-assembly", help="Include the assembly of every function.")
]


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
    """Write a page about a build: graph, layers, costs, memory, weights, assembly."""
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
