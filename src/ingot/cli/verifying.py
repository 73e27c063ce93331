"""`ingot verify`: the shipped object against onnxruntime, where they part, and which of the two is off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress, report
from ingot.errors import InputError
from ingot.tables import Table, table

if TYPE_CHECKING:
    from ingot.check.compare import Difference
    from ingot.check.verify import Verification
    from ingot.options import Options

Seed = Annotated[int, typer.Option(min=0, help="Of the random inputs.")]
Tolerance = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Of max|y|, beside the oracle (default: by type, 1 % per int8 layer; integers equal).",
    ),
]
Quantized = Annotated[
    Path | None,
    typer.Option(
        "--quantized",
        metavar="FLOAT",
        help="MODEL is a quantised form of FLOAT: rank its tensors by signal to noise over --data.",
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data", metavar="[NAME=]FILE", help="Samples for --quantized, as `ingot profile` takes them."
    ),
]
Layers = Annotated[bool, typer.Option("--layers", help="Show every layer, even if all is well.")]


def verify(
    model: arg.ModelFile,
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
    """Compare the shipped object with onnxruntime; where they differ, find the layer and who is off."""
    more: dict[str, Any] = {
        "math": math,
        "activations": activations,
        "huffman": huffman,
        "string_bytes": string_bytes,
        **arg.edges(feeds, fetches, model_inputs),
    }
    wanted = arg.options(target, define, cc, cflags, tuning, capacity, state, fix, **more)
    if quantized is not None or data:
        return _rank(model, quantized, data, wanted, as_json)
    with progress(f"Verifying {model.name}"):
        from ingot.check.oracle import excuse
        from ingot.check.verify import verify as check
        from ingot.driver import compile_with

        arrays = given(model, inputs, wanted)
        found = check(
            model, wanted, compile_with, inputs=arrays, seed=seed, tolerance=tolerance, layers=layers
        )
    told = {**asdict(found), "ok": found.ok, "verdict": found.verdict}
    told["first_bad"] = asdict(found.first_bad) if found.first_bad else None
    report(told, as_json, *_tables(model, found))
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


def _tables(model: Path, found: Verification) -> Iterable[Table]:
    against = f"{found.oracle} ({found.oracle_reason})" if found.oracle_reason else found.oracle
    for case in found.cases:
        where = "".join(f", {symbol}={n}" for symbol, n in case.extents.items())
        where += f", step {case.step + 1}" if any(c.step for c in found.cases) else ""
        yield _table(f"{model.name} on {found.target} against {against}{where}", case.outputs, found.oracle)
    if found.layers:
        yield _table("Layer by layer, fusion off", found.layers, found.oracle)


def _table(title: str, differences: tuple[Difference, ...], oracle: str) -> Table:
    columns = ("tensor", "made by", "type", "shape", "max|d|>", "max|d|/max|y|>", "ulp>", "")
    rows = [
        (
            d.name,
            f"{d.node} ({d.op})" if d.node != d.op else d.op,
            d.dtype,
            "x".join(map(str, d.shape)) or "scalar",
            float(d.max_abs),
            float(d.relative),
            d.ulp,
            _judged(d, oracle),
        )
        for d in differences
    ]
    return table(title, columns, rows)


def _judged(d: Difference, oracle: str) -> str:
    """Whether a tensor is right, and who says so where the two differ."""
    said = "" if d.judgement is None else d.judgement.sentence(oracle)
    return " ".join(part for part in ("ok" if d.ok else "BAD", d.remark, said) if part)
