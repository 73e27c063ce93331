"""AlexNet's dense layers, compressed, beside dense ones in other runtimes. `make bench-encoded` calls this.

Densities of weights and activations are those of Table III of "EIE: Efficient Inference Engine on Compressed
Deep Neural Network" (arXiv:1602.01528), codebooks have 16 values, weights are noise. In: who the peers are.
Out: a Markdown table, in `docs/compression.md` with `--update`; exit code 0 only if every layer in bytes is
within 1 % of what it is in floats.

Warm: call after call. Cold: each call is handed another copy of the weights, of so many that the caches hold
none of the next.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from rich.progress import track

from benchmarks.net import Net
from benchmarks.run import update
from ingot.bundle.bundle import Bundle
from ingot.bundle.run import WALL_CLOCK, aligned, load_library
from ingot.check.bench import in_turns
from ingot.check.machine import machine, pinned
from ingot.check.opponent import Arena, opponent
from ingot.compression.model import Wish
from ingot.driver import compile_with, compress_model
from ingot.formula.expr import Array
from ingot.options import Activations, Options
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c, exported, link_shared, obstacle

DOCS = Path(__file__).parent.parent / "docs" / "compression.md"
COLD_BYTES = 1 << 28  # all copies together: several times the last level of any cache
MOST_OFF = 0.01
COLD = """\
#include "layer.h"
typedef int (*clock_fn)(int, long *);
/* nanoseconds of `samples` calls, each with the next of `copies` weights `stride` bytes apart */
void cold(const char *weights, long stride, int copies, const float *x, float *y, void *arena, clock_fn now,
          int clock, double *ns, int samples)
{
    static int at;
    for (int s = 0; s < samples; s++) {
        long t0[2], t1[2];
        now(clock, t0);
        layer(weights + stride * at, x, y, arena);
        now(clock, t1);
        ns[s] = (double)(t1[0] - t0[0]) * 1e9 + (double)(t1[1] - t0[1]);
        at = at + 1 < copies ? at + 1 : 0;
    }
}
"""


@dataclass(frozen=True)
class Layer:
    """A dense layer: shares of its weights and activations that are not zero. Below 1 a Relu is before it."""

    title: str
    columns: int
    rows: int
    density: float
    active: float

    def model(self) -> onnx.ModelProto:
        net = Net(self.title, (1, self.columns))
        return net.model(y=net.dense("x" if self.active == 1 else net.then("x", "Relu"), self.rows, ""))

    def inputs(self) -> dict[str, Array]:
        """Noise, so far below or above 0 that a Relu leaves as much as it should."""
        below = statistics.NormalDist().inv_cdf(1 - self.active) if self.active < 1 else 0
        noise = np.random.default_rng(0).standard_normal((1, self.columns)) - below
        return {"x": noise.astype(np.float32)}


LAYERS = (
    Layer("4096x9216, 9 % (FC6)", 9216, 4096, 0.09, 0.351),
    Layer("4096x4096, 9 % (FC7)", 4096, 4096, 0.09, 0.353),
    Layer("1000x4096, 25 % (FC8)", 4096, 1000, 0.25, 0.375),
    Layer("FC7, activations of both signs", 4096, 4096, 0.09, 1),
    Layer("4096x4096, 80 %: code by code", 4096, 4096, 0.80, 0.353),
)


@dataclass(frozen=True)
class Way:
    """A column of the table."""

    title: str
    target: str
    activations: Activations
    is_cold: bool = False

    def options(self) -> Options:
        weights, emit = ("external", ("obj", "weights-bin")) if self.is_cold else (None, ("obj",))
        return Options("layer", self.target, activations=self.activations, weights=weights, emit=emit)


AVX512, AVX2 = "x86-64-v4-vnni", "x86-64-v3"
WAYS = (
    Way("float, AVX-512", AVX512, "float"),
    Way("float, AVX2", AVX2, "float"),
    Way("int8, AVX-512", AVX512, "int8"),
    Way("the same, cold", AVX512, "int8", is_cold=True),
    Way("int8, AVX2", AVX2, "int8"),
)


def runnable() -> list[Way]:
    """The ways whose objects run on this machine."""
    return [w for w in WAYS if not obstacle(find(w.target))]


class Cold:
    """A bundle whose weights the caller brings, timed with others in every call."""

    def __init__(self, bundle: Bundle, inputs: dict[str, Array]) -> None:
        target, files = find(bundle.manifest["target"]), bundle.files
        sources = {"cold.c": COLD, "layer.h": files["layer.h"]}
        around = compile_c(sources, target, name="cold.c", relocation="pic")
        self._library = load_library(link_shared([bundle.object, around], ["cold"]))
        weights = np.frombuffer(files["layer.weights.bin"], np.uint8)
        self._stride = -(-len(weights) // 64) * 64
        self._copies = -(-COLD_BYTES // self._stride)
        self._weights = aligned(self._stride * self._copies)
        for n in range(self._copies):
            self._weights[n * self._stride :][: len(weights)] = weights
        self._x = inputs["x"]
        self._y = np.zeros(bundle.manifest["outputs"][0]["shape"], np.float32)
        self._arena = aligned(bundle.manifest["sizes"]["arena_bytes"])

    def time(self, repeat: int) -> list[float]:
        ns = np.zeros(repeat)
        now = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p)
        pointer = [ctypes.c_void_p(a.ctypes.data) for a in (self._weights, self._x, self._y, self._arena, ns)]
        weights, x, y, arena, to = pointer
        call = getattr(self._library, exported("cold"))
        call(weights, ctypes.c_long(self._stride), self._copies, x, y, arena, now, WALL_CLOCK, to, repeat)
        found: list[float] = (ns * 1e-9).tolist()
        return found


@dataclass(frozen=True)
class Row:
    """Seconds of dense peers and of ours (median, minimum); how far bytes are off, max|d|/max|y|."""

    layer: Layer
    peers: dict[str, tuple[float, float]]
    ours: dict[str, tuple[float, float]]
    off: dict[str, float]


def measured(
    layer: Layer, ways: Sequence[Way], peers: Sequence[str], python: str | None, seconds: float
) -> Row:
    """All contenders in turns on one core. The first of the ways is the one in floats, which is right."""
    dense, inputs = layer.model(), layer.inputs()
    encoded = compress_model(dense, Wish(density=(str(layer.density),), bits=("4",))).model
    with ExitStack() as stack:
        core = stack.enter_context(pinned())
        bundles = [compile_with(encoded, way.options()) for way in ways]
        outputs = [bundle.run(inputs)["y"] for bundle in bundles]
        entered = [opponent(p, dense, inputs, {"y": outputs[0]}, Arena(core, python)) for p in peers]
        samplers = [stack.enter_context(o).time for o in entered]
        samplers += [_sampler(way, bundle, inputs) for way, bundle in zip(ways, bundles, strict=True)]
        times = [(statistics.median(s), min(s)) for s in in_turns(samplers, seconds * len(samplers))]
    off = [float(np.abs(y - outputs[0]).max() / np.abs(outputs[0]).max()) for y in outputs]
    return Row(
        layer,
        dict(zip(peers, times, strict=False)),
        {w.title: t for w, t in zip(ways, times[len(peers) :], strict=True)},
        {w.title: o for w, o in zip(ways, off, strict=True) if w.activations == "int8" and not w.is_cold},
    )


def _sampler(way: Way, bundle: Bundle, inputs: dict[str, Array]) -> Callable[[int], list[float]]:
    return Cold(bundle, inputs).time if way.is_cold else lambda repeat: bundle.time(inputs, repeat)


def table(rows: Sequence[Row]) -> str:
    """Microseconds, median and minimum, and how many times as fast as the fastest peer."""
    first = rows[0]
    names = ["layer", *(f"dense, {p}" for p in first.peers), *first.ours, *(f"{n}: off" for n in first.off)]
    lines = [names, ["---", *["--:"] * (len(names) - 1)], *([*_cells(row)] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _cells(row: Row) -> Iterator[str]:
    yield row.layer.title
    yield from (_times(t) for t in row.peers.values())
    best = min(median for median, _ in row.peers.values())
    yield from (f"{best / t[0]:.1f}x: {_times(t)}" for t in row.ours.values())
    yield from (f"{100 * off:.2f} %" for off in row.off.values())


def _times(seconds: tuple[float, float]) -> str:
    median, least = (s * 1e6 for s in seconds)
    return f"{median:,.1f} ({least:,.1f})"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure compressed dense layers beside dense ones.")
    python = os.environ.get("INGOT_PEERS_PYTHON")
    parser.add_argument("--against", action="append", metavar="PEER", help="default: onnxruntime")
    parser.add_argument("--peers-python", metavar="CMD", default=python, help="the one that has the peers")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each layer and contender")
    parser.add_argument("--update", action="store_true", help="put the table into docs/compression.md")
    return parser.parse_args()


def main() -> int:
    """Measure, print; returns the exit code."""
    arguments = parsed()
    peers, load = arguments.against or ["onnxruntime"], os.getloadavg()[0]
    rows = [
        measured(layer, runnable(), peers, arguments.peers_python, arguments.seconds)
        for layer in track(LAYERS, "measuring")
    ]
    where = f"{machine()}, one core, {datetime.date.today()}, load of the machine {load:.1f}"
    text = f"{table(rows)}\nMicroseconds, median (minimum); {where}.\n"
    print(text, end="")
    if arguments.update:
        update(DOCS, "encoded", text)
    return 0 if all(off <= MOST_OFF for row in rows for off in row.off.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
