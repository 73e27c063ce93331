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
    {"api"},
    {"driver"},
    {"packaging", "inspection", "check", "eie"},
    {"bundle"},
    {"audit", "peers"},
    {"emit"},
    {"memory"},
    {"loops"},
    {"quantization"},
    {"frontends", "passes", "compression"},
    {"ops"},
    {"graph"},
    {"data"},
    {"formula"},
    {"targets"},
    {"binary"},
    {"files", "workers", "drawing"},
    {"options", "errors", "log", "tables"},
]
RANK = {room: i for i, level in enumerate(LEVELS) for room in level}
BRANCH = {"frontends", "passes", "compression", "quantization"}
LATE = {("ingot.formula.expr", "ingot.formula.index")}
"""Tensors stand in the expressions whose algebra knows how many elements a tensor has at most."""


def room(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def name(path: Path) -> str:
    """`ingot.loops.region_passes.fuse`; a package by its own name."""
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
            here
            in BRANCH | {"api", "driver", "cli", "__init__", "onnx_backend", "check", "inspection", "eie"}
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


READS = {"read_bytes", "read_text", "open", "load", "loads", "fromfile", "memmap", "genfromtxt"}
# Modules that open files themselves: their scratch, the system's, and elements that are mapped.
OWN = {
    "files.py",
    "frontends/onnx/tensors.py",
    "check/machine.py",
    "check/opponent.py",
    "data/archives.py",  # members of an archive that is open
    "data/images.py",  # Pillow is handed bytes that are read
    "eie/rtl/synthesize.py",
    "targets/process.py",
    "targets/records.py",
}


def reads(path: Path) -> set[str]:
    """The calls of a module that open files, but for those of the package."""
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    named = {
        ast.unparse(f)
        for f in calls
        if (isinstance(f, ast.Attribute) and f.attr in READS) or (isinstance(f, ast.Name) and f.id == "open")
    }
    return {text for text in named if not text.startswith(("self.", "resources(", "files("))}


def test_files_are_opened_in_one_place() -> None:
    """What a user names may be a pipe, or have no end. Peers run in processes of their own."""
    modules = {str(p.relative_to(SOURCE)): p for p in SOURCE.rglob("*.py")}
    found = {name: reads(p) for name, p in modules.items() if not name.startswith("peers/")}
    assert {name for name, calls in found.items() if calls} == OWN, found
