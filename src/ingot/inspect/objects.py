"""What `ingot audit` is given, made into audits: objects, assembly, bundles.

In: a path. Out: `Subject`s. Called by the command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ingot.errors import InputError
from ingot.targets.audit import Audit, audit
from ingot.targets.listing import Assembly, placed_fixups
from ingot.targets.record import Target
from ingot.targets.records import find


@dataclass(frozen=True, slots=True)
class Subject:
    """One object, and what is worth saying of how it was read."""

    name: str
    audit: Audit
    notes: tuple[str, ...] = ()


def read(path: Path, triple: str | None, target: str | None, flags: tuple[str, ...]) -> list[Subject]:
    """The object or objects of a path. InputError for what holds none."""
    if path.is_dir():
        raise InputError(f"{path} is a directory")
    wanted = find(target) if target else None
    if path.suffix in (".s", ".S", ".asm"):
        return [_assembled(path, triple, wanted, flags)]
    if triple is not None:
        raise InputError("--triple says how assembly is assembled, but this is no .s file")
    return [Subject(path.name, audit(path.read_bytes(), None, wanted, flags))]


def _assembled(path: Path, triple: str | None, target: Target | None, flags: tuple[str, ...]) -> Subject:
    if triple is None and target is None:
        raise InputError(f"{path} is assembly", remedy="say for which processor: --triple aarch64")
    how = Assembly.of_triple(triple) if triple else Assembly.of_target(target or find("native"), flags)
    made, placed = placed_fixups(path.read_text(errors="replace"), how)
    return Subject(path.name, audit(made, placed, target, flags))
