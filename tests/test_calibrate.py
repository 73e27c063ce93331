"""`ingot profile` from data to file: every float tensor, whoever brings the samples and however many work."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper as nh
import onnxruntime
import pytest
from typer.testing import CliRunner

from ingot.check.calibrate import calibrate, subject
from ingot.cli import app
from ingot.data.samples import Input, open_samples
from ingot.driver import compile_with
from ingot.errors import InputError
from ingot.options import Options
from ingot.quantization.profile import Profile, graph_digest, read_profile
from ingot.quantization.tally import Tally

RNG = np.random.default_rng(3)
DATA = RNG.normal(size=(37, 3, 6, 6)).astype(np.float32)


def model(batch: int | str = 1) -> onnx.ModelProto:
    """A convolution, a branch that is an integer, a shape that is a constant, and a sum."""
    w = nh.from_array(RNG.normal(size=(4, 3, 3, 3)).astype(np.float32), "w")
    shape = nh.from_array(np.array([0, -1]), "shape")
    x = oh.make_tensor_value_info("x", 1, [batch, 3, 6, 6])
    y, at = oh.make_tensor_value_info("y", 1, None), oh.make_tensor_value_info("at", 7, None)
    nodes = [
        oh.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        oh.make_node("Relu", ["c"], ["r"]),
        oh.make_node("Reshape", ["r", "shape"], ["f"]),
        oh.make_node("ArgMax", ["f"], ["at"], axis=1),
        oh.make_node("Softmax", ["f"], ["y"]),
    ]
    graph = oh.make_graph(nodes, "net", [x], [y, at], [w, shape])
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("model") / "net.onnx"
    onnx.save(model(), made)
    return made


def values_of(path: Path, names: list[str]) -> dict[str, np.ndarray]:
    """The oracle's: all samples, one run each."""
    proto = onnx.load(path)
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    runs = [session.run(names, {"x": x[None]}) for x in DATA]
    return {n: np.concatenate([run[i] for run in runs]) for i, n in enumerate(names)}


def profiled(path: Path, *words: str, workers: int = 1) -> Profile:
    of = subject(path, Options())
    return calibrate(of, open_samples(words, of.inputs), compile_with, workers).profile


