"""LLVM's assembler asked what it sees: encodings, fixups, and where each of them comes to lie.

In: assembly text and how it is assembled. Out: the listing with encodings and fixups, and the object with
the place of every fixup. Called by `ingot asm` and `ingot audit`.

The listing has no addresses, and instructions grow when branches are relaxed. So it is assembled again (it is
assembly) with a label before each instruction that has a fixup; labels change nothing in the code.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ingot.binary.read import read_object
from ingot.binary.record import ObjectFile
from ingot.errors import InputError, ToolchainError
from ingot.targets.process import produce, zig, zig_version
from ingot.targets.record import Target

LABEL = ".Lingot_fixup_"
# Four seconds, 2 GB of addresses and a file of 4 MB (or of 8: shells differ in the unit).
BOUNDED = ("sh", "-c", 'ulimit -t 4 && ulimit -v 1900000 && ulimit -f 8192 && exec "$@"', "sh")
ENCODING = re.compile(r"(?<!\S)(\S{1,3}) encoding: \[")  # behind what begins a comment there
FIXUP = re.compile(r"^\s*\S+\s+fixup (\w) - offset: (\d+), value: (.*), kind: (\S+?)(?:,.*)?$")


@dataclass(frozen=True, slots=True)
class Fixup:
    """A hole that the assembler left in an encoding: `offset` in the instruction, `mask` its bytes."""

    offset: int
    value: str
    kind: str
    mask: tuple[bool, ...]

    def span(self, length: int) -> tuple[int, int] | None:
        """From and to, of the bytes with a part of it; None of an instruction that was relaxed since."""
        held = [i for i, part in enumerate(self.mask) if part]
        return (held[0], held[-1] + 1) if held and len(self.mask) == length else None


@dataclass(frozen=True, slots=True)
class Assembly:
    """How text is assembled: the words between the assembler and the file.

    A text `of_user` may repeat itself for ever, or include a device: it is given little time and room.
    """

    command: tuple[str, ...]
    of_user: bool = False

    @classmethod
    def of_triple(cls, triple: str) -> Assembly:
        return cls(("-target", triple), of_user=True)

    @classmethod
    def of_target(cls, target: Target, flags: Sequence[str] = (), of_user: bool = False) -> Assembly:
        """As the compiler would: with the features of its processor."""
        return cls(("-target", target.triple, *target.flags, *flags), of_user)

    def listing(self, text: str) -> str:
        """The source as the assembler read it, with encodings and fixups."""
        return self._run(text, "-show-encoding", "-filetype", "asm").decode(errors="replace")

    def object(self, text: str) -> bytes:
        """The object. A name `.L...` that nothing defines is an error of LLVM's, explained."""
        return self._run(text)

    def _run(self, text: str, *options: str) -> bytes:
        words = [word for option in options for word in ("-Xclangas", option)]
        tool = (*BOUNDED, *zig("clang")) if self.of_user else zig("clang")
        command = (*tool, *self.command, "-Wno-unused-command-line-argument", "-c", "unit.s", *words)
        try:
            return produce((*command, "-o", "unit.out"), {"unit.s": text}, "unit.out", version=zig_version())
        except ToolchainError as error:
            if "Undefined temporary symbol" in str(error):
                raise _undefined_label(str(error)) from None
            if self.of_user:
                raise _refused(str(error)) from None
            raise


def _refused(report: str) -> InputError:
    """What LLVM says of a text that is not ours, on one line."""
    said = [line.strip() for line in report.splitlines() if "unit.s:" in line and "command" not in line]
    return InputError(f"LLVM cannot assemble this: {said[0] if said else 'it takes too much time or memory'}")


def _undefined_label(report: str) -> InputError:
    names = ", ".join(sorted(set(re.findall(r"Undefined temporary symbol (\S+)", report))))
    return InputError(
        f"LLVM cannot assemble this: {names} is not defined, and names that begin with .L are local to their "
        f"file, so no linker could find it",
        remedy="define the label, or rename it if it is defined elsewhere (GNU as accepts such names)",
    )


def fixups_of(listing: str) -> list[tuple[int, tuple[Fixup, ...]]]:
    """(line of the instruction, its fixups), in the order of the listing."""
    found: list[tuple[int, tuple[Fixup, ...]]] = []
    line, encoding, holes = -1, "", []
    for number, text in enumerate([*listing.splitlines(), ""]):
        if hole := FIXUP.match(text):
            letter, offset, value, kind = hole.groups()
            mask = tuple(letter in byte.removeprefix("0x").removeprefix("0b") for byte in encoding.split(","))
            holes.append(Fixup(int(offset), value, kind, mask))
            continue
        if holes:
            found.append((line, tuple(holes)))
            holes = []
        if encoded := encoding_of(text):
            line, encoding = number, encoded[1]
    return found


def encoding_of(row: str) -> tuple[str, str] | None:
    """An instruction and its encoding, which LLVM puts last; in time linear in any row."""
    row = row.rstrip()
    found = deque(ENCODING.finditer(row), maxlen=1) if row.endswith("]") else ()
    for last in found:
        return row[: last.start()].rstrip(), row[last.end() : -1]
    return None


def placed_fixups(text: str, how: Assembly) -> tuple[bytes, dict[tuple[int, int], tuple[Fixup, ...]]]:
    """The object of a text, and (section, offset) -> the fixups of the instruction there."""
    listing = how.listing(text)
    found = fixups_of(listing)
    lines = listing.splitlines()
    labels = {line: f"{LABEL}{i}" for i, (line, _) in enumerate(found)}
    marked = "\n".join(f"{labels[i]}:\n{line}" if i in labels else line for i, line in enumerate(lines))
    kept = read_object(how._run(marked + "\n", "-msave-temp-labels"))
    made = how.object(text)
    _require_same(read_object(made), kept)
    thumb = int(kept.machine == "EM_ARM")  # whose lowest bit says how, not where
    places = {s.name: (s.section, s.value & ~thumb) for s in kept.symbols if s.name.startswith(LABEL)}
    by_name = {labels[line]: holes for line, holes in found}
    placed = {(s, v): by_name[n] for n, (s, v) in places.items() if s is not None and n in by_name}
    return made, placed


def _require_same(plain: ObjectFile, marked: ObjectFile) -> None:
    """The labels must not have changed the code, or the places are those of another object."""
    codes: list[Mapping[str, bytes]] = [
        {f"{s.index} {s.name}": file.data(s) for s in file.code} for file in (plain, marked)
    ]
    if codes[0] != codes[1]:
        raise ToolchainError("labels in the assembly changed its code: fixups cannot be placed")
