"""Is the shipped object right, and if not, since which layer? In: a model and options; out: a `Verification`.

First the object that ships runs on random inputs (or given ones) beside the oracle. To find a difference, the
model is built once more with fusion off and every layer's output as an output of its own; what differs is
measured against a float64 evaluation (`judge`). Called by `ingot verify`; who calls hands in `build` (the
driver's `compile_with`, which stands above this room).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ingot.bundle.bundle import Bundle
from ingot.bundle.containers import random_values
from ingot.bundle.host_memory import require_host_memory
from ingot.check.compare import Difference
from ingot.check.inputs import largest, random_inputs
from ingot.check.judge import ORACLE, Court
from ingot.check.layers import Allowed, Build, Makers, Subject, compared, judged, layer_by_layer
from ingot.check.litert import is_own, truth_of
from ingot.check.oracle import Oracle, with_inputs
from ingot.check.truth import formulas_of
from ingot.errors import InputError
from ingot.formula.expr import Array, extent_name
from ingot.frontends.canonical import canonical
from ingot.frontends.onnx import read_proto, read_with
from ingot.frontends.onnx.tensors import embed_external
from ingot.graph.ir import Graph
from ingot.log import announce
from ingot.ops.infer import infer
from ingot.ops.random import drawing
from ingot.options import PROMISED, Options
from ingot.tables import Result, Table, table

Extents = Mapping[str, int]
STEPS = 3  # runs in a row where there is a state


@dataclass(frozen=True, slots=True)
class Case:
    """One run: the values of the dynamic dimensions, and how far each output is from the oracle's.

    Of a bundle with a state there are several runs in a row; `step` counts them.
    """

    extents: Extents
    outputs: tuple[Difference, ...]
    step: int = 0

    @property
    def ok(self) -> bool:
        return all(d.ok for d in self.outputs)


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Result):
    """The result of `verify`. `layers` is empty if the layers were not compared.

    `byte_layers` is the number of consecutive layers that are computed in bytes; floats may differ by 1 % for
    each of them, unless there is a `tolerance`.
    """

    target: str
    oracle: str
    oracle_reason: str
    seed: int
    tolerance: float | None
    cases: tuple[Case, ...]
    layers: tuple[Difference, ...] = ()
    byte_layers: int = 0
    model: str = ""

    @property
    def ok(self) -> bool:
        return all(case.ok for case in self.cases) and self.first_bad is None

    @property
    def first_bad(self) -> Difference | None:
        """The first layer, in the order of the graph, that is wrong."""
        return next((d for d in self.layers if not d.ok), None)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, including the verdict."""
        bad = asdict(self.first_bad) if self.first_bad else None
        return {**asdict(self), "ok": self.ok, "verdict": self.verdict, "first_bad": bad}

    def tables(self) -> list[Table]:
        """Return a table of the outputs of each run, and one of the layers that were compared."""
        against = "onnx's reference evaluator" if self.oracle == "reference" else self.oracle
        found = []
        for case in self.cases:
            where = "".join(f", {symbol}={n}" for symbol, n in case.extents.items())
            where += f", step {case.step + 1}" if any(c.step for c in self.cases) else ""
            title = f"{self.model or 'model'} on {self.target} against {against}{where}"
            found.append(_table(title, case.outputs, self.oracle))
        if self.layers:
            found.append(_table("Layer by layer, fusion off", self.layers, self.oracle))
        return found

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.first_bad is not None:
            return f"the first bad layer is {self._described(self.first_bad)}"
        off = next((d for case in self.cases for d in case.outputs if not d.ok), None)
        within = self._promised if self.tolerance is None and self.byte_layers else ""
        if off is not None and self._adds_up(off):
            described = self._described(off)
            return f"every layer is right for its operands, but differences add up{within}: {described}"
        if off is not None and self.layers:
            return (
                "every layer is right with fusion off: the difference comes from fusion: "
                f"{self._described(off)}"
            )
        if off is not None:
            return f"the bundle is off{within}"
        differs = next((d for case in self.cases for d in case.outputs if d.judgement), None)
        if differs is None:
            return f"the bundle agrees with the oracle{within}"
        blamed = next((d for d in self.layers if d.judgement and d.judgement.guilty == ORACLE), None)
        first = f"; {self.oracle} is off first at {self._described(blamed)}" if blamed else ""
        return f"the bundle is right{within}: {self._described(differs)}{first}"

    def _adds_up(self, off: Difference) -> bool:
        """Whether an output is as far off with fusion off, where no layer is to blame."""
        alike = next((d for d in self.layers if d.name == off.name), None)
        return alike is not None and alike.relative > off.relative / 2

    def _described(self, d: Difference) -> str:
        """A difference in words."""
        what = d.remark or f"{d.relative:.3g} of max|y| from {self.oracle}'s"
        judged = "" if d.judgement is None else f"; {d.judgement.sentence(self.oracle)}"
        return f"{d.node!r} ({d.op}): {d.name!r} is {what}{judged}"

    @property
    def _promised(self) -> str:
        n = self.byte_layers
        why = (
            f"1 % for each of {n} layers in bytes, one behind the other" if n > 1 else "one layer is in bytes"
        )
        return f", held to {n * PROMISED:.0%} of max|y|: {why}"


