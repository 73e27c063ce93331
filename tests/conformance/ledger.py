"""The ledger: one row per case with the verdict of the last run. Written by `runner`, held by `make test`."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

LEDGER = Path(__file__).with_name("ledger.csv")


class Row(NamedTuple):
    kind: str
    operator: str
    case: str
    result: str
    reason: str


def read(path: Path = LEDGER) -> dict[str, Row]:
    """The rows by case; none where there is no ledger yet."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    return {row.case: row for row in (Row(*r) for r in rows[1:])}


def write(rows: Mapping[str, Row], order: Iterable[str], path: Path = LEDGER) -> None:
    """The rows of the cases that exist, in their order."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(Row._fields)
        out.writerows(rows[name] for name in order if name in rows)
