"""The shipped object, called from Python: linked unchanged into a library, or into a program of its own.

The program serves objects for other processors, under an emulator, and those that are not
position-independent.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from ingot.bundle.binding import Manifest, State, bind, blank, capacity
from ingot.bundle.harness import GO_ON, ONLY_START, START, TIMER, harness, profiler, program
from ingot.bundle.host_memory import require_host_memory
from ingot.errors import InputError, ToolchainError
from ingot.formula.expr import Array
from ingot.targets.machine import Machine, adapted
from ingot.targets.process import Content
from ingot.targets.record import Target
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c, execute, exported, link_executable, link_shared, obstacle

ERRORS = {-1: "ERR_NULL", -2: "ERR_ALIGN", -3: "ERR_INDEX", -4: "ERR_CAPACITY", -5: "ERR_WEIGHTS"}
REMEDIES = {
    -3: "an index or a count among the inputs is out of range, or a string is not the number it should be",
    -4: "an extent, a count or a string is beyond the bounds it was compiled for, or not what the model "
    "declares: correct it, or compile with larger bounds (--define, --capacity, --string-bytes) or with "
    "--infer-shapes",
}
WALL_CLOCK, THREAD_CLOCK = 1, 3  # CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID
SAMPLE_NS = 2e4  # shorter inferences are repeated within a sample
LONG_NS = 5e5  # longer ones are timed with the processor's clock: other programs do not count
Files = Mapping[str, bytes]
NOTHING: Mapping[str, Array] = MappingProxyType({})
NOT_TIMED = "only objects that run in this process can be timed, not {}; measure on the board itself"


class Runner(Protocol):
    """What runs a shipped object. `call` gives its status; the outputs mean something if that is 0.

    `step` goes on from a state, or from the start where that is None, and gives the state after it; `start`
    gives the state before the first run. `out` has the caller's arrays for outputs.
    """

    def call(self, inputs: Mapping[str, Array]) -> tuple[int, dict[str, Array]]: ...

    def step(
        self, inputs: Mapping[str, Array], state: State | None, out: Mapping[str, Array] = NOTHING
    ) -> tuple[int, dict[str, Array], State]: ...

    def start(self) -> State: ...

    def time(self, inputs: Mapping[str, Array], repeat: int) -> list[float]: ...

    def profile(self, inputs: Mapping[str, Array], runs: int) -> list[float]: ...


def runner(name: str, files: Files, manifest: Manifest) -> Runner:
    """What suits the object. InputError if a file is missing or the memory is too small, ToolchainError if
    the object cannot run here.
    """
    missing = [f for f in (f"{name}.o", f"{name}.h") if f not in files]
    if missing:
        raise InputError(
            f"the bundle has no {' and no '.join(missing)}",
            remedy="compile with --emit c,obj (emit=('c', 'obj'))",
        )
    if manifest["weights"] == "external" and f"{name}.weights.bin" not in files:
        raise InputError(
            f"the bundle has no {name}.weights.bin",
            remedy="compile with --emit c,obj,weights-bin (emit=('c', 'obj', 'weights-bin'))",
        )
    target = adapted(find(manifest["target"]), Machine.of(manifest["options"]))
    if reason := obstacle(target):
        raise ToolchainError(f"cannot run the object: {reason}")
    require_host_memory(manifest)
    relocation = manifest["options"]["relocation"] or target.relocation
    kind = ProcessRunner if target.runner or relocation == "static" else LibraryRunner
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
        return self.step(inputs, None)[:2]

    def step(
        self, inputs: Mapping[str, Array], state: State | None, out: Mapping[str, Array] = NOTHING
    ) -> tuple[int, dict[str, Array], State]:
        bound = self._bind(inputs, state, out)
        return int(self._call(bound.pointers, bound.numbers)), bound.outputs, bound.state

    def start(self) -> State:
        m = self.manifest
        sizes = capacity(m)
        edge = [np.zeros(n, np.uint8) for n in sizes[: len(sizes) - len(m["state"])]]
        bound = self._bound(edge, {}, [p["lo"] for p in m["params"]], blank(m), ONLY_START)
        check(m, self._call(bound.pointers, bound.numbers))
        return bound.state

    def time(self, inputs: Mapping[str, Array], repeat: int) -> list[float]:
        bound = self._ready(inputs)
        ns = np.zeros(max(repeat, 3))
        clock = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p)
        to = ns.ctypes.data_as(ctypes.c_void_p)
        self._measure(bound.pointers, bound.numbers, clock, WALL_CLOCK, to, 3, 1)
        fastest = max(float(ns[:3].min()), 1.0)
        inner = int(np.clip(SAMPLE_NS / fastest, 1, 10000))
        which = THREAD_CLOCK if fastest > LONG_NS else WALL_CLOCK
        self._measure(bound.pointers, bound.numbers, clock, which, to, repeat, inner)
        return [float(v) * 1e-9 for v in ns[:repeat]]

    def profile(self, inputs: Mapping[str, Array], runs: int) -> list[float]:
        bound = self._ready(inputs)
        ns = np.zeros(len(self.manifest["kernels"]) + 2, np.int64)
        clock = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p)
        to = ns.ctypes.data_as(ctypes.c_void_p)
        self._measure(bound.pointers, bound.numbers, clock, to, runs)
        return [max(int(n) - int(ns[-1]), 0) * 1e-9 for n in ns[:-1]]

    def _ready(self, inputs: Mapping[str, Array]) -> _Bound:
        """Inputs on which a run goes well, and a state to go on from."""
        bound = self._bind(inputs, None)
        check(self.manifest, self._call(bound.pointers, bound.numbers))
        return self._bind(inputs, bound.state)

    def _bind(
        self, inputs: Mapping[str, Array], state: State | None, out: Mapping[str, Array] = NOTHING
    ) -> _Bound:
        arrays, outputs, extents = bind(self.manifest, inputs, out)
        after = blank(self.manifest) if state is None else {n: a.copy() for n, a in state.items()}
        edge = [*arrays, *outputs.values()]
        return self._bound(edge, outputs, list(extents.values()), after, START if state is None else GO_ON)

    def _bound(
        self, edge: list[Array], outputs: dict[str, Array], extents: list[int], state: State, what: int
    ) -> _Bound:
        everything = [*edge, *state.values(), *self._memory]
        pointers = (ctypes.c_void_p * len(everything))(*(a.ctypes.data for a in everything))
        numbers = (ctypes.c_int * (len(extents) + 1))(*extents, what)
        return _Bound(pointers, numbers, outputs, state, everything)


@dataclass(frozen=True, slots=True)
class _Bound:
    """What `harness_call` is handed, and the arrays it points into."""

    pointers: Any
    numbers: Any
    outputs: dict[str, Array]
    state: State
    keep: list[Array]


def _hook(name: str) -> str:
    """What a bundle compiled with `profile` reports to where nobody looks at a clock."""
    return f"void {name}_profile(int i);\nvoid {name}_profile(int i) {{ (void)i; }}\n"


class ProcessRunner:
    """Runs a bundle's object in a static program, under the target's emulator if it has one."""

    def __init__(self, name: str, files: Files, manifest: Manifest, target: Target) -> None:
        self.manifest, self._target = manifest, target
        profiled = bool(manifest["options"].get("profile"))
        sources: dict[str, Content] = {
            "harness.c": program(manifest, capacity(manifest)) + (_hook(name) if profiled else ""),
            f"{name}.h": files[f"{name}.h"],
        }
        around = compile_c(sources, target, name="harness.c", relocation="static")
        self._program = link_executable([files[f"{name}.o"], around], target)
        external = manifest["weights"] == "external"
        self._weights = files[f"{name}.weights.bin"] if external else b""

    def call(self, inputs: Mapping[str, Array]) -> tuple[int, dict[str, Array]]:
        return self.step(inputs, None)[:2]

    def step(
        self, inputs: Mapping[str, Array], state: State | None, out: Mapping[str, Array] = NOTHING
    ) -> tuple[int, dict[str, Array], State]:
        arrays, outputs, extents = bind(self.manifest, inputs, out)
        before = blank(self.manifest) if state is None else state
        numbers = [*extents.values(), START if state is None else GO_ON]
        status, after = self._answer(arrays, outputs, numbers, before)
        return status, outputs, after

    def start(self) -> State:
        m = self.manifest
        inputs = [np.zeros(n, np.uint8) for n in capacity(m)[: len(m["inputs"])]]
        status, state = self._answer(inputs, {}, [*(p["lo"] for p in m["params"]), ONLY_START], blank(m))
        check(m, status)
        return state

    def _answer(
        self, arrays: list[Array], outputs: dict[str, Array], numbers: list[int], before: State
    ) -> tuple[int, State]:
        """Run the program: the status and the state afterwards; `outputs` are filled."""
        empty = [0] * (len(self.manifest["outputs"]) - len(outputs))
        sizes = [a.nbytes for a in (*arrays, *outputs.values())] + empty + [a.nbytes for a in before.values()]
        words = b"".join(n.to_bytes(4, self._target.endian) for n in (*numbers, *sizes))
        sent = words + self._weights + b"".join(map(self._bytes, (*arrays, *before.values())))
        answer = execute(self._program, self._target, sent)
        at, after = 4, blank(self.manifest)
        for array in (*outputs.values(), *after.values()):
            array[...] = self._array(answer[at : at + array.nbytes], array)
            at += array.nbytes
        return int.from_bytes(answer[:4], self._target.endian, signed=True), after

    def time(self, inputs: Mapping[str, Array], repeat: int) -> list[float]:
        raise ToolchainError(NOT_TIMED.format(self._target.name))

    def profile(self, inputs: Mapping[str, Array], runs: int) -> list[float]:
        raise ToolchainError(NOT_TIMED.format(self._target.name))

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
