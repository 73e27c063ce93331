"""The paper's evaluation once more: every table and figure, beside what is published.

In: nothing but an executor. Out: `Exhibit`s. The layers are drawn at random with the published densities
(`ingot.eie.benchmark`); times come from the recurrence, energies from the model of `ingot.eie.energy`.
Called by `ingot eie paper`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import pairwise

from ingot.eie import published
from ingot.eie.activity import Activity
from ingot.eie.benchmark import BENCHMARKS, Shares
from ingot.eie.comparison import NAMES, Grid, at, figure_6, figure_7, table_4, table_4_unfitted, table_5
from ingot.eie.energy import (
    MILLIWATTS,
    MULTIPLY_PICOJOULES,
    energy,
    read_picojoules,
    square_millimetres,
)
from ingot.eie.exhibit import Exhibit, Plot, Series, bar_plot, bars, off
from ingot.eie.glyphs import accuracy
from ingot.eie.machine import Machine
from ingot.eie.published import TOP_5
from ingot.eie.sweep import Axes, Load, Point, benchmark_load, run_tasks

FIFOS = (2, 3, 5, 9, 17, 33, 65, 129, 257)
"""Rings that hold 1, 2, 4, ... 256 activations."""
WIDTHS = (32, 64, 128, 256, 512)
PES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PRECISIONS = (32, 16, 8)
UNFITTED: tuple[Shares, ...] = ("told", "printed")
BASE = Machine()


def evaluate(executor: Executor | None = None) -> list[Exhibit]:
    """All tables and figures, in the order of the paper."""
    base = Axes(fifo=(8,), sram_width=WIDTHS)
    axes = [Axes(fifo=FIFOS), base, Axes(precision=PRECISIONS, errors=True)]
    tasks: list[tuple[Load | str, int, Axes]] = [(name, 64, a) for a in axes for name in NAMES]
    tasks += [(name, pes, Axes()) for pes in PES if pes != 64 for name in NAMES]
    found: Grid = {}
    for point in run_tasks(tasks, executor):
        key = point.layer, point.machine
        if key not in found or point.error is not None:
            found[key] = point
    placed = [(name, 64, Axes(placement=p)) for p in ("rows", "rows and columns") for name in NAMES]
    better = run_tasks(placed, executor)
    drawn = run_tasks([(name, 64, Axes(shares=s)) for s in UNFITTED for name in NAMES], executor)
    told = drawn[: len(NAMES)]
    return [
        *(make(found) for make in (table_1, table_2, table_3)),
        *(make(found, told) for make in (table_4, figure_6, figure_7)),
        *(make(found) for make in (figure_8, figure_9, figure_10, table_5)),
        *(make(found) for make in (figure_11, figure_12, figure_13)),
        table_4_unfitted(drawn),
        beyond(found, better),
    ]


def table_1(found: Grid) -> Exhibit:
    """Energies of operations: what the model assumes."""
    rows = [(name, f"{value:g}") for name, value in published.PICOJOULES.items()]
    rows.append(("16-bit multiply (figure 10: a fifth of 32 bits)", f"{MULTIPLY_PICOJOULES['int16']:.2f}"))
    rows.append(("8-bit multiply (our estimate)", f"{MULTIPLY_PICOJOULES['int8']:.2f}"))
    text = "Energy of operations in 45 nm; what the energy model takes from here."
    return Exhibit("table-1", "Table I: energy of operations", text, ("operation", "pJ"), tuple(rows))


def table_2(found: Grid) -> Exhibit:
    """One PE: the model on Alex-7, without the clock, beside the synthesis."""
    point = at(found, "Alex-7")
    pushed = 64 * int((benchmark_load("Alex-7").activations != 0).sum())
    done = Activity(pushed, pushed, *(round(n) for n in (point.matrix_reads, point.entries, point.real)))
    spent = energy(done, round(point.cycles), BASE)
    share = 1 / (64 * point.microseconds)
    parts = {k: getattr(spent, k) * share for k in MILLIWATTS}
    total = (spent.total - spent.detectors) * share
    area = (square_millimetres(BASE) * 1e6 - 21 * 189) / 64
    made = {"one PE": total, **{k: parts[k] + spent.clock * share * _part(w) for k, w in MILLIWATTS.items()}}
    published_parts = {"one PE": published.PE, **published.CELLS, **published.MODULES}
    rows = [_synthesised(name, p, made.get(name)) for name, p in published_parts.items()]
    text = (
        "Power and area of a PE, by the kinds of its cells and by its modules, as published; beside it what "
        "our model takes on Alex-7, to which it is fitted with this table. Areas are the paper's; in our "
        f"model those of the modules add up to {area:,.0f} um2."
    )
    columns = ("part", "mW published", "%", "mW, ours", "difference", "um2 published", "%")
    return Exhibit("table-2", "Table II: one PE", text, columns, tuple(rows))


def _part(milliwatts: float) -> float:
    """A module's share of the power of all."""
    return milliwatts / sum(MILLIWATTS.values())


