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
    network = _counted_from_0(network, world.is_3)
    trees = _trees(network, tree)
    for key in _in_order(network, made):
        inner = network.layers[key[0]]
        node = inner.nodes[key[1]]
        args, kwargs = (_filled(v, made) for v in (node.args, node.kwargs))
        found = call(b, world, inner, trees.get(inner.name, Tree()), args, kwargs)
        made[key] = [t for t in leaves(found) if isinstance(t, Tensor)]
    return _filled(network.outputs, made)


def _chain(b: Builder, world: World, network: Network, tree: Tree, given: list[Tensor]) -> Result:
    trees = _trees(network, tree)
    found: Any = given[0] if len(given) == 1 else given
    for inner in network.layers.values():
        if inner.kind != "InputLayer":
            found = call(b, world, inner, trees.get(inner.name, Tree()), (found,), {})
    return found


def _counted_from_0(network: Network, is_3: bool) -> Network:
    """References with the calls of every layer counted from 0.

    A model inside counts its own definition as a first call: where Keras 3 names the outputs, but not where
    its layers name what they read; everywhere in most versions of Keras 2. Raises ModelError.
    """
    if not is_3:
        shifts = _shifts(network)
        moved = {n: replace(inner, nodes=_moved(inner.nodes, shifts)) for n, inner in network.layers.items()}
        return replace(network, layers=moved, outputs=_moved(network.outputs, shifts))
    models = (n for n, inner in network.layers.items() if inner.is_model and "output_layers" in inner.config)
    return replace(network, outputs=_moved(network.outputs, dict.fromkeys(models, 1)))


def _moved(tree: Any, shifts: dict[str, int]) -> Any:
    """References in a structure less their layers' shifts."""
    if isinstance(tree, Ref):
        node = tree.node - shifts.get(tree.layer, 0)
        if node < 0:
            raise ModelError(
                f"the layer {tree.layer!r} is a model, whose calls are counted from 1, not from 0"
            )
        return replace(tree, node=node)
    if isinstance(tree, Node):
        return Node(_moved(tree.args, shifts), _moved(tree.kwargs, shifts))
    if isinstance(tree, list | tuple):
        return type(tree)(_moved(item, shifts) for item in tree)
    return {k: _moved(v, shifts) for k, v in tree.items()} if isinstance(tree, dict) else tree


def _shifts(network: Network) -> dict[str, int]:
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


def _key(ref: Ref) -> Key:
    return ref.layer, ref.node


def _in_order(network: Network, made: dict[Key, list[Tensor]]) -> list[Key]:
    """The calls that the outputs need, each behind those that it reads. Raises ModelError for a circle."""
    order: list[Key] = []
    done, open_ = set(made), set[Key]()
    stack = [(_key(ref), False) for ref in reversed(leaves(network.outputs))]
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
            stack += [(_key(r), False) for r in reversed(_node(network, key).refs)]
    return order


def _node(network: Network, key: Key) -> Node:
    found = network.layers.get(key[0])
    if found is None:
        raise ModelError(f"the model {network.name!r} has no layer {key[0]!r}, which another one reads")
    if key[1] >= len(found.nodes):
        raise ModelError(f"{found.label}: call number {key[1]} is read, there are {len(found.nodes)}")
    return found.nodes[key[1]]


def _filled(tree: Any, made: dict[Key, list[Tensor]]) -> Any:
    """A structure with the tensors that its references mean."""
    if isinstance(tree, Ref):
        found = made[_key(tree)]
        if tree.tensor >= len(found):
            raise ModelError(f"the layer {tree.layer!r} has {len(found)} results, not {tree.tensor + 1}")
        return found[tree.tensor]
    if isinstance(tree, list | tuple):
        return type(tree)(_filled(item, made) for item in tree)
    return {k: _filled(v, made) for k, v in tree.items()} if isinstance(tree, dict) else tree


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
