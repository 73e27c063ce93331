"""`ingot sensitivity`: what pruning each layer alone costs, for `ingot compress --density`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress, report, write_text
from ingot.errors import InputError
from ingot.tables import Table, table

if TYPE_CHECKING:
    import onnx

    from ingot.check.sensitivity import Judge, Scan
    from ingot.compression.layers import Layer
    from ingot.formula.expr import Array
    from ingot.options import Options

Densities = Annotated[
    str | None,
    typer.Option("--density", metavar="SHARE,SHARE,...", help="The densities to try: 0.5,0.2,10%."),
]
TrainingScript = Annotated[
    Path | None,
    typer.Option(
        "--script",
        metavar="TRAIN.py",
        help="Measure with evaluate(model) of this script, as for compress --finetune.",
    ),
]
Allowed = Annotated[
    float | None,
    typer.Option(min=0, help="Print the lowest densities whose error, or loss of score, is at most this."),
]
Samples = Annotated[
    int, typer.Option(min=1, max=1 << 16, help="The number of random inputs, without --script and --data.")
]
Svg = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw a curve for each layer.")]


def sensitivity(
    model: arg.ModelFile,
    density: Densities = None,
    script: TrainingScript = None,
    inputs: arg.Inputs = None,
    data: arg.Data = None,
    samples: Samples = 2,
    allow: Allowed = None,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    svg: Svg = None,
    as_json: arg.Json = False,
) -> None:
    """Prune one layer at a time, and measure the error of the outputs or the score of a script."""
    from ingot.check.sensitivity import scan
    from ingot.driver import layers_apart

    if data is not None and (script is not None or inputs is not None):
        other = "--script, which has its own data" if script is not None else "--input"
        raise InputError(f"--data stands instead of {other}", remedy="leave one of them out")
    with progress(f"Scanning {model.name}"):
        options = arg.options("native", define, fix=fix)
        proto, layers, constants = layers_apart(model, options, is_merged=script is None)
        judge: Judge
        if script is None:
            judge = _outputs(model, proto, layers, options, inputs, data, samples)
        else:
            judge = _score(script, proto, layers, constants)
        made = scan(layers, _densities(density), judge, script is not None)
    if svg is not None:
        write_text(svg, _picture(made))
    told = asdict(made) | ({"within": made.within(allow)} if allow is not None else {})
    report(told, as_json, _table(model.name, made))
    if allow is not None:
        found = ",".join(f"{name}={d:g}" for name, d in made.within(allow).items())
        note(f"each within {allow:g}: --density {found}")


def _densities(text: str | None) -> tuple[float, ...]:
    from ingot.check.sensitivity import DENSITIES
    from ingot.compression import choose

    try:
        found = {choose.density(word.strip()) for word in text.split(",")} if text else set(DENSITIES)
    except ValueError as error:
        raise InputError(f"--density {text}: {error}") from None
    return tuple(sorted(found, reverse=True))


def _outputs(
    model: Path,
    proto: onnx.ModelProto,
    layers: list[Layer],
    options: Options,
    words: list[str] | None,
    data: list[str] | None,
    samples: int,
) -> Judge:
    from ingot.check.evidence import LabelledData, evidence_of
    from ingot.check.sensitivity import by_outputs
    from ingot.check.values import feeds
    from ingot.driver import front

    if data is not None:
        return by_outputs(proto, layers, evidence_of(model, options, LabelledData(tuple(data))).feeds)
    graph = front(proto, options)
    given = arg.read_inputs(words, [{"name": v.name, "dtype": str(v.type)} for v in graph.inputs])
    return by_outputs(proto, layers, list(feeds(graph, given, samples)))


def _score(path: Path, proto: onnx.ModelProto, layers: list[Layer], constants: dict[str, Array]) -> Judge:
    from ingot.check.sensitivity import by_script
    from ingot.check.trainable import trainable
    from ingot.compression.script import load_script

    return by_script(load_script(path), proto, layers, constants, trainable)


def _table(name: str, made: Scan) -> Table:
    what = f"score, {made.before:.6g} before" if made.is_score else "error of the outputs"
    columns = ["layer", "kind", "#weights>", *(f"{d:g}>" for d in made.densities)]
    rows = [(c.name, c.kind, c.weights, *(f"{v:.3g}" for v in c.values)) for c in made.curves]
    return table(f"{name}: {what} with one layer pruned to a density", columns, rows)


def _picture(made: Scan) -> str:
    from ingot.drawing.chart import Axis, Curve, curves_svg

    curves = [Curve(c.name, tuple(sorted(zip(made.densities, c.values, strict=True)))) for c in made.curves]
    title = "Score" if made.is_score else "Error of the outputs"
    return curves_svg(f"{title} with one layer pruned", Axis("density"), Axis(title), curves)
