"""The hardware beside the simulator: random layers on several machines, then the nine layers of the paper.

    python -m tests.rtl [--pes 64] [--scale 1] [--update]

Verilator runs the Verilog; cycles and accumulators must equal those of `ingot.eie` exactly. Yosys counts the
cells. `--scale N` divides the sides of the nine layers by N. `--update` writes the tables into
docs/hardware.md. The status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from ingot.eie import fixed, steps
from ingot.eie.benchmark import BENCHMARKS, Benchmark, codebook, draw
from ingot.eie.columns import encode
from ingot.eie.layers import Product
from ingot.eie.machine import Machine
from ingot.eie.rtl import host
from ingot.eie.rtl.compare import Comparison, compare, compare_products
from ingot.eie.rtl.simulate import build, simulate
from ingot.eie.rtl.synthesize import Block, synthesize
from ingot.graph.ir import Value

DOCUMENT = Path(__file__).parents[2] / "docs" / "hardware.md"
SMALL = {"matrix_bytes": 4096, "pointer_bytes": 1000, "registers": 33}
MACHINES = (
    Machine(pes=4, **SMALL),  # type: ignore[arg-type]  # whole numbers
    Machine(pes=7, fifo=2, precision=8, **SMALL),  # type: ignore[arg-type]
    Machine(pes=16, fifo=3, sram_width=32, **SMALL),  # type: ignore[arg-type]
    Machine(pes=5, fifo=9, sram_width=16, precision=32, **SMALL),  # type: ignore[arg-type]
    Machine(pes=2, fifo=16, sram_width=8, **SMALL),  # type: ignore[arg-type]
)
LAYERS = 12


def random_layers(machine: Machine, folder: Path) -> Iterator[Comparison]:
    """Layers of any size that fits, with bias, negative activations and sums that saturate."""
    rng = np.random.default_rng(machine.pes)
    program = build(machine, folder)
    for number in range(LAYERS):
        rows, cols = (int(rng.integers(1, machine.pes * 30)) for _ in range(2))
        kept = rng.random((rows, cols)) < rng.choice([0.0, 0.02, 0.1, 0.5]) * min(1, 2e4 / (rows * cols))
        columns = encode((rng.integers(1, 16, (rows, cols)) * kept).astype(np.uint8), machine.pes)
        values = rng.normal(size=cols) * (rng.random(cols) < rng.choice([0.1, 0.5, 1.0]))
        book = np.append(0, rng.normal(size=15))
        headroom = int(rng.integers(-2, 2))
        arithmetic = fixed.arrange(columns, book, values, machine.precision, headroom=headroom)
        arithmetic = replace(arithmetic, sum_places=min(arithmetic.sum_places, _most_places(arithmetic)))
        activations = fixed.quantise(values, arithmetic.activation_places, machine.precision)
        initial = rng.integers(-100, 100, rows)
        made = steps.run(columns, arithmetic, activations, machine, initial)
        commands = host.layer(columns, arithmetic, activations, machine, initial)
        found = simulate(program, [*commands, *host.reading(rows, machine)])
        same = np.array_equal(made.accumulators, found.read)
        yield Comparison(f"{machine}, layer {number}", (rows, cols), made.cycles, found.cycles[0], same)


def _most_places(arithmetic: fixed.Arithmetic) -> int:
    return arithmetic.weight_places + arithmetic.activation_places


def two_layers(machine: Machine, folder: Path) -> Comparison:
    """A layer whose results are the next one's activations: the files change places, ReLU on the way."""
    rng = np.random.default_rng(1)
    program = build(machine, folder)
    sizes = (50, 40, 30)
    layers = [
        encode((rng.integers(1, 16, shape) * (rng.random(shape) < 0.2)).astype(np.uint8), machine.pes)
        for shape in ((sizes[1], sizes[0]), (sizes[2], sizes[1]))
    ]
    book = fixed.quantise(np.append(0, rng.normal(size=15)), 12, 16)
    arithmetic = fixed.Arithmetic(book, 16, 12, 10, 10)
    first = fixed.quantise(rng.normal(size=sizes[0]), 10, 16)
    hidden = steps.run(layers[0], arithmetic, first, machine)
    last = steps.run(layers[1], arithmetic, fixed.relu(hidden.accumulators), machine)
    found = simulate(program, list(_chained(layers, arithmetic, first, machine)))
    same = np.array_equal(last.accumulators, found.read)
    return Comparison(
        "two layers", (sizes[2], sizes[0]), hidden.cycles + last.cycles, sum(found.cycles), same
    )


