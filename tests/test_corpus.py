"""The corpus on every target that runs here or under an emulator, against onnxruntime; bundles reproduced."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.binary.objects import undefined_symbols, writable_bytes
from ingot.targets.records import native
from tests import light
from tests.corpus import CASES, Case
from tests.corpus.__main__ import digests
from tests.here import require_runs
from tests.ops.rows import check

ROOT = Path(__file__).parents[1]
HERE = tuple(dict.fromkeys((native().name, "x86-64-v3", "x86-64", "c99")))
EMULATED = ("aarch64", "s390x")  # NEON; big-endian


def agrees(case: Case, target: str) -> None:
    """The bundle answers as onnxruntime does, twice the same to the bit, and needs nothing from outside."""
    made = ingot.compile(case.model, target=target, name=case.name, define=case.define)
    first, second = (list(made.run(case.feeds).values()) for _ in range(2))
    case.check(first, f"{case.name} on {target}")
    check(second, first, 0, f"{case.name} on {target}, the second time")
    code = made.files[f"{made.name}.o"]
    assert undefined_symbols(code) == []
    assert writable_bytes(code) == 0


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_agrees_with_onnxruntime(case: Case, target: str) -> None:
    require_runs(target)
    agrees(case, target)


@pytest.mark.parametrize("target", EMULATED)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_agrees_under_an_emulator(case: Case, target: str) -> None:
    require_runs(target)
    agrees(case, target)


def test_another_process_elsewhere_makes_the_same_bytes(tmp_path: Path) -> None:
    """Another directory, other hashes of strings: every file of every bundle is equal byte for byte."""
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-m", "tests.corpus"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == digests()


def test_objects_are_made_anew_with_the_same_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The compiler itself, not the memory of what it made before: run twice, in two directories."""
    monkeypatch.delenv("INGOT_CACHE", raising=False)
    case = next(c for c in CASES if c.name == "conv_1d")
    made = []
    for folder in ("one", "another"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        made.append(ingot.compile(case.model, target="x86-64", name="net").files)
    assert made[0] == made[1]


def test_every_model_is_of_its_own_kind() -> None:
    """No two models share a name, and each has something to say: not all of its outputs are constant."""
    assert len({c.name for c in CASES}) == len(CASES)
    for case in CASES:
        assert any(np.unique(a).size > 1 for a in case.wanted if a.size), case.name


def test_file_hashes_are_those_of_the_files() -> None:
    made = ingot.compile(CASES[0].model, target="c99", name="net")
    found = {n: hashlib.sha256(data).hexdigest() for n, data in made.files.items() if n != "net.json"}
    assert found == made.manifest["files"]


def test_a_net_of_the_onnx_package_agrees() -> None:
    """SqueezeNet with random weights, its logits too; `make light` runs all nine."""
    for found, wanted in light.outputs("squeezenet", "native"):
        check([found], [wanted], light.TOLERANCE, "squeezenet")
