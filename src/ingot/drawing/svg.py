"""Writing SVG: rectangles, lines, paths and text, each one call. Used by the pictures of this room."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

COLOURS = {"edge": "#dcefdc", "weighted": "#cfe2f7", "plain": "#f6f1df", "control": "#f3d9ec"}
INK = "#222222"
FONT_SIZE = 12
CHARACTER = 7.3  # pixels of a character of a monospace font of that size
LIMIT = 44

HATCH = (
    '<defs><pattern id="{name}" width="5" height="5" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="5" height="5" fill="white"/>'
    '<rect width="2.5" height="5" fill="{colour}"/></pattern></defs>\n'
)
HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0f}" height="{h:.0f}" viewBox="0 0 {w:.0f} {h:.0f}" '
    'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{size}">\n'
    "{defs}"
    '<rect class="paper" width="100%" height="100%" fill="white"/>\n'
)
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="tip" d="M0,0.5 L8,4 L0,7.5 z" fill="#555555"/></marker></defs>\n'
)


def clean(text: str, limit: int = LIMIT) -> str:
    """Printable, on one line, not too long; XML forbids most control characters even escaped."""
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return plain if len(plain) <= limit else f"{plain[: limit - 3]}..."


@dataclass(slots=True)
class Canvas:
    """Collects elements; `svg` closes the file.

    Colours are attributes, which hold in a file of its own; a page's style sheet says otherwise by the
    elements' classes.
    """

    width: float
    height: float
    parts: list[str] = field(default_factory=list)
    patterns: dict[str, str] = field(default_factory=dict)

    def hatched(self, colour: str) -> str:
        """A fill of oblique stripes in that colour, `#rrggbb`."""
        name = f"hatch-{colour[1:]}"
        self.patterns[name] = HATCH.format(name=name, colour=colour)
        return f"url(#{name})"

    def rect(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        fill: str,
        tip: str = "",
        radius: float = 0,
        kind: str = "mark",
    ) -> None:
        """A framed rectangle; `tip` shows when the pointer rests on it, `kind` is its class."""
        inner = f"<title>{escape(clean(tip, 200))}</title>" if tip else ""
        self.parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius:g}" '
            f'fill="{fill}" stroke="#666666" stroke-width="0.8">{inner}</rect>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "start",
        turn: float = 0,
        kind: str = "ink",
        **style: str,
    ) -> None:
        """Text with its base line at y, turned by degrees around its start; `kind` is its class."""
        attributes = {
            "class": kind,
            "x": f"{x:.1f}",
            "y": f"{y:.1f}",
            "text-anchor": anchor,
            "fill": INK,
            **style,
        }
        if turn:
            attributes["transform"] = f"rotate({turn:g} {x:.1f} {y:.1f})"
        named = " ".join(f"{k.replace('_', '-')}={quoteattr(v)}" for k, v in attributes.items())
        self.parts.append(f"<text {named}>{escape(clean(text, 200))}</text>")

    def line(
        self,
        points: list[tuple[float, float]],
        colour: str,
        *,
        dash: str = "",
        width: float = 1,
        kind: str = "line",
    ) -> None:
        """A polyline; `kind` is its class."""
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<polyline class="{kind}" points="{places}" fill="none" stroke="{colour}" '
            f'stroke-width="{width:g}"{dashed}/>'
        )

    def arrow(self, points: list[tuple[float, float]]) -> None:
        """A curve that runs vertically through every point, with a tip at its end."""
        x, y = points[0]
        path = [f"M{x:.1f},{y:.1f}"]
        for u, v in points[1:]:
            middle = (y + v) / 2
            path.append(f"C{x:.1f},{middle:.1f} {u:.1f},{middle:.1f} {u:.1f},{v:.1f}")
            x, y = u, v
        style = 'class="arrow" fill="none" stroke="#555555" stroke-width="1.1" marker-end="url(#tip)"'
        self.parts.append(f'<path d="{" ".join(path)}" {style}/>')

    def area(self, points: list[tuple[float, float]], colour: str) -> None:
        """A filled polygon."""
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polygon class="area" points="{places}" fill="{colour}"/>')

    def open_group(self, **attributes: str) -> None:
        """What follows belongs together until `close_group`."""
        named = "".join(f" {k.replace('_', '-')}={quoteattr(clean(v, 200))}" for k, v in attributes.items())
        self.parts.append(f"<g{named}>")

    def close_group(self) -> None:
        self.parts.append("</g>")

    def svg(self) -> str:
        """The text of the file."""
        defs = TIP if any("url(#tip)" in part for part in self.parts) else ""
        defs += "".join(self.patterns.values())
        head = HEAD.format(w=self.width, h=self.height, size=FONT_SIZE, defs=defs)
        return head + "\n".join(self.parts) + "\n</svg>\n"
