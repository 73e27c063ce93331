"""The shipped object, called from Python: linked unchanged into a library, or into a program of its own.

The program serves objects for other processors, under an emulator, and those that are not
position-independent.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ingot.bundle.binding import Manifest, bind, capacity
from ingot.bundle.harness import TIMER, harness, profiler, program
from ingot.errors import InputError, ToolchainError
from ingot.formula.expr import Array
from ingot.targets.process import Content
from ingot.targets.record import Target
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c, execute, exported, link_executable, link_shared, obstacle

ERRORS = {-1: "ERR_NULL", -2: "ERR_ALIGN", -3: "ERR_INDEX", -4: "ERR_CAPACITY", -5: "ERR_WEIGHTS"}
REMEDIES = {
    -3: "an index or a count among the inputs is out of range",
    -4: "an extent is outside the bounds it was compiled for",
}
WALL_CLOCK, THREAD_CLOCK = 1, 3  # CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID
SAMPLE_NS = 2e4  # shorter inferences are repeated within a sample
LONG_NS = 5e5  # longer ones are timed with the processor's clock: other programs do not count
Files = Mapping[str, bytes]


class Runner(Protocol):
    """What runs a shipped object. `call` gives its status; the outputs mean something if that is 0."""

    def call(self, inputs: Mapping[str, Array]) -> tuple[int, dict[str, Array]]: ...

    def time(self, inputs: Mapping[str, Array], repeat: int) -> list[float]: ...

    def profile(self, inputs: Mapping[str, Array], runs: int) -> list[float]: ...


def runner(name: str, files: Files, manifest: Manifest) -> Runner:
    """What suits the object. InputError if a file is missing, ToolchainError if it cannot run here."""
    missing = [f for f in (f"{name}.o", f"{name}.h") if f not in files]
    if missing:
        raise InputError(f"the bundle has no {' and no '.join(missing)}", remedy="compile with --emit obj")
    if manifest["weights"] == "external" and f"{name}.weights.bin" not in files:
        raise InputError(f"the bundle has no {name}.weights.bin", remedy="compile with --emit weights-bin")
    target = find(manifest["target"])
    if reason := obstacle(target):
        raise ToolchainError(f"cannot run the object: {reason}")
    relocation = manifest["options"]["relocation"] or target.relocation
    kind = ProcessRunner if target.runner or relocation == "static" else LibraryRunner
    if manifest["options"].get("profile") and kind is ProcessRunner:
        raise InputError(f"a profile is taken in this process, where {target.name} does not run")
    return kind(name, files, manifest, target)


class LibraryRunner:
    """Loads a bundle's object into this process."""

    def __init__(self, name: str, files: Files, manifest: Manifest, target: Target) -> None:
        self.manifest = manifest
        profiled = bool(manifest["options"].get("profile"))
        more = profiler(manifest) if profiled else TIMER
        sources: dict[str, Content] = {
            "harness.c": harness(manifest, capacity(manifest)) + more,
            f"{name}.h": files[f"{name}.h"],
        }
        around = compile_c(sources, target, name="harness.c", relocation="pic")
        measure = "harness_profile" if profiled else "harness_time"
        self._library = load_library(link_shared([files[f"{name}.o"], around], ["harness_call", measure]))
        self._call = getattr(self._library, exported("harness_call"))
        self._measure = getattr(self._library, exported(measure))
        sizes = manifest["sizes"]
        weights = np.frombuffer(files.get(f"{name}.weights.bin", b""), np.uint8)
        self._memory = [aligned(len(weights)), aligned(sizes["mutable_bytes"]), aligned(sizes["arena_bytes"])]
        self._memory[0][:] = weights

    def call(self, inputs: Mapping[str, Array]) -> tuple[int, dict[str, Array]]:
        pointers, numbers, outputs, _keep = self._bind(inputs)
        return int(self._call(pointers, numbers)), outputs

    def time(self, inputs: Mapping[str, Array], repeat: int) -> list[float]:
        pointers, numbers, _outputs, _keep = self._bind(inputs)
        check(self.manifest, self._call(pointers, numbers))
        ns = np.zeros(max(repeat, 3))
        clock = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p)
        to = ns.ctypes.data_as(ctypes.c_void_p)
        self._measure(pointers, numbers, clock, WALL_CLOCK, to, 3, 1)
        fastest = max(float(ns[:3].min()), 1.0)
        inner = int(np.clip(SAMPLE_NS / fastest, 1, 10000))
        which = THREAD_CLOCK if fastest > LONG_NS else WALL_CLOCK
        self._measure(pointers, numbers, clock, which, to, repeat, inner)
        return [float(v) * 1e-9 for v in ns[:repeat]]

    def profile(self, inputs: Mapping[str, Array], runs: int) -> list[float]:
        pointers, numbers, _outputs, _keep = self._bind(inputs)
        check(self.manifest, self._call(pointers, numbers))
        ns = np.zeros(len(self.manifest["kernels"]) + 2, np.int64)
        clock = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p)
        self._measure(pointers, numbers, clock, ns.ctypes.data_as(ctypes.c_void_p), runs)
        return [max(int(n) - int(ns[-1]), 0) * 1e-9 for n in ns[:-1]]

    def _bind(self, inputs: Mapping[str, Array]) -> tuple[Any, Any, dict[str, Array], list[Array]]:
        arrays, outputs, extents = bind(self.manifest, inputs)
        everything = [*arrays, *outputs.values(), *self._memory]
        pointers = (ctypes.c_void_p * len(everything))(*(a.ctypes.data for a in everything))
        numbers = (ctypes.c_int * max(len(extents), 1))(*extents.values())
        return pointers, numbers, outputs, everything


