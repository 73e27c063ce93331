"""The graph: its text form, its verifier, and that its helpers keep it whole."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.driver import stages
from ingot.errors import ModelError
from ingot.formula.expr import Param
from ingot.formula.types import FLOAT32, INT64
from ingot.frontends.onnx import read_model
from ingot.graph.ir import Graph, Node, Value, captured, constant_value, replace_value, uses
from ingot.graph.text import graph_text
from ingot.graph.verify import verify
from ingot.ops.infer import infer
from ingot.options import Options
from ingot.passes.inline_if import inline_if
from ingot.passes.prune import prune
from ingot.passes.skip_identities import skip_identities
from tests.models import text


def value(name: str, *shape: int) -> Value:
    return Value(name, FLOAT32, shape)


def chain() -> Graph:
    """y = relu(x + 1), z = if c then y * x else y."""
    x, c, t, y, z = value("x", 2), value("c"), value("t", 2), value("y", 2), value("z", 2)
    product = value("p", 2)
    then = Graph("then", [], [product], [Node("Mul", [y, x], [product])])
    other = Graph("else", [], [y], [])
    one = constant_value("one", np.ones(2, np.float32))
    nodes = [
        Node("Add", [x, one], [t], name="sum"),
        Node("Relu", [t], [y]),
        Node("If", [c], [z], {"then_branch": then, "else_branch": other}),
    ]
    return Graph("main", [x, c], [z], nodes)


def test_text() -> None:
    assert graph_text(chain()).splitlines() == [
        "graph main(x: float32[2], c: float32[]) -> z",
        "  t: float32[2] = Add(x, one: float32[2] = [1.0, 1.0])",
        "  y: float32[2] = Relu(t)",
        "  z: float32[2] = If(c)",
        "    then_branch:",
        "      graph then() -> p",
        "        p: float32[2] = Mul(y, x)",
        "    else_branch:",
        "      graph else() -> y",
    ]


def test_text_of_what_is_unknown_missing_or_large() -> None:
    out, table = Value("y"), constant_value("w", np.zeros(9, np.int64))
    x = Value("x", INT64, (Param("N", 1, 4), 3))
    node = Node("Foo", [x, None, table], [None, out], {"b": (1, 2), "a": "s", "t": np.zeros((2, 2))})
    assert graph_text(Graph("g", [x], [out], [node])).splitlines() == [
        "graph g(x: int64[N, 3]) -> y",
        "  _, y: ?? = Foo(x, _, w: int64[9] constant) {a=s, b=[1, 2], t=tensor[2, 2]}",
    ]


def test_verify_accepts_and_returns_a_sound_graph() -> None:
    graph = chain()
    assert verify(graph) is graph


def test_subgraphs_count_as_reads_of_their_node() -> None:
    graph = chain()
    x, y, branch = graph.inputs[0], graph.nodes[1].outputs[0], graph.nodes[2]
    assert y is not None and uses(graph)[y] == [branch, branch] and uses(graph)[x] == [graph.nodes[0], branch]
    assert list(captured(branch.subgraphs["then_branch"])) == [y, x]


def test_replace_value_reaches_into_subgraphs() -> None:
    graph = chain()
    old, new = graph.nodes[1].outputs[0], graph.nodes[0].outputs[0]
    assert old is not None and new is not None
    replace_value(graph, old, new)
    del graph.nodes[1]
    verify(graph)


def broken(message: str) -> Graph:
    """A graph that breaks the rule which `message` speaks of."""
    graph = chain()
    add, relu, branch = graph.nodes
    x, t = graph.inputs[0], add.outputs[0]
    assert t is not None
    match message:
        case "Relu node 'y': the input 't' is read before anything makes it":
            graph.nodes[:2] = [relu, add]
        case "Add node 'sum': the input 'stray' is read before anything makes it":
            add.inputs[1] = value("stray", 2)
        case "Relu node 't': output 't' is made twice":
            relu.outputs = [t]
        case "Relu node 'x': output 'x' is made twice":
            relu.outputs = [x]
        case "Mul node 'p': the input 'z' is read before anything makes it":
            branch.subgraphs["then_branch"].nodes[0].inputs[0] = branch.outputs[0]
        case "graph 'main': the output 'p' is read before anything makes it":
            graph.outputs = [branch.subgraphs["then_branch"].outputs[0]]
        case "Mul node 't': output 't' is made twice":
            branch.subgraphs["then_branch"].nodes[0].outputs[0] = t
        case "Relu node: makes nothing":
            relu.outputs = [None]
        case "Add node 'sum': output 't': its shape is negative or too large":
            t.shape = (-1,)
        case "Relu node 'y': output 'y': its shape is negative or too large":
            next(v for v in relu.outputs if v).shape = (1 << 20, 1 << 20)
        case "Add node 'sum': the input 'one': its elements are float64[2], not as it says":
            add.inputs[1] = Value("one", FLOAT32, (2,), np.ones(2))
        case "Add node 'sum': the input 'one': its elements are float32[3], not as it says":
            add.inputs[1] = Value("one", FLOAT32, (2,), np.ones(3, np.float32))
        case "graph 'main': the input 'x' is a constant":
            x.constant = np.ones(2, np.float32)
        case "two graph inputs have the name 'x'":
            graph.inputs[1].name = "x"
        case "two graph outputs have the name 'z'":
            graph.outputs *= 2
    return graph


@pytest.mark.parametrize(
    "message",
    [
        "Relu node 'y': the input 't' is read before anything makes it",
        "Add node 'sum': the input 'stray' is read before anything makes it",
        "Relu node 't': output 't' is made twice",
        "Relu node 'x': output 'x' is made twice",
        "Mul node 'p': the input 'z' is read before anything makes it",
        "graph 'main': the output 'p' is read before anything makes it",
        "Mul node 't': output 't' is made twice",
        "Relu node: makes nothing",
        "Add node 'sum': output 't': its shape is negative or too large",
        "Relu node 'y': output 'y': its shape is negative or too large",
        "Add node 'sum': the input 'one': its elements are float64[2], not as it says",
        "Add node 'sum': the input 'one': its elements are float32[3], not as it says",
        "graph 'main': the input 'x' is a constant",
        "two graph inputs have the name 'x'",
        "two graph outputs have the name 'z'",
    ],
)
def test_verify_names_what_is_broken(message: str) -> None:
    with pytest.raises(ModelError) as caught:
        verify(broken(message))
    assert str(caught.value) == message


def test_verify_of_endless_nesting() -> None:
    graph = Graph("g", [value("c")], [])
    graph.nodes = [Node("If", [graph.inputs[0]], [value("y")], {"then_branch": graph})]
    with pytest.raises(ModelError):
        verify(graph)


def test_an_inlined_branch_keeps_the_names_of_outputs() -> None:
    """Also where the branch gives a value that has a name already: an input, a constant, another output."""
    sides = (
        "then_branch = a () => (float[1] {}) {{ {} }}, else_branch = b () => (float[1] e) {{ e = Exp(x) }}"
    )
    body = f"""{{ p = Neg(x) o = If <{sides.format("s", "s = Add(x, x)")}> (c)
        q = If <{sides.format("p", "")}> (c) r = If <{sides.format("x", "")}> (c)
        t = If <{sides.format("w", "")}> (c) }}"""
    ends = "(float[1] x) => (float[1] o, float[1] p, float[1] q, float[1] r, float[1] t)"
    proto = text(f"<bool c = {{1}}, float[1] w = {{3}}> {body}", ends)
    graph = inline_if(infer(read_model(proto)))
    assert [v.name for v in verify(graph).outputs] == ["o", "p", "q", "r", "t"]
    assert [n.op for n in graph.nodes] == ["Neg", "Add", "Identity", "Identity", "Identity"]


def test_readers_of_copies_read_the_original() -> None:
    """Of several in a row, in subgraphs, and of a Dropout that does nothing; outputs keep their copies."""
    sides = (
        "then_branch = s () => (float[1] u) { u = Neg(e) }, else_branch = r () => (float[1] v) { v = Exp(e) }"
    )
    copies = "b = Identity(a) d, mask = Dropout(b) e = Identity(d)"
    body = f"{{ a = Relu(x) {copies} o = If <{sides}> (c) p = Identity(b) }}"
    proto = text(body, "(float[1] x, bool c) => (float[1] o, float[1] p)")
    graph = verify(prune(skip_identities(infer(read_model(proto)))))
    assert [n.op for n in graph.nodes] == ["Relu", "If", "Identity"]
    branches = graph.nodes[1].subgraphs.values()
    assert {v.name for sub in branches for n in sub.nodes for v in n.inputs if v is not None} == {"a"}


@pytest.mark.parametrize("between", ["b = Identity(a)", "b = Dropout(a)"])
def test_layers_around_a_copy_share_a_layout(between: str) -> None:
    weights = "float[8,8,3,3] w"
    proto = text(
        f"{{ a = Conv <pads = [1,1,1,1]> (x, w) {between} y = Conv <pads = [1,1,1,1]> (b, w) }}",
        f"(float[1,8,9,9] x, {weights}) => (float[1,8,9,9] y)",
    )
    program = stages(proto, Options(target="x86-64-v3")).program
    assert not any("Identity" in k.name or "Dropout" in k.name for k in program.kernels)
