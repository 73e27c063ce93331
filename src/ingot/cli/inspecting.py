"""`ingot inspect`: a model at one stage of its compilation, or what lies in a bundle's directory."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.compiling import cost_table, is_bundle
from ingot.cli.show import note, progress, report, text_block, write_text
from ingot.errors import InputError
from ingot.tables import table

if TYPE_CHECKING:
    from ingot.driver import Stages
    from ingot.graph.ir import Graph
    from ingot.inspection.diagram import Diagram
    from ingot.options import Options

Stage = Annotated[
    str | None,
    typer.Option(
        help="graph (the default): nodes; a step on formulas, such as fuse: the formulas behind it; program: "
        "kernels and steps; plan: costs and arena."
    ),
]
Dot = Annotated[Path | None, typer.Option("--dot", metavar="FILE", help="Write Graphviz text.")]
Svg = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw a picture.")]


def inspect(
    model: arg.ModelOrBundle,
    stage: Stage = None,
    dot: Dot = None,
    svg: Svg = None,
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
    if is_bundle(model):
        if stage or dot or svg:
            raise InputError("a bundle's directory has no stages and no pictures; inspect its model")
        _bundle(model, as_json)
        return
    more: dict[str, Any] = {
        "string_bytes": string_bytes,
        "state": state,
        **arg.edges(feeds, fetches, model_inputs),
    }
    wanted = arg.options(target, define, capacity=capacity, fix=fix, **more)
    if stage is None and not (dot or svg) and (reason := _no_graph(model, wanted)):
        _declared(model, wanted, reason, as_json)
        return
    if stage in (None, "graph"):
        _graph(model, wanted, dot, svg, as_json)
        return
    if stage not in ("program", "plan"):
        _region(model, wanted, stage, dot or svg, as_json)
        return
    with progress(f"Compiling {model.name}"):
        from ingot.driver import stages

        made = stages(model, wanted)
    show = _program if stage == "program" else _plan
    show(made, dot, svg, as_json)


def _no_graph(model: Path, wanted: Options) -> str:
    """Why a model that can be read has no graph: unknown operators, free dimensions. "" if it has one."""
    with progress(f"Reading {model.name}"):
        from ingot.driver import front
        from ingot.frontends.canonical import canonical
        from ingot.frontends.onnx import read_proto

        if not read_proto(canonical(model, wanted)).HasField("graph"):
            return ""  # who reads it says so
        try:
            front(model, wanted)
        except InputError as error:
            return str(error)
        return ""


def _declared(model: Path, wanted: Options, reason: str, as_json: bool) -> None:
    from ingot.frontends.canonical import canonical
    from ingot.frontends.onnx import read_proto
    from ingot.inspection.declared import declared, declared_text

    found = declared(read_proto(canonical(model, wanted)))
    if as_json:
        report({**asdict(found), "reason": reason}, True)
    else:
        text_block(declared_text(found))
    if found.unsupported:
        note(f"unsupported operators: {', '.join(found.unsupported)}")
    note(f"as the file declares it; it does not compile: {reason}")


def _graph(model: Path, wanted: Options, dot: Path | None, svg: Path | None, as_json: bool) -> None:
    with progress(f"Reading {model.name}"):
        from ingot.driver import front
        from ingot.graph.text import graph_text
        from ingot.inspection.diagram import graph_diagram

        graph = front(model, wanted)
    _draw(graph_diagram(graph), dot, svg)
    if as_json:
        report(_graph_data(graph), True)
    else:
        text_block(graph_text(graph))


def _graph_data(graph: Graph) -> dict[str, Any]:
    from ingot.graph.text import describe

    nodes = [
        {
            "name": node.name,
            "op": node.op,
            "domain": node.domain,
            "version": node.version,
            "inputs": [None if v is None else v.name for v in node.inputs],
            "outputs": [None if v is None else describe(v) for v in node.outputs],
        }
        for node in graph.nodes
    ]
    inputs, outputs = [describe(v) for v in graph.inputs], [describe(v) for v in graph.outputs]
    return {"name": graph.name, "inputs": inputs, "outputs": outputs, "nodes": nodes}


def _region(model: Path, wanted: Options, stage: str, picture: Path | None, as_json: bool) -> None:
    """The formulas behind a step."""
    from ingot.driver import REGION_STEPS, front, region_of
    from ingot.loops.region import region_text

    steps = [step.name for step in REGION_STEPS]
    if stage not in steps:
        known = ", ".join(("graph", *steps, "program", "plan"))
        raise InputError(f"--stage {stage}: there is no such stage", remedy=f"choose from {known}")
    if picture:
        raise InputError("formulas have no picture; the stages graph, program and plan do")
    with progress(f"Reading {model.name}"):
        text = region_text(region_of(front(model, wanted), wanted, stage))
    if as_json:
        report({"stage": stage, "text": text}, True)
    else:
        text_block(text)


def _program(made: Stages, dot: Path | None, svg: Path | None, as_json: bool) -> None:
    from ingot.inspection.costs import kernel_costs
    from ingot.inspection.diagram import program_diagram
    from ingot.loops.program import program_text

    _draw(program_diagram(made.program), dot, svg)
    text = program_text(made.program)
    if as_json:
        report({"kernels": [asdict(k) for k in kernel_costs(made.program)], "text": text}, True)
    else:
        text_block(text)


def _plan(made: Stages, dot: Path | None, svg: Path | None, as_json: bool) -> None:
    from ingot.inspection.arena import arena_svg
    from ingot.inspection.costs import kernel_costs, placed_tensors

    if dot:
        raise InputError("--dot draws the stages graph and program; the plan's picture is --svg")
    if svg:
        write_text(svg, arena_svg(made.program, made.plan))
    plan, costs, tensors = made.plan, kernel_costs(made.program), placed_tensors(made.plan)
    data = {
        "arena_bytes": plan.arena_bytes,
        "arena_bound_bytes": plan.bound_bytes,
        "kernels": [asdict(k) for k in costs],
        "tensors": [asdict(t) for t in tensors],
    }
    total = ("total", "", sum(k.macs for k in costs), sum(k.bytes for k in costs))
    rows = [(k.name, " + ".join(k.nodes), k.macs, k.bytes) for k in costs]
    kernels = table("Kernels", ("kernel", "nodes", "MACs>", "bytes>"), [*rows, total])
    arena = table(
        f"Arena: {plan.arena_bytes:,} bytes; no plan needs less than {plan.bound_bytes:,}",
        ("tensor", "type", "shape", "bytes>", "offset>", "from step>", "to>"),
        [(t.name, t.dtype, "x".join(t.shape), t.bytes, t.offset, t.first, t.last) for t in tensors],
    )
    report(data, as_json, kernels, arena)


def _bundle(directory: Path, as_json: bool) -> None:
    from ingot.bundle.bundle import load
    from ingot.inspection.costs import object_facts

    bundle = load(directory)
    manifest, tables = bundle.manifest, []
    for what in ("inputs", "outputs", *(["state"] if manifest["state"] else [])):
        rows = [(t["name"], t["symbol"], t["dtype"], "x".join(map(str, t["shape"]))) for t in manifest[what]]
        tables.append(table(what.capitalize(), ("name", "in C", "type", "shape"), rows))
    tables.append(cost_table(manifest))
    kernels = [
        (
            k["name"],
            " + ".join(k["nodes"]),
            k["macs"],
            k["bytes"],
            "; ".join((", ".join(k.get("generators", ())), *k.get("notes", ()))).removeprefix("; "),
        )
        for k in manifest["kernels"]
    ]
    tables.append(table("Kernels", ("kernel", "nodes", "MACs>", "bytes>", "how"), kernels))
    data: dict[str, Any] = {"manifest": manifest, "object": None}
    if f"{bundle.name}.o" in bundle.files:
        facts = object_facts(bundle.files[f"{bundle.name}.o"], bundle.name)
        data["object"] = asdict(facts)
        sizes = [(s, getattr(facts, s)) for s in ("text", "rodata", "data", "bss", "writable")]
        tables.append(table("Sections", ("section", "bytes>"), sizes))
        symbols = [*((s, "defined") for s in facts.defined), *((s, "undefined") for s in facts.undefined)]
        tables.append(table("Symbols", ("symbol", ""), symbols))
        frames = [(name, own, deep, name in facts.deepest) for name, (own, deep) in facts.frames.items()]
        tables.append(table("Stack", ("function", "own>", "with callees>", "deepest path"), frames))
    report(data, as_json, *tables)


def _draw(diagram: Diagram, dot: Path | None, svg: Path | None) -> None:
    from ingot.inspection.dot import dot_text
    from ingot.inspection.picture import diagram_svg

    if dot:
        write_text(dot, dot_text(diagram))
    if svg:
        write_text(svg, diagram_svg(diagram))
