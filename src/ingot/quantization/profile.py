"""What values the tensors of a float model take: statistics per tensor, as a YAML file that merges.

In: a file, or profiles of parts of the data. Out: a `Profile`. Written by `ingot profile`, read by everything
that chooses how a tensor is quantised.

The bins of a histogram lie on a grid that only the range decides: their width is the least power of two for
which 2,048 of them, the first one holding `low`, reach `high`. A range that grows makes neighbouring bins
one, so every count stays exact, and merging gives the same histogram in any order.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.errors import InputError
from ingot.files import conform
from ingot.quantization.document import read_documents, write_document
from ingot.tables import Result, Table, table

if TYPE_CHECKING:
    import numpy as np
    import onnx

VERSION = 1
BINS = 2048
LEAST_EXPONENT = -149  # of float32's smallest number: bins are not narrower
RESOLVED_BITS = 40  # of the largest magnitude: nor are they narrower than that
COUNT_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Statistics:
    """What one tensor holds over all samples; elements that are not finite are left out.

    `low` and `high` are the least and the greatest element, `count` how many there are. `histogram` has 2,048
    counts: bin i holds the elements x with edge + i * width <= x < edge + (i + 1) * width. `means` and
    `squares` are the mean of the elements and of their squares for each channel: along axis 1 of a tensor
    with two axes or more (ONNX's NCHW), one number for all others; both are empty where they are not known,
    as in profiles that Glow wrote.
    """

    low: float
    high: float
    count: int
    histogram: tuple[int, ...]
    means: tuple[float, ...]
    squares: tuple[float, ...]

    @property
    def width(self) -> float:
        """The width of every bin, a power of two."""
        return math.ldexp(1.0, exponent_of(self.low, self.high))

    @property
    def edge(self) -> float:
        """The lower end of the first bin, a multiple of the width, at most `low`."""
        return math.floor(self.low / self.width) * self.width


@dataclass(frozen=True, slots=True, repr=False)
class Profile(Result):
    """Statistics of a model's float tensors, by their names in the canonical ONNX model.

    `version` is that of the format, `model` a digest of the graph, and `samples` the number of samples.
    """

    version: int
    model: str
    samples: int
    tensors: Mapping[str, Statistics]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data: the range of each tensor. The histograms are in the file that `save` writes."""
        rows = [{"name": n, "low": s.low, "high": s.high, "count": s.count} for n, s in self.tensors.items()]
        return {"model": self.model, "samples": self.samples, "tensors": rows}

    def tables(self) -> list[Table]:
        """Return the range of every tensor."""
        rows = [(name, s.low, s.high, s.count) for name, s in self.tensors.items()]
        title = f"{len(rows)} tensors over {self.samples:,} samples"
        return [table(title, ("tensor", "low>", "high>", "elements>"), rows)]

    def save(self, path: str | Path) -> Path:
        """Write the file that `ingot quantize --profile` reads. Raises InputError."""
        write_profile(Path(path), self)
        return Path(path)


def exponent_of(low: float, high: float) -> int:
    """Return e, where 2^e is the width of the bins of a range: it never falls as the range grows."""
    least = max(LEAST_EXPONENT, math.frexp(max(abs(low), abs(high)))[1] - RESOLVED_BITS)
    if low == high:
        return least
    span = high / BINS - low / BINS  # high - low may overflow
    exponent = max(least, math.frexp(span)[1] - 1)
    while _last_bin(low, high, exponent) >= BINS:
        exponent += 1
    return exponent


def _last_bin(low: float, high: float, exponent: int) -> int:
    """The number of the bin that holds `high`, where bins are 2^exponent wide."""
    return math.floor(math.ldexp(high, -exponent)) - math.floor(math.ldexp(low, -exponent))


# ---- merging


def merged(profiles: Iterable[Profile]) -> Profile:
    """Return the profile of all the samples that profiles of one model have seen.

    Ranges, counts and histograms are exact; means are rounded once, so that no order of the profiles differs
    from another. Raises InputError for profiles of different models, and where there are none.
    """
    parts = list(profiles)
    if not parts:
        raise InputError("there are no profiles to merge", remedy="name them with --merge FILE")
    for part in parts[1:]:
        _require_same(parts[0].model, part.model)
    names = dict.fromkeys(name for part in parts for name in part.tensors)
    seen = {name: [p.tensors[name] for p in parts if name in p.tensors] for name in names}
    tensors = {name: _merged(statistics) for name, statistics in seen.items()}
    return Profile(VERSION, parts[0].model, sum(p.samples for p in parts), tensors)


def _merged(parts: list[Statistics]) -> Statistics:
    import numpy as np

    low, high = min(p.low for p in parts), max(p.high for p in parts)
    exponent = exponent_of(low, high)
    histogram = np.zeros(BINS, np.int64)
    for part in parts:
        _add(histogram, math.floor(math.ldexp(low, -exponent)), exponent, part)
    count = sum(p.count for p in parts)
    means, squares = (
        tuple(_mean(column, parts, count) for column in zip(*rows, strict=True))
        for rows in (_alike([p.means for p in parts]), _alike([p.squares for p in parts]))
    )
    return Statistics(low, high, count, tuple(histogram.tolist()), means, squares)


def _alike(rows: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """One number each where the number of channels differs, as it does along an axis of a run-time extent."""
    if len({len(row) for row in rows}) == 1:
        return rows
    return [(math.fsum(row) / len(row),) if row else () for row in rows] if all(rows) else [()] * len(rows)


def _mean(values: tuple[float, ...], parts: list[Statistics], count: int) -> float:
    return math.fsum(value * (part.count / count) for value, part in zip(values, parts, strict=True))


def _add(to: np.ndarray[Any, Any], first: int, exponent: int, part: Statistics) -> None:
    """Add a histogram to one whose bins are 2^exponent wide, no narrower, and begin at bin `first`."""
    import numpy as np

    counts = np.asarray(part.histogram, np.int64)
    own = exponent_of(part.low, part.high)
    used = np.flatnonzero(counts)
    places = (math.floor(math.ldexp(part.low, -own)) + used >> exponent - own) - first
    np.add.at(to, places, counts[used])


# ---- files


def read_profile(path: Path) -> Profile:
    """Read a profile. Raises InputError for what is none, or contradicts itself."""
    documents = read_documents(path)
    if documents and isinstance(documents[0], dict) and "GraphPreLowerHash" in documents[0]:
        message = f"{path} is a profile of Glow's, whose names only the model explains"
        raise InputError(message, remedy=f"make one of ours first: ingot profile MODEL --glow {path}")
    if len(documents) != 1 or not isinstance(documents[0], dict) or "tensors" not in documents[0]:
        raise InputError(
            f"{path} is not a profile from `ingot profile`",
            remedy="make one: ingot profile MODEL --inputs FILE.npz -o profile.yaml",
        )
    version = documents[0].get("version")
    if version != VERSION:
        raise InputError(f"{path} is a profile of version {version}; this Ingot reads version {VERSION}")
    profile = conform(documents[0], Profile, str(path))
    if profile.samples < 1:
        raise InputError(f"{path} is a profile of {profile.samples} samples", remedy="make the profile anew")
    for name, statistics in profile.tensors.items():
        if reason := _contradiction(statistics):
            raise InputError(f"{path}: tensor {name[:200]!r}: {reason}", remedy="make the profile anew")
    return profile


def write_profile(path: Path, profile: Profile) -> None:
    """Write a profile as YAML. Raises InputError where the file cannot be written."""
    tensors = {name: _plain(s) for name, s in profile.tensors.items()}
    write_document(path, {**asdict(profile), "tensors": tensors})


def _plain(s: Statistics) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(s).items()}


def _contradiction(s: Statistics) -> str:
    """What is wrong with statistics that a file holds, or nothing."""
    if not all(map(math.isfinite, (s.low, s.high, *s.means, *s.squares))):
        return "a number is not finite"
    if s.low > s.high:
        return f"its least element {s.low} is greater than its greatest {s.high}"
    if len(s.histogram) != BINS:
        return f"its histogram has {len(s.histogram):,} bins, not {BINS:,}"
    if min(s.histogram) < 0 or sum(s.histogram) != s.count or not 0 < s.count <= COUNT_LIMIT:
        return f"its histogram does not count {s.count} elements"
    last = _last_bin(s.low, s.high, exponent_of(s.low, s.high))
    if not s.histogram[0] or not s.histogram[last] or any(s.histogram[last + 1 :]):
        return f"its histogram is not of the range from {s.low} to {s.high}"
    if len(s.means) != len(s.squares):
        return f"it has {len(s.means)} means and {len(s.squares)} squares"
    return ""


# ---- which model


def graph_digest(model: onnx.ModelProto) -> str:
    """Return the SHA-256 of a model's graph: nodes, constants, edge, operator sets and functions.

    Names of files, producers and documentation do not count, nor how a constant's elements are stored. The
    model's external data must be in it.
    """
    found = hashlib.sha256()
    for line in sorted(f"{o.domain or 'ai.onnx'} {o.version}" for o in model.opset_import):
        found.update(f"{line}\n".encode())
    graph = _without_constants(model.graph)
    for part in (graph, *model.functions):
        found.update(part.SerializeToString(deterministic=True))
    for tensor in sorted(model.graph.initializer, key=lambda t: t.name):
        found.update(_constant(tensor))
    return found.hexdigest()


def _without_constants(graph: onnx.GraphProto) -> onnx.GraphProto:
    """The graph's nodes and edge, without what is only said about them."""
    import onnx

    out = onnx.GraphProto(name="graph", node=graph.node, input=graph.input, output=graph.output)
    out.sparse_initializer.extend(graph.sparse_initializer)
    for part in (*out.node, *out.input, *out.output):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    return out


def _constant(tensor: onnx.TensorProto) -> bytes:
    from ingot.frontends.onnx.tensors import array_of

    array = array_of(tensor, None, f"initializer {tensor.name!r}")
    head = f"{tensor.name}\n{tensor.data_type} {list(array.shape)}\n".encode()
    return head + hashlib.sha256(array.tobytes()).digest()


def require_profile_of(profile: Profile, model: onnx.ModelProto) -> None:
    """Raise InputError where a profile was made of another model."""
    _require_same(profile.model, graph_digest(model))


def _require_same(of: str, other: str) -> None:
    if of != other:
        raise InputError(
            f"the profile is of another model ({of[:12]}..., not {other[:12]}...)",
            remedy="make one of this model with `ingot profile`",
        )