def test_every_float_tensor_is_seen(path: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=DATA, labels=np.zeros(37))
    found = profiled(path, str(tmp_path / "d.npz"))
    assert list(found.tensors) == ["x", "c", "r", "f", "y"]
    assert found.model == graph_digest(onnx.load(path)) and found.samples == 37
    for name, right in {"x": DATA, **values_of(path, ["c", "r", "f", "y"])}.items():
        s, wide = found.tensors[name], right.astype(np.float64)
        assert s.count == right.size
        np.testing.assert_allclose([s.low, s.high], [right.min(), right.max()], rtol=1e-4, atol=1e-6)
        axes = tuple(a for a in range(right.ndim) if a != 1)
        np.testing.assert_allclose(s.means, wide.mean(axes), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(s.squares, np.square(wide).mean(axes), rtol=1e-4)
        below = np.searchsorted(np.sort(wide.ravel()), s.edge + s.width * np.arange(1, 2049))
        assert np.abs(np.cumsum(s.histogram) - below).max() <= 2  # which of two bins rounding may decide


def test_files_of_any_form_hold_the_same_samples(path: Path, tmp_path: Path) -> None:
    """An archive, compressed or not, one array, arrays one by one, batches, and NAME=FILE."""
    np.savez_compressed(tmp_path / "c.npz", anything=DATA.astype(np.float64))
    np.save(tmp_path / "d.npy", DATA)
    (tmp_path / "one").mkdir()
    for i, x in enumerate(DATA):
        np.save(tmp_path / f"one/{i:03}.npy", x if i % 2 else x[None])
    (tmp_path / "parts").mkdir()
    np.save(tmp_path / "parts/a.npy", DATA[:20, None])
    np.savez(tmp_path / "parts/b.npz", x=DATA[20:])
    right = profiled(path, str(tmp_path / "d.npy"))
    for word in ("c.npz", "one", "parts"):
        assert profiled(path, str(tmp_path / word)) == right
    assert profiled(path, f"x={tmp_path}/d.npy", workers=2) == right


def test_the_commands_profile_and_merge(path: Path, tmp_path: Path) -> None:
    for name, part in {"a": DATA[:9], "b": DATA[9:], "whole": DATA}.items():
        np.save(tmp_path / f"{name}.npy", part)
        words = ["profile", str(path), "--inputs", f"{tmp_path}/{name}.npy", "-o", f"{tmp_path}/{name}.yaml"]
        assert CliRunner().invoke(app, words).exit_code == 0
    parts = ["--merge", f"{tmp_path}/b.yaml", "--merge", f"{tmp_path}/a.yaml"]
    ran = CliRunner().invoke(app, ["profile", *parts, "-o", f"{tmp_path}/ab.yaml", "--json"])
    assert ran.exit_code == 0 and '"samples": 37' in ran.stdout
    merged, whole = (read_profile(tmp_path / f"{n}.yaml") for n in ("ab", "whole"))
    assert merged.samples == whole.samples
    for name, s in whole.tensors.items():
        assert merged.tensors[name].histogram == s.histogram
        np.testing.assert_allclose(merged.tensors[name].means, s.means, rtol=1e-13)


def test_batches_take_whole_runs_only(tmp_path: Path) -> None:
    np.save(tmp_path / "d.npy", DATA)
    of = subject(model(8), Options())
    found = calibrate(of, open_samples([f"{tmp_path}/d.npy"], of.inputs), compile_with)
    assert (found.profile.samples, found.left_out) == (32, 5)
    assert found.profile.tensors["x"].count == 32 * 108
    np.save(tmp_path / "few.npy", DATA[:7])
    with pytest.raises(InputError, match="7 samples are fewer than the model takes at once, 8"):
        calibrate(of, open_samples([f"{tmp_path}/few.npy"], of.inputs), compile_with)


def test_extents_of_the_caller_need_no_fixed_model(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=DATA[:5])
    of = subject(model("N"), Options(define={"N": (1, 4)}))
    found = calibrate(of, open_samples([f"{tmp_path}/d.npz"], of.inputs), compile_with).profile
    assert found.samples == 5 and found.tensors["c"].count == 5 * 4 * 16


def test_elements_that_are_not_finite_are_left_out() -> None:
    tally = Tally()
    for x in ([1.0, np.nan, -np.inf], [np.inf], [], [3.0]):
        tally.add(np.array(x, np.float32))
    s = tally.statistics()
    assert s is not None and (s.low, s.high, s.count, tally.dropped) == (1.0, 3.0, 2, 3)
    assert Tally().statistics() is None


def test_tallies_join_as_if_they_were_one() -> None:
    parts = [RNG.normal(k, 10.0**k, (2, 3, 5)) for k in range(-3, 4)]
    whole, joined = Tally(), Tally()
    for part in parts:
        one = Tally()
        one.add(part)
        joined.join(one)
        whole.add(part)
    assert whole.statistics() == joined.statistics()


def test_tallies_of_a_changing_axis_have_one_channel() -> None:
    one, two = Tally(), Tally()
    one.add(np.ones((1, 3)))
    two.add(np.full((1, 5), 3.0))
    one.join(two)
    s = one.statistics()
    assert s is not None and s.means == (18 / 8,)


def archive(method: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as made:
        for name, data in members.items():
            made.writestr(f"{name}.npy", data)
    return held.getvalue()


def npy(array: np.ndarray) -> bytes:
    held = io.BytesIO()
    np.save(held, array)
    return held.getvalue()


ONE = npy(DATA[:1])


def shifted(data: bytes) -> bytes:
    """An archive whose directory claims to begin later than it does: its members begin before the file."""
    at = data.rindex(b"PK\5\6") + 16
    return (
        data[:at] + (int.from_bytes(data[at : at + 4], "little") + 400).to_bytes(4, "little") + data[at + 4 :]
    )


def twice(data: bytes) -> bytes:
    """An archive whose member y is called x, too."""
    return data.replace(b"y.npy", b"x.npy")


HOSTILE: dict[str, tuple[str, bytes, str]] = {
    "no archive": ("d.npz", b"PK\x03\x04 nothing", "not a .npz archive"),
    "cut": ("d.npz", archive(x=ONE)[:-30], "not a .npz archive"),
    "before its file": ("d.npz", shifted(archive(x=ONE)), "not a .npz archive|damaged"),
    "another method": ("d.npz", archive(zipfile.ZIP_BZIP2, x=ONE), "not stored as numpy does it"),
    "no such member": ("d.npz", archive(a=ONE, b=ONE), "no array of an input's name; its arrays: 'a', 'b'"),
    "header": ("d.npz", archive(x=ONE[:80] + b"1" * 30 + ONE[110:]), "not a .npy file"),
    "truncated member": ("d.npz", archive(x=ONE[:-4]), "not a .npy file"),
    "crc": ("d.npz", archive(x=ONE).replace(ONE[-40:-20], b"!" * 20), "damaged"),
    "shape": ("d.npy", npy(DATA[:, :2]), "does not fit the input 'x'"),
    "type": ("d.npy", npy(DATA.astype(complex)), "holds complex128, the input 'x' takes float32"),
    "empty": ("d.npy", npy(DATA[:0]), "holds no samples"),
    "two members of one name": ("d.npz", twice(archive(x=ONE, y=ONE)), "two members called 'x.npy'"),
    "strings": ("d.npy", npy(DATA[:2].astype(str)), "the input 'x' takes float32"),
}


def zeros(count: int, path: Path, method: int = zipfile.ZIP_DEFLATED) -> int:
    """Write an archive of so many floats x, all zeros; how many bytes it takes."""
    head = io.BytesIO()
    form = {"descr": "<f4", "fortran_order": False, "shape": (count, 1)}
    np.lib.format.write_array_header_1_0(head, form)
    with zipfile.ZipFile(path, "w", method) as packed, packed.open("x.npy", "w", force_zip64=True) as member:
        member.write(head.getvalue())
        for _ in range(count >> 18):
            member.write(bytes(1 << 20))
    return path.stat().st_size


def test_what_expands_a_thousandfold_is_not_expanded(tmp_path: Path) -> None:
    """But for what memory hardly notices: zeros may be data."""
    inputs, packed = [Input("x", "float32", (1, 1))], tmp_path / "x.npz"
    assert zeros(1 << 27, packed) < 1 << 20
    tracemalloc.start()
    with pytest.raises(InputError, match=r"expands from [\d,]+ bytes to 536,871,040; at most 268,435,456"):
        open_samples([str(packed)], inputs)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    zeros(1 << 22, packed)
    tracemalloc.reset_peak()
    assert open_samples([str(packed)], inputs).count == 1 << 22
    assert tracemalloc.get_traced_memory()[1] < 20 << 20  # the elements once
    tracemalloc.stop()


@pytest.mark.parametrize("file, data, message", HOSTILE.values(), ids=HOSTILE)
def test_hostile_data(file: str, data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(data)
    with pytest.raises(InputError, match=message):
        open_samples([f"{tmp_path}/{file}"], [Input("x", "float32", (1, 3, 6, 6))]).read(0)


def test_what_the_inputs_lack_is_named(tmp_path: Path) -> None:
    two = [Input("a", "float32", (1, 2)), Input("b", "int64", (1, 2))]
    np.savez(tmp_path / "a.npz", a=np.zeros((3, 2)))
    np.save(tmp_path / "b.npy", np.zeros((4, 2), np.int64))
    (tmp_path / "empty").mkdir()
    cases: list[tuple[list[str], Any]] = [
        (["a.npz"], "no data for the input 'b'"),
        (["b.npy"], "not clear which input"),
        (["empty"], "has no .npy or .npz files"),
        (["gone.npz"], "no such file"),
    ]
    for words, message in cases:
        with pytest.raises(InputError, match=message):
            open_samples([f"{tmp_path}/{w}" for w in words], two)
    with pytest.raises(InputError, match="different numbers of samples: 'a' 3, 'b' 4"):
        open_samples([f"{tmp_path}/a.npz", f"b={tmp_path}/b.npy"], two)


MISUSED = {
    "nothing": ([], "give a model and its data, or --merge"),
    "no data": (["{model}"], "there is no data"),
    "both": (["{model}", "--merge", "a.yaml"], "give a model and its data, or --merge"),
}


@pytest.mark.parametrize("words, message", MISUSED.values(), ids=MISUSED)
def test_misuse_is_one_error(words: list[str], message: str, path: Path) -> None:
    ran = CliRunner().invoke(app, ["profile", *(w.format(model=path) for w in words)])
    assert ran.exit_code == 2 and message in ran.stderr and "Traceback" not in ran.stderr
