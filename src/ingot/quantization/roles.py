"""What quantisation makes of each operator: which are layers, which only move elements, which are maps.

In: nodes. Out: sets of operator types, and patterns of names matched. Called by `placement`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import onnx

from ingot.errors import InputError
from ingot.quantization.network import Network, attributes, float_array, is_own, label

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
MOVES = frozenset(
    (
        *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Gather", "Identity", "Expand"),
        *("Tile", "DepthToSpace", "SpaceToDepth", "MaxPool", "GlobalMaxPool", "Dropout", "Split", "Concat"),
        *("Pad", "Resize", "ReduceMax", "ReduceMin", "GatherElements", "GatherND", "ReverseSequence"),
    )
)
"""Operators whose results hold elements of their operands: these share scale and zero point."""
POOLS = frozenset({"AveragePool", "GlobalAveragePool", "ReduceMean", "ReduceSum", "LpPool", "GlobalLpPool"})
MAPS = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Relu", "Clip", "LeakyRelu", "PRelu", "Sigmoid", "Tanh", "HardSigmoid"),
        *("HardSwish", "Elu", "Selu", "Celu", "Gelu", "Erf", "Softplus", "Softsign", "Mish", "Swish", "Abs"),
        *("Neg", "Min", "Max", "Exp", "Log", "Sqrt", "Pow", "Reciprocal", "ThresholdedRelu", "Sum", "Mean"),
        *("Round", "Floor", "Ceil", "Sign", "Sin", "Cos"),
    )
)
NORMALISATIONS = frozenset(
    (
        *("Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "InstanceNormalization"),
        *("GroupNormalization", "BatchNormalization", "LRN", "LpNormalization", "MeanVarianceNormalization"),
    )
)
FIXED = {"Sigmoid": (0.0, 1.0), "HardSigmoid": (0.0, 1.0), "Softmax": (0.0, 1.0), "Tanh": (-1.0, 1.0)}
"""Ranges that results have whatever the data."""
QUANTISED = PRODUCTS | RECURRENT | MOVES | POOLS | MAPS | NORMALISATIONS
CLIPS = ("Relu", "Clip")  # what a layer's range is clipped by


def is_quantised(net: Network, node: onnx.NodeProto) -> bool:
    """Whether a node can compute on quantised operands, whatever the user wants."""
    if not is_own(node) or node.op_type not in QUANTISED:
        return False
    if not any(net.is_float(name) for name in node.output if name):
        return False
    return not is_move(node) or _only_picks(net, node)


def is_move(node: onnx.NodeProto) -> bool:
    """Whether a node of this type makes nothing but elements of its operands."""
    return is_own(node) and node.op_type in MOVES


def moved_operands(net: Network, node: onnx.NodeProto) -> list[str]:
    """Return the run-time operands whose elements a move's results hold."""
    names = list(node.input) if node.op_type == "Concat" else list(node.input[:1])
    return [name for name in names if net.is_float(name)]


def _only_picks(net: Network, node: onnx.NodeProto) -> bool:
    """Whether a move of this kind picks elements, or adds such as every quantised tensor can hold: zeros."""
    given = attributes(node)
    if node.op_type == "Resize":
        return given.get("mode", b"nearest") == b"nearest" and not given.get("extrapolation_value", 0.0)
    if node.op_type == "Pad" and given.get("mode", b"constant") == b"constant":
        value = float_array(net, node, 2) if len(node.input) > 2 and node.input[2] else None
        return len(node.input) < 3 or not node.input[2] or (value is not None and not value.any())
    if node.op_type == "Concat":
        return all(net.is_float(name) for name in node.input)
    if node.op_type == "MaxPool":
        return len([n for n in node.output if n]) == 1
    return True


def clip_limits(net: Network, node: onnx.NodeProto) -> tuple[float, float] | None:
    """Return the limits of a Relu, or of a Clip whose limits are constants; None of anything else."""
    if node.op_type == "Relu":
        return 0.0, float("inf")
    given, ends = attributes(node), []
    for place, (key, default) in enumerate((("min", float("-inf")), ("max", float("inf"))), 1):
        name = node.input[place] if place < len(node.input) else ""
        if name and name not in net.constants:
            return None
        ends.append(float(net.constants[name].item()) if name else float(given.get(key, default)))
    return (ends[0], ends[1]) if node.op_type == "Clip" and is_own(node) else None


def matched(nodes: Sequence[onnx.NodeProto], patterns: Sequence[str], option: str) -> set[str]:
    """Return the labels of nodes whose name or operator type is like a pattern. Raises InputError for a
    pattern that fits none."""
    found: set[str] = set()
    for pattern in patterns:
        hits = {label(n) for n in nodes if _fits(n, pattern)}
        if not hits:
            kinds = ", ".join(sorted({n.op_type for n in nodes}))
            raise InputError(
                f"{option} {pattern}: no node has such a name or operator type",
                remedy=f"the operators of the model are {kinds}",
            )
        found |= hits
    return found


def _fits(node: onnx.NodeProto, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (node.name, node.op_type, *node.output) if name)
