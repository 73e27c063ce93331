"""Is the shipped object right, and if not, since which layer? In: a model and options; out: a `Verification`.

First the object that ships runs on random inputs (or given ones) beside the oracle. To find a difference, the
model is built once more with fusion off and every layer's output as an output of its own. Called by
`ingot verify`; who calls hands in `build` (the driver's `compile_with`, which stands above this room).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ingot.bundle.bundle import Bundle
from ingot.bundle.containers import flattened, random_values
from ingot.check.compare import Difference, compare
from ingot.check.inputs import random_inputs
from ingot.check.oracle import Oracle, oracle, with_copies, with_inputs, with_outputs
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.frontends.canonical import canonical
from ingot.frontends.onnx import read_proto, read_with
from ingot.graph.ir import Graph
from ingot.log import announce
from ingot.ops.infer import infer
from ingot.ops.random import drawing
from ingot.options import PROMISED, Options

Build = Callable[[Any, Options], Bundle]
Extents = Mapping[str, int]
STEPS = 3  # runs in a row where there is a state
Makers = Mapping[str, tuple[str, str]]
"""value -> (name of its node, its operator)"""
OUTPUTS_AT_ONCE = 96  # with the inputs this stays below the 127 parameters that C promises a function


@dataclass(frozen=True, slots=True)
class Allowed:
    """How far arrays may be apart, of max|y|: as the user says, else floats by what bytes promise."""

    said: float | None
    promised: float | None

    def of(self, array: Array) -> float | None:
        """None is what the type allows."""
        return self.promised if self.said is None and array.dtype.kind == "f" else self.said


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


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found. `layers` is empty where it did not look at them.

    `byte_layers`: how many layers behind each other are computed in bytes; floats may differ by 1 % for each
    unless there is a `tolerance`.
    """

    target: str
    oracle: str
    oracle_reason: str
    seed: int
    tolerance: float | None
    cases: tuple[Case, ...]
    layers: tuple[Difference, ...] = ()
    byte_layers: int = 0

    @property
    def ok(self) -> bool:
        return all(case.ok for case in self.cases) and self.first_bad is None

    @property
    def first_bad(self) -> Difference | None:
        """The first layer, in the order of the graph, that is off."""
        return next((d for d in self.layers if not d.ok), None)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.first_bad is not None:
            d = self.first_bad
            what = d.remark or f"off by {d.relative:.3g} of max|y|"
            return f"the first bad layer is {d.node!r} ({d.op}): {d.name!r} is {what}"
        if not self.ok and self.layers:
            return "every layer is right with fusion off: the difference comes from fusion"
        within = self._promised if self.tolerance is None and self.byte_layers else ""
        return f"the bundle agrees with the oracle{within}" if self.ok else f"the bundle is off{within}"

    @property
    def _promised(self) -> str:
        n = self.byte_layers
        why = (
            f"1 % for each of {n} layers in bytes, one behind the other" if n > 1 else "one layer is in bytes"
        )
        return f", held to {n * PROMISED:.0%} of max|y|: {why}"


def _require_certain(graph: Graph) -> None:
    """Raise InputError for a model that draws random numbers: no oracle draws the same."""
    for node in drawing(graph)[:1]:
        raise InputError(
            f"{node.label} draws random numbers, and no oracle draws the same: there is nothing to compare",
            remedy="docs/random.md says how they are tested; verify the model without them",
        )


def verify(
    model: Any,
    options: Options,
    build: Build,
    *,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    layers: bool = False,
) -> Verification:
    """Compare the shipped object with the oracle; `layers` looks at every layer even if all is well."""
    model = canonical(model, options)
    bundle = build(model, options)
    proto = with_inputs(whole(model), options.state.values())
    truth = oracle(proto)
    graph = infer(read_with(proto, options))
    _require_certain(graph)
    makers = _makers(proto, graph)
    in_bytes = int(bundle.manifest["byte_layers"])
    allowed = Allowed(tolerance, in_bytes * PROMISED or None)
    cases: list[Case] = []
    fed: list[Mapping[str, Array]] = []
    for extents in corners(bundle.manifest["params"], inputs or {}, bundle.manifest["inputs"]):
        steps = [
            {**_random(graph, bundle, extents, seed + i), **(inputs or {})}
            for i in range(STEPS if bundle.manifest["state"] else 1)
        ]
        announce("shipped object")
        for i, (arrays, found, right) in enumerate(_in_a_row(bundle, truth, steps)):
            cases.append(Case(extents, _compared(found, right, allowed, makers), i))
            fed.append(arrays)
    target = bundle.manifest["target"]
    result = Verification(
        target, truth.name, truth.reason, seed, tolerance, tuple(cases), byte_layers=in_bytes
    )
    if result.ok and not layers:
        return result
    guilty = next((arrays for arrays, case in zip(fed, cases, strict=True) if not case.ok), fed[-1])
    return replace(result, layers=tuple(_layers(proto, makers, options, build, guilty, allowed)))


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
    """The model's message, with its external data in it (the reader has checked where that lies)."""
    proto = read_proto(model)
    if isinstance(model, (str, Path)):
        onnx.external_data_helper.load_external_data_for_model(proto, str(Path(model).parent))
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


def _makers(proto: onnx.ModelProto, graph: Graph) -> Makers:
    """In the graph's order, what the file's own nodes compute at run time."""
    made_in_file = {name for node in proto.graph.node for name in node.output}
    return {
        v.name: (node.name or node.op, node.op)
        for node in graph.nodes
        for v in node.outputs
        if v is not None and v.constant is None and v.name in made_in_file
    }


def _layers(
    proto: onnx.ModelProto,
    makers: Makers,
    options: Options,
    build: Build,
    inputs: Mapping[str, Array],
    allowed: Allowed,
) -> Iterator[Difference]:
    """Every layer in order, in as many builds as C's limits ask for, until one build holds a bad layer."""
    names = list(makers)
    plain = replace(options, fuse=False, name="layers", api="direct", weights="embedded", rename={}, state={})
    for start in range(0, len(names), OUTPUTS_AT_ONCE):
        announce("layers", start, len(names))
        part = names[start : start + OUTPUTS_AT_ONCE]
        shown, copies = with_copies(proto, part)
        found, right = build(shown, plain).run(inputs), oracle(with_outputs(proto, part)).run(inputs)
        named = {copies.get(name, name): array for name, array in found.items()}
        by_name = {n: _compared({n: v}, right, allowed, makers) for n, v in named.items()}
        yield from (d for name in part for d in by_name[name])
        if not all(d.ok for name in part for d in by_name[name]):
            return


def _compared(
    found: Mapping[str, Any], right: Mapping[str, Any], allowed: Allowed, makers: Makers
) -> tuple[Difference, ...]:
    """Value by value, of lists element by element."""
    out = []
    for name, value in found.items():
        node, op = makers.get(name, ("", ""))
        ours, theirs = flattened({name: value}), flattened({name: right[name]})
        if ours.keys() != theirs.keys():
            remark = f"{len(ours)} elements instead of {len(theirs)}"
            out.append(Difference(name, node, op, "sequence", (), np.inf, np.inf, 0, False, remark))
        for key in (k for k in ours if k in theirs):
            most = allowed.of(ours[key])
            out.append(compare(ours[key], np.asarray(theirs[key]), most, name=key, node=node, op=op))
    return tuple(out)
