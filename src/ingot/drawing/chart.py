"""Charts of curves and of bars. In: numbers by name; out: the text of an SVG file. Called by `ingot eie`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ingot.drawing.svg import CHARACTER, Canvas, clean

PALETTE = (
    "#1b6ca8",
    "#e07a1f",
    "#3a9a5b",
    "#a83b6b",
    "#7a5cc0",
    "#6b6b6b",
    "#b8a12e",
    "#2aa6a6",
    "#c0392b",
    "#34495e",
)
LEFT, RIGHT, TOP, BOTTOM = 80.0, 20.0, 44.0, 52.0
WIDTH, HEIGHT = 620.0, 300.0
LEGEND_LINE = 18.0
FILLED = 0.9
"""How much of the place of a label its bars take."""
TEXT_ROOM = 10.5
"""Of a bar that has a text on it, which stands upright."""
LABEL = 20


@dataclass(frozen=True, slots=True)
class Curve:
    """Points from left to right; `dash` as SVG has it."""

    name: str
    points: tuple[tuple[float, float], ...]
    dash: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar for each label of a chart; None leaves its place empty.

    `texts` stand on the bars, one for each. A group of bars may be striped.
    """

    name: str
    values: tuple[float | None, ...]
    texts: tuple[str, ...] = ()
    is_striped: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis says, and whether equal steps are equal factors. `low` is where it begins, if not at the
    data.
    """

    title: str
    is_log: bool = False
    low: float | None = None


def curves_svg(title: str, x: Axis, y: Axis, curves: Sequence[Curve]) -> str:
    """Curves in one frame, with a legend below."""
    xs = [p[0] for c in curves for p in c.points]
    ys = [p[1] for c in curves for p in c.points]
    ticks = sorted(set(xs)) if len(set(xs)) <= 12 else _ticks(x, xs)
    chart = _Chart(title, y, _ticks(y, ys), len(curves))
    low, high = (_place(x, v) for v in (min(xs), max(xs)))
    span = (high - low) or 1.0

    def across(value: float) -> float:
        return LEFT + WIDTH * (_place(x, value) - low) / span

    reached = -math.inf
    for tick in ticks:  # a number that would run into the one before is left out
        half = CHARACTER * len(f"{tick:g}") / 2
        if across(tick) - half > reached:
            chart.tick_below(across(tick), f"{tick:g}")
            reached = across(tick) + half
    chart.canvas.text(LEFT + WIDTH / 2, TOP + HEIGHT + 36, x.title, anchor="middle")
    for n, curve in enumerate(curves):
        colour = PALETTE[n % len(PALETTE)]
        points = [(across(u), chart.up(v)) for u, v in curve.points]
        chart.canvas.line(points, colour, dash=curve.dash, width=1.8, kind="curve")
        for u, v in points:
            chart.canvas.rect(u - 2, v - 2, 4, 4, colour)
        chart.legend(n, curve.name)
    return chart.canvas.svg()


def bars_svg(title: str, y: Axis, labels: Sequence[str], groups: Sequence[Bars]) -> str:
    """A group of bars over each label, with a legend below."""
    values = [v for g in groups for v in g.values if v is not None and (v > 0 or not y.is_log)]
    room = TEXT_ROOM if any(g.texts for g in groups) else 0.0
    width = max(WIDTH, len(labels) * len(groups) * room / FILLED)
    step = width / max(len(labels), 1)
    longest = CHARACTER * max((len(clean(label, LABEL)) for label in labels), default=0)
    slope = longest if longest > step else 0.0
    chart = _Chart(title, y, _ticks(y, values), len(groups), slope, width)
    wide = FILLED * step / max(len(groups), 1)
    for k, label in enumerate(labels):
        chart.tick_below(LEFT + (k + 0.5) * step, clean(label, LABEL))
        for n, group in enumerate(groups):
            chart.bar(n, group, k, label, LEFT + (k + (1 - FILLED) / 2) * step + n * wide, wide)
    for n, group in enumerate(groups):
        chart.legend(n, group.name, group.is_striped)
    return chart.canvas.svg()


def histogram_svg(counts: Sequence[float], low: str, high: str) -> str:
    """A small histogram without an axis of counts; below it what its first and last bins hold."""
    wide, tall = 240.0, 64.0
    canvas = Canvas(wide, tall + 16)
    most, step = max(max(counts, default=0), 1), wide / max(len(counts), 1)
    heights = [tall * (1 - c / most) for c in counts]
    stairs = [((k + side) * step, y) for k, y in enumerate(heights) for side in (0, 1)]
    canvas.area([(0, tall), *stairs, (wide, tall)], PALETTE[0])
    canvas.line([(0, tall), (wide, tall)], "#444444")
    canvas.text(0, tall + 12, low, font_size="10")
    canvas.text(wide, tall + 12, high, anchor="end", font_size="10")
    return canvas.svg()


class _Chart:
    """The frame, its title and the axis on the left."""

    def __init__(
        self,
        title: str,
        y: Axis,
        ticks: Sequence[float],
        names: int,
        slope: float = 0,
        width: float = WIDTH,
    ) -> None:
        """`slope`: how long the texts below are, if they stand aslant for want of room."""
        self.y, self.ticks, self.is_aslant = y, ticks, slope > 0
        self.bottom = TOP + HEIGHT + BOTTOM + 0.7 * slope
        legend = LEGEND_LINE * -(-names // 3) + 8
        self.canvas = Canvas(LEFT + width + RIGHT, self.bottom + legend)
        self.canvas.text(LEFT, 22, title, font_weight="bold")
        self.canvas.text(16, TOP + HEIGHT / 2, y.title, anchor="middle", turn=-90)
        for tick in ticks:
            at = self.up(tick)
            self.canvas.line([(LEFT, at), (LEFT + width, at)], "#dddddd", kind="grid")
            self.canvas.text(LEFT - 6, at + 4, f"{tick:,.8g}", anchor="end", font_size="11")
        self.canvas.line([(LEFT, TOP), (LEFT, TOP + HEIGHT), (LEFT + width, TOP + HEIGHT)], "#444444")

    def up(self, value: float) -> float:
        """Where a value stands, from the top."""
        low, high = (_place(self.y, t) for t in (self.ticks[0], self.ticks[-1]))
        share = (_place(self.y, value) - low) / ((high - low) or 1.0)
        return TOP + HEIGHT * (1 - min(max(share, 0.0), 1.0))

    def tick_below(self, x: float, text: str) -> None:
        """A mark on the axis below."""
        self.canvas.line([(x, TOP + HEIGHT), (x, TOP + HEIGHT + 4)], "#444444")
        if self.is_aslant:
            self.canvas.text(x + 4, TOP + HEIGHT + 14, text, anchor="end", turn=-45, font_size="11")
        else:
            self.canvas.text(x, TOP + HEIGHT + 17, text, anchor="middle", font_size="11")

    def bar(self, number: int, group: Bars, k: int, label: str, left: float, wide: float) -> None:
        """Bar `k` of a group, with the text that stands on it; the tip says whose it is."""
        value, colour = group.values[k], PALETTE[number % len(PALETTE)]
        if value is None or (self.y.is_log and value <= 0):
            return
        top = self.up(value)
        fill = self.canvas.hatched(colour) if group.is_striped else colour
        self.canvas.rect(left, top, wide, TOP + HEIGHT - top, fill, f"{group.name}, {label}: {value:.4g}")
        if group.texts:
            self.canvas.text(left + wide / 2 + 3.5, top - 3, group.texts[k], turn=-90, font_size="10")

    def legend(self, number: int, name: str, is_striped: bool = False) -> None:
        """A colour and what it stands for, three to a line."""
        column, row = number % 3, number // 3
        x, y = LEFT + column * WIDTH / 3, self.bottom + row * LEGEND_LINE
        colour = PALETTE[number % len(PALETTE)]
        self.canvas.rect(x, y - 9, 10, 10, self.canvas.hatched(colour) if is_striped else colour)
        room = int((WIDTH / 3 - 20) / CHARACTER)
        self.canvas.text(x + 15, y, clean(name, room))


def _place(axis: Axis, value: float) -> float:
    return math.log10(max(value, 1e-300)) if axis.is_log else value


def _ticks(axis: Axis, values: Sequence[float]) -> list[float]:
    """Round numbers around the values, at least two."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    low = low if axis.low is None else min(axis.low, low)
    if axis.is_log:
        first = math.floor(math.log10(max(low, 1e-12)) + 1e-9)
        last = max(math.ceil(math.log10(max(high, 1e-12)) - 1e-9), first + 1)
        return [10.0**e for e in range(first, last + 1)]
    span = (high - low) or abs(high) or 1.0
    unit = 10 ** math.floor(math.log10(span / 4))
    step = next(unit * f for f in (1, 2, 2.5, 5, 10) if span / (unit * f) <= 6)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 12) for n in range(first, max(last, first + 1) + 1)]
