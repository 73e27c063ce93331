"""How far every layer is from a float64 evaluation. In: a model and options; out: a `LayerError` each.

Called by `ingot report --error`. The model is built with fusion off and every layer's output as an output of
its own, as `verify` looks at layers; the formulas are evaluated in float64 beside it. No oracle is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ingot.bundle.containers import random_values
from ingot.check.inputs import random_inputs
from ingot.check.judge import Court, error
from ingot.check.layers import OUTPUTS_AT_ONCE, Allowed, Build, Subject
from ingot.check.oracle import with_inputs
from ingot.check.truth import formulas_of
from ingot.check.verify import corners, makers_of, named, require_certain, whole
from ingot.frontends.canonical import canonical
from ingot.frontends.onnx import read_with
from ingot.log import announce
from ingot.ops.infer import infer
from ingot.options import Options


@dataclass(frozen=True, slots=True)
class LayerError:
    """Errors of one value, of max|y| of the float64 evaluation.

    `total`: beside the whole model in float64, from the same inputs. `own`: beside the layer alone in
    float64, on the operands that Ingot gave it.
    """

    name: str
    node: str
    op: str
    total: float
    own: float


def layer_errors(
    model: Any, options: Options, build: Build, manifest: Mapping[str, Any], seed: int = 0
) -> Iterator[LayerError]:
    """The layers in the graph's order, on random inputs of the model's largest size.

    `manifest` is that of the model's bundle. Raises InputError for a model that draws random numbers.
    """
    proto = with_inputs(whole(canonical(model, options)), options.state.values())
    graph = infer(read_with(proto, options))
    require_certain(graph)
    makers = makers_of(proto, graph)
    formulas = formulas_of(graph, makers)
    extents = corners(manifest["params"], {}, manifest["inputs"])[-1]
    inputs = random_values(manifest, random_inputs(graph, manifest["inputs"], extents, seed))
    params = named(extents, manifest)
    subject = Subject(Court(proto, formulas, params), makers, options, build, Allowed(None, None))
    exact: dict[str, Any] = dict(inputs)
    found: dict[str, Any] = {}
    for i, name in enumerate(formulas.names):
        if i % OUTPUTS_AT_ONCE == 0:
            found |= subject.ours(list(formulas.names[i : i + OUTPUTS_AT_ONCE]), inputs)
        announce("float64 evaluation", i, len(formulas.names))
        own = formulas.value(formulas.exact, name, {**inputs, **found}, params)
        exact[name] = formulas.value(formulas.exact, name, exact, params)
        node, op = makers[name]
        yield LayerError(name, node, op, error(found[name], exact[name]), error(found[name], own))
