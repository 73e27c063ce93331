"""Dumps and timings of the pipeline, off unless asked for.

INGOT_DUMP=graph,region,program,plan,c prints a level's text form after each step that changed it; INGOT_TIME=1 prints how
long each step took. Both go to standard error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def step(level: str, name: str, run: Callable[[], T], text: Callable[[T], str]) -> T:
    """Run one step of the pipeline; dump its result if INGOT_DUMP names its level, its time if INGOT_TIME is set."""
    begin = time.perf_counter()
    result = run()
    if os.environ.get("INGOT_TIME"):
        print(f"ingot: {name}: {1e3 * (time.perf_counter() - begin):.1f} ms", file=sys.stderr)
    if level in os.environ.get("INGOT_DUMP", "").split(","):
        print(f"-- after {name}\n{text(result)}", file=sys.stderr)
    return result
