"""`ingot targets` and `ingot ops`: what is supported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import report, write_text
from ingot.tables import table
from ingot.targets.record import Target

Named = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="Show the details of one target, by its name or an alias."),
]
Html = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Write a page with a search field, instead of printing tables."
    ),
]
COLUMNS = ("target", "for", "vectors>", "runs by")


OPERATOR_COLUMNS = ("domain", "operator", "from opset", "how")


def targets(name: Named = None, html: Html = None, as_json: arg.Json = False) -> None:
    """List the targets, by family, or show one target."""
    from ingot.targets.records import FAMILIES, find

    if name is not None:
        found = find(name)
        data = _facts(found, next(family for family, members in FAMILIES.items() if found in members))
        rows = [(key.replace("_", " "), _words(value)) for key, value in data.items()]
        report(data, as_json, table(found.name, ("what", "is"), rows))
        return
    by_family = {family: [_facts(t, family) for t in members] for family, members in FAMILIES.items()}
    tables = [table(family, COLUMNS, map(_row, members)) for family, members in by_family.items()]
    if html is not None:
        every = [fact for members in by_family.values() for fact in members]
        named = [(*_row(fact), ", ".join(fact["aliases"])) for fact in every]
        return _write_page(html, "Targets", (*COLUMNS, "also called"), named)
    report([fact for members in by_family.values() for fact in members], as_json, *tables)


def _write_page(path: Path, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a page with one table and a field that filters its rows."""
    from ingot.inspection.page import listing
    from ingot.tables import cell

    names = [column.rstrip(">") for column in columns]
    write_text(path, listing(f"Ingot: {title}", names, [[cell(value) for value in row] for row in rows]))


def _facts(t: Target, family: str) -> dict[str, Any]:
    """What there is to know of a target, as plain data."""
    from ingot.targets.records import native
    from ingot.targets.toolchain import obstacle

    return {
        "name": t.name,
        "family": family,
        "description": t.description,
        "aliases": list(t.aliases),
        "triple": t.triple,
        "flags": list(t.flags),
        "gcc": list(t.gcc or ()),
        "format": t.format,
        "vector_bytes": t.vector_bytes,
        "registers": t.registers,
        "endian": t.endian,
        "pointer_bytes": t.pointer_bytes,
        "native": t.name == native().name,
        "runner": t.runner[0] if t.runner else "",
        "obstacle": obstacle(t),
    }


def _row(fact: dict[str, Any]) -> tuple[object, ...]:
    name = f"{fact['name']} (native)" if fact["native"] else fact["name"]
    by = fact["runner"] or "itself"
    if fact["obstacle"]:
        by = f"{fact['runner']}: missing" if fact["runner"] else "not here"
    return name, fact["description"], fact["vector_bytes"] or "-", by


def _words(value: object) -> object:
    return ", ".join(map(str, value)) or None if isinstance(value, list) else value


def ops(html: Html = None, as_json: arg.Json = False) -> None:
    """List the operators that Ingot compiles."""
    from ingot.inspection.operators import supported

    found = supported()
    data = [{"domain": o.domain, "name": o.name, "opsets": list(o.opsets), "how": o.how} for o in found]
    rows = [(o.domain or "onnx", o.name, ", ".join(map(str, o.opsets)), o.how) for o in found]
    if html is not None:
        return _write_page(html, "Operators", OPERATOR_COLUMNS, rows)
    title = f"{len(found)} operators"
    report(data, as_json, table(title, OPERATOR_COLUMNS, rows))
