"""The assembly of a bundle's C, or of any .s file, as LLVM's own assembler reads it.

In: a bundle or a text. Out: `Listed` functions with the model's layers beside them, and for audits the
objects of the same text with every fixup in its place. Called by `ingot asm` and `objects.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ingot.audit.listing import ENCODING, FIXUP, Assembly, encoding_of
from ingot.bundle.bundle import Bundle
from ingot.bundle.schema import AGAIN
from ingot.emit.names import identifier
from ingot.errors import InputError, ToolchainError
from ingot.targets.linux import prebuilt_flags
from ingot.targets.record import Target
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c

# What a bundle's own list of flags may say to the compiler here; it may be anybody's file.
_HARMLESS = re.compile(r"-(m|O|W|D|U|std=|f(?!plugin|pass-plugin|profile|save))[\w.,=+-]*$")
LINE_LIMIT = 1000  # the pattern below takes the square of a line's length
_DEFINED = re.compile(r"static (?!inline\b|const\b)[^(=]*(?:\(\(\w+\)\))?[^(=]*\b(\w+)\(")
_DIRECTIVES = re.compile(r"\s*\.(cfi_|size|type|addrsig|ident|file|loc|Lfunc)")


@dataclass(frozen=True, slots=True)
class Unit:
    """One C file of a bundle as assembly, and how that is assembled. `layers`: function -> nodes."""

    file: str
    text: str
    how: Assembly
    layers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Hole:
    """A fixup as the listing shows it."""

    offset: int
    value: str
    kind: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the listing; `encoding` as LLVM writes it, `[0xe8,A,A,A,A]`."""

    text: str
    encoding: str
    fixups: tuple[Hole, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """One function; `layers` are the nodes of the model that it computes."""

    name: str
    file: str
    layers: str
    lines: tuple[Line, ...]


def units(bundle: Bundle, flags: Sequence[str] = (), cc: str | None = None) -> list[Unit]:
    """The C files of a bundle, compiled as the bundle was. InputError if it has no C."""
    name, m = bundle.name, bundle.manifest
    sources = {f"{name}.c": target_of(bundle)} | {f"{name}_{identifier(t)}.c": t for t in variants_of(bundle)}
    found = {file: find(t) for file, t in sources.items() if file in bundle.files}
    if not found:
        raise InputError(f"bundle '{name}' holds no C", remedy="compile the model with --emit c,obj")
    own = [f for f in m["options"]["cflags"] if _HARMLESS.match(f)]
    is_kernel = m.get("package") == "kbuild"
    return [
        _unit(bundle, file, target, (*own, *(prebuilt_flags(target) if is_kernel else ()), *flags), cc)
        for file, target in found.items()
    ]


def target_of(bundle: Bundle) -> str:
    """What the bundle says that it was compiled for."""
    return str(bundle.manifest["target"])


def variants_of(bundle: Bundle) -> list[str]:
    """The targets of a bundle that holds several."""
    return list(bundle.manifest.get("variants", []))


def _unit(bundle: Bundle, file: str, target: Target, flags: Sequence[str], cc: str | None) -> Unit:
    files = {n: data for n, data in bundle.files.items() if n.endswith((".h", ".c"))}
    relocation: Literal["static", "pic"] | None = bundle.manifest["options"]["relocation"]
    try:
        made = compile_c(files, target, name=file, flags=flags, cc=cc, relocation=relocation, kind="assembly")
    except ToolchainError as error:
        if not (edited := _edited(bundle, files)):
            raise
        reason = next((line for line in str(error).splitlines() if "error:" in line), "it does not compile")
        what = f"{', '.join(edited)}: not what was written: {reason.strip()}"
        raise InputError(what, remedy=AGAIN) from None
    text = made.decode(errors="replace")
    layers = layers_of(bundle.files[file].decode(errors="replace"), bundle.manifest)
    return Unit(file, text, Assembly.of_target(target, flags), layers)


def _edited(bundle: Bundle, files: Mapping[str, bytes]) -> list[str]:
    """Those of a bundle's sources that somebody has changed, or taken away, since they were written."""
    written = {n: digest for n, digest in bundle.manifest["files"].items() if n.endswith((".h", ".c"))}
    if not any(n.endswith(".h") for n in written):
        written[f"{bundle.name}.h"] = ""
    made = {n: hashlib.sha256(data).hexdigest() for n, data in files.items()}
    return [n for n in {**written, **made} if made.get(n) != written.get(n)]


def layers_of(source: str, manifest: dict[str, Any]) -> dict[str, str]:
    """Function -> the nodes it computes: of all its calls in the manifest, else as its comment says."""
    found, head, is_head = {}, "", False
    for line in source.splitlines():
        is_head = line.startswith("/* ") or (is_head and line.startswith("    "))
        if line.startswith("/* "):
            head = line[3:]
        elif is_head:
            head += f" {line.strip()}"
        elif named := _DEFINED.match(line[:LINE_LIMIT]):
            found[named[1]] = head.partition(";")[0]
    calls: dict[str, list[str]] = {}
    for kernel in manifest["kernels"]:
        calls.setdefault(kernel["name"], []).append(" + ".join(kernel["nodes"]))
    return found | {name: ", ".join(dict.fromkeys(nodes)) for name, nodes in calls.items()}


def listed(unit: Unit, functions: Sequence[str] = ()) -> Iterator[Listed]:
    """The functions of a unit, or those named."""
    for name, lines in split(unit.how.listing(unit.text)):
        if not functions or name in functions:
            kept = tuple(line for line in lines if not _DIRECTIVES.match(line.text))
            yield Listed(name, unit.file, unit.layers.get(name, ""), kept)


def split(listing: str) -> Iterator[tuple[str, list[Line]]]:
    """(function, its lines), from its label to its `.size`; other labels of the same section stay inside."""
    functions = set(re.findall(r"^[ \t]*\.type[ \t]+([\w.$]+),[ \t]*[@%]function", listing, re.M))
    name, lines = "", list[Line]()
    for line in parsed(listing):
        label = re.match(r"([\w.$]+):", line.text)
        if label and label[1] in functions:
            if name:
                yield name, lines
            name, lines = label[1], []
        elif name and re.match(rf"\s*\.size\s+{re.escape(name)}\b", line.text):
            yield name, lines
            name, lines = "", []
        elif name:
            lines.append(line)
    if name:
        yield name, lines


def parsed(listing: str) -> Iterator[Line]:
    """Lines with their encodings, and the fixups that stand below them."""
    text, encoding, holes = "", "", list[Hole]()
    for row in listing.splitlines():
        if hole := FIXUP.match(row):
            holes.append(Hole(int(hole[2]), hole[3], hole[4]))
            continue
        if text:
            yield Line(text, encoding, tuple(holes))
        encoded, holes = encoding_of(row), []
        text, encoding = (encoded[0], f"[{encoded[1]}]") if encoded else (row.rstrip(), "")
    if text:
        yield Line(text, encoding, tuple(holes))


def shown(lines: Sequence[Line], mark: str, encoding: bool) -> str:
    """As LLVM prints a listing: encodings in a column, a line for each fixup."""
    out = []
    for line in lines:
        text = line.text.expandtabs(8)
        if not (encoding and line.encoding):
            out.append(text)
            continue
        out.append(f"{text:<39} {mark} encoding: {line.encoding}")
        for letter, hole in zip("ABCDEFGH", line.fixups, strict=False):
            where = f"fixup {letter} - offset: {hole.offset}, value: {hole.value}, kind: {hole.kind}"
            out.append(f"{'':<40}{mark}   {where}")
    return "\n".join(out)


def comment_mark(listing: str) -> str:
    """What begins a comment for this processor: #, //, @."""
    found = ENCODING.search(listing)
    return found[1] if found else "#"
