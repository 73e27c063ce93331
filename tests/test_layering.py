"""Imports go downwards only (docs/architecture.md draws the order)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "ingot"
LEVELS = [
    {"__main__"},
    {"cli", "__init__", "onnx_backend"},
    {"driver"},
    {"packaging", "inspect", "check", "eie"},
    {"bundle"},
    {"audit", "peers"},
    {"emit"},
    {"memory"},
    {"loops"},
    {"frontends", "passes", "compress"},
    {"ops"},
    {"graph"},
    {"formula"},
    {"targets"},
    {"binary"},
    {"files"},
    {"options", "errors", "log"},
]
RANK = {room: i for i, level in enumerate(LEVELS) for room in level}
BRANCH = {"frontends", "passes", "compress"}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports(path: Path) -> set[str]:
    """The rooms a module imports from, wherever in the module it does so."""
    found = set()
    package = ["ingot", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("ingot.")}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            parts = [*base, *(node.module.split(".") if node.module else [])]
            if parts[:1] == ["ingot"] and len(parts) > 1:
                found.add(parts[1])
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down(path: Path) -> None:
    here = room(path)
    assert here in RANK, f"{here} has no place in the house"
    for other in imports(path) - {here}:
        assert RANK[other] > RANK[here], f"{here} imports {other}, which stands above or beside it"
        assert (
            here in BRANCH | {"driver", "cli", "__init__", "onnx_backend", "check", "inspect"}
            or other not in BRANCH
        )
