"""`ingot eie rtl`: the accelerator as Verilog, what its cells come to, and a model's layers on it."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import accelerating as arg
from ingot.cli.arguments import Capacities, Defines, Fixed, Inputs, Json, options
from ingot.cli.show import note, progress, report
from ingot.errors import MismatchError
from ingot.files import require_place, write_folder
from ingot.tables import Table, table

if TYPE_CHECKING:
    from ingot.eie.machine import Machine
    from ingot.eie.rtl.compare import Comparison
    from ingot.eie.rtl.synthesize import Block
    from ingot.options import Options

Directory = Annotated[
    Path, typer.Option("-o", "--output", metavar="DIR", help="The directory for the files.")
]
Registers = Annotated[
    int, typer.Option(metavar="N", help="The registers of each of a PE's two register files.")
]
ModelFile = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="FILE",
        help="Run this model's layers on the Verilog, with Verilator, and compare with the simulator.",
    ),
]
Synthesize = Annotated[bool, typer.Option("--synthesize", help="Count cells and estimate areas with Yosys.")]


def rtl(
    output: Directory = Path("eie"),
    pes: arg.Pes = 64,
    fifo: arg.Fifo = 8,
    sram_width: arg.Width = 64,
    precision: arg.Precision = 16,
    registers: Registers = 64,
    pointer_kb: arg.PointerKb = 32,
    matrix_kb: arg.MatrixKb = 128,
    synthesize: Synthesize = False,
    model: ModelFile = None,
    inputs: Inputs = None,
    define: Defines = None,
    fix: Fixed = None,
    capacity: Capacities = None,
    as_json: Json = False,
) -> None:
    """Write the array of PEs as Verilog, with a testbench for Verilator."""
    from ingot.eie.machine import Machine

    given = {"--input": inputs, "--define": define, "--fix": fix, "--capacity": capacity}
    arg.require_model(model, given, "Verilog without --model runs nothing", "name one: --model FILE")
    machine = Machine(
        pes,
        fifo,
        sram_width,
        precision,
        registers=registers,
        matrix_bytes=matrix_kb * 1024,
        pointer_bytes=pointer_kb * 1024,
    )
    with progress("Writing Verilog"):
        from ingot.eie.rtl.verilog import verilog

        texts = verilog(machine)
        require_place(*(output / name for name in texts))
        blocks = _synthesized(machine) if synthesize else []
    chosen = options("native", define, capacity=capacity, fix=fix)
    found = [] if model is None else _compared(model, chosen, inputs, machine)
    write_folder(output, {name: text.encode() for name, text in texts.items()})
    written = table(f"{output}/", ("file", "lines>"), [(n, t.count("\n")) for n, t in texts.items()])
    cells = [_cell_table(blocks)] if blocks else []
    layers = [_layer_table(model.name, found)] if model is not None else []
    data = {"files": sorted(texts), "blocks": [{**asdict(b), "um2": b.um2} for b in blocks]}
    data["layers"] = [asdict(c) for c in found]
    report(data, as_json, written, *cells, *layers)
    bad = [c.name for c in found if not c.ok]
    if bad:
        raise MismatchError(f"hardware and simulator differ in {', '.join(bad)}")


def _cell_table(blocks: list[Block]) -> Table:
    columns = ("module", "of these>", "cells>", "flip-flops>", "gates>", "um2>", "SRAM bits>")
    rows = [(b.name, b.count, b.cells, b.flip_flops, b.gates, round(b.um2), b.sram_bits) for b in blocks]
    return table("Cells of each module, by Yosys", columns, rows)


def _layer_table(name: str, found: list[Comparison]) -> Table:
    columns = ("layer", "rows x columns", "cycles, simulator>", "cycles, hardware>", "accumulators")
    rows = [
        (c.name, "{} x {}".format(*c.shape), f"{c.cycles:,}", f"{c.hardware:,}", _agree(c.bits_agree))
        for c in found
    ]
    return table(f"{name} on the Verilog", columns, rows)


def _agree(bits_agree: bool) -> str:
    return "equal, all bits" if bits_agree else "DIFFERENT"


def _compared(model: Path, chosen: Options, inputs: list[str] | None, machine: Machine) -> list[Comparison]:
    """The model's products with one vector each."""
    from ingot.eie.rtl.compare import compare_products
    from ingot.eie.rtl.simulate import build
    from ingot.log import announce

    with progress(f"Simulating {model.name}"), tempfile.TemporaryDirectory() as folder:
        found, left, activations = arg.prepared(model, chosen, inputs, 1)
        announce("Verilator", 0, len(found))
        program = build(machine, Path(folder))
        made = []
        for c in compare_products(found, activations, machine, program):
            made.append(c)
            announce(c.name, len(made), len(found))
    for name, op, reason in left:
        note(f"left to the host: {op} node {name!r}: {reason}")
    return made


def _synthesized(machine: Machine) -> list[Block]:
    from ingot.eie.rtl.synthesize import synthesize

    with tempfile.TemporaryDirectory() as folder:
        return synthesize(machine, Path(folder))
