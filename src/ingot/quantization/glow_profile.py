"""Profiles that Glow wrote (`-dump-profile`), as ours. In: a file, and the ONNX model that Glow was given.

The file is two YAML documents: a hash of Glow's own graph, which nobody else can compute, and a list of
NodeOutputName, Min, Max, Histogram (lib/Quantization/Serialization.cpp of Glow). Glow names an output NODE:n,
where NODE is the ONNX tensor's or node's name in which all but letters and digits are underscores.

Glow's bins, ten by default, have another grid: each is spread evenly over ours. Means per channel are not in
the file, so biases cannot be corrected by it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.errors import InputError
from ingot.files import conform
from ingot.quantization.document import read_documents
from ingot.quantization.profile import BINS, VERSION, Profile, Statistics, exponent_of, graph_digest

if TYPE_CHECKING:
    import onnx

SMALL, LARGE = 1e-300, 1e300
COUNT_LIMIT = 1e15
_OUTPUT = re.compile(r"(.+):(\d{1,4})", re.DOTALL)
_OTHER = re.compile(r"[^A-Za-z0-9]")


@dataclass(frozen=True)
class _Row:
    """One entry, with Glow's names of the fields."""

    NodeOutputName: str
    Min: float
    Max: float
    Histogram: list[float]


def read_glow_profile(path: Path, model: onnx.ModelProto) -> tuple[Profile, list[str]]:
    """Return the profile of a model, and Glow's names that fit none of its tensors. Raises InputError."""
    documents = read_documents(path)
    if len(documents) != 2 or not isinstance(documents[0], dict) or "GraphPreLowerHash" not in documents[0]:
        raise InputError(f"{path} is not a profile of Glow's")
    rows = conform(documents[1], list[_Row], str(path))
    names, tensors, unknown = _tensor_names(model), dict[str, Statistics](), []
    for row in rows:
        name = _tensor(row.NodeOutputName, names)
        if name is None:
            unknown.append(row.NodeOutputName)
        else:
            tensors[name] = _statistics(path, row)
    if not tensors:
        raise InputError(f"{path}: none of its {len(rows)} names is of a tensor of the model")
    return Profile(VERSION, graph_digest(model), 1, tensors), unknown


def _tensor_names(model: onnx.ModelProto) -> Mapping[str, str]:
    """Which tensor each of Glow's names can stand for; a tensor's own name goes before its node's."""
    constants = {t.name for t in model.graph.initializer}
    found: dict[str, str] = {}
    for node in model.graph.node:
        for n, name in enumerate(node.output):
            if node.name:
                found.setdefault(f"{_legal(node.name)}:{n}", name)
    own = [v.name for v in model.graph.input if v.name not in constants]
    own += [name for node in model.graph.node for name in node.output]
    return {**found, **{f"{_legal(name)}:0": name for name in own}}


def _legal(name: str) -> str:
    text = _OTHER.sub("_", name)
    return f"A{text}" if text[:1].isdigit() else text


def _tensor(name: str, names: Mapping[str, str]) -> str | None:
    """The tensor of an output's name; Glow numbers copies of a name by __1, __2, ..."""
    match = _OUTPUT.fullmatch(name)
    if match is None:
        return names.get(f"{_legal(name)}:0")
    node, result = _legal(match[1]), match[2]
    return names.get(f"{node}:{result}", names.get(f"{re.sub(r'__[0-9]+$', '', node)}:{result}"))


def _statistics(path: Path, row: _Row) -> Statistics:
    """Spread every bin evenly over ours, in whole elements; both ends hold one at least."""
    what = f"{path}: {row.NodeOutputName[:200]!r}"
    if not (-LARGE < row.Min <= row.Max < LARGE) or not row.Histogram:
        raise InputError(f"{what} has no range from {row.Min} to {row.Max}")
    if min(row.Histogram) < 0 or not 0 < sum(row.Histogram) < COUNT_LIMIT:
        raise InputError(f"{what}: its histogram does not count elements")
    exponent = exponent_of(row.Min, row.Max)
    first = math.floor(math.ldexp(row.Min, -exponent))
    last = math.floor(math.ldexp(row.Max, -exponent)) - first
    counts = _spread(row, [math.ldexp(first + i, exponent) for i in range(1, BINS + 1)])
    counts[0], counts[last] = max(counts[0], 1), max(counts[last], 1)
    return Statistics(row.Min, row.Max, sum(counts), tuple(counts), (), ())


def _spread(row: _Row, ends: Sequence[float]) -> list[int]:
    """Whole elements between each of the ends and the one before, if those of a bin lie evenly in it."""
    import numpy as np

    below = np.cumsum([0.0, *row.Histogram])
    if row.Max == row.Min:
        return [round(below[-1]), *[0] * (len(ends) - 1)]
    at = (np.array(ends) - row.Min) / (row.Max - row.Min) * len(row.Histogram)
    reached = np.rint(np.interp(at, np.arange(len(below)), below)).astype(np.int64)
    return [int(n) for n in np.diff(reached, prepend=0)]
