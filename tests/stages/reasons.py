"""Lines of generators that no single stage reaches, and why.

A line is told by its text, so that a reason outlives the lines above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

REASONS: dict[tuple[str, str], str] = {}
"""By file and line."""


def reasons(file: Path, lines: Iterable[int]) -> Iterator[tuple[int, str, str]]:
    """Number, text and reason of lines of a file."""
    text = file.read_text().splitlines()
    for n in lines:
        line = text[n - 1].strip()
        yield n, line, REASONS.get((file.name, line), "nothing was drawn that needs it")
