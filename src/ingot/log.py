"""The steps of the pipeline: run, verified, timed and dumped.

Every level has a verifier, run on what each step made. INGOT_CHECK says how: 0 not at all, 1 (the default)
what is wrong is an InternalError, 2 what cannot be proved right is one too.

INGOT_DUMP=graph,region,program,plan,c prints a level's text form after each step that changed it;
INGOT_TIME=1 prints how long each step took. Both go to standard error. Long work announces where it is to
whoever listens: the command line's progress bars. Remarks are for users: what was assumed of a model.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
LONGEST = 1000  # characters of a remark: names out of files may be of any length
Listener = Callable[[str, int, int], None]
"""(what is being done, how much of it is done, how much there is or 0 if that is unknown)"""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)

_wording: ContextVar[Callable[[str], str]] = ContextVar("wording", default=lambda text: text)

_said: ContextVar[frozenset[str]] = ContextVar("said", default=frozenset())


def strictness() -> int:
    """The level of INGOT_CHECK."""
    return int(os.environ.get("INGOT_CHECK") or 1)


@dataclass(frozen=True, slots=True)
class Level(Generic[R]):
    """A representation: how it is shown, what must hold of it. Calling it runs one step that ends there.

    `doing` tells a user what steps of this level are about.
    """

    name: str
    doing: str
    text: Callable[[R], str]
    verify: Callable[[R], object] = lambda _: None

    def __call__(self, step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """step(*args, **kwargs), verified; dumped where INGOT_DUMP names the level, and timed."""
        announce(self.doing)
        dumped = self.name in os.environ.get("INGOT_DUMP", "").split(",")
        before = {self._try_text(a) for a in args} if dumped else set()
        begin = time.perf_counter()
        result = step(*args, **kwargs)
        made = time.perf_counter()
        if strictness() > 0:
            self.verify(result)
        if os.environ.get("INGOT_TIME"):
            spent, more = 1e3 * (made - begin), 1e3 * (time.perf_counter() - made)
            print(f"ingot: {step.__name__}: {spent:.1f} ms, verified in {more:.1f} ms", file=sys.stderr)
        if dumped:
            after = self.text(result)
            print(
                f"-- {step.__name__} {'(unchanged)' if after in before else chr(10) + after}", file=sys.stderr
            )
        return result

    def _try_text(self, argument: object) -> str:
        """The text of an argument that is already at this level; steps change it in place."""
        try:
            return self.text(argument)  # type: ignore[arg-type]  # of another level: the text fails
        except (AttributeError, TypeError):
            return ""


def announce(what: str, done: int = 0, total: int = 0) -> None:
    """Tell the listener, if there is one, what is being done now."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


def forget() -> None:
    """Let remarks be heard again: another command begins."""
    _said.set(frozenset())


def remark(text: str) -> None:
    """Print a line for the human to standard error, the same one once in this context."""
    if text not in _said.get():
        _said.set(_said.get() | {text})
        line = "".join(c if c.isprintable() else "?" for c in _wording.get()(text))
        print(f"ingot: {line if len(line) <= LONGEST else f'{line[:LONGEST]}...'}", file=sys.stderr)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within the block, `listener` hears what is announced."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def worded(words: Callable[[str], str]) -> Iterator[None]:
    """Within the block, remarks are put in other words."""
    token = _wording.set(words)
    try:
        yield
    finally:
        _wording.reset(token)
