"""`ingot tune`: every way is measured once, the file is read with suspicion, and nothing needs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import ingot
from benchmarks.net import Net
from ingot.check import tune as tuning
from ingot.check.tune import Tuning, resumed, tune
from ingot.cli import app
from ingot.driver import compile_with, ways
from ingot.errors import InputError
from ingot.loops import choice as choosing
from ingot.loops.tuning import choices_of, read_tuning
from ingot.options import Options
from ingot.targets.records import find, native

TARGET = "x86-64"


def net(size: int = 20) -> onnx.ModelProto:
    """Two convolutions that have choices, the first of them twice, and one that has none."""
    made = Net("net", (1, 16, size, size))
    x = made.conv(made.conv("x", 16, 3, then="Relu"), 16, 3, then="Relu")
    return made.model(y=made.conv(made.conv(x, 24, 3), 8, 1))


@pytest.fixture(scope="module")
def every() -> dict[str, tuple[choosing.Choice, ...]]:
    return ways(net(), Options(target=TARGET))


@pytest.fixture(scope="module")
def found(every: dict[str, tuple[choosing.Choice, ...]]) -> dict[str, tuple[choosing.Choice, ...]]:
    """Of the convolutions of three only."""
    return {key: several for key, several in every.items() if key.startswith("conv ")}


def document(choices: Any, **other: Any) -> dict[str, Any]:
    return {"schema": 1, "target": TARGET, "choices": choices, **other}


def chosen(bundle: ingot.Bundle) -> dict[str, str]:
    return {key: text for k in bundle.manifest["kernels"] for key, text in k["choices"].items()}


# ---- choices


def test_keys_are_stable_and_tell_stages_apart(found: dict[str, Any], every: dict[str, Any]) -> None:
    assert every == ways(net(), Options(target=TARGET))
    assert [key.rpartition(" ")[0] for key in every if key not in found] == ["contraction 400 24->8"]
    assert sorted(key.rpartition(" ")[0] for key in found) == ["conv 20x20 16->16", "conv 20x20 16->24"]
    assert all(choosing.DEFAULT in several and len(several) > 1 for several in found.values())
    assert not set(every) & set(ways(net(21), Options(target=TARGET)))
    assert set(chosen(ingot.compile(net(), target=TARGET))) == set(found)
    assert set(chosen(ingot.compile(net(), target=TARGET, profile=True))) == set(every)


def test_stages_have_the_keys_that_a_compilation_gives_them() -> None:
    """Every step that rewrites formulas was taken: here the one that joins a sigmoid and a tanh."""
    made = Net("net", (1, 16, 20, 20))
    x = made.conv("x", 16, 3)
    gated = made.binary("Mul", made.then(x, "Sigmoid"), made.then(x, "Tanh"))
    model = made.model(y=made.conv(gated, 8, 1))
    several = ways(model, Options(target=TARGET))
    assert set(chosen(ingot.compile(model, target=TARGET, profile=True))) == set(several)
    last = {key: every_way[-1].text for key, every_way in several.items()}
    tuned = chosen(ingot.compile(model, target=TARGET, tuning=document(last)))
    assert tuned == last and any(key.startswith("conv ") for key in last)


@pytest.mark.parametrize("text", ["direct", "winograd=2", "winograd=4"])
def test_a_tuned_choice_is_taken_and_computes_the_same(found: dict[str, Any], text: str) -> None:
    x = {"x": np.random.default_rng(3).standard_normal((1, 16, 20, 20)).astype(np.float32)}
    tuned = ingot.compile(net(), target=TARGET, tuning=document(dict.fromkeys(found, text)))
    assert chosen(tuned).items() >= dict.fromkeys(found, text).items()
    assert "tuning=2 stages" in tuned.files["net.c"].decode()
    exact = ingot.compile(net(), target=TARGET, math="exact").run(x)["y"]
    np.testing.assert_allclose(tuned.run(x)["y"], exact, atol=1e-4 * float(np.abs(exact).max()))


def test_a_tuned_tile_is_taken_and_computes_the_same(every: dict[str, Any], found: dict[str, Any]) -> None:
    x = {"x": np.random.default_rng(4).standard_normal((1, 16, 20, 20)).astype(np.float32)}
    (key,) = every.keys() - found.keys()
    assert every[key][0] == choosing.DEFAULT and 2 <= len(every[key]) <= choosing.MOST_TILES
    plain = ingot.compile(net(), name="net", target=TARGET)
    for way in every[key][1:]:
        tuned = ingot.compile(net(), name="net", target=TARGET, tuning=document({key: way.text}))
        assert chosen(tuned)[key] == way.text and tuned.files["net.o"] != plain.files["net.o"]
        np.testing.assert_allclose(tuned.run(x)["y"], plain.run(x)["y"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("text", ["tile=99x99", "winograd=2"])
def test_a_contraction_takes_tiles_that_fit_its_registers(
    every: dict[str, Any], found: dict[str, Any], text: str
) -> None:
    (key,) = every.keys() - found.keys()
    with pytest.raises(InputError, match=f"'contraction 400 .*' cannot be computed by {text}"):
        ingot.compile(net(), target=TARGET, tuning=document({key: text}))


def test_a_convolution_takes_no_tile(found: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"'conv 20x20 .*' cannot be computed by tile=2x2"):
        ingot.compile(net(), target=TARGET, tuning=document(dict.fromkeys(found, "tile=2x2")))


def test_exact_arithmetic_goes_before_tuning(found: dict[str, Any]) -> None:
    plain, tuned = (
        ingot.compile(net(), target=TARGET, math="exact", tuning=d)
        for d in ({}, document(dict.fromkeys(found, "winograd=4")))
    )
    assert chosen(tuned) == chosen(plain) == {}


def test_without_a_file_bundles_are_reproducible() -> None:
    one, two = (ingot.compile(net(), name="net", target=TARGET) for _ in range(2))
    assert one.files == two.files


# ---- files that are not ours


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON: nested deeper than 64"),
        ("[]", "expected object, got array"),
        ('{"schema": 1}', "missing required field"),
        (b"\xff\xfe", "not text in UTF-8"),
        (json.dumps(document({}, measured={"a": {"direct": -1.0}})), "expected float >= 0"),
    ],
)
def test_a_file_of_another_form_is_an_error(tmp_path: Path, content: str | bytes, said: str) -> None:
    path = tmp_path / "x.tune.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=said):
        read_tuning(path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (document({}, schema=2), "schema 2"),
        (document({}, target="aarch64"), "for 'aarch64', not for 'x86-64'"),
        (document([]), "choices: expected object, got array"),
        (document({"conv": 4}), r"choices\[...\]: expected str, got int"),
        (document({"conv": "winograd=9"}), r"wants 'winograd=9'.*direct, winograd=2"),
        (document({"conv": "tile=0x4"}), r"wants 'tile=0x4'"),
        (document({"conv": "tile=100x4"}), r"wants 'tile=100x4'"),
        (document({"conv": "__import__('os')"}), "wants"),
        ({"choices": {}}, "missing required field schema"),
    ],
)
def test_choices_of_another_form_are_an_error(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        choices_of(given, find(TARGET))


def test_a_stale_file_is_an_error(found: dict[str, Any]) -> None:
    old = document(dict.fromkeys(found, "direct"))
    with pytest.raises(InputError, match=r"another model or version: 2 of its 2 choices.*ingot tune"):
        ingot.compile(net(21), target=TARGET, tuning=old)


def test_a_choice_that_loses_too_much_is_an_error(
    found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "error", lambda conv, m: 2e-4)
    with pytest.raises(InputError, match=r"winograd=4 of 'conv 20x20 .*' loses more than 0.0001"):
        ingot.compile(net(), target=TARGET, tuning=document(dict.fromkeys(found, "winograd=4")))


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    onnx.save(net(), model)
    said = CliRunner().invoke(app, ["compile", str(model), "--tuning", str(tmp_path / "no.json")])
    assert said.exit_code == 2 and said.stderr.count("\n") == 1 and "cannot read" in said.stderr


# ---- measuring


def test_ways_are_measured_once_and_the_fastest_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, options, target = tmp_path / "net.tune.json", Options(), native()
    if not target.vector_bytes:
        pytest.skip(f"{target.name} has no vectors, and no choices")
    several = ways(net(), options)
    monkeypatch.setattr(tuning, "_share", lambda *_: 0.01)  # of the budget, which a busy machine may need
    state, verdicts = tune(net(), options, target, compile_with, ways, path, seconds=0)
    guessed = chosen(ingot.compile(net(), profile=True))
    assert not state.complete and json.loads(path.read_text())["choices"] == guessed
    assert all(v.guessed == v.best == guessed[v.key] and v.best_seconds > 0 for v in verdicts)
    state, verdicts = tune(net(), options, target, compile_with, ways, path, seconds=3600)
    assert state.complete and {v.key for v in verdicts} == set(several)
    for key, times in state.measured.items():
        assert set(times) == {c.text for c in several[key]} and min(times.values()) > 0
        assert state.choices[key] == min(times, key=lambda c: times[c])
    monkeypatch.setattr(tuning, "_record", lambda *_: pytest.fail("measured again"))
    again, _ = tune(net(), options, target, compile_with, ways, path, seconds=3600)
    assert again.complete and again.measured == state.measured
    assert chosen(ingot.compile(net(), tuning=read_tuning(path))) == state.choices
    assert any(key.startswith("contraction") for key in state.choices)


def test_measurements_of_another_machine_are_not_used(tmp_path: Path, found: dict[str, Any]) -> None:
    path = tmp_path / "x.tune.json"
    measured = {key: {"direct": 1.0, "nonsense": 2.0} for key in (*found, "conv gone")}
    for processor, kept in ((tuning._processor(), {"direct": 1.0}), ("another", {})):
        here = {"ingot": ingot.__version__, "processor": processor, "measured": measured}
        path.write_text(json.dumps(document({}, **here)))
        assert resumed(path, find(TARGET), found).measured == dict.fromkeys(found, kept)


@pytest.mark.parametrize("content", ["[]", "{}", "no", json.dumps(document({}, ingot="0.1.0"))])
def test_a_file_in_the_way_is_not_overwritten(tmp_path: Path, found: dict[str, Any], content: str) -> None:
    path = tmp_path / "x.tune.json"
    path.write_text(content)
    with pytest.raises(InputError, match="is not a tuning file for this target"):
        resumed(path, find(TARGET), found)
    assert path.read_text() == content


def test_a_file_of_another_target_is_left_and_another_name_advised(
    tmp_path: Path, found: dict[str, Any]
) -> None:
    path = tmp_path / "x.tune.json"
    path.write_text(json.dumps(document({}, ingot="0.1.0", processor="here") | {"target": "x86-64-v3"}))
    with pytest.raises(InputError, match=r"is for 'x86-64-v3', not for 'x86-64'; .*--output FILE"):
        resumed(path, find(TARGET), found)


def test_the_command_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "net.onnx"
    onnx.save(net(), model)
    state = Tuning("c99", {"conv": {"direct": 2e-6, "winograd=2": 1e-6}}, complete=True)
    verdict = tuning.Verdict("conv", "direct", 2e-6, "winograd=2", 1e-6)
    monkeypatch.setattr(tuning, "tune", lambda *_: (state, [verdict]))
    said = CliRunner().invoke(app, ["tune", str(model)])
    assert said.exit_code == 0 and "winograd=2" in said.stdout and "net.onnx.tune.json" in said.stderr
    data = json.loads(CliRunner().invoke(app, ["tune", str(model), "--json"]).stdout)
    assert data["complete"] and data["stages"][0]["best"] == "winograd=2"


@pytest.mark.parametrize("channels", [10, 17])
def test_a_register_that_channels_do_not_fill_costs_as_much(channels: int) -> None:
    """Direct sums leave its lanes idle; they were counted as if these were used, and chosen."""
    odd = Net("odd", (1, channels, 42, 42))
    size = 5 if channels < 16 else 3
    model = odd.model(y=odd.conv(odd.conv("x", channels, 1), channels, size, then="Relu"))
    (way,) = chosen(ingot.compile(model, name="net", target="x86-64-v4")).values()
    assert way.startswith("winograd")
