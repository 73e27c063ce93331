"""The steps of the pipeline: run, verified, timed and dumped.

Every level has a verifier, run on what each step made. INGOT_CHECK says how: 0 not at all, 1 (the default)
what is wrong is an InternalError, 2 what cannot be proved right is one too.

INGOT_DUMP=graph,region,program,plan,c prints a level's text form after each step that changed it;
INGOT_TIME=1 prints how long each step took. Both go to standard error. Long work announces where it is to
whoever listens: the command line's progress bars.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Listener = Callable[[str, int, int], None]
"""(what is being done, how much of it is done, how much there is or 0 if that is unknown)"""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def strictness() -> int:
    """The level of INGOT_CHECK."""
    return int(os.environ.get("INGOT_CHECK") or 1)


def step(
    level: str,
    name: str,
    run: Callable[[], T],
    text: Callable[[T], str],
    verify: Callable[[T], object] = lambda _: None,
) -> T:
    """Run one step and verify its result; dump it where INGOT_DUMP names its level, and its time."""
    announce(name)
    begin = time.perf_counter()
    result = run()
    made = time.perf_counter()
    if strictness() > 0:
        verify(result)
    if os.environ.get("INGOT_TIME"):
        spent, more = 1e3 * (made - begin), 1e3 * (time.perf_counter() - made)
        print(f"ingot: {name}: {spent:.1f} ms, verified in {more:.1f} ms", file=sys.stderr)
    if level in os.environ.get("INGOT_DUMP", "").split(","):
        print(f"-- after {name}\n{text(result)}", file=sys.stderr)
    return result


def announce(what: str, done: int = 0, total: int = 0) -> None:
    """Tell the listener, if there is one, what is being done now."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within the block, `listener` hears what is announced."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