def _synthesised(name: str, p: published.Part, ours: float | None) -> tuple[str, ...]:
    """A row of Table II."""
    theirs = p.milliwatts
    power = ("", "") if theirs is None else (f"{theirs:.3f}", f"{p.power_share:.2f}")
    model = ("", "") if theirs is None or ours is None else (f"{ours:.3f}", off(ours, theirs))
    return (name, *power, *model, f"{p.square_microns:,}", f"{p.area_share:.2f}")


def table_3(found: Grid) -> Exhibit:
    """The layers as drawn."""
    rows = []
    for b in BENCHMARKS:
        load = benchmark_load(b.name)
        weights = 100 * len(load.at) / (b.inputs * b.outputs)
        active = 100 * float((load.activations != 0).mean())
        flops = 100 * at(found, b.name).real / (b.inputs * b.outputs)
        pairs = ((weights, b.weights), (active, b.activations), (flops, b.flops))
        cells = tuple(f"{own:.1f} ({theirs:g}, {off(own, theirs)})" for own, theirs in pairs)
        rows.append((b.name, f"{b.inputs}, {b.outputs}", *cells, f"{b.spread:g}"))
    text = (
        "Shares of weights, activations and operations that are left, in per cent, as drawn (published, "
        "difference). "
        "Where the published shares are rounded too far to give the published times, they were fitted, and "
        "so was how much the rows of a layer differ (deviation over mean)."
    )
    columns = ("layer", "size", "weights", "activations", "operations", "spread of rows")
    return Exhibit("table-3", "Table III: the layers", text, columns, tuple(rows))


def figure_8(found: Grid) -> Exhibit:
    """Queues."""
    balance = {n: [100 * at(found, n, fifo=f).balance for f in FIFOS] for n in NAMES}
    rows = [(n, *(f"{v:.1f}" for v in values)) for n, values in balance.items()]
    means = [sum(v[k] for v in balance.values()) / len(NAMES) for k in range(len(FIFOS))]
    rows.append(("mean", *(f"{v:.1f}" for v in means)))
    gain = ", ".join(f"{b - a:.1f}" for a, b in pairwise(means))
    text = (
        "Load balance in per cent over the activations a queue holds. Published: around half idle at 1, "
        f"little to gain beyond 8. Ours are idle {100 - means[0]:.0f} % of the time at 1, on average. Each "
        f"doubling gains, in points of the mean: {gain}."
    )
    depths = tuple(f - 1 for f in FIFOS)
    plot = _curves("Figure 8: queues", "activations in a queue", "load balance %", depths, balance)
    return Exhibit("figure-8", "Figure 8: queues", text, ("layer", *map(str, depths)), tuple(rows), (plot,))


def _curves(title: str, x: str, y: str, along: Sequence[float], values: dict[str, list[float]]) -> Plot:
    series = tuple(
        Series(n, tuple(zip(map(float, along), v, strict=True)), is_fitted=True) for n, v in values.items()
    )
    return Plot(title, x, y, series, is_log_x=True, low=0.0)


def figure_9(found: Grid) -> Exhibit:
    """The width of the matrix SRAM."""
    reads = {n: [at(found, n, sram_width=w).matrix_reads for w in WIDTHS] for n in NAMES}
    spent = {
        n: [r * read_picojoules(w) / 1e3 for r, w in zip(v, WIDTHS, strict=True)] for n, v in reads.items()
    }
    rows = [(n, *(f"{r:,.0f} / {e:,.0f}" for r, e in zip(reads[n], spent[n], strict=True))) for n in NAMES]
    rows.append(("pJ per read", *(f"{read_picojoules(w):.1f}" for w in WIDTHS)))
    total = [sum(v[k] for v in spent.values()) for k in range(len(WIDTHS))]
    rows.append(("nJ in all", *(f"{v:,.0f}" for v in total)))
    best = WIDTHS[total.index(min(total))]
    text = (
        "Reads of the matrix SRAM and their energy in nJ, by the bits of a read. The least energy in all is "
        f"at {best} bits; published: 64. What a read costs at another width is our estimate."
    )
    plots = (
        _curves("Figure 9: reads of the matrix SRAM", "bits of a read", "reads", WIDTHS, reads),
        _curves("Figure 9: energy of the reads", "bits of a read", "nJ", WIDTHS, spent),
    )
    columns = ("layer", *(f"{w} bits" for w in WIDTHS))
    return Exhibit("figure-9", "Figure 9: width of the matrix SRAM", text, columns, tuple(rows), plots)


