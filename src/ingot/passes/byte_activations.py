"""Products with encoded weights in bytes: activations quantised as the bundle runs, weights when it is made.

    y = Gemm(x, W, b)        ->        q, s, z = DynamicQuantizeLinear(x)
                                       y = float(MatMulInteger(q, W', z)) * (s * t) + b

W is t * W' nearly, W' bytes of as many values as W has. Needs an inferred graph and `--activations int8`;
serves MatMul and Gemm by encoded matrices. Guarantees that on random activations, some of them zero, the
layer stays within `TOLERANCE` of what it was; where it would not, it stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import numpy as np

from ingot.formula.expr import Array
from ingot.formula.types import FLOAT32, INT32
from ingot.graph.encoding import Codebook, codes_of
from ingot.graph.ir import Graph, Node, Value, constant_value
from ingot.graph.onnx_types import dtype_to_onnx
from ingot.ops.infer import infer_node
from ingot.targets.record import Target

VERSION = 21
TOLERANCE = 0.008  # max|d| / max|y| of a layer: 1 % is promised, and other activations will come
SAMPLES = 4
Operands = list[Value | None]
WHOLE, HALF = 127, 64  # the largest weight; half of it where the sum of two products has 16 bits


def byte_activations(graph: Graph, target: Target) -> Graph:
    """Rewrite in place, subgraphs too, and return the graph."""
    in_lanes = target.spelling("pick16", "int8") is not None
    exact = target.spelling("dot4s", "uint8") is None or target.spelling("dot4", "uint8") is not None
    nodes: list[Node] = []
    for node in graph.nodes:
        for sub in node.subgraphs.values():
            byte_activations(sub, target)
        nodes += _rewritten(node, WHOLE if exact else HALF, in_lanes) or [node]
    graph.nodes = nodes
    return graph


def _rewritten(node: Node, most: int, in_lanes: bool) -> list[Node] | None:
    """What computes a product in bytes; None for any other node, and where it would lose too much."""
    if node.domain or node.op not in ("Gemm", "MatMul") or node.attributes.get("transA"):
        return None
    x, w, *rest = node.inputs
    if x is None or w is None or w.encoding is None or w.constant is None or w.constant.ndim != 2:
        return None
    if not w.constant.size:
        return None
    if x.type is not FLOAT32 or w.type is not FLOAT32 or x.constant is not None or not x.shape:
        return None
    weights = w.constant.T if node.attributes.get("transB") else w.constant
    quantised = quantise(weights, w.encoding.values, most)
    if quantised is None or not error(weights, *quantised) <= TOLERANCE:  # nor where it is no number
        return None
    made = _Nodes(node, in_lanes)
    made.product(x, *quantised, rest[0] if rest else None)
    return made.nodes


def quantise(weights: Array, values: Array, most: int) -> tuple[Codebook, float] | None:
    """Weights of few values as bytes and what these are to be multiplied by; None if there is no such.

    The scale is the one that loses least: the largest value need not be `most` itself.
    """
    codes = codes_of(weights, values)
    largest = float(np.abs(values).max(initial=0))
    if codes is None or not 0 < largest < np.inf:
        return None
    often = np.bincount(codes.reshape(-1), minlength=len(values)) * (values != 0)
    terms = float(often.sum() / max(weights.shape[1], 1))
    scales = largest / np.linspace(most / 2, most, 4 * most)
    tables = _rounded(values.astype(np.float64) / scales[:, None], scales, often, terms, most)
    lost = _lost(tables - values / scales[:, None], scales, often, terms)
    best = int(lost.argmin())
    table = tables[best].astype(np.int8)
    if 255 * np.abs(table[codes].astype(np.int64)).sum(0).max(initial=0) >= 1 << 31:
        return None
    return Codebook(codes, table), float(np.float32(scales[best]))


def _lost(errors: Array, scales: Array, often: Array, terms: float) -> Array:
    """What errors of the values, in units of the scales, are expected to do to a sum, squared.

    Activations of a mean are behind it: a rectified normal distribution's, 0.4, its square 0.5. Errors that
    do not cancel over the values grow with the number of terms, the others with its root.
    """
    total = max(int(often.sum()), 1)
    mean = (errors * often).sum(-1) / total
    return np.asarray(scales**2 * (0.5 * (errors**2 * often).sum(-1) / total + 0.16 * terms * mean**2))


def _rounded(wanted: Array, scales: Array, often: Array, terms: float, most: int) -> Array:
    """Each row of `wanted` as integers up to `most`; some rounded the other way, so that errors cancel."""
    tables = np.clip(np.rint(wanted), -most, most)
    for _ in range(len(often)):
        other = np.clip(tables + np.where(wanted > tables, 1, -1), -most, most)
        other = np.where((often > 0) & (wanted != tables), other, tables)
        flipped = np.repeat(tables[:, None], len(often), 1)
        each = np.arange(len(often))
        flipped[:, each, each] = other
        lost = _lost(flipped - wanted[:, None], scales[:, None], often, terms)
        best, now = lost.argmin(1), _lost(tables - wanted, scales, often, terms)
        rows = np.flatnonzero(lost.min(1) < now)
        if not rows.size:
            break
        tables[rows] = flipped[rows, best[rows]]
    return tables


def error(weights: Array, quantised: Codebook, scale: float) -> float:
    """max|d| / max|y| on random activations, half of them zero."""
    rng = np.random.default_rng(0)
    x = np.maximum(rng.standard_normal((SAMPLES, len(weights))), 0).astype(np.float32)
    steps = x.max(1, keepdims=True) / np.float32(255)
    q = np.rint(x / np.where(steps > 0, steps, 1))
    with np.errstate(over="ignore", invalid="ignore"):  # weights at the end of float32's range
        found = (q @ quantised.decode().astype(np.float32)) * (steps * np.float32(scale))
        exact = x @ weights
        largest = np.abs(exact).max(1, initial=0)
        return float((np.abs(found - exact).max(1, initial=0) / np.where(largest > 0, largest, 1)).max())


@dataclass(slots=True)
class _Nodes:
    """The nodes that take the place of one; `in_lanes`: for a target that picks bytes out of registers."""

    node: Node
    in_lanes: bool
    nodes: list[Node] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    def product(self, x: Value, weights: Codebook, scale: float, bias: Value | None) -> None:
        attributes, name = self.node.attributes, self.name
        # Both are floats by Gemm's schema.
        alpha, beta = (float(attributes.get(k, 1.0)) for k in ("alpha", "beta"))  # type: ignore[arg-type]
        w = constant_value(f"{name}_bytes", weights.decode())
        w.encoding = weights
        q, step, zero = self.add("DynamicQuantizeLinear", [x], outputs=3)
        assert q is not None and zero is not None
        exact = self.corrected(q, zero, w) if self.in_lanes else self.add("MatMulInteger", [q, w, zero])
        (total,) = self.add("Cast", exact, to=dtype_to_onnx(FLOAT32))
        factor = constant_value(f"{name}_scale", np.array(scale * alpha, np.float32))
        (unit,) = self.add("Mul", [step, factor])
        made = self.add("Mul", [total, unit])
        if bias is not None:
            if beta != 1:
                bias = self.add("Mul", [bias, constant_value(f"{name}_beta", np.array(beta, np.float32))])[0]
            made = self.add("Add", [*made, bias])
        last, (out,) = self.nodes[-1], self.node.outputs
        assert out is not None
        last.outputs = [out]

    def corrected(self, q: Value, zero: Value, w: Value) -> Operands:
        """The zero point taken out of the sums, where instructions multiply bytes as they are."""
        assert w.constant is not None
        sums = constant_value(f"{self.name}_sums", w.constant.astype(np.int32).sum(0, dtype=np.int32))
        (total,) = self.add("MatMulInteger", [q, w])
        (shift,) = self.add("Mul", [*self.add("Cast", [zero], to=dtype_to_onnx(INT32)), sums])
        return self.add("Sub", [total, shift])

    @property
    def name(self) -> str:
        first = self.node.outputs[0]
        return self.node.name or (first.name if first is not None else self.node.op)

    def add(
        self, op: str, inputs: list[Value | None], outputs: int = 1, **attributes: int
    ) -> list[Value | None]:
        """A node of the newest opset that is needed, inferred; what it makes."""
        made: list[Value | None] = [Value(f"{self.name}_{op}{next(self.numbers)}") for _ in range(outputs)]
        node = Node(op, inputs, made, {**attributes}, self.name, "", VERSION, self.node.text)
        infer_node(node)
        self.nodes.append(node)
        return made
