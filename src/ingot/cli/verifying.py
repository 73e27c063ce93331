"""`ingot verify`: the shipped object against onnxruntime, where they part, and which of the two is off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress, report, table

if TYPE_CHECKING:
    from rich.table import Table

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
Layers = Annotated[bool, typer.Option("--layers", help="Show every layer, even if all is well.")]


def verify(
    model: arg.ModelFile,
    inputs: arg.Inputs = None,
    seed: Seed = 0,
    tolerance: Tolerance = None,
    layers: Layers = False,
    define: arg.Defines = None,
    capacity: arg.Capacities = None,
    string_bytes: arg.StringBytes = 64,
    state: arg.States = None,
    feeds: arg.Feeds = None,
    fetches: arg.Fetches = None,
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
        **arg.edges(feeds, fetches),
    }
    wanted = arg.options(target, define, cc, cflags, tuning, capacity, state, **more)
    with progress(f"Verifying {model.name}"):
        from ingot.check.oracle import excuse
        from ingot.check.verify import verify as check
        from ingot.driver import compile_with

        arrays = given(model, inputs, wanted)
        found = check(
            model, wanted, compile_with, inputs=arrays, seed=seed, tolerance=tolerance, layers=layers
        )
    data = {**asdict(found), "ok": found.ok, "verdict": found.verdict}
    data["first_bad"] = asdict(found.first_bad) if found.first_bad else None
    report(data, as_json, *_tables(model, found))
    if found.oracle_reason:
        note(f"warning: {excuse(found.oracle_reason)}")
    note(found.verdict)
    if not found.ok:
        raise typer.Exit(1)


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
