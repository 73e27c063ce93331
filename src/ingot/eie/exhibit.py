"""Tables and plots as data. `ingot.eie.paper` makes them, the command line draws them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Series:
    """Values with a name: of curves points (x, y), of bars one y for each label, at x = 0, 1, 2, ..."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves over an axis, or bars over labels if there are any."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    labels: tuple[str, ...] = ()
    is_log_x: bool = False
    is_log_y: bool = False
    low: float | None = None


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One table or figure: cells as text, the numbers behind them, plots. `key` names its files."""

    key: str
    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    plots: tuple[Plot, ...] = ()


def off(ours: float, theirs: float) -> str:
    """How far a figure is from the published one."""
    return f"{100 * (ours / theirs - 1):+.1f} %"


def bars(title: str, y: str, labels: tuple[str, ...], is_log: bool = False, **values: list[float]) -> Plot:
    """A plot of groups of bars; the names have spaces for underscores."""
    series = tuple(
        Series(name.replace("_", " "), tuple((float(n), v) for n, v in enumerate(each)))
        for name, each in values.items()
    )
    return Plot(title, "", y, series, labels, is_log_y=is_log, low=None if is_log else 0.0)
