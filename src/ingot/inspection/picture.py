"""A diagram drawn in layers. In: a Diagram; out: the text of an SVG file."""

from __future__ import annotations

from collections.abc import Mapping

from ingot.drawing.svg import CHARACTER, COLOURS, Canvas, clean
from ingot.inspection.diagram import Box, Diagram
from ingot.inspection.layered import place

LINE_HEIGHT, PADDING = 15.0, 8.0


def diagram_svg(diagram: Diagram, layers: Mapping[int, int] | None = None) -> str:
    """Boxes of text, arrows between them; `layers`: numbers that boxes carry, for a page that is clicked."""
    sizes = [_size(box) for box in diagram.boxes]
    placed = place(sizes, diagram.arrows)
    canvas = Canvas(placed.width, placed.height)
    for route in placed.routes:
        canvas.arrow(list(route))
    for i, (box, (w, h), (x, y)) in enumerate(zip(diagram.boxes, sizes, placed.centres, strict=True)):
        if layers is not None:
            linked = {"data_layer": str(layers[i])} if i in layers else {}
            canvas.open_group(**{"class": "box"}, **linked)
        canvas.rect(x - w / 2, y - h / 2, w, h, COLOURS[box.kind], radius=5, kind=box.kind)
        at = y - h / 2 + PADDING + 10
        canvas.text(x, at, clean(box.title), anchor="middle", font_weight="bold")
        for k, line in enumerate(box.lines, 1):
            canvas.text(x, at + k * LINE_HEIGHT, clean(line), anchor="middle", font_size="11")
        if layers is not None:
            canvas.close_group()
    return canvas.svg()


def _size(box: Box) -> tuple[float, float]:
    longest = max(len(clean(line)) for line in (box.title, *box.lines))
    return longest * CHARACTER + 2 * PADDING, (1 + len(box.lines)) * LINE_HEIGHT + 2 * PADDING - 4
