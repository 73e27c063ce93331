"""`ingot verify`: the shipped object against onnxruntime, where they part, and which of the two is off."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress, report
from ingot.errors import InputError
from ingot.options import changed_of
from ingot.tables import table

if TYPE_CHECKING:
    from ingot.options import Options

Seed = Annotated[int, typer.Option(min=0, help="The seed of the random inputs.")]
Tolerance = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="The allowed difference, relative to max|y| (default: by type, 1 % per int8 layer; integers "
        "equal).",
    ),
]
Quantized = Annotated[
    Path | None,
    typer.Option(
        "--quantized",
        metavar="FLOAT",
        help="MODEL is FLOAT, quantised: rank its tensors by signal-to-noise ratio over --data.",
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="[NAME=]FILE",
        help="Samples for --quantized, in the forms that `ingot profile` accepts.",
    ),
]
OfModel = Annotated[
    Path | None,
    typer.Option("--model", metavar="MODEL", help="The model that the bundle was compiled from."),
]
Layers = Annotated[bool, typer.Option("--layers", help="Show every layer, even if all outputs agree.")]


def verify(
    model: arg.ModelOrBundle,
    of_model: OfModel = None,
    inputs: arg.Inputs = None,
    seed: Seed = 0,
    tolerance: Tolerance = None,
    layers: Layers = False,
    quantized: Quantized = None,
    data: Data = None,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    capacity: arg.Capacities = None,
    string_bytes: arg.StringBytes = 64,
    infer_shapes: arg.InferShapes = False,
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
    """Compare the shipped object with onnxruntime; if they differ, find the layer and which side is wrong.

    For a bundle's directory, --model names the model; the options are those of the bundle.
    """
    more: dict[str, Any] = {
        "math": math,
        "activations": activations,
        "huffman": huffman,
        "string_bytes": string_bytes,
        "infer_shapes": infer_shapes,
        **arg.edges(feeds, fetches, model_inputs),
    }
    wanted = arg.options(target, define, cc, cflags, tuning, capacity, state, fix, **more)
    if quantized is not None or data:
        return _rank(model, quantized, data, wanted, as_json)
    with progress(f"Verifying {model.name}"):
        from ingot.api.checking import verify as check
        from ingot.check.oracle import excuse

        found = check(
            model,
            model=of_model,
            feeds=given(model if of_model is None else of_model, inputs, wanted),
            seed=seed,
            tolerance=tolerance,
            layers=layers,
            **changed_of(wanted),
        )
    report(found.as_dict(), as_json, *found.tables())
    if found.oracle_reason:
        note(f"warning: {excuse(found.oracle_reason)}")
    note(found.verdict)
    if not found.ok:
        raise typer.Exit(1)


def _rank(model: Path, against: Path | None, words: list[str] | None, wanted: Options, as_json: bool) -> None:
    """Show the tensors of a quantised model, the worst first."""
    if against is None or not words:
        raise InputError("--quantized FLOAT and --data FILE.npz go together: samples show what is lost")
    with progress(f"Comparing {model.name}"):
        from ingot.check.noise import ranked
        from ingot.driver import compile_with

        found = ranked(model, against, words, wanted, compile_with)
    rows = [(n.tensor, f"{n.node} ({n.op})", n.decibels, n.lost) for n in found]
    columns = ("tensor", "made by", "SQNR dB>", "lost here dB>")
    report([asdict(n) for n in found], as_json, table(f"{model.name} against {against.name}", columns, rows))
    note(f"the worst tensor is {found[0].tensor!r}, {found[0].decibels:.1f} dB")
    most = max(found, key=lambda n: n.lost or 0.0)
    if most.lost:
        note(f"most is lost in {most.node!r} ({most.op}), {most.lost:.1f} dB")


def given(model: Path, words: list[str] | None, wanted: Options) -> dict[str, Any]:
    """The arrays of `--input`, whose types the model's own inputs tell."""
    if not words:
        return {}
    from ingot.bundle.containers import described, inputs_of
    from ingot.frontends.canonical import canonical
    from ingot.frontends.onnx import read_with

    graph = read_with(canonical(model, wanted), wanted)
    shown = {"inputs": [{"name": v.name, "dtype": str(v.type)} for v in graph.inputs]}
    ports = {"ports": {"inputs": [described(p) for p in graph.ports[0]]}} if graph.ports[0] else {}
    return arg.read_inputs(words, inputs_of({**shown, **ports}))
