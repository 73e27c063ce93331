"""`ingot compress`: prune, share and encode the weights of a model; the result is a model like any other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ingot.cli import arguments as arg
from ingot.cli.quantizing import labelled
from ingot.cli.show import note, progress, report
from ingot.errors import InputError
from ingot.files import read_file, require_place, write_apart
from ingot.tables import table

if TYPE_CHECKING:
    from ingot.compression.finetune import Training
    from ingot.compression.model import Compressed

Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="The file to write; a .net file is a container (default: MODEL.ingot.onnx)",
    ),
]
Densities = Annotated[
    list[str] | None,
    typer.Option(
        "--density",
        metavar="LAYER=SHARE",
        help="The share of weights to keep: fc6=0.09, 'conv*=35%', fc=0.1 for all dense layers, 0.1 for all.",
    ),
]
Ratio = Annotated[
    str | None,
    typer.Option(
        metavar="35x", help="Choose the other layers' densities so that the model is this many times smaller."
    ),
]
TotalDensity = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE", help="Choose the other layers' densities so that this share of all weights is kept."
    ),
]
PruneBy = Annotated[
    Literal["sensitivity", "global", "deviation"] | None,
    typer.Option(
        help="How to compare weights of different layers in this search: by their effect on the layer's "
        "result, by magnitude, or by magnitude in units of the layer's standard deviation."
    ),
]
CodeBits = Annotated[
    list[str] | None,
    typer.Option(
        "--bits", metavar="LAYER=N", help="The bits of a code; 32 for no codes (default: conv=8,fc=4)"
    ),
]
GapBits = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LAYER=N",
        help="The bits of a relative index; auto and coded give the smallest size before and after Huffman "
        "coding.",
    ),
]
FormName = Annotated[
    Literal["auto", "sparse", "codebook"],
    typer.Option(
        "--form", help="Store indices and codes of non-zeros, a code per weight, or the smaller of the two."
    ),
]
Centroids = Annotated[
    Literal["linear", "density", "random", "optimal"], typer.Option(help="The initial centroids of k-means.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="The seed of random centroids (default: 0).")]
Source = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="FILE.net", help="Read the weights from a container of the method's authors."
    ),
]
Finetune = Annotated[
    Path | None,
    typer.Option(
        metavar="TRAIN.py",
        help="Train between rounds of pruning, and train the centroids: a script with "
        "train(model, steps) and evaluate(model). Needs PyTorch.",
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(min=0, help="Rounds of pruning, with --finetune (default: 4); 0 prunes without training."),
]
Steps = Annotated[
    int | None,
    typer.Option(min=1, help="Optimiser steps for each round and for the centroids (default: 1000)."),
]
ShareRounds = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Rounds of sharing: in all but the last, training may move weights to other clusters; the last "
        "trains the centroids (default: 1).",
    ),
]
Entropic = Annotated[
    bool,
    typer.Option(
        "--entropy-constrained",
        help="With --finetune and --target-ratio: instead of pruning first, weights share the values that "
        "cost least in loss and in bits after Huffman coding; zero is one of them.",
    ),
]
Fold = Annotated[
    bool,
    typer.Option("--fold", help="First fold batch normalisations and biases into the weights before them."),
]
ShortNames = Annotated[
    bool,
    typer.Option(
        "--short-names", help="Give inner tensors short names: of a small model, names are most of the file."
    ),
]
Evaluate = Annotated[
    list[str] | None,
    typer.Option(
        "--evaluate",
        metavar="[NAME=]FILE",
        help="Measure on these samples what compression costs, whole and layer by layer: a .npz file whose "
        "arrays have the inputs' names, a .npy file, or a folder of them.",
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="The classes of the samples, a .npy file (default: the array labels of the data).",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE.md", help="Also write the table to a file, as Markdown or JSON."),
]


def compress(
    model: arg.ModelFile,
    output: Output = None,
    density: Densities = None,
    target_ratio: Ratio = None,
    total_density: TotalDensity = None,
    prune_by: PruneBy = None,
    bits: CodeBits = None,
    gap_bits: GapBits = None,
    form: FormName = "auto",
    centroids: Centroids = "optimal",
    seed: Seed = None,
    source: Source = None,
    finetune: Finetune = None,
    rounds: Rounds = None,
    steps: Steps = None,
    share_rounds: ShareRounds = None,
    entropic: Entropic = False,
    fold: Fold = False,
    short_names: ShortNames = False,
    evaluate: Evaluate = None,
    labels: Labels = None,
    report_file: Report = None,
    as_json: arg.Json = False,
) -> None:
    """Compress a model's weights: pruning, weight sharing, relative indices, Huffman coding."""
    path = output or Path(f"{model.stem}.ingot.onnx")
    require_place(path, report_file)
    with progress(f"Compressing {model.name}"):
        from ingot.compression.container import CONTAINER_BYTES
        from ingot.compression.model import Wish
        from ingot.driver import compress_model, container_of

        wish = Wish(
            density=tuple(density or ()),
            ratio=target_ratio or "",
            total_density=total_density or "",
            scale=prune_by,
            bits=tuple(bits or ()),
            gap_bits=tuple(gap_bits or ()),
            form=form,
            start=centroids,
            seed=seed,
            entropic=entropic,
            container=None if source is None else read_file(source, CONTAINER_BYTES),
            training=training_of(finetune, rounds, steps, share_rounds, entropic),
        )
        made = compress_model(model, wish, fold, labelled(evaluate, labels, "--evaluate"), short_names)
        content = container_of(made) if path.suffix == ".net" else made.model.SerializeToString()
        data, title = _accounted(made, path, len(content))
        files = {path: content}
        if report_file is not None:
            files[report_file] = _report(made, report_file, data, title).encode()
        write_apart(files)
    _show(made, data, title, as_json)
    if (target_ratio or total_density) and not entropic:
        found = ",".join(f"{name}={choice.density:.4g}" for name, choice in made.choices.items())
        note(f"to use these densities again: --density {found}")


