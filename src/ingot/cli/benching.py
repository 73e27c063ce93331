"""`ingot bench`: how fast the shipped object is, beside onnxruntime."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress, report, table, text_block

if TYPE_CHECKING:
    from rich.table import Table

    from ingot.check.bench import Benchmark
    from ingot.check.profile import Profile as Profiled

Against = Annotated[Literal["onnxruntime"] | None, typer.Option(help="What to measure beside the bundle.")]
Profile = Annotated[bool, typer.Option("--profile", help="Also time every kernel beside the machine's peak.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Report as a Markdown table.")]


def bench(
    model: arg.ModelFile,
    against: Against = None,
    define: arg.Defines = None,
    target: arg.TargetName = "native",
    cc: arg.Compiler = None,
    cflags: arg.Flags = None,
    profile: Profile = False,
    markdown: Markdown = False,
    as_json: arg.Json = False,
) -> None:
    """Measure a model's bundle on one core, in turns with a peer; with --profile, kernel by kernel."""
    wanted = arg.options(target, define, cc, cflags)
    with progress(f"Measuring {model.name}"):
        from ingot.check import bench as measuring
        from ingot.check import profile as profiling
        from ingot.driver import compile_with

        found = measuring.bench(model, wanted, compile_with, against=against)
        taken = profiling.profile(model, wanted, compile_with) if profile else None
    if markdown and not as_json:
        text_block(measuring.markdown([found]).rstrip("\n"))
        if taken is not None:
            text_block("\n" + profiling.profile_markdown(taken).rstrip("\n"))
    else:
        data = asdict(found) | ({"profile": asdict(taken)} if taken is not None else {})
        report(data, as_json, _table(found), *([_profile_table(taken)] if taken is not None else []))
    if found.load > 1.5:
        note(f"the machine is busy (load {found.load:.1f}); trust the minima more than the medians")
    if not found.agrees:
        note(f"the outputs differ by {found.relative:.3g} of max|y|; see ingot verify")
        raise typer.Exit(1)


def _table(found: Benchmark) -> Table:
    rows = [
        (t.name, f"{t.median * 1e6:.2f}", f"{t.minimum * 1e6:.2f}", t.samples)
        for t in (found.ours, found.peer)
        if t is not None
    ]
    if found.ratio is not None and found.peer is not None:
        best = found.ours.minimum / found.peer.minimum
        rows.append(("ratio", f"{found.ratio:.3f}", f"{best:.3f}", found.peer.samples))
    title = (
        f"{found.model} on {found.target}, core {found.core}: {found.gmacs:.1f} GMAC/s at best, "
        f"{100 * found.roofline_share:.0f} % of the roofline"
    )
    return table(title, ("", "median us>", "minimum us>", "samples>"), rows)


def _profile_table(found: Profiled) -> Table:
    from ingot.check.profile import cells, summary

    columns = (
        "kernel",
        "us>",
        "% of time>",
        "MACs>",
        "GFLOP/s>",
        "% of peak>",
        "bytes>",
        "GB/s>",
        "% of bw>",
    )
    return table(summary(found), columns, map(cells, found.kernels))
