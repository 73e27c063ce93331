"""The examples in docs/bundle.md compile strictly and run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import ingot

from .build import STRICT, compile_c, link, run, write

ROOT = Path(__file__).parent.parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
DOCUMENT = (ROOT / "docs" / "bundle.md").read_text()
EXAMPLES = dict(re.findall(r"^```c (\w+)\n(.*?)^```", DOCUMENT, re.S | re.M))
OPTIONS = {
    "direct": {},
    "external": {"weights": "external"},
    "threads": {"threads": True},
    "selftest": {"selftest": True},
    "static": {"api": "static"},
    "dynamic": {"api": "dynamic"},
    "argument": {"api": "argument"},
}


def test_every_convention_has_an_example() -> None:
    assert EXAMPLES.keys() == OPTIONS.keys()


@pytest.mark.parametrize("which", OPTIONS)
def test_example(which: str, tmp_path: Path) -> None:
    found = ingot.compile(DIGITS, name="lenet", **OPTIONS[which])
    found.save(tmp_path / "build")
    write(tmp_path, {"main.c": EXAMPLES[which]})
    for kind in ("gcc", "clang"):
        main = compile_c(kind, tmp_path, "main.c", "-std=c99", *STRICT, "-Ibuild")
        run([link(tmp_path, [main, "build/lenet.o"], "-pthread")], tmp_path)


def test_python_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.S | re.M)
    names: dict[str, dict[str, np.ndarray]] = {}
    monkeypatch.chdir(tmp_path)
    exec(code.replace("examples/digits/digits.onnx", str(DIGITS)), names)
    np.testing.assert_array_equal(names["answer"]["scores"], names["same"]["scores"])


def test_the_manifest_has_the_keys_of_the_document() -> None:
    table = DOCUMENT[DOCUMENT.index("| key | content |") :].split("\n\n")[0].splitlines()[2:]
    documented = {key for row in table for key in re.findall(r"`(\w+)`", row.split("|")[1])}
    found = ingot.compile(DIGITS, name="lenet").manifest
    assert documented == found.keys() - {"schema"}
    sizes = next(row for row in table if row.startswith("| `sizes`"))
    assert set(re.findall(r"`(\w+)`", sizes.split("|")[2])) == found["sizes"].keys()


def test_error_codes_are_those_of_the_header() -> None:
    documented = dict(re.findall(r"^\| `(LENET_\w+)` \| (-?\d+) \|", DOCUMENT, re.M))
    for pauses in (False, True):
        header = ingot.compile(DIGITS, name="lenet", pauses=pauses).files["lenet.h"].decode()
        found = dict(re.findall(r"(LENET_(?:OK|ERR_\w+)) = (-?\d+)", header))
        assert found == {k: v for k, v in documented.items() if pauses or k != "LENET_ERR_STOPPED"}
