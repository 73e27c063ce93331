"""Runs cases in processes of their own, which may die, hang or eat memory: the plain fuzzer, and the limits.

In: a reader's name, seeds. Out: a `Tally`. Case number i of a seed is always the same case, so that what was
reached can be measured afterwards, and a finding made again.
"""

from __future__ import annotations

import json
import os
import random
import resource
import select
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.readers import READERS, Overdue, outcome

SECONDS, BYTES = 10, 2 << 30
BATCH, SILENCE = 200, 120  # cases of a process; seconds of the clock after which it is taken for dead
DEEP = 25  # one case in so many goes the whole way
CORPUS = Path(__file__).parent / "corpus"
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Tally:
    """Verdicts of a reader's cases, and the first case of each thing that is wrong."""

    verdicts: Counter[str] = field(default_factory=Counter)
    findings: dict[str, bytes] = field(default_factory=dict)

    def add(self, said: str, data: bytes) -> None:
        good = said in ("read", "refused")
        self.verdicts[said if good else "wrong"] += 1
        if not good:
            self.findings.setdefault(said, data)


def kept(name: str) -> list[Path]:
    """The cases that once went wrong, or that show what is not to be read."""
    return sorted(p for p in (CORPUS / name).glob("*") if p.is_file())


def case(name: str, seed: int, number: int) -> bytes:
    """A mutation of a seed, or of what was found before."""
    reader, rng = READERS[name], random.Random(f"{name} {seed} {number}")
    known = [*reader.seeds(), *(p.read_bytes() for p in kept(name))]
    data = rng.choice(known)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = reader.mutate(data, rng)
    return data


def limit() -> None:
    """From here on the process has 2 GB more than it has, and raises `Overdue` where `watched` runs out."""

    def ring(*_: object) -> None:
        raise Overdue(f"more than {SECONDS} s")

    held = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
    resource.setrlimit(resource.RLIMIT_AS, (held + BYTES, held + BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, ring)


def watched(name: str, data: bytes, is_deep: bool) -> str:
    """What becomes of a case, in a folder of its own, within the time."""
    reader = READERS[name]
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        path = reader.place(Path(folder), data)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            return outcome(reader, path, is_deep)
        except Overdue as error:  # it rang between the reader and the clock
            return f"Overdue: {error}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def tally(name: str, seed: int, count: int, seconds: float = float("inf")) -> Tally:
    """What becomes of so many cases, or of as many as there is time for."""
    found, begin, start = Tally(), time.monotonic(), 0
    while start < count and time.monotonic() - begin < seconds:
        for number, said in _batch(name, seed, range(start, min(start + BATCH, count))):
            found.add(said, b"" if said in ("read", "refused") else case(name, seed, number))
            start = number + 1
    return found


def _batch(name: str, seed: int, numbers: range) -> Iterator[tuple[int, str]]:
    """Verdicts as a process gives them. Where it dies, its last case is to blame."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _run(name, seed, numbers, writing)
    os.close(writing)
    begun, silent = numbers.start, False
    with os.fdopen(reading, "rb") as pipe:
        while True:
            silent = not select.select([pipe], [], [], SILENCE)[0]
            line = b"" if silent else pipe.readline()
            if not line:
                break
            begun, said = json.loads(line)
            if said:
                yield begun, said
    if silent:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if silent or status:
        yield begun, "Overdue: it says nothing" if silent else f"the process died: {status}"


def _run(name: str, seed: int, numbers: range, pipe: int) -> None:
    """The child's work: a line before each case and one behind it."""
    status = 1
    try:
        limit()
        for number in numbers:
            os.write(pipe, json.dumps([number, ""]).encode() + b"\n")
            said = watched(name, case(name, seed, number), number % DEEP == 0)
            os.write(pipe, json.dumps([number, said]).encode() + b"\n")
        status = 0
    finally:
        os._exit(status)
