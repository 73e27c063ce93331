"""Tables as plain data, and how they look: in a terminal of any width, as text, in a notebook.

In: titles, columns and rows. Out: lines, or HTML. Made by the results of the Python API (`Result`), shown by
them and by the command line. Names out of model files go through `shown`: they may hold escape sequences,
Rich's markup, or ten thousand characters.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from rich.table import Table as RichTable

NAME_LIMIT = 64
TEXT_WIDTH = 100  # columns of a result's text
FOLDED = 20  # a column of words is not narrower than this, where others can move below
NAMES = 32  # nor is the first column
BORDERS = 3  # columns that stand between one column and the next


def shown(text: str, limit: int = NAME_LIMIT) -> str:
    """Return a name fit for a terminal: printable, on one line, not too long."""
    line = single_line(text)
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def single_line(text: str) -> str:
    """Return the text with line breaks and control characters written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@dataclass(frozen=True, slots=True)
class Table:
    """A title, columns, and rows of as many values. A column whose title ends in `>` is aligned to the right.

    Values stay what they are; `cell` says how one is written.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    @property
    def cells(self) -> list[list[str]]:
        """The rows as they are written."""
        return [[cell(value) for value in row] for row in self.rows]

    def rich(self, width: int) -> Iterator[RichTable]:
        """Yield what Rich prints in a terminal of `width` columns.

        Columns that do not fit go into another table below, behind the first column once more.
        """
        cells = self.cells
        for part, picked in enumerate(self._parts(cells, width)):
            yield self._rich(cells, picked, is_first=part == 0)

    def _rich(self, cells: list[list[str]], picked: Sequence[int], is_first: bool) -> RichTable:
        from rich.table import Table as RichTable
        from rich.text import Text

        title = Text(single_line(self.title), "bold") if is_first else None
        made = RichTable(title=title, title_justify="left", title_style="")
        for i in picked:
            is_right = self.columns[i].endswith(">")
            made.add_column(
                self.columns[i].rstrip(">"),
                justify="right" if is_right else "left",
                no_wrap=is_right,
                overflow="fold",
                min_width=_room(self.columns, cells, 0) if i == 0 else None,
            )
        for row in cells:
            made.add_row(*(Text(row[i]) for i in picked))
        return made

    def _parts(self, cells: list[list[str]], width: int) -> Iterator[list[int]]:
        """Yield the columns of each part: as many as have room, and the first in all of them."""
        needed = [_room(self.columns, cells, i) for i in range(len(self.columns))]
        part, taken = [0], needed[0] + BORDERS + 1
        for i in range(1, len(needed)):
            if taken + needed[i] + BORDERS > width and len(part) > 1:
                yield part
                part, taken = [0], needed[0] + BORDERS + 1
            part.append(i)
            taken += needed[i] + BORDERS
        yield part

    def html(self) -> ElementTree.Element:
        """Return a table of HTML, whose caption is the title."""
        made = ElementTree.Element("table")
        ElementTree.SubElement(made, "caption").text = single_line(self.title)
        sides = ["right" if column.endswith(">") else "left" for column in self.columns]
        head = ElementTree.SubElement(ElementTree.SubElement(made, "thead"), "tr")
        for column, side in zip(self.columns, sides, strict=True):
            ElementTree.SubElement(head, "th", style=f"text-align: {side}").text = column.rstrip(">")
        body = ElementTree.SubElement(made, "tbody")
        for row in self.cells:
            line = ElementTree.SubElement(body, "tr")
            for text, side in zip(row, sides, strict=True):
                ElementTree.SubElement(line, "td", style=f"text-align: {side}").text = text
        return made


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table of these rows."""
    return Table(title, tuple(columns), tuple(tuple(row) for row in rows))


def cell(value: object) -> str:
    """Return a value as it is written in a table; numbers get thousands separators."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else shown(str(value), 4 * NAME_LIMIT)


def _room(columns: Sequence[str], cells: Sequence[Sequence[str]], i: int) -> int:
    """The least width that leaves column `i` legible: all of a number, much of a word."""
    widest = max(len(columns[i].rstrip(">")), *(len(row[i]) for row in cells), 1)
    return widest if columns[i].endswith(">") else min(widest, FOLDED if i else NAMES)


class Result:
    """What a verb of the API returns: plain data that shows itself, as text and in a notebook."""

    __slots__ = ()

    def tables(self) -> Sequence[Table]:
        """Return what the command line shows of it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        from rich.console import Console

        out = io.StringIO()
        console = Console(file=out, width=TEXT_WIDTH, highlight=False)
        for each in self.tables():
            for part in each.rich(TEXT_WIDTH):
                console.print(part)
        return out.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        made = ElementTree.Element("div")
        made.extend(each.html() for each in self.tables())
        return ElementTree.tostring(made, encoding="unicode", method="html")
