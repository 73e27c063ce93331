"""Bias correction: the mean of what rounding weights does to a layer goes out of its bias.

    E[(w' - w) x] = (w' - w) E[x]            b' = b - (w' - w) E[x]

(Nagel et al. 2019, Data-Free Quantization Through Weight Equalization and Bias Correction, section 4.2;
E[x] comes from a profile here, and what lies outside of an image counts as what lies in it.) In: a layer,
the means of its operand per channel. Out: what to take from its bias. Called by `plan`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from ingot.formula.expr import Array
from ingot.quantization.fold import FOLDABLE, bias_of, outputs_of, set_operands
from ingot.quantization.network import Network, attributes, float_array, is_own


def with_biases(net: Network) -> Network:
    """Give each layer with constant weights a bias, in place: zeros where there is none."""
    for node in net.nodes:
        weights = float_array(net, node, 1) if node.op_type in FOLDABLE and is_own(node) else None
        has_bias = len(node.input) > 2 and node.input[2]
        bias = None if weights is None or weights.ndim < 2 or has_bias else bias_of(net, node, weights)
        if weights is not None and bias is not None:
            set_operands(net, node, weights, bias)
    return net


def mean_error(node: onnx.NodeProto, weights: Array, rounded: Array, means: Sequence[float]) -> Array | None:
    """Return what rounding the weights adds to each output on average; None if the means do not fit."""
    off = rounded.astype(np.float64) - weights
    mean, groups = np.asarray(means, np.float64), int(attributes(node).get("group", 1))
    match node.op_type:
        case "Conv" if mean.size == weights.shape[1] * groups:
            taps = off.reshape(groups, -1, weights.shape[1], int(np.prod(weights.shape[2:]))).sum(axis=3)
            return np.asarray(np.einsum("goi,gi->go", taps, mean.reshape(groups, -1)).reshape(-1))
        case "ConvTranspose" if mean.size == weights.shape[0]:
            return _transposed(node, off, mean, groups)
        case "Gemm" if not attributes(node).get("transA", 0):
            matrix = off if attributes(node).get("transB", 0) else off.T
            return np.asarray(matrix @ mean) if matrix.shape[1] == mean.size else None
    return None


def _transposed(node: onnx.NodeProto, off: Array, mean: Array, groups: int) -> Array:
    """An output of a transposed convolution gets one tap in as many as the strides say."""
    strides = attributes(node).get("strides", [1])
    apart = off.reshape(groups, off.shape[0] // groups, off.shape[1], -1).sum(axis=3)
    sums = np.einsum("gio,gi->go", apart, mean.reshape(groups, -1)).reshape(-1)
    assert sums.size == outputs_of(node, off)
    return np.asarray(sums / np.prod(strides))
