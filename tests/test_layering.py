"""Imports go downwards only (docs/architecture.md draws the order), and never in a circle."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
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
LATE = {("ingot.formula.expr", "ingot.formula.index")}
"""Tensors stand in the expressions whose algebra knows how many elements a tensor has at most."""


def room(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def name(path: Path) -> str:
    """`ingot.loops.fuse`; a package by its own name."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(("ingot", *(parts[:-1] if parts[-1] == "__init__" else parts)))


MODULES = {name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imported(path: Path) -> set[str]:
    """The modules of ours that one imports, wherever in it it does so, for types alone too."""
    found = set()
    package = ["ingot", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            inner = {f"{origin}.{alias.name}" for alias in node.names}
            found |= inner & MODULES.keys() or {origin}
    return found & MODULES.keys() - {name(path)}


@pytest.mark.parametrize("path", MODULES.values(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down(path: Path) -> None:
    here = room(path)
    assert here in RANK, f"{here} has no place in the house"
    for other in {room(MODULES[m]) for m in imported(path) - {"ingot"}} - {here}:
        assert RANK[other] > RANK[here], f"{here} imports {other}, which stands above or beside it"
        assert (
            here in BRANCH | {"driver", "cli", "__init__", "onnx_backend", "check", "inspect"}
            or other not in BRANCH
        )


def test_no_imports_go_in_a_circle() -> None:
    graph = {module: imported(path) for module, path in MODULES.items()}
    for module, other in LATE:
        graph[module].remove(other)  # which it has: no exception outlives its reason
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other in a circle: {' > '.join(error.args[1])}")
