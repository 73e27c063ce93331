"""The pictures of the documents are true: drawn anew by the command beside them, or named as the code is.

`pytest --update-golden tests/test_pictures.py` draws docs/arena.svg anew.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compressed import NETWORKS, picture
from ingot.drawing.chart import Axis, Curve, curves_svg
from tests.test_cli import ingot

ROOT = Path(__file__).parent.parent


def test_the_arena_is_what_the_readme_s_command_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    (command,) = re.findall(
        r"^    \.venv/bin/ingot (inspect .*--svg) \S+", (ROOT / "README.md").read_text(), re.M
    )
    monkeypatch.chdir(ROOT)
    drawn = tmp_path / "arena.svg"
    assert ingot(*command.split(), drawn).exit_code == 0
    kept = ROOT / "docs" / "arena.svg"
    if request.config.getoption("--update-golden"):
        kept.write_text(drawn.read_text())
    assert drawn.read_text() == kept.read_text()


def test_the_levels_name_steps_of_the_code() -> None:
    picture = (ROOT / "docs" / "levels.svg").read_text()
    steps = re.findall(r'class="step"[^>]*>([^<]+)', picture)
    names = {name for text in steps for name in re.findall(r"[a-z_]+", text)}
    package = ROOT / "src" / "ingot"
    source = "".join(p.read_text() for p in package.rglob("*.py"))
    names -= {p.name for p in package.iterdir() if p.is_dir()}  # a room does what it is called
    assert len(names) > 7
    assert not {name for name in names if not re.search(rf"^def {name}\w*\(", source, re.M)}


ROW = re.compile(
    r"^\| (ResNet-8|DS-CNN) .*?\| [\d,]+ \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \(.*?\) \| ([\d.]+)x", re.M
)


def test_compressed_networks_are_drawn_as_the_document_says() -> None:
    """The rows of its table, and one size more that its text tells."""
    text = (ROOT / "docs" / "compression.md").read_text()
    found: dict[str, dict[str, Any]] = {}
    for title, published, before, right, ratio in ROW.findall(text):
        (name,) = (n for n, network in NETWORKS.items() if network.title.startswith(title))
        of = found.setdefault(name, {"published": float(published), "before": float(before), "points": []})
        of["points"].append({"ratio": float(ratio), "right": float(right)})
    ((lost, ratio),) = re.findall(r"it loses ([\d.]+) points\s+at\s+([\d.]+)x", text)
    of = found["ds_cnn"]
    of["points"].append({"ratio": float(ratio), "right": of["before"] - float(lost)})
    assert picture(found) == (ROOT / "docs" / "compressed.svg").read_text()


def test_every_picture_is_shown_and_checked() -> None:
    pictures = {p.name for p in (ROOT / "docs").rglob("*.svg")}
    assert pictures == {"arena.svg", "compressed.svg", "levels.svg"}
    pages = "".join(p.read_text() for p in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"))
    assert all(f"{name})" in pages for name in pictures)


def test_numbers_below_a_chart_do_not_run_into_each_other() -> None:
    x, y = Axis("x", is_log=True), Axis("y")
    text = curves_svg("title", x, y, [Curve("a", ((10, 0), (39, 1), (40, 2), (50, 3)))])
    assert ">39<" in text and ">40<" not in text and ">50<" in text
