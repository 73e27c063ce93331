"""What multiplies and adds constants behind a layer becomes part of its weights.

    c = Conv(x, w)                                                b = Conv(x, w', b')
    b = BatchNormalization(c, ...)             ->                 w' = w * scale, b' = shift
    m = MatMul(x, w); y = Add(m, b)            ->                 y = Gemm(x, w, b)

In: a network. Out: the same, changed. Needs constants; guarantees that what is left of a layer makes the
tensor that the folded node made, under its name, so that a profile of the float model still speaks of it.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from ingot.formula.expr import Array
from ingot.quantization.network import Network, attributes, float_array, is_own

FOLDABLE = ("Conv", "ConvTranspose", "Gemm")
EPSILON = 1e-5
Affine = tuple[Array, Array]  # y = x * scale + shift, one number for each output of a layer


def fold(net: Network) -> Network:
    """Fold in place until nothing changes, and return the network."""
    for node in net.nodes:
        if node.op_type == "Gemm" and is_own(node):
            _plain_gemm(net, node)
    while _dense(net) or _fold_one(net):
        pass
    return net


def output_axis(node: onnx.NodeProto, rank: int) -> int:
    """Return the axis of a layer's weights that its outputs go along."""
    match node.op_type:
        case "Conv":
            return 0
        case "ConvTranspose":
            return 1
        case "Gemm":
            return 0 if attributes(node).get("transB") else 1
    return rank - 1


def outputs_of(node: onnx.NodeProto, weights: Array) -> int:
    """Return how many outputs a layer has."""
    groups = attributes(node).get("group", 1) if node.op_type == "ConvTranspose" else 1
    return int(weights.shape[output_axis(node, weights.ndim)]) * int(groups)


def scaled(node: onnx.NodeProto, weights: Array, scale: Array) -> Array:
    """Return weights each of whose outputs is multiplied by a number."""
    axis = output_axis(node, weights.ndim)
    if node.op_type != "ConvTranspose":
        shape = [-1 if d == axis else 1 for d in range(weights.ndim)]
        return np.asarray(weights * scale.reshape(shape))
    groups = int(attributes(node).get("group", 1))
    apart = weights.reshape(groups, -1, *weights.shape[1:])
    factor = scale.reshape(groups, 1, -1, *[1] * (weights.ndim - 2))
    return np.asarray((apart * factor).reshape(weights.shape))


def bias_of(net: Network, node: onnx.NodeProto, weights: Array) -> Array | None:
    """Return the constant bias of a layer, zeros without one; None: it is data, or no vector."""
    count = outputs_of(node, weights)
    if len(node.input) < 3 or not node.input[2]:
        return np.zeros(count, np.float32)
    found = float_array(net, node, 2)
    if found is None or found.size not in (1, count) or found.shape[:-1] not in ((), (1,)):
        return None
    return np.broadcast_to(found.reshape(-1), (count,)).astype(np.float32)


def set_operands(net: Network, node: onnx.NodeProto, weights: Array, bias: Array) -> None:
    """Give a layer other weights and another bias, float32, under new names."""
    names = [node.input[0], net.add_constant(node.input[1], weights.astype(np.float32))]
    about = node.input[2] if len(node.input) > 2 and node.input[2] else f"{node.output[0]}_bias"
    names.append(net.add_constant(about, bias.astype(np.float32)))
    del node.input[:]
    node.input.extend(names)


def _plain_gemm(net: Network, node: onnx.NodeProto) -> None:
    """alpha * (x w) + beta * c -> x w' + c'"""
    given = attributes(node)
    alpha, beta = given.get("alpha", 1.0), given.get("beta", 1.0)
    weights = float_array(net, node, 1)
    bias = None if weights is None or weights.ndim != 2 else bias_of(net, node, weights)
    if (alpha, beta) == (1.0, 1.0) or weights is None or bias is None:
        return
    set_operands(net, node, weights * np.float32(alpha), bias * np.float32(beta))
    kept = [a for a in node.attribute if a.name not in ("alpha", "beta")]
    del node.attribute[:]
    node.attribute.extend(kept)


def _dense(net: Network) -> bool:
    """MatMul by a matrix and an Add of a vector -> Gemm, between Reshapes where there are more axes"""
    readers = net.readers()
    for i, node in enumerate(net.nodes):
        weights = float_array(net, node, 1) if node.op_type == "MatMul" and is_own(node) else None
        shape = net.shapes.get(node.input[0], ()) if weights is not None else ()
        if weights is None or weights.ndim != 2 or len(shape) < 2 or shape[:-1].count(None) > 1:
            continue
        if not net.is_private(node.output[0], readers):
            continue
        (add,) = readers[node.output[0]]
        bias = _vector(net, add, node.output[0], weights.shape[1])
        if bias is None:
            continue
        name = net.add_constant(f"{node.output[0]}_bias", bias)
        made = helper.make_node("Gemm", [*node.input, name], list(add.output), node.name)
        net.nodes[i : i + 1] = [made] if len(shape) == 2 else _in_rows(net, made, shape, weights.shape)
        net.nodes.remove(add)
        return True
    return False


