"""The light models of the onnx package with random weights.

As shipped their weights are all one number, and so are their answers; here every ConstantOfShape that makes a
weight becomes a seeded random tensor, scaled by what it is multiplied with so that signals keep their size.
In: a name of `NAMES`. Out: a ModelProto, the same every time. Called by `models.py` and `tests/light.py`.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = tuple(sorted(p.stem.removeprefix("light_") for p in FOLDER.glob("light_*.onnx")))
Array = npt.NDArray[Any]


def light(name: str) -> onnx.ModelProto:
    """The model with weights of its own."""
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
    model.ir_version = 8
    return model


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
