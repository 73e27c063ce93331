"""`ingot quantize`: a float model and a profile in, a QDQ model out; `ingot compile --profile` shares it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress, report
from ingot.errors import InputError
from ingot.files import write_file
from ingot.quantization.scheme import (
    OPTIONS,
    BiasPrecision,
    Edge,
    Precision,
    Rounding,
    Schema,
    Scheme,
    parse_calibration,
    parse_drop,
)

if TYPE_CHECKING:
    from ingot.check.evidence import LabelledData
    from ingot.options import Options
    from ingot.quantization.quantize import Quantized

AUTO, MAX_DROP = "auto", "0.5%"
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="The model to write (default: MODEL.int8.onnx)"),
]
ProfileFile = Annotated[
    Path, typer.Option("--profile", metavar="P.yaml", help="The profile of this model, from `ingot profile`.")
]
AnyProfile = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="P.yaml",
        help="Quantise first, with this profile from `ingot profile`.",
        rich_help_panel=arg.QUANTISING,
    ),
]
SchemaName = Annotated[
    Schema,
    typer.Option(
        "--schema", help="The kind of zero points and scales, as in Glow.", rich_help_panel=arg.QUANTISING
    ),
]
CalibrationName = Annotated[
    str,
    typer.Option(
        "--calibration",
        metavar="METHOD",
        help="How to choose ranges: mse, minmax, entropy or percentile[:99.99].",
        rich_help_panel=arg.QUANTISING,
    ),
]
PrecisionName = Annotated[
    Precision,
    typer.Option("--precision", help="int16x8: 16-bit activations.", rich_help_panel=arg.QUANTISING),
]
BiasName = Annotated[
    BiasPrecision,
    typer.Option("--bias-precision", help="The type of biases.", rich_help_panel=arg.QUANTISING),
]
PerTensor = Annotated[
    bool,
    typer.Option(
        "--per-tensor", help="One scale for all of a layer's weights.", rich_help_panel=arg.QUANTISING
    ),
]
KeepFloat = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-float",
        metavar="PATTERN,...",
        help="Nodes that stay float: names or operator types, with * and ?; auto: as few weights as keep "
        "the loss on --data within --max-drop (with int16x8: these get 16 bits instead).",
        rich_help_panel=arg.QUANTISING,
    ),
]
EdgeName = Annotated[
    Edge,
    typer.Option(
        "--io", help="The type of inputs and outputs, instead of float.", rich_help_panel=arg.QUANTISING
    ),
]
AssertAll = Annotated[
    bool,
    typer.Option(
        "--assert-all-quantized",
        help="Stop with an error if nodes stay float.",
        rich_help_panel=arg.QUANTISING,
    ),
]
MaxDrop = Annotated[
    str | None,
    typer.Option(
        metavar="0.5%",
        help="The loss that --keep-float auto allows: of accuracy if there are labels, else |d| / |y|.",
        rich_help_panel=arg.QUANTISING,
    ),
]
Evidence = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="[NAME=]FILE",
        help="Samples for equalisation, adaptive rounding and --keep-float auto, in the forms that "
        "`ingot profile` accepts.",
        rich_help_panel=arg.QUANTISING,
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The classes of the samples, a .npy file (default: the array labels of the data)",
        rich_help_panel=arg.QUANTISING,
    ),
]
Rounds = Annotated[
    Rounding,
    typer.Option(
        help="The rounding of weights; adaptive: chosen with --data (AdaRound's objective).",
        rich_help_panel=arg.QUANTISING,
    ),
]
NoEqualize = Annotated[
    bool,
    typer.Option(
        "--no-equalize",
        help="Do not rescale channels between layers, even if that helps.",
        rich_help_panel=arg.QUANTISING,
    ),
]
NoCorrection = Annotated[
    bool,
    typer.Option(
        "--no-bias-correction",
        help="Do not correct the mean error of rounded weights.",
        rich_help_panel=arg.QUANTISING,
    ),
]


def quantize(
    model: arg.ModelFile,
    profile: ProfileFile,
    output: Output = None,
    schema: SchemaName = "asymmetric",
    calibration: CalibrationName = "mse",
    precision: PrecisionName = "int8",
    bias_precision: BiasName = "int32",
    per_tensor: PerTensor = False,
    keep_float: KeepFloat = None,
    edge: EdgeName = "float",
    assert_all: AssertAll = False,
    no_bias_correction: NoCorrection = False,
    no_equalize: NoEqualize = False,
    rounding: Rounds = "nearest",
    max_drop: MaxDrop = None,
    data: Evidence = None,
    labels: Labels = None,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    inputs: arg.Feeds = None,
    outputs: arg.Fetches = None,
    model_inputs: arg.ModelInputs = None,
    as_json: arg.Json = False,
) -> None:
    """Quantise a float model with its profile, to a QDQ model that any runtime can run."""
    wish = scheme(
        schema=schema,
        calibration=calibration,
        precision=precision,
        bias_precision=bias_precision,
        per_tensor=per_tensor,
        keep_float=keep_float,
        edge=edge,
        assert_all=assert_all,
        no_bias_correction=no_bias_correction,
        no_equalize=no_equalize,
        rounding=rounding,
        max_drop=max_drop,
    )
    path = output or Path(f"{model.stem}.int8.onnx")
    options = arg.options("native", define, fix=fix, **arg.edges(inputs, outputs, model_inputs))
    with progress(f"Quantising {model.name}"):
        from ingot.driver import quantize_model
        from ingot.quantization.profile import read_profile

        known = labelled(data, labels)
        made = quantize_model(model, read_profile(profile), wish, options, known)
        content = made.model.SerializeToString()
        write_file(path, content)
    show(made, path, len(content), as_json)


def scheme(
    *,
    calibration: str,
    keep_float: list[str] | None,
    max_drop: str | None,
    no_bias_correction: bool,
    no_equalize: bool,
    **rest: Any,
) -> Scheme:
    """Return what the options of the command line say. Raises InputError for words that say nothing."""
    patterns = [p.strip() for word in keep_float or () for p in word.split(",") if p.strip()]
    is_searched = AUTO in patterns
    if max_drop is not None and not is_searched:
        raise InputError("--max-drop is of a search for layers", remedy="add --keep-float auto")
    return Scheme(
        calibration=parse_calibration(calibration),
        keep_float=tuple(p for p in patterns if p != AUTO),
        max_drop=parse_drop(max_drop or MAX_DROP) if is_searched else None,
        bias_correction=not no_bias_correction,
        equalize=not no_equalize,
        **rest,
    )


def labelled(data: list[str] | None, labels: Path | None, option: str = "--data") -> LabelledData | None:
    """Return the data that options name, if any. Raises InputError for labels of nothing."""
    from ingot.check.evidence import LabelledData

    if data is None and labels is not None:
        raise InputError("--labels are of data", remedy=f"add {option} FILE.npz")
    return None if data is None else LabelledData(tuple(data), labels)


def quantized_first(
    model: Path,
    profile: Path | None,
    wish: Scheme,
    wanted: Options,
    data: list[str] | None,
    labels: Path | None,
) -> tuple[Path | bytes, Options]:
    """Return what to compile: the model, or its quantised form where there is a profile.

    Raises InputError for options of quantisation without a profile.
    """
    if profile is None:
        for key in (f.name for f in fields(wish) if getattr(wish, f.name) != getattr(Scheme(), f.name)):
            option = OPTIONS.get(key, f"--{key.replace('_', '-')}")
            raise InputError(
                f"{option} is of quantisation", remedy="add --profile P.yaml, made by `ingot profile`"
            )
        if data is not None or labels is not None:
            raise InputError("--data and --labels are of quantisation", remedy="add --profile P.yaml")
        return model, wanted
    with progress(f"Quantising {model.name}"):
        from ingot.driver import quantized_source
        from ingot.quantization.profile import read_profile

        known = labelled(data, labels)
        return quantized_source(model, read_profile(profile), wish, wanted, known)


def _pairs(count: int) -> str:
    """How many groups of layers, in words."""
    return "1 group of layers" if count == 1 else f"{count} groups of layers"


def _said(made: Quantized) -> Iterator[str]:
    """What was decided about the whole model."""
    if made.equalized and made.loss is None:
        yield f"channels of {_pairs(made.equalized)} are rescaled: one range fits them badly"
    elif made.equalized:
        yield f"channels of {_pairs(made.equalized)} are rescaled: on --data, that loses less"
    elif made.pairs and made.loss is None:
        yield f"channels of {_pairs(made.pairs)} were not rescaled; --data FILE.npz measures whether it helps"
    if made.found is not None:
        kept = ", ".join(sorted(made.found.kept)) or "none"
        yield f"kept, for all in 8 bits lose {made.found.before:.3%}: {kept}"
    if made.loss is not None:
        yield f"the model loses {made.loss:.3%} on the data"


def show(made: Quantized, path: Path, size: int, as_json: bool) -> None:
    """The layers of a quantised model."""
    report({"file": str(path), "bytes": size, **made.as_dict()}, as_json, *made.tables())
    for text in _said(made):
        note(text)
    before, after = (sum(getattr(r, key) for r in made.rows) for key in ("before", "after"))
    if after:
        note(f"weights and biases: {before:,} bytes in float, {after:,} quantised: 1/{before / after:.2f}")
    note(f"wrote {path}, {size:,} bytes")
