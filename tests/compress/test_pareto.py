"""`ingot pareto`: several sizes, what each costs, and a second run that continues the first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from ingot.check.pareto import Frontier, Point
from tests.compress.models import model
from tests.test_cli import ingot

WORDS = ("--ratios", "5x,8x,10x", "--bits", "3", "--bits", "v=4,*=5", "--json")


@pytest.fixture
def source(tmp_path: Path) -> tuple[Path, Path]:
    """A model of two dense layers, and samples with the classes that it gives them, but for one."""
    body = "{ h = MatMul(x, v) r = Relu(h) y = MatMul(r, w) }"
    onnx.save(
        model("(float[1,24] x) => (float[1,6] y)", body, {"v": [24, 60], "w": [60, 6]}), tmp_path / "m.onnx"
    )
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).standard_normal((30, 24)).astype(np.float32))
    return tmp_path / "m.onnx", tmp_path / "d.npz"


def run(source: tuple[Path, Path], folder: Path, *words: object) -> dict:
    result = ingot("pareto", source[0], "--evaluate", source[1], "-o", folder, *(words or WORDS))
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_points_are_what_compress_makes(tmp_path: Path, source: tuple[Path, Path]) -> None:
    found = run(source, tmp_path / "p")
    assert [(p["wished"], p["bits"]) for p in found["points"]] == [
        (r, b) for r in ("5x", "8x", "10x") for b in ("3", "v=4,*=5")
    ]
    point = found["points"][3]
    words = ("--target-ratio", "8x", "--bits", "v=4,*=5", "--evaluate", source[1], "--json")
    result = ingot("compress", source[0], *words, "-o", tmp_path / "one.onnx")
    alone = json.loads(result.stdout)
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "p" / "8x-v=4,_=5bits.onnx").read_bytes()
    assert point["bytes"] == alone["bytes"] and point["ratio"] == alone["ratio"] >= 8
    assert point["error"] == alone["evaluation"]["error"] and point["right"] is None
    assert "times smaller" in (tmp_path / "p" / "pareto.svg").read_text()


def test_a_second_run_makes_what_is_missing(tmp_path: Path, source: tuple[Path, Path]) -> None:
    folder = tmp_path / "p"
    first = run(source, folder)
    times = {p: p.stat().st_mtime_ns for p in folder.glob("*.onnx")}
    (folder / "8x-3bits.json").unlink()
    (folder / "10x-v=4,_=5bits.json").write_text("{")
    assert run(source, folder, *WORDS, "--workers", "2") == first
    made = {p.name for p in folder.glob("*.onnx") if p.stat().st_mtime_ns != times[p]}
    assert made == {"8x-3bits.onnx", "10x-v=4,_=5bits.onnx"}
    np.savez(source[1], x=np.ones((3, 24), np.float32))
    assert run(source, folder)["points"] != first["points"]


def test_right_answers_and_ratios_that_cannot_be(tmp_path: Path, source: tuple[Path, Path]) -> None:
    x = np.load(source[1])["x"]
    np.savez(source[1], x=x, labels=np.zeros(30, np.int64))
    found = run(source, tmp_path / "p", "--ratios", "4x,900x", "--json")
    assert 0 <= found["points"][0]["right"] <= 100 and found["before"] is not None
    assert "less than the 900x asked for" in found["points"][1]["obstacle"]
    words = ("--evaluate", source[1], "--ratios", "900x", "-o", tmp_path / "q")
    result = ingot("pareto", source[0], *words)
    assert result.exit_code == 2 and "no point can be made" in result.stderr
    result = ingot("pareto", source[0], "--evaluate", source[1], "--ratios", " , ")
    assert result.exit_code == 2 and "no point to make" in result.stderr
    result = ingot("pareto", source[0])
    assert result.exit_code == 2 and "nothing to judge by" in result.stderr


def test_the_best_are_beaten_by_none() -> None:
    def point(name: str, ratio: float, error: float) -> Point:
        return Point(name, "", "4", "", ratio=ratio, error=error)

    points = (point("a", 4, 0.1), point("b", 6, 0.1), point("c", 8, 0.3), point("d", 7, 0.4))
    assert Frontier(points, None).best() == {"b", "c"}
