"""How fast is a bundle, beside other runtimes? In: a model and options; out: a `Benchmark`.

All run on the same inputs, on one pinned core, in turns of a few dozen milliseconds, so that a busy moment or
a change of clock rate meets all. Times come from loops in C where the peer has a C interface. Called by
`ingot bench` and `make bench`; `report.py` shows what is found.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ingot.bundle.bundle import Bundle
from ingot.check.compare import compare
from ingot.check.layers import Build
from ingot.check.limits import limits
from ingot.check.machine import machine, pinned
from ingot.check.opponent import Arena, Opponent, kind_of, labelled, opponent
from ingot.check.oracle import without_maps
from ingot.check.profile import Profile, cells, sample_inputs, summary
from ingot.check.verify import whole
from ingot.errors import UnsupportedError
from ingot.formula.expr import Array
from ingot.frontends.canonical import canonical
from ingot.log import announce
from ingot.options import Options
from ingot.tables import Result, Table, table
from ingot.targets.records import find

SECONDS = 4.0
KERNEL_COLUMNS = (
    "kernel",
    "us>",
    "% of time>",
    "MACs>",
    "GFLOP/s>",
    "% of peak>",
    "bytes>",
    "GB/s>",
    "% of bw>",
)
TURN_SECONDS = 0.04
MOST_SAMPLES, FEWEST_SAMPLES = 400, 3


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per inference."""

    median: float
    minimum: float
    samples: int


@dataclass(frozen=True, slots=True)
class Rival:
    """A peer: its time and how many times as long it takes (medians), or why it has none.

    `relative` is max|d|/max|y| of the outputs, `agrees` whether that is within what their types allow.
    """

    name: str
    version: str = ""
    timing: Timing | None = None
    ratio: float | None = None
    relative: float | None = None
    agrees: bool = True
    error: str = ""

    @property
    def title(self) -> str:
        """`onnxruntime 1.31.1`"""
        return f"{self.name} {self.version}".strip()


@dataclass(frozen=True, slots=True, repr=False)
class Benchmark(Result):
    """The times of a bundle and of its peers on one machine.

    `roofline` is the lower bound of the time in seconds, for this machine and target. `flash_bytes` and
    `arena_bytes` are those of the bundle; `load` is the load of the machine before the measurement. `kernels`
    has the time of each kernel, if it was asked for.
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
    rivals: tuple[Rival, ...] = ()
    kernels: Profile | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, including the derived figures."""
        found, best = asdict(self), self.best
        kernels = found.pop("kernels")
        return found | {
            "gmacs": self.gmacs,
            "roofline_share": self.roofline_share,
            "best": best.name if best else None,
            "ratio_to_best": best.ratio if best else None,
            "agrees": self.agrees,
            **({} if kernels is None else {"profile": kernels}),
        }

    @property
    def gmacs(self) -> float:
        """Multiply-accumulates per nanosecond at the best time."""
        return self.macs / self.ours.minimum * 1e-9

    @property
    def roofline_share(self) -> float:
        """The lower bound divided by the best time; above 1 if the bundle needs fewer multiplications than
        the model.
        """
        return self.roofline / self.ours.minimum

    @property
    def agrees(self) -> bool:
        return all(r.agrees for r in self.rivals)

    @property
    def best(self) -> Rival | None:
        """The fastest peer whose outputs agree."""
        timed = [r for r in self.rivals if r.timing is not None and r.agrees]
        return min(timed, key=lambda r: r.timing.median if r.timing else 0, default=None)

    def tables(self) -> list[Table]:
        """Return the times of all contenders, and those of the kernels."""

        def times(name: str, t: Timing, *ratios: str) -> tuple[Any, ...]:
            return (name, f"{t.median * 1e6:.3f}", f"{t.minimum * 1e6:.3f}", t.samples, *(ratios or ("", "")))

        rows = [times("ingot", self.ours)]
        for r in self.rivals:
            if r.timing is not None:
                ratios = f"{r.ratio:.2f}", f"{r.timing.minimum / self.ours.minimum:.2f}"
                rows.append(times(r.title, r.timing, *ratios))
        best = (
            f"; {self.best.ratio:.2f} times as fast as the best peer" if self.best and self.best.ratio else ""
        )
        title = (
            f"{self.model} on {self.target}, core {self.core}: {self.gmacs:.1f} GMAC/s at best, "
            f"{100 * self.roofline_share:.0f} % of the roofline{best}"
        )
        measured = table(title, ("", "median us>", "minimum us>", "samples>", "ratio>", "of minima>"), rows)
        if self.kernels is None:
            return [measured]
        return [measured, table(summary(self.kernels), KERNEL_COLUMNS, map(cells, self.kernels.kernels))]


