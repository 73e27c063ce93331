"""From a model's configuration and weights to ONNX. In: a `Source`; out: a ModelProto. Called by
`import_keras`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import onnx

from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.formula.types import DType
from ingot.frontends.builder import NODES_LIMIT, Names
from ingot.frontends.keras.archive import Source
from ingot.frontends.keras.configs import Layer, Network, Ref, leaves, network_of
from ingot.frontends.keras.network import run, spec_of, stored_layers
from ingot.frontends.keras.settings import TYPES, Settings
from ingot.frontends.keras.table import World
from ingot.frontends.keras.weights import Tree, by_layer, by_number
from ingot.frontends.onnx.states import STATE
from ingot.frontends.orders import Builder, Tensor
from ingot.graph.ir import Graph

SHAPE = re.compile(r"\d{1,9}(?:[x,]\d{1,9})*", re.ASCII)
Shape = list["int | None"]


def import_model(
    source: Source, model: Layer, inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.ModelProto:
    """The canonical ONNX of a model; see `import_keras`."""
    if not model.is_model:
        raise UnsupportedError(
            f"{source.label}: a model of the class {model.kind!r} does not say which layers it has",
            remedy="only Sequential and Functional models can be read",
        )
    network = network_of(model)
    network = _chosen(network, outputs) if outputs else network
    tree = _tree(source, model)
    names = Names(most=NODES_LIMIT + 10 * len(network.layers))
    b = Builder(Graph(Path(source.label).stem), names)
    world = World(source.version)
    edge = _inputs(network, dict(map(_parsed, inputs)))
    names.reserve(*(name for name, _, _ in edge))
    taken = {name for name, _, _ in edge}
    labels = [f"{name}_output" if name in taken else name for name in output_names(network)]
    names.reserve(*labels)
    given = [Tensor(b.input(name, dtype, shape)) for name, dtype, shape in edge]
    made = [t for t in leaves(run(b, world, network, tree, given)) if isinstance(t, Tensor)]
    labels = labels if len(labels) == len(made) else [f"{labels[0]}_{i}" for i in range(len(made))]
    for name, tensor in zip(labels, made, strict=True):
        b.at(f"the output {name!r}", name)
        b.output(b.plain(tensor), name)
    pairs: dict[str, str] = {}
    for before, after in world.states:
        b.at(f"the state {before.name!r}", before.name)
        pairs[b.output(after, b.names.fresh(f"{before.name}_next")).name] = before.name
    proto = b.model()
    if pairs:
        proto.metadata_props.add(key=STATE, value=json.dumps(pairs))
    return proto


def _tree(source: Source, model: Layer) -> Tree:
    spec = spec_of(model)
    if not source.is_flat:
        return by_number(source.weights, spec, "", source.label)
    names = [inner.name for inner in stored_layers(network_of(model))]
    return by_layer(source.weights, spec, names, source.prefix, source.label)


# ---- inputs


def _inputs(network: Network, given: dict[str, list[int]]) -> list[tuple[str, DType, list[int]]]:
    """Name, type and shape of each input."""
    found = []
    for name, settings, shape in _declared(network):
        said = given.pop(name, None)
        found.append((name, _dtype(settings), _resolved(name, shape, said)))
    if given:
        known = ", ".join(name for name, _, _ in found)
        raise InputError(
            f"--inputs {next(iter(given))}: the model has no such input", remedy=f"it has {known}"
        )
    return found


def _declared(network: Network) -> list[tuple[str, Settings, Shape | None]]:
    if network.is_chain:
        return [_first(network)]
    found = []
    for ref in leaves(network.inputs):
        inner = network.layers.get(ref.layer) if isinstance(ref, Ref) else None
        if inner is None or inner.kind != "InputLayer":
            raise ModelError(f"the model {network.name!r}: its input {str(ref)[:60]} is no InputLayer")
        settings = Settings(inner.config, inner.label)
        found.append((inner.name, settings, _shape(settings)))
    return found


def _first(network: Network) -> tuple[str, Settings, Shape | None]:
    """The input of a chain: its InputLayer, or what its first layer was built with."""
    first = next(iter(network.layers.values()), None)
    if first is None:
        raise ModelError(f"the model {network.name!r} has no layers")
    settings = Settings(first.config, first.label)
    if first.kind == "InputLayer":
        return first.name, settings, _shape(settings)
    if first.is_model:
        name, inside, shape = _declared(network_of(first))[0]
        return name, inside, shape
    built = Settings(first.build, first.label)
    shape = _shape(settings) or _shape(built)
    return f"{first.name}_input", Settings({}, first.label), shape


def _shape(settings: Settings) -> Shape | None:
    for flag in ("ragged", "sparse"):
        if settings.flag(flag):
            raise UnsupportedError(f"{settings.label}: {flag} inputs are not supported")
    for name in ("batch_shape", "batch_input_shape", "input_shape"):
        found = settings.values.get(name)
        if isinstance(found, list) and all(n is None or (type(n) is int and 0 <= n < 1 << 31) for n in found):
            return found
    return None


def _dtype(settings: Settings) -> DType:
    found = settings.policy
    if found not in TYPES:
        return TYPES["float32"]
    if found == "string":
        raise UnsupportedError(f"{settings.label}: strings are not supported")
    return TYPES[found]


def _resolved(name: str, shape: Shape | None, said: list[int] | None) -> list[int]:
    if shape is None and said is None:
        raise InputError(
            f"the file does not say which shape the input {name!r} has", remedy=_remedy(name, None)
        )
    if said is not None:
        fits = shape is None or (
            len(said) == len(shape) and all(n in (None, m) for n, m in zip(shape, said, strict=True))
        )
        if not fits:
            raise InputError(f"the input {name!r} is declared as {_text(shape)}, not {_text(list(said))}")
        return said
    assert shape is not None
    found = [1 if n is None and i == 0 else n for i, n in enumerate(shape)]
    if None in found:
        raise InputError(
            f"the input {name!r} of shape {_text(shape)} has open extents", remedy=_remedy(name, shape)
        )
    return [n for n in found if n is not None]


def _parsed(word: str) -> tuple[str, list[int]]:
    name, colon, last = word.rpartition(":")
    if not colon or not name or not SHAPE.fullmatch(last):
        raise InputError(f"--inputs {word}: write NAME:SHAPE, as in image:1x224x224x3")
    return name, [int(n) for n in re.split("[x,]", last)]


def _text(shape: Shape | None) -> str:
    return "x".join("?" if n is None else str(n) for n in shape or []) or "scalar"


def _remedy(name: str, shape: Shape | None) -> str:
    example: Shape = [1, *(8 if n is None else n for n in (shape or [None] * 4)[1:])]
    return f"say how large it is, as in --inputs {name}:{_text(example)}"


# ---- outputs


def output_names(network: Network) -> list[str]:
    """As Keras calls them: by layer, or by key where the outputs are a dict; counted where one is there
    twice.
    """
    if network.is_chain:
        return [next(reversed(network.layers))] if network.layers else []
    if isinstance(network.outputs, dict):
        return sorted(network.outputs)
    used: dict[str, int] = {}
    names = []
    for ref in leaves(network.outputs):
        if not isinstance(ref, Ref):
            raise ModelError(f"the model {network.name!r}: its outputs are no references to layers")
        count = used.get(ref.layer, 0)
        used[ref.layer] = count + 1
        names.append(f"{ref.layer}_{count}" if count else ref.layer)
    if not names:
        raise ModelError(f"the model {network.name!r} has no outputs")
    return names


def _chosen(network: Network, outputs: Sequence[str]) -> Network:
    """The model up to layers that the user names."""
    wanted: list[Any] = []
    for name in outputs:
        if name not in network.layers:
            near = ", ".join(get_close_matches(name, network.layers, 3, 0.5))
            raise InputError(
                f"--outputs {name}: no layer has this name", remedy=f"similar: {near}" if near else ""
            )
        wanted.append(Ref(name, 0, 0))
    if network.is_chain:
        if len(outputs) > 1:
            raise InputError("a Sequential model is cut at one layer", remedy="give --outputs one name")
        names = list(network.layers)
        kept = names[: names.index(outputs[0]) + 1]
        return Network(network.name, {n: network.layers[n] for n in kept}, [], [], True)
    return Network(network.name, network.layers, network.inputs, wanted, False)
