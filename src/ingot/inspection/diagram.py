"""What a picture of a graph or a program shows: boxes and arrows, without places.

In: a Graph or a Program. Out: a `Diagram`, which `dot` writes as Graphviz text and `picture` draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ingot.formula.expr import Extent, Tensor, text
from ingot.graph.ir import Attribute, Graph, Node, Value, reads
from ingot.loops.program import Branch, Call, Copy, Program, Repeat, Step
from ingot.memory.tree import base_of

Kind = Literal["edge", "weighted", "plain", "control"]
LINE_LIMIT = 36


@dataclass(frozen=True, slots=True)
class Box:
    """`kind` chooses the colour: the model's edge, an operation with weights, one without, control flow.

    `nodes` are the model's nodes that it stands for.
    """

    title: str
    lines: tuple[str, ...] = ()
    kind: Kind = "plain"
    nodes: tuple[str, ...] = ()


@dataclass(slots=True)
class Diagram:
    """Boxes by number, and arrows from number to number; boxes stand after those that point to them."""

    title: str
    boxes: list[Box] = field(default_factory=list)
    arrows: list[tuple[int, int]] = field(default_factory=list)

    def add(self, box: Box, sources: Iterator[int]) -> int:
        """A box below its sources; its number."""
        self.boxes.append(box)
        here = len(self.boxes) - 1
        self.arrows += [(s, here) for s in dict.fromkeys(sources)]
        return here


def graph_diagram(graph: Graph) -> Diagram:
    """One box per input, node and output; constants stand in the boxes of the nodes that read them."""
    diagram = Diagram(graph.name)
    maker: dict[Value, int] = {}
    for value in graph.inputs:
        maker[value] = diagram.add(Box(value.name, (_type(value),), "edge"), iter(()))
    for node in graph.nodes:
        sources = (maker[v] for v in reads(node) if v in maker)
        here = diagram.add(_node_box(node), sources)
        maker.update((v, here) for v in node.outputs if v is not None)
    for value in graph.outputs:
        diagram.add(Box(value.name, (_type(value),), "edge"), iter([maker[value]] if value in maker else ()))
    return diagram


def _node_box(node: Node) -> Box:
    lines = [node.name] if node.name and node.name != node.op else []
    settings = [f"{k}={_setting(v)}" for k, v in sorted(node.attributes.items()) if not isinstance(v, Graph)]
    lines += _wrapped(settings)
    lines += [f"{v.name}: {_dims(v.shape)}" for v in node.inputs if v is not None and v.constant is not None]
    lines += [f"{name}: {len(sub.nodes)} nodes" for name, sub in node.subgraphs.items()]
    lines += [f"-> {_type(v)}" for v in node.outputs if v is not None]
    weighted = any(v is not None and v.constant is not None and v.constant.ndim > 1 for v in node.inputs)
    kind: Kind = "control" if node.subgraphs else "weighted" if weighted else "plain"
    return Box(node.op, tuple(lines), kind, (node.name or node.op,))


def _wrapped(words: list[str]) -> Iterator[str]:
    """Words on as few lines as LINE_LIMIT allows."""
    line = ""
    for word in words:
        if line and len(line) + 1 + len(word) > LINE_LIMIT:
            yield line
            line = ""
        line = f"{line} {word}".strip()
    if line:
        yield line


def _setting(value: Attribute) -> str:
    if isinstance(value, np.ndarray):
        return f"tensor {_dims(value.shape)}"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _type(value: Value) -> str:
    return f"{value.type or '?'} {_dims(value.shape)}"


def _dims(shape: tuple[Extent, ...] | None) -> str:
    return "?" if shape is None else "x".join(map(text, shape)) or "scalar"


def program_diagram(program: Program) -> Diagram:
    """One box per call and copy; an arrow from each tensor's last writer to its readers."""
    diagram = Diagram(program.name)
    writer: dict[Tensor, int] = {}
    for t in (*program.inputs, *program.members):
        writer[t] = diagram.add(Box(t.name, (_tensor(t),), "edge"), iter(()))
    _add_steps(diagram, program, program.steps, writer, "")
    for t in (*program.outputs, *(s.made for s in program.states)):
        source = writer.get(base_of(program, t))
        diagram.add(Box(t.name, (_tensor(t),), "edge"), iter(() if source is None else (source,)))
    return diagram


def _add_steps(
    diagram: Diagram, program: Program, steps: tuple[Step, ...], writer: dict[Tensor, int], where: str
) -> None:
    for step in steps:
        box, read, written = _step_box(step, where)
        bases = (base_of(program, t) for t in read)
        here = diagram.add(box, (writer[t] for t in bases if t in writer))
        writer.update((base_of(program, t), here) for t in written)
        match step:
            case Branch(_, then, other):
                _add_steps(diagram, program, then, writer, f"{where}then ")
                _add_steps(diagram, program, other, writer, f"{where}else ")
            case Repeat(body=body):
                _add_steps(diagram, program, body, writer, f"{where}repeat ")


def _step_box(step: Step, where: str) -> tuple[Box, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The box of a step, what it reads and what it writes."""
    inside = (where.strip(),) if where else ()
    match step:
        case Call(kernel):
            nodes = step.nodes or kernel.nodes
            lines = (*inside, *_wrapped(list(nodes)))
            lines += (f"{kernel.macs:,} MACs",) if kernel.macs else ()
            lines += tuple(f"-> {t.name} {_tensor(t)}" for t in step.writes)
            weighted = any(t.value is not None for t in step.arguments)
            box = Box(kernel.name, lines, "weighted" if weighted else "plain", nodes)
            return box, step.reads, step.writes
        case Copy(source, to):
            return Box("copy", (*inside, f"-> {to.name} {_tensor(to)}")), (source,), (to,)
        case Branch(condition):
            return Box(f"if {condition.name}", inside, "control"), (condition,), ()
        case Repeat(counter, trips, active):
            read = tuple(t for t in (trips, active) if t is not None)
            return Box(f"repeat {counter.name}", inside, "control"), read, (counter,)


def _tensor(t: Tensor) -> str:
    return f"{t.type} {_dims(t.shape)}"
