"""Where a bundle's time goes: seconds of every kernel call, beside what the machine could do.

In: a model and options. Out: a `Profile`. Called by `ingot bench --profile`. The model is compiled once more
with `profile` on: the entry then says which kernel runs, to a hook that reads the clock; the kernels are the
same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ingot.bundle.bundle import Bundle
from ingot.bundle.containers import random_values
from ingot.bundle.host_memory import require_host_memory
from ingot.check.inputs import random_inputs
from ingot.check.layers import Build
from ingot.check.limits import Limits, limits
from ingot.check.machine import pinned
from ingot.check.verify import corners, whole
from ingot.formula.expr import Array
from ingot.frontends.canonical import canonical
from ingot.frontends.onnx import read_with
from ingot.log import announce
from ingot.ops.infer import infer
from ingot.options import Options
from ingot.targets.records import find

SECONDS = 2.0
RUNS = 5  # inferences between two looks at the time
COPIES = "copies between kernels"


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel call: the least of many runs. Shares: of the whole time, of the peak, of the bandwidth."""

    name: str
    nodes: tuple[str, ...]
    seconds: float
    share: float
    macs: int
    gflops: float
    peak_share: float
    bytes: int
    gbytes: float
    bandwidth_share: float


@dataclass(frozen=True, slots=True)
class Profile:
    """`roofline_seconds`: see `Limits.roofline_seconds`; `seconds`: the sum over the kernels."""

    model: str
    target: str
    machine: str
    peak_gflops: float
    seconds: float
    roofline_seconds: float
    kernels: tuple[KernelTime, ...]


def profile(model: Any, options: Options, build: Build, *, seconds: float = SECONDS) -> Profile:
    """Compile with the hook and measure for about `seconds`."""
    model = canonical(model, options)
    bundle = build(model, replace(options, profile=True, emit=("obj",)))
    inputs = sample_inputs(whole(model), options, bundle.manifest)
    found = limits(find(bundle.manifest["target"]))
    with pinned():
        times = least(bundle, inputs, seconds)
    return told(bundle.manifest, times, found)


def sample_inputs(model: Any, options: Options, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Random inputs of the model's largest size, always the same. InputError where memory is too small."""
    require_host_memory(manifest, drawn=True)
    graph = infer(read_with(model, options))
    extents = corners(manifest["params"], {}, manifest["inputs"])[-1]
    return random_values(manifest, random_inputs(graph, manifest["inputs"], extents, 0))


def least(bundle: Bundle, inputs: Mapping[str, Array], seconds: float) -> list[float]:
    """The least time of every account until the time is over."""
    begin, best = time.perf_counter(), bundle.profile(inputs, RUNS)
    while (spent := time.perf_counter() - begin) < seconds:
        announce("measuring", int(1000 * spent), int(1000 * seconds))
        best = [min(pair) for pair in zip(best, bundle.profile(inputs, RUNS), strict=True)]
    return best


def told(manifest: Mapping[str, Any], times: list[float], known: Limits) -> Profile:
    """The profile of a manifest's kernels from the times of its accounts (the last: copies)."""
    total, weights = sum(times), int(manifest["sizes"]["weights_bytes"])
    kernels = [{**k, "name": _called(k, manifest)} for k in manifest["kernels"]]
    rows = [
        _row(kernel, seconds, total, known, weights) for kernel, seconds in zip(kernels, times, strict=False)
    ]
    if times[-1] > 0:
        nothing = {"name": COPIES, "nodes": [], "macs": 0, "bytes": 0, "weights_bytes": 0}
        rows.append(_row(nothing, times[-1], total, known, weights))
    return Profile(
        str(manifest["name"]),
        known.target,
        known.machine,
        2e-9 * known.macs,
        total,
        known.roofline_seconds(manifest),
        tuple(rows),
    )


def _called(kernel: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """The kernel's name without the bundle's; where several calls share it, with the call's first node."""
    name = str(kernel["name"]).removeprefix(f"{manifest['name']}_")
    is_shared = sum(k["name"] == kernel["name"] for k in manifest["kernels"]) > 1
    return f"{name} ({kernel['nodes'][0]})" if is_shared and kernel["nodes"] else name


def _row(kernel: Mapping[str, Any], seconds: float, total: float, known: Limits, weights: int) -> KernelTime:
    def per(amount: float) -> float:
        return amount / seconds if seconds else 0.0

    return KernelTime(
        kernel["name"],
        tuple(kernel["nodes"]),
        seconds,
        seconds / total if total else 0.0,
        kernel["macs"],
        per(2e-9 * kernel["macs"]),
        per(known.compute_seconds(kernel)),
        kernel["bytes"],
        per(1e-9 * kernel["bytes"]),
        per(known.memory_seconds(kernel, weights)),
    )


def profile_markdown(found: Profile) -> str:
    """A Markdown table, one row per kernel call in the order of execution."""
    head = ("kernel", "us", "% of time", "MACs", "GFLOP/s", "% of peak", "bytes", "GB/s", "% of bandwidth")
    lines = [_line(head), _line(("---", *["---:"] * (len(head) - 1)))]
    lines += [_line(cells(k)) for k in found.kernels]
    return "\n".join([*lines, "", summary(found)]) + "\n"


def cells(k: KernelTime) -> tuple[str, ...]:
    """The columns of a table; what does not multiply has no GFLOP/s."""
    rate = (f"{k.gflops:.1f}", f"{100 * k.peak_share:.0f}") if k.macs else ("", "")
    moved = (f"{k.gbytes:.1f}", f"{100 * k.bandwidth_share:.0f}") if k.bytes else ("", "")
    times = (f"{1e6 * k.seconds:.2f}", f"{100 * k.share:.1f}")
    return (k.name, *times, f"{k.macs:,}" if k.macs else "", *rate, f"{k.bytes:,}" if k.bytes else "", *moved)


def summary(found: Profile) -> str:
    """What the percentages are of."""
    share = 100 * found.roofline_seconds / found.seconds if found.seconds else 0.0
    return (
        f"{1e6 * found.seconds:.2f} us in all, the best of many runs of each kernel; "
        f"{share:.0f} % of the roofline; peak {found.peak_gflops:.0f} GFLOP/s "
        f"with {found.target} on one core of {found.machine}"
    )


def _line(row: tuple[str, ...]) -> str:
    return f"| {' | '.join(row)} |"
