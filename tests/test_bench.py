"""`ingot bench`: all sides are measured in turns, in processes of their own, and must compute the same."""

from __future__ import annotations

import json
import os
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from benchmarks import encoded, run
from benchmarks.generators import generated, prepared
from benchmarks.models import GROUPS, MODELS
from benchmarks.random_models import draw
from ingot.api import checking
from ingot.check import bench as measuring
from ingot.check.bench import Benchmark, Rival, Timing, bench, in_turns
from ingot.check.machine import pinned
from ingot.check.opponent import Arena, labelled, opponent, with_extents
from ingot.check.report import chart, geometric_means, markdown, write
from ingot.cli import app
from ingot.driver import compile_with
from ingot.errors import InputError, UnsupportedError
from ingot.options import Options
from ingot.peers import KINDS, Kind
from ingot.peers.job import Called, Refused
from ingot.peers.source import entry
from tests import fakes

ROOT = Path(__file__).parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
DOUBLE = """
<ir_version: 10, opset_import: ["" : 21]>
double (float[4] x) => (float[4] y) { y = Add (x, x) }
"""
X = {"x": np.arange(4, dtype=np.float32)}
HERE = Arena(max(os.sched_getaffinity(0)))
PEERS = replace(HERE, python=os.environ.get("INGOT_PEERS_PYTHON"))


@pytest.fixture(scope="module")
def digits() -> Benchmark:
    return bench(DIGITS, Options(), compile_with, against=["onnxruntime"], seconds=0.1)


@contextmanager
def doubled(name: str, model: str = DOUBLE, arena: Arena = HERE) -> Iterator[Any]:
    """The peer on the model that doubles."""
    with opponent(name, onnx.parser.parse_model(model), X, {"y": X["x"]}, arena) as peer:
        yield peer


def written(folder: Path, text: str) -> str:
    path = folder / "net.c"
    path.write_text(text)
    return f"c:{path}"


# ---- measuring


def test_both_are_measured_and_agree(digits: Benchmark) -> None:
    (peer,) = digits.rivals
    assert peer.title.startswith("onnxruntime 1.") and peer.timing is not None
    for timing in (digits.ours, peer.timing):
        assert 1e-7 < timing.minimum <= timing.median < 0.1 and timing.samples >= 3
    assert peer.ratio == peer.timing.median / digits.ours.median and digits.best is peer
    assert digits.agrees and peer.relative is not None and peer.relative < 1e-5
    assert digits.macs == 134592 and digits.model == "digits" and 0 < digits.roofline_share < 20


def test_turns_alternate() -> None:
    calls: list[str] = []

    def sampler(name: str) -> measuring._Sampler:
        def sample(repeat: int) -> list[float]:
            calls.append(name)
            return [0.001] * repeat

        return sample

    samples = in_turns([sampler("a"), sampler("b")], 0.0)
    assert calls == [*"aaabbb", "a", "b"] and all(len(s) == measuring.MOST_SAMPLES for s in samples)


def test_pinning_is_undone() -> None:
    before = os.sched_getaffinity(0)
    with pinned() as core:
        assert os.sched_getaffinity(0) == {core}
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize(
    ("ns", "clock", "inner"),
    [(1e3, "perf_counter_ns", 20), (1e5, "perf_counter_ns", 1), (1e6, "process_time_ns", 1)],
)
def test_long_calls_are_timed_with_the_processors_clock(
    monkeypatch: pytest.MonkeyPatch, ns: float, clock: str, inner: int
) -> None:
    asked: list[tuple[int, str]] = []

    def sample(_: Called, count: int, by: Any) -> float:
        asked.append((count, by.__name__))
        return ns

    monkeypatch.setattr(Called, "_sample", sample)
    assert Called(lambda: None, dict).time(2) == [ns * 1e-9] * 2 and asked[-2:] == [(inner, clock)] * 2


# ---- peers


