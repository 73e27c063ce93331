"""Measures models of `models.py` beside other runtimes. `make bench` and `make bench-all` call this.

In: names of models on the command line (default: the light ones), or `--all`. Out: tables on standard
output; `report.md`, `report.json` and `report.svg` in `build/benchmarks`, written after every model; the
tables in the READMEs with `--update`; exit code 0 only if all outputs agree.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from benchmarks.generators import generated, prepared
from benchmarks.models import GROUPS, MODELS
from benchmarks.random_models import SEED, draw
from ingot.check.bench import Benchmark, bench
from ingot.check.report import markdown, write
from ingot.driver import compile_with
from ingot.errors import IngotError
from ingot.options import Options

OUTPUT = Path("build/benchmarks")
README = Path(__file__).parent / "README.md"
FRONT = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- {}: begin -->\n", "<!-- {}: end -->\n"
LIGHT = ("digits", "lenet5", "resnet8", "ds_cnn", "mobilenet", "autoencoder")
SHOWN = (
    ("ball", "ball classifier (NNCG), 16x16"),
    ("lenet5", "LeNet-5"),
    ("resnet8", "ResNet-8"),
    ("ds_cnn", "DS-CNN"),
    ("mobilenet", "MobileNetV1 0.25, 96x96"),
    ("autoencoder", "autoencoder"),
    ("indigo_cell", "LSTM cell of 32 (Indigo)"),
    ("mobilenetv2", "MobileNetV2"),
    ("squeezenet", "SqueezeNet 1.1"),
    ("resnet50", "ResNet-50"),
    ("unet", "U-Net, 128x128"),
    ("espcn", "super-resolution (ESPCN), 96x96"),
    ("dncnn", "noise removal (DnCNN), 64x64"),
    ("lstm", "LSTM 2 x 128, 50 steps"),
    ("transformer", "transformer, 4 layers of 256"),
)
"""On the first page, by the names that people know."""
COMMON = ("onnxruntime", "openvino")
PEERS = {
    "overhead": (*COMMON, "litert"),
    "small": (*COMMON, "litert"),
    "large": (*COMMON, "litert"),
    "image": (*COMMON, "litert"),
    "dense": (*COMMON, "torch", "iree"),
    "sequence": COMMON,
    "random": COMMON,
}
"""Who is worth measuring, by group: the others were several times slower than the best of these."""
HUGE = ("vgg16",)  # half a gigabyte of weights: only the peers that read the file themselves
GENERATED = ("emx", "onnx2c")  # their own table: not contenders, but the same kind of tool


def group_of(name: str) -> str:
    return next((group for group, names in GROUPS.items() if name in names), "random")


def peers_of(name: str) -> tuple[str, ...]:
    return COMMON if name in HUGE else PEERS[group_of(name)]


def measure(arguments: argparse.Namespace, names: Sequence[str]) -> Iterator[Benchmark]:
    """One benchmark per model, all peers in turns. A model that fails is reported and left out."""
    drawn = draw(SEED)
    with tempfile.TemporaryDirectory(prefix="ingot-bench-") as folder:
        for number, name in enumerate(names):
            path = Path(folder) / f"{name}.onnx"
            onnx.save(drawn[name] if name in drawn else MODELS[name](), path)
            against = list(arguments.against or (peers_of(name) if arguments.all else ("onnxruntime",)))
            if arguments.all and group_of(name) == "small":
                against += generated(path, Path(folder), arguments.emx, arguments.onnx2c)
            against += prepared(name, arguments.sources)
            begin = time.monotonic()
            try:
                found = bench(
                    path,
                    Options(target=arguments.target, cc=arguments.cc),
                    compile_with,
                    against=against,
                    seconds=arguments.seconds,
                    python=arguments.peers_python,
                )
            except IngotError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            finally:
                path.unlink()
            ratio = f"{found.best.ratio:.2f} ({found.best.name})" if found.best and found.best.ratio else ""
            spent = f"{time.monotonic() - begin:.0f} s"
            print(f"[{number + 1}/{len(names)}] {name}: {ratio}, {spent}", file=sys.stderr, flush=True)
            yield found


def tables(found: Sequence[Benchmark]) -> str:
    """The suite beside runtimes, the random models, the generators of C."""
    runtimes = [replace(b, rivals=tuple(r for r in b.rivals if r.name not in GENERATED)) for b in found]
    sources = [replace(b, rivals=tuple(r for r in b.rivals if r.name in GENERATED)) for b in found]
    sources, drawn = [b for b in sources if b.rivals], [b for b in runtimes if b.model not in MODELS]
    text = markdown([b for b in runtimes if b.model in MODELS], aside=GROUPS["overhead"])
    if drawn:
        text += f"\nDrawn at random by `random_models.py`:\n\n{markdown(drawn)}"
    if sources:
        text += f"\nGenerated C, compiled by `gcc -O3 -march=native`:\n\n{markdown(sources)}"
    load = max(b.load for b in found) if found else 0.0
    return f"{text}\nMeasured on {_today()}; load of the machine at most {load:.1f}.\n"


def front_table(found: Sequence[Benchmark]) -> str:
    """What the first page shows of models that many know."""
    rows = ["| model | multiply-adds | Ingot | best other | onnxruntime | flash | RAM |"]
    rows.append("|---|---:|---:|---:|---:|---:|---:|")
    for b in (b for name, _ in SHOWN for b in found if b.model == name):
        ort = next((r for r in b.rivals if r.name == "onnxruntime" and r.timing), None)
        best = f"{b.best.ratio:.2f}x ({b.best.title})" if b.best and b.best.ratio else "-"
        times = f"{_time(b.ours.median)} | {best} | {f'{ort.ratio:.2f}x' if ort and ort.ratio else '-'}"
        sizes = f"{b.flash_bytes:,} B | {b.arena_bytes:,} B"
        rows.append(f"| {dict(SHOWN)[b.model]} | {b.macs:,} | {times} | {sizes} |")
    where = f"One thread of an {found[0].machine}, target {found[0].target}" if found else "Nothing measured"
    return "\n".join([f"{where}; medians; 1.50x: Ingot is 1.5 times as fast; {_today()}.", "", *rows]) + "\n"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def _today() -> str:
    return str(datetime.date.today())


def update(path: Path, name: str, table: str) -> None:
    """Replace what stands between two marks in a file."""
    begin, end = BEGIN.format(name), END.format(name)
    before, _, rest = path.read_text().partition(begin)
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{begin}\n{table}\n{end}{after}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure models beside other runtimes.")
    parser.add_argument("names", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--all", action="store_true", help="the whole suite, each with the peers worth it")
    parser.add_argument("--random", action="store_true", help="the ten models of random_models.py as well")
    parser.add_argument("--against", action="append", metavar="PEER", help="as for ingot bench")
    python = os.environ.get("INGOT_PEERS_PYTHON")
    parser.add_argument("--peers-python", metavar="CMD", default=python, help="the one that has the peers")
    parser.add_argument("--emx", metavar="CMD", help="emx-onnx-cgen, for its generated C")
    parser.add_argument("--onnx2c", metavar="CMD", help="onnx2c, for its generated C")
    parser.add_argument("--sources", metavar="DIR", help="C of other generators, LABEL_MODEL.c")
    parser.add_argument("--target", default="native")
    parser.add_argument("--cc", help="the C compiler for our bundles")
    parser.add_argument("--seconds", type=float, default=1.2, help="for each model and contender")
    parser.add_argument("--update", action="store_true", help="put the tables into the READMEs")
    arguments = parser.parse_args()
    unknown = [n for n in arguments.names if n not in MODELS]
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    return arguments


def main() -> int:
    """Measure, write, print; returns the exit code."""
    arguments = parsed()
    names = arguments.names or (list(MODELS) if arguments.all else list(LIGHT))
    found: list[Benchmark] = []
    for one in measure(arguments, [*names, *(draw(SEED) if arguments.random else ())]):
        found.append(one)
        write(found, OUTPUT)
    (OUTPUT / "report.md").write_text(tables(found))
    if arguments.update:
        update(README, "results", tables(found))
    if arguments.update and arguments.all:
        update(FRONT, "speeds", front_table(found))
    print(tables(found), end="")
    return 0 if all(b.agrees for b in found) else 1


if __name__ == "__main__":
    sys.exit(main())
