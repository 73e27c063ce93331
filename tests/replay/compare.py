"""Which functions of two C texts differ, and how.

In: the texts of `emit`. Out: a `Change` for each function (or other definition at the top of the file) that
is not the same in both.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

BETWEEN = re.compile(r"\n\n+|(?<=\})\n(?=[a-z/])")
NOT_CODE = re.compile(r"/\*.*?\*/|__attribute__\(\(.*?\)\)", re.DOTALL)
NAME = re.compile(r"#(?:define|ifndef|include)\s+(\S+)|(?:struct|enum)\s+(\w*)\s*\{|(\w+)\s*[(\[]")


@dataclass(frozen=True)
class Change:
    """A definition that differs. `lines` are the lines of a unified diff, without its head."""

    name: str
    kind: str  # changed, new, gone, moved
    lines: tuple[str, ...]

    @property
    def sign(self) -> tuple[str, ...]:
        """What is the same in changes of the same kind: the lines that come and go."""
        return tuple(line for line in self.lines if line[:1] in "+-")


def changes(before: str, after: str, context: int = 2) -> list[Change]:
    """Nothing for equal texts; at least one change otherwise."""
    if before == after:
        return []
    old, new, found = definitions(before), definitions(after), []
    for name in [*old, *(n for n in new if n not in old)]:
        a, b = old.get(name, ""), new.get(name, "")
        if a != b:
            kind = "changed" if a and b else "new" if b else "gone"
            diff = difflib.unified_diff(a.splitlines(), b.splitlines(), n=context, lineterm="")
            found.append(Change(name, kind, tuple(diff)[2:]))
    return found or [
        Change("order of definitions", "moved", (*(f"-{n}" for n in old), *(f"+{n}" for n in new)))
    ]


def definitions(text: str) -> dict[str, str]:
    """The parts of a file by name, in their order: functions, structs and whatever else a blank line ends."""
    found: dict[str, str] = {}
    for part in BETWEEN.split(text.strip()):
        name, number = _name(part), 1
        while (key := name if number == 1 else f"{name} ({number})") in found:
            number += 1
        found[key] = part
    return found


def _name(part: str) -> str:
    """What a part defines; its first words where it defines nothing."""
    match = NAME.search(NOT_CODE.sub("", part))
    if match:
        return next(filter(None, match.groups()), "enum")
    return " ".join(part.split()[:2]).strip("/* :")
