"""A diagram as Graphviz text, for who has `dot`."""

from __future__ import annotations

from ingot.drawing.svg import COLOURS, clean
from ingot.inspection.diagram import Diagram


def dot_text(diagram: Diagram) -> str:
    """`digraph`, one statement a line. Names from the model stand in quotes and cannot leave them."""
    lines = [
        f"digraph {_quoted(diagram.title)} {{",
        '  node [shape=box, style=filled, fontname="monospace"];',
    ]
    for i, box in enumerate(diagram.boxes):
        label = "\\n".join(_escaped(line) for line in (box.title, *box.lines))
        lines.append(f'  b{i} [label="{label}", fillcolor="{COLOURS[box.kind]}"];')
    lines += [f"  b{a} -> b{b};" for a, b in diagram.arrows]
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return clean(text).replace("\\", "\\\\").replace('"', '\\"')
