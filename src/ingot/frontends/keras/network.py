"""Models of layers, run symbolically: every layer writes its operations. In: a `Network` and tensors; out:
tensors.

A graph is walked from its outputs back, with a stack of our own, so that depth costs no recursion; a model
inside another one is a layer like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ingot.errors import ModelError
from ingot.frontends.keras.configs import Layer, Network, Node, Ref, leaves, network_of
from ingot.frontends.keras.settings import Settings
from ingot.frontends.keras.table import Call, Result, World, call, kind_of, layer
from ingot.frontends.keras.weights import Spec, Tree, counted
from ingot.frontends.orders import Builder, Tensor

Key = tuple[str, int]
MODEL_DEPTH = 24


def spec_of(layer: Layer, depth: int = 0) -> Spec:
    """The variables of a layer, of a model those of its layers."""
    settings = Settings(layer.config, layer.label)
    is_trained = settings.flag("trainable", True)
    if not layer.is_model:
        found = kind_of(layer).weights(layer, settings)
        return replace(found, is_trained=is_trained)
    if depth > MODEL_DEPTH:
        raise ModelError(f"{layer.label}: models are nested deeper than {MODEL_DEPTH}")
    network = network_of(layer)
    held = [inner for inner in stored_layers(network)]
    names = counted([inner.kind.rpartition(">")[2] for inner in held])
    inside = tuple(
        (f"{name}={inner.name}", spec_of(inner, depth + 1)) for name, inner in zip(names, held, strict=True)
    )
    return Spec((), (), inside, is_trained, is_model=True)


def stored_layers(network: Network) -> list[Layer]:
    """The layers that have a place in a file of weights: no operations."""
    return [inner for inner in network.layers.values() if not inner.is_operation]


def _trees(network: Network, tree: Tree) -> dict[str, Tree]:
    return {key.partition("=")[2]: inner for key, inner in tree.inside.items()}


def run(b: Builder, world: World, network: Network, tree: Tree, given: list[Tensor]) -> Result:
    """The outputs for these inputs, in the structure that the model has them."""
    if network.is_chain:
        return _chain(b, world, network, tree, given)
    refs = leaves(network.inputs)
    if len(refs) != len(given):
        raise ModelError(f"the model {network.name!r} has {len(refs)} inputs and is given {len(given)}")
    made: dict[Key, list[Tensor]] = {}
    for ref, tensor in zip(refs, given, strict=True):
        made[ref.layer, ref.node] = [tensor]
    shifts = _shifts(network)
    trees = _trees(network, tree)
    for key in _in_order(network, made, shifts):
        inner = network.layers[key[0]]
        node = inner.nodes[key[1]]
        args, kwargs = (_filled(v, made, shifts) for v in (node.args, node.kwargs))
        found = call(b, world, inner, trees.get(inner.name, Tree()), args, kwargs)
        made[key] = [t for t in leaves(found) if isinstance(t, Tensor)]
    return _filled(network.outputs, made, shifts)


def _chain(b: Builder, world: World, network: Network, tree: Tree, given: list[Tensor]) -> Result:
    trees = _trees(network, tree)
    found: Any = given[0] if len(given) == 1 else given
    for inner in network.layers.values():
        if inner.kind != "InputLayer":
            found = call(b, world, inner, trees.get(inner.name, Tree()), (found,), {})
    return found


def _shifts(network: Network) -> dict[str, int]:
    """Models inside count their own definition as a first call, in most versions of Keras."""
    most: dict[str, int] = {}
    for ref in _refs(network):
        most[ref.layer] = max(most.get(ref.layer, 0), ref.node)
    layers = network.layers
    return {n: 1 for n, k in most.items() if n in layers and layers[n].nodes and k >= len(layers[n].nodes)}


def _refs(network: Network) -> Iterator[Ref]:
    for inner in network.layers.values():
        for node in inner.nodes:
            yield from node.refs
    yield from leaves(network.outputs)


def _key(ref: Ref, shifts: dict[str, int]) -> Key:
    return ref.layer, max(ref.node - shifts.get(ref.layer, 0), 0)


def _in_order(network: Network, made: dict[Key, list[Tensor]], shifts: dict[str, int]) -> list[Key]:
    """The calls that the outputs need, each behind those that it reads. Raises ModelError for a circle."""
    order: list[Key] = []
    done, open_ = set(made), set[Key]()
    stack = [(_key(ref, shifts), False) for ref in reversed(leaves(network.outputs))]
    while stack:
        key, is_ready = stack.pop()
        if is_ready:
            open_.discard(key)
            done.add(key)
            order.append(key)
        elif key not in done:
            if key in open_:
                raise ModelError(f"the model {network.name!r}: the layer {key[0]!r} reads itself")
            open_.add(key)
            stack.append((key, True))
            stack += [(_key(r, shifts), False) for r in reversed(_node(network, key).refs)]
    return order


def _node(network: Network, key: Key) -> Node:
    found = network.layers.get(key[0])
    if found is None:
        raise ModelError(f"the model {network.name!r} has no layer {key[0]!r}, which another one reads")
    if key[1] >= len(found.nodes):
        raise ModelError(f"{found.label}: call number {key[1]} is read, there are {len(found.nodes)}")
    return found.nodes[key[1]]


def _filled(tree: Any, made: dict[Key, list[Tensor]], shifts: dict[str, int]) -> Any:
    """A structure with the tensors that its references mean."""
    if isinstance(tree, Ref):
        found = made[_key(tree, shifts)]
        if tree.tensor >= len(found):
            raise ModelError(f"the layer {tree.layer!r} has {len(found)} results, not {tree.tensor + 1}")
        return found[tree.tensor]
    if isinstance(tree, list | tuple):
        return type(tree)(_filled(item, made, shifts) for item in tree)
    return {k: _filled(v, made, shifts) for k, v in tree.items()} if isinstance(tree, dict) else tree


@layer("Functional", mask="own")
def model(c: Call) -> Result:
    """A model inside another one. Its tensors keep the masks that its layers give them."""
    mask = c.tensor_at(2, "mask") if len(c.args) > 2 else c.kwargs.get("mask")
    given = c.tensors
    if isinstance(mask, Tensor) and len(given) == 1:
        given = [c.mask(given[0], c.plain(mask))]
    return run(c.b, c.world, network_of(c.layer), c.tree, given)


@layer("InputLayer", mask="own")
def input_layer(c: Call) -> Result:
    """An input is given, so that this is only asked for one that nobody gives."""
    raise ModelError(f"{c.layer.label} is no input of its model")
