"""`ingot import`: a model in any format in, ONNX out, binary or text, to be opened in other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import progress, report
from ingot.errors import InputError
from ingot.files import write_file
from ingot.tables import table

if TYPE_CHECKING:
    import onnx

Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A model in any supported format, including ONNX's three forms.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="The file to write: .onnx, .onnxtxt (ONNX's syntax) or .pbtxt (protobuf text) (default: "
        "MODEL.onnx)",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A tfcompile configuration (default: X.config.pbtxt)."),
]


def import_(
    model: Model,
    output: Output = None,
    inputs: arg.Feeds = None,
    outputs: arg.Fetches = None,
    model_inputs: arg.ModelInputs = None,
    config: Config = None,
    as_json: arg.Json = False,
) -> None:
    """Convert a model of any format to ONNX, binary or text."""
    with progress(f"Importing {model.name}"):
        from ingot.frontends.canonical import imported
        from ingot.frontends.onnx.tensors import embed_external
        from ingot.frontends.onnx.write import written

        made = imported(model, **arg.edges(inputs, outputs, model_inputs), config=config)
        embed_external(made, model)  # the file may be written elsewhere
        path = output or Path(f"{model.stem}.onnx")
        if path.exists() and path.samefile(model):
            raise InputError(f"{path} is the model itself", remedy="name another file with -o")
        write_file(path, written(made, path))
    ends = {
        kind: [{"name": v.name, "shape": _shape(v)} for v in values]
        for kind, values in (("input", made.graph.input), ("output", made.graph.output))
    }
    rows = [(kind, v["name"], _shown(v["shape"])) for kind, vs in ends.items() for v in vs]
    data = {
        "file": str(path),
        "nodes": len(made.graph.node),
        "inputs": ends["input"],
        "outputs": ends["output"],
    }
    report(data, as_json, table(f"{path}, {len(made.graph.node)} nodes", ("", "name", "shape"), rows))


def _shape(value: onnx.ValueInfoProto) -> list[str | int] | None:
    """The extents as the model declares them: numbers, names, "?"; None where it declares none."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim]


def _shown(shape: list[str | int] | None) -> str:
    return "not declared" if shape is None else "x".join(map(str, shape)) or "scalar"
