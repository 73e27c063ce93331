"""EIE beside other machines: tables IV and V, figures 6 and 7 of the paper, published and ours.

In: points of the layers, as they were fitted (`Grid`) and as Table III prints them. Out: `Exhibit`s.
Called by `ingot.eie.paper`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from ingot.eie import published
from ingot.eie.benchmark import BENCHMARKS
from ingot.eie.energy import square_millimetres
from ingot.eie.exhibit import Exhibit, bar_plot, bars, off
from ingot.eie.machine import Machine
from ingot.eie.sweep import Point

NAMES = tuple(b.name for b in BENCHMARKS)
Grid = dict[tuple[str, Machine], Point]
TOLD, FITTED = "ours, one rule", "ours, fitted"
"""Of layers with what Table III tells, and with percentages that give the published times."""
EXPLAINED = (
    "Bars in full: published, and ours of layers with the percentages that Table III tells. Striped: ours of "
    "layers whose percentages and rows were fitted to the published times."
)


def at(found: Grid, name: str, **machine: int) -> Point:
    """The point of a layer on a machine, by what is not as in the paper."""
    return found[name, Machine(**machine)]


def _mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def _theory(points: Sequence[Point]) -> list[float]:
    return [p.machine.microseconds(p.theoretical) for p in points]


def _actual(points: Sequence[Point]) -> list[float]:
    return [p.microseconds for p in points]


def table_4(found: Grid, told: Sequence[Point]) -> Exhibit:
    """Microseconds of every layer on every machine."""
    rows = [(p.name, f"{p.batch}", p.matrix, *map(_short, p.microseconds)) for p in published.PROCESSORS]
    fitted = [at(found, name) for name in NAMES]
    for what, theirs, of in (
        ("theoretical", published.THEORETICAL, _theory),
        ("actual", published.ACTUAL, _actual),
    ):
        rows.append(("EIE", "1", what, *map(_short, theirs)))
        for name, points in ((TOLD, told), (FITTED, fitted)):
            rows.append((name, "1", what, *(f"{v:.2f}" for v in of(points))))
            rows.append(("", "", "difference", *map(off, of(points), theirs)))
    plot = bar_plot(
        "Table IV: microseconds at 64 PEs",
        "us",
        NAMES,
        bars("published", published.ACTUAL, ".1f"),
        bars(TOLD, _actual(told), ".1f"),
        bars(FITTED, _actual(fitted), ".1f", is_fitted=True),
    )
    text = (
        "Microseconds of a vector. Theoretical: all entries of active columns, fillers too, spread evenly. "
        f"{EXPLAINED}"
    )
    columns = ("platform", "batch", "matrix", *NAMES)
    return Exhibit("table-4", "Table IV: time", text, columns, tuple(rows), (plot,))


def _short(value: float) -> str:
    return f"{value:,.1f}"


def table_4_unfitted(points: Sequence[Point]) -> Exhibit:
    """Table IV once more, of layers with the percentages of Table III, nothing fitted."""
    count = len(NAMES)
    balance = [t / a for t, a in zip(published.THEORETICAL, published.ACTUAL, strict=True)]
    rows = [("published", "balance, %", *(f"{100 * b:.1f}" for b in balance))]
    for name, part in (("one rule", points[:count]), ("as printed", points[count:])):
        for what, of, theirs in (
            ("theoretical", _theory, published.THEORETICAL),
            ("actual", _actual, published.ACTUAL),
        ):
            rows.append((name, f"{what}, us", *(f"{v:.2f}" for v in of(part))))
            rows.append((name, "difference", *map(off, of(part), theirs)))
        points_off = (f"{100 * (p.balance - b):+.1f}" for p, b in zip(part, balance, strict=True))
        rows.append((name, "balance, points", *points_off))
    text = (
        "The layers drawn by one rule, nothing fitted: the density in the middle of those that round to "
        "Table III's percentages of weights and of operations, the activations as printed, and rows whose "
        "density varies by 13 % (deviation over mean), as in the authors' data of Alex-8. Then with the "
        "percentages of weights and activations as printed, and all rows as dense. Balance in points."
    )
    columns = ("layers", "", *NAMES)
    return Exhibit("table-4-unfitted", "Table IV, nothing fitted", text, columns, tuple(rows))


def _factors(
    key: str, title: str, text: str, theirs: published.Bars, ours: dict[str, list[float]]
) -> Exhibit:
    """Bars of factors over the CPU's dense product, the geometric mean last.

    `ours` by name: `TOLD` and `FITTED` are drawn too, others stand in the table alone.
    """
    ours = {name: [*values, _mean(values)] for name, values in ours.items()}
    labels = (*NAMES, "mean")
    rows = [(name, *(f"{v:,g}" for v in values)) for name, values in theirs.items()]
    for name, values in ours.items():
        rows.append((name, *(f"{v:,.0f}" for v in values)))
        rows.append(("difference from EIE", *map(off, values, theirs["EIE"])))
    series = [bars(name, values, ",g") for name, values in theirs.items()]
    series += [bars(name, ours[name], ",.0f", is_fitted=name == FITTED) for name in (TOLD, FITTED)]
    plot = bar_plot(title, "times the CPU, dense", labels, *series, log_from=0.1)
    columns = ("bars", *NAMES, "geometric mean")
    return Exhibit(key, title, f"{text} {EXPLAINED}", columns, tuple(rows), (plot,))


def figure_6(found: Grid, told: Sequence[Point]) -> Exhibit:
    """Speed beside the CPU and the GPUs."""
    ours = {
        name: [c / p.microseconds for c, p in zip(published.CPU_MICROSECONDS, points, strict=True)]
        for name, points in ((TOLD, told), (FITTED, [at(found, n) for n in NAMES]))
    }
    text = (
        "How much faster than the CPU's dense product, batch 1. The paper's bars of NT-We and NT-LSTM "
        "contradict its times (63 and 60, where these give 76 and 63)."
    )
    return _factors("figure-6", "Figure 6: speed", text, published.SPEEDUP, ours)


def figure_7(found: Grid, told: Sequence[Point]) -> Exhibit:
    """Energy beside the CPU and the GPUs."""
    watts = zip(published.CPU_WATTS, published.CPU_MICROSECONDS, strict=True)
    joules = [1e3 * w * us for w, us in watts]
    ours: dict[str, list[float]] = {}
    for name, points in ((TOLD, told), (FITTED, [at(found, n) for n in NAMES])):
        flat = [1e3 * published.EIE_WATTS * t for t in _actual(points)]
        ours[name] = [spent / p.nanojoules for spent, p in zip(joules, points, strict=True)]
        ours[f"{name}, at 0.600 W"] = [spent / own for spent, own in zip(joules, flat, strict=True)]
    text = (
        "The energy of the CPU's dense product over the other's. The paper takes 0.600 W for every layer of "
        "EIE; ours follows what a layer does. The CPU's power on NT is not published: the mean of the rest."
    )
    return _factors("figure-7", "Figure 7: energy", text, published.EFFICIENCY, ours)


def table_5(found: Grid) -> Exhibit:
    """Platforms on AlexNet's FC7."""
    rows = [_platform(p) for p in published.PLATFORMS]
    for pes in (64, 256):
        p = at(found, "Alex-7", pes=pes)
        area, rate = square_millimetres(p.machine), 1e6 / p.microseconds
        watts = p.nanojoules / p.microseconds / 1e3
        cells = (f"{area:.1f}", f"{watts:.2f}", f"{rate:,.0f}", f"{rate / area:,.1f}", f"{rate / watts:,.0f}")
        # The paper counts a weight in ten, as layers of that density have.
        room = f"{10 * pes * p.machine.matrix_bytes / 1e6:.0f}M"
        machine = ("", "simulated", "45", f"{p.machine.clock_mhz:g}", "SRAM", room, "4-bit fixed")
        rows.append((f"ours, {pes} PEs", *machine, *cells))
        if pes == 64:
            eie = next(x for x in published.PLATFORMS if x.name == "EIE, 64 PEs")
            theirs = (eie.area, eie.watts, eie.frames, eie.frames_per_area, eie.frames_per_joule)
            ours = (area, watts, rate, rate / area, rate / watts)
            differences = [off(a, b) for a, b in zip(ours, theirs, strict=True) if b is not None]
            rows.append(("difference, 64 PEs", *[""] * len(machine), *differences))
    faster = at(found, "Alex-7").microseconds / at(found, "Alex-7", pes=256).microseconds
    text = (
        "AlexNet's FC7, batch 1; TrueNorth's frames are of TIMIT's LSTM. 256 PEs of ours are "
        f"{faster:.2f} times as fast as 64 (published: 3.25). Ours has the layer as fitted. Parameters: ten "
        "for each entry that the matrix SRAMs hold, as the paper counts."
    )
    columns = (
        *("platform", "year", "type", "nm", "MHz", "memory", "parameters", "numbers"),
        *("mm2", "W", "frames/s", "frames/s/mm2", "frames/J"),
    )
    return Exhibit("table-5", "Table V: platforms", text, columns, tuple(rows))


def _platform(p: published.Platform) -> tuple[str, ...]:
    clock = "asynchronous" if p.megahertz is None else f"{p.megahertz:,}"
    measured = (p.area, p.watts, p.frames, p.frames_per_area, p.frames_per_joule)
    cells = ("-" if v is None else _exact(v) for v in measured)
    return (p.name, f"{p.year}", p.kind, f"{p.nanometres}", clock, p.memory, p.parameters, p.numbers, *cells)


def _exact(value: float) -> str:
    """As printed: no digit added, none lost."""
    return f"{value:,}" if value < 1e3 else f"{value:,.0f}"
