"""TFLite Micro's operators of audio, and its LSTM: integers to the bit as its own kernels have them, from
run to run (`record_micro.py`), evaluated and compiled; options that cannot be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ingot
from ingot.driver import front, region_of
from ingot.errors import InputError
from ingot.frontends.tflite import import_tflite
from ingot.loops.interpret import interpret
from ingot.options import Options
from tests.tflite.micro import SHORT, cases, one, pipeline
from tests.tflite.writer import Array, T

GOLDEN = Path(__file__).with_name("micro.npz")
CASES = cases()
COMPILED = (
    "rfft 60",
    "irfft 512",
    "rfft int32 30",
    "framer 10 4 0 12",
    "stacker 3 1 2",
    "pipeline 3",
    "lstm INT16 0.5",
)
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def golden() -> Mapping[str, Array]:
    with np.load(GOLDEN) as held:
        return {name: held[name] for name in held.files}


def read(tmp_path: Path, data: bytes) -> onnx.ModelProto:
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    return import_tflite(path)


def recorded(golden: Mapping[str, Array], name: str, run: int) -> list[Array]:
    found = []
    while (key := f"{name}/{run}/{len(found)}") in golden:
        found.append(golden[key])
    return found


def require_equal(found: Sequence[Array], wanted: Sequence[Array], note: str) -> None:
    """Where a frame is not valid (its bool says so), TFLite Micro leaves what was there."""
    assert len(found) == len(wanted) > 0
    is_valid = all(w.all() for w in wanted if w.dtype == bool)
    for y, w in zip(found, wanted, strict=True):
        assert (y.shape, y.dtype) == (w.shape, w.dtype), note
        if w.dtype.kind == "f":
            assert np.abs(y - w).max() <= TOLERANCE * np.abs(w).max(), note
        elif is_valid or w.dtype == bool:
            assert np.array_equal(y, w), note


@pytest.mark.parametrize("name", CASES)
def test_runs_in_a_row_are_those_of_tflite_micro(
    name: str, tmp_path: Path, golden: Mapping[str, Array]
) -> None:
    data, runs = CASES[name]
    options = Options(fuse=False)
    graph = front(read(tmp_path, data), options)
    region = region_of(graph, options)
    states = {graph.inputs[s.input].name: s.initial for s in graph.states}
    (x,) = [v.name for v in graph.inputs if v.name not in states]
    for run, given in enumerate(runs):
        made = interpret(region, {x: given, **states})
        plain = [y for i, y in enumerate(made) if i not in [s.output for s in graph.states]]
        require_equal(plain, recorded(golden, name, run), f"{name}, run {run}")
        states = {graph.inputs[s.input].name: made[s.output] for s in graph.states}


@pytest.mark.parametrize("name", COMPILED)
def test_the_bundle_computes_the_same(name: str, tmp_path: Path, golden: Mapping[str, Array]) -> None:
    data, runs = CASES[name]
    bundle = ingot.compile(read(tmp_path, data))
    runner = bundle.session() if bundle.manifest.get("state") else bundle
    (x,) = [t["name"] for t in bundle.manifest["inputs"]]
    for run, given in enumerate(runs):
        made = runner.run({x: given})
        require_equal(list(made.values()), recorded(golden, name, run), f"{name}, run {run}")


def test_every_case_is_recorded(golden: Mapping[str, Array]) -> None:
    assert {key.split("/")[0] for key in golden} == set(CASES)


REFUSED: dict[str, tuple[str, list[T], list[T], dict[str, Any], str]] = {
    "length": (
        "Rfft",
        [T(SHORT, (14,))],
        [T(SHORT, (16,))],
        {"T": 7, "fft_length": 14},
        "factors 2, 3 and 5",
    ),
    "missing": ("Rfft", [T(SHORT, (8,))], [T(SHORT, (10,))], {"T": 7}, "lack 'fft_length'"),
    "step": (
        "Framer",
        [T(SHORT, (7,))],
        [T(SHORT, (2, 4)), T("BOOL", ())],
        {"frame_size": 4, "frame_step": 3, "prefill": 1},
        "7 samples in frames of 4 by 3",
    ),
    "window": ("Window", [T(SHORT, (7,)), T(SHORT, (3,))], [T(SHORT, (7,))], {"shift": 3}, "3 weights of"),
    "energy": (
        "Energy",
        [T(SHORT, (8,))],
        [T("UINT32", (4,))],
        {"start_index": 1, "end_index": 5},
        "1 to 5 of 4",
    ),
    "type": ("Energy", [T("INT32", (8,))], [T("UINT32", (4,))], {"start_index": 1, "end_index": 4}, "int16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_said(name: str, tmp_path: Path) -> None:
    kind, given, made, options, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        read(tmp_path, one(kind, given, made, options))


def test_slopes_stay_within_their_weights(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="leaves its"):
        read(tmp_path, pipeline(False, 0, bins=3))