def require_certain(graph: Graph) -> None:
    """Raise InputError for a model that draws random numbers: no oracle draws the same."""
    for node in drawing(graph)[:1]:
        raise InputError(
            f"{node.label} draws random numbers, and no oracle draws the same: there is nothing to compare",
            remedy="docs/random.md says how they are tested; verify the model without them",
        )


def _table(title: str, differences: tuple[Difference, ...], oracle: str) -> Table:
    columns = ("tensor", "made by", "type", "shape", "max|d|>", "max|d|/max|y|>", "ulp>", "")
    rows = [
        (
            d.name,
            f"{d.node} ({d.op})" if d.node != d.op else d.op,
            d.dtype,
            "x".join(map(str, d.shape)) or "scalar",
            float(d.max_abs),
            float(d.relative),
            d.ulp,
            _remark(d, oracle),
        )
        for d in differences
    ]
    return table(title, columns, rows)


def _remark(d: Difference, oracle: str) -> str:
    """Whether a tensor is right, and who says so where the two differ."""
    said = "" if d.judgement is None else d.judgement.sentence(oracle)
    return " ".join(part for part in ("ok" if d.ok else "BAD", d.remark, said) if part)


def verify(
    model: Any,
    options: Options,
    build: Build,
    *,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    layers: bool = False,
    bundle: Bundle | None = None,
) -> Verification:
    """Compare the shipped object with the oracle; `layers` looks at every layer even if all is well.

    `bundle` is what ships, where it is built already: with the same options, of the same model.
    """
    source, model = model, canonical(model, options)
    proto = with_inputs(whole(model), options.state.values())
    graph = infer(read_with(proto, options))
    require_certain(graph)
    truth = truth_of(source, proto)  # a model that no oracle takes is not compiled in vain
    bundle = bundle or build(model, options)
    require_host_memory(bundle.manifest, drawn=True, compared=True, beside=2 * largest(graph))
    makers, in_bytes = makers_of(proto, graph), int(bundle.manifest["byte_layers"])
    allowed = Allowed(tolerance, in_bytes * PROMISED or None)
    runs = list(_runs(graph, bundle, truth, inputs or {}, seed))
    cases = tuple(Case(r.extents, compared(r.found, r.right, allowed, makers), r.step) for r in runs)
    about = bundle.manifest["target"], truth.name, truth.reason, seed, tolerance
    result = Verification(*about, cases, byte_layers=in_bytes, model=_name(source))
    if (result.ok and not layers) or is_own(proto):  # no oracle knows single layers of such a model
        return result
    formulas = formulas_of(graph, makers)
    courts = [Court(proto, formulas, named(r.extents, bundle.manifest)) for r in runs]
    first = next((i for i, case in enumerate(cases) if not case.ok), -1)
    seen = tuple(layer_by_layer(Subject(courts[first], makers, options, build, allowed), runs[first].fed))
    result = replace(result, layers=seen)
    if result.first_bad is not None:
        return result
    trusted = not any(d.judgement and d.judgement.guilty == ORACLE for d in seen)
    judged_cases = map(partial(_judged, allowed=allowed, is_trusted=trusted), cases, courts, runs)
    return replace(result, cases=tuple(judged_cases))


