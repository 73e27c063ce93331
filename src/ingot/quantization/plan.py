"""The decisions: a scale and a zero point for every tensor and weight that becomes integers, as data.

In: a folded network, a profile, a scheme. Out: a `Plan`, which `write` writes. Nothing here changes the
network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx

from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.log import announce
from ingot.quantization.correct import mean_error
from ingot.quantization.fold import bias_of, output_axis
from ingot.quantization.network import Network, float_array, label
from ingot.quantization.parameters import Parameters, as_type, fixed, weights_per_channel
from ingot.quantization.placement import Placement, fixed_range
from ingot.quantization.profile import Profile, Statistics
from ingot.quantization.ranges import calibrated
from ingot.quantization.roles import CLIPS, PRODUCTS, RECURRENT
from ingot.quantization.scheme import Scheme

BIAS_LIMIT = 1 << 30  # the largest bias in units of sums: half of what int32 holds is left to these
UNITS = {"int8": 127, "int16": 32767}  # the largest bias of fewer bits, in units of its own


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A constant as integers, and what they stand for."""

    integers: Array
    how: Parameters

    @property
    def numbers(self) -> Array:
        """The numbers that the integers stand for."""
        return self.how.numbers(self.integers)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """`tensors`: the parameters of each quantised tensor; `constants`: operands of nodes as integers, by the
    node's label and the operand's place; `floats`: nodes that compute in float, and why."""

    tensors: Mapping[str, Parameters]
    floats: Mapping[str, str]
    constants: dict[tuple[str, int], Stored] = field(default_factory=dict)


def planned(
    net: Network,
    placement: Placement,
    profile: Profile,
    scheme: Scheme,
    wide: set[str],
    rounded: Mapping[tuple[str, int], Stored] | None = None,
) -> Plan:
    """Return all decisions; nodes labelled in `wide` read and make activations of 16 bits.

    `rounded` weights, by label and place, are taken as they are.
    """
    plan = Plan(activations(net, placement, profile, scheme, wide), placement.floats)
    for node in net.nodes:
        if label(node) in placement.floats:
            continue
        if node.op_type in PRODUCTS:
            layer(net, node, plan, profile, scheme, (rounded or {}).get((label(node), 1)))
        elif node.op_type in RECURRENT:
            _recurrent(net, node, plan, scheme)
    return plan


def activations(
    net: Network, placement: Placement, profile: Profile, scheme: Scheme, wide: set[str]
) -> dict[str, Parameters]:
    """Return the parameters of every quantised tensor. Raises InputError for one that the profile lacks."""
    found: dict[str, Parameters] = {}
    makers, beside = net.makers(), _beside(net, wide)
    for i, group in enumerate(placement.groups):
        announce(f"range of {group[0]}", i, len(placement.groups))
        bits = 16 if scheme.precision == "int16x8" or beside & set(group) else 8
        natural = fixed_range(net, placement, group)
        if natural is not None:
            how = fixed(*natural, scheme.schema, bits)
        else:
            statistics = [_statistics(profile, name) for name in sources(group, makers, profile)]
            how = calibrated(statistics, scheme.calibration, scheme.schema, bits)
        if scheme.edge != "float" and set(group) & {*net.inputs, *net.outputs}:
            how = as_type(how, scheme.edge)
        found.update(dict.fromkeys(group, how))
    return found


def _beside(net: Network, labels: set[str]) -> set[str]:
    """The tensors that nodes read and make, and what a Relu behind one makes."""
    nodes = [node for node in net.nodes if label(node) in labels]
    made = {name for node in nodes for name in node.output}
    clipped = {node.output[0] for node in net.nodes if node.op_type in CLIPS and node.input[0] in made}
    return made | clipped | {node.input[0] for node in nodes if node.input}


def sources(group: tuple[str, ...], makers: Mapping[str, onnx.NodeProto], profile: Profile) -> list[str]:
    """Return the tensors of a group whose elements come from outside it: the others only move.

    Where folding made these, the profile knows but the moved ones.
    """
    inside = set(group)
    moved = {n for n in group if n in makers and inside & set(makers[n].input)}
    roots = [name for name in group if name not in moved] or list(group)
    known = [name for name in roots if name in profile.tensors]
    return known or [name for name in group if name in profile.tensors] or roots


