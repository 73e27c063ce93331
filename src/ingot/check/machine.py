"""The machine that measures: its name, and one core to stay on. Called by `bench`, `limits` and `profile`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def pinned() -> Iterator[int]:
    """This thread stays on one core within the block: the last it may use, which interrupts seldom take."""
    before = os.sched_getaffinity(0)
    core = max(before)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, before)


def machine() -> str:
    """The processor's name."""
    return _cpuinfo().get("model name") or os.uname().machine


def fingerprint() -> str:
    """What tells two kinds of processor apart, even where their names are equal."""
    found = _cpuinfo()
    keys = ("model name", "cpu family", "model", "stepping", "cache size", "flags", "CPU part", "Features")
    return "\n".join(f"{k}: {found[k]}" for k in keys if k in found) or os.uname().machine


def _cpuinfo() -> dict[str, str]:
    """What Linux says of the first processor; empty elsewhere."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return {}
    rows = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in rows}


def cache_folder() -> Path:
    """Where what was measured or compiled once is kept: INGOT_CACHE, or a folder of the user's."""
    if directory := os.environ.get("INGOT_CACHE"):
        return Path(directory)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ingot"