class ProcessRunner:
    """Runs a bundle's object in a static program, under the target's emulator if it has one."""

    def __init__(self, name: str, files: Files, manifest: Manifest, target: Target) -> None:
        self.manifest, self._target = manifest, target
        sources: dict[str, Content] = {
            "harness.c": program(manifest, capacity(manifest)),
            f"{name}.h": files[f"{name}.h"],
        }
        around = compile_c(sources, target, name="harness.c", relocation="static")
        self._program = link_executable([files[f"{name}.o"], around], target)
        external = manifest["weights"] == "external"
        self._weights = files[f"{name}.weights.bin"] if external else b""

    def call(self, inputs: Mapping[str, Array]) -> tuple[int, dict[str, Array]]:
        arrays, outputs, extents = bind(self.manifest, inputs)
        numbers = [*extents.values(), *(a.nbytes for a in (*arrays, *outputs.values()))]
        words = b"".join(n.to_bytes(4, self._target.endian) for n in numbers)
        sent = words + self._weights + b"".join(map(self._bytes, arrays))
        answer = execute(self._program, self._target, sent)
        at = 4
        for array in outputs.values():
            array[...] = self._array(answer[at : at + array.nbytes], array)
            at += array.nbytes
        return int.from_bytes(answer[:4], self._target.endian, signed=True), outputs

    def time(self, inputs: Mapping[str, Array], repeat: int) -> list[float]:
        raise ToolchainError(f"only objects that run in this process can be timed, not {self._target.name}")

    def profile(self, inputs: Mapping[str, Array], runs: int) -> list[float]:
        raise ToolchainError(f"only objects that run in this process can be timed, not {self._target.name}")

    def _bytes(self, array: Array) -> bytes:
        """The array as the target's memory holds it."""
        words = array.reshape(-1).view(_words(array))
        return words.astype(words.dtype.newbyteorder(self._target.endian)).tobytes()

    def _array(self, data: bytes, like: Array) -> Array:
        order = "<" if self._target.endian == "little" else ">"
        words = np.frombuffer(data, f"{order}{_words(like)}").astype(_words(like))
        found: Array = words.view(like.dtype).reshape(like.shape)
        return found


def _words(array: Array) -> str:
    """The integers whose bytes a processor may have in another order; strings are bytes."""
    return "u1" if array.dtype.kind == "S" else f"u{array.itemsize}"


def check(manifest: Manifest, status: int) -> None:
    """InputError unless a run went well: every error of a bundle is about what it was given."""
    if status:
        raise InputError(
            f"{manifest['name']} returned {ERRORS.get(status, status)}", remedy=REMEDIES.get(status, "")
        )


def aligned(size: int, alignment: int = 64) -> Array:
    """Memory as a bundle may find it: filled with 0xFF, for nothing may be relied on."""
    raw = np.full(size + alignment, 0xFF, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]


def load_library(library: bytes) -> ctypes.CDLL:
    """A shared library, loaded into this process. ToolchainError if it does not fit this machine."""
    handle, path = tempfile.mkstemp(suffix=".so")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(library)
        return ctypes.CDLL(path)
    except OSError as e:
        raise ToolchainError(f"the object does not run on this machine: {e}") from None
    finally:
        os.unlink(path)
