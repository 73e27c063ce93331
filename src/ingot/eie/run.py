"""Running a model's products on the accelerator: cycles, energy, and how far the results are from floats.

In: products, activations for each (float [samples, cols]), a machine. Out: a `Report`. Called by
`ingot eie run` and by the sweep. Layers that follow each other with nothing but a ReLU between swap the
register files: the integers that one leaves are what the next one reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ingot.eie import fixed
from ingot.eie.activity import NOTHING, Activity, activity
from ingot.eie.columns import Columns, bias_column, encode, with_bias, with_one
from ingot.eie.energy import energy
from ingot.eie.layers import Product
from ingot.eie.machine import Machine
from ingot.eie.memory import Placed, Placement, Tile, host_cycles, loaded_bytes, place, tiles
from ingot.eie.timing import Timing, time
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.log import announce

MOST = float(np.finfo(np.float32).max)
ROWS_AT_ONCE = 128
SRAM_ACTIVATIONS = 4
"""Activations that one access of the activation SRAM moves, 64 bits."""


@dataclass(frozen=True, slots=True)
class LayerReport:
    """One product; counts and cycles are means over the samples.

    `cycles` is the paper's model: the whole layer in one piece. `tiled_cycles` is the machine as it is sized:
    tile after tile, with the register files filled and emptied for each. `error` is max|d|/max|y| of the
    results beside the float model's.
    """

    name: str
    rows: int
    cols: int
    density: float
    active: float
    samples: int
    entries: int
    fillers: int
    tiles: int
    cycles: float
    tiled_cycles: float
    theoretical: float
    balance: float
    multiply_adds: float
    microseconds: float
    nanojoules: float
    milliwatts: float
    error: float
    is_chained: bool
    load_cycles: int


@dataclass(frozen=True, slots=True)
class Report:
    """A model on a machine. `load_microseconds` is the host's time to bring the model once,
    `stream_microseconds` what it adds to every run where the SRAMs do not hold all of it; `expand_cycles`,
    a part of `tiled_cycles`, is what pointers kept as lengths take. Bytes and pointers are those of a PE.
    `same_winner`: how often the largest of the last results is the float model's, and of how many samples.
    `right`: how often it is the label's, in fixed point and in floats, where labels were given.
    """

    machine: Machine
    layers: tuple[LayerReport, ...]
    cycles: float
    tiled_cycles: float
    microseconds: float
    tiled_microseconds: float
    expand_cycles: int
    nanojoules: float
    loaded_bytes: int
    load_microseconds: float
    streamed_bytes: int
    stream_microseconds: float
    input_output_microseconds: float
    matrix_bytes: int
    matrix_bytes_there: int
    pointers: int
    pointer_bytes: int
    pointer_bytes_there: int
    packed_tiles: int
    fits: bool
    same_winner: tuple[int, int] | None
    right: tuple[int, int] | None


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A product made ready: its columns, the activations with what the bias needs, and the float results."""

    product: Product
    columns: Columns
    activations: Array
    initial: Array | None
    wanted: Array


def run(
    found: Sequence[Product],
    activations: Mapping[int, Array],
    machine: Machine,
    bias_columns: bool = False,
    labels: Array | None = None,
) -> Report:
    """All products with their activations, by number. Raises InputError for what does not fit.

    A bias is what the accumulators hold at the start; with `bias_columns` it is one more column of the
    matrix, as in the paper, rounded to the codebook. `labels`, int64 [samples], are the numbers of the rows
    of the last product that should win.
    """
    work = []
    for n, product in enumerate(found):
        announce(product.name, n, 2 * len(found))
        work.append(prepare(product, activations[n], machine, bias_columns))
    placement = place(tiles([w.columns for w in work], machine), machine)
    feeds: dict[int, tuple[Array, int]] = {}
    layers = []
    for n, w in enumerate(work):
        announce(w.product.name, len(found) + n, 2 * len(found))
        own = [p for p in placement.placed if p.tile.layer == n]
        layer, sums, places = _layer(w, own, feeds.get(n), machine)
        layers.append(layer)
        if w.product.next is not None:
            feeds[w.product.next] = passed_on(w.product, sums), places
    results = fixed.real(sums, places) if work else np.zeros((0, 0))
    return _report(layers, placement, machine, work, results, labels)


