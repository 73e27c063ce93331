"""`ingot eie`: a compressed model on the simulated accelerator EIE; sweeps; the paper's evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import note, progress, report, write_text, write_texts
from ingot.data.arrays import read_array
from ingot.errors import InputError
from ingot.files import require_place
from ingot.tables import Table, table

if TYPE_CHECKING:
    from ingot.eie.exhibit import Plot
    from ingot.eie.layers import Product
    from ingot.eie.run import Report
    from ingot.eie.sweep import Point
    from ingot.formula.expr import Array
    from ingot.graph.ir import Graph
    from ingot.options import Options

app = typer.Typer(
    name="eie", help="Run compressed models on the simulated accelerator EIE.", no_args_is_help=True
)
Pes = Annotated[int, typer.Option("--pes", metavar="N", help="The number of processing elements.")]
Fifo = Annotated[
    int, typer.Option("--fifo", metavar="N", help="Entries of an activation queue, one of which stays free.")
]
Width = Annotated[
    int, typer.Option("--sram-width", metavar="BITS", help="The width of a read of the matrix SRAM.")
]
Precision = Annotated[
    int, typer.Option(metavar="BITS", help="The width of activations, shared weights and sums: 8, 16 or 32.")
]
Clock = Annotated[float, typer.Option("--clock-mhz", metavar="MHZ")]
HostBits = Annotated[
    int,
    typer.Option("--host-bits", metavar="BITS", help="The bits that the host interface transfers per cycle."),
]
PointerKb = Annotated[int, typer.Option("--pointer-kb", metavar="KB", help="The pointer SRAM of a PE.")]
MatrixKb = Annotated[int, typer.Option("--matrix-kb", metavar="KB", help="The matrix SRAM of a PE.")]
Samples = Annotated[
    int,
    typer.Option(
        min=1, max=4096, help="The largest number of runs of the model, and of vectors for each product."
    ),
]
SweepSamples = Annotated[
    int | None,
    typer.Option("--samples", min=1, max=4096, help="The number of vectors for each product (default: 4)."),
]
SWEPT = 4
Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.npy", help="The index of the correct result of the last layer, one per sample."
    ),
]
BiasColumns = Annotated[
    bool,
    typer.Option("--bias-columns", help="Store biases as columns of the matrix, rounded to shared weights."),
]
Balance = Annotated[
    bool, typer.Option("--balance", help="Distribute rows and order columns so that PEs have equal work.")
]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write the report as an HTML page.")
]
Svg = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the cycles of each layer.")]


@app.command()
def run(
    model: arg.ModelFile,
    pes: Pes = 64,
    fifo: Fifo = 8,
    sram_width: Width = 64,
    precision: Precision = 16,
    clock_mhz: Clock = 800.0,
    host_bits: HostBits = 64,
    pointer_kb: PointerKb = 32,
    matrix_kb: MatrixKb = 128,
    inputs: arg.Inputs = None,
    labels: Labels = None,
    samples: Samples = 16,
    bias_columns: BiasColumns = False,
    balance: Balance = False,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    capacity: arg.Capacities = None,
    svg: Svg = None,
    html: Html = None,
    as_json: arg.Json = False,
) -> None:
    """Simulate the dense and recurrent layers of a compressed model, cycle by cycle."""
    from ingot.eie.machine import Machine

    require_place(svg, html)
    machine = Machine(
        pes,
        fifo,
        sram_width,
        precision,
        clock_mhz,
        matrix_bytes=matrix_kb * 1024,
        pointer_bytes=pointer_kb * 1024,
        host_bits=host_bits,
    )
    with progress(f"Simulating {model.name}"):
        from ingot.eie.run import run as simulate

        options = arg.options("native", define, capacity=capacity, fix=fix)
        found, left, activations = prepared(model, options, inputs, samples)
        right = None if labels is None else _read_labels(labels, found[-1].shape[0], samples)
        if balance:
            found, activations, right = _balanced(found, activations, right, pes)
        made = simulate(found, activations, machine, bias_columns, right)
    for name, op, reason in left:
        note(f"left to the host: {op} node {name!r}: {reason}")
    if not (made.fits or balance):
        note(f"{made.streamed_bytes:,} bytes find no room in the SRAMs; --balance saves fillers")
    pictures = {} if svg is None else {svg: _picture(made)}
    write_texts(pictures | ({} if html is None else {html: _page(model.name, made)}))
    data = {"model": model.name, **asdict(made), "left": [dict(zip(_LEFT, x, strict=True)) for x in left]}
    report(data, as_json, _layer_table(model.name, made), _total_table(made))


def _balanced(
    found: list[Product], activations: dict[int, Array], right: Array | None, pes: int
) -> tuple[list[Product], dict[int, Array], Array | None]:
    """Rows in places of equal work, and the labels, which are numbers of rows."""
    from ingot.eie.balance import balanced

    better = balanced(found, activations, pes)
    return better.products, better.activations, None if right is None else better.places(right)


def _read_labels(path: Path, rows: int, samples: int) -> Array:
    """Numbers of rows, int64, as many as samples at most."""
    made = read_array(path, "int64")
    is_numbers = made.ndim == 1 and made.dtype.kind in "iu"
    wrong = made[(made < 0) | (made >= rows)] if is_numbers else made.reshape(-1)[:0]
    if wrong.size or not is_numbers:
        seen = wrong[0] if is_numbers else made.dtype if made.ndim == 1 else f"{made.ndim} axes"
        message = f"{path}: labels are whole numbers of 0 to {rows - 1} along one axis, not {seen}"
        raise InputError(message, shapes=[made.shape])
    return made[:samples].astype("int64")


Lists = Annotated[str, typer.Option(metavar="N,N,...")]
Workers = Annotated[
    int, typer.Option("--workers", min=1, max=256, help="The number of processes on this machine.")
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="HOST:PORT", help="Use a Dask scheduler, for many machines."),
]
Model = Annotated[
    Path | None,
    typer.Argument(metavar="[MODEL]", help="A compressed model (default: the nine layers of the paper)."),
]
Directory = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="The directory for pages, pictures and numbers.")
]


@app.command()
def sweep(
    model: Model = None,
    pes: Lists = "16,32,64,128,256",
    fifo: Lists = "8",
    sram_width: Lists = "64",
    precision: Lists = "16",
    workers: Workers = 1,
    scheduler: Scheduler = None,
    inputs: arg.Inputs = None,
    samples: SweepSamples = None,
    define: arg.Defines = None,
    fix: arg.Fixed = None,
    capacity: arg.Capacities = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the speed over the number of PEs.")
    ] = None,
    as_json: arg.Json = False,
) -> None:
    """Simulate every layer on every combination of PEs, queues, SRAM widths and precisions."""
    from ingot.eie import sweep as sweeping
    from ingot.eie.benchmark import BENCHMARKS

    require_place(svg)
    lists = {"pes": pes, "fifo": fifo, "sram-width": sram_width, "precision": precision}
    numbers = {name.replace("-", "_"): _numbers(name, text) for name, text in lists.items()}
    axes = replace(sweeping.Axes(errors=True), **numbers)  # type: ignore[arg-type]  # integers
    given = {
        "--input": inputs,
        "--samples": samples,
        "--define": define,
        "--fix": fix,
        "--capacity": capacity,
    }
    require_model(model, given, "the paper's layers are no model", "name a MODEL")
    with progress("Sweeping"):
        loads: list[Any] = [b.name for b in BENCHMARKS]
        if model is not None:
            options = arg.options("native", define, capacity=capacity, fix=fix)
            found, _, activations = prepared(model, options, inputs, samples or SWEPT)
            loads = [sweeping.load_of(p, activations[n]) for n, p in enumerate(found)]
        with sweeping.executor_of(workers, scheduler) as executor:
            points = sweeping.sweep(loads, axes, executor)
    if svg is not None:
        write_text(svg, _sweep_picture(points))
    data = [{**asdict(p), "microseconds": p.microseconds} for p in points]
    report(
        data, as_json, table(f"{len(points)} machines and layers", _SWEEP_COLUMNS, map(_sweep_row, points))
    )


_SWEEP_COLUMNS = (
    "layer",
    "PEs>",
    "queue>",
    "bits read>",
    "precision>",
    "cycles>",
    "us>",
    "balance %>",
    "reads>",
    "nJ>",
    "mm2>",
    "max d/y>",
)


def require_model(model: Path | None, given: Mapping[str, object], but: str, remedy: str) -> None:
    """Raises InputError for options that say something of a model, where there is none."""
    named = [option for option, value in given.items() if value]
    if model is None and named:
        raise InputError(f"{named[0]} is of a model, and {but}", remedy=remedy)


def _sweep_row(p: Point) -> tuple[object, ...]:
    from ingot.eie.energy import square_millimetres

    m = p.machine
    sizes = m.pes, m.fifo, m.sram_width, m.precision
    cost = f"{p.matrix_reads:,.0f}", f"{p.nanojoules:,.0f}", f"{square_millimetres(m):.1f}"
    error = "-" if p.error is None else f"{p.error:.1e}"
    return (
        p.layer,
        *sizes,
        f"{p.cycles:,.0f}",
        f"{p.microseconds:.2f}",
        f"{100 * p.balance:.1f}",
        *cost,
        error,
    )


def _numbers(name: str, text: str) -> tuple[int, ...]:
    words = [w.strip() for w in text.split(",")]
    if not all(w.isdecimal() and len(w) < 10 for w in words):
        raise InputError(f"--{name} {text}: write numbers with commas between them")
    return tuple(dict.fromkeys(int(w) for w in words))


def _sweep_picture(points: Sequence[Point]) -> str:
    """Microseconds over the PEs, one curve for each layer, at the first queue, width and precision."""
    from ingot.drawing.chart import Axis, Curve, curves_svg

    def rest(p: Point) -> tuple[int, int, int]:
        return p.machine.fifo, p.machine.sram_width, p.machine.precision

    first = rest(points[0])
    curves: dict[str, list[tuple[float, float]]] = {}
    for p in points:
        if rest(p) == first:
            curves.setdefault(p.layer, []).append((p.machine.pes, p.microseconds))
    made = [Curve(name, tuple(sorted(at))) for name, at in curves.items()]
    return curves_svg("Time over PEs", Axis("PEs", is_log=True), Axis("us", is_log=True), made)


PAPER = (
    "Published numbers are those that the paper prints (arXiv:1602.01528v2; the powers of processors are of "
    "arXiv:1510.00149). All others are made here, by a simulator of the machine on random layers.",
    "Layers by one rule are drawn from the percentages of Table III alone; the rule is the same for all "
    "nine. For fitted layers, the percentages and the differences between rows were chosen so that the "
    "published times come out; their bars are striped.",
    "The paper prints no numbers for its figures 8, 9, 11, 12 and 13. What its text says stands above our "
    "curves, which are for fitted layers.",
)
"""How the pages of the evaluation are to be read."""
PAGE = "eie.html"


@app.command()
def paper(
    output: Directory = Path("eie-paper"),
    workers: Workers = 1,
    scheduler: Scheduler = None,
    as_json: arg.Json = False,
) -> None:
    """Compute every table and figure of the paper, next to the published values (two minutes)."""
    from ingot.eie.paper import evaluate
    from ingot.eie.sweep import executor_of
    from ingot.inspection.page import Section, page

    require_place(output / PAGE)
    with progress("The paper's evaluation"), executor_of(workers, scheduler) as executor:
        exhibits = evaluate(executor)
    texts, sections = {}, []
    for x in exhibits:
        pictures = [_plot_svg(p) for p in x.plots]
        for n, picture in enumerate(pictures):
            texts[output / f"{x.key}{'-b' if n else ''}.svg"] = picture
        sections.append(Section(x.title, x.text, x.columns, x.rows, pictures))
    texts[output / PAGE] = page("EIE: the paper's evaluation, simulated", sections, PAPER)
    data = [asdict(x) for x in exhibits]
    texts[output / "eie.json"] = json.dumps(data, indent=2) + "\n"
    write_texts(texts)
    report(data, as_json, *(table(x.title, _right(x.columns), x.rows) for x in exhibits))


def _right(columns: Sequence[str]) -> list[str]:
    """All columns but the first aligned to the right."""
    return [columns[0], *(f"{c}>" for c in columns[1:])]


def _plot_svg(plot: Plot) -> str:
    from ingot.drawing.chart import Axis, Bars, Curve, bars_svg, curves_svg

    y = Axis(plot.y, plot.is_log_y, plot.low)
    fitted = "; striped: of fitted layers" if plot.labels else ", of fitted layers"
    title = plot.title + (fitted if any(s.is_fitted for s in plot.series) else "")
    if plot.labels:
        groups = [Bars(s.name, tuple(v for _, v in s.points), s.texts, s.is_fitted) for s in plot.series]
        return bars_svg(title, y, plot.labels, groups)
    curves = [Curve(s.name, s.points) for s in plot.series]
    return curves_svg(title, Axis(plot.x, plot.is_log_x), y, curves)


_LEFT = ("name", "op", "reason")


def prepared(
    model: Path, options: Options, words: Sequence[str] | None, samples: int
) -> tuple[list[Product], list[tuple[str, str, str]], dict[int, Array]]:
    """The products of the model, what is left, and the activations of each product."""
    from ingot.driver import front, self_contained
    from ingot.eie.feed import with_states
    from ingot.eie.layers import products

    proto = with_states(self_contained(model, options))
    graph = front(proto, options)
    found, left = products(graph)
    if not found:
        why = "; ".join(f"{x.op} {x.name!r}: {x.reason}" for x in left[:3]) or "it has no such layer"
        helps = any(x.by_compressing for x in left)
        remedy = "ingot compress MODEL --density fc=0.1 --bits fc=4 prunes them; the rest share 15 values"
        raise InputError(
            f"nothing of {model.name} runs on the accelerator: {why}",
            remedy=remedy if helps else "it computes Gemm, MatMul, RNN, GRU and LSTM with weights of float32",
        )
    return found, [(x.name, x.op, x.reason) for x in left], _activations(proto, graph, found, words, samples)


def _activations(
    proto: Any, graph: Graph, found: list[Product], words: Sequence[str] | None, samples: int
) -> dict[int, Array]:
    import numpy as np

    from ingot.check.values import values_of
    from ingot.eie.feed import vectors, wanted

    tensors = [{"name": v.name, "dtype": str(v.type)} for v in graph.inputs]
    given = arg.read_inputs(words, tensors)
    sets = values_of(proto, graph, wanted(found), given, samples)
    each = [vectors(found, values, samples) for values in sets]
    return {n: np.concatenate([e[n] for e in each])[:samples] for n in range(len(found))}


_COLUMNS = (
    "layer",
    "size",
    "weights %>",
    "active %>",
    "entries>",
    "fillers %>",
    "tiles>",
    "cycles>",
    "tiled>",
    "us>",
    "theory us>",
    "balance %>",
    "nJ>",
    "max d/y>",
)


def _layer_rows(made: Report) -> list[tuple[str, ...]]:
    microseconds = made.machine.microseconds
    return [
        (
            f"{x.name} *" if x.is_chained else x.name,
            f"{x.cols} -> {x.rows}",
            f"{100 * x.density:.1f}",
            f"{100 * x.active:.1f}",
            f"{x.entries:,}",
            f"{100 * x.fillers / max(x.entries, 1):.1f}",
            str(x.tiles),
            f"{x.cycles:,.0f}",
            f"{x.tiled_cycles:,.0f}",
            f"{x.microseconds:.3f}",
            f"{microseconds(x.theoretical):.3f}",
            f"{100 * x.balance:.1f}",
            f"{x.nanojoules:,.1f}",
            f"{x.error:.1e}",
        )
        for x in made.layers
    ]


def _layer_table(name: str, made: Report) -> Table:
    m = made.machine
    title = (
        f"{name} on {m.pes} PEs, queues of {m.fifo}, reads of {m.sram_width} bits, {m.precision}-bit numbers"
    )
    return table(title, _COLUMNS, _layer_rows(made))


def _total_rows(made: Report) -> list[tuple[str, str]]:
    chained = "  (* reads what the layer before left in the registers)"
    rows = [
        ("compute", f"{made.cycles:,.0f} cycles, {made.microseconds:.3f} us, {made.nanojoules:,.1f} nJ"),
        ("in tiles, registers filled", f"{made.tiled_cycles:,.0f} cycles, {made.tiled_microseconds:.3f} us"),
        ("of these, to expand pointers", f"{made.expand_cycles:,} cycles, {made.packed_tiles} tiles"),
        ("activations in and out", f"{made.input_output_microseconds:.3f} us"),
        ("model loaded once", f"{made.loaded_bytes:,} bytes, {made.load_microseconds:,.1f} us"),
        ("brought for every run", f"{made.streamed_bytes:,} bytes, {made.stream_microseconds:,.1f} us"),
        ("matrix SRAM of a PE", f"{made.matrix_bytes:,} bytes of {made.matrix_bytes_there:,}"),
        (
            "pointer SRAM of a PE",
            f"{made.pointer_bytes:,} bytes of {made.pointer_bytes_there:,}, {made.pointers:,} pointers",
        ),
    ]
    if made.same_winner is not None:
        rows.append(("largest result as in floats", "{} of {}".format(*made.same_winner)))
    if made.right is not None:
        count = made.layers[-1].samples
        rows.append(("as labelled", "{} of {count}, in floats {}".format(*made.right, count=count)))
    if any(x.is_chained for x in made.layers):
        rows.append(("", chained.strip()))
    return rows


def _total_table(made: Report) -> Table:
    return table("In all", ("", "mean of a vector through each"), _total_rows(made))


def _picture(made: Report) -> str:
    from ingot.drawing.chart import Axis, Bars, bars_svg

    labels = [x.name for x in made.layers]
    groups = (
        Bars("cycles", tuple(x.cycles for x in made.layers)),
        Bars("spread evenly", tuple(x.theoretical for x in made.layers)),
        Bars("in tiles", tuple(x.tiled_cycles for x in made.layers)),
    )
    return bars_svg("Cycles of each layer", Axis("cycles", low=0.0), labels, groups)


def _page(name: str, made: Report) -> str:
    from ingot.inspection.page import Section, page

    columns = tuple(c.rstrip(">") for c in _COLUMNS)
    layers = Section("Layers", "", columns, _layer_rows(made), [_picture(made)])
    return page(
        f"{name} on EIE",
        [layers, Section("In all", "", ("", "mean of a vector through each"), _total_rows(made))],
    )
