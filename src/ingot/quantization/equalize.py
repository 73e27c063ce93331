"""Equalisation: channels between layers are rescaled so that they fill one range alike.

    y = Conv2(relu(Conv1(x)))          ->          y = Conv2 * s (relu(Conv1 / s (x)))

relu(s x) = s relu(x) for s > 0, so the model computes what it did (Nagel et al. 2019, section 4.1). In: a
folded network and the profile that says how large each channel is. Out: the same network with other weights,
and the tensors whose statistics no longer hold. Relu, LeakyRelu, PRelu, pools and additions may stand
between: all layers that write what an addition adds, and all that read it, share the factors. What clips at
a number, as Relu6 does, may not. Weights have a scale for each output channel, so what matters is that the
channels of the activations fill their one range: s is their root mean square, or the square root of that
over the largest weight reading the channel where these share a scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from ingot.formula.expr import Array
from ingot.quantization.fold import FOLDABLE, bias_of, scaled, set_operands
from ingot.quantization.network import Network, attributes, float_array, is_own, label
from ingot.quantization.profile import Profile

BETWEEN = ("Relu", "LeakyRelu", "PRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
MOST = 64.0  # a channel's factor, or one over it


@dataclass(frozen=True, slots=True)
class Chain:
    """The layers that write tensors, those that read them, and the tensors, which nothing else reads."""

    first: tuple[onnx.NodeProto, ...]
    second: tuple[onnx.NodeProto, ...]
    tensors: tuple[str, ...]

    @property
    def labels(self) -> set[str]:
        """The labels of its layers."""
        return {label(node) for node in (*self.first, *self.second)}


def equalize(net: Network, profile: Profile, kept: set[str], least: float = 0.0) -> dict[str, Array]:
    """Rescale in place, but for layers labelled in `kept`, and return what the channels of each tensor that
    changed were divided by. Groups whose largest channel is below `least` times the median one stay.
    """
    changed: dict[str, Array] = {}
    for chain in chains(net):
        factors = None if chain.labels & kept else _factors(net, chain, profile, least)
        if factors is not None:
            _rescale(net, chain, factors)
            changed.update(dict.fromkeys(chain.tensors, factors))
    return changed


def chains(net: Network) -> list[Chain]:
    """Return all groups of layers between which channels can be rescaled."""
    makers, readers = net.makers(), net.readers()
    found: list[Chain] = []
    seen: set[str] = set()
    for node in net.nodes:
        if _is_layer(net, node) and node.output[0] not in seen:
            chain = _between(net, node.output[0], makers, readers)
            seen |= set(chain.tensors)
            if chain.first and chain.second:
                found.append(chain)
    return found


def _between(
    net: Network,
    name: str,
    makers: Mapping[str, onnx.NodeProto],
    readers: Mapping[str, list[onnx.NodeProto]],
) -> Chain:
    """All tensors that share the factors of one, and the layers around them: none if anything else is."""
    tensors, first, second = [name], list[onnx.NodeProto](), list[onnx.NodeProto]()
    for tensor in tensors:  # which grows
        maker, reading = makers.get(tensor), readers.get(tensor, [])
        beside = [node for node in reading if not _is_layer(net, node) or list(node.input).count(tensor) > 1]
        inside = [*beside, *([] if maker is None or _is_layer(net, maker) else [maker])]
        carried = [_carried(net, node) for node in inside]
        is_open = maker is None or net.is_kept(tensor)
        if is_open or any(tensor not in names for names in carried):
            return Chain((), (), tuple(tensors))
        first += [maker] if maker is not None and maker not in inside else []
        second += [node for node in reading if node not in beside and node not in second]
        tensors += dict.fromkeys(n for names in carried for n in names if n not in tensors)
    return Chain(tuple(first), tuple(second), tuple(tensors))


def _carried(net: Network, node: onnx.NodeProto) -> tuple[str, ...]:
    """Return the operands and the result of a node through which factors pass; none through any other."""
    results = [name for name in node.output if name]
    if not is_own(node) or len(results) != 1:
        return ()
    if node.op_type in BETWEEN:
        return node.input[0], results[0]
    if node.op_type == "Add" and all(map(net.is_float, node.input)):
        shapes = {net.shapes.get(name) for name in node.input}
        return (*node.input, results[0]) if len(shapes) == 1 and None not in shapes else ()
    return ()


def _is_layer(net: Network, node: onnx.NodeProto) -> bool:
    """Whether a node is a layer with constant weights, and a constant bias if any."""
    is_product = is_own(node) and node.op_type in FOLDABLE and node.op_type != "ConvTranspose"
    weights = float_array(net, node, 1) if is_product else None
    return weights is not None and weights.ndim >= 2 and bias_of(net, node, weights) is not None


def _factors(net: Network, chain: Chain, profile: Profile, least: float) -> Array | None:
    """What each channel is divided by; None where the channels of the layers do not fit, or are even."""
    counts = {_bias(net, node).size for node in chain.first}
    reading = [_per_input(node, np.abs(_weights(net, node)).astype(np.float64)) for node in chain.second]
    found = [profile.tensors.get(name) for name in dict.fromkeys(node.input[0] for node in chain.second)]
    squares = [np.asarray(s.squares) for s in found if s is not None]
    sizes = {a.size for a in (*squares, *(r for r in reading if r is not None))} | counts
    if len(sizes) != 1 or len(squares) < len(found) or any(r is None for r in reading):
        return None
    size = np.sqrt(np.max(squares, axis=0))
    largest = np.max([r for r in reading if r is not None], axis=0)
    is_depthwise = any(int(attributes(node).get("group", 1)) == size.size > 1 for node in chain.second)
    wanted = size if is_depthwise else np.sqrt(size / np.where(largest > 0, largest, 1))
    alive = (size > 0) & (largest > 0)
    if not alive.any() or size.max() < least * np.median(size[alive]):
        return None
    middle = np.exp(np.log(wanted[alive]).mean())
    factors = np.clip(np.where(alive, wanted / middle, 1.0), 1 / MOST, MOST)
    return np.asarray(np.exp2(np.rint(np.log2(factors))))  # powers of two round nothing


def _weights(net: Network, node: onnx.NodeProto) -> Array:
    found = float_array(net, node, 1)
    assert found is not None
    return found


def _bias(net: Network, node: onnx.NodeProto) -> Array:
    found = bias_of(net, node, _weights(net, node))
    assert found is not None
    return found


def _per_input(node: onnx.NodeProto, weights: Array) -> Array | None:
    """The largest weight that reads each channel."""
    groups = int(attributes(node).get("group", 1))
    if node.op_type == "Conv":
        apart = weights.reshape(groups, weights.shape[0] // groups, weights.shape[1], -1)
        return np.asarray(apart.max(axis=(1, 3), initial=0.0).reshape(-1))
    if weights.ndim != 2 or attributes(node).get("transA", 0):
        return None
    return np.asarray(weights.max(axis=0 if attributes(node).get("transB", 0) else 1, initial=0.0))


def _rescale(net: Network, chain: Chain, factors: Array) -> None:
    for node in chain.first:
        weights, bias = _weights(net, node), _bias(net, node)
        set_operands(net, node, scaled(node, weights, 1 / factors), bias / factors)
    for node in chain.second:
        weights, bias = _weights(net, node), _bias(net, node)
        set_operands(net, node, _scaled_inputs(node, weights, factors), bias)


def _scaled_inputs(node: onnx.NodeProto, weights: Array, factors: Array) -> Array:
    """Weights that undo the factors of the channels that they read."""
    if node.op_type == "Gemm":
        return np.asarray(weights * (factors if attributes(node).get("transB", 0) else factors[:, None]))
    groups = int(attributes(node).get("group", 1))
    apart = weights.reshape(groups, weights.shape[0] // groups, weights.shape[1], -1)
    return np.asarray((apart * factors.reshape(groups, 1, -1, 1)).reshape(weights.shape))
