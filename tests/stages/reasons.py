"""Lines of generators that no single stage reaches, and why.

A line is told by its text, so that a reason outlives the lines above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

REASONS: dict[tuple[str, str], str] = {
    ("window.py", 'raise NotVectorizable("taps that depend on two axes at once")'): "no operator makes such",
    ("window.py", 'raise NotVectorizable("too narrow")'): "axes of one element are gone before",
    (
        "contract.py",
        'raise NotVectorizable(f"{b.tensor.name} moves with an axis of unknown extent")',
    ): "a scan's",
    ("contract.py", "found = _prepared(c, storage, target, {})"): "asked for by who measures tiles",
    ("row_reduction.py", 'raise NotVectorizable("no rows")'): "a tensor without elements",
    ("generator.py", "return self._block * points + point"): "several blocks of a weight that streams",
}
"""By file and line; of a line that a larger survey may reach there is none."""


def reasons(file: Path, lines: Iterable[int]) -> Iterator[tuple[int, str, str]]:
    """Number, text and reason of lines of a file."""
    text = file.read_text().splitlines()
    for n in lines:
        line = text[n - 1].strip()
        yield n, line, REASONS.get((file.name, line), "nothing was drawn that needs it")
