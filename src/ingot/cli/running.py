"""`ingot run`: the shipped object on inputs from files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.compiling import loaded
from ingot.cli.show import report, table
from ingot.errors import InputError
from ingot.files import write_files

if TYPE_CHECKING:
    from ingot.formula.expr import Array

SHOWN_VALUES = 8
JSON_VALUES = 4096
OutputDirectory = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write each output to DIR/NAME.npy.")
]


def run(
    model: arg.ModelOrBundle,
    inputs: arg.Inputs = None,
    output: OutputDirectory = None,
    define: arg.Defines = None,
    capacity: arg.Capacities = None,
    string_bytes: arg.StringBytes = 64,
    state: arg.States = None,
    seed_input: arg.SeedInput = False,
    feeds: arg.Feeds = None,
    fetches: arg.Fetches = None,
    target: arg.TargetName = "native",
    as_json: arg.Json = False,
) -> None:
    """Run the shipped object on inputs from .npy files."""
    more: dict[str, Any] = {"state": state, "seed_input": seed_input, **arg.edges(feeds, fetches)}
    wanted = arg.options(target, define, capacity=capacity, string_bytes=string_bytes, **more)
    bundle = loaded(model, wanted)
    from ingot.bundle.containers import flattened, inputs_of

    arrays = flattened(bundle.run(arg.read_inputs(inputs, inputs_of(bundle.manifest))))
    paths = save_arrays(arrays, output) if output is not None else {}
    data = [{**_described(n, a), "file": str(paths[n]) if n in paths else None} for n, a in arrays.items()]
    rows = [
        (d["name"], d["dtype"], "x".join(map(str, d["shape"])) or "scalar", _preview(arrays[d["name"]]))
        for d in data
    ]
    report(data, as_json, table("Outputs", ("name", "type", "shape", "elements"), rows))


def _described(name: str, array: Array) -> dict[str, Any]:
    values = array.tolist() if array.size <= JSON_VALUES else None
    return {
        "name": name,
        "dtype": "string" if array.dtype == object else str(array.dtype),
        "shape": list(array.shape),
        "values": values,
    }


def _preview(array: Array) -> str:
    flat = array.reshape(-1)
    head = " ".join(f"{v:.6g}" if array.dtype.kind in "fV" else str(v) for v in flat[:SHOWN_VALUES].tolist())
    return head + (f" ... ({flat.size:,} in all)" if flat.size > SHOWN_VALUES else "")


def save_arrays(arrays: Mapping[str, Array], directory: Path) -> dict[str, Path]:
    """DIR/NAME.npy for each, whole or not at all; what no file can be called is replaced in the name."""
    import numpy as np

    paths: dict[str, Path] = {}
    for name in arrays:
        stem = "".join(c if c.isalnum() or c in "-_." else "_" for c in name).lstrip(".")[:100] or "output"
        paths[name] = directory / f"{stem}.npy"
    if len(set(paths.values())) < len(paths):
        raise InputError(f"the outputs {', '.join(arrays)} would share a file")
    files = {}
    for name, path in paths.items():
        array, held = arrays[name], io.BytesIO()
        plain = array.astype(str) if array.dtype == object else array  # strings, as numpy stores them
        np.save(held, plain, allow_pickle=False)
        files[path.name] = held.getvalue()
    write_files(directory, files)
    return paths
