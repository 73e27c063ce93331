"""Many machines on many layers, in one process or in many.

In: layers and lists of what to vary. Out: a `Point` for each layer and machine. A task is one layer on one
number of PEs: the matrix is encoded once and looked at with every queue, width and precision. Tasks go to an
executor as `concurrent.futures` has them: none, processes of this machine, or a Dask cluster. Called by
`ingot eie sweep` and for the figures of `ingot eie paper`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import product as combinations
from multiprocessing import get_context

import numpy as np

from ingot.eie import fixed
from ingot.eie.activity import Activity, activity
from ingot.eie.balance import column_order, row_order
from ingot.eie.benchmark import BENCHMARKS, Shares, codebook, draw
from ingot.eie.columns import Columns, encode_sorted
from ingot.eie.energy import energy
from ingot.eie.layers import Product
from ingot.eie.machine import Machine
from ingot.eie.timing import Timing, time
from ingot.errors import IngotError, InputError
from ingot.formula.expr import Array
from ingot.log import announce
from ingot.workers import dask_client


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """A layer to measure: its non-zeros, column by column (column * rows + row of each), and activations
    float32 [samples, cols].
    """

    name: str
    shape: tuple[int, int]
    at: Array
    codes: Array
    codebook: Array
    activations: Array


@dataclass(frozen=True, slots=True)
class Point:
    """One layer on one machine; means over the samples. `error` is max|d|/max|y| beside floats, where it was
    asked for.
    """

    layer: str
    machine: Machine
    cycles: float
    theoretical: float
    balance: float
    entries: float
    real: float
    matrix_reads: float
    nanojoules: float
    stored: int
    stored_real: int
    error: float | None

    @property
    def microseconds(self) -> float:
        return self.machine.microseconds(self.cycles)


@dataclass(frozen=True, slots=True)
class Axes:
    """What is varied; every combination is a machine.

    `placement`: rows are placed, "rows", and columns ordered, "rows and columns", before anything else.
    `shares`: which densities the paper's layers are drawn with (`benchmark.draw`).
    """

    pes: tuple[int, ...] = (64,)
    fifo: tuple[int, ...] = (8,)
    sram_width: tuple[int, ...] = (64,)
    precision: tuple[int, ...] = (16,)
    errors: bool = False
    placement: str = ""
    shares: Shares = "fitted"

    def machines(self, pes: int) -> list[Machine]:
        """All with that many PEs."""
        return [Machine(pes, f, w, b) for f, w, b in combinations(self.fifo, self.sram_width, self.precision)]


def load_of(product: Product, activations: Array) -> Load:
    """A model's product and the activations it meets."""
    turned = np.ascontiguousarray(product.codes.T).reshape(-1)
    at = np.flatnonzero(turned)
    return Load(product.name, product.shape, at, turned[at], product.codebook, activations)


@cache
def benchmark_load(name: str, shares: Shares = "fitted") -> Load:
    """A layer of the paper's evaluation, by its name. A process draws it once."""
    found = next(b for b in BENCHMARKS if b.name == name)
    drawn = draw(found, shares=shares)
    return Load(name, drawn.shape, drawn.at, drawn.codes, codebook(), drawn.activations[None])


def measure(load: Load | str, pes: int, axes: Axes) -> list[Point]:
    """One task. A name stands for a layer of the evaluation."""
    if isinstance(load, str):
        load = benchmark_load(load, axes.shares)
    if axes.placement:
        load = placed(load, pes, axes.placement != "rows")
    columns = encode_sorted(load.shape, load.at, load.codes, pes)
    machines, samples = axes.machines(pes), load.activations
    # Cycles depend on the queue alone, counts on the width, errors on the precision.
    by_queue = {m.fifo: m for m in machines}
    timings = {f: [time(columns, a, m) for a in samples] for f, m in by_queue.items()}
    by_width = {m.sram_width: m for m in machines}
    counts = {w: [activity(columns, a, m) for a in samples] for w, m in by_width.items()}
    errors = {b: _error(load, columns, b) if axes.errors else None for b in axes.precision}
    return [
        _point(load, columns, m, timings[m.fifo], counts[m.sram_width], errors[m.precision]) for m in machines
    ]


