"""Types, shapes and the values of constants, node by node in order.

Goes in: a graph whose inputs have types and static (or bounded) shapes. Comes out: the same graph with every
value typed and shaped, and with `constant` set wherever the elements follow from constants alone. Shapes come
from the definitions' own formulas; constants are folded by evaluating them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ingot.errors import ModelError, ShapeError, UnsupportedError
from ingot.formula.budget import STEP, Budget, work_of
from ingot.formula.compute import Formula, reads, writes
from ingot.formula.evaluate import evaluate
from ingot.formula.expr import Array, Const, Param, Tensor, walk
from ingot.formula.index import as_expr, upper
from ingot.formula.symbolic import known_elements
from ingot.graph.encoding import Codebook, codes_of
from ingot.graph.ir import Graph, Node, Value
from ingot.graph.ir import reads as reads_of
from ingot.graph.verify import COUNT_LIMIT, RANK_LIMIT
from ingot.ops.by_numpy import by_numpy
from ingot.ops.control import infer_if
from ingot.ops.declared import spread_declared
from ingot.ops.loop import infer_loop
from ingot.ops.refused import refuse
from ingot.ops.registry import find, formulate

CONTROL = {"If": infer_if, "Loop": infer_loop}
OPERANDS_LIMIT = 1 << 14
"""The most inputs of one node: compiling takes longer than linear in them."""


@dataclass(slots=True)
class _Left:
    """How many nodes may still be inferred anew, as bodies of loops are while their shapes grow; and what may
    still be folded.
    """

    folding: Budget
    nodes: int = 10_000


def infer(graph: Graph, *, left: _Left | None = None, again: bool = False) -> Graph:
    """Infer in place and return the graph. Raises UnsupportedError listing every unknown operator at once.

    `again`: copies of these nodes were inferred before, for the same loop.
    """
    left = left or _Left(Budget.of((a.size, a.nbytes) for a in _read_constants(graph.nodes)))
    _require_known(graph)
    _drop_unread(graph)
    spread_declared(graph)
    for node in graph.nodes:
        left.nodes -= again
        if left.nodes < 0:
            raise UnsupportedError(f"{node.label}: loops within loops, all of growing shapes, are too many")
        _infer_any(node, left, again)
    return graph


def infer_written(node: Node, folding: Budget) -> None:
    """Infer a node that an importer has just written, whose inputs are inferred; raises what `infer` does.

    `folding` is what is left of the model's budget, for all nodes that are written.
    """
    if find(node) is None:
        _require_known(Graph("", [], [], [node]))
    _infer_any(node, _Left(folding), False)


def _infer_any(node: Node, left: _Left, again: bool) -> None:
    if node.op in CONTROL and node.domain == "":
        CONTROL[node.op](node, partial(infer, left=left, again=again))
    else:
        infer_node(node, left.folding)


def _read_constants(nodes: Iterable[Node]) -> Iterator[Array]:
    """What the model brings along, each once."""
    return (v.constant for v in {v for n in nodes for v in reads_of(n)} if v.constant is not None)


def unknown(graph: Graph) -> list[Node]:
    """Nodes without a definition, subgraphs included."""
    out = [n for n in graph.nodes if find(n) is None and not (n.op in CONTROL and n.domain == "")]
    for node in graph.nodes:
        for sub in node.subgraphs.values():
            out += unknown(sub)
    return out


def _is_sure(node: Node) -> bool:
    """Whether a node has, outside of the branches of Ifs, an operator without a definition."""
    if node.domain == "" and node.op == "If":
        return False
    inner = any(_is_sure(n) for g in node.subgraphs.values() for n in g.nodes)
    return inner or (find(node) is None and not (node.op in CONTROL and node.domain == ""))


def _require_known(graph: Graph) -> None:
    nodes = unknown(graph)
    if not any(_is_sure(n) for n in graph.nodes):
        return  # a branch that is not taken may hold what it likes; one that is taken is asked again
    refuse(nodes)
    if nodes:
        names = sorted({f"{n.domain + '.' if n.domain else ''}{n.op} (opset {n.version})" for n in nodes})
        where = ", ".join(n.label for n in nodes[:8]) + (", ..." if len(nodes) > 8 else "")
        raise UnsupportedError(
            f"unsupported operators: {', '.join(names)}; at {where}; `ingot ops` lists what is supported"
        )


def _drop_unread(graph: Graph) -> None:
    """Old exporters give a BatchNormalization for inference the outputs of training too, unread."""
    old = [n for n in graph.nodes if n.op == "BatchNormalization" and n.domain == "" and n.version < 14]
    read = {v for n in graph.nodes for v in reads_of(n)} | set(graph.outputs) if old else set()
    for node in old:
        node.outputs[1:] = [v if v in read else None for v in node.outputs[1:]]


def infer_node(node: Node, budget: Budget) -> None:
    """Type, shape and constants of what one node makes, its inputs inferred; folded if that is affordable."""
    if len(node.inputs) > OPERANDS_LIMIT:
        raise UnsupportedError(
            f"{node.label}: {len(node.inputs):,} inputs; join them in steps of at most {OPERANDS_LIMIT:,}"
        )
    inputs = [None if v is None else v.tensor() for v in node.inputs]
    formula = formulate(node, inputs)
    if len([v for v in node.outputs if v is not None]) > len(formula.outputs):
        raise ModelError(
            f"{node.label}: {len(node.outputs)} outputs, the operator has {len(formula.outputs)}"
        )
    pairs = [(v, t) for v, t in zip(node.outputs, formula.outputs, strict=False) if v is not None]
    for value, tensor in pairs:
        _declare(node, value, tensor)
    for value, tensor in pairs:
        if tensor.value is not None:
            value.constant = tensor.value
    pairs = [(v, t) for v, t in pairs if t.value is None]
    folded = _folded(node, formula, [t for _, t in pairs], budget) if pairs and is_constant(formula) else None
    if folded is None:
        _see_through(formula, pairs)
        return
    for (value, _), array in zip(pairs, folded, strict=True):
        value.constant, value.shape = array, tuple(array.shape)
        value.encoding = _moved(node, array)


def _folded(node: Node, formula: Formula, wanted: list[Tensor], budget: Budget) -> list[Array] | None:
    """The elements of some outputs of a formula that reads constants; None where they are left to the run."""
    inputs = [None if v is None else v.constant for v in node.inputs]
    if not budget.has_room(wanted):
        return None
    if (found := by_numpy(node, inputs)) is not None:
        budget.spend(STEP, wanted)
        return [found[formula.outputs.index(t)] for t in wanted]
    if not budget.spend(work_of(formula.stages), wanted):
        return None
    part = replace(formula, outputs=tuple(wanted))  # what nobody wants may never be written
    # an input without a value is one that a constant formula does not read
    return evaluate(part, [t.value for t in formula.inputs])  # type: ignore[misc]


def _moved(node: Node, array: Array) -> Codebook | None:
    """The codebook of a constant that only moves what an encoded one holds: transposes, cuts, reshapes it, or
    casts whole numbers to int8.
    """
    encoded = [v.encoding for v in node.inputs if v is not None and v.encoding is not None]
    if len(encoded) != 1:
        return None
    values = encoded[0].values
    if node.op == "Cast" and not node.domain and array.dtype == np.int8:
        with np.errstate(invalid="ignore"):  # what is no int8 is none of the constant's elements either
            values = values.astype(np.int8)
    codes = codes_of(array, values)
    return None if codes is None else Codebook(codes, values)


def _see_through(formula: Formula, pairs: list[tuple[Value, Tensor]]) -> None:
    """Elements that follow from run-time extents; constants where these cancel out."""
    for value, tensor in pairs:
        value.known = tensor.known
    for t, elements in known_elements(formula).items():
        if not elements and not all(isinstance(n, int) for n in t.shape):
            continue  # nothing is known of nothing
        for value in (v for v, tensor in pairs if tensor is t):
            numbers = [e.value for e in elements if isinstance(e, Const)]
            if len(numbers) == len(elements):
                value.constant = np.array(numbers, t.type.numpy).reshape([int(upper(n)) for n in t.shape])
            else:
                value.known = elements


def _declare(node: Node, value: Value, tensor: Tensor) -> None:
    """Set the inferred type and shape. Raises ShapeError where they are absurd."""
    if tensor.rank > RANK_LIMIT:
        raise ShapeError(
            f"{node.label}: output {value.name!r} has {tensor.rank} axes, more than {RANK_LIMIT}"
        )
    if tensor.count >= COUNT_LIMIT or not all(0 <= upper(n) < COUNT_LIMIT for n in tensor.shape):
        raise ShapeError(
            f"{node.label}: output {value.name!r} of shape {list(tensor.shape)} is too large or negative"
        )
    value.type, value.shape = tensor.type, tensor.shape


def is_constant(formula: Formula) -> bool:
    """Whether the outputs follow from constants alone, run-time extents excluded."""
    made = {t for s in formula.stages for t in writes(s)}
    if not all(t.value is not None or t in made for s in formula.stages for t in reads(s)):
        return False  # asked first: stages keep what they read, and most read something that is not known
    extents = [n for c in formula.computes for n in (*c.out.shape, *(a.extent or 0 for a in c.axes))]
    used = [*map(as_expr, extents), *(e for c in formula.computes for e in c.expressions)]
    return not any(isinstance(n, Param) and n.source not in made for e in used for n in walk(e))
