"""Random operators learn which time they are called: in loops, and with --seed-input at every run.

    y = RandomNormal()                                  y = RandomNormal(seed)
    Loop(n) { z = RandomUniformLike(x) }       ->       Loop(n) { z = RandomUniformLike(x, seed * k + turn) }

Needs a graph as it was read: what is added is inferred with the rest. Guarantees that a node draws other
numbers in every turn of the loops around it, and with the option at every run whose seed is another.
"""

from __future__ import annotations

import numpy as np

from ingot.errors import InputError
from ingot.formula.types import INT64
from ingot.graph.ir import Graph, Node, Port, Value, constant_value
from ingot.ops.random import INPUTS, drawing, draws

MIX = 6364136223846793005  # of Knuth's MMIX: turns of a loop within a loop do not meet those around it
VERSION = 14


def number_calls(graph: Graph, seed_input: bool) -> Graph:
    """Number in place and return the graph; `seed_input`: the number of the run is an input named seed.

    Raises InputError for a `seed_input` where nothing draws.
    """
    seed = None
    if seed_input:
        if not drawing(graph):
            raise InputError("--seed-input: no operator of the model draws numbers", remedy="leave it out")
        seed = Value(_free(graph, "seed"), INT64, ())
        graph.inputs.append(seed)
        if any(graph.ports):
            port = Port(seed.name, "tensor", (("data", seed.name),))
            graph.ports = ((*graph.ports[0], port), graph.ports[1])
    _number(graph, seed, 0)
    return graph


def _free(graph: Graph, name: str) -> str:
    taken = {v.name for v in (*graph.values(), *graph.outputs)}
    while name in taken:
        name += "_"
    return name


def _number(graph: Graph, call: Value | None, depth: int) -> None:
    for node in list(graph.nodes):
        if call is not None and draws(node):
            node.inputs += [None] * (INPUTS[node.op] - len(node.inputs))
            node.inputs = [*node.inputs[: INPUTS[node.op]], call]
        for sub in node.subgraphs.values():
            if drawing(sub):
                is_loop = node.op == "Loop" and node.domain == ""
                _number(sub, _turn(sub, call, depth) if is_loop else call, depth + 1)


def _turn(body: Graph, call: Value | None, depth: int) -> Value:
    """The number of a turn: that of the loop around it, mixed, and the turn."""
    turn = body.inputs[0]
    if call is None:
        return turn
    mixed, number = Value(f"{turn.name}_mixed{depth}"), Value(f"{turn.name}_call{depth}")
    factor = constant_value("mix", np.array(MIX, np.int64))
    multiply = Node("Mul", [call, factor], [mixed], version=VERSION)
    body.nodes[:0] = [multiply, Node("Add", [mixed, turn], [number], version=VERSION)]
    return number
