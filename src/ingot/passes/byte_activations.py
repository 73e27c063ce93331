"""Products with encoded weights in bytes: activations quantised as the bundle runs, weights when it is made.

    y = Gemm(x, W, b)    ->    q, i, s, z, coarse = QuantizeOperand(x)
                               total = float(MatMulInteger(q, W', z))
                               if coarse: r, m = QuantizeRest(x, q, z, i)
                                          more = float(MatMulInteger(r, W', m))
                               y = (total + more / 254) * (s * t) + b

W is t * W' nearly, W' bytes of as many values as W has. Needs an inferred graph and `--activations int8`;
serves MatMul, Gemm and Conv by encoded weights, and RNN, GRU and LSTM through `byte_recurrent`. A layer is to
stay within 1 % of max|y| of what it was (99 of 100 random ones do, if rounding errors are independent): what
rounding the weights loses is known here, what rounding the activations loses is measured in each run, and
where that is too much the rest is multiplied too. A layer whose weights lose too much stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np

from ingot.formula.index import upper
from ingot.formula.types import FLOAT32, UINT8
from ingot.graph.ir import Graph, Node, Value, constant_value, reads
from ingot.passes.byte_cost import Image, Sizes, convolution_slower, in_bytes, in_floats, slower
from ingot.passes.byte_nodes import Nodes, is_gathered, numbers_of, taps_of
from ingot.passes.byte_recurrent import RECURRENT, recurrent
from ingot.passes.byte_weights import Weights, quantise
from ingot.passes.never_negative import NeverNegative
from ingot.targets.record import Target

CONVOLUTION = (2, 3, 1, 0)  # the axes of a Conv's weights: taps, channels, features
MOVES = frozenset(["Cast", "Flatten", "Identity", "Reshape", "Shape", "Squeeze", "Transpose", "Unsqueeze"])
LANES = (
    "where registers pick among the values of weights, without --huffman; "
    "elsewhere `ingot quantize` makes integers of them"
)
RECTIFIED = 0.005  # what 255 levels lose of rectified activations, normally distributed
EXACT = ((127, 255),)
SATURATING = ((64, 255), (127, 127))
"""The largest weight and the largest activation. Where sums of two products have 16 bits these must fit them:
with activations of 7 bits the rest is needed more often.
"""


@dataclass(frozen=True, slots=True)
class _How:
    """What the target's products of bytes ask for. `in_lanes`: it picks bytes out of registers.

    `made` are the weights so far: layers that share them do so in bytes.
    """

    target: Target
    ways: tuple[tuple[int, int], ...]
    in_lanes: bool
    made: dict[tuple[Value, tuple[int, ...], int], tuple[Weights, Value] | None] = field(default_factory=dict)

    def weights(
        self, w: Value, order: tuple[int, ...], most: int, levels: int
    ) -> tuple[Weights, Value] | None:
        """A constant as bytes, [terms, outputs]: its axes in this order, the outputs last."""
        key = (w, order, most)
        if key not in self.made:
            assert w.constant is not None and w.encoding is not None
            matrix = w.constant.transpose(order).reshape(-1, w.constant.shape[order[-1]])
            found = quantise(matrix, w.encoding.values, most, levels)
            self.made[key] = None if found is None else (found, _constant(w.name, found))
        return self.made[key]


def _constant(name: str, weights: Weights) -> Value:
    value = constant_value(f"{name}_bytes", weights.bytes.decode())
    value.encoding = weights.bytes
    return value


def byte_activations(graph: Graph, target: Target, walked: bool = False) -> Graph:
    """Rewrite in place, subgraphs too, and return the graph; its `left_float` says which layers stay.

    `walked`: matrices are read entry by entry.
    """
    exact = target.spelling("dot4s", "uint8") is None or target.spelling("dot4", "uint8") is not None
    in_lanes = target.spelling("pick32", "int8") is not None and not walked
    how = _How(target, EXACT if exact or not in_lanes else SATURATING, in_lanes)
    _rewrite(graph, how, NeverNegative(), graph.left_float)
    return graph


def _rewrite(graph: Graph, how: _How, known: NeverNegative, left: dict[str, str]) -> None:
    nodes: list[Node] = []
    for node in graph.nodes:
        for sub in node.subgraphs.values():
            _rewrite(sub, how, known, left)
        known.add(node)
        made = _rewritten(node, how, known) if _encoded(node) else [node]
        if isinstance(made, str):
            left[node.label], made = made, [node]
        nodes += made
    graph.nodes = nodes


def _encoded(node: Node) -> list[int]:
    """Which inputs are encoded weights; none of what moves or reads elements, and does not multiply."""
    if node.op in MOVES:
        return []
    encoded = ((n, v.encoding) for n, v in enumerate(node.inputs) if v is not None)
    return [n for n, e in encoded if e is not None and e.values.dtype.kind == "f"]


def _rewritten(node: Node, how: _How, known: NeverNegative) -> list[Node] | str:
    """What computes a node with encoded weights in bytes, or why it stays as it is."""
    if node.op in RECURRENT and not node.domain:
        return _recurrent(node, how, known)
    if node.op == "Conv" and not how.in_lanes:
        return f"convolutions are computed in bytes {LANES}"
    order = None if node.domain else _order(node)
    x, w, *rest = (*node.inputs, None)
    if why := _unfit(node, order):
        return why
    assert order is not None and x is not None and w is not None
    for most, levels in how.ways:
        found = how.weights(w, order, most, levels)
        if found is None:
            why = "its weights have no bytes: they are all 0, not finite, or their sums exceed 32 bits"
            continue
        allowed = _allowed(found[0], x in known)
        if allowed is None:
            why = _lossy(found[0], x in known)
        elif not (why := _slower(node, found[0], how, x in known and _suffices(allowed[0], levels))):
            nodes = Nodes(node, levels)
            nodes.product(x, found, allowed, rest[0])
            return nodes.nodes
    return why


def _unfit(node: Node, order: tuple[int, ...] | None) -> str:
    """Why a node with encoded weights is no product of floats by them; "" where it is."""
    x, w = (*node.inputs, None)[:2]
    if order is None or x is None or w is None:
        return "of products, MatMul, Gemm without transA and Conv of one group are computed in bytes"
    if w.encoding is None or w.constant is None or w.constant.ndim != len(order):
        return "its encoded weights are not the second operand, of the operator's own axes"
    if not w.constant.size or not x.shape or not all(map(upper, x.shape)):
        return "there is nothing to multiply"
    if x.type is not FLOAT32 or w.type is not FLOAT32:
        return f"it multiplies {x.type}, and bytes stand for float32"
    return "it reads constants alone" if x.constant is not None else ""


def _lossy(weights: Weights, rectified: bool) -> str:
    lost = max(weights.rectified, 0 if rectified else weights.signed)
    return (
        f"rounding its weights to bytes loses {lost:.2%} of a result, and {weights.budget:.2%} is what the "
        "promise of 1 % of max|y| allows: `ingot compress --bits 4` gives values that bytes meet more closely"
    )


def _order(node: Node) -> tuple[int, ...] | None:
    """The axes of the weights: those of terms, then that of outputs. None: the node is no such product."""
    if node.op in ("Gemm", "MatMul") and not node.attributes.get("transA"):
        return (1, 0) if node.attributes.get("transB") else (0, 1)
    return CONVOLUTION if node.op == "Conv" and node.attributes.get("group", 1) == 1 else None


def _recurrent(node: Node, how: _How, known: NeverNegative) -> list[Node] | str:
    """A recurrent node in bytes where that pays, else why not."""

    def cost(s: Sizes, parts: int) -> float:
        return in_bytes(s, how.target, parts) if parts else in_floats(s, how.target)

    if not how.in_lanes:
        return f"recurrent layers are computed in bytes {LANES}"
    made = recurrent(node, how.ways, cost, node.inputs[0] in known)
    return made if isinstance(made, str) else [made]


def _allowed(weights: Weights, rectified: bool) -> tuple[float, float] | None:
    """What activations that are `rectified`, and others, may lose by rounding; None: weights lose more."""
    some = weights.left(weights.rectified)
    others = some if rectified else weights.left(weights.signed)
    return None if some is None or others is None else (some, others)


def _suffices(allowed: float, levels: int) -> bool:
    """Whether rectified activations mostly do without their rest."""
    return allowed > RECTIFIED * UINT8.highest / levels


def _slower(node: Node, weights: Weights, how: _How, without_rest: bool) -> str:
    """Why bytes would not be faster; "" where they are."""
    terms, outputs = weights.bytes.shape
    table = weights.bytes.values
    kept, values = int(np.count_nonzero(weights.bytes.decode())), len(np.unique(np.append(table, 0)))
    elements, results = (prod(map(upper, v.shape or ())) for v in (node.inputs[0], node.outputs[0]) if v)
    sizes = Sizes(results // outputs, terms, outputs, kept, values)
    if node.op == "Conv":
        taps = prod(taps_of(node)) if is_gathered(node) else 1
        image = Image(elements, taps, _is_fast(node))
        return convolution_slower(sizes, image, how.target, without_rest)
    return slower(sizes, how.target, without_rest) if how.in_lanes else ""


def _is_fast(node: Node) -> bool:
    """Whether floats have Winograd's form: windows that move by one."""
    steps = [n for key in ("strides", "dilations") for n in numbers_of(node, key)]
    return set(steps) <= {1} and max(taps_of(node)) > 1


def layers_in_a_row(graph: Graph) -> int:
    """How many layers in bytes stand behind each other at most: what they lose adds up."""
    behind: dict[Value, int] = {}
    _count(graph, behind)
    return max(behind.values(), default=0)


def _count(graph: Graph, behind: dict[Value, int]) -> None:
    """Note how many stand in front of each value. The turns of a loop count as one."""
    for node in graph.nodes:
        before = max((behind.get(v, 0) for v in reads(node)), default=0)
        for sub in node.subgraphs.values():
            behind.update(dict.fromkeys(sub.inputs, before))
            _count(sub, behind)
            before = max([before, *(behind.get(v, 0) for v in sub.outputs)])
        here = before + (node.op in ("QuantizeOperand", *RECURRENT) and node.domain == "ingot")
        behind.update(dict.fromkeys((v for v in node.outputs if v is not None), here))
