"""Tables and plots as data. `ingot.eie.paper` makes them, the command line draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Series:
    """Values with a name: of curves points (x, y), of bars one y for each label, at x = 0, 1, 2, ...

    `texts` stand on the bars. `is_fitted`: the values are of layers that were fitted to published times.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    texts: tuple[str, ...] = ()
    is_fitted: bool = False


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
    """How far a figure is from the published one; what rounds to 0 has one sign."""
    return f"{round(100 * (ours / theirs - 1), 1) + 0.0:+.1f} %"


def bars(name: str, values: Sequence[float], form: str = "", is_fitted: bool = False) -> Series:
    """One bar for each value; `form` says how the numbers on them are written, if they are."""
    points = tuple((float(n), float(v)) for n, v in enumerate(values))
    return Series(name, points, tuple(format(v, form) for v in values) if form else (), is_fitted)


def bar_plot(
    title: str, y: str, labels: tuple[str, ...], *series: Series, log_from: float | None = None
) -> Plot:
    """A plot of groups of bars from 0, or of factors from `log_from`."""
    low = 0.0 if log_from is None else log_from
    return Plot(title, "", y, series, labels, is_log_y=log_from is not None, low=low)
