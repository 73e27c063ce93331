"""What the commands show: tables, JSON, notes, progress, text files. Called by all of them; knows no models.

Reports go to standard output, notes and progress to standard error. Names out of model files are shown
through `shown`: they may hold escape sequences, Rich's markup, or ten thousand characters.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.files import write_file
from ingot.log import listening

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDE = 240  # columns where the output is no terminal
NAME_LIMIT = 64


def shown(text: str, limit: int = NAME_LIMIT) -> str:
    """A name fit for a terminal: printable, on one line, not too long."""
    line = single_line(text)
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def single_line(text: str) -> str:
    """The text with line breaks and control characters written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


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
        console.print(table)


def write_text(path: Path, text: str) -> None:
    """Write a file, and say so; what UTF-8 has no bytes for is escaped. Raises InputError."""
    write_file(path, text.encode(errors="backslashreplace"))
    note(f"wrote {path}")


def note(text: str) -> None:
    """A line for the human, on standard error."""
    print(f"ingot: {single_line(text)}", file=sys.stderr)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table; a column whose title ends in `>` is aligned to the right. Numbers get thousands separators."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(single_line(title), "bold"), title_justify="left", title_style="")
    for column in columns:
        right = column.endswith(">")
        made.add_column(column.rstrip(">"), justify="right" if right else "left", no_wrap=right)
    for row in rows:
        made.add_row(*(Text(_cell(value)) for value in row))
    return made


def _cell(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else shown(str(value), 4 * NAME_LIMIT)


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
