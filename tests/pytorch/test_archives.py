"""What is asked of a .pt2 archive before PyTorch sees it, and what is said where PyTorch is not installed."""

from __future__ import annotations

import importlib.metadata
import io
import json
import zipfile
from pathlib import Path

import pytest

import ingot
from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.frontends.canonical import imported, is_foreign
from ingot.frontends.pytorch.archive import open_archive
from tests.models import limit
from tests.pytorch.archives import (
    PROGRAM,
    SAMPLES,
    changed,
    hostile,
    in_training,
    members,
    packed,
    program,
    with_payload,
    with_size,
    with_target,
)

HOSTILE = dict(hostile())


def without_torch(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """Only these packages are installed."""

    def version(package: str) -> str:
        if package not in versions:
            raise importlib.metadata.PackageNotFoundError(package)
        return versions[package]

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_pytorch_gets_an_archive_without_code(tmp_path: Path) -> None:
    """No pickle, no guards, no notes, nothing that was not asked for; numbers and weights as they were."""
    (tmp_path / "m.pt2").write_bytes(packed(members() | {"extra/notes.txt": b"x"}))
    with zipfile.ZipFile(io.BytesIO(open_archive(tmp_path / "m.pt2").data)) as made:
        assert set(made.namelist()) == {f"model/{name}" for name in members()}
        assert made.read(f"model/{SAMPLES}") == b""
        assert made.read("model/data/weights/weight_0") == b"\0\0\0\x40"
        wanted = program()
        wanted["guards_code"] = []
        wanted["graph_module"]["graph"]["nodes"][0]["metadata"] = {}
        assert json.loads(made.read(f"model/{PROGRAM}")) == wanted


def test_there_are_a_hundred_hostile_archives() -> None:
    assert len(HOSTILE) >= 100


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archives_are_one_error(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is refused by what it holds, before anybody asks whether PyTorch is there."""
    (tmp_path / "m.pt2").write_bytes(HOSTILE[case])
    without_torch(monkeypatch)
    with limit(5.0), pytest.raises(InputError) as caught:
        imported(tmp_path / "m.pt2")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000
    assert "not installed" not in str(caught.value)


SOUND = {
    "as it is": packed(members()),
    "an operator like an attribute": with_target("torch.ops.aten.__and__.Tensor"),
    "arithmetic on sizes": with_target("_operator.floordiv"),
    "a size": with_size("Add(Mul(Integer(4), Symbol('s77', positive=True, integer=True)), Integer(-1))"),
    "a size of old": with_size("FloorDiv(s77 + 1, 2)*u0 - Max(3, s77**2)"),
    "a condition": with_size("Piecewise((s77, StrictLessThan(s77, 5)), (4, true))"),
    "a float": with_size("Float('1.5', precision=53)"),
    "a tensor called target": changed(
        lambda d: d["graph_module"]["graph"]["tensor_values"].update(target={"dtype": 7})
    ),
}


@pytest.mark.parametrize("case", SOUND)
def test_sound_archives_need_pytorch(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").write_bytes(SOUND[case])
    assert is_foreign(tmp_path / "model")
    without_torch(monkeypatch)
    with pytest.raises(
        InputError, match=r"needs torch, which is not installed; pip install 'ingot\[torch\]'"
    ):
        imported(tmp_path / "model")
    without_torch(monkeypatch, torch="2.13.0+cpu")
    with pytest.raises(InputError, match=r"needs onnxscript, which is not installed"):
        imported(tmp_path / "model")
    without_torch(monkeypatch, torch="2.8.0", onnxscript="0.7.2")
    with pytest.raises(InputError, match=r"needs torch 2\.9 or newer; 2\.8\.0 is installed"):
        imported(tmp_path / "model")


REMEDIES = {
    "a pickled weight": (with_payload(use_pickle=True), r"Ingot unpickles nothing; ingot\.compile\(module"),
    "a function": (with_target("torch.os.system"), r"calls 'torch\.os\.system', no operator of PyTorch's"),
    "weights as a pickle": (HOSTILE["weights as a pickle"], r"a pickle; load and save it with PyTorch 2\.9"),
    "compiled code": (
        HOSTILE["compiled code"],
        r"holds compiled code; save one program: torch\.export\.save",
    ),
    "another device": (HOSTILE["a weight on another device"], r"'cuda'; move the module .* to the CPU"),
    "training": (in_training(), r"its dropout is that of training; call eval\(\) of the module before"),
    "a class of its own": (HOSTILE["a structure mine.Tuple"], r"a 'mine\.Tuple'; let the module take"),
}


@pytest.mark.parametrize("case", REMEDIES)
def test_errors_say_what_to_do(case: str, tmp_path: Path) -> None:
    data, words = REMEDIES[case]
    (tmp_path / "m.pt2").write_bytes(data)
    with pytest.raises(UnsupportedError, match=words):
        open_archive(tmp_path / "m.pt2")


def test_a_cut_archive_says_so(tmp_path: Path) -> None:
    (tmp_path / "m.pt2").write_bytes(packed(members())[:400])
    with pytest.raises(UnsupportedError, match="a zip archive that is damaged or cut short; fetch it"):
        imported(tmp_path / "m.pt2")


def test_what_is_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Example inputs belong to modules; a module without PyTorch is said to need it."""
    with pytest.raises(InputError, match="example_inputs and dynamic_shapes are for a module"):
        ingot.compile(b"", [1])
    module = type("Net", (type("Module", (), {"__module__": "torch.nn.modules.module"}),), {})()
    without_torch(monkeypatch)
    with pytest.raises(InputError, match="compiling the module Net needs torch, which is not installed"):
        ingot.compile(module, [1])


def test_hostile_documents_are_model_errors(tmp_path: Path) -> None:
    (tmp_path / "m.pt2").write_bytes(with_size("preview(s77)"))
    with pytest.raises(ModelError, match=r"'preview\(s77\)' is no expression of sizes"):
        open_archive(tmp_path / "m.pt2")
