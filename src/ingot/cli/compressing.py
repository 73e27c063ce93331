"""`ingot compress`: prune, share and encode the weights of a model; the result is a model like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ingot.cli import arguments as arg
from ingot.cli.files import write_file
from ingot.cli.show import note, progress, report, table

Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="(default: MODEL.ingot.onnx)")
]
Densities = Annotated[
    list[str] | None,
    typer.Option(
        "--density",
        metavar="LAYER=SHARE",
        help="The share of weights that stay: fc6=0.09, 'conv*=35%', fc=0.1 for all dense layers, 0.1.",
    ),
]
Bits = Annotated[
    list[str] | None,
    typer.Option(metavar="LAYER=N", help="Bits of a code, 32 for none (default: conv=8,fc=4)"),
]
GapBits = Annotated[
    list[str] | None, typer.Option(metavar="LAYER=N", help="Bits of a relative index (default: 4)")
]
FormName = Annotated[
    Literal["auto", "sparse", "codebook"],
    typer.Option("--form", help="Indices and codes of non-zeros, a code per weight, or the smaller of both."),
]
Centroids = Annotated[
    Literal["linear", "density", "random", "optimal"], typer.Option(help="Where k-means begins.")
]
Seed = Annotated[int, typer.Option(help="Of random centroids.")]


def compress(
    model: arg.ModelFile,
    output: Output = None,
    density: Densities = None,
    bits: Bits = None,
    gap_bits: GapBits = None,
    form: FormName = "auto",
    centroids: Centroids = "optimal",
    seed: Seed = 0,
    as_json: arg.Json = False,
) -> None:
    """Compress a model's weights: pruning, weight sharing, relative indices, Huffman coding."""
    path = output or Path(f"{model.stem}.ingot.onnx")
    with progress(f"Compressing {model.name}"):
        from ingot.compress import accounting
        from ingot.compress.model import Wish
        from ingot.driver import compress_model

        wish = Wish(tuple(density or ()), tuple(bits or ()), tuple(gap_bits or ()), form, centroids, seed)
        made = compress_model(model, wish)
        content = made.model.SerializeToString()
        write_file(path, content)
    data = {"file": str(path), "bytes": len(content), **accounting.as_json(made.account)}
    title = f"{path}, {len(content):,} bytes"
    report(data, as_json, table(title, accounting.COLUMNS, accounting.rows(made.account)))
    note(accounting.summary(made.account))
