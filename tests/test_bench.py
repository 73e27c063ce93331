"""`ingot bench`: both sides are measured in turns, and must compute the same."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from ingot.check import bench as measuring
from ingot.check.bench import Benchmark, bench, in_turns, markdown
from ingot.check.machine import pinned
from ingot.check.peer import onnxruntime_peer
from ingot.cli import app
from ingot.driver import compile_with
from ingot.errors import UnsupportedError
from ingot.options import Options

ROOT = Path(__file__).parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def digits() -> Benchmark:
    return bench(DIGITS, Options(), compile_with, against="onnxruntime", seconds=0.2)


@pytest.fixture(scope="module")
def models() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_models", ROOT / "benchmarks" / "models.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_both_are_measured_and_agree(digits: Benchmark) -> None:
    assert digits.peer is not None and digits.peer.name.startswith("onnxruntime ")
    for timing in (digits.ours, digits.peer):
        assert 1e-7 < timing.minimum <= timing.median < 0.1 and timing.samples >= 3
    assert digits.ratio == digits.ours.median / digits.peer.median
    assert digits.agrees and digits.relative is not None and digits.relative < 1e-5
    assert digits.macs == 134592 and digits.model == "digits"


def test_the_report_is_markdown_and_json(digits: Benchmark) -> None:
    lines = markdown([digits, replace(digits, peer=None, ratio=None, relative=None)]).splitlines()
    assert lines[0].startswith("| model |") and {line.count("|") for line in lines[:4]} == {10}
    assert lines[2].startswith("| digits | 134,592 |") and "onnxruntime" in lines[5]
    assert json.loads(json.dumps(asdict(digits)))["ours"]["samples"] == digits.ours.samples


def test_the_command_reports(monkeypatch: pytest.MonkeyPatch, digits: Benchmark) -> None:
    monkeypatch.setattr(measuring, "bench", lambda *a, **k: digits)
    assert "GMAC/s" in CliRunner().invoke(app, ["bench", str(DIGITS)]).stdout
    assert CliRunner().invoke(app, ["bench", str(DIGITS), "--markdown"]).stdout == markdown([digits])
    assert json.loads(CliRunner().invoke(app, ["bench", str(DIGITS), "--json"]).stdout)["macs"] == 134592
    monkeypatch.setattr(measuring, "bench", lambda *a, **k: replace(digits, agrees=False))
    assert CliRunner().invoke(app, ["bench", str(DIGITS)]).exit_code == 1


def test_turns_alternate() -> None:
    calls: list[str] = []

    def sampler(name: str) -> measuring._Sampler:
        def sample(repeat: int) -> list[float]:
            calls.append(name)
            return [0.001] * repeat

        return sample

    samples = in_turns([sampler("a"), sampler("b")], 0.0)
    assert calls == ["a", "a", "b", "b", "a", "b"] and all(len(s) == measuring.MOST_SAMPLES for s in samples)


def test_pinning_is_undone() -> None:
    before = os.sched_getaffinity(0)
    with pinned() as core:
        assert os.sched_getaffinity(0) == {core}
    assert os.sched_getaffinity(0) == before


def test_what_the_peer_refuses_is_an_error() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> bad (float[2] x) => (float[2] y) { y = Nothing(x) }"""
    x = {"x": np.zeros(2, np.float32)}
    with (
        pytest.raises(UnsupportedError, match=r"onnxruntime: .*Nothing"),
        onnxruntime_peer(onnx.parser.parse_model(text), x, {"y": x["x"]}),
    ):
        pass


def test_the_models_are_valid_and_always_the_same(models: ModuleType) -> None:
    for name, make in models.MODELS.items():
        model = make()
        onnx.checker.check_model(model, full_check=True)
        assert model.SerializeToString() == make().SerializeToString(), name
        assert model.ir_version <= 10 and 17 <= model.opset_import[0].version <= 21
