"""Builds what a release publishes: a source archive and a wheel in dist/, the same bytes every time.

    python tools/release.py [VERSION]

In: the tree of the last commit. Out, in dist/: the archive, the wheel and SHA256SUMS with the hash of each.
It refuses a tree that differs from its commit, a version that is not that of `src/ingot/__init__.py`, and a
changelog without an entry for it. Both files are built twice and compared; their times are the commit's
(SOURCE_DATE_EPOCH).
`make release` calls this; hatchling is in the extra `test`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


class Refusal(Exception):
    """What keeps the release from being made, with the remedy."""


def git(root: Path, *arguments: str) -> str:
    """Return what git prints. Raises Refusal where the tree is no repository."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise Refusal(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def require_clean(root: Path) -> None:
    """Raise Refusal where files differ from the commit or are not in it."""
    if changed := git(root, "status", "--porcelain"):
        raise Refusal(f"the tree differs from its last commit; commit or remove:\n{changed}")


def version_of(root: Path) -> str:
    """Return the version that the package states of itself."""
    text = (root / "src" / "ingot" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.M)
    if found is None:
        raise Refusal("src/ingot/__init__.py states no __version__")
    return found.group(1)


def entry(changelog: str, version: str) -> str:
    """Return the text that the changelog has for a version: its own section, else that of [Unreleased].

    Raises Refusal where neither has a line of its own.
    """
    for name in (version, "Unreleased"):
        found = re.search(rf"^## \[{re.escape(name)}\].*?\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
        if found and re.search(r"^- ", found.group(1), re.M):
            return found.group(1).strip()
    raise Refusal(f"CHANGELOG.md has no line for {version}: write one under [{version}] or [Unreleased]")


def build(root: Path, into: Path, epoch: str) -> dict[str, str]:
    """Build both files into a directory; return the SHA-256 of each by its name."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(into)]
    subprocess.run(command, cwd=root, env=environment, check=True, stdout=subprocess.DEVNULL)
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(into.iterdir())}


def checked_out(root: Path, into: Path) -> Path:
    """Copy the files of the last commit, and nothing else, into a directory; return it."""
    into.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=root, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(into)], input=archive, check=True)
    return into


def release(root: Path, asked: str = "") -> dict[str, str]:
    """Build dist/ anew and return the hashes of its files. Raises Refusal, and then changes nothing."""
    require_clean(root)
    version = version_of(root)
    if asked not in ("", version):
        raise Refusal(f"version {asked} was asked for, but src/ingot/__init__.py states {version}")
    entry((root / "CHANGELOG.md").read_text(), version)
    epoch = git(root, "log", "-1", "--format=%ct")
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        # From two places, so that no path of the machine is in the files either.
        first = build(checked_out(root, scratch / "one"), scratch / "first", epoch)
        second = build(checked_out(root, scratch / "another"), scratch / "second", epoch)
        if first != second:
            raise Refusal(f"two builds of one commit differ: {first} and {second}")
        shutil.rmtree(root / "dist", ignore_errors=True)
        shutil.copytree(scratch / "first", root / "dist")
    sums = "".join(f"{digest}  {name}\n" for name, digest in first.items())
    (root / "dist" / "SHA256SUMS").write_text(sums)
    return first


def main() -> int:
    """Print the hashes, or why there is no release."""
    try:
        made = release(ROOT, *sys.argv[1:2])
    except Refusal as refusal:
        print(f"release: {refusal}", file=sys.stderr)
        return 1
    for name, digest in made.items():
        print(f"{digest}  dist/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
