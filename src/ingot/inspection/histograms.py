"""Histograms of what is quantised. In: a graph, or a profile; out: `Histogram`s, which `chart` draws.

Called by `ingot report`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ingot.formula.expr import Array
from ingot.graph.ir import Graph
from ingot.quantization.profile import Profile

BINS = 64


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts in bins of equal width; `facts` are what is worth saying of the elements."""

    title: str
    facts: str
    counts: tuple[int, ...]
    low: str
    high: str


def of_weights(graph: Graph) -> Iterator[Histogram]:
    """Of every constant of bytes, or less, with two axes or more: how it uses its type's range."""
    for node in graph.nodes:
        for value in node.inputs:
            if value is None or value.constant is None or value.type is None:
                continue
            if (
                value.constant.ndim > 1
                and value.constant.size
                and value.type.kind in "iu"
                and value.type.bits <= 8
            ):
                title = f"{node.name or node.op}: {value.name}"
                yield _of_integers(
                    title, np.asarray(value.constant).astype(np.int64), value.type.kind, value.type.bits
                )


def _of_integers(title: str, a: Array, kind: str, bits: int) -> Histogram:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "i" else (0, (1 << bits) - 1)
    counts, _ = np.histogram(a, min(BINS, 1 << bits), (low, high + 1))
    limits = float(np.mean((a == low) | (a == high)))
    facts = (
        f"{'x'.join(map(str, a.shape))} {'u' if kind == 'u' else ''}int{bits}; {a.min()} to {a.max()}; "
        f"{len(np.unique(a))} of {1 << bits} values used; {limits:.1%} at the limits"
    )
    return Histogram(title, facts, tuple(map(int, counts)), str(low), str(high))


def of_profile(profile: Profile) -> Iterator[Histogram]:
    """Of every tensor of a profile: where its elements lie between the least and the greatest."""
    for name, s in profile.tensors.items():
        used = [i for i, n in enumerate(s.histogram) if n]
        part = np.array(s.histogram[used[0] : used[-1] + 1]) if used else np.zeros(1)
        edges = np.linspace(0, len(part), min(BINS, len(part)) + 1).astype(int)
        counts = tuple(int(part[a:b].sum()) for a, b in pairwise(edges))
        facts = f"{s.count:,} elements of {profile.samples:,} samples; {s.low:.4g} to {s.high:.4g}"
        yield Histogram(name, facts, counts, f"{s.low:.4g}", f"{s.high:.4g}")
