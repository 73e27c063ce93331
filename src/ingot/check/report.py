"""Benchmarks as people read them: a Markdown table, JSON, and a bar chart in SVG.

In: `Benchmark`s of one machine. Out: text. Called by `ingot bench` and `make bench`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ingot.check.bench import Benchmark, Rival, Timing
from ingot.drawing.chart import Axis, Bars, bars_svg
from ingot.files import write_folder


def rivals_of(found: Sequence[Benchmark]) -> list[str]:
    """The names of all peers, in the order in which they were first met."""
    return list(dict.fromkeys(r.name for b in found for r in b.rivals))


def markdown(found: Iterable[Benchmark], aside: Sequence[str] = ()) -> str:
    """A table with one row per model and one column per peer, and a line that says where it was measured.

    The models `aside` do not count in the means.
    """
    rows = list(found)
    names = rivals_of(rows)
    head = ["model", "MACs", "ingot: us, median (min)", "% of roofline", *names]
    head += ["best / ingot"] if len(names) > 1 else []
    head += ["max d/y", "flash", "RAM"]
    lines = [_row(head), _row(("---", *["---:"] * (len(head) - 1)))]
    lines += [_row(_cells(b, names)) for b in rows]
    return "\n".join([*lines, *_legend(rows, names, aside)]) + "\n"


def _cells(b: Benchmark, names: Sequence[str]) -> list[str]:
    by_name = {r.name: r for r in b.rivals}
    cells = [b.model, f"{b.macs:,}", _us(b.ours), f"{100 * b.roofline_share:.0f}"]
    cells += [_rival_cell(by_name.get(n)) for n in names]
    if len(names) > 1:
        cells.append(f"{b.best.ratio:.2f} ({b.best.name})" if b.best and b.best.ratio else "")
    worst = max((r.relative for r in b.rivals if r.relative is not None), default=None)
    return [*cells, "" if worst is None else f"{worst:.0e}", f"{b.flash_bytes:,}", f"{b.arena_bytes:,}"]


def _rival_cell(r: Rival | None) -> str:
    if r is None or r.timing is None or r.ratio is None:
        return "-"
    return f"{r.ratio:.2f}x: {_us(r.timing)}" if r.agrees else "differs"


def _us(t: Timing) -> str:
    digits = 3 if t.median < 1e-5 else 1
    return f"{t.median * 1e6:,.{digits}f} ({t.minimum * 1e6:,.{digits}f})"


def _legend(rows: Sequence[Benchmark], names: Sequence[str], aside: Sequence[str]) -> list[str]:
    if not rows:
        return []
    titles = {r.name: r.title for b in rows for r in b.rivals if r.version}
    peers = ", ".join(titles.get(n, n) for n in names) or "none"
    where = f"{rows[0].machine}, one core, target {rows[0].target}; peers: {peers}."
    ratios = "1.50x: ingot is 1.5 times as fast, by the medians. " if names else ""
    counted = [b for b in rows if b.model not in aside]
    means = [f"{n} {mean:.2f} ({count})" for n, mean, count in geometric_means(counted)]
    without = (
        f" without {', '.join(b.model for b in rows if b.model in aside)}" if len(counted) < len(rows) else ""
    )
    summary = [f"Geometric means of the ratios (models){without}: {', '.join(means)}."] if means else []
    refused = [f"{b.model}: {r.error}" for b in rows for r in b.rivals if r.error]
    return [
        "",
        f"{ratios}{where}",
        *(["", *summary] if summary else []),
        *(["", *refused] if refused else []),
    ]


def geometric_means(found: Sequence[Benchmark]) -> list[tuple[str, float, int]]:
    """(peer, geometric mean of the ratios, models), at last against the best of each. Needs two models."""
    if len(found) < 2:
        return []
    parts = [(n, [r.ratio for b in found for r in b.rivals if r.name == n]) for n in rivals_of(found)]
    parts.append(("best", [b.best.ratio for b in found if b.best]))
    known = [(n, [r for r in ratios if r]) for n, ratios in parts]
    return [(n, statistics.geometric_mean(r), len(r)) for n, r in known if r]


def chart(found: Iterable[Benchmark]) -> str:
    """Bars of how many times as long every peer takes; without peers, of how long Ingot takes."""
    rows = list(found)
    labels = [b.model for b in rows]
    names = rivals_of(rows)
    if not any(_ratio(b, name) for b in rows for name in names):
        own = Bars("ingot", tuple(1e6 * b.ours.median for b in rows))
        return bars_svg("Time of one inference", Axis("us, median", low=0), labels, [own])
    groups = [Bars(name, tuple(_ratio(b, name) for b in rows)) for name in names]
    title = "Time of one inference, as a multiple of Ingot's"
    return bars_svg(title, Axis("time / Ingot's", low=0), labels, groups)


def _ratio(found: Benchmark, name: str) -> float | None:
    """How many times as long a peer takes, if it computes the same."""
    return next((r.ratio for r in found.rivals if r.name == name and r.agrees), None)


def write(
    found: Sequence[Benchmark], folder: Path, more: str = "", data: dict[str, Any] | None = None
) -> None:
    """report.md, report.json and report.svg; `more` goes below the table, `data` into the JSON."""
    everything = {"benchmarks": [b.as_dict() for b in found], **(data or {})}
    texts = {
        "md": markdown(found) + more,
        "json": json.dumps(everything, indent=2) + "\n",
        "svg": chart(found),
    }
    write_folder(folder, {f"report.{kind}": text.encode() for kind, text in texts.items()})


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