def figure_10(found: Grid) -> Exhibit:
    """Precision."""
    errors = {n: [at(found, n, precision=b).error or 0.0 for b in PRECISIONS] for n in NAMES}
    rows = [(n, *(f"{e:.1e}" for e in v)) for n, v in errors.items()]
    picojoules = [MULTIPLY_PICOJOULES[f"int{b}"] for b in PRECISIONS]
    rows.append(("pJ of a multiplication", *(f"{p:.2f}" for p in picojoules)))
    exact, ours = accuracy(PRECISIONS)
    rows.append(
        ("published: AlexNet's top 5, %", f"{TOP_5['float32']} (float)", f"{TOP_5['16']}", f"{TOP_5['8']}")
    )
    rows.append(
        (f"digits read right here, % ({exact:.1f} in floats)", *(f"{ours[b]:.1f}" for b in PRECISIONS))
    )
    text = (
        "The largest error of a layer's results over the largest result, in fixed point. The paper shows the "
        "accuracy of a trained AlexNet, which needs its weights and images. Beside it stands that of a "
        "network trained here: three dense layers, pruned and shared, that read noisy digits."
    )
    series = [
        bars(f"{b} bits", [errors[n][k] for n in NAMES], is_fitted=True) for k, b in enumerate(PRECISIONS)
    ]
    smallest = min(e for v in errors.values() for e in v if e) / 10
    plot = bar_plot("Figure 10: error by precision", "max|d| / max|y|", NAMES, *series, log_from=smallest)
    columns = ("layer", *(f"{b} bits" for b in PRECISIONS))
    theirs, measured = tuple(TOP_5.values()), (exact, ours[16], ours[8])
    right = bar_plot(
        "Figure 10: accuracy by precision",
        "%",
        ("float", "16 bits", "8 bits"),
        bars("published: AlexNet, top 5", theirs, ".1f"),
        bars("ours: digits, top 1", measured, ".1f"),
    )
    return Exhibit("figure-10", "Figure 10: precision", text, columns, tuple(rows), (right, plot))


def figure_11(found: Grid) -> Exhibit:
    """Speed over the number of PEs."""
    times = {n: [at(found, n, pes=p).cycles for p in PES] for n in NAMES}
    faster = {n: [v[0] / t for t in v] for n, v in times.items()}
    rows = [(n, *(f"{v:.1f}" for v in values)) for n, values in faster.items()]
    text = (
        "How many times as fast as one PE. Published: close to proportional, except for NT-We, where a PE "
        "has few entries in a column (0.25 at 256 PEs). Speeds that are more than proportional come from "
        "fewer fillers."
    )
    plot = _curves("Figure 11: scaling", "PEs", "times one PE", PES, faster)
    plot = Plot(plot.title, plot.x, plot.y, plot.series, is_log_x=True, is_log_y=True)
    return Exhibit("figure-11", "Figure 11: scaling", text, ("layer", *map(str, PES)), tuple(rows), (plot,))


def figure_12(found: Grid) -> Exhibit:
    """Fillers over the number of PEs."""
    share = {n: [100 * at(found, n, pes=p).real / at(found, n, pes=p).entries for p in PES] for n in NAMES}
    rows = [(n, *(f"{v:.1f}" for v in values)) for n, values in share.items()]
    text = (
        "Entries that are weights, in per cent of all that are computed; the others bridge zeros. With more "
        "PEs a PE's part of a column is shorter, and fewer are needed."
    )
    plot = _curves("Figure 12: entries that are weights", "PEs", "%", PES, share)
    return Exhibit("figure-12", "Figure 12: fillers", text, ("layer", *map(str, PES)), tuple(rows), (plot,))


def figure_13(found: Grid) -> Exhibit:
    """Balance over the number of PEs."""
    balance = {n: [100 * at(found, n, pes=p).balance for p in PES] for n in NAMES}
    rows = [(n, *(f"{v:.1f}" for v in values)) for n, values in balance.items()]
    text = "Load balance in per cent, queues of 8. Published: the worse, the more PEs."
    plot = _curves("Figure 13: load balance", "PEs", "load balance %", PES, balance)
    return Exhibit(
        "figure-13", "Figure 13: load balance", text, ("layer", *map(str, PES)), tuple(rows), (plot,)
    )


def beyond(found: Grid, better: Sequence[Point]) -> Exhibit:
    """What placing rows and ordering columns gives."""
    count, rows = len(NAMES), []
    for n, name in enumerate(NAMES):
        before, placed, both = at(found, name), better[n], better[count + n]
        cells = [f"{before.cycles:,.0f}", f"{100 * before.balance:.1f}"]
        for p in (placed, both):
            cells += [f"{p.cycles:,.0f}", off(p.cycles, before.cycles), f"{100 * p.balance:.1f}"]
        fillers = [f"{100 * (1 - p.stored_real / p.stored):.1f}" for p in (before, placed)]
        rows.append((name, *cells, " / ".join(fillers)))
    text = (
        "Rows dealt to PEs by their work when the model is compiled, then columns ordered so that no PE "
        "falls behind for long, without knowing which activations will be zero. Fillers before and after."
    )
    columns = (
        "layer",
        "cycles",
        "balance %",
        "rows placed",
        "difference",
        "balance %",
        "columns too",
        "difference",
        "balance %",
        "fillers %",
    )
    plot = bar_plot(
        "Beyond the paper: cycles at 64 PEs",
        "cycles",
        NAMES,
        bars("as they come", [at(found, n).cycles for n in NAMES], is_fitted=True),
        bars("rows placed", [p.cycles for p in better[:count]], is_fitted=True),
        bars("columns too", [p.cycles for p in better[count:]], is_fitted=True),
    )
    return Exhibit("beyond", "Beyond the paper: placement", text, columns, tuple(rows), (plot,))
