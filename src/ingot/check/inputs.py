"""Random inputs for a model. In: its graph, the bundle's manifest, extents, a seed; out: arrays by name.

Floats are normal, small integers cover their type, wide integers are small; an integer that picks elements of
a tensor stays within it. Called by `verify`, `bench` and `values`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ingot.formula.expr import Array
from ingot.formula.index import upper
from ingot.formula.packing import packed_bytes
from ingot.formula.strings import decoded, random_texts
from ingot.formula.types import DType, dtype_named
from ingot.graph.ir import Graph, Node, Value, uses

# Operators whose input of this number picks elements along an axis of their first.
PICKS = {"Gather": 1, "GatherElements": 1, "GatherND": 1, "ScatterElements": 1, "ScatterND": 1, "Scatter": 1}
PASSES_ON = frozenset(
    {"Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand"}
)
POSITIONS = {"SequenceAt": 3, "SequenceErase": 3, "SequenceInsert": 4}
"""Operators whose input of this number is a position in a sequence."""
NEAR = 2  # positions stay below this: random sequences are short
WIDE = 10  # int32 and int64 are below this: counts and classes, seldom data


def random_inputs(
    graph: Graph, tensors: list[Mapping[str, Any]], extents: Mapping[str, int], seed: int
) -> dict[str, Array]:
    """One array per input of the manifest, the same for the same seed whatever the other inputs are."""
    limits = index_limits(graph)
    out: dict[str, Array] = {}
    for t in tensors:
        name, dtype = str(t["name"]), dtype_named(t["dtype"])
        shape = tuple(n if isinstance(n, int) else extents[n] for n in t["shape"])
        rng = np.random.default_rng([seed, *name.encode()])
        out[name] = _random(rng, dtype, shape, limits.get(name))
    return out


def _random(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], limit: int | None) -> Array:
    if dtype.is_text:
        return decoded(random_texts(rng, dtype, shape))
    if dtype.is_float:
        return np.asarray(rng.standard_normal(shape)).astype(dtype.numpy)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if limit is not None:
        below = max(min(limit, int(dtype.highest) + 1), 1)
        return np.asarray(rng.integers(0, below, shape)).astype(dtype.numpy)
    low, high = (int(dtype.lowest), int(dtype.highest)) if dtype.bits <= 8 else (0, WIDE - 1)
    return np.asarray(rng.integers(low, high, shape, endpoint=True)).astype(dtype.numpy)


def largest(graph: Graph) -> int:
    """Bytes of the largest tensor that a run makes: an oracle holds each whole, where a bundle may not."""
    made = (v for node in graph.nodes for v in node.outputs if v is not None and v.constant is None)
    counts = ((math.prod(map(upper, v.shape)), v.type) for v in made if v.shape is not None and v.type)
    return max((packed_bytes(n, t) for n, t in counts), default=0)


def index_limits(graph: Graph) -> dict[str, int]:
    """For each graph input that picks elements somewhere, what it must stay below."""
    readers = uses(graph)
    out: dict[str, int] = {}
    for value in graph.inputs:
        found = list(_limits(value, readers))
        if found:
            out[value.name] = min(found)
    return out


def _limits(value: Value, readers: Mapping[Value, list[Node]]) -> Iterator[int]:
    pending, seen = [value], {value}
    while pending:
        current = pending.pop()
        for node in readers.get(current, []):
            place = PICKS.get(node.op)
            data = node.inputs[0]
            at = POSITIONS.get(node.op)
            if at is not None and len(node.inputs) > at and node.inputs[at] is current:
                assert data is not None and data.shape
                yield min(upper(data.shape[0]), NEAR)
            if place is not None and len(node.inputs) > place and node.inputs[place] is current:
                yield from _extents(node, data)
            elif node.op in PASSES_ON and data is current:
                new = [v for v in node.outputs if v is not None and v not in seen]
                seen.update(new)
                pending += new


def _extents(node: Node, data: Value | None) -> Iterator[int]:
    """The extents that an index into `data` may pick from."""
    if data is None or not data.shape:
        return
    axis = node.attributes.get("axis", 0)
    along_all = node.op in ("GatherND", "ScatterND") or not isinstance(axis, int)
    for i, extent in enumerate(data.shape):
        if along_all or i == axis or i - len(data.shape) == axis:
            yield upper(extent)
