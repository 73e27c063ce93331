"""Does what a tutorial says, block by block, in a folder of its own, and compares what is printed.

A fenced block with a title is a file, written as it stands. A block `console` is a session. Its lines that
begin with `$ ` are commands (a line that ends in a backslash goes on in the next). Below one stands what it
prints; there, `...` stands for any text within a line, and alone on a line for any lines.

A command that shows nothing may print anything. All output counts, errors too, and a command that fails fails
the page. Other blocks are only read.

What a page needs besides the base install stands in its comment `<!-- needs: NAME... -->`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.M | re.S)
SECONDS = 900
MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
"""What `make test` tells a make below it, which then prints the folders it enters. A reader's does not."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that the page shows."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the page and what it shows of the output; empty where it shows nothing."""

    line: str
    shown: str


Step = File | Command


def needs(page: str) -> list[str]:
    """Return what a page says that it needs."""
    found = re.search(r"<!-- needs: (.*?) -->", page)
    return found.group(1).split() if found else []


def session(text: str) -> list[Command]:
    """Return the commands of a console block."""
    joined = re.sub(r"\\\n", "", text)
    parts = re.split(r"^\$ (.*)\n", joined, flags=re.M)
    assert not parts[0].strip(), f"output without a command: {parts[0]}"
    return [Command(line, shown) for line, shown in zip(parts[1::2], parts[2::2], strict=True)]


def steps(page: str) -> list[Step]:
    """Return the files and commands of a page in their order."""
    found: list[Step] = []
    for kind, title, text in FENCE.findall(page):
        if title:
            found.append(File(title, text))
        elif kind == "console":
            found += session(text)
    return found


def matches(shown: str, printed: str) -> bool:
    """Return whether a command printed what the page shows, spaces at the ends of lines aside."""
    lines = [line.rstrip() for line in shown.strip().splitlines()]
    pattern = "\n".join(
        "(?s:.*?)" if line == "..." else r"[^\n]*".join(map(re.escape, line.split("..."))) for line in lines
    )
    # Lines that are left out altogether take their line break along.
    pattern = pattern.replace("\n(?s:.*?)\n", r"(?s:\n.*)?\n")
    said = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return re.fullmatch(pattern, said) is not None


def run(page: str, folder: Path, python: str = sys.executable) -> None:
    """Take every step in the folder. Raises AssertionError that names the first one that is not as shown."""
    # The name as it was called: resolving it would lead out of a virtual environment.
    path = f"{Path(python).absolute().parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name not in MAKE}
    environment = {**kept, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    for step in steps(page):
        match step:
            case File(name, text):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
            case Command(line, shown):
                done = subprocess.run(
                    ["bash", "-o", "pipefail", "-c", line],
                    cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL, text=True, timeout=SECONDS,
                )  # fmt: skip
                assert done.returncode == 0, f"$ {line}\nstatus {done.returncode}:\n{done.stdout}"
                assert not shown.strip() or matches(shown, done.stdout), (
                    f"$ {line}\nshown:\n{shown}\nprinted:\n{done.stdout}"
                )