def test_onnxruntime_computes_and_is_timed() -> None:
    with doubled("onnxruntime") as peer:
        np.testing.assert_array_equal(peer.outputs["y"], 2 * X["x"])
        times = peer.time(5)
    assert len(times) == 5 and all(1e-8 < t < 0.1 for t in times)


def test_peers_get_the_extents_of_the_run() -> None:
    model = onnx.parser.parse_model(DOUBLE.replace("float[4] x", "float[N] x, int64[M] unread"))
    first, second = with_extents(model, X).graph.input
    assert [d.dim_value for d in first.type.tensor_type.shape.dim] == [4]
    assert [d.dim_param for d in second.type.tensor_type.shape.dim] == ["M"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"


def test_what_the_peer_refuses_is_an_error() -> None:
    with (
        pytest.raises(UnsupportedError, match=r"onnxruntime: .*Nothing"),
        doubled("onnxruntime", DOUBLE.replace("Add (x, x)", "Nothing (x)")),
    ):
        pass


def test_an_unknown_peer_is_an_error_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"no peer 'tensorrt'.*choose from onnxruntime"):
        bench(DIGITS, Options(), lambda *_: pytest.fail("compiled"), against=["tensorrt"])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Kind("absent_module", "absent-package", ("and-more",))
    monkeypatch.setitem(KINDS, "absent", absent)
    said = r"absent is not installed; pip install absent-package and-more"
    with pytest.raises(UnsupportedError, match=said), doubled("absent"):
        pass


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_peer_runs_or_says_what_to_install(name: str) -> None:
    try:
        with doubled(name, arena=PEERS) as peer:
            np.testing.assert_allclose(peer.outputs["y"], 2 * X["x"])
            assert peer.version and min(peer.time(3)) > 0
    except UnsupportedError as error:
        assert f"{name} is not installed; {KINDS[name].command}" in str(error)


# onnxruntime is installed; XLA's adapter compiles C++ of TensorFlow's, which no fake can stand for
@pytest.mark.parametrize("name", sorted(set(KINDS) - {"onnxruntime", "xla"}))
def test_every_adapter_asks_its_package_for_what_it_needs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_CACHE", str(tmp_path / "cache"))
    faked = replace(HERE, python=fakes.interpreter(tmp_path))
    for _ in range(2):  # the second time with what the first has kept
        with doubled(name, arena=faked) as peer:
            np.testing.assert_array_equal(peer.outputs["y"], 2 * X["x"])
            assert peer.version == fakes.VERSIONS[KINDS[name].package]
            times = peer.time(2)
            assert times and min(times) > 0
    if name in ("torch", "litert"):
        with (
            pytest.raises(UnsupportedError, match=f"{name}: no Nothing in this adapter"),
            doubled(name, DOUBLE.replace("Add (x, x)", "Nothing (x)"), faked),
        ):
            pass


def test_an_interpreter_that_is_none_is_an_error() -> None:
    with (
        pytest.raises(InputError, match="cannot run /no/python"),
        doubled("onnxruntime", arena=replace(HERE, python="/no/python")),
    ):
        pass


def test_one_of_several_that_fails_is_reported(tmp_path: Path) -> None:
    broken = written(tmp_path, "int broken(")
    found = bench(DIGITS, Options(), compile_with, against=["onnxruntime", broken], seconds=0.02)
    assert [r.error == "" for r in found.rivals] == [True, False] and found.agrees
    assert "net.c: no public function with 2 pointers" in found.rivals[1].error
    assert "no public function" in markdown([found])


# ---- C from disk


def test_c_from_disk_is_called(tmp_path: Path) -> None:
    text = """
        #include <math.h>
        static const char *text = "void fake(float *a, float *b) {"; /* void faker(float *a, float *b) { */
        #define NODE static inline
        NODE void part(const float x[4], float y[4]) { for (int i = 0; i < 4; i++) y[i] = 2 * x[i]; }
        void other(float *x) { x[0] = sqrtf(0); }
        void net(const float x[restrict 4], float y[restrict 4]) { part(x, y); (void)text; }
    """
    with doubled(f"mine={written(tmp_path, text)}") as peer:
        assert peer.name == "mine" and peer.version == ""
        np.testing.assert_array_equal(peer.outputs["y"], 2 * X["x"])
        assert len(peer.time(4)) == 4


