"""The examples of docs/dynamic.md compile strictly and run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ingot

from .build import STRICT, compile_c, link, run, write

DOCUMENT = (Path(__file__).parent.parent.parent / "docs" / "dynamic.md").read_text()
(EXAMPLE,) = re.findall(r"^```c dynamic\n(.*?)^```", DOCUMENT, re.S | re.M)
PYTHON = dict(re.findall(r"^```python (\w+)\n(.*?)^```", DOCUMENT, re.S | re.M))


def test_c_example(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(PYTHON["model"], names)
    bundle = ingot.compile(names["model"], name="any", define={"N": (1, 64), "W": (4, 40)})
    bundle.save(tmp_path / "build")
    write(tmp_path, {"main.c": EXAMPLE})
    for kind in ("gcc", "clang"):
        main = compile_c(kind, tmp_path, "main.c", "-std=c99", *STRICT, "-Ibuild")
        shown = run([link(tmp_path, [main, "build/any.o"])], tmp_path)
        assert re.fullmatch(r"\d+ of \d+ bytes\n", shown)
    header = bundle.files["any.h"].decode()
    for line in re.findall(r"^    (int.* any.*;)$", DOCUMENT, re.M):
        assert line in header, line


def test_python_example() -> None:
    names: dict[str, Any] = {}
    exec(PYTHON["model"] + PYTHON["run"], names)
    assert names["three"]["y"].shape == (3, 10) and names["one"]["r"].shape == (1, 8, 16, 40)


def test_variants_share_the_size_function() -> None:
    names: dict[str, Any] = {}
    exec(PYTHON["model"], names)
    define = {"N": (1, 4), "W": (4, 40)}
    bundle = ingot.compile(names["model"], name="any", target="x86-64+x86-64-v3", define=define)
    assert "any_arena_size" in bundle.manifest["symbols"]
    assert bundle.files["any.c"].decode().count("int64_t any_arena_size(") == 1
