"""`make release`: refuses what must not be released, and builds the same bytes twice."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from release import Refusal, entry, release, version_of  # noqa: E402

TREE = {
    "pyproject.toml": """[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"
[project]
name = "ingot"
requires-python = ">=3.10"
dynamic = ["version"]
[tool.hatch.version]
path = "src/ingot/__init__.py"
""",
    "src/ingot/__init__.py": '__version__ = "1.2.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-02\n\n### Added\n\n- A thing.\n",
    ".gitignore": "/dist/\n",
}


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Test", "-c", "user.email=test@localhost")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name, text in TREE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "All")
    return root


def test_two_releases_of_a_commit_are_the_same_bytes(tree: Path) -> None:
    first = release(tree)
    assert sorted(first) == ["ingot-1.2.0-py3-none-any.whl", "ingot-1.2.0.tar.gz"]
    for name, digest in first.items():
        assert hashlib.sha256((tree / "dist" / name).read_bytes()).hexdigest() == digest
        assert f"{digest}  {name}" in (tree / "dist" / "SHA256SUMS").read_text()
    assert release(tree, "1.2.0") == first


@pytest.mark.parametrize("name", ["stray.txt", "CHANGELOG.md"])
def test_a_tree_that_is_not_its_commit_is_refused(tree: Path, name: str) -> None:
    with (tree / name).open("a") as file:
        file.write("more\n")
    with pytest.raises(Refusal, match=name):
        release(tree)
    assert not (tree / "dist").exists()


def test_another_version_than_the_package_has_is_refused(tree: Path) -> None:
    with pytest.raises(Refusal, match=r"1\.3\.0 was asked for.*states 1\.2\.0"):
        release(tree, "1.3.0")


def test_an_empty_changelog_is_refused(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [1.1.0]\n\n- Old.\n")
    git(tree, "commit", "-q", "-a", "-m", "Nothing to say")
    with pytest.raises(Refusal, match=r"no line for 1\.2\.0"):
        release(tree)


def test_the_changelog_of_a_version_is_its_section_else_what_is_unreleased() -> None:
    text = "## [Unreleased]\n\n- New.\n\n## [1.1.0] - 2026-01-02\n\n- Old.\n"
    assert entry(text, "1.1.0") == "- Old."
    assert entry(text, "1.2.0") == "- New."


def test_this_tree_could_be_released() -> None:
    assert entry((ROOT / "CHANGELOG.md").read_text(), version_of(ROOT))
