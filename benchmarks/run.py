"""Measures the models of `models.py` beside onnxruntime. `make bench` calls this.

In: names of models on the command line (default: all); `--update` also puts the table into README.md. Out: a
table on standard output, `results.json` and `results.md` in `build/benchmarks`, and exit code 0 only if all
outputs agree.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import onnx
from models import MODELS
from rich.console import Console
from rich.progress import track

from ingot.check.bench import SECONDS, Benchmark, bench, markdown
from ingot.driver import compile_with
from ingot.options import Options

OUTPUT = Path("build/benchmarks")
README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- results: begin -->\n", "<!-- results: end -->\n"


def measure(names: list[str], target: str, seconds: float) -> Iterator[Benchmark]:
    """One benchmark per model, each in turns with onnxruntime."""
    with tempfile.TemporaryDirectory() as folder:
        for name in track(names, description="Measuring", console=Console(stderr=True), transient=True):
            path = Path(folder) / f"{name}.onnx"
            onnx.save(MODELS[name](), path)
            yield bench(path, Options(target=target), compile_with, against="onnxruntime", seconds=seconds)


def update(table: str) -> None:
    """Replace the table in README.md."""
    before, _, rest = README.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


def main() -> int:
    """Measure, write, print; returns the exit code."""
    parser = argparse.ArgumentParser(description="Measure models beside onnxruntime.")
    parser.add_argument("names", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--target", default="native")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="per model")
    parser.add_argument("--update", action="store_true", help="put the table into benchmarks/README.md")
    arguments = parser.parse_args()
    unknown = [n for n in arguments.names if n not in MODELS]
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    found = list(measure(arguments.names or list(MODELS), arguments.target, arguments.seconds))
    table = markdown(found)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / "results.json").write_text(json.dumps([asdict(b) for b in found], indent=2) + "\n")
    (OUTPUT / "results.md").write_text(table)
    if arguments.update:
        update(table)
    print(table, end="")
    return 0 if all(b.agrees for b in found) else 1


if __name__ == "__main__":
    sys.exit(main())
