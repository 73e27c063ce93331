"""Tokens per second of a decoder of 4-bit weights on one core, beside llama.cpp.

In: where the `llama-bench` of a llama.cpp is that was built on this machine, if there is one; its model, of
the same weights, is written by the package gguf. Out: a Markdown table of tokens and bytes per second, and
the bytes that a loop reads which does nothing else. All are measured in turns, with half of the cache in
use; of each the best is taken, for other programs on the machine only slow down. The bundle is also run as
a program without a C library (`decoder_alone`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np

import ingot
from benchmarks.decoder_alone import build, tokens
from benchmarks.decoder_model import BLOCK, Shape, onnx_model, states, write_gguf
from benchmarks.run import update
from ingot.bundle.bundle import Bundle
from ingot.check.limits import measure
from ingot.check.machine import machine, pinned
from ingot.targets.record import Target
from ingot.targets.records import find

ROUNDS, TOKENS, REPEATS = 5, 16, 8
FLOAT_BYTES = 4
MODEL, DOCUMENT = "decoder.gguf", "decoder"


def compiled(s: Shape, target: str) -> Bundle:
    return ingot.compile(onnx_model(s), name="decoder", target=target, emit=("obj",), state=states(s))


def token_bytes(s: Shape) -> int:
    """What a token reads: packed weights with a scale for each block, and the cache."""
    cache = 2 * s.layers * s.shared * s.head * s.context * FLOAT_BYTES
    return s.packed_weights // 2 + s.packed_weights // BLOCK * FLOAT_BYTES + cache


def ours(bundle: Bundle, s: Shape) -> Callable[[], float]:
    """Tokens per second with half of the cache in use: no time depends on how much is."""
    fed = {"token": np.zeros((1, 1), np.int64), "used": np.array([s.context // 2], np.int32)}
    return lambda: 1 / min(bundle.time(fed, TOKENS * REPEATS))


def alone(s: Shape, target: Target, folder: Path) -> Callable[[], float]:
    """A program of one C file without a C library, with all of the cache in use: its start counts, too."""
    program = build(s, target, folder)

    def measured() -> float:
        start = time.perf_counter()
        found = tokens(program, s.context)
        return len(found) / (time.perf_counter() - start)

    return measured


def llama(program: Path, s: Shape, folder: Path) -> Callable[[], float]:
    """llama-bench's best of several runs of a few tokens, behind half of the context."""
    model = folder / MODEL
    write_gguf(s, model)
    options = ("-p", "0", "-n", str(TOKENS), "-t", "1", "-r", str(REPEATS), "-ngl", "0", "-o", "json")
    command = (str(program), "-m", str(model), "-d", str(s.context // 2), *options)

    def measured() -> float:
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        return max(map(float, json.loads(found.stdout)[0]["samples_ts"]))

    return measured


def version(program: Path, model: Path) -> str:
    """What llama-bench says of the llama.cpp that it is of."""
    command = (str(program), "-m", str(model), "-p", "0", "-n", "1", "-r", "1", "-ngl", "0", "-o", "json")
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[0]
    return f"llama.cpp {found['build_number']} ({found['build_commit']})"


def table(rows: dict[str, float], read: float, s: Shape) -> str:
    """Tokens per second, and of ours how many bytes that is."""
    first, *others = rows.items()
    moved = first[1] * token_bytes(s)
    lines = ["| | tokens/s | GB/s |", "|---|--:|--:|"]
    lines.append(f"| {first[0]} | {first[1]:.0f} | {moved / 1e9:.1f} ({moved / read:.0%} of reading) |")
    lines += [f"| {name} | {speed:.0f} (ours: {first[1] / speed:.2f}x) | |" for name, speed in others]
    lines.append(f"| reading memory | | {read / 1e9:.1f} |")
    return "\n".join(lines) + "\n"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure a decoder of 4-bit weights beside llama.cpp.")
    parser.add_argument("--llama-bench", type=Path, metavar="PATH", help="of a llama.cpp built here")
    parser.add_argument("--target", default="x86-64-v4-vnni", help="of the bundle (default: x86-64-v4-vnni)")
    parser.add_argument("--update", type=Path, metavar="FILE", help="write the table into a document")
    parser.add_argument("--context", type=int, default=128, help="keys that the cache holds (default: 128)")
    return parser.parse_args()


def main() -> int:
    """Measure, print; returns the exit code."""
    arguments = parsed()
    s, target = Shape(context=arguments.context), find(arguments.target)
    reads, of = list[float](), [f"Ingot {ingot.__version__}"]
    with tempfile.TemporaryDirectory() as folder:
        ways = {f"ingot, {target.name}": ours(compiled(s, target.name), s)}
        ways["one C file, no C library, from its start"] = alone(s, target, Path(folder))
        if arguments.llama_bench:
            ways["llama.cpp, Q4_0"] = llama(arguments.llama_bench, s, Path(folder))
            of.append(version(arguments.llama_bench, Path(folder) / MODEL))
        best = dict.fromkeys(ways, 0.0)
        for _ in range(ROUNDS):
            reads.append(measure(target).bandwidth(token_bytes(s)))
            for name, way in ways.items():
                with pinned():
                    best[name] = max(best[name], way())
    about = f"{s.packed_weights / 1e6:.1f} M weights of 4 bits, {s.context} keys; {machine()}, one core"
    lines = f"{table(best, max(reads), s)}\n{about}; {', '.join(of)}; {date.today()}.\n"
    print(lines, end="")
    if arguments.update:
        update(arguments.update, DOCUMENT, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
