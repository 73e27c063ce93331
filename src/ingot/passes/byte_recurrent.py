"""RNN, GRU and LSTM by encoded matrices, in bytes: x and the states quantised as the bundle runs.

    y = LSTM(x, W, R, ...)    ->    y = ingot.LSTM(x, W', R', ..., w_scale, r_scale, x_parts, h_parts)

W' and R' are bytes of as many values as W and R have; one of them may stay floats. Errors of a product pass
through gates and come back with the state, so what a layer loses is found by running both forms, by their
definitions, over a few steps of normally distributed inputs: the fastest form that keeps within the promised
1 % of max|y| is taken (`byte_cost`), and none where floats are estimated to be faster. Called by
`byte_activations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from math import inf

import numpy as np

from ingot.formula.evaluate import evaluate
from ingot.formula.expr import Array, Tensor
from ingot.formula.index import upper
from ingot.formula.types import FLOAT32
from ingot.graph.encoding import Codebook
from ingot.graph.ir import Attribute, Node, Value, constant_value
from ingot.ops.registry import formulate
from ingot.options import PROMISED
from ingot.passes.byte_cost import Sizes
from ingot.passes.byte_weights import quantise

RECURRENT = ("RNN", "GRU", "LSTM")
STEPS = 32  # of a trial
MARGIN = 0.8  # of the promise: other inputs may lose more
X, W, R, BIAS, PEEPHOLES = 0, 1, 2, 3, 7  # inputs
PARTS = (0, 1, 2)  # bytes that an element of an operand becomes; 0: it stays a float

Ways = tuple[tuple[int, int], ...]  # the largest weight, the largest activation
Cost = Callable[[Sizes, int], float]  # cycles of a product by an operand in so many parts


def recurrent(node: Node, ways: Ways, cost: Cost, is_rectified: bool) -> Node | str:
    """The fastest form that keeps the promise, or why the node stays.

    `is_rectified`: x is never negative.
    """
    if not _is_encoded(node):
        return "both of its matrices must be constants of float32, and x a float32 that is none"
    trial = Trial(node, is_rectified)
    forms = sorted(
        (f for most, levels in ways for f in _forms(node, most, levels, cost)), key=lambda f: f.cycles
    )
    least = inf
    for form in forms:
        if form.node is None:
            break
        lost = trial.lost(form.node)
        if lost <= MARGIN * PROMISED:
            return form.node
        least = min(least, lost)
    if least < inf:
        may = f"{MARGIN * PROMISED:.1%}"
        return f"its faster forms in bytes lose {least:.2%} of max|y| in a trial, {may} may be lost"
    return "bytes are estimated to be slower"


def _is_encoded(node: Node) -> bool:
    x, *matrices = node.inputs[: R + 1]
    constants = [v for v in matrices if v is not None and v.constant is not None and v.type is FLOAT32]
    if x is None or x.type is not FLOAT32 or x.constant is not None or x.shape is None:
        return False
    return len(constants) == 2 and any(v.encoding is not None for v in constants)


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """A way to compute a node, in so many cycles; None: as it is."""

    node: Node | None
    cycles: float


def _forms(node: Node, most: int, levels: int, cost: Cost) -> Iterator[_Form]:
    """Every way to hold the two matrices that the target has."""
    w, r = (_bytes(v, most, levels) for v in node.inputs[W : R + 1])
    x = node.inputs[X]
    assert x is not None and x.shape is not None
    first = bool(node.attributes.get("layout"))
    steps, batch = (max(upper(x.shape[first]), 1), max(upper(x.shape[not first]), 1))
    for by_w, by_r in product(PARTS if w else (0,), PARTS if r else (0,)):
        cycles = _cycles(node.inputs[W], steps * batch, by_w, cost)
        cycles += steps * _cycles(node.inputs[R], batch, by_r, cost)
        yield _Form(_node(node, w if by_w else None, r if by_r else None, levels, by_w, by_r), cycles)


def _cycles(v: Value | None, points: int, parts: int, cost: Cost) -> float:
    """Of multiplying by the matrices of all directions."""
    assert v is not None and v.constant is not None
    directions, rows, terms = (int(n) for n in v.constant.shape)
    kept = int(np.count_nonzero(v.constant)) // max(directions, 1)
    values = 0 if v.encoding is None else len(np.unique(np.append(v.encoding.values, 0)))
    return directions * cost(Sizes(points, terms, rows, kept, values), parts)


def _bytes(v: Value | None, most: int, levels: int) -> tuple[Value, float] | None:
    """An encoded constant [direction, row, term] as bytes, and their scale."""
    assert v is not None and v.constant is not None
    if v.encoding is None or not v.constant.size:
        return None
    terms = v.constant.shape[-1]
    found = quantise(v.constant.reshape(-1, terms).T, v.encoding.values, most, levels)
    if found is None:
        return None
    codes = Codebook(np.ascontiguousarray(found.bytes.codes.T).reshape(v.constant.shape), found.bytes.values)
    made = constant_value(f"{v.name}_bytes", codes.decode())
    made.encoding = codes
    return made, found.scale


def _node(
    node: Node, w: tuple[Value, float] | None, r: tuple[Value, float] | None, levels: int, *parts: int
) -> Node | None:
    """The node by these bytes, floats where there are none."""
    if w is None and r is None:
        return None
    inputs = list(node.inputs)
    attributes: dict[str, Attribute] = {**node.attributes, "levels": levels}
    for n, name, made, count in ((W, "w", w, parts[0]), (R, "r", r, parts[1])):
        if made is not None:
            inputs[n], attributes[f"{name}_scale"] = made
            attributes["x_parts" if n == W else "h_parts"] = count
    return Node(node.op, inputs, list(node.outputs), attributes, node.name, "ingot", 1, node.text)


@dataclass(slots=True)
class Trial:
    """Runs a node for a few steps from zero states; what is no constant but x is left out."""

    node: Node
    is_rectified: bool
    x: Array = field(init=False)
    wanted: Array | None = None

    def __post_init__(self) -> None:
        x = self.node.inputs[X]
        assert x is not None and x.shape is not None
        first = bool(self.node.attributes.get("layout"))
        steps, width = min(upper(x.shape[first]), STEPS), upper(x.shape[2])
        drawn = np.random.default_rng(0).standard_normal((1, steps, width) if first else (steps, 1, width))
        self.x = (np.maximum(drawn, 0) if self.is_rectified else drawn).astype(np.float32)

    def lost(self, made: Node) -> float:
        """max|d| / max|y| of a form of the node."""
        if self.wanted is None:
            self.wanted = self.run(self.node)
        off, size = (float(np.abs(a).max(initial=0)) for a in (self.run(made) - self.wanted, self.wanted))
        return off / size if off else 0.0

    def run(self, node: Node) -> Array:
        """Every h."""
        kept = (W, R, BIAS, PEEPHOLES)
        constants = [None if v is None or v.constant is None else v.tensor() for v in node.inputs]
        others = [t if n in kept else None for n, t in enumerate(constants)]
        x = Tensor("x", FLOAT32, self.x.shape)
        alone = Node(node.op, [], [Value("y")], node.attributes, node.name, node.domain, node.version)
        formula = formulate(alone, [x, *others[1:]])
        given = [self.x if t is x else t.value for t in formula.inputs]
        (y, *_) = evaluate(formula, [a for a in given if a is not None])
        return np.asarray(y)
