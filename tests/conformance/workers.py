"""Cases on worker processes: a signal or a case that never ends costs one verdict, not the run.

In: functions of a case's number; out: (number, verdict) as they come. Called by `runner`.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from .judge import Verdict

Job = Callable[[int], Verdict]
_FORK = multiprocessing.get_context("fork")  # the cases are loaded once, before the workers start


@dataclass(slots=True)
class _Worker:
    process: ForkProcess
    pipe: Connection
    number: int = -1
    deadline: float = 0.0

    def give(self, number: int, seconds: float) -> None:
        self.number, self.deadline = number, time.monotonic() + seconds
        self.pipe.send(number)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _start(job: Job) -> _Worker:
    ours, theirs = _FORK.Pipe()
    process = _FORK.Process(target=_work, args=(job, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _work(job: Job, pipe: Connection) -> None:
    while True:
        pipe.send(tuple(job(pipe.recv())))


def run(job: Job, numbers: Sequence[int], count: int, seconds: float) -> Iterator[tuple[int, Verdict]]:
    """Verdicts of all numbers, from `count` processes; a number has `seconds` to end."""
    left = list(reversed(numbers))
    busy: list[_Worker] = []
    for _ in range(min(count, len(left))):
        busy.append(_start(job))
        busy[-1].give(left.pop(), seconds)
    while busy:
        wait([w.pipe for w in busy], timeout=1.0)
        for worker in list(busy):
            verdict = _verdict(worker, seconds)
            if verdict is None:
                continue
            yield worker.number, verdict
            busy.remove(worker)
            if not worker.process.is_alive() or not left:
                worker.end()
            if left:
                next_ = worker if worker.process.is_alive() else _start(job)
                next_.give(left.pop(), seconds)
                busy.append(next_)


def _verdict(worker: _Worker, seconds: float) -> Verdict | None:
    """What the worker says, or what became of it; None while it works."""
    try:
        if worker.pipe.poll():
            return Verdict(*worker.pipe.recv())
    except EOFError:
        worker.process.join()
        return Verdict("crash", f"ended by signal {-(worker.process.exitcode or 0)}")
    if time.monotonic() > worker.deadline:
        worker.process.kill()
        worker.process.join()
        return Verdict("crash", f"did not end within {seconds:.0f} s")
    return None
