"""`ingot eie rtl`: the accelerator as Verilog, and what its cells come to."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import accelerating as arg
from ingot.cli.arguments import Json
from ingot.cli.files import write_text
from ingot.cli.show import progress, report, table

if TYPE_CHECKING:
    from ingot.eie.machine import Machine
    from ingot.eie.rtl.synthesize import Block

Directory = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the files go.")]
Registers = Annotated[int, typer.Option(metavar="N", help="Of each of a PE's two register files.")]
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
    as_json: Json = False,
) -> None:
    """Write the array of PEs as Verilog, with a testbench for Verilator."""
    from ingot.eie.machine import Machine

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
        output.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_text(output / name, text)
        blocks = _synthesized(machine) if synthesize else []
    rows = [(b.name, b.count, b.cells, b.flip_flops, b.gates, round(b.um2), b.sram_bits) for b in blocks]
    columns = ("module", "of these>", "cells>", "flip-flops>", "gates>", "um2>", "SRAM bits>")
    written = table(f"{output}/", ("file", "lines>"), [(n, t.count("\n")) for n, t in texts.items()])
    cells = [table("Cells of each module, by Yosys", columns, rows)] if blocks else []
    data = {"files": sorted(texts), "blocks": [{**asdict(b), "um2": b.um2} for b in blocks]}
    report(data, as_json, written, *cells)


def _synthesized(machine: Machine) -> list[Block]:
    from ingot.eie.rtl.synthesize import synthesize

    with tempfile.TemporaryDirectory() as folder:
        return synthesize(machine, Path(folder))
