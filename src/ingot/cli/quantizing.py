"""`ingot quantize`: a float model and a profile in, a QDQ model out; `ingot compile --profile` shares it."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress, report, table
from ingot.errors import InputError
from ingot.files import write_file
from ingot.quantize.scheme import OPTIONS, BiasPrecision, Edge, Precision, Schema, Scheme, parse_calibration

if TYPE_CHECKING:
    from ingot.options import Options
    from ingot.quantize.quantize import Quantized

COLUMNS = ("layer", "operator", "float bytes>", "bytes>", "SQNR dB>", "activations", "")
Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="(default: MODEL.int8.onnx)")
]
ProfileFile = Annotated[
    Path, typer.Option("--profile", metavar="P.yaml", help="What `ingot profile` wrote of this model.")
]
AnyProfile = Annotated[
    Path | None,
    typer.Option("--profile", metavar="P.yaml", help="Quantise first, by what `ingot profile` wrote."),
]
SchemaName = Annotated[
    Schema,
    typer.Option(
        "--schema",
        help="Zero points and scales, as Glow has them.",
    ),
]
CalibrationName = Annotated[
    str,
    typer.Option(
        "--calibration",
        metavar="METHOD",
        help="Ranges from histograms: mse, minmax, entropy or percentile[:99.99].",
    ),
]
PrecisionName = Annotated[
    Precision,
    typer.Option("--precision", help="int16x8: activations of 16 bits."),
]
BiasName = Annotated[BiasPrecision, typer.Option("--bias-precision", help="Of biases.")]
PerTensor = Annotated[bool, typer.Option("--per-tensor", help="One scale for all of a layer's weights.")]
KeepFloat = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-float",
        metavar="PATTERN,...",
        help="Nodes that stay float: names or operator types, with * and ?.",
    ),
]
EdgeName = Annotated[Edge, typer.Option("--io", help="What the caller gives and gets in place of floats.")]
AssertAll = Annotated[
    bool, typer.Option("--assert-all-quantized", help="Refuse models with nodes that stay float.")
]
NoCorrection = Annotated[
    bool, typer.Option("--no-bias-correction", help="Leave the mean error of rounded weights.")
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
    define: arg.Defines = None,
    inputs: arg.Feeds = None,
    outputs: arg.Fetches = None,
    as_json: arg.Json = False,
) -> None:
    """Quantise a float model by its profile: an ordinary QDQ model, which any runtime runs."""
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
    )
    path = output or Path(f"{model.stem}.int8.onnx")
    edges: dict[str, Any] = arg.edges(inputs, outputs)
    options = arg.options("native", define, **edges)
    with progress(f"Quantising {model.name}"):
        from ingot.driver import quantize_model
        from ingot.quantize.profile import read_profile

        made = quantize_model(model, read_profile(profile), wish, options)
        content = made.model.SerializeToString()
        write_file(path, content)
    show(made, path, len(content), as_json)


def scheme(
    *, calibration: str, keep_float: list[str] | None, no_bias_correction: bool, **rest: Any
) -> Scheme:
    """Return what the options of the command line say. Raises InputError for words that say nothing."""
    patterns = (p.strip() for word in keep_float or () for p in word.split(","))
    return Scheme(
        calibration=parse_calibration(calibration),
        keep_float=tuple(p for p in patterns if p),
        bias_correction=not no_bias_correction,
        **rest,
    )


def quantized_first(
    model: Path, profile: Path | None, wish: Scheme, wanted: Options
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
        return model, wanted
    with progress(f"Quantising {model.name}"):
        from ingot.driver import quantized_source
        from ingot.quantize.profile import read_profile

        return quantized_source(model, read_profile(profile), wish, wanted)


def show(made: Quantized, path: Path, size: int, as_json: bool) -> None:
    """The layers of a quantised model."""
    rows = [
        (
            r.name,
            r.operator,
            r.before,
            r.after,
            r.sqnr,
            r.activations,
            f"stays float: {r.note}" if r.note else "",
        )
        for r in made.rows
    ]
    data = {"file": str(path), "bytes": size, "layers": [asdict(r) for r in made.rows]}
    report(data, as_json, table(f"{path}, {size:,} bytes", COLUMNS, rows))
    before, after = (sum(getattr(r, key) for r in made.rows) for key in ("before", "after"))
    if after:
        note(f"weights and biases: {before:,} bytes in float, {after:,} quantised: 1/{before / after:.2f}")
