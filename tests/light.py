"""The nine light models of the onnx package, with random weights: `make light` runs them beside onnxruntime.

As shipped their weights are all one number, and so are their answers; here every ConstantOfShape that makes a
weight becomes a seeded random tensor, scaled by what it is multiplied with so that signals keep their size.

    python -m tests.light [NAME ...]
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from rich.console import Console
from rich.progress import track
from rich.table import Table

import ingot
from ingot.check.compare import compare
from tests import program
from tests.corpus.cases import onnxruntime_outputs
from tests.corpus.net import Array

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = tuple(sorted(p.stem.removeprefix("light_") for p in FOLDER.glob("light_*.onnx")))
TOLERANCE = 1e-4


def light(name: str) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model with weights of its own, and an image."""
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    graph, rng = model.graph, np.random.default_rng(zlib.crc32(name.encode()))
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    made = {n.output[0]: shapes[n.input[0]] for n in graph.node if n.op_type == "ConstantOfShape"}
    weights = {n: _values(graph, n, tuple(map(int, s)), rng) for n, s in made.items()}
    nodes = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    read = {i for n in nodes for i in n.input}
    for t in graph.initializer:
        if t.name in read:
            a = shapes[t.name]
            weights[t.name] = _values(graph, t.name, a.shape, rng) if a.dtype == np.float32 else a
    inputs = [i for i in graph.input if i.name in read and i.name not in weights]
    for field, values in (("node", nodes), ("input", inputs)):
        graph.ClearField(field)
        getattr(graph, field).extend(values)
    graph.ClearField("initializer")
    graph.ClearField("value_info")
    graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    feeds = {
        i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32)
        for i in inputs
    }
    if graph.node[-1].op_type == "Softmax":  # what goes into it says more than probabilities near 0 and 1
        graph.output.append(helper.make_empty_tensor_value_info(graph.node[-1].input[0]))
    model.ir_version = 8
    return model, feeds


def _values(graph: onnx.GraphProto, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Random numbers of the size that suits whoever reads them."""
    op, place = _reader(graph, name)
    match op, place:
        case (("Conv" | "Gemm" | "MatMul"), 1):
            terms = int(np.prod(shape[1:])) if op != "MatMul" else shape[0]
            values = rng.standard_normal(shape) * (2 / terms) ** 0.5
        case ("BatchNormalization", 1 | 4) | ("Mul", _):
            values = rng.uniform(0.7, 1.2, shape)
        case _:
            values = rng.standard_normal(shape) * 0.1
    return np.asarray(values).astype(np.float32)


def _reader(graph: onnx.GraphProto, name: str) -> tuple[str, int]:
    """The operator that uses a value, and as which input; through what only reshapes it."""
    for node in graph.node:
        if name in node.input:
            if node.op_type in ("Reshape", "Unsqueeze") and node.input[0] == name:
                return _reader(graph, node.output[0])
            return node.op_type, list(node.input).index(name)
    return "", 0


def outputs(name: str, target: str) -> Iterator[tuple[Array, Array]]:
    """(found, wanted) of each output."""
    model, feeds = light(name)
    found = ingot.compile(model, target=target, name=name, emit=("obj",)).run(feeds)
    yield from zip(found.values(), onnxruntime_outputs(model, feeds), strict=True)


def sanitized(name: str) -> bool:
    """Whether gcc's sanitizers see nothing and both runs agree with onnxruntime. They raise where they do."""
    model, feeds = light(name)
    flags = ("-O1", *(f for f in program.SANITIZED if f != "-O0"))  # twenty thousand million sums in VGG-19
    (answer,) = program.run([program.member(model, feeds, name, "x86-64-v3")], flags)
    wanted = onnxruntime_outputs(model, feeds)
    return all(compare(f, w, TOLERANCE).ok for run in answer.runs for f, w in zip(run, wanted, strict=True))


def main(names: tuple[str, ...] = NAMES) -> int:
    """How many failed."""
    console, failed = Console(stderr=True), 0
    table = Table("model", "max|d|/max|y|", "seconds to compile and run", "sanitizers")
    for name in track(names, "light models", console=console):
        start, said = time.monotonic(), ""
        try:
            worst = max(
                (compare(f, w, TOLERANCE) for f, w in outputs(name, "native")), key=lambda d: d.relative
            )
            seconds = time.monotonic() - start
            clean = "clean" if sanitized(name) else "wrong"
            failed += not worst.ok or clean == "wrong"
            table.add_row(name, f"{worst.relative:.1e}", f"{seconds:.1f}", clean)
        except Exception as error:
            failed, said = failed + 1, f"{type(error).__name__}: {str(error)[:200]}"
            table.add_row(name, said, "", "")
    Console().print(table)
    return failed


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or NAMES) > 0)
