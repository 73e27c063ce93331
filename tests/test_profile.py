"""`ingot bench --profile`: the hook, the machine's limits, and the table made of both."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import ingot
from ingot.api import checking
from ingot.check import limits as limiting
from ingot.check import profile as profiling
from ingot.check.limits import Limits, limits
from ingot.check.profile import Profile, profile, profile_markdown, told
from ingot.cli import app
from ingot.driver import compile_with
from ingot.errors import IngotError
from ingot.options import Options
from ingot.targets.records import native

DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx"
KNOWN = Limits("c99", "a machine", 1e9, ((1000, 4e9), (1000000, 1e9)))
LOOP = """
<ir_version: 10, opset_import: ["" : 21]>
counted (float[8] x) => (float[8] y)
<int64 n = {3}, bool active = {1}>
{
   y = Loop (n, active, x) <body = step (int64 i, bool in, float[8] a) => (bool out, float[8] b) {
      out = Identity (in)
      b = Exp (a)
   }>
}
"""


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INGOT_CACHE", str(tmp_path_factory.mktemp("cache")))
        return profile(DIGITS, Options(), compile_with, seconds=0.05)


def test_the_kernels_are_the_same_and_only_the_entry_differs() -> None:
    plain, hooked = (ingot.compile(DIGITS, profile=p, emit=("c",)) for p in (False, True))
    sources = [b.files["digits.c"].decode().split("\n") for b in (plain, hooked)]
    more = [line.strip() for line in sources[1] if line not in sources[0]]
    assert all("profile" in line or line.startswith("/* Time counts") for line in more), more
    calls = [line for line in more if line.startswith("digits_profile(")]
    numbers = [int(line[len("digits_profile(") : -2]) for line in calls]
    assert numbers == [*range(len(hooked.manifest["kernels"])), -1]
    assert [k["macs"] for k in hooked.manifest["kernels"]] == [k["macs"] for k in plain.manifest["kernels"]]
    assert "profile" not in plain.files["digits.c"].decode()


def test_every_account_has_its_time(taken: Profile) -> None:
    assert sum(k.macs for k in taken.kernels) == 134592 and taken.model == "digits"
    assert taken.seconds == pytest.approx(sum(k.seconds for k in taken.kernels))
    assert 1e-7 < taken.seconds < 0.1 and taken.roofline_seconds > 0
    busiest = max(taken.kernels, key=lambda k: k.macs)
    assert busiest.gflops == pytest.approx(2e-9 * busiest.macs / busiest.seconds)
    assert 0.01 < busiest.peak_share < 8 and busiest.bytes > 0
    assert not any(k.name.startswith("digits_") for k in taken.kernels)


def test_a_profiled_bundle_computes_the_same() -> None:
    plain, hooked = (ingot.compile(DIGITS, profile=p) for p in (False, True))
    (tensor,) = plain.manifest["inputs"]
    x = {tensor["name"]: np.random.default_rng(0).random(tensor["shape"], np.float32)}
    assert all(np.array_equal(hooked.run(x)[name], y) for name, y in plain.run(x).items())


def test_time_in_loops_adds_up() -> None:
    bundle = ingot.compile(onnx.parser.parse_model(LOOP), profile=True)
    times = bundle.profile({"x": np.full(8, -1, np.float32)}, 3)
    assert len(times) == len(bundle.manifest["kernels"]) + 1 and all(0 <= t < 1e-3 for t in times)


@pytest.mark.parametrize("options", [{"target": "s390x"}, {"relocation": "static"}])
def test_what_does_not_run_here_is_not_profiled(options: dict[str, str]) -> None:
    with pytest.raises(IngotError, match="only objects that run in this process can be timed"):
        ingot.compile(DIGITS, profile=True, **options).profile({}, 1)


def test_several_targets_have_no_profile() -> None:
    with pytest.raises(IngotError, match="no profile"):
        ingot.compile(DIGITS, profile=True, target="c99+x86-64")


def test_a_kernel_takes_the_longer_of_its_two_times() -> None:
    def kernel(macs: int, size: int, weights: int) -> dict[str, object]:
        return {"name": "net_k", "nodes": ["k"], "macs": macs, "bytes": size, "weights_bytes": weights}

    kernels = [kernel(2000, 1000, 0), kernel(10, 4000, 4000), kernel(0, 1 << 20, 0)]
    manifest = {"name": "net", "sizes": {"weights_bytes": 4000}, "kernels": kernels}
    assert KNOWN.roofline_seconds(manifest) == pytest.approx(2000 / 1e9 + 4000 / 1e9)
    found = told(manifest, [4e-6, 8e-6, 0.0, 1e-6], KNOWN)
    assert [k.peak_share for k in found.kernels[:2]] == pytest.approx([0.5, 10 / 1e9 / 8e-6])
    assert found.kernels[1].bandwidth_share == pytest.approx(0.5)
    assert [k.name for k in found.kernels] == ["k (k)", "k (k)", "k (k)", profiling.COPIES]
    assert found.kernels[2].gflops == 0 and found.seconds == pytest.approx(13e-6)


def test_the_table_has_a_row_per_kernel(taken: Profile) -> None:
    lines = profile_markdown(taken).splitlines()
    assert len(lines) == len(taken.kernels) + 4 and {line.count("|") for line in lines[:-2]} == {10}
    assert "GFLOP/s" in lines[0] and "% of the roofline" in lines[-1]
    assert json.loads(json.dumps(asdict(taken)))["kernels"][0]["name"] == taken.kernels[0].name


def test_the_command_shows_it(monkeypatch: pytest.MonkeyPatch, taken: Profile) -> None:
    monkeypatch.setattr(checking, "kernels_of", lambda *a, **k: taken)
    said = CliRunner().invoke(app, ["bench", str(DIGITS), "--seconds", "0.01", "--profile"]).stdout
    assert "% of peak" in said and taken.kernels[0].name in said
    markdown = (
        CliRunner().invoke(app, ["bench", str(DIGITS), "--seconds", "0.01", "--profile", "--markdown"]).stdout
    )
    assert profile_markdown(taken).rstrip() in markdown
    data = json.loads(
        CliRunner().invoke(app, ["bench", str(DIGITS), "--seconds", "0.01", "--profile", "--json"]).stdout
    )
    assert len(data["profile"]["kernels"]) == len(taken.kernels) and data["macs"] == 134592


# ---- the machine


def test_limits_are_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_CACHE", str(tmp_path))
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    first = limits(native())
    assert 1e8 < first.macs < 1e13 and first.bandwidth(1) >= first.bandwidth(1 << 40) > 1e8
    monkeypatch.setattr(limiting, "measure", lambda target: pytest.fail("measured again"))
    assert limits(native()) == first


def test_limits_of_a_busy_machine_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_CACHE", str(tmp_path))
    found = iter(
        [
            replace(KNOWN, macs=2e9, load=7.0),
            replace(KNOWN, macs=1e9, reads=((1000, 5e9), (1000000, 5e8)), load=0.5),
        ]
    )
    monkeypatch.setattr(limiting, "measure", lambda target: next(found))
    assert limits(native()).macs == 2e9
    best = limits(native())
    assert best.macs == 2e9 and best.reads == ((1000, 5e9), (1000000, 1e9)) and best.load == 0.5
    assert limits(native()) == best


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"target": "c99", "machine": "m", "macs": -1, "reads": []}']
)
def test_a_damaged_file_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setenv("INGOT_CACHE", str(tmp_path))
    monkeypatch.setattr(limiting, "measure", lambda target: replace(KNOWN, target=target.name))
    limits(native())
    (path,) = tmp_path.iterdir()
    path.write_text(content)
    assert limits(native()).macs == KNOWN.macs and json.loads(path.read_text())["macs"] == KNOWN.macs


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("INGOT_CACHE", str(tmp_path / "file" / "under"))
    monkeypatch.setattr(limiting, "measure", lambda target: KNOWN)
    assert limits(native()) == KNOWN
