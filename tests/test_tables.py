"""Tables: at any width the first column stays, nothing is lost, and names of models do no harm."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from rich.console import Console

from ingot.tables import Result, Table, table

WIDE = table(
    "Kernels",
    ("kernel", "nodes", *(f"figure {i}>" for i in range(9))),
    [(f"net_kernel_{i:010}", "conv + relu " * i, *range(i, i + 9)) for i in range(3)],
)


def lines(made: Table, width: int) -> list[str]:
    console = Console(width=width, highlight=False)
    with console.capture() as caught:
        for part in made.rich(width):
            console.print(part)
    return caught.get().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120, 240])
def test_no_column_vanishes(width: int) -> None:
    found = lines(WIDE, width)
    assert all(len(line) <= width for line in found)
    text = "\n".join(found)
    assert "…" not in text and all(f"figure {i}" in text for i in range(9))
    heads = sum("kernel " in line and "figure" in line for line in found)
    assert text.count("net_kernel_0000000001") == heads >= 1  # whole, in every part


def test_a_table_that_fits_is_one() -> None:
    assert len(list(WIDE.rich(240))) == 1 < len(list(WIDE.rich(60)))


@dataclass(frozen=True, slots=True, repr=False)
class Sum(Result):
    name: str
    value: int

    def tables(self) -> list[Table]:
        return [table(f"Sums of {self.name}", ("name", "value>"), [(self.name, self.value)])]


def test_a_result_shows_itself() -> None:
    made = Sum("<b>\x1b[2J[red]", 12345)
    assert "12,345" in repr(made) and "\x1b" not in repr(made) and "[red]" in repr(made)
    page = made._repr_html_()
    assert "<td" in page and "12,345" in page and "&lt;b&gt;" in page and "\x1b" not in page
