"""What Keras itself computed, kept by `oracle.py`: its files, in both forms, give the same numbers.

The golden file has configurations, weights, inputs and answers of small models. Files are written anew from
them, imported, and run by onnxruntime; some are compiled.
"""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import msgspec
import numpy as np
import onnxruntime
import pytest

import ingot
from ingot.errors import UnsupportedError
from ingot.frontends.keras import import_keras
from ingot.frontends.keras.hdf5 import Hdf5, Head
from ingot.frontends.keras.hdf5_child import Reading
from ingot.frontends.keras.table import LAYERS
from tests.keras.files import archive, hdf5
from tests.keras.layers import REFUSED as NOT_YET

GOLDEN = Path(__file__).with_name("golden.npz")
COMPILED = ("conv2d_same_321", "prelu_shared", "biLSTM_concat", "mask_GRU", "mha", "convlstm2", "nested")
REFUSED = {"Lambda", "InputLayer", "ReversibleEmbedding", "Wrapper", "TFOpLambda", "SlicingOpLambda"}
Array = np.ndarray[Any, Any]


@cache
def golden() -> tuple[dict[str, Any], dict[str, Array]]:
    with np.load(GOLDEN) as held:
        head, data = json.loads(held["head"].tobytes()), held["data"].tobytes()
    arrays: dict[str, Array] = {}
    at = 0
    for key, dtype, shape in head["arrays"]:
        arrays[key] = np.frombuffer(data, dtype, int(np.prod(shape)), at).reshape(shape)
        at += arrays[key].nbytes
    return head["rows"], arrays


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """These files are whole: they need no process of their own each, as `test_files.py` has them."""

    def opened(source: bytes | Path, label: str) -> Hdf5:
        found = Reading()
        with h5py.File(io.BytesIO(source) if isinstance(source, bytes) else source) as file:
            found.walk(file)
        head = {"error": "", "attributes": found.attributes, "arrays": found.arrays, "refused": found.refused}
        return Hdf5(msgspec.convert(head, Head), memoryview(b"".join(found.pieces)), label)

    monkeypatch.setattr("ingot.frontends.keras.archive.open_hdf5", opened)


def written(folder: Path, row: dict[str, Any], is_flat: bool) -> Path:
    arrays = golden()[1]
    if is_flat:
        lists = {n: [(w, arrays[key]) for w, key in held] for n, held in row["lists"].items()}
        return hdf5(folder / "model.h5", row["old"], lists, row["version"])
    weights = {n: arrays[key] for n, key in row["weights"].items()}
    return archive(folder / "model.keras", row["config"], weights, row["version"])


def agree(found: list[Array], wanted: list[Array], tolerance: float) -> None:
    assert [a.shape for a in found] == [a.shape for a in wanted]
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x.astype(np.float64), y, atol=tolerance * max(np.abs(y).max(initial=0), 1))


@pytest.mark.parametrize("name", NOT_YET)
@pytest.mark.parametrize("is_flat", [False, True])
def test_what_keras_computes_otherwise_is_refused(name: str, is_flat: bool, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="which is not supported"):
        import_keras(written(tmp_path, golden()[0][name], is_flat))


@pytest.mark.parametrize("name", [name for name in golden()[0] if name not in NOT_YET])
def test_files_give_what_keras_computed(name: str, tmp_path: Path) -> None:
    row, arrays = golden()[0][name], golden()[1]
    wanted = [arrays[key] for key in row["outputs"]]
    tolerance = 2e-2 if "float16" in name else 1e-4
    for is_flat in (False, True):
        model = import_keras(written(tmp_path, row, is_flat))
        names = [v.name for v in model.graph.input]
        given = {n: arrays[key] for n, key in zip(names, row["inputs"], strict=True)}
        found = onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)
        agree(found, wanted, tolerance)


@pytest.mark.parametrize("name", COMPILED)
def test_bundles_give_what_keras_computed(name: str, tmp_path: Path) -> None:
    row, arrays = golden()[0][name], golden()[1]
    bundle = ingot.compile(str(written(tmp_path, row, False)), target="c99")
    given = {p["name"]: arrays[key] for p, key in zip(bundle.manifest["inputs"], row["inputs"], strict=True)}
    agree(list(bundle.run(given).values()), [arrays[key] for key in row["outputs"]], 1e-4)


def test_every_layer_is_in_a_golden_row_or_refused() -> None:
    """An entry of the table without a row is one that nobody compared with Keras."""
    kinds = set()

    def collect(tree: Any) -> None:
        if isinstance(tree, dict):
            kinds.add(tree.get("class_name"))
            for value in tree.values():
                collect(value)
        elif isinstance(tree, list):
            for value in tree:
                collect(value)

    collect([row["config"] for row in golden()[0].values()])
    same = {f.mapping for name, f in LAYERS.items() if name in kinds}  # an older name of a mapping that is
    assert {n for n, f in LAYERS.items() if f.mapping not in same} - REFUSED <= UNSEEN


UNSEEN = {
    *(
        "ThresholdedReLU",
        "Gelu",
        "GELU",
        "LayerScale",
        "Functional",
    ),  # tests/keras/test_files.py; models are in every row
    *("StringLookup", "TextVectorization", "Hashing", "HashedCrossing", "IntegerLookup"),
    *("MelSpectrogram", "STFTSpectrogram"),
}
