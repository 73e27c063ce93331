"""How fast is a bundle, beside another runtime? In: a model and options; out: a `Benchmark`, and tables.

Both run on the same inputs, on one pinned core, in turns of a few dozen milliseconds, so that a busy moment
or a change of clock rate meets both. Times come from loops in C. Called by `ingot bench` and `make bench`.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ingot.bundle.bundle import Bundle
from ingot.check.compare import compare
from ingot.check.limits import limits
from ingot.check.machine import machine, pinned
from ingot.check.peer import onnxruntime_peer
from ingot.check.profile import sample_inputs
from ingot.check.verify import Build, whole
from ingot.formula.expr import Array
from ingot.log import announce
from ingot.options import Options
from ingot.targets.records import find

SECONDS = 4.0
TURN_SECONDS = 0.04
MOST_SAMPLES, FEWEST_SAMPLES = 400, 3


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per inference."""

    name: str
    median: float
    minimum: float
    samples: int


@dataclass(frozen=True, slots=True)
class Benchmark:
    """`ratio` is our median over the peer's: below 1 is faster. `relative`: max|d|/max|y| of the outputs.

    `roofline`: the seconds that `Limits.roofline_seconds` leaves, for this machine and target.
    """

    model: str
    target: str
    machine: str
    core: int
    load: float
    macs: int
    flash_bytes: int
    arena_bytes: int
    roofline: float
    ours: Timing
    peer: Timing | None
    ratio: float | None
    relative: float | None
    agrees: bool

    @property
    def gmacs(self) -> float:
        """Multiply-accumulates per nanosecond at the best time."""
        return self.macs / self.ours.minimum * 1e-9

    @property
    def roofline_share(self) -> float:
        """How near the best time is to the roofline; above 1: fewer multiplications than the model has."""
        return self.roofline / self.ours.minimum


class _Sampler(Protocol):
    def __call__(self, repeat: int) -> list[float]: ...


def bench(
    model: Any, options: Options, build: Build, *, against: str | None = None, seconds: float = SECONDS
) -> Benchmark:
    """Compile and measure for about `seconds`. UnsupportedError where the peer is missing or refuses."""
    bundle = build(model, options)
    proto = whole(model)
    inputs = sample_inputs(proto, options, bundle.manifest)
    roofline = limits(find(bundle.manifest["target"])).roofline_seconds(bundle.manifest)
    outputs = bundle.run(inputs)
    with ExitStack() as stack:
        core = stack.enter_context(pinned())
        samplers: list[_Sampler] = [lambda repeat: bundle.time(inputs, repeat)]
        relative, agrees = None, True
        if against == "onnxruntime":
            peer = stack.enter_context(onnxruntime_peer(proto, inputs, outputs))
            relative, agrees = _compared(outputs, peer.run())
            samplers.append(peer.time)
        load = os.getloadavg()[0]
        samples = in_turns(samplers, seconds)
    times = [_timing(n, s) for n, s in zip(("ingot", versioned(against)), samples, strict=False)]
    ours, other = times[0], times[1] if len(times) > 1 else None
    name = Path(model).stem if isinstance(model, (str, Path)) else bundle.name
    return Benchmark(
        name,
        bundle.manifest["target"],
        machine(),
        core,
        load,
        *_costs(bundle),
        roofline,
        ours,
        other,
        ours.median / other.median if other else None,
        relative,
        agrees,
    )


def _costs(bundle: Bundle) -> tuple[int, int, int]:
    sizes = bundle.manifest["sizes"]
    macs = sum(k["macs"] for k in bundle.manifest["kernels"])
    return macs, sizes["flash_bytes"], sizes["arena_bytes"]


def _compared(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> tuple[float, bool]:
    differences = [compare(ours[name], theirs[name]) for name in ours]
    return max(d.relative for d in differences), all(d.ok for d in differences)


def in_turns(samplers: list[_Sampler], seconds: float) -> list[list[float]]:
    """Samples of each, taken in turns of TURN_SECONDS whose order alternates, until the time is over."""
    out: list[list[float]] = [[] for _ in samplers]
    repeats = [_fitting(sampler) for sampler in samplers]
    begin = time.perf_counter()
    order = list(range(len(samplers)))
    while (spent := time.perf_counter() - begin) < seconds or not out[0]:
        announce("measuring", int(1000 * min(spent, seconds)), int(1000 * seconds))
        for i in order:
            out[i] += samplers[i](repeats[i])
        order.reverse()
    return out


def _fitting(sampler: _Sampler) -> int:
    """How many samples fit a turn. These calls also warm the caches and are not kept."""
    sampler(FEWEST_SAMPLES)
    begin = time.perf_counter()
    sampler(FEWEST_SAMPLES)
    each = (time.perf_counter() - begin) / FEWEST_SAMPLES
    return min(max(int(TURN_SECONDS / max(each, 1e-9)), FEWEST_SAMPLES), MOST_SAMPLES)


def _timing(name: str, samples: list[float]) -> Timing:
    return Timing(name, statistics.median(samples), min(samples), len(samples))


def versioned(package: str | None) -> str:
    """The name and version of an installed package."""
    from importlib.metadata import version

    return f"{package} {version(package)}" if package else ""


def markdown(found: Iterable[Benchmark]) -> str:
    """A table with one row per model, and a line that says where it was measured."""
    rows = list(found)
    head = ("model", "MACs", "ingot median (min)", "% of roofline", "peer median (min)", "ratio", "max d/y")
    lines = [_row((*head, "flash", "RAM")), _row(("---", *["---:"] * 8)), *(_row(_cells(b)) for b in rows)]
    if rows:
        peer = next((b.peer.name for b in rows if b.peer), "no peer")
        where = f"{rows[0].machine}, one core, target {rows[0].target}; peer: {peer}; times in us"
        lines += ["", f"{where}; ratio below 1: the bundle is faster."]
    return "\n".join(lines) + "\n"


def _cells(b: Benchmark) -> tuple[str, ...]:
    return (
        b.model,
        f"{b.macs:,}",
        _us(b.ours),
        f"{100 * b.roofline_share:.0f}",
        _us(b.peer) if b.peer else "",
        f"{b.ratio:.2f}" if b.ratio is not None else "",
        f"{b.relative:.0e}" if b.relative is not None else "",
        f"{b.flash_bytes:,}",
        f"{b.arena_bytes:,}",
    )


def _us(t: Timing) -> str:
    return f"{t.median * 1e6:.1f} ({t.minimum * 1e6:.1f})"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
