"""`ingot tune`: measure the ways to compute each stage, and keep the fastest for `ingot compile --tuning`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress, report
from ingot.tables import table

Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="The file to write (default: MODEL.tune.json)"),
]
Seconds = Annotated[
    float, typer.Option(min=0, help="Stop after this time; the next run continues from there.")
]


def tune(
    model: arg.ModelFile,
    output: Output = None,
    seconds: Seconds = 60.0,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    capacity: arg.Capacities = None,
    string_bytes: arg.StringBytes = 64,
    feeds: arg.Feeds = None,
    fetches: arg.Fetches = None,
    model_inputs: arg.ModelInputs = None,
    target: arg.TargetName = "native",
    cc: arg.Compiler = None,
    cflags: arg.Flags = None,
    as_json: arg.Json = False,
) -> None:
    """Find the fastest way to compute each stage on this machine; a second run continues the first."""
    path = output or model.with_name(f"{model.name}.tune.json")
    with progress(f"Tuning {model.name}"):
        from ingot.check.tune import tune as measure
        from ingot.driver import compile_with, ways
        from ingot.targets.records import find, native

        more: dict[str, Any] = {"string_bytes": string_bytes, **arg.edges(feeds, fetches, model_inputs)}
        wanted = arg.options(target, define, cc, cflags, capacity=capacity, fix=fix, **more)
        found = native() if target == "native" else find(target)
        state, verdicts = measure(model, wanted, found, compile_with, ways, path, seconds)
    rows = [
        (v.key, v.guessed, f"{1e6 * v.guessed_seconds:.2f}", v.best, f"{1e6 * v.best_seconds:.2f}")
        for v in verdicts
    ]
    title = f"{path}: {len(rows)} stages for {state.target}"
    data = {"file": str(path), "complete": state.complete, "stages": [asdict(v) for v in verdicts]}
    report(data, as_json, table(title, ("stage", "cost model", "us>", "measured", "us>"), rows))
    if not verdicts:
        note("this model has no stage with a choice")
    elif not state.complete:
        note("the time was over before all was measured: run it again to go on")
    else:
        note(f"compile with --tuning {path}")
