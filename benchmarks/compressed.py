"""Trained networks compressed with training: how much smaller they become, and what they then get right.

    python -m benchmarks.compressed DATA [NAME...] [--update docs/compression.md] [--svg docs/compressed.svg]

DATA is a folder of clones of public repositories, as for `benchmarks.accuracy`: `tiny`, `CIFAR-10-images` and
`benchmark-runner-ml`. Needs the extra `train`, and Pillow. A second run continues the first.

ResNet-8 was trained on CIFAR-10's own pixels; the images here are JPEG, on which it is right less often. So
it is first trained on these, and that is the float network that the compressed ones are compared with.
DS-CNN is compressed as it was published. `ingot pareto` compresses both, with the scripts `finetune_*.py`.
Out: a row for each size, a picture, and exit code 0 only if each network reaches the ratio that is asked of
it, all constants counted, within half a point.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.accuracy import TRAINING, ds_cnn
from benchmarks.pictures import cached_pictures
from benchmarks.run import update
from ingot.drawing.chart import Axis, Curve, curves_svg

HERE = Path(__file__).parent
FOLDER, DOCUMENT = "compressed", "compressed-networks"
LOSS = 0.5
"""Points that a network may lose."""
HEAD = (
    "| network | samples | float | compressed | layers, Huffman | plain | all constants | file, bytes |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|"
)
PUBLISHED = (
    Curve("Deep Compression: LeNet-300-100", ((40.0, 0.06),)),
    Curve("Deep Compression: LeNet-5", ((39.0, 0.06),)),
    Curve("Deep Compression: AlexNet, VGG-16", ((35.0, 0.0), (49.0, 0.33))),
)
"""Ratios and points of accuracy gained, of Table 1 of arXiv:1510.00149 (top-1)."""


@dataclass(frozen=True)
class Network:
    """What is compressed to which sizes, and the ratio that is asked of it. `tuning` are steps of training
    before.
    """

    title: str
    source: Path
    options: tuple[str, ...]
    rounds: int
    steps: int
    required: float
    tuning: int = 0


NETWORKS = {
    "resnet8": Network(
        "ResNet-8 (MLPerf Tiny), CIFAR-10",
        TRAINING / "image_classification/trained_models/pretrainedResnet.h5",
        ("--ratios", "13.5x,16.5x,20x"),
        2,
        450,
        12.0,
        2400,
    ),
    "ds_cnn": Network(
        "DS-CNN (MLPerf Tiny), keywords",
        TRAINING / "keyword_spotting/trained_models/kws_ref_model",
        ("--fold", "--ratios", "13.5x,16x"),
        3,
        1000,
        10.0,
    ),
}


def test_samples(data: Path, name: str) -> Path:
    """Write the test samples with their classes, and return the file."""
    path = data / FOLDER / f"{name}.npz"
    if not path.exists():
        if name == "resnet8":
            of = cached_pictures(data)
            samples, labels = of.test.astype(np.float32), of.test_labels
        else:
            task = ds_cnn(data)
            samples, labels = task.test, task.labels
        np.savez(path, input_1=samples, labels=labels.astype(np.int64))
    return path


def tuned(data: Path, name: str, steps: int) -> Path:
    """The network after so many steps of training on the same samples, its batch normalisations folded."""
    path = data / FOLDER / f"{name}-tuned.onnx"
    if path.exists():
        return path
    from ingot.check.trainable import trainable
    from ingot.compression.script import load_script
    from ingot.quantization.fold import fold
    from ingot.quantization.network import closed, opened

    model = closed(fold(opened(onnx.load(data / FOLDER / f"{name}.onnx"), {})))
    network, script = trainable(model), load_script(HERE / f"finetune_{name}.py")
    script.train(network, steps)
    for tensor in model.graph.initializer:
        if tensor.name in network.constants:
            trained = network.constants[tensor.name].detach().numpy()
            tensor.CopyFrom(numpy_helper.from_array(trained, tensor.name))
    onnx.save(model, path)
    return path


def ingot(*words: object) -> str:
    command = [sys.executable, "-m", "ingot", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def compressed(data: Path, name: str) -> dict[str, Any]:
    """What `ingot pareto` says of a network."""
    network, folder = NETWORKS[name], data / FOLDER
    model = folder / f"{name}.onnx"
    folder.mkdir(exist_ok=True)
    if not model.exists():
        ingot("import", data / network.source, "-o", model)
    if network.tuning:
        model = tuned(data, name, network.tuning)
    plan = ("--finetune", HERE / f"finetune_{name}.py", "--rounds", network.rounds, "--steps", network.steps)
    judged = ("--evaluate", test_samples(data, name), "-o", folder / name, "--json")
    found = json.loads(ingot("pareto", model, *network.options, "--bits", "4", *plan, *judged))
    return {
        **found,
        "model_bytes": model.stat().st_size,
        "samples": len(np.load(folder / f"{name}.npz")["labels"]),
    }


def row(name: str, found: dict[str, Any], point: dict[str, Any]) -> str:
    change = point["right"] - found["before"]
    ratios = [f"{point[k]:.1f}x" for k in ("ratio", "plain_ratio", "whole_ratio")]
    size = f"{point['bytes']:,} ({found['model_bytes'] / point['bytes']:.1f}x)"
    right = f"{found['before']:.2f} % | {point['right']:.2f} % ({change:+.2f})"
    return f"| {NETWORKS[name].title} | {found['samples']:,} | {right} | {' | '.join(ratios)} | {size} |"


def picture(found: dict[str, dict[str, Any]]) -> str:
    """Points gained against how many times smaller the layers are, with those of others."""
    curves = []
    for name, of in found.items():
        points = ((p["ratio"], p["right"] - of["before"]) for p in of["points"] if not p["obstacle"])
        curves.append(Curve(NETWORKS[name].title, tuple(sorted(points))))
    title = "Compressed with training: accuracy against size"
    return curves_svg(
        title,
        Axis("times smaller, with Huffman coding", is_log=True),
        Axis("points gained"),
        [*curves, *PUBLISHED],
    )


def reaches(name: str, of: dict[str, Any]) -> bool:
    return any(
        p["whole_ratio"] >= NETWORKS[name].required and p["right"] >= of["before"] - LOSS
        for p in of["points"]
        if not p["obstacle"]
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compressed", description=__doc__)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--update", type=Path, metavar="FILE", help="write the table into a document")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw accuracy against size")
    asked = parser.parse_args(words)
    os.environ["DATA"] = str(asked.data.resolve())
    found = {name: compressed(asked.data.resolve(), name) for name in asked.names or NETWORKS}
    lines = [row(name, of, p) for name, of in found.items() for p in of["points"] if not p["obstacle"]]
    table = "\n".join([HEAD, *lines])
    print(table)
    if asked.update:
        update(asked.update, DOCUMENT, table)
    if asked.svg:
        asked.svg.write_text(picture(found))
    short = [name for name, of in found.items() if not reaches(name, of)]
    for name in short:
        print(f"{name}: not {NETWORKS[name].required}x within {LOSS} points", file=sys.stderr)
    return int(bool(short))


if __name__ == "__main__":
    sys.exit(main())
