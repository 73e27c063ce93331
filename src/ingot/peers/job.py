"""What goes between the process that measures and a worker, and what an adapter makes of it.

In: a `Job`. Out: a `Session`. Sessions of libraries with a C API are `Native`: a loop in C calls them and
reads the clock. The others are `Called` from a loop in Python. Imports nothing of Ingot's.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SAMPLE_NS = 20_000  # shorter inferences are repeated within a sample
LONG_NS = 500_000  # longer ones are timed with the processor's clock: other programs do not count
WALL_CLOCK, PROCESS_CLOCK = 1, 2  # CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID
MOST_REPEATS = 10_000
ARGUMENTS = 8

TIMER = """\
typedef __UINTPTR_TYPE__ word;
typedef word (*run_fn)(word, word, word, word, word, word, word, word);
typedef int (*clock_fn)(int, long *);
/* nanoseconds per call of `samples` samples of `inner` calls; an answer not 0 under `mask` ends it */
word peer_time(run_fn run, const word *a, word mask, clock_fn now, int clock, double *ns, int samples,
               int inner)
{
    for (int s = 0; s < samples; s++) {
        long t0[2], t1[2];
        now(clock, t0);
        for (int i = 0; i < inner; i++) {
            const word answer = run(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]) & mask;
            if (answer) return answer;
        }
        now(clock, t1);
        ns[s] = ((double)(t1[0] - t0[0]) * 1e9 + (double)(t1[1] - t0[1])) / inner;
    }
    return 0;
}
"""


class Refused(Exception):
    """The peer does not take the model; the text says why, on one line."""


@dataclass(frozen=True, slots=True)
class Job:
    """One model to be run: the file, the inputs by name, arrays like the outputs by name.

    `timer` is a library that holds TIMER, `cache` a folder for what takes long to compile; `settings` are
    for the peer `c:`.
    """

    model: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    timer: str
    timer_symbol: str
    cache: str
    settings: Mapping[str, str] = field(default_factory=dict)


class Session(Protocol):
    """A model loaded by a peer, bound to the job's inputs."""

    def run(self) -> dict[str, Array]:
        """The outputs of one inference."""

    def time(self, repeat: int) -> list[float]:
        """Seconds per inference of `repeat` samples."""


class Native:
    """A C function with up to eight arguments that fit a register. `raised` gets an answer that is not 0."""

    def __init__(
        self,
        job: Job,
        function: int,
        arguments: Sequence[Any],
        read: Callable[[], dict[str, Array]],
        *,
        mask: int = 0,
        raised: Callable[[int], None] | None = None,
    ) -> None:
        self._run = ctypes.c_void_p(function)
        words = [_word(a) for a in arguments]
        self._words = (ctypes.c_void_p * ARGUMENTS)(*words, *[0] * (ARGUMENTS - len(words)))
        self._read, self._mask, self._raised = read, ctypes.c_void_p(mask), raised
        self._time = getattr(ctypes.CDLL(job.timer), job.timer_symbol)
        self._time.restype = ctypes.c_void_p

    def run(self) -> dict[str, Array]:
        self._sample(1, 1, WALL_CLOCK)
        return self._read()

    def time(self, repeat: int) -> list[float]:
        fastest = min(self._sample(3, 1, WALL_CLOCK))
        inner = int(np.clip(SAMPLE_NS / max(fastest, 1.0), 1, MOST_REPEATS))
        clock = PROCESS_CLOCK if fastest > LONG_NS else WALL_CLOCK
        return [ns * 1e-9 for ns in self._sample(repeat, inner, clock)]

    def _sample(self, samples: int, inner: int, clock: int) -> list[float]:
        ns = np.zeros(samples)
        now = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p)
        to, counts = ctypes.c_void_p(ns.ctypes.data), (ctypes.c_int(samples), ctypes.c_int(inner))
        answer = self._time(self._run, self._words, self._mask, now, ctypes.c_int(clock), to, *counts)
        if answer and self._raised:
            self._raised(int(answer))
        found: list[float] = ns.tolist()
        return found


def _word(argument: Any) -> int | None:
    """A pointer, an array of ctypes or a number as what fits a register."""
    if isinstance(argument, ctypes.Array):
        return ctypes.addressof(argument)
    return argument.value if isinstance(argument, ctypes.c_void_p | ctypes.c_size_t) else int(argument)


class Called:
    """A Python callable; its call is part of what is timed."""

    def __init__(self, call: Callable[[], object], read: Callable[[], dict[str, Array]]) -> None:
        self._call, self._read = call, read

    def run(self) -> dict[str, Array]:
        self._call()
        return self._read()

    def time(self, repeat: int) -> list[float]:
        fastest = min(self._sample(1, time.perf_counter_ns) for _ in range(3))
        inner = int(np.clip(SAMPLE_NS / max(fastest, 1.0), 1, MOST_REPEATS))
        clock = time.process_time_ns if fastest > LONG_NS else time.perf_counter_ns
        return [self._sample(inner, clock) * 1e-9 for _ in range(repeat)]

    def _sample(self, inner: int, clock: Callable[[], int]) -> float:
        call = self._call
        begin = clock()
        for _ in range(inner):
            call()
        return (clock() - begin) / inner


def first_line(error: BaseException) -> str:
    """What an error says, short."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]
