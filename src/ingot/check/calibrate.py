"""Representative data through a model: what values each of its float tensors takes.

In: a model, options, samples. Out: a `Profile`. The model is compiled with a copy of every float tensor as an
output, and runs here, in processes, or on a Dask cluster. Called by `ingot profile`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx

from ingot.bundle.bundle import Bundle
from ingot.check.layers import OUTPUTS_AT_ONCE, Build
from ingot.check.oracle import with_copies
from ingot.check.verify import whole
from ingot.data.samples import Input, Samples
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.frontends.canonical import canonical
from ingot.frontends.onnx import read_with
from ingot.graph.ir import Graph, Value
from ingot.log import announce
from ingot.ops.infer import infer
from ingot.options import Options
from ingot.quantization.profile import VERSION, Profile, graph_digest
from ingot.quantization.tally import Tally
from ingot.workers import spread

RUNS_A_TASK = 16  # never more or fewer: sums are added task by task, in whatever process
_LOCK = threading.Lock()  # a bundle's arena serves one run at a time, and Dask's workers have threads


@dataclass(frozen=True, slots=True)
class Subject:
    """A float model to be profiled: in ONNX's terms, as a graph, and how it is built."""

    proto: onnx.ModelProto
    graph: Graph
    options: Options

    @property
    def inputs(self) -> list[Input]:
        """What the model takes. Raises InputError where that is no tensors."""
        for port in self.graph.ports[0]:
            if port.kind != "tensor":
                raise InputError(f"input {port.name!r} is a {port.kind}: only tensors can be fed from files")
        return [
            Input(v.name, str(v.type), tuple(d if isinstance(d, int) else str(d) for d in v.shape or ()))
            for v in self.graph.inputs
        ]

    @property
    def observed(self) -> list[str]:
        """The float tensors that the file's nodes make at run time, in the graph's order."""
        made = {name for node in self.proto.graph.node for name in node.output}
        return [
            v.name
            for node in self.graph.nodes
            for v in node.outputs
            if v is not None and v.constant is None and v.name in made and _is_float(v)
        ]


@dataclass(frozen=True, slots=True)
class Profiled:
    """A profile, and what is to be said of it.

    `dropped`: elements of each tensor that are not finite; `left_out`: samples too few for the model's batch.
    """

    profile: Profile
    dropped: Mapping[str, int]
    left_out: int


def subject(model: Any, options: Options) -> Subject:
    """Read a model that is to be profiled. Raises InputError."""
    proto = whole(canonical(model, options))
    return Subject(proto, infer(read_with(proto, options)), options)


def calibrate(
    of: Subject, samples: Samples, build: Build, workers: int = 1, scheduler: str | None = None
) -> Profiled:
    """Run all samples and tally every float tensor; the result does not depend on the workers.

    Raises InputError for samples that do not fit, or where no tensor holds a finite float.
    """
    runs = samples.count // samples.per_run if samples.per_run > 1 else samples.runs
    if not runs:
        raise InputError(
            f"{samples.count} samples are fewer than the model takes at once, {samples.per_run}",
            remedy="give more, or compile the model for a batch of 1",
        )
    job = _Job(
        tuple(observed(of, of.observed, build)),
        samples,
        tuple(v.name for v in of.graph.inputs if _is_float(v)),
    )
    tallies = _tallies(job, runs, workers, scheduler)
    found = {name: tally.statistics() for name, tally in tallies.items()}
    tensors = {name: s for name, s in found.items() if s is not None}
    if not tensors:
        raise InputError(
            "no tensor of the model holds a finite float: there is nothing to profile",
            remedy="the model computes in integers already, or gives NaN on this data",
        )
    dropped = {name: tally.dropped for name, tally in tallies.items() if tally.dropped}
    done = min(runs * samples.per_run, samples.count)
    profile = Profile(VERSION, graph_digest(of.proto), done, tensors)
    return Profiled(profile, dropped, samples.count - done)


def _is_float(value: Value) -> bool:
    return value.type is not None and value.type.is_float


def _tallies(job: _Job, runs: int, workers: int, scheduler: str | None) -> dict[str, Tally]:
    """The tallies of all tasks, joined in the order of the samples."""
    tasks = [range(at, min(at + RUNS_A_TASK, runs)) for at in range(0, runs, RUNS_A_TASK)]
    found: dict[str, Tally] = {}
    for done, part in enumerate(spread(_tally, job, tasks, workers, scheduler), 1):
        for name, tally in part.items():
            found.setdefault(name, Tally()).join(tally)
        announce("samples", min(done * RUNS_A_TASK, runs), runs)
    return found


@dataclass(frozen=True)
class Observed:
    """A bundle, and which of its outputs are copies of which tensors."""

    bundle: Bundle
    copies: Mapping[str, str]

    def run(self, fed: Mapping[str, Array]) -> dict[str, Array]:
        """Return the tensors by their names in the model."""
        with _LOCK:
            outputs = self.bundle.run(fed)
        return {name: outputs[copy] for copy, name in self.copies.items()}


@dataclass(frozen=True)
class _Job:
    """What every task shares. `fed`: inputs that are floats."""

    builds: tuple[Observed, ...]
    samples: Samples
    fed: tuple[str, ...]


def observed(of: Subject, names: Sequence[str], build: Build) -> Iterator[Observed]:
    """Yield builds that show the named tensors: one, or as many as C's limits ask for where an entry takes
    extents."""
    is_fixed = all(isinstance(d, int) for v in of.graph.inputs for d in v.shape or ())
    most = len(names) if is_fixed else OUTPUTS_AT_ONCE
    plain = replace(
        of.options, name="profile", api="static" if is_fixed else "direct", emit=("obj",), state={}
    )
    plain = replace(plain, emit=("obj", "weights-bin")) if is_fixed else plain
    for start in range(0, len(names), max(most, 1)):
        shown, copies = with_copies(of.proto, names[start : start + most])
        yield Observed(build(shown, plain), copies)


def _tally(job: _Job, runs: Sequence[int]) -> dict[str, Tally]:
    """Tally every tensor over some runs."""
    found: dict[str, Tally] = {}
    for run in runs:
        fed = job.samples.read(run)
        for name in job.fed:
            found.setdefault(name, Tally()).add(fed[name])
        for one in job.builds:
            for name, array in one.run(fed).items():
                found.setdefault(name, Tally()).add(array)
    return found
