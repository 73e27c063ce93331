"""Adaptive rounding: each weight goes up or down, whichever makes the layer's result err less on data.

    minimise E |(W' - W) x|^2 = sum over rows of d H d,  H = E[x x^T],  d = W' - W

(Nagel et al. 2020, Up or Down? Adaptive Rounding for Post-Training Quantization, equation 13.) There the
choice is relaxed and found by gradients; here the layer's quadratic form is descended one weight of each
row at a time, from rounding to nearest on, until no weight that goes the other way lessens it. Where biases
are corrected, the mean error is taken out there, so H is the covariance of x. In: a layer's weights, their
parameters, samples of its operand. Out: integers. Called by `quantize`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from ingot.formula.expr import Array
from ingot.log import announce
from ingot.quantization.evidence import Evidence
from ingot.quantization.fold import FOLDABLE
from ingot.quantization.network import Network, attributes, closed, float_array, is_own, label
from ingot.quantization.parameters import Parameters
from ingot.quantization.plan import Plan, Stored

POINTS = 256  # of an image that one run adds to H at most
WIDEST = 4608  # terms of a sum beyond which H is too large: such layers round to nearest
DAMPED = 1e-3  # of H's mean diagonal, added to it


@dataclass(slots=True)
class _Moments:
    """Sums over places, for each group: of x x^T, and of x."""

    products: Array
    sums: Array
    count: int = 0

    def form(self, is_centred: bool) -> Array:
        """H for each group, its diagonal never 0."""
        count = max(self.count, 1)
        mean = self.sums / count
        h = self.products / count
        if is_centred:
            h = h - mean[:, :, None] * mean[:, None, :]
        size = np.maximum(np.einsum("gkk->gk", self.products / count).mean(axis=1), 1e-12)
        return np.asarray(h + np.eye(h.shape[-1]) * (DAMPED * size)[:, None, None])


def adapt(net: Network, plan: Plan, evidence: Evidence, is_centred: bool) -> dict[tuple[str, int], Stored]:
    """Return other integers for the weights of layers, by label and place.

    `is_centred`: biases take the mean error away.
    """
    nodes = [n for n in net.nodes if _adapts(net, n, plan)]
    forms: dict[str, _Moments] = {}
    names = tuple(dict.fromkeys(n.input[0] for n in nodes))
    rng = np.random.default_rng(0)
    for i, tensors in enumerate(evidence.tensors(closed(net), names)):
        announce("operands", i, len(evidence.feeds))
        for node in nodes:
            how = plan.tensors.get(node.input[0])
            x = np.asarray(tensors[node.input[0]], np.float32)
            _gather(forms, net, node, x if how is None else how.rounded(x), rng)
    found = {}
    for i, node in enumerate(nodes):
        announce(f"round {label(node)}", i, len(nodes))
        stored = plan.constants[label(node), 1]
        weights = float_array(net, node, 1)
        assert weights is not None
        found[label(node), 1] = _adapted(node, weights, stored.how, forms[label(node)].form(is_centred))
    return found


def _adapts(net: Network, node: onnx.NodeProto, plan: Plan) -> bool:
    weights = float_array(net, node, 1)
    if weights is None or (label(node), 1) not in plan.constants or not is_own(node):
        return False
    given = attributes(node)
    if node.op_type not in FOLDABLE or node.op_type == "ConvTranspose" or given.get("transA", 0):
        return False
    return _matrix(node, weights).shape[-1] <= WIDEST and weights.ndim in (2, 3, 4)


def _matrix(node: onnx.NodeProto, weights: Array) -> Array:
    """Weights as [group, output, term]."""
    if node.op_type == "Gemm":
        return np.asarray(weights if attributes(node).get("transB", 0) else weights.T)[None]
    groups = int(attributes(node).get("group", 1))
    return weights.reshape(groups, weights.shape[0] // groups, -1)


def _gather(
    forms: dict[str, _Moments], net: Network, node: onnx.NodeProto, x: Array, rng: np.random.Generator
) -> None:
    """Add one run's operand to the sums of x x^T, one for each group."""
    weights = float_array(net, node, 1)
    assert weights is not None
    points = x[None] if node.op_type == "Gemm" else _windows(node, weights, x, rng)
    form = np.matmul(points.transpose(0, 2, 1), points).astype(np.float64)
    held = forms.setdefault(label(node), _Moments(np.zeros_like(form), np.zeros(form.shape[:2])))
    held.products += form
    held.sums += points.sum(axis=1, dtype=np.float64)
    held.count += points.shape[1]


