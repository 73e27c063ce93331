"""The programs of docs/python.md run, one after the other, and print what stands there."""

from __future__ import annotations

import io
import re
import shutil
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from ingot.options import OptionFields

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "python.md").read_text()


def test_the_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("digits.onnx", "test_images.npz"):
        shutil.copy(ROOT / "examples" / "digits" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) > 9
    printed = ""
    for kind, text in blocks:
        if kind == "text":
            assert text == printed
            continue
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(text, "docs/python.md", "exec"), names)
        printed = out.getvalue()


def test_the_table_names_options_that_exist() -> None:
    rows = re.findall(r"^\| `--[^|]*\| `(\w+)=", PAGE, re.MULTILINE)
    assert len(rows) > 9 and set(rows) - {"package"} <= set(OptionFields.__annotations__)
