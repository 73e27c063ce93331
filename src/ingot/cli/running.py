"""`ingot run`: the shipped object on inputs from files, images among them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli import picturing as pic
from ingot.cli.compiling import loaded
from ingot.cli.show import report
from ingot.errors import InputError
from ingot.files import write_folder
from ingot.tables import Table, table

if TYPE_CHECKING:
    from ingot.bundle.bundle import Bundle
    from ingot.data.images import Preprocessing
    from ingot.formula.expr import Array

SHOWN_VALUES = 8
JSON_VALUES = 4096
OutputDirectory = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write each output to DIR/NAME.npy.")
]
Top = Annotated[
    int, typer.Option(min=0, max=1000, metavar="K", help="Show the best classes of the first output.")
]
Names = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="The names of the classes for --top, one per line."),
]


def run(
    model: arg.ModelOrBundle,
    inputs: arg.Inputs = None,
    image: pic.Image = None,
    image_mode: pic.ImageMode = None,
    channel_order: pic.ChannelOrder = "RGB",
    layout: pic.ImageLayout = None,
    mean: pic.Mean = None,
    std: pic.Std = None,
    fit: pic.Fit = "stretch",
    top: Top = 0,
    labels: Names = None,
    output: OutputDirectory = None,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    capacity: arg.Capacities = None,
    string_bytes: arg.StringBytes = 64,
    state: arg.States = None,
    seed_input: arg.SeedInput = False,
    feeds: arg.Feeds = None,
    fetches: arg.Fetches = None,
    model_inputs: arg.ModelInputs = None,
    target: arg.TargetName = "native",
    as_json: arg.Json = False,
) -> None:
    """Run the shipped object on inputs from .npy files and images."""
    names = _class_names(labels, top)
    how = pic.preprocessing(image_mode, channel_order, layout, mean, std, fit)
    edges = arg.edges(feeds, fetches, model_inputs)
    more: dict[str, Any] = {"state": state, "seed_input": seed_input, **edges}
    wanted = arg.options(target, define, capacity=capacity, string_bytes=string_bytes, fix=fix, **more)
    bundle = loaded(model, wanted)
    from ingot.bundle.containers import flattened, inputs_of

    given = {**arg.read_inputs(inputs, inputs_of(bundle.manifest)), **_images(image, bundle, how)}
    _require_tensors(bundle.manifest, given)
    arrays = flattened(bundle.run(given))
    paths = save_arrays(arrays, output) if output is not None else {}
    data = [{**_described(n, a), "file": str(paths[n]) if n in paths else None} for n, a in arrays.items()]
    rows = [
        (d["name"], d["dtype"], "x".join(map(str, d["shape"])) or "scalar", _preview(arrays[d["name"]]))
        for d in data
    ]
    best = _best(next(iter(arrays.values())), top, names) if top else []
    if best:
        data[0]["top"] = [asdict(b) for b in best]
    shown = [table("Outputs", ("name", "type", "shape", "elements"), rows)]
    report(data, as_json, *shown, *([_ranking(best)] if best else []))


def _require_tensors(manifest: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise InputError for an input that is missing, where every input of the model is a tensor."""
    for t in () if manifest.get("ports") else manifest["inputs"]:
        if t["name"] not in given:
            kind = f"{t['dtype']} of shape {'x'.join(map(str, t['shape'])) or '[]'}"
            remedy = f"add --input {t['name']}=FILE.npy, an array of {kind}"
            raise InputError(f"input {t['name']!r} is missing", remedy=remedy)


@dataclass(frozen=True, slots=True)
class _Class:
    """One of the best classes. `probability`: the score, or softmax's where scores are no probabilities."""

    number: int
    name: str
    score: float
    probability: float | None
    is_softmax: bool


def _class_names(path: Path | None, top: int) -> list[str]:
    from ingot.data.labels import class_names

    if path is not None and not top:
        raise InputError("--labels names the classes that --top shows", remedy="add --top 5")
    return class_names(path) if path is not None else []


def _images(words: list[str] | None, bundle: Bundle, how: Preprocessing) -> dict[str, Array]:
    from ingot.data.samples import inputs_of

    return pic.images_of(words, inputs_of(bundle.manifest["inputs"]), how) if words else {}


def _best(output: Array, count: int, names: list[str]) -> list[_Class]:
    """The best classes of an output of one row, the best first; of equal scores the first."""
    import numpy as np

    if output.dtype.kind not in "fiuV" or output.size != max(output.shape, default=0) or output.size < 2:
        raise InputError(
            f"the first output is {output.dtype}{list(output.shape)}, which cannot be scores of classes",
            remedy="leave --top out",
        )
    if names and len(names) != output.size:
        raise InputError(f"--labels names {len(names)} classes, the output has {output.size}")
    x = output.reshape(-1).astype(np.float64)
    probabilities, is_softmax = _probabilities(x, output.dtype.kind in "iu")
    best = np.argsort(-x, kind="stable")[:count].tolist()
    return [
        _Class(
            i,
            names[i] if names else "",
            float(x[i]),
            None if probabilities is None else float(probabilities[i]),
            is_softmax,
        )
        for i in best
    ]


def _probabilities(x: Array, are_integers: bool) -> tuple[Array | None, bool]:
    """Probabilities of scores, and whether softmax makes them; none of integers, whose scale is not known."""
    import numpy as np

    if are_integers or not np.isfinite(x).all():
        return None, False
    if x.min() >= 0 and abs(x.sum() - 1) < 1e-2:
        return x, False
    exp = np.exp(x - x.max())
    return exp / exp.sum(), True


def _ranking(best: list[_Class]) -> Table:
    how = "no probabilities" if best[0].probability is None else "the model's own probabilities"
    title = f"Best classes ({'softmax applied' if best[0].is_softmax else how})"
    rows = [
        (b.number, b.name, f"{b.score:.6g}", "" if b.probability is None else f"{100 * b.probability:.2f} %")
        for b in best
    ]
    return table(title, ("class>", "name", "score>", "probability>"), rows)


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
    write_folder(directory, files)
    return paths