def _name(source: Any) -> str:
    return Path(source).name if isinstance(source, (str, Path)) else ""


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the bundle beside the oracle, which is `fed` a state by hand."""

    extents: Extents
    step: int
    fed: Mapping[str, Any]
    found: Mapping[str, Any]
    right: Mapping[str, Any]


def _runs(
    graph: Graph, bundle: Bundle, truth: Oracle, inputs: Mapping[str, Array], seed: int
) -> Iterator[_Run]:
    """For each corner of the extents one run, of a bundle with a state several in a row."""
    for extents in corners(bundle.manifest["params"], inputs, bundle.manifest["inputs"]):
        steps = [
            {**_random(graph, bundle, extents, seed + i), **inputs}
            for i in range(STEPS if bundle.manifest["state"] else 1)
        ]
        announce("shipped object")
        for i, run in enumerate(_in_a_row(bundle, truth, steps)):
            yield _Run(extents, i, *run)


def _judged(case: Case, court: Court, run: _Run, allowed: Allowed, is_trusted: bool) -> Case:
    """The case with a judgement of each output that differs, the layers being right."""
    outputs = []
    for d in case.outputs:
        if not d.ok and d.name in court.formulas.names:
            found, right = run.found[d.name], run.right[d.name]
            judge = partial(court.output, d.name, run.fed, found, right, is_trusted=is_trusted)
            d = judged(d, allowed, found, judge)
        outputs.append(d)
    return replace(case, outputs=tuple(outputs))


def named(extents: Extents, manifest: Mapping[str, Any]) -> Extents:
    """The extents by the names that formulas have for them."""
    return {extent_name(p["name"]): extents[p["symbol"]] for p in manifest["params"]}


def _random(graph: Graph, bundle: Bundle, extents: Extents, seed: int) -> dict[str, Any]:
    return random_values(bundle.manifest, random_inputs(graph, bundle.manifest["inputs"], extents, seed))


def _in_a_row(
    bundle: Bundle, truth: Oracle, steps: list[dict[str, Array]]
) -> Iterator[tuple[Mapping[str, Array], Mapping[str, Array], Mapping[str, Array]]]:
    """Of each step: what the oracle is fed (its own state by hand), what the bundle makes, what is right."""
    session, pairs = bundle.session(), {t["name"]: t["next"] for t in bundle.manifest["state"]}
    before = session.state
    for arrays in steps:
        fed = {**arrays, **before}
        found, right = session.run(arrays), truth.run(fed)
        yield fed, {**found, **{pairs[name]: a for name, a in session.state.items()}}, right
        before = {name: right[after] for name, after in pairs.items()}


def whole(model: Any) -> onnx.ModelProto:
    """The model's message, with its external data in it."""
    proto = read_proto(model)
    if isinstance(model, (str, Path)):
        embed_external(proto, Path(model))
    return proto


def corners(
    params: list[Mapping[str, Any]], inputs: Mapping[str, Array], tensors: list[Mapping[str, Any]]
) -> list[Extents]:
    """Which extents to try: the least and the greatest of all, or what the given inputs say."""
    said = {
        symbol: int(extent)
        for t in tensors
        if isinstance(inputs.get(t["name"]), np.ndarray)
        for symbol, extent in zip(t["shape"], inputs[t["name"]].shape, strict=False)
        if isinstance(symbol, str)
    }
    low = {p["symbol"]: said.get(p["symbol"], max(int(p["lo"]), 1)) for p in params}
    high = {p["symbol"]: said.get(p["symbol"], int(p["hi"])) for p in params}
    return [low] if low == high else [low, high]


def makers_of(proto: onnx.ModelProto, graph: Graph) -> Makers:
    """In the graph's order, what the file's own nodes compute at run time."""
    made_in_file = {name for node in proto.graph.node for name in node.output}
    return {
        v.name: (node.name or node.op, node.op)
        for node in graph.nodes
        for v in node.outputs
        if v is not None and v.constant is None and v.name in made_in_file
    }
