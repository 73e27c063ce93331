"""A peer in a process of its own, seen from the process that measures.

In: a peer's name and a model. Out: an `Opponent` that runs it and takes samples. Called by `bench`. The
process keeps libraries apart that would meet in one (two LLVMs, two thread pools), takes crashes, and may
belong to another interpreter, whose packages Ingot's environment need not have.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import onnx

from ingot.check.machine import cache_folder
from ingot.check.oracle import stamped
from ingot.errors import InputError, UnsupportedError
from ingot.formula.expr import Array
from ingot.peers import KINDS, PREFIX, SOURCE, Kind
from ingot.peers.job import TIMER, Job
from ingot.targets.records import native
from ingot.targets.toolchain import compile_c, exported, link_shared

PREPARE_SECONDS = 1800.0  # some compile for minutes
ANSWER_SECONDS = 600.0
LAST_WORDS = 200
ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "TVM", "NUMEXPR", "VECLIB_MAXIMUM")
}


@dataclass(frozen=True, slots=True)
class Arena:
    """What all peers of one measurement share: where they run, and how C from disk is compiled."""

    core: int
    python: str | None = None
    cc: str = "gcc -O3 -march=native"
    entry: str | None = None


@dataclass(frozen=True, slots=True)
class Opponent:
    """A peer that has run the model once; `outputs` are what it computed."""

    name: str
    version: str
    outputs: dict[str, Array]
    _worker: _Worker

    def time(self, repeat: int) -> list[float]:
        """Seconds per inference of `repeat` samples."""
        found: list[float] = self._worker.asked(repeat, ANSWER_SECONDS)[0]
        return found


def labelled(word: str) -> tuple[str, str]:
    """What a peer is called in reports, and the peer: the file's name for C, unless LABEL= stands before it.

    >>> labelled("onnx2c=c:out/net.c"), labelled("c:out/net.c"), labelled("torch")
    (('onnx2c', 'c:out/net.c'), ('net.c', 'c:out/net.c'), ('torch', 'torch'))
    """
    label, equals, peer = word.partition("=")
    if equals and peer.startswith(PREFIX) and not label.startswith(PREFIX):
        return label, peer
    return (Path(word).name, word) if word.startswith(PREFIX) else (word, word)


def kind_of(name: str) -> Kind:
    """InputError for a name that is no peer's."""
    if name.startswith(PREFIX):
        return SOURCE
    if name not in KINDS:
        raise InputError(f"no peer {name!r}", remedy=f"choose from {', '.join(KINDS)} and {PREFIX}PATH.c")
    return KINDS[name]


@contextmanager
def opponent(
    name: str,
    model: onnx.ModelProto,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    arena: Arena,
) -> Iterator[Opponent]:
    """The peer, ready. UnsupportedError where it is missing, refuses the model or dies."""
    name, peer = labelled(name)
    kind, settings = kind_of(peer), {"cc": arena.cc, "entry": arena.entry or ""}
    if kind is SOURCE:
        settings["source"] = str(_existing(Path(peer.removeprefix(PREFIX))).resolve())
    with tempfile.TemporaryDirectory(prefix="ingot-peer-") as folder:
        path, timer = Path(folder) / "model.onnx", Path(folder) / "timer.so"
        path.write_bytes(stamped(with_extents(model, inputs)))
        made = compile_c(TIMER, native(), name="timer.c", relocation="pic")
        timer.write_bytes(link_shared([made], ["peer_time"]))
        job = Job(
            str(path),
            dict(inputs),
            dict(outputs),
            str(timer),
            exported("peer_time"),
            str(cache_folder() / "peers"),
            settings,
        )
        with _started(name, kind, arena, Path(folder)) as worker:
            version, computed = worker.asked(job, PREPARE_SECONDS)
            yield Opponent(name, version, computed, worker)


def with_extents(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> onnx.ModelProto:
    """The model with the extents of this run for its inputs: peers compile for them, as Ingot does."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for value in out.graph.input:
        if value.name in inputs and value.type.HasField("tensor_type"):
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            shape.dim.extend(onnx.TensorShapeProto.Dimension(dim_value=n) for n in inputs[value.name].shape)
    return out


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{PREFIX}{path}: no such file", remedy=f"write {PREFIX} and the path of a C file")
    return path


@contextmanager
def _started(name: str, kind: Kind, arena: Arena, folder: Path) -> Iterator[_Worker]:
    """A worker process that ends with the block; it sees no more of Ingot than its package."""
    package = folder / "path"
    package.mkdir()
    (package / "ingot").symlink_to(Path(__file__).parent.parent)
    here, there = Pipe()
    said = folder / "said.txt"
    command = (arena.python or sys.executable, "-m", "ingot.peers.worker", str(there.fileno()))
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        with said.open("wb") as log:
            process = subprocess.Popen(
                (*command, str(arena.core), kind.module, kind.package),
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=folder,
            )
    except OSError as error:
        raise InputError(f"cannot run {command[0]}: {error.strerror}") from None
    there.close()
    try:
        yield _Worker(name, kind, here, process, said)
    finally:
        with suppress(OSError):
            here.send(0)
        here.close()
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class _Worker:
    name: str
    kind: Kind
    connection: Any
    process: subprocess.Popen[bytes]
    said: Path

    def asked(self, question: object, seconds: float) -> tuple[Any, ...]:
        """What a worker answers; UnsupportedError where it says no, or nothing."""
        try:
            self.connection.send(question)
            if not self.connection.poll(seconds):
                raise UnsupportedError(f"{self.name} did not answer within {seconds:.0f} s")
            what, *answer = self.connection.recv()
        except (EOFError, OSError):
            raise UnsupportedError(f"{self.name} died: {self._last_words()}") from None
        if what == "missing":
            raise UnsupportedError(f"{self.name} is not installed; {self.kind.command} ({answer[0]})")
        if what == "refused":
            raise UnsupportedError(f"{self.name}: {answer[0]}")
        return tuple(answer)

    def _last_words(self) -> str:
        status = self.process.wait()
        lines = self.said.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return f"{how}: {lines[-1][:LAST_WORDS]}"
