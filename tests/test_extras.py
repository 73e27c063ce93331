"""The extras that docs/install.md lists are those of pyproject.toml, no more and no fewer."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "install.md").read_text()


def extras() -> set[str]:
    """The names under [project.optional-dependencies]."""
    text = (ROOT / "pyproject.toml").read_text()
    section = text.split("[project.optional-dependencies]\n")[1].split("\n[")[0]
    return set(re.findall(r"^(\w+) = \[", section, re.M))


def test_every_extra_is_on_the_page() -> None:
    users = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.M))
    (listed,) = re.findall(r"^The extras (.*) are for work on Ingot itself", PAGE, re.M)
    developers = set(re.findall(r"`(\w+)`", listed))
    assert not users & developers and users | developers == extras()