def prepare(product: Product, activations: Array, machine: Machine, bias_columns: bool) -> Work:
    """The product's columns and what is to come out, as floats."""
    codes, bias, a = product.codes, product.bias, np.atleast_2d(activations).astype(np.float32)
    if a.shape[1] != codes.shape[1]:
        raise InputError(
            f"{a.shape[1]} activations for {codes.shape[1]} columns", node=product.name, shapes=[codes.shape]
        )
    if not all(np.isfinite(x).all() for x in (a, product.codebook, 0 if bias is None else bias)):
        raise InputError("activations, weights and biases must be finite numbers", node=product.name)
    wanted = _floats(codes, product.codebook, a) + (0 if bias is None else bias)
    if not (np.abs(wanted) < MOST).all():
        raise InputError("its results are beyond float32", node=product.name)
    if bias is not None and bias_columns:
        nearest = np.abs(bias[:, None] - product.codebook).argmin(axis=1).astype(np.uint8)
        codes = with_bias(codes, nearest, machine.pes)
        length = bias_column(a.shape[1], machine.pes) + 1
        a, bias = np.array([with_one(x, length) for x in a]), None
    return Work(product, encode(codes, machine.pes, machine.gap_bits), a, bias, wanted)


def _floats(codes: Array, codebook: Array, activations: Array) -> Array:
    """The product in floats, float64 [samples, rows], by blocks of rows: weights as floats are many."""
    x, book = activations.astype(np.float64), codebook.astype(np.float64)
    out = np.empty((len(x), len(codes)))
    for row in range(0, len(codes), ROWS_AT_ONCE):
        block = slice(row, row + ROWS_AT_ONCE)
        np.matmul(x, book[codes[block]].T, out=out[:, block])
    return out


def arranged(
    w: Work, fed: tuple[Array, int] | None, machine: Machine
) -> tuple[fixed.Arithmetic, Array, Array | None]:
    """How a layer computes, its activations as integers [samples, cols], what its accumulators begin with.

    `fed`: integers of the layer before and their binary places.
    """
    given = fed[1] if fed else None
    bits = machine.precision
    arithmetic = fixed.arrange(w.columns, w.product.codebook, w.activations, bits, w.initial, given)
    ints = fixed.quantise(w.activations, arithmetic.activation_places, bits)
    if fed:
        ints[:, : w.product.shape[1]] = fed[0]
    start = None if w.initial is None else fixed.quantise(w.initial, arithmetic.sum_places, bits)
    return arithmetic, ints, start


def passed_on(product: Product, sums: Array) -> Array:
    """What the next layer reads of a layer's sums."""
    return fixed.relu(sums) if product.has_relu else sums


def _layer(
    w: Work, parts: Sequence[Placed], fed: tuple[Array, int] | None, machine: Machine
) -> tuple[LayerReport, Array, int]:
    """One layer's report, its sums int64 [samples, rows] and their binary places."""
    arithmetic, ints, start = arranged(w, fed, machine)
    sums = np.array([fixed.product(w.columns, arithmetic, a, start) for a in ints])
    timings = [time(w.columns, a, machine) for a in ints]
    tiled = [_tiled([p.tile for p in parts], a, machine) for a in ints]
    done = sum((activity(w.columns, a, machine) for a in ints), NOTHING)
    difference = np.abs(fixed.real(sums, arithmetic.sum_places) - w.wanted).max(initial=0)
    error = float(difference / max(np.abs(w.wanted).max(initial=0), 1e-30))
    report = _layer_report(w, parts, timings, tiled, done, error, fed is not None, machine)
    return report, sums, arithmetic.sum_places