def _vector(net: Network, add: onnx.NodeProto, source: str, count: int) -> Array | None:
    """What an Add adds along the last axis, alike for all others."""
    if add.op_type != "Add" or not is_own(add):
        return None
    places = [i for i, name in enumerate(add.input) if name != source]
    found = float_array(net, add, places[0]) if len(places) == 1 else None
    if found is None or found.shape[-1:] != (count,) or found.size != count:
        return None
    return found.reshape(-1) if found.ndim <= len(net.shapes[source]) else None


def _in_rows(
    net: Network, gemm: onnx.NodeProto, shape: tuple[int | None, ...], matrix: tuple[int, ...]
) -> list[onnx.NodeProto]:
    """A Gemm of all rows of an operand with more axes, and views before and behind it."""
    (x, *others), out = gemm.input, gemm.output[0]
    rows, results = net.unused(f"{out}_rows_in"), net.unused(f"{out}_rows")
    net.shapes[rows], net.shapes[results] = (None, matrix[0]), (None, matrix[1])
    ends = [-1 if n is None else n for n in shape[:-1]] + [matrix[1]]
    flat, whole = (np.array(dims, np.int64) for dims in ([-1, matrix[0]], ends))
    before, behind = (net.add_constant(f"{out}_{k}", a) for k, a in (("flat", flat), ("shape", whole)))
    return [
        helper.make_node("Reshape", [x, before], [rows], f"{gemm.name or out}_rows_in"),
        helper.make_node("Gemm", [rows, *others], [results], gemm.name),
        helper.make_node("Reshape", [results, behind], [out], f"{gemm.name or out}_rows"),
    ]


def _fold_one(net: Network) -> bool:
    """Fold the first node behind a layer that only scales and shifts its outputs."""
    readers = net.readers()
    for node in net.nodes:
        if node.op_type not in FOLDABLE or not is_own(node) or not net.is_private(node.output[0], readers):
            continue
        weights = float_array(net, node, 1)
        bias = None if weights is None else bias_of(net, node, weights)
        if weights is None or bias is None:
            continue
        (behind,) = readers[node.output[0]]
        found = _affine(net, behind, node.output[0], bias.size, len(net.shapes[node.output[0]]))
        if found is None:
            continue
        scale, shift = found
        wide = scaled(node, weights.astype(np.float64), scale)
        set_operands(net, node, wide, bias.astype(np.float64) * scale + shift)
        node.output[0] = behind.output[0]
        net.nodes.remove(behind)
        return True
    return False


def _affine(net: Network, node: onnx.NodeProto, source: str, count: int, rank: int) -> Affine | None:
    """What a node makes of `source`, as a scale and a shift for each of its channels (axis 1)."""
    if not is_own(node) or len([n for n in node.output if n]) != 1 or node.op_type not in AFFINE:
        return None
    if node.op_type == "BatchNormalization":
        return _normalisation(net, node, source, count)
    places = [i for i, name in enumerate(node.input) if name != source]
    operand = float_array(net, node, places[0]) if len(places) == 1 and len(node.input) == 2 else None
    vector = None if operand is None else _per_channel(operand, count, rank)
    if vector is None:
        return None
    ones, zeros = np.ones(count), np.zeros(count)
    match node.op_type, places[0]:
        case "Add", _:
            return ones, vector
        case "Sub", 1:
            return ones, -vector
        case "Sub", 0:
            return -ones, vector
        case "Mul", _:
            return vector, zeros
        case "Div", 1 if np.all(vector != 0):
            return 1 / vector, zeros
    return None


AFFINE = ("BatchNormalization", "Add", "Sub", "Mul", "Div")


def _normalisation(net: Network, node: onnx.NodeProto, source: str, count: int) -> Affine | None:
    """BatchNormalization-15 for inference."""
    numbers = [float_array(net, node, i) for i in range(1, 5)]
    if node.input[0] != source or attributes(node).get("training_mode", 0):
        return None
    if any(a is None or a.shape != (count,) for a in numbers):
        return None
    gamma, beta, mean, variance = (a.astype(np.float64) for a in numbers if a is not None)
    scale = gamma / np.sqrt(variance + attributes(node).get("epsilon", EPSILON))
    return scale, beta - mean * scale


def _per_channel(operand: Array, count: int, rank: int) -> Array | None:
    """A constant that differs along axis 1 at most, as one number for each channel."""
    if operand.ndim > rank or not np.isfinite(operand).all():
        return None
    shape = (1,) * (rank - operand.ndim) + operand.shape
    if any(n != 1 for d, n in enumerate(shape) if d != 1) or shape[1] not in (1, count):
        return None
    return np.broadcast_to(operand.reshape(-1), (count,)).astype(np.float64)