@pytest.mark.parametrize(
    ("text", "wanted", "said"),
    [
        ("void a(float *x, float *y) {} void b(float *x, float *y) {}", "", "several functions fit: a, b"),
        ("static void a(float *x, float *y) {}", "", "no public function with 2 pointers"),
        ("void a(float *x, int n) {}", "", "no public function with 2 pointers"),
        ("void a(float *x, float *y) {}", "b", "b is no public function"),
    ],
)
def test_an_entry_that_is_not_clear_is_an_error(text: str, wanted: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        entry(text, 2, wanted)


def test_entries_are_found_by_name_and_signature() -> None:
    assert entry("int f(void) { return 1; }\nvoid g(float x[2][3], float (*y)[3])\n{\n}", 2) == "g"
    assert entry("void a(float *x, float *y) {} void b(float *x, float *y) {}", 2, "a") == "a"
    assert entry("void b(float *x, float *y) {} void a(float *x, float *y) { b(x, y); }", 2) == "a"


def test_a_peer_that_dies_is_an_error(tmp_path: Path) -> None:
    crash = written(tmp_path, "void net(float *x, float *y) { *(volatile int *)0 = (int)(x[0] + y[0]); }")
    with pytest.raises(UnsupportedError, match=r"net.c died: signal 11"), doubled(crash):
        pass


def test_a_compiler_that_fails_says_why(tmp_path: Path) -> None:
    wrong = written(tmp_path, "void net(float *x, float *y) { nothing; }")
    with pytest.raises(UnsupportedError, match=r"net.c: gcc: .*nothing"), doubled(wrong):
        pass
    with (
        pytest.raises(UnsupportedError, match="cannot run no-compiler"),
        doubled(wrong, arena=replace(HERE, cc="no-compiler -O2")),
    ):
        pass
    with pytest.raises(InputError, match="no such file"), doubled("c:nowhere.c"):
        pass


def test_labels() -> None:
    assert labelled("onnx2c=c:a=b/net.c") == ("onnx2c", "c:a=b/net.c")
    assert labelled("c:a=b/net.c") == ("net.c", "c:a=b/net.c")


# ---- reports


def compared(digits: Benchmark) -> list[Benchmark]:
    """Two models beside two peers, one of which fails once."""
    fast = Rival("swift", "2.0", Timing(4 * digits.ours.median, 4 * digits.ours.minimum, 9), 4.0, 1e-7)
    slow = Rival("snail", "1.0", Timing(9 * digits.ours.median, 9 * digits.ours.minimum, 9), 9.0, 2e-7)
    failed = Rival("snail", error="snail: no Softmax")
    return [replace(digits, rivals=(fast, slow)), replace(digits, model="other", rivals=(fast, failed))]


def test_the_table_has_a_column_per_peer(digits: Benchmark) -> None:
    lines = markdown(compared(digits)).splitlines()
    assert lines[0].startswith("| model |") and {line.count("|") for line in lines[:4]} == {11}
    assert "4.00x" in lines[2] and "9.00x" in lines[2] and "4.00 (swift)" in lines[2]
    assert "| - |" in lines[3] and lines[-1] == "other: snail: no Softmax"
    assert "swift 4.00 (2), snail 9.00 (1), best 4.00 (2)" in lines[-3]
    assert geometric_means(compared(digits)[:1]) == []
    three = [*compared(digits), replace(digits, model="odd")]
    assert "(models) without odd: swift 4.00 (2)" in markdown(three, aside=["odd"])


def test_what_differs_does_not_count(digits: Benchmark) -> None:
    one = compared(digits)[0]
    wrong = replace(one, rivals=(replace(one.rivals[0], agrees=False), one.rivals[1]))
    assert wrong.best is one.rivals[1] and not wrong.agrees
    assert "differs" in markdown([wrong]) and "9.00 (snail)" in markdown([wrong])


def test_the_reports_are_written(digits: Benchmark, tmp_path: Path) -> None:
    found = compared(digits)
    write(found, tmp_path / "new", "\nmore\n", {"profile": 1})
    assert (tmp_path / "new" / "report.md").read_text() == markdown(found) + "\nmore\n"
    data = json.loads((tmp_path / "new" / "report.json").read_text())
    assert data["profile"] == 1 and data["benchmarks"][0] == json.loads(json.dumps(found[0].as_dict()))
    assert data["benchmarks"][0]["best"] == "swift" and data["benchmarks"][0]["ratio_to_best"] == 4.0
    assert (tmp_path / "new" / "report.svg").read_text() == chart(found)


def test_the_chart_has_a_bar_per_ratio(digits: Benchmark) -> None:
    found = [replace(b, model="a<b") for b in compared(digits)]
    root = ET.fromstring(chart(found))
    tips = [t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}title")]
    assert (
        sum("a<b: " in tip for tip in tips) == sum(r.ratio is not None for b in found for r in b.rivals) > 0
    )


def test_no_chart_is_blank(digits: Benchmark) -> None:
    """Without peers the bars are Ingot's own times."""
    picture = chart([replace(digits, rivals=())])
    assert f"ingot, digits: {1e6 * digits.ours.median:.4g}" in picture
    assert ET.fromstring(chart([])) is not None


def test_the_command_reports(monkeypatch: pytest.MonkeyPatch, digits: Benchmark, tmp_path: Path) -> None:
    asked: list[Mapping[str, Any]] = []

    def measured(*_: Any, **how: Any) -> Benchmark:
        asked.append(how)
        return digits

    monkeypatch.setattr(checking, "measured", measured)
    plain = CliRunner().invoke(
        app, ["bench", str(DIGITS), "--against", "onnxruntime,torch", "--against", "c:x.c"]
    )
    assert "GMAC/s" in plain.stdout and asked[-1]["against"] == ["onnxruntime", "torch", "c:x.c"]
    assert CliRunner().invoke(app, ["bench", str(DIGITS), "--markdown"]).stdout == markdown([digits])
    assert json.loads(CliRunner().invoke(app, ["bench", str(DIGITS), "--json"]).stdout)["macs"] == 134592
    CliRunner().invoke(app, ["bench", str(DIGITS), "--report", str(tmp_path)])
    assert (tmp_path / "report.md").read_text() == markdown([digits])
    bad = replace(digits, rivals=tuple(replace(r, agrees=False) for r in digits.rivals))
    monkeypatch.setattr(checking, "measured", lambda *a, **k: bad)
    assert CliRunner().invoke(app, ["bench", str(DIGITS)]).exit_code == 1


# ---- the suite

QUICK = [n for n in MODELS if n not in ("vgg16", "fc6", "fc7", "densenet121", "resnet50", "resnet18")]


def test_the_models_are_valid_and_always_the_same() -> None:
    assert sorted(n for names in GROUPS.values() for n in names) == sorted(MODELS)
    for name in QUICK:
        model = MODELS[name]()
        onnx.checker.check_model(model, full_check=True)
        assert model.SerializeToString() == MODELS[name]().SerializeToString(), name
        assert model.ir_version <= 10 and model.opset_import[0].version <= 21


def test_every_model_has_peers_that_exist() -> None:
    for name in [*MODELS, "drawn"]:
        assert set(run.peers_of(name)) <= set(KINDS) and "onnxruntime" in run.peers_of(name)


def test_random_models_are_valid_and_depend_on_the_seed() -> None:
    drawn, again, other = draw(1), draw(1), draw(2)
    assert len(drawn) == 10
    for name, model in drawn.items():
        onnx.checker.check_model(model, full_check=True)
        assert model.SerializeToString() == again[name].SerializeToString(), name
    assert {m.SerializeToString() for m in drawn.values()}.isdisjoint(
        m.SerializeToString() for m in other.values()
    )


def test_a_random_model_computes_what_onnxruntime_does() -> None:
    name, model = list(draw(3).items())[8]
    found = bench(model, Options(name=name), compile_with, against=["onnxruntime"], seconds=0.01)
    assert found.agrees and found.rivals[0].relative is not None


def test_the_suite_is_measured_and_put_into_its_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "README", tmp_path / "README.md")
    begin, end = "<!-- results: begin -->\n", "<!-- results: end -->\n"
    run.README.write_text(f"before\n{begin}old\n{end}after\n")
    monkeypatch.setattr(sys, "argv", ["run", "ball", "digits", "--seconds", "0.02", "--update"])
    assert run.main() == 0
    text = run.README.read_text()
    assert text.startswith(f"before\n{begin}\n| model |") and text.endswith(f"{end}after\n")
    assert "| ball | 16,352 |" in text and "| digits | 134,592 |" in text and "old" not in text
    data = json.loads((tmp_path / run.OUTPUT / "report.json").read_text())
    assert [b["model"] for b in data["benchmarks"]] == ["ball", "digits"]
    assert "Geometric means" in capsys.readouterr().out


