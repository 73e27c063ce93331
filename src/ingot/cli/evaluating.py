"""`ingot evaluate`: what models are worth on labelled data, one or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import arguments as arg
from ingot.cli import picturing as pic
from ingot.cli.compiling import loaded
from ingot.cli.show import note, progress, report
from ingot.errors import InputError
from ingot.tables import Table, table

if TYPE_CHECKING:
    from ingot.check.evaluate import Contender, Score
    from ingot.data.images import Preprocessing
    from ingot.formula.expr import Array
    from ingot.options import Options

SHARES = ("top-1", "top-5", "AUC", "mean IoU", "pixels", "same class as the first")
POINTS = SHARES[:-1]
Models = Annotated[
    list[Path],
    typer.Argument(metavar="MODEL_OR_DIR...", help="Models or bundles, side by side.", show_default=False),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="Of --inputs: .npy or .npz, integers (classes) or floats (right outputs); without it the "
        "array `labels` beside the data. Of --images: lines of `file label`; without it folders are classes.",
    ),
]
Classes = Annotated[
    Path | None,
    typer.Option("--classes", metavar="FILE", help="Names of classes, one in a line, in the model's order."),
]
Output = Annotated[str, typer.Option("--output", metavar="NAME", help="(default: the first output)")]


def evaluate(
    models: Models,
    data: arg.Data = None,
    images: pic.Images = None,
    labels: Labels = None,
    classes: Classes = None,
    output: Output = "",
    image_mode: pic.ImageMode = None,
    channel_order: pic.ChannelOrder = "RGB",
    layout: pic.ImageLayout = None,
    mean: pic.Mean = None,
    std: pic.Std = None,
    fit: pic.Fit = "stretch",
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    model_inputs: arg.ModelInputs = None,
    target: arg.TargetName = "native",
    as_json: arg.Json = False,
) -> None:
    """Measure models on data: top-1, top-5, AUC, mean IoU, or errors against the outputs that are right.

    The shipped objects run over all samples; models behind the first are compared with it too.
    """
    from ingot.check.evaluate import evaluate as measured

    how = pic.preprocessing(image_mode, channel_order, layout, mean, std, fit)
    paths, right = _data(data or [], images, labels, classes)
    wanted = arg.options(target, define, fix=fix, model_inputs=tuple(model_inputs or ()))
    contenders = [_contender(m, wanted, data or [], paths, how, output) for m in models]
    with progress("Evaluating"):
        scores = measured(contenders, right)
    report([asdict(s) for s in scores], as_json, *([] if as_json else [_table(scores)]))
    slowest = ", ".join(f"{1e6 * s.seconds:.0f} us" for s in scores)
    note(f"{slowest} an inference, with the calls from Python")


def _data(
    words: Sequence[str], images: Path | None, labels: Path | None, classes: Path | None
) -> tuple[list[Path], Array | None]:
    """The images, and what is known of each sample."""
    from ingot.data.images import image_files
    from ingot.data.labels import class_names, labels_beside, labels_of_images, read_labels

    if not words and images is None:
        raise InputError("there is no data", remedy="give --inputs FILE.npz or --images DIR")
    names = class_names(classes) if classes is not None else []
    if images is None:
        return [], labels_beside(words) if labels is None else read_labels(labels)
    paths = image_files(images)
    if labels is not None and labels.suffix in (".npy", ".npz"):
        return paths, read_labels(labels)
    return paths, labels_of_images(paths, images, labels, names)


def _contender(
    model: Path, wanted: Options, words: Sequence[str], paths: Sequence[Path], how: Preprocessing, output: str
) -> Contender:
    from ingot.check.evaluate import Contender
    from ingot.data.samples import inputs_of

    bundle = loaded(model, wanted)
    samples = pic.samples_of(inputs_of(bundle.manifest["inputs"]), words, paths, how)
    return Contender(str(model), bundle, samples, output)


def _table(scores: Sequence[Score]) -> Table:
    """A row for each metric, a column for each model, with the difference from the first in points."""
    names = list(dict.fromkeys(name for s in scores for name in s.values))
    rows = [(name, *(_cell(name, s, scores[0]) for s in scores)) for name in names]
    title = f"{scores[0].samples:,} samples"
    return table(title, ("", *(f"{Path(s.name).name}>" for s in scores)), rows)


def _cell(name: str, score: Score, first: Score) -> str:
    value = score.values.get(name)
    if value is None:
        return ""
    if name not in SHARES:
        return f"{value:.4g}"
    points = (
        value - first.values[name] if score is not first and name in POINTS and name in first.values else None
    )
    return f"{value:.2f} %" + (f" ({points:+.2f})" if points is not None else "")
