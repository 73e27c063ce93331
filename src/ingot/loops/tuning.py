"""Tuning files: what was measured to be fastest, by the keys of stages, for one target.

In: a file that `ingot tune` wrote, or somebody else. Out: `Choice`s, or an InputError that says what is
wrong: nothing in it is trusted. Called by the driver; the command line reads the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from ingot.errors import InputError
from ingot.files import conform, parse_json, read_text
from ingot.loops.choice import DEFAULT, TILES, Choice
from ingot.loops.kernels.contraction.tiles import Tile
from ingot.loops.program import Program
from ingot.targets.record import Target

SCHEMA = 1
KEPT = ("schema", "ingot", "target", "machine", "choices")  # of a file; the rest is what was measured
SEVERAL = sorted({m for tiles in TILES.values() for m in tiles})
BY_TEXT = {c.text: c for c in (DEFAULT, *(Choice(winograd=m) for m in SEVERAL))}
TILE = re.compile(r"tile=([1-9]\d?)x([1-9]\d?)")
SHOWN = 80
AGAIN = "make it again with ingot tune"


class Document(Struct):
    """A tuning file: `choices` by the keys of stages, `measured` seconds by key and choice."""

    schema: int
    target: str
    choices: dict[str, str]
    ingot: str = ""
    machine: str = ""
    processor: str = ""
    measured: dict[str, dict[str, Annotated[float, Meta(ge=0)]]] = {}

    @property
    def about(self) -> dict[str, Any]:
        """What it says about choices."""
        return {name: getattr(self, name) for name in KEPT}


def read_document(path: Path) -> Document:
    """A whole tuning file. Raises InputError."""
    found = conform(parse_json(read_text(path), path), Document, f"the tuning file {path}")
    if found.schema != SCHEMA:
        raise InputError(f"the tuning file has schema {found.schema}, not {SCHEMA}", remedy=AGAIN)
    return found


def read_tuning(path: Path) -> dict[str, Any]:
    """What a tuning file says about choices."""
    return read_document(path).about


def choices_of(document: Mapping[str, Any], target: Target) -> dict[str, Choice]:
    """The choices of a document; none of an empty one. InputError for one of another form or target."""
    if not document:
        return {}
    given = conform(dict(document), Document, "the tuning file")
    if given.schema != SCHEMA:
        raise InputError(f"the tuning file has schema {given.schema}, not {SCHEMA}", remedy=AGAIN)
    if given.target != target.name:
        raise InputError(
            f"the tuning file is for {given.target!r}, not for {target.name!r}",
            remedy="name that target alone, or make the file again with ingot tune",
        )
    found = {key: _choice(text) for key, text in given.choices.items()}
    for key, choice in found.items():
        if choice is None:
            known = f"{', '.join(BY_TEXT)}, tile=ROWSxVECTORS"
            raise InputError(
                f"the tuning file wants {given.choices[key][:SHOWN]!r} for {key[:SHOWN]!r}; there is {known}"
            )
    return {key: choice for key, choice in found.items() if choice is not None}


def _choice(text: str) -> Choice | None:
    """The choice of a text, None if it is no choice's."""
    if found := TILE.fullmatch(text):
        return Choice(tile=Tile(int(found[1]), int(found[2])))
    return BY_TEXT.get(text)


def require_used(tuned: Mapping[str, Choice], program: Program) -> None:
    """InputError if a choice is for a stage that the model does not have."""
    known = {key for kernel in program.kernels for key, _ in kernel.choices}
    stale = [key for key in tuned if key not in known]
    if stale:
        what = f"{len(stale)} of its {len(tuned)} choices fit no stage, {stale[0]!r} first"
        raise InputError(f"the tuning file is of another model or version: {what}", remedy=AGAIN)
