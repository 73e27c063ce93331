"""What the commands show: tables, JSON, notes, progress, text files. Called by all of them; knows no models.

Reports go to standard output, notes and progress to standard error.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.files import write_apart
from ingot.log import listening
from ingot.tables import Table, shown, single_line

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 240  # columns where the output is no terminal


def text_block(text: str) -> None:
    """Print a text of many lines to standard output."""
    print("\n".join(single_line(line) for line in text.split("\n")))


def report(data: Any, as_json: bool, *tables: Table) -> None:
    """Print `data` as JSON, or the tables that show it."""
    if as_json:
        print(json.dumps(_strict(data), indent=2))
        return
    console = _console()
    for table in tables:
        for part in table.rich(console.width):
            console.print(part)


def write_text(path: Path, text: str) -> None:
    """Write a file, and say so; what UTF-8 has no bytes for is escaped. Raises InputError."""
    write_texts({path: text})


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write several files so, all or none. Raises InputError."""
    write_apart({path: text.encode(errors="backslashreplace") for path, text in texts.items()})
    for path in texts:
        note(f"wrote {path}")


def note(text: str) -> None:
    """A line for the human, on standard error."""
    print(f"ingot: {single_line(text)}", file=sys.stderr)


def _strict(data: Any) -> Any:
    """JSON has no NaN and no infinities: they become strings."""
    if isinstance(data, dict):
        return {str(k): _strict(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        return [_strict(v) for v in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data


@contextmanager
def progress(title: str) -> Iterator[None]:
    """Within the block, what the pipeline announces is shown as a bar on standard error, if a terminal."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    )
    hidden = not sys.stderr.isatty()
    with Progress(*columns, console=_console(error=True), transient=True, disable=hidden) as bar:
        task = bar.add_task(title, total=None)

        def heard(what: str, done: int, total: int) -> None:
            bar.update(task, description=f"{title}: {shown(what)}", completed=done, total=total or None)

        with listening(heard):
            yield


def _console(error: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else WIDE, highlight=False)