def a_model(machine: Machine, folder: Path) -> list[Comparison]:
    """Two dense layers with biases and a ReLU between, as `ingot eie rtl --model` runs them; in batches."""
    rng = np.random.default_rng(2)
    program, sizes = build(machine, folder), (machine.batch + 30, 60, 20)
    book = np.append(0, rng.normal(size=15)).astype(np.float32)
    found, activations = [], {0: np.maximum(rng.normal(size=(1, sizes[0])), 0)}
    for n in range(2):
        shape = sizes[n + 1], sizes[n]
        codes = (rng.integers(1, 16, shape) * (rng.random(shape) < 0.2)).astype(np.uint8)
        bias = rng.normal(size=shape[0]).astype(np.float32)
        after = 1 if n == 0 else None
        found.append(Product(f"dense {n}", codes, book, bias, Value("x"), None, has_relu=True, next=after))
        activations[n + 1] = np.maximum(activations[n] @ book[codes].T + bias, 0)
    return list(compare_products(found, activations, machine, program))


def _chained(layers: list[Any], arithmetic: fixed.Arithmetic, first: Any, machine: Machine) -> Iterator[Any]:
    yield from host.layer(layers[0], arithmetic, first, machine)
    yield from host.loading(layers[1], arithmetic, machine)
    # The new accumulators are the old activations' registers.
    for place in range(machine.registers):
        for pe in range(machine.pes):
            yield host.Command(host.Space.SOURCE, place, 0, pe)
    length = layers[1].shape[1]
    yield from host.computing(length, arithmetic.shift, machine, swap=True, relu=True)
    yield from host.reading(layers[1].shape[0], machine)


def benchmark_layer(layer: Benchmark, machine: Machine, program: Path) -> Comparison:
    """One of the nine, in tiles as they lie in the SRAMs."""
    drawn = draw(layer)
    columns = drawn.columns(machine.pes)
    arithmetic = fixed.arrange(columns, codebook(), drawn.activations, machine.precision)
    activations = fixed.quantise(drawn.activations, arithmetic.activation_places, machine.precision)
    return compare(layer.name, columns, arithmetic, activations, machine, program)


def table(rows: list[Comparison]) -> str:
    """The nine layers as Markdown."""
    lines = [
        "| layer | rows x columns | cycles, simulator | cycles, hardware | accumulators |",
        "|---|---|--:|--:|---|",
    ]
    for r in rows:
        agree = "equal, all bits" if r.bits_agree else "DIFFERENT"
        lines.append(f"| {r.name} | {r.shape[0]} x {r.shape[1]} | {r.cycles:,} | {r.hardware:,} | {agree} |")
    return "\n".join(lines)


def cells(blocks: list[Block]) -> str:
    """The modules as Markdown."""
    lines = [
        "| module | instances | cells | flip-flops | gates | um2 at 45 nm | SRAM bits |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for b in blocks:
        counts = (b.count, b.cells, b.flip_flops, b.gates, round(b.um2), b.sram_bits)
        lines.append(f"| `{b.name}` | {' | '.join(f'{n:,}' for n in counts)} |")
    return "\n".join(lines)


def update(**tables: str) -> None:
    """Put the tables between their marks."""
    text = DOCUMENT.read_text(encoding="utf-8")
    for name, made in tables.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{made}\n{end}{rest.split(end)[1]}"
    DOCUMENT.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rtl")
    parser.add_argument("--pes", type=int, default=64)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--update", action="store_true")
    asked = parser.parse_args()
    console, nine, others = Console(), [], []
    total = len(MACHINES) * LAYERS + 2 + len(BENCHMARKS)
    with tempfile.TemporaryDirectory() as name, Progress(console=console, transient=True) as bar:
        work, job = Path(name), bar.add_task("Random layers", total=total)
        for n, machine in enumerate(MACHINES):
            for row in random_layers(machine, work / str(n)):
                others.append(row)
                bar.advance(job)
        others.append(two_layers(MACHINES[0], work / "0"))
        others += a_model(MACHINES[0], work / "0")
        bar.update(job, advance=2, description="The nine layers")
        machine = Machine(pes=asked.pes)
        program = build(machine, work / "nine")
        for layer in BENCHMARKS:
            sides = {"inputs": layer.inputs // asked.scale, "outputs": layer.outputs // asked.scale}
            nine.append(benchmark_layer(replace(layer, **sides), machine, program))
            bar.update(job, advance=1, description=layer.name)
        blocks = synthesize(machine, work / "cells")
    bad = [row for row in [*others, *nine] if not row.ok]
    console.print(table(nine), cells(blocks), sep="\n\n", markup=False)
    console.print(f"{len(others) + len(nine) - len(bad)} layers agree, {len(bad)} differ")
    for row in bad:
        console.print(str(row), markup=False)
    if asked.update and not bad:
        update(layers=table(nine), cells=cells(blocks))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
