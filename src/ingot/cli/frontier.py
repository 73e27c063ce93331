"""`ingot pareto`: a model compressed to several sizes, and what each costs, as a table and as a curve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import arguments as arg
from ingot.cli import compressing as by
from ingot.cli.accelerating import Scheduler, Workers
from ingot.cli.quantizing import labelled
from ingot.cli.show import note, progress, report, write_text
from ingot.errors import InputError

if TYPE_CHECKING:
    from ingot.check.pareto import Frontier

Ratios = Annotated[
    str,
    typer.Option("--ratios", metavar="4x,8x,...", help="How many times smaller the layers are to become."),
]
Bits = Annotated[
    list[str] | None,
    typer.Option(
        "--bits",
        metavar="LAYER=N,...",
        help="The bits of a code, as for compress; give it several times for several curves (default: 4).",
    ),
]
Folder = Annotated[
    Path,
    typer.Option(
        "-o", "--output", metavar="DIR", help="The folder for the models; a second run continues the first."
    ),
]
Svg = Annotated[
    Path | None, typer.Option("--svg", metavar="FILE", help="The picture (default: pareto.svg in DIR).")
]


def pareto(
    model: arg.ModelFile,
    ratios: Ratios = "4x,6x,8x,12x,16x,24x",
    bits: Bits = None,
    density: by.Densities = None,
    prune_by: by.PruneBy = None,
    centroids: by.Centroids = "optimal",
    finetune: by.Finetune = None,
    rounds: by.Rounds = None,
    steps: by.Steps = None,
    share_rounds: by.ShareRounds = None,
    entropic: by.Entropic = False,
    fold: by.Fold = False,
    short_names: by.ShortNames = False,
    evaluate: by.Evaluate = None,
    labels: by.Labels = None,
    output: Folder = Path("pareto"),
    svg: Svg = None,
    workers: Workers = 1,
    scheduler: Scheduler = None,
    as_json: arg.Json = False,
) -> None:
    """Compress a model to several sizes, and draw what each costs on data."""
    if evaluate is None and finetune is None:
        raise InputError(
            "there is nothing to judge by", remedy="give --evaluate FILE.npz, or --finetune TRAIN.py"
        )
    from ingot.check.pareto import Job
    from ingot.check.pareto import pareto as measured
    from ingot.compression.model import Wish
    from ingot.driver import compress_model

    wish = Wish(
        density=tuple(density or ()),
        scale=prune_by,
        start=centroids,
        entropic=entropic,
        training=by.training_of(finetune, rounds, steps, share_rounds, entropic),
    )
    job = Job(model, fold, labelled(evaluate, labels, "--evaluate"), compress_model, short_names)
    with progress(f"Compressing {model.name}"):
        found = measured(
            job, wish, _words(ratios), list(dict.fromkeys(bits or ["4"])), output, workers, scheduler
        )
    place = svg or output / "pareto.svg"
    write_text(place, _picture(model.name, found))
    report(found.as_dict(), as_json, *found.tables())
    note("models that are marked as best are beaten by no other in size and cost")


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _picture(name: str, found: Frontier) -> str:
    """A curve for each number of bits, and a line where the model before is."""
    from ingot.drawing.chart import Axis, Curve, curves_svg

    made = [p for p in found.points if not p.obstacle]
    is_error = any(p.error is not None and p.right is None for p in made)
    curves = [
        Curve(
            f"--bits {b}",
            tuple(sorted((p.ratio, abs(p.worth) if is_error else p.worth) for p in made if p.bits == b)),
        )
        for b in dict.fromkeys(p.bits for p in made)
    ]
    if found.before is not None:
        ends = [p.ratio for p in made]
        line = tuple((x, found.before) for x in (min(ends), max(ends)))
        curves.append(Curve("before", line, dash="4 3"))
    is_right = any(p.right is not None for p in made)
    what = "error of the outputs, %" if is_error else "right answers, %" if is_right else "score"
    return curves_svg(f"{name}, compressed", Axis("times smaller", is_log=True), Axis(what), curves)