def training_of(
    script: Path | None,
    rounds: int | None,
    steps: int | None,
    share_rounds: int | None,
    entropic: bool = False,
) -> Training | None:
    """The training that options ask for. Raises InputError for options of training without a script."""
    from ingot.compression.finetune import planned

    if script is not None:
        return planned(script, rounds, steps, share_rounds, entropic)
    if rounds is not None or steps or share_rounds:
        named = "--share-rounds is" if rounds is None and not steps else "--rounds and --steps are"
        raise InputError(f"{named} of training", remedy="add --finetune TRAIN.py")
    return None


def _accounted(made: Compressed, path: Path, size: int) -> tuple[dict[str, Any], str]:
    """The account of a compressed model as data, and its title."""
    ratio = made.model_bytes / size
    data = {"file": str(path), "bytes": size, "file_ratio": ratio, **made.as_dict()}
    factor = f"{ratio:.1f}x smaller" if ratio >= 1 else f"{1 / ratio:.1f}x larger"
    return data, f"{path}, {size:,} bytes: {factor} than the {made.model_bytes:,} of the model"


def _report(made: Compressed, path: Path, data: dict[str, Any], title: str) -> str:
    """The account as the file's name wants it."""
    import json

    from ingot.compression import accounting

    if path.suffix == ".json":
        return json.dumps(data, indent=2)
    return accounting.as_markdown(made.account, title, made.worth)


def _show(made: Compressed, data: dict[str, Any], title: str, as_json: bool) -> None:
    from ingot.compression import accounting

    heads, cells = accounting.columns(made.worth), accounting.rows(made.account, made.worth)
    report(data, as_json, table(title, heads, cells))
    note(accounting.summary(made.account))
    if made.worth is not None:
        note(str(made.worth))
    for when, score in made.scores:
        note(f"{when}: {score:.6g}")
    if made.frozen:
        note(f"no constant of the model has, so not trained: {', '.join(made.frozen)}")
