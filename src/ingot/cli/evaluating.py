"""`ingot evaluate`: what models are worth on labelled data, one or several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ingot.cli import arguments as arg
from ingot.cli import picturing as pic
from ingot.cli.show import note, progress, report
from ingot.options import fields_of

Models = Annotated[
    list[Path],
    typer.Argument(metavar="MODEL_OR_DIR...", help="Models or bundles, side by side.", show_default=False),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="The labels of --inputs: a .npy or .npz file of integers (classes) or floats (expected "
        "outputs); default: the array `labels` of the data. For --images: lines of `file label`; "
        "default: each folder is a class.",
    ),
]
Classes = Annotated[
    Path | None,
    typer.Option(
        "--classes", metavar="FILE", help="The names of the classes, one per line, in the model's order."
    ),
]
Output = Annotated[
    str, typer.Option("--output", metavar="NAME", help="The output to evaluate (default: the first)")
]


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
    """Measure models on labelled data: top-1, top-5, AUC, mean IoU, or errors of the outputs.

    The shipped objects run on all samples; further models are also compared with the first.
    """
    how = pic.preprocessing(image_mode, channel_order, layout, mean, std, fit)
    wanted = arg.options(target, define, fix=fix, model_inputs=tuple(model_inputs or ()))
    with progress("Evaluating"):
        from ingot.api.checking import evaluate as measured

        found = measured(
            models,
            data or [],
            images=images,
            labels=labels,
            classes=classes,
            output=output,
            preprocessing=how,
            **fields_of(wanted),
        )
    report(found.as_dict(), as_json, *found.tables())
    slowest = ", ".join(f"{1e6 * s.seconds:.0f} us" for s in found.scores)
    note(f"{slowest} an inference, with the calls from Python")
