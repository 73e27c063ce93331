"""The matrix-vector products of a model that the accelerator can compute.

In: a graph after inference. Out: `Product`s: codes, a codebook whose first value is 0, a bias, and where the
activations come from; and what is left to the host, with the reason. Gemm and MatMul with constant weights
give one product, an RNN, GRU or LSTM two per gate and direction. Called by `ingot eie run`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ingot.formula.expr import Array
from ingot.graph.encoding import Codebook
from ingot.graph.ir import Graph, Node, Value, uses

CODES = 16
GATES = {"RNN": ("i",), "GRU": ("z", "r", "h"), "LSTM": ("i", "o", "f", "c")}
OTHERS = frozenset(
    {"Einsum", "MatMulInteger", "QLinearMatMul", "QGemm", "ConvInteger", "QLinearConv", "DeformConv"}
)
"""What else multiplies by weights."""
MOVES = frozenset({"Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze"})
"""What leaves the activations of a vector as they are, in their order."""


@dataclass(frozen=True, slots=True)
class State:
    """Which states of a recurrent node a product reads: those of the direction, one step earlier."""

    node: Node
    direction: int
    is_reverse: bool


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """One matrix-vector product: codes uint8 [rows, cols], codebook float32 [16], bias float32 [rows].

    `source` is the value that holds the activations, vectors along its last axis (`is_turned`: along its
    first). `next` is the number of the product that reads the results, after a ReLU if `has_relu`.
    """

    name: str
    codes: Array
    codebook: Array
    bias: Array | None
    source: Value
    result: Value | None
    is_turned: bool = False
    state: State | None = None
    has_relu: bool = False
    next: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.codes.shape[0], self.codes.shape[1]


@dataclass(frozen=True, slots=True)
class Left:
    """A node with weights that the accelerator leaves; `by_compressing`: not once they are compressed."""

    name: str
    op: str
    reason: str
    by_compressing: bool = False


class _Refused(Exception):
    """Why a node is left to the host."""


class _Uncompressed(_Refused):
    """Its weights have too many values."""


def products(graph: Graph) -> tuple[list[Product], list[Left]]:
    """The products of a graph in the order of its nodes, and the nodes with weights that stay outside."""
    found: list[Product] = []
    left: list[Left] = []
    readers = uses(graph)
    for node in graph.nodes:
        try:
            found += _of_node(node, readers)
        except _Refused as refused:
            helps = isinstance(refused, _Uncompressed)
            left.append(Left(node.name or _first(node), node.op, str(refused), helps))
        left += _inside(node)
    return _chained(found, readers), left


def _inside(node: Node) -> Iterator[Left]:
    """The nodes with weights in the branches or the body of a node."""
    when = "runs under a condition" if node.op == "If" else "runs as often as the data say"
    for body in node.subgraphs.values():
        readers = uses(body)
        for inner in body.nodes:
            try:
                found = bool(list(_of_node(inner, readers)))
            except _Refused:
                found = True
            if found:
                reason = f"it stands in {node.op} {node.name or _first(node)!r} and {when}"
                yield Left(inner.name or _first(inner), inner.op, reason)
            yield from _inside(inner)


def _of_node(node: Node, readers: dict[Value, list[Node]]) -> Iterator[Product]:
    if node.op in ("Gemm", "MatMul") and not node.domain:
        made = _dense(node, readers)
        if made is not None:
            yield made
    elif node.op in GATES and not node.domain:
        yield from list(_recurrent(node))
    elif node.op in ("Conv", "ConvTranspose"):
        raise _Refused("the accelerator computes matrix-vector products only")
    elif node.op in OTHERS and any(v and v.constant is not None for v in node.inputs):
        raise _Refused("of matrix products the accelerator computes Gemm and MatMul of floats")


def _dense(node: Node, readers: dict[Value, list[Node]]) -> Product | None:
    a, b = node.inputs[:2]
    assert a is not None and b is not None
    weight, source = (b, a) if b.constant is not None else (a, b)
    if weight.constant is None or source.constant is not None:
        return None
    if weight.constant.ndim != 2:
        raise _Refused(f"its weights have {weight.constant.ndim} axes")
    is_left = weight is a
    turned = [bool(node.attributes.get(name, 0)) for name in ("transA", "transB")]
    # Rows of the accelerator's matrix are results: y = x w^T, or y = w x.
    as_rows = not turned[0] if is_left else turned[1]
    codes, book = _coded(weight, as_rows)
    bias, result = None, node.outputs[0]
    if node.op == "Gemm":
        alpha, beta = (_number(node, name) for name in ("alpha", "beta"))
        book, bias = book * np.float32(alpha), _gemm_bias(node, beta, len(codes), is_left)
    elif result is not None and not is_left:
        bias, result = _added(result, readers, len(codes))
    is_turned = not turned[1] if is_left else turned[0]
    return Product(node.name or _first(node), codes, book, bias, source, result, is_turned)


def _number(node: Node, name: str) -> float:
    value = node.attributes.get(name, 1.0)
    assert isinstance(value, (int, float))
    return float(value)


def _gemm_bias(node: Node, beta: float, rows: int, is_left: bool) -> Array | None:
    c = node.inputs[2] if len(node.inputs) > 2 else None
    if c is None:
        return None
    if c.constant is None:
        raise _Refused("its bias is not constant")
    along = 0 if is_left else 1
    elements = c.constant.astype(np.float32)
    elements = elements.reshape((1,) * (2 - elements.ndim) + elements.shape)
    if elements.shape[1 - along] != 1:
        raise _Refused("its bias differs from vector to vector")
    return np.asarray(np.broadcast_to(elements.reshape(-1), (rows,)) * np.float32(beta))


def _added(result: Value, readers: dict[Value, list[Node]], rows: int) -> tuple[Array | None, Value]:
    """The bias that the only reader of a product adds, and what it makes."""
    after = readers.get(result, [])
    if len(after) == 1 and after[0].op == "Add" and after[0].outputs[0] is not None:
        for v in after[0].inputs:
            bias = None if v is None else v.constant
            if bias is not None and bias.shape[-1:] == (rows,) and bias.size == rows:
                return bias.astype(np.float32).reshape(-1), after[0].outputs[0]
    return None, result


def _coded(weight: Value, as_rows: bool) -> tuple[Array, Array]:
    """Codes uint8 [rows, cols] and codebook float32 [16] of a constant matrix."""
    constant = weight.constant
    assert constant is not None
    if not constant.size:
        raise _Refused("it has no weights")
    if constant.dtype != np.float32:
        raise _Refused(f"its weights are {weight.type}, the accelerator's simulator takes those of float32")
    codes, values = _codes_and_values(weight)
    if values is None:
        raise _Uncompressed(f"its weights are not compressed ({constant.size:,} of type {weight.type})")
    kept = np.unique(codes)
    kept = kept[values[kept] != 0]
    if len(kept) >= CODES:
        raise _Uncompressed(
            f"its weights share {len(kept)} values beside zero, the accelerator's codebook holds {CODES - 1}"
        )
    table, book = np.zeros(len(values), np.uint8), np.zeros(CODES, np.float32)
    table[kept] = np.arange(1, len(kept) + 1)
    book[1 : len(kept) + 1] = values[kept]
    made = table[codes]
    return np.ascontiguousarray(made if as_rows else made.T), book


def _codes_and_values(weight: Value) -> tuple[Array, Array | None]:
    constant, encoding = weight.constant, weight.encoding
    assert constant is not None
    if encoding is not None:
        made = encoding.dense()
        return made.codes, made.values
    # A model may store few different weights without saying so.
    if len(np.unique(constant.reshape(-1)[: 1 << 12])) > CODES:
        return constant, None
    values, codes = np.unique(constant, return_inverse=True)
    if len(values) > CODES:
        return constant, None
    return codes.reshape(constant.shape).astype(np.uint8), values


def _recurrent(node: Node) -> Iterator[Product]:
    x, w, r, b = (node.inputs[n] if n < len(node.inputs) else None for n in range(4))
    if x is None or w is None or r is None or w.constant is None or r.constant is None:
        raise _Refused("its weights are not constant")
    gates, hidden = GATES[node.op], r.constant.shape[2]
    given = np.zeros((len(r.constant), 2 * len(gates) * hidden), np.float32)
    if b is not None and b.constant is None:
        raise _Refused("its bias is not constant")
    bias = given if b is None or b.constant is None else b.constant
    matrices = [(kind, *_coded_stack(v)) for kind, v in (("w", w), ("r", r))]
    way = node.attributes.get("direction", "forward")
    for direction in range(len(r.constant)):
        state = State(node, direction, way == "reverse" or direction == 1)
        for kind, codes, book in matrices:
            for g, gate in enumerate(gates):
                rows = slice(g * hidden, (g + 1) * hidden)
                at = (g + len(gates) * (kind == "r")) * hidden
                yield Product(
                    f"{node.name or _first(node)}.{kind}{gate}" + (f".{direction}" if direction else ""),
                    np.ascontiguousarray(codes[direction, rows]),
                    book,
                    bias[direction, at : at + hidden],
                    x,
                    None,
                    state=state if kind == "r" else None,
                )


def _coded_stack(weight: Value) -> tuple[Array, Array]:
    """As `_coded`, of a constant [directions, rows, cols]."""
    assert weight.constant is not None
    shape = weight.constant.shape
    rows = weight.constant.reshape(-1, shape[2])
    flat = Value(weight.name, weight.type, rows.shape, rows)
    flat.encoding = weight.encoding
    if weight.encoding is not None:
        made = weight.encoding.dense()
        flat.encoding = Codebook(made.codes.reshape(-1, shape[2]), made.values)
    codes, book = _coded(flat, as_rows=True)
    return codes.reshape(shape), book


def _chained(found: list[Product], readers: dict[Value, list[Node]]) -> list[Product]:
    """The products, each with what reads it, where nothing stands between but a ReLU and moves."""
    by_source = {p.source: n for n, p in enumerate(found) if p.state is None and p.result is not None}
    out = []
    for p in found:
        value, has_relu = p.result, False
        while value is not None and value not in by_source:
            after = readers.get(value, [])
            if len(after) != 1 or after[0].op not in {*MOVES, "Relu"}:
                break
            has_relu |= after[0].op == "Relu"
            value = after[0].outputs[0]
        target = by_source.get(value) if value is not None else None
        alone = target is not None and len(readers.get(found[target].source, [])) == 1
        fits = target is not None and found[target].shape[1] == p.shape[0]
        plain = target is not None and not p.is_turned and not found[target].is_turned
        out.append(replace(p, has_relu=has_relu, next=target if alone and fits and plain else None))
    return out


def _first(node: Node) -> str:
    return next((v.name for v in node.outputs if v is not None), node.op)