def _tiled(parts: Sequence[Tile], a: Array, machine: Machine) -> int:
    """Tile after tile: activations into the registers, the product, sums back."""
    fill = -(-machine.registers // SRAM_ACTIVATIONS)
    total = 0
    for t in parts:
        total += time(t.columns, a[t.column : t.column + t.columns.shape[1]], machine).cycles
    return total + (2 * fill * len(parts) if len(parts) > 1 else 0)


def _layer_report(
    w: Work,
    parts: Sequence[Placed],
    timings: Sequence[Timing],
    tiled: Sequence[int],
    done: Activity,
    error: float,
    is_chained: bool,
    machine: Machine,
) -> LayerReport:
    n, columns = max(len(timings), 1), w.columns
    cycles = sum(t.cycles for t in timings)
    spent = energy(done, cycles, machine)
    rows, cols = w.product.shape
    return LayerReport(
        name=w.product.name,
        rows=rows,
        cols=cols,
        density=np.count_nonzero(w.product.codes) / max(rows * cols, 1),
        active=float(np.count_nonzero(w.activations)) / max(w.activations.size, 1),
        samples=len(timings),
        entries=len(columns.codes),
        fillers=columns.fillers,
        tiles=len(parts),
        cycles=cycles / n,
        tiled_cycles=sum(tiled) / n,
        theoretical=sum(t.theoretical for t in timings) / n,
        balance=sum(t.theoretical for t in timings) / max(cycles, 1),
        multiply_adds=sum(t.entries for t in timings) / n,
        microseconds=machine.microseconds(cycles / n),
        nanojoules=spent.total / n,
        milliwatts=spent.total / max(machine.microseconds(cycles), 1e-12),
        error=error,
        is_chained=is_chained,
        load_cycles=host_cycles(sum(loaded_bytes(p, machine) for p in parts), machine),
    )


def _moved(found: Sequence[Product]) -> int:
    """Activations that the host brings, each vector once though several products read it, and takes."""
    fed = {p.next for p in found}
    brought = {(p.source, p.state): p.shape[1] for n, p in enumerate(found) if n not in fed}
    return sum(brought.values()) + sum(p.shape[0] for p in found if p.next is None)


def _same_winner(w: Work, results: Array) -> tuple[int, int] | None:
    """How often the largest result is the float model's, of how many samples."""
    if w.product.state is not None or w.product.shape[0] < 2:
        return None
    same = results.argmax(axis=1) == w.wanted.argmax(axis=1)
    return int(same.sum()), len(same)


def _right(w: Work, results: Array, labels: Array | None) -> tuple[int, int] | None:
    """How often the largest result is the label's, in fixed point and in floats."""
    if labels is None:
        return None
    if w.product.state is not None or w.product.shape[0] < 2:
        kind = "a gate of a recurrent layer" if w.product.state is not None else "one row"
        raise InputError(
            f"labels are numbers of the last product's rows, and this is {kind}, whose largest is no class",
            node=w.product.name,
            remedy="leave --labels out",
        )
    if len(labels) != len(results):
        raise InputError(
            f"{len(labels)} labels for {len(results)} samples",
            node=w.product.name,
            remedy="give one for each; --samples says how many are run",
        )
    fixed_point, floats = (int((x.argmax(axis=1) == labels).sum()) for x in (results, w.wanted))
    return fixed_point, floats


def _report(
    layers: Sequence[LayerReport],
    placement: Placement,
    machine: Machine,
    work: Sequence[Work],
    results: Array,
    labels: Array | None,
) -> Report:
    cycles, tiled = sum(x.cycles for x in layers), sum(x.tiled_cycles for x in layers)
    tiled += placement.move_cycles

    def host(data: int) -> float:
        return machine.microseconds(host_cycles(data, machine))

    return Report(
        machine=machine,
        layers=tuple(layers),
        cycles=cycles,
        tiled_cycles=tiled,
        microseconds=machine.microseconds(cycles),
        tiled_microseconds=machine.microseconds(tiled),
        expand_cycles=placement.move_cycles,
        nanojoules=sum(x.nanojoules for x in layers),
        loaded_bytes=placement.loaded_bytes,
        load_microseconds=host(placement.loaded_bytes),
        streamed_bytes=placement.streamed_bytes,
        stream_microseconds=host(placement.streamed_bytes),
        input_output_microseconds=host(machine.precision // 8 * _moved([w.product for w in work])),
        matrix_bytes=placement.matrix_bytes,
        matrix_bytes_there=machine.matrix_bytes,
        pointers=placement.pointers,
        pointer_bytes=placement.pointer_bytes,
        pointer_bytes_there=machine.pointer_bytes,
        packed_tiles=placement.packed,
        fits=placement.fits,
        same_winner=_same_winner(work[-1], results) if work else None,
        right=_right(work[-1], results, labels) if work else None,
    )
