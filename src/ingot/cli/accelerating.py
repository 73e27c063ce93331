"""`ingot eie`: a compressed model on the simulated accelerator EIE; sweeps; the paper's evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.inspecting import write_text
from ingot.cli.show import note, progress, report, table
from ingot.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from ingot.eie.layers import Product
    from ingot.eie.run import Report
    from ingot.formula.expr import Array
    from ingot.graph.ir import Graph
    from ingot.options import Options

app = typer.Typer(
    name="eie", help="Compressed models on the simulated accelerator EIE.", no_args_is_help=True
)
Pes = Annotated[int, typer.Option("--pes", metavar="N", help="Processing elements.")]
Fifo = Annotated[
    int, typer.Option("--fifo", metavar="N", help="Entries of an activation queue; it holds one less.")
]
Width = Annotated[int, typer.Option("--sram-width", metavar="BITS", help="Of a read of the matrix SRAM.")]
Precision = Annotated[
    int, typer.Option(metavar="BITS", help="Of activations, shared weights and sums: 8, 16, 32.")
]
Clock = Annotated[float, typer.Option("--clock-mhz", metavar="MHZ")]
HostBits = Annotated[
    int, typer.Option("--host-bits", metavar="BITS", help="What the host interface moves per cycle.")
]
PointerKb = Annotated[int, typer.Option("--pointer-kb", metavar="KB", help="Pointer SRAM of a PE.")]
MatrixKb = Annotated[int, typer.Option("--matrix-kb", metavar="KB", help="Matrix SRAM of a PE.")]
Samples = Annotated[
    int, typer.Option(min=1, max=4096, help="Runs of the model, and vectors of each product, at most.")
]
BiasColumns = Annotated[
    bool, typer.Option("--bias-columns", help="Biases as columns of the matrix, rounded to shared weights.")
]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page of the report.")]
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
    samples: Samples = 16,
    bias_columns: BiasColumns = False,
    define: arg.Defines = None,
    capacity: arg.Capacities = None,
    svg: Svg = None,
    html: Html = None,
    as_json: arg.Json = False,
) -> None:
    """Simulate the dense and recurrent layers of a compressed model, cycle by cycle."""
    from ingot.eie.machine import Machine

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

        options = arg.options("native", define, capacity=capacity)
        found, left, activations = _prepared(model, options, inputs, samples)
        made = simulate(found, activations, machine, bias_columns)
    for name, op, reason in left:
        note(f"left to the host: {op} node {name!r}: {reason}")
    if svg is not None:
        write_text(svg, _picture(made))
    if html is not None:
        write_text(html, _page(model.name, made))
    data = {"model": model.name, **asdict(made), "left": [dict(zip(_LEFT, x, strict=True)) for x in left]}
    report(data, as_json, _layer_table(model.name, made), _total_table(made))


_LEFT = ("name", "op", "reason")


def _prepared(
    model: Path, options: Options, words: Sequence[str] | None, samples: int
) -> tuple[list[Product], list[tuple[str, str, str]], dict[int, Array]]:
    """The products of the model, what is left, and the activations of each product."""
    from ingot.driver import front
    from ingot.eie.feed import with_states
    from ingot.eie.layers import products
    from ingot.frontends.canonical import canonical
    from ingot.frontends.onnx import read_proto

    proto = with_states(read_proto(canonical(model, options)))
    graph = front(proto, options)
    found, left = products(graph)
    if not found:
        why = "; ".join(f"{x.op} {x.name!r}: {x.reason}" for x in left[:3]) or "it has no such layer"
        raise InputError(
            f"nothing of {model.name} runs on the accelerator: {why}",
            remedy="ingot compress MODEL --bits fc=4 makes its weights share 16 values",
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
        ("activations in and out", f"{made.input_output_microseconds:.3f} us"),
        ("model loaded once", f"{made.loaded_bytes:,} bytes, {made.load_microseconds:,.1f} us"),
        ("brought for every run", f"{made.streamed_bytes:,} bytes, {made.stream_microseconds:,.1f} us"),
        ("rows of the matrix SRAM", f"{made.matrix_rows:,} of {made.matrix_rows_there:,}"),
        ("pointers", f"{made.pointers:,}, room for {made.pointers_there:,}"),
    ]
    if made.same_winner is not None:
        rows.append(("largest result as in floats", "{} of {}".format(*made.same_winner)))
    if any(x.is_chained for x in made.layers):
        rows.append(("", chained.strip()))
    return rows


def _total_table(made: Report) -> Table:
    return table("In all", ("", "mean of a vector through each"), _total_rows(made))


def _picture(made: Report) -> str:
    from ingot.inspect.chart import Axis, Bars, bars_svg

    labels = [x.name for x in made.layers]
    groups = (
        Bars("cycles", tuple(x.cycles for x in made.layers)),
        Bars("spread evenly", tuple(x.theoretical for x in made.layers)),
        Bars("in tiles", tuple(x.tiled_cycles for x in made.layers)),
    )
    return bars_svg("Cycles of each layer", Axis("cycles", low=0.0), labels, groups)


def _page(name: str, made: Report) -> str:
    from ingot.inspect.page import Section, page

    columns = tuple(c.rstrip(">") for c in _COLUMNS)
    layers = Section("Layers", "", columns, _layer_rows(made), [_picture(made)])
    return page(
        f"{name} on EIE",
        [layers, Section("In all", "", ("", "mean of a vector through each"), _total_rows(made))],
    )
