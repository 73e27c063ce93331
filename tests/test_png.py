"""The example that reads PNG images: its programs are built by CMake and say what the models say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ingot
from tests.here import require_program

EXAMPLE = Path(__file__).parent.parent / "examples" / "png"
SAID = re.compile(r"(.*\.png): class (\d+), score (\S+)")


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_program("cmake")
    require_program("libpng-config")
    folder = tmp_path_factory.mktemp("png")
    run("cmake", "-S", str(EXAMPLE), "-B", str(folder), f"-DINGOT_PYTHON={sys.executable}")
    return folder


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def answers(build: Path, program: str) -> dict[str, tuple[int, float]]:
    """Class and score of each image, by its name."""
    run("cmake", "--build", str(build), "--target", program)
    images = sorted((build / program.partition("_")[0] / "images").iterdir())
    lines = run(str(build / program), *map(str, images)).splitlines()
    found = [SAID.fullmatch(line) for line in lines]
    assert len(found) == len(images) and None not in found
    return {Path(m[1]).name: (int(m[2]), float(m[3])) for m in found if m}


@pytest.mark.parametrize(("program", "most"), [("digits_float", 1e-5), ("digits_int8", 0.05)])
def test_digits_are_read(build: Path, program: str, most: float) -> None:
    """Images are named by their class and number; pixels of 0 to 16 are rounded to bytes of 0 to 255."""
    bundle = ingot.compile(EXAMPLE.parent / "digits" / "digits.onnx", target="c99")
    with np.load(EXAMPLE.parent / "digits" / "test_images.npz") as held:
        images = (np.round(held["images"] * (255 / 16)) * (16 / 255)).astype(np.float32)
    found = answers(build, program)
    assert len(found) == 10
    for name, (kind, score) in found.items():
        label, number = map(int, Path(name).stem.split("_"))
        wanted = bundle.run({"image": images[number : number + 1]})["scores"][0]
        assert kind == label == wanted.argmax() and abs(score - wanted.max()) <= most


def test_what_is_no_such_image_is_said(build: Path) -> None:
    run("cmake", "--build", str(build), "--target", "digits_float")
    done = subprocess.run([build / "digits_float", EXAMPLE / "classify.c"], capture_output=True, text=True)
    assert done.returncode == 1 and "classify.c" in done.stderr
