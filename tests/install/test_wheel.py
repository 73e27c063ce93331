"""The wheel by itself: what is in it, and that it compiles four formats with no framework imported."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.install.wheel import ROOT, borrow_dependencies, environment, install, prepare, probe


def test_it_holds_the_package_whole_and_nothing_else(wheel: Path) -> None:
    tree = {
        p.relative_to(ROOT / "src").as_posix()
        for p in (ROOT / "src" / "ingot").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert inside == tree


def test_it_works_outside_the_tree_and_imports_no_framework(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "bare")
    install(python, "--no-deps", str(wheel))
    borrow_dependencies(python)
    done = probe(python, "formats", prepare(tmp_path / "models"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(
        name in done.stdout
        for name in ("net.keras", "net.h5", "net.tflite", "net.pb", "saved", "caffe2", "digits")
    )