def test_the_first_page_shows_what_many_know(digits: Benchmark) -> None:
    found = [replace(digits, model=name) for name in ("lenet5", "ball", "digits")]
    rows = run.front_table(found).splitlines()
    assert [row.split(" | ")[0] for row in rows[4:]] == ["| ball classifier (NNCG), 16x16", "| LeNet-5"]
    assert {row.count("|") for row in rows[2:]} == {8} and "x (onnxruntime 1." in rows[4]
    assert {name for name, _ in run.SHOWN} <= MODELS.keys()
    for path, name in ((run.FRONT, "speeds"), (ROOT / "benchmarks" / "README.md", "results")):
        assert all(path.read_text().count(mark.format(name)) == 1 for mark in (run.BEGIN, run.END))


def test_generators_that_fail_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generated(DIGITS, tmp_path, None, None) == []
    assert generated(DIGITS, tmp_path, "/no/emx", "false") == []
    assert generated(DIGITS, tmp_path, None, "echo") == [f"onnx2c=c:{tmp_path / 'digits_onnx2c.c'}"]
    assert "emx: digits: " in capsys.readouterr().err
    (tmp_path / "nncg_ball.c").write_text("")
    assert prepared("ball", str(tmp_path)) == [f"nncg=c:{tmp_path / 'nncg_ball.c'}"]
    assert prepared("football", str(tmp_path)) == prepared("ball", None) == []


def test_generated_c_has_a_table_of_its_own(digits: Benchmark) -> None:
    both = replace(digits, rivals=(*digits.rivals, replace(digits.rivals[0], name="emx", version="")))
    text = run.tables([both, digits])
    assert "random" not in text and "random" in run.tables([both, replace(digits, model="drawn")])
    assert text.count("| model |") == 2 and "| emx |" in text.partition("Generated C")[2]
    assert "emx" not in text.partition("Generated C")[0]


def test_encoded_layers_beside_dense_ones() -> None:
    """Cold weights and warm ones, in bytes and in floats, on whatever this machine runs."""
    ways = [replace(w, target="native") for w in encoded.WAYS]
    row = encoded.measured(encoded.Layer("tiny", 1024, 512, 0.09, 0.4), ways, ["onnxruntime"], None, 0.02)
    assert 0 < max(row.off.values()) < encoded.MOST_OFF
    assert list(row.ours) == [w.title for w in encoded.WAYS]
    assert all(0 < least <= median for median, least in (*row.peers.values(), *row.ours.values()))
    head, _, line = encoded.table([row]).splitlines()
    assert head.count("|") == line.count("|") == len(row.ours) + 5 and line.startswith("| tiny | ")