class _Sampler(Protocol):
    def __call__(self, repeat: int) -> list[float]: ...


def bench(
    model: Any,
    options: Options,
    build: Build,
    *,
    against: Sequence[str] = (),
    seconds: float = SECONDS,
    python: str | None = None,
    cc: str | None = None,
    entry: str | None = None,
) -> Benchmark:
    """Compile and measure for about `seconds` each.

    UnsupportedError where the only peer is missing or refuses; one of several is reported with its reason.
    `python` is the interpreter that has the peers; `cc` and `entry` are for C from disk.
    """
    peers = {labelled(word)[0]: word for word in against}
    for word in against:
        kind_of(labelled(word)[1])
    model = canonical(model, options)
    bundle, proto = build(model, replace(options, emit=("obj",))), without_maps(whole(model))
    inputs = sample_inputs(proto, options, bundle.manifest)
    roofline = limits(find(bundle.manifest["target"])).roofline_seconds(bundle.manifest)
    outputs = {n: _rows(thing) for n, thing in bundle.run(inputs).items()}
    with ExitStack() as stack:
        core = stack.enter_context(pinned())
        arena = Arena(core, python, cc, entry) if cc else Arena(core, python, entry=entry)
        entered: dict[str, Opponent | UnsupportedError] = {}
        for name, word in peers.items():
            announce(f"preparing {name}")
            entered[name] = _entered(stack, opponent(word, proto, inputs, outputs, arena), len(peers) == 1)
        ready = [o for o in entered.values() if isinstance(o, Opponent)]
        load = os.getloadavg()[0]
        samplers: list[_Sampler] = [lambda repeat: bundle.time(inputs, repeat), *(o.time for o in ready)]
        timings = [_timing(s) for s in in_turns(samplers, seconds * len(samplers))]
    times = dict(zip((o.name for o in ready), timings[1:], strict=True))
    rivals = tuple(_rival(n, o, outputs, timings[0], times) for n, o in entered.items())
    return Benchmark(
        Path(model).stem if isinstance(model, (str, Path)) else bundle.name,
        bundle.manifest["target"],
        machine(),
        core,
        load,
        *_costs(bundle),
        roofline,
        timings[0],
        rivals,
    )


def _rows(thing: Any) -> Any:
    """Maps as the rows they were made of; anything else as it is."""
    if isinstance(thing, list) and thing and all(isinstance(m, Mapping) for m in thing):
        return np.array([list(m.values()) for m in thing], np.float32)
    return thing


def _entered(stack: ExitStack, made: Any, is_only: bool) -> Opponent | UnsupportedError:
    try:
        found: Opponent = stack.enter_context(made)
    except UnsupportedError as error:
        if is_only:
            raise
        return error
    return found


def _rival(
    name: str,
    made: Opponent | UnsupportedError,
    ours: Mapping[str, Array],
    timing: Timing,
    times: Mapping[str, Timing],
) -> Rival:
    if isinstance(made, UnsupportedError):
        return Rival(name, error=str(made))
    differences = [compare(ours[n], made.outputs[n]) for n in ours]
    return Rival(
        name,
        made.version,
        times[name],
        times[name].median / timing.median,
        max(d.relative for d in differences),
        all(d.ok for d in differences),
    )


def _costs(bundle: Bundle) -> tuple[int, int, int]:
    sizes = bundle.manifest["sizes"]
    macs = sum(k["macs"] for k in bundle.manifest["kernels"])
    return macs, sizes["flash_bytes"], sizes["arena_bytes"]


def in_turns(samplers: Sequence[_Sampler], seconds: float) -> list[list[float]]:
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
    spent = []
    for _ in range(FEWEST_SAMPLES):  # the least of a few: one alone may meet another program
        begin = time.perf_counter()
        sampler(FEWEST_SAMPLES)
        spent.append(time.perf_counter() - begin)
    each = min(spent) / FEWEST_SAMPLES
    return min(max(int(TURN_SECONDS / max(each, 1e-9)), FEWEST_SAMPLES), MOST_SAMPLES)


def _timing(samples: list[float]) -> Timing:
    return Timing(statistics.median(samples), min(samples), len(samples))
