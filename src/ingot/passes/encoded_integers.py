"""Encoded integers stay encoded where the target multiplies by their entries; elsewhere their elements are
stored, and the graph says why.

    w = Cast(ingot.Sparse(codes, gaps, ..), int8)
    q = QGemm(x, .., w, ..)                               ->      w encoded, or the elements of w

In: an inferred graph behind `integer_layers`, whose products of bytes hold the encodings of their weights.
Out: the same graph; `expanded` has what lost its encoding. What is computed is the same to the bit: sums of
integers do not care about zeros that are left out. Products with `ingot compress`ed floats are left to
`byte_activations` and the Chooser.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from ingot.errors import InputError
from ingot.formula.index import upper
from ingot.formula.types import INT8, UINT8
from ingot.graph.ir import Graph, Node, Value, reads
from ingot.passes.byte_cost import Sizes, entries_slower
from ingot.passes.prune import contributing
from ingot.targets.record import Target

PRODUCTS = {"QGemm": 3, "QLinearMatMul": 3, "MatMulInteger": 1, "QLinearConv": 3, "ConvInteger": 1}
"""Operators that multiply by entries, and where their weights stand; their zero points are two behind."""
WALKED, WALKED_SMALL, GATHERED = 0.2, 0.5, 0.3
"""The densities up to which entries are read one by one, about as fast as all elements (a Cortex-M4 and a
Cortex-M0 are even at 16 and 17 % where no activation is zero) and in fewer bytes; and up to which sixteen are
gathered.
"""
MOST_SUMS = 64 << 10
"""Bytes of the sums of all points, which entries in Huffman codes need at once."""
FLOATS = "it multiplies floats, for which the weights are dequantised"


@dataclass(frozen=True, slots=True)
class _How:
    """What decides. `plain` are the constants without their encodings, which layers share as before."""

    target: Target
    huffman: bool
    is_small: bool
    unread: frozenset[str]
    plain: dict[Value, Value] = field(default_factory=dict)

    def without(self, v: Value) -> Value:
        """The constant as its elements."""
        return self.plain.setdefault(v, replace(v, encoding=None))


def encoded_integers(
    graph: Graph, target: Target, huffman: bool, is_small: bool, unread: frozenset[str] = frozenset()
) -> Graph:
    """Rewrite in place, subgraphs too, and return the graph. `is_small`: fewer bytes are worth some time;
    `unread`: nodes whose entries no generator has read.

    Raises InputError for `huffman` where nothing is encoded any more.
    """
    _rewrite(graph, _How(target, huffman, is_small, unread), graph.expanded)
    if huffman and graph.expanded and not _has_encodings(graph):
        label, why = next(iter(graph.expanded.items()))
        raise InputError(f"--huffman does nothing: {label}: {why}", remedy="leave it out")
    return graph


def _has_encodings(graph: Graph) -> bool:
    """Whether a node that is needed reads encoded weights."""
    return any(
        any(v is not None and v.encoding is not None for v in node.inputs)
        or any(map(_has_encodings, node.subgraphs.values()))
        for node in contributing(graph)
    )


def _rewrite(graph: Graph, how: _How, expanded: dict[str, str]) -> None:
    for node in graph.nodes:
        for sub in node.subgraphs.values():
            _rewrite(sub, how, expanded)
    refused = [(node, i, v, why) for node, i, v in _encoded(graph) if (why := _why(node, i, how))]
    alive = contributing(graph) if refused else []
    for node, i, v, why in refused:
        node.inputs[i] = how.without(v)
        expanded.update((label, why) for label in _layers(node, alive))


def _encoded(graph: Graph) -> Iterator[tuple[Node, int, Value]]:
    """Which nodes read encoded integers, as which input."""
    for node in graph.nodes:
        for i, v in enumerate(node.inputs):
            if v is not None and v.encoding is not None and v.encoding.values.dtype.kind in "iu":
                yield node, i, v


def products_of_entries(graph: Graph) -> Iterator[Node]:
    """The products that were left encoded, in subgraphs too; those of `byte_activations` are others."""
    for node in graph.nodes:
        for sub in node.subgraphs.values():
            yield from products_of_entries(sub)
        if node.op in PRODUCTS and node.op != "MatMulInteger" and any(n is node for n, *_ in _encoded(graph)):
            yield node


def _layers(node: Node, alive: list[Node]) -> list[str]:
    """What to call who multiplies: behind a DequantizeLinear those that read it, of nodes that are needed."""
    if node.op != "DequantizeLinear":
        return [node.label] * (node in alive)
    return [n.label for n in alive if any(v in node.outputs for v in reads(n))]


def _why(node: Node, i: int, how: _How) -> str:
    """Why a node cannot read the codes of its input i; "" where it does."""
    if node.op == "DequantizeLinear":
        return FLOATS
    if node.label in how.unread:
        return "its operand does not lie in memory as entries are read, or Huffman codes save nothing"
    if PRODUCTS.get(node.op) != i:
        return "of integers, only products by a constant matrix are computed on its codes"
    x, w = node.inputs[0], node.inputs[i]
    zero = node.inputs[i + 2] if len(node.inputs) > i + 2 else None
    assert x is not None and w is not None and w.constant is not None and x.shape is not None
    if "Conv" in node.op and node.attributes.get("group", 1) != 1:
        return "convolutions of several groups are computed on all elements"
    if w.type is not INT8 or (zero is not None and not _is_zero(zero)):
        return "codes are of weights of int8 without zero points"
    if w.constant.ndim != 2 and "Conv" not in node.op:
        return "codes are of matrices of two axes"
    if x.type not in (INT8, UINT8) or not w.constant.size or not all(map(upper, x.shape)):
        return "there are no bytes to multiply"
    return _slower(_sizes(node, x, w), w, "Conv" in node.op, how)


def _is_zero(zero: Value) -> bool:
    return zero.constant is not None and not zero.constant.any()


def _sizes(node: Node, x: Value, w: Value) -> Sizes:
    """Of the product."""
    assert w.constant is not None and w.encoding is not None and x.shape is not None
    is_conv, (y, *_) = "Conv" in node.op, node.outputs
    assert y is not None and y.shape is not None
    outputs = w.constant.shape[0 if is_conv or node.attributes.get("transB") else 1]
    terms, points = w.constant.size // outputs, prod(map(upper, y.shape)) // outputs
    values = len(np.unique(np.append(w.encoding.values, 0)))
    return Sizes(points, terms, outputs, int(np.count_nonzero(w.constant)), values)


def _slower(s: Sizes, w: Value, is_conv: bool, how: _How) -> str:
    """Why entries of these weights are not read."""
    if not s.kept:
        return "all its weights are 0"
    if how.huffman and 4 * s.points * _power(s.outputs) <= MOST_SUMS:
        return ""
    target, density = how.target, s.kept / (s.terms * s.outputs)
    if target.spelling("pick32", "int8") is not None:
        assert w.constant is not None
        return entries_slower(s, int(np.abs(w.constant.astype(int)).max()), target)
    if target.lanes(4) > 4:
        return f"{target.name} has no look-ups in registers"
    gathers = target.spelling("dot16", "int8", 16) is not None
    if is_conv and gathers:
        return f"{target.name} multiplies all elements of windows faster"
    most = GATHERED if gathers else WALKED_SMALL if how.is_small else WALKED
    in_pairs = "dot2_tile" in target.routines or target.spelling("dot2", "int16") is not None
    if is_conv and in_pairs and not how.is_small:
        most = 0.0  # many points share what is multiplied
    if density <= most:
        return ""
    small = "; --optimize size reads its entries" if not gathers and density <= WALKED_SMALL else ""
    if not most:
        return f"{target.name} multiplies all elements of windows faster{small}"
    return f"it keeps {density:.0%} of its weights, and entries are read up to {most:.0%}{small}"


def _power(rows: int) -> int:
    """The power of two that is no less: as many sums are held of a point."""
    return 1 << max(rows - 1, 1).bit_length()