def placed(load: Load, pes: int, with_columns: bool) -> Load:
    """The layer with its rows placed and its columns ordered, all activations taken to be as likely."""
    rows, cols = load.shape
    column, row = np.divmod(load.at, rows)
    order = row_order(np.bincount(row, minlength=rows).astype(np.float64), pes)
    moved = np.empty(rows, np.int64)
    moved[order] = np.arange(rows)
    load = _sorted(load, column * rows + moved[row], load.activations)
    if not with_columns:
        return load
    lengths = encode_sorted(load.shape, load.at, load.codes, pes).lengths
    order = column_order(lengths, np.ones(cols))
    moved = np.empty(cols, np.int64)
    moved[order] = np.arange(cols)
    column, row = np.divmod(load.at, rows)
    return _sorted(load, moved[column] * rows + row, load.activations[:, order])


def _sorted(load: Load, at: Array, activations: Array) -> Load:
    order = np.argsort(at, kind="stable")
    return replace(load, at=at[order], codes=load.codes[order], activations=activations)


def _point(
    load: Load,
    columns: Columns,
    machine: Machine,
    timings: Sequence[Timing],
    counts: Sequence[Activity],
    error: float | None,
) -> Point:
    n, cycles = len(timings), sum(t.cycles for t in timings)
    spent = sum(energy(c, t.cycles, machine).total for c, t in zip(counts, timings, strict=True))
    return Point(
        layer=load.name,
        machine=machine,
        cycles=cycles / n,
        theoretical=sum(t.theoretical for t in timings) / n,
        balance=sum(t.theoretical for t in timings) / cycles,
        entries=sum(c.entries for c in counts) / n,
        real=sum(c.writes for c in counts) / n,
        matrix_reads=sum(c.matrix_reads for c in counts) / n,
        nanojoules=spent / n,
        stored=len(columns.codes),
        stored_real=len(columns.codes) - columns.fillers,
        error=error,
    )


def _error(load: Load, columns: Columns, bits: int) -> float:
    a = load.activations[0]
    arithmetic = fixed.arrange(columns, load.codebook, a, bits)
    ints = fixed.quantise(a, arithmetic.activation_places, bits)
    got = fixed.real(fixed.product(columns, arithmetic, ints), arithmetic.sum_places)
    row, column = columns.places
    terms = load.codebook[columns.codes].astype(np.float64) * a[column]
    wanted = np.bincount(row, terms, minlength=columns.shape[0])
    return float(np.abs(got - wanted).max(initial=0) / max(np.abs(wanted).max(initial=0), 1e-30))


def sweep(loads: Sequence[Load | str], axes: Axes, executor: Executor | None = None) -> list[Point]:
    """Every layer on every machine, in the order of layers, PEs, queues, widths, precisions."""
    for pes in axes.pes:
        axes.machines(pes)  # machines that cannot be are refused before any work
    return run_tasks([(load, pes, axes) for load in loads for pes in axes.pes], executor)


def run_tasks(tasks: Sequence[tuple[Load | str, int, Axes]], executor: Executor | None = None) -> list[Point]:
    """The points of all tasks, in their order."""
    found: list[list[Point]] = [[] for _ in tasks]
    if executor is None:
        for n, task in enumerate(tasks):
            announce(_title(task), n, len(tasks))
            found[n] = measure(*task)
    else:
        futures = {executor.submit(measure, *task): n for n, task in enumerate(tasks)}
        for done, future in enumerate(as_completed(futures), 1):
            n = futures[future]
            found[n] = _result(future, _title(tasks[n]))
            announce(_title(tasks[n]), done, len(tasks))
    return [point for points in found for point in points]


def _result(future: Future[list[Point]], title: str) -> list[Point]:
    """What a worker found. Raises InputError where it failed for reasons of its own."""
    try:
        return future.result()
    except IngotError:
        raise
    except Exception as error:  # whatever a machine we do not know can come to
        reason = str(error).partition("\n")[0] or type(error).__name__
        message = f"a worker failed at {title}: {reason}"
        raise InputError(message, remedy="workers need memory, and Ingot in the same version") from None


def _title(task: tuple[Load | str, int, Axes]) -> str:
    load, pes, _ = task
    return f"{load if isinstance(load, str) else load.name}, {pes} PEs"


@contextmanager
def executor_of(workers: int, scheduler: str | None) -> Iterator[Executor | None]:
    """None for one worker; processes; or the cluster behind a Dask scheduler's address.

    Raises InputError where `distributed` is not installed or nobody answers.
    """
    if scheduler is not None:
        with dask_client(scheduler) as client, client.get_executor() as made:
            yield made
    elif workers > 1:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            yield pool
    else:
        yield None