def _statistics(profile: Profile, name: str) -> Statistics:
    found = profile.tensors.get(name)
    if found is None:
        raise InputError(
            f"the profile does not say what tensor {name!r} holds", remedy="make it anew with `ingot profile`"
        )
    return found


def layer(
    net: Network,
    node: onnx.NodeProto,
    plan: Plan,
    profile: Profile,
    scheme: Scheme,
    rounded: Stored | None = None,
) -> None:
    """Decide on a layer's constant weights and bias."""
    x, weights = plan.tensors.get(node.input[0]), float_array(net, node, 1)
    if weights is None or weights.ndim < 2:
        _constant_left(net, node, plan, scheme)
        return
    axis = None if scheme.per_tensor else output_axis(node, weights.ndim)
    bias = bias_of(net, node, weights) if len(node.input) > 2 and node.input[2] else None
    is_power = scheme.schema == "symmetric_with_power2_scale"
    least = 0.0 if bias is None or x is None else _least_scale(bias, x, axis, weights)
    how = weights_per_channel(weights, axis, is_power, least)
    stored = rounded or Stored(how.quantised(weights), how)
    plan.constants[label(node), 1] = stored
    if bias is not None and x is not None:
        statistics = profile.tensors.get(node.input[0]) if scheme.bias_correction else None
        error = None if statistics is None else mean_error(node, weights, stored.numbers, statistics.means)
        right = bias if error is None else bias - error
        plan.constants[label(node), 2] = stored_bias(right, x, how, scheme)


def _least_scale(bias: Array, x: Parameters, axis: int | None, weights: Array) -> Array | float:
    """The scales of weights below which a bias would not fit 32 bits."""
    least = np.abs(bias.astype(np.float64)) / (BIAS_LIMIT * float(x.scale))
    if axis is None:
        return float(least.max(initial=0.0))
    return np.asarray(least.reshape(-1, weights.shape[axis]).max(axis=0))


def stored_bias(bias: Array, x: Parameters, w: Parameters, scheme: Scheme) -> Stored:
    """Return a bias in units of the sums, or in fewer bits and units of its own."""
    if scheme.bias_precision != "int32":
        most = max(float(np.abs(bias).max(initial=0.0)), float(np.finfo(np.float32).tiny))
        scale = np.array(most / UNITS[scheme.bias_precision], np.float32)
        how = Parameters(scale, np.zeros((), scheme.bias_precision), scheme.bias_precision)
        return Stored(how.quantised(bias), how)
    repeated = np.resize(w.scale, bias.shape) if w.axis is not None else w.scale  # groups of ConvTranspose
    unit = np.asarray(x.scale * repeated, np.float32)
    how = Parameters(unit, np.zeros(unit.shape, np.int32), "int32", 0 if unit.ndim else None)
    integers = np.rint(bias.astype(np.float64) / unit.astype(np.float64)).astype(np.int32)
    return Stored(integers, how)


def _constant_left(net: Network, node: onnx.NodeProto, plan: Plan, scheme: Scheme) -> None:
    """A constant that a product multiplies from the left: one scale."""
    left = float_array(net, node, 0)
    if left is not None and left.size:
        how = weights_per_channel(left, None, scheme.schema == "symmetric_with_power2_scale")
        plan.constants[label(node), 0] = Stored(how.quantised(left), how)


def _recurrent(net: Network, node: onnx.NodeProto, plan: Plan, scheme: Scheme) -> None:
    """The two matrices of a recurrent layer; its biases and peepholes stay float."""
    for place in (1, 2):
        weights = float_array(net, node, place)
        if weights is not None and weights.size:
            how = weights_per_channel(weights, None, scheme.schema == "symmetric_with_power2_scale")
            plan.constants[label(node), place] = Stored(how.quantised(weights), how)