def _windows(node: onnx.NodeProto, weights: Array, x: Array, rng: np.random.Generator) -> Array:
    """What a convolution multiplies at some of its places, as [group, place, term]."""
    given, taps = attributes(node), weights.shape[2:]
    rank = len(taps)
    strides, dilations = (list(given.get(key, [1] * rank)) for key in ("strides", "dilations"))
    reach = [(t - 1) * d + 1 for t, d in zip(taps, dilations, strict=True)]
    pads = _pads(given, x.shape[2:], strides, reach)
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=tuple(range(2, 2 + rank)))
    steps = [slice(None, None, s) for s in (1, 1, *strides, *dilations)]
    picked = np.asarray(views[tuple(steps)])  # [n, c, place.., tap..]
    places = np.moveaxis(picked, 1, 1 + rank).reshape(-1, x.shape[1], *taps)
    if len(places) > POINTS:
        places = places[rng.choice(len(places), POINTS, replace=False)]
    groups = int(given.get("group", 1))
    apart = places.reshape(len(places), groups, -1)
    return np.ascontiguousarray(apart.transpose(1, 0, 2))


def _pads(
    given: Mapping[str, object], extents: tuple[int, ...], strides: list[int], reach: list[int]
) -> list[tuple[int, int]]:
    """What stands around an image, by ONNX's Conv-11."""
    mode, rank = given.get("auto_pad", b"NOTSET"), len(reach)
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        sizes = zip(extents, strides, reach, strict=True)
        totals = [max((-(-n // s) - 1) * s + r - n, 0) for n, s, r in sizes]
        small = [t // 2 if mode == b"SAME_UPPER" else t - t // 2 for t in totals]
        return [(a, t - a) for a, t in zip(small, totals, strict=True)]
    pads = given.get("pads")
    found = list(pads) if isinstance(pads, list) and mode == b"NOTSET" else [0] * (2 * rank)
    return [(found[d], found[d + rank]) for d in range(rank)]


def _adapted(node: onnx.NodeProto, weights: Array, how: Parameters, form: Array) -> Stored:
    """The integers that descend the layer's quadratic form."""
    matrix = _matrix(node, weights).astype(np.float64)
    scale, _ = how.along(weights.ndim)
    steps = _matrix(node, np.broadcast_to(scale, weights.shape).astype(np.float64))
    exact = matrix / steps
    integers = np.clip(np.rint(exact), how.lowest + 1, how.highest)
    for g in range(len(matrix)):
        integers[g] = _descended(exact[g], integers[g], form[g], how)
    made = integers.reshape(-1, matrix.shape[-1])
    if node.op_type == "Gemm":
        made = made if attributes(node).get("transB", 0) else made.T
    return Stored(np.ascontiguousarray(made.reshape(weights.shape)).astype(how.type), how)


def _descended(exact: Array, integers: Array, h: Array, how: Parameters) -> Array:
    """Turn in each row the weight that gains most, until none does; weights stay next to what they were.

    Steps of a row are alike, so that they leave the comparison.
    """
    q = integers.copy()
    d = q - exact
    other = np.where(d > 0, q - 1, q + 1)  # on the other side of the exact number
    allowed = (other >= how.lowest + 1) & (other <= how.highest) & (np.abs(other - exact) < 1)
    pull = d @ h
    rows, diagonal = np.arange(len(q)), np.diag(h)
    for _ in range(exact.shape[1]):
        move = other - q
        gain = np.where(allowed, 2 * move * pull + diagonal, np.inf)
        best = gain.argmin(axis=1)
        turns = gain[rows, best] < 0
        if not turns.any():
            break
        at, place = rows[turns], best[turns]
        pull[at] += move[at, place][:, None] * h[place]
        q[at, place], other[at, place] = other[at, place], q[at, place]
    return np.asarray(q)
