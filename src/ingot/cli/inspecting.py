"""`ingot inspect`: a model at one stage of its compilation, or what lies in a bundle's directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.compiling import is_bundle
from ingot.cli.show import note, progress, report, text_block, write_texts
from ingot.files import require_place, write_apart
from ingot.options import fields_of

Stage = Annotated[
    str | None,
    typer.Option(
        help="graph (default): nodes; a step on formulas, such as fuse: the formulas after it; program: "
        "kernels and steps; plan: costs and arena."
    ),
]
Dot = Annotated[Path | None, typer.Option("--dot", metavar="FILE", help="Write the graph as Graphviz text.")]
Constants = Annotated[
    Path | None,
    typer.Option("--constants", metavar="FILE.npz", help="Write all elements of the graph's constants."),
]
Svg = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the graph or the arena.")]


def inspect(
    model: arg.ModelOrBundle,
    stage: Stage = None,
    dot: Dot = None,
    svg: Svg = None,
    constants: Constants = None,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    capacity: arg.Capacities = None,
    string_bytes: arg.StringBytes = 64,
    state: arg.States = None,
    feeds: arg.Feeds = None,
    fetches: arg.Fetches = None,
    model_inputs: arg.ModelInputs = None,
    target: arg.TargetName = "native",
    as_json: arg.Json = False,
) -> None:
    """Show a model's graph, program or memory plan, or a bundle's costs and symbols."""
    more: dict[str, Any] = {
        "string_bytes": string_bytes,
        "state": state,
        **arg.edges(feeds, fetches, model_inputs),
    }
    wanted = arg.options(target, define, capacity=capacity, fix=fix, **more)
    if stage is None and (dot or svg or constants) and not is_bundle(model):
        stage = "graph"  # which is drawn, or an error says why not
    require_place(dot, svg, constants)
    with progress(f"Reading {model.name}"):
        from ingot.api.inspecting import inspect as inspected

        found = inspected(model, stage=stage, **fields_of(wanted))
        drawn = [(path, draw()) for path, draw in ((dot, found.dot), (svg, found.svg)) if path]
        stored = {constants: found.npz()} if constants else {}
    write_texts(dict(drawn))
    write_apart(stored)
    for path in stored:
        note(f"wrote {path}")
    if as_json:
        report(found.as_dict(), True)
    elif found.text:
        text_block(found.text)
    else:
        report({}, False, *found.tables())
    for remark in found.remarks:
        note(remark)
