"""Prints how many lines of Python each folder of the package holds, and the totals of package and tests.

In: the tree this file lies in. Out: one row per folder on standard output, and the files that ask for a
second look; a line counts unless it is blank or only a comment. Run as `python tools/sz.py`; it only reports.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "ingot"
LONG_FILE = 700  # lines of a file that ask for a second look (house style)


def code_lines(path: Path) -> int:
    """Returns the lines of a file that are neither blank nor only a comment."""
    stripped = (line.strip() for line in path.read_text().splitlines())
    return sum(1 for line in stripped if line and not line.startswith("#"))


def count_tree(root: Path) -> dict[Path, int]:
    """Returns the code lines of every Python file under a folder."""
    return {path: code_lines(path) for path in sorted(root.rglob("*.py"))}


def main() -> None:
    """Counts and prints."""
    package = count_tree(PACKAGE)
    folders: dict[str, list[int]] = {}
    for path, count in package.items():
        folder = path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else "."
        folders.setdefault(folder, []).append(count)
    print(f"{'folder':<14}{'files':>6}{'lines':>8}{'longest':>9}")
    for folder, counts in sorted(folders.items()):
        print(f"{folder:<14}{len(counts):>6}{sum(counts):>8}{max(counts):>9}")
    for name, tree in ("all of ingot", package), ("tests", count_tree(ROOT / "tests")):
        print(f"{name:<14}{len(tree):>6}{sum(tree.values()):>8}")
    for path, count in package.items():
        if count > LONG_FILE:
            print(f"over {LONG_FILE} lines: {path.relative_to(PACKAGE)} ({count})")


if __name__ == "__main__":
    main()
