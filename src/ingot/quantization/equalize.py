"""Equalisation: channels between two layers are rescaled so that they fill one range alike.

    y = Conv2(relu(Conv1(x)))          ->          y = Conv2 * s (relu(Conv1 / s (x)))

relu(s x) = s relu(x) for s > 0, so the model computes what it did (Nagel et al. 2019, section 4.1). In: a
folded network and the profile that says how large each channel is. Out: the same network with other weights,
and the tensors whose statistics no longer hold. Relu, LeakyRelu, PRelu and pools may stand between; what
clips at a number, as Relu6 does, may not. Weights have a scale for each output channel, so what matters is
that the channels of the activations fill their one range: s is their root mean square, or the square root of
that over the largest weight reading the channel where these share a scale.
"""

from __future__ import annotations

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
    """Two layers, and the tensors between them, which nothing else reads."""

    first: onnx.NodeProto
    second: onnx.NodeProto
    tensors: tuple[str, ...]


def equalize(net: Network, profile: Profile, kept: set[str]) -> set[str]:
    """Rescale in place, but for layers labelled in `kept`, and return the tensors that changed."""
    changed: set[str] = set()
    for chain in chains(net):
        if {label(chain.first), label(chain.second)} & kept:
            continue
        factors = _factors(net, chain, profile)
        if factors is not None:
            _rescale(net, chain, factors)
            changed |= set(chain.tensors)
    return changed


def chains(net: Network) -> list[Chain]:
    """Return all pairs of layers between which channels can be rescaled."""
    readers = net.readers()
    found = []
    for node in net.nodes:
        if not _is_layer(net, node) or node.op_type == "ConvTranspose":
            continue
        tensors, behind = _between(net, node, readers)
        if behind is not None and _is_layer(net, behind) and behind.op_type != "ConvTranspose":
            found.append(Chain(node, behind, tuple(tensors)))
    return found


def _between(
    net: Network, node: onnx.NodeProto, readers: dict[str, list[onnx.NodeProto]]
) -> tuple[list[str], onnx.NodeProto | None]:
    """The tensors behind a layer, and the first node that is not one through which factors pass."""
    tensors = [node.output[0]]
    while net.is_private(tensors[-1], readers):
        (behind,) = readers[tensors[-1]]
        if not is_own(behind) or behind.op_type not in BETWEEN or behind.input[0] != tensors[-1]:
            return tensors, behind if behind.input and behind.input[0] == tensors[-1] else None
        if len([n for n in behind.output if n]) != 1:
            return tensors, None
        tensors.append(behind.output[0])
    return tensors, None


def _is_layer(net: Network, node: onnx.NodeProto) -> bool:
    """Whether a node is a layer with constant weights, and a constant bias if any."""
    weights = float_array(net, node, 1) if is_own(node) and node.op_type in FOLDABLE else None
    return weights is not None and weights.ndim >= 2 and bias_of(net, node, weights) is not None


def _factors(net: Network, chain: Chain, profile: Profile) -> Array | None:
    """What each channel is divided by; None where the channels of the two layers do not fit."""
    first, second = (float_array(net, node, 1) for node in (chain.first, chain.second))
    statistics = profile.tensors.get(chain.tensors[-1])
    assert first is not None and second is not None
    reading = _per_input(chain.second, np.abs(second).astype(np.float64))
    bias = bias_of(net, chain.first, first)
    assert bias is not None
    if statistics is None or reading is None or not len(statistics.squares) == reading.size == bias.size:
        return None
    size = np.sqrt(np.asarray(statistics.squares))
    is_depthwise = int(attributes(chain.second).get("group", 1)) == reading.size > 1
    wanted = size if is_depthwise else np.sqrt(size / np.where(reading > 0, reading, 1))
    alive = (size > 0) & (reading > 0)
    if not alive.any():
        return None
    middle = np.exp(np.log(wanted[alive]).mean())
    factors = np.clip(np.where(alive, wanted / middle, 1.0), 1 / MOST, MOST)
    return np.asarray(np.exp2(np.rint(np.log2(factors))))  # powers of two round nothing


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
    weights = float_array(net, chain.first, 1)
    assert weights is not None
    bias = bias_of(net, chain.first, weights)
    assert bias is not None
    set_operands(net, chain.first, scaled(chain.first, weights, 1 / factors), bias / factors)
    reading = float_array(net, chain.second, 1)
    assert reading is not None
    behind = bias_of(net, chain.second, reading)
    assert behind is not None
    set_operands(net, chain.second, _scaled_inputs(chain.second, reading, factors), behind)


def _scaled_inputs(node: onnx.NodeProto, weights: Array, factors: Array) -> Array:
    """Weights that undo the factors of the channels that they read."""
    if node.op_type == "Gemm":
        return np.asarray(weights * (factors if attributes(node).get("transB", 0) else factors[:, None]))
    groups = int(attributes(node).get("group", 1))
    apart = weights.reshape(groups, weights.shape[0] // groups, weights.shape[1], -1)
    return np.asarray((apart * factors.reshape(groups, 1, -1, 1)).reshape(weights.shape))
