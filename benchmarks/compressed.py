"""Trained networks compressed with training: how much smaller they become, and what they then get right.

    python -m benchmarks.compressed DATA [NAME...] [--update docs/compression.md] [--svg docs/compressed.svg]
    python -m benchmarks.compressed DATA [NAME...] --control

DATA is a folder of clones of public repositories, as for `benchmarks.accuracy`: `tiny`, `CIFAR-10-images` and
`benchmark-runner-ml`. Needs the extra `train`, and Pillow. A second run continues the first.

ResNet-8 was trained on CIFAR-10's own pixels; the images here are JPEG, on which it is right less often. So
it is first trained on these, and compressed after that: the table has all three. DS-CNN is compressed as it
was published. `ingot pareto` compresses both, with the scripts `finetune_*.py`. Out: a row for each size, a
picture, and exit code 0 only if the layers of each network reach the ratio that is asked of them within half
a point of the network that was compressed. With `--control`, what the same training gives a network that is
not compressed: the gain of training alone.
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
    "| network | samples | published | trained here | compressed | layers | plain | all constants | file |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
)
PUBLISHED = (
    Curve("LeNet-300-100, [1]", ((40.0, 0.06),)),
    Curve("LeNet-5, [1]", ((39.0, 0.06),)),
    Curve("AlexNet, [1]", ((35.0, 0.0),)),
    Curve("VGG-16, [1]", ((49.0, 0.33),)),
)
"""[1]: ratios and points of accuracy gained, of Table 1 of arXiv:1510.00149 (top-1)."""


@dataclass(frozen=True)
class Network:
    """What is compressed by which runs of `ingot pareto`, and the ratio of its layers that is asked of it.

    Weights are shared in `rounds` of so many `steps` of training, and the learning rate falls once in every
    `falling` of these; `tuning` are steps before all that.
    """

    title: str
    source: Path
    plans: tuple[str, ...]
    required: float
    rounds: int
    steps: int
    tuning: int = 0
    falling: int = 1

    @property
    def training(self) -> tuple[str, ...]:
        """The options of `ingot pareto` that say how long it trains."""
        return ("--rounds", "0", "--share-rounds", str(self.rounds), "--steps", str(self.steps))


NETWORKS = {
    "resnet8": Network(
        "ResNet-8 (MLPerf Tiny), CIFAR-10",
        TRAINING / "image_classification/trained_models/pretrainedResnet.h5",
        ("--ratios 12.2x --bits 4 --entropy-constrained",),
        12.0,
        rounds=3,
        steps=800,
        tuning=4680,
        falling=3,
    ),
    "ds_cnn": Network(
        "DS-CNN (MLPerf Tiny), keywords",
        TRAINING / "keyword_spotting/trained_models/kws_ref_model",
        ("--fold --ratios 10.2x --bits conv=3,fc=4,*depthwise*=4",),
        10.0,
        rounds=3,
        steps=3000,
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
    """The network after so many steps of training on the same samples."""
    path = data / FOLDER / f"{name}-tuned.onnx"
    if path.exists():
        return path
    import torch

    from ingot.check.trainable import trainable
    from ingot.compression.script import load_script

    model = onnx.load(data / FOLDER / f"{name}.onnx")
    network, script = trainable(model), load_script(HERE / f"finetune_{name}.py")
    torch.manual_seed(0)
    script.train(network, steps)
    for tensor in model.graph.initializer:
        if tensor.name in network.constants:
            trained = network.constants[tensor.name].detach().numpy()
            tensor.CopyFrom(numpy_helper.from_array(trained, tensor.name))
    onnx.save(model, path)
    return path


def control(data: Path, name: str) -> float:
    """The percentage of right answers after the same training without compression."""
    from ingot.check.trainable import trainable
    from ingot.compression.script import load_script

    network = NETWORKS[name]
    os.environ["ROUNDS"] = str(network.falling)
    trained = trainable(onnx.load(prepared(data, name)))
    script = load_script(HERE / f"finetune_{name}.py")
    script.prepare(trained)
    for _ in range(network.rounds):
        script.train(trained, network.steps)
    return script.evaluate(trained)


def ingot(*words: object) -> str:
    command = [sys.executable, "-m", "ingot", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def published(data: Path, name: str) -> Path:
    """The network as others trained it, in ONNX."""
    model = data / FOLDER / f"{name}.onnx"
    model.parent.mkdir(exist_ok=True)
    if not model.exists():
        ingot("import", data / NETWORKS[name].source, "-o", model)
    return model


def prepared(data: Path, name: str) -> Path:
    """The network that is compressed."""
    model, steps = published(data, name), NETWORKS[name].tuning
    return tuned(data, name, steps) if steps else model


def compressed(data: Path, name: str) -> dict[str, Any]:
    """What `ingot pareto` says of a network."""
    network, folder = NETWORKS[name], data / FOLDER
    os.environ["ROUNDS"] = str(network.falling)
    before, model = right_answers(data, name, published(data, name)), prepared(data, name)
    script = ("--finetune", HERE / f"finetune_{name}.py")
    judged = ("--evaluate", test_samples(data, name), "-o", folder / name, "--json")
    made = (
        ingot("pareto", model, *plan.split(), *network.training, *script, *judged) for plan in network.plans
    )
    runs = [json.loads(said) for said in made]
    points = [p for run in runs for p in run["points"] if not p["obstacle"]]
    samples = len(np.load(test_samples(data, name))["labels"])
    about = {"before": runs[0]["before"], "published": before, "samples": samples}
    return {**about, "points": points, "model_bytes": model.stat().st_size}


def right_answers(data: Path, name: str, model: Path) -> float:
    """The percentage that the published network gets right."""
    found = json.loads(ingot("evaluate", model, "--inputs", test_samples(data, name), "--json"))
    return float(found[0]["values"]["top-1"])


def row(name: str, found: dict[str, Any], point: dict[str, Any]) -> str:
    change = point["right"] - found["before"]
    ratios = [f"{point[k]:.1f}x" for k in ("ratio", "plain_ratio", "whole_ratio")]
    size = f"{point['bytes']:,} ({found['model_bytes'] / point['bytes']:.1f}x)"
    right = f"{found['published']:.2f} % | {found['before']:.2f} % | {point['right']:.2f} % ({change:+.2f})"
    more = " --entropy-constrained" * any("--entropy-constrained" in p for p in NETWORKS[name].plans)
    title = f"{NETWORKS[name].title}, `--bits {point['bits']}{more}`"
    return f"| {title} | {found['samples']:,} | {right} | {' | '.join(ratios)} | {size} |"


def picture(found: dict[str, dict[str, Any]]) -> str:
    """Points gained against how many times smaller the layers are, with those of others."""
    curves = []
    for name, of in found.items():
        title = NETWORKS[name].title.partition(" ")[0]
        for base, against in (("published", "published"), ("before", "trained")):
            if against == "published" or of["published"] != of["before"]:
                points = ((round(p["ratio"], 1), p["right"] - of[base]) for p in of["points"])
                curves.append(Curve(f"{title}, {against}", tuple(sorted(points))))
    x, y = (
        Axis("times smaller, with Huffman coding", is_log=True),
        Axis("points gained over the float network"),
    )
    return curves_svg("Accuracy against size; [1]: Deep Compression", x, y, [*curves, *PUBLISHED])


def reaches(name: str, of: dict[str, Any]) -> bool:
    """Whether a point is small enough, and as good as the network before but for what it may lose."""
    enough = (p for p in of["points"] if p["ratio"] >= NETWORKS[name].required)
    return any(p["right"] >= of["before"] - LOSS for p in enough)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compressed", description=__doc__)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--update", type=Path, metavar="FILE", help="write the table into a document")
    parser.add_argument("--control", action="store_true", help="train as long without compressing")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw accuracy against size")
    asked = parser.parse_args(words)
    os.environ["DATA"] = str(asked.data.resolve())
    if asked.control:
        for name in asked.names or NETWORKS:
            right = control(asked.data.resolve(), name)
            print(f"{name}: trained as long without compression, {right:.2f} % right")
        return 0
    found = {name: compressed(asked.data.resolve(), name) for name in asked.names or NETWORKS}
    lines = [row(name, of, p) for name, of in found.items() for p in of["points"]]
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
