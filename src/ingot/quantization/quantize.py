"""Quantisation from end to end: a float model and a profile in, a QDQ model and what was decided out.

Called by the driver, with models that hold everything and have no functions of their own. Channels are
equalised where the profile says that one range fits them badly. With `evidence` more can be decided: channels
are equalised where that is measured to help, weights rounded adaptively, and the layers searched that have to
stay float.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from ingot.errors import InputError
from ingot.files import write_file
from ingot.options import Define
from ingot.quantization.account import Row, account
from ingot.quantization.adapt import adapt
from ingot.quantization.correct import with_biases
from ingot.quantization.equalize import chains, equalize
from ingot.quantization.evidence import Evidence
from ingot.quantization.fold import fold
from ingot.quantization.network import Network, closed, float_array, label, opened
from ingot.quantization.placement import Placement, place
from ingot.quantization.plan import Plan, planned
from ingot.quantization.profile import Profile
from ingot.quantization.rescaled import rescaled
from ingot.quantization.roles import PRODUCTS, RECURRENT, matched
from ingot.quantization.scheme import Scheme
from ingot.quantization.search import Found, search
from ingot.quantization.write import write
from ingot.tables import Result, Table, table

COLUMNS = ("layer", "operator", "float bytes>", "bytes>", "SQNR dB>", "activations", "")

NAMED = 8  # layers that a message lists
KEPT = "too sensitive"
UNEVEN = 8.0
"""How many times as large as their median the largest channel is where one range fits a tensor badly."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantized(Result):
    """A quantised model, the decisions in it, and the result for each layer.

    `in_floats` is the model with float inputs and outputs, as the data has them. `equalized` is the number of
    groups of layers that were rescaled, of `pairs` for which that is possible. `found` has what was measured
    in the search for layers to keep in floats, and `loss` the loss of the model on the data, if any.
    """

    model: onnx.ModelProto
    plan: Plan
    rows: tuple[Row, ...]
    in_floats: onnx.ModelProto
    equalized: int = 0
    pairs: int = 0
    found: Found | None = None
    loss: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain data: the result for each layer."""
        data: dict[str, Any] = {
            "layers": [asdict(r) for r in self.rows],
            "loss": self.loss,
            "equalized": self.equalized,
        }
        if self.found is not None:
            data["search"] = {"kept": sorted(self.found.kept), "alone": dict(self.found.alone)}
        return data

    def tables(self) -> list[Table]:
        """Return the layers, and the loss of each layer alone, if it was measured."""
        notes = [f"stays float: {r.note}" if r.note else "" for r in self.rows]
        rows = [
            (r.name, r.operator, r.before, r.after, r.sqnr, r.activations, note)
            for r, note in zip(self.rows, notes, strict=True)
        ]
        made = [table(f"{len(rows)} layers", COLUMNS, rows)]
        if self.found is not None and self.found.alone:
            losses = sorted(self.found.alone.items(), key=lambda item: -item[1])
            lines = [(name, f"{loss:.3%}", name in self.found.kept) for name, loss in losses]
            made.append(table("What each layer loses alone", ("layer", "loss>", "kept"), lines))
        return made

    def save(self, path: str | Path) -> Path:
        """Write the model to an ONNX file. Raises InputError."""
        write_file(Path(path), self.model.SerializeToString())
        return Path(path)


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """A folded float network, and the profile that goes with it."""

    net: Network
    profile: Profile
    equalized: int = 0


def quantize(
    model: onnx.ModelProto,
    profile: Profile,
    scheme: Scheme,
    define: Define,
    evidence: Evidence | None = None,
) -> Quantized:
    """Return a model quantised as the scheme says; `model` stays as it is.

    Raises InputError for a model that cannot be read, patterns that fit no node, a profile without a tensor's
    range, and what needs data where there is none; with `assert_all` where a layer stays float.
    """
    _require_data(scheme, evidence)
    is_wide = scheme.precision == "int16x8" or scheme.bias_precision == "int16"
    net = fold(opened(model, define, is_wide))
    if scheme.bias_correction:
        with_biases(net)
    _require_some(net)
    source = _Source(net, profile)
    pairs = len(chains(net)) if scheme.equalize else 0
    if evidence is None:
        source = _evened(source, scheme) if scheme.equalize else source
        made = _made(source, scheme, frozenset(), None)
        return replace(made, pairs=pairs, equalized=source.equalized)
    wanted = evidence.answers(closed(net))

    def loss(found: Quantized) -> float:
        return evidence.loss(wanted, evidence.answers(found.in_floats))

    plain = replace(scheme, max_drop=None, precision="int8") if scheme.max_drop is not None else scheme
    if scheme.equalize:
        source = _equalized(source, plain, evidence, loss)
    found = None
    kept: frozenset[str] = frozenset()
    if scheme.max_drop is not None:
        found = _searched(source, scheme, plain, loss)
        kept = found.kept
    made = _made(source, scheme, kept, evidence)
    return replace(made, equalized=source.equalized, pairs=pairs, found=found, loss=loss(made))


def _require_data(scheme: Scheme, evidence: Evidence | None) -> None:
    if evidence is not None:
        return
    for option, is_asked in (
        ("--keep-float auto", scheme.max_drop is not None),
        ("--rounding adaptive", scheme.rounding == "adaptive"),
    ):
        if is_asked:
            raise InputError(f"{option} measures", remedy="add --data FILE.npz")


def _made(source: _Source, scheme: Scheme, sensitive: frozenset[str], evidence: Evidence | None) -> Quantized:
    """The network quantised, but for layers that are `sensitive`: these stay float, or get 16 bits."""
    net = source.net.copy()
    kept = matched(net.nodes, scheme.keep_float, "--keep-float")
    is_mixed = scheme.max_drop is not None and scheme.precision == "int16x8"
    placement = place(net, kept | (set() if is_mixed else set(sensitive)), scheme.edge == "float")
    floats = {n: KEPT if n in sensitive and n not in kept else why for n, why in placement.floats.items()}
    placement = replace(placement, floats=floats)
    if scheme.assert_all:
        _require_all(net, placement)
    plain = replace(scheme, precision="int8") if is_mixed else scheme
    plan = planned(net, placement, source.profile, plain, set(sensitive) if is_mixed else set())
    if scheme.rounding == "adaptive" and evidence is not None:
        rounded = adapt(net, plan, evidence, scheme.bias_correction)
        plan = planned(net, placement, source.profile, plain, set(sensitive) if is_mixed else set(), rounded)
    rows = account(net, plan)
    in_floats = closed(write(net.copy(), plan, is_edge_float=True))
    is_edge_float = scheme.edge == "float"
    made = in_floats if is_edge_float else closed(write(net, plan, is_edge_float))
    return Quantized(made, plan, rows, in_floats)


def _evened(source: _Source, scheme: Scheme) -> _Source:
    """The source with channels rescaled where one range fits them badly; their statistics are estimated."""
    kept = matched(source.net.nodes, scheme.keep_float, "--keep-float")
    net, known = source.net.copy(), dict(source.profile.tensors)
    changed = equalize(net, source.profile, kept, UNEVEN)
    for name, factors in changed.items():
        statistics = rescaled(known[name], factors) if name in known else None
        if statistics is not None:
            known[name] = statistics
    groups = sum(not changed.keys().isdisjoint(chain.tensors) for chain in chains(source.net))
    return _Source(net, replace(source.profile, tensors=known), groups)


def _equalized(
    source: _Source, scheme: Scheme, evidence: Evidence, loss: Callable[[Quantized], float]
) -> _Source:
    """The source with channels rescaled, if it then loses less; statistics of what changed are made anew."""
    kept = matched(source.net.nodes, scheme.keep_float, "--keep-float")
    pairs = len(chains(source.net))
    if not pairs:
        return source
    net = source.net.copy()
    changed = equalize(net, source.profile, kept)
    if not changed:
        return source
    known = evidence.statistics(closed(net), changed)
    profile = replace(source.profile, tensors={**source.profile.tensors, **known})
    tried = _Source(net, profile, pairs)
    nearest = replace(scheme, rounding="nearest", assert_all=False)
    better = loss(_made(tried, nearest, frozenset(), None)) < loss(_made(source, nearest, frozenset(), None))
    return tried if better else source


def _searched(source: _Source, scheme: Scheme, plain: Scheme, loss: Callable[[Quantized], float]) -> Found:
    """The layers that have to stay as they are; measured with weights rounded to nearest."""
    nearest = replace(scheme, rounding="nearest", assert_all=False)
    all_placed = _made(source, replace(plain, rounding="nearest", assert_all=False), frozenset(), None).plan
    costs = {
        label(n): sum(a.size for i in (1, 2) if (a := float_array(source.net, n, i)) is not None)
        for n in source.net.nodes
        if n.op_type in PRODUCTS | RECURRENT and label(n) not in all_placed.floats
    }
    assert scheme.max_drop is not None
    return search(costs, lambda kept: loss(_made(source, nearest, kept, None)), scheme.max_drop)


def _require_some(net: Network) -> None:
    """Raise InputError where nothing can be quantised, whatever is kept."""
    if not place(net, set(), is_edge_float=False).groups:
        raise InputError(
            "the model has no float32 layer to quantise",
            remedy="Conv, Gemm, MatMul, LSTM and the like are; a float16 model must become float32 first",
        )


def _require_all(net: Network, placement: Placement) -> None:
    """Raise InputError that names layers which compute in float."""
    kinds = {label(n): n.op_type for n in net.nodes}
    named = [f"{name} ({kinds[name]}): {why}" for name, why in placement.floats.items()]
    if named:
        more = f", and {len(named) - NAMED} more" if len(named) > NAMED else ""
        raise InputError(
            f"--assert-all-quantized: {len(named)} nodes stay float: {'; '.join(named[:NAMED])}{more}"
        )
