"""`ingot targets` and `ingot ops`: what is supported."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ingot.cli import arguments as arg
from ingot.cli.show import report
from ingot.tables import table
from ingot.targets.record import Target

Named = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Show all of one target, by its name or an alias.")
]
COLUMNS = ("target", "for", "vectors>", "runs by")


def targets(name: Named = None, as_json: arg.Json = False) -> None:
    """List what Ingot compiles for, by family."""
    from ingot.targets.records import FAMILIES, find

    if name is not None:
        found = find(name)
        data = _facts(found, next(family for family, members in FAMILIES.items() if found in members))
        rows = [(key.replace("_", " "), _words(value)) for key, value in data.items()]
        report(data, as_json, table(found.name, ("what", "is"), rows))
        return
    by_family = {family: [_facts(t, family) for t in members] for family, members in FAMILIES.items()}
    tables = [table(family, COLUMNS, map(_row, members)) for family, members in by_family.items()]
    report([fact for members in by_family.values() for fact in members], as_json, *tables)


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


def ops(as_json: arg.Json = False) -> None:
    """List the operators Ingot compiles."""
    from ingot.inspection.operators import supported

    found = supported()
    data = [{"domain": o.domain, "name": o.name, "opsets": list(o.opsets), "how": o.how} for o in found]
    rows = [(o.domain or "onnx", o.name, ", ".join(map(str, o.opsets)), o.how) for o in found]
    title = f"{len(found)} operators"
    report(data, as_json, table(title, ("domain", "operator", "from opset", "how"), rows))
