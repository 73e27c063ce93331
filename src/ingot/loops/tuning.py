"""Tuning files: what was measured to be fastest, by the keys of stages, for one target.

In: a file that `ingot tune` wrote, or somebody else. Out: `Choice`s, or an InputError that says what is
wrong: nothing in it is trusted. Called by the driver; the command line reads the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingot.errors import InputError
from ingot.loops.choice import DEFAULT, TILES, Choice
from ingot.loops.generators.tiles import Tile
from ingot.loops.program import Program
from ingot.targets.record import Target

SCHEMA = 1
KEPT = ("schema", "ingot", "target", "machine", "choices")  # of a file; the rest is what was measured
SEVERAL = sorted({m for tiles in TILES.values() for m in tiles})
BY_TEXT = {c.text: c for c in (DEFAULT, *(Choice(winograd=m) for m in SEVERAL))}
TILE = re.compile(r"tile=([1-9]\d?)x([1-9]\d?)")
AGAIN = "make it again with ingot tune"


def read_tuning(path: Path) -> dict[str, Any]:
    """What a tuning file says about choices."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is no tuning file: not JSON") from None
    if not isinstance(document, dict) or "choices" not in document:
        raise InputError(f"{path} is no tuning file", remedy=AGAIN)
    return {name: document[name] for name in KEPT if name in document}


def choices_of(document: Mapping[str, Any], target: Target) -> dict[str, Choice]:
    """The choices of a document; none of an empty one. InputError for one of another form or target."""
    if not document:
        return {}
    if document.get("schema") != SCHEMA:
        raise InputError(f"the tuning file has schema {document.get('schema')!r}, not {SCHEMA}", remedy=AGAIN)
    if document.get("target") != target.name:
        made_for = document.get("target")
        raise InputError(f"the tuning file is for {made_for!r}, not for {target.name!r}", remedy=AGAIN)
    choices = document.get("choices")
    if not isinstance(choices, Mapping):
        raise InputError("the tuning file has no choices", remedy=AGAIN)
    for key, text in choices.items():
        if not isinstance(key, str) or not isinstance(text, str) or _choice(text) is None:
            known = f"{', '.join(BY_TEXT)}, tile=ROWSxVECTORS"
            raise InputError(f"the tuning file wants {text!r} for {key!r}; there is {known}")
    return {key: choice for key, text in choices.items() if (choice := _choice(text)) is not None}


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
