"""The elements of values inside a model, for given or random inputs, as the oracle computes them.

In: a ModelProto, the names of values, inputs. Out: arrays by name, one set per run. Called by `ingot eie`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from ingot.bundle.host_memory import DRAWN, require_memory
from ingot.check.inputs import largest, random_inputs
from ingot.check.oracle import oracle, with_outputs
from ingot.errors import InputError, UnsupportedError
from ingot.formula.expr import Array
from ingot.formula.index import upper
from ingot.graph.ir import Graph


def values_of(
    model: onnx.ModelProto, graph: Graph, names: Sequence[str], inputs: Mapping[str, Array], runs: int
) -> list[dict[str, Array]]:
    """The elements of these values in up to that many runs.

    `inputs` may leave some out, which are drawn, differently in every run. Of a model whose first axis has
    the extent 1, an input may hold several samples along it: each is a run.
    """
    made = {name for node in model.graph.node for name in node.output}
    entering = {v.name for v in graph.inputs}
    unknown = [n for n in names if n not in made and n not in entering]
    if unknown:
        raise UnsupportedError(f"{unknown[0]!r} has no place in the model as it is written")
    asked = oracle(with_outputs(model, [n for n in names if n not in entering]))
    out = []
    for feed in feeds(graph, inputs, runs):
        found = asked.run(feed)
        out.append({n: feed[n] if n in feed else found[n] for n in names})
    return out


def feeds(graph: Graph, inputs: Mapping[str, Array], runs: int) -> Iterator[dict[str, Array]]:
    """The inputs of each run, as `values_of` says. Raises InputError for shapes that are not the model's."""
    shapes = {v.name: tuple(upper(n) for n in v.shape or ()) for v in graph.inputs}
    counts = {_samples(name, a, shapes[name]) for name, a in inputs.items()} - {1}
    if len(counts) > 1:
        raise InputError(f"the inputs hold {' and '.join(map(str, sorted(counts)))} samples")
    several = counts.pop() if counts else 1 if len(inputs) == len(shapes) else runs
    tensors: list[Mapping[str, Any]] = [
        {"name": v.name, "dtype": str(v.type), "shape": shapes[v.name]} for v in graph.inputs
    ]
    entering = sum(math.prod(shapes[v.name]) * v.type.numpy.itemsize for v in graph.inputs if v.type)
    require_memory(
        "a run of the model", {"inputs": (1 + DRAWN) * entering, "the oracle's tensors": 2 * largest(graph)}
    )
    for n in range(min(several, runs)):
        drawn = random_inputs(graph, tensors, {}, seed=n)
        given = {k: a[n : n + 1] if _samples(k, a, shapes[k]) > 1 else a for k, a in inputs.items()}
        yield {name: np.asarray(given.get(name, drawn[name])) for name in shapes}


def _samples(name: str, array: Array, shape: tuple[int, ...]) -> int:
    """How many runs an input is for. Raises InputError where its shape is not the model's."""
    if array.shape == shape:
        return 1
    if shape[:1] == (1,) and array.ndim == len(shape) and array.shape[1:] == shape[1:] and len(array):
        return len(array)
    raise InputError(f"input {name!r} has another shape than the model's", shapes=[array.shape, shape])
