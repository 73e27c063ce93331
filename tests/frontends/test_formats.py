"""The table of formats: each is told by what is in the file, whatever the file is called."""

from __future__ import annotations

import bz2
import io
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.printer
import pytest
from google.protobuf import text_format

from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.frontends.canonical import imported, is_foreign
from ingot.frontends.formats import format_of
from ingot.frontends.onnx import read_model
from ingot.frontends.tensorflow.protos import message
from ingot.graph.text import graph_text
from tests.models import limit, text

RANDOM = random.Random(1).randbytes(1024)
MODEL = text("{ y = Relu(x) }", "(float[2,3] x) => (float[2,3] y)")


def archive(**files: bytes) -> bytes:
    """A zip archive; `__` in a name is a slash, `_` before its last part a dot."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in files.items():
            made.writestr(name.replace("__", "/").replace("DOT", "."), data)
    return out.getvalue()


def graph_def(name: str = "GraphDef") -> bytes:
    made = message(name)
    graph = {
        "GraphDef": lambda: made,
        "MetaGraph": lambda: made.graph_def,
        "SavedModel": lambda: made.meta_graphs.add().graph_def,
    }[name]()
    if name == "SavedModel":
        made.saved_model_schema_version = 1
        made.meta_graphs[0].meta_info_def.meta_graph_version = "1"
    if name == "MetaGraph":
        made.meta_info_def.tags.append("serve")
    graph.node.add(name="x", op="Placeholder")
    graph.node.add(name="y", op="Relu", input=["x"])
    return bytes(made.SerializeToString())


def net(**fields: object) -> bytes:
    """A NetDef of Caffe2's on the wire: name, one operator with output and type."""
    operator = b"\x12\x01w" + b"\x22\x0fGivenTensorFill"
    return b"\x0a\x03net" + b"\x12" + bytes([len(operator)]) + operator


def array() -> bytes:
    out = io.BytesIO()
    np.save(out, np.zeros(3))
    return out.getvalue()


READ: dict[str, tuple[bytes, str]] = {
    "ONNX": (MODEL.SerializeToString(), "an ONNX model"),
    "protobuf text": (text_format.MessageToString(MODEL).encode(), "as protobuf text"),
    "syntax": (onnx.printer.to_text(MODEL).encode(), "ONNX's own syntax"),
    "a comment first": (b"# a net\n\n" + onnx.printer.to_text(MODEL).encode(), "ONNX's own syntax"),
    "GraphDef": (graph_def(), "TensorFlow's GraphDef"),
    "GraphDef as text": (b'# frozen\nnode { name: "x" op: "Placeholder" }', "TensorFlow's GraphDef"),
    "MetaGraph": (graph_def("MetaGraph"), "TensorFlow's MetaGraph"),
    "a checkpoint's index": (bytes(40) + bytes.fromhex("57fb808b247547db"), "TensorFlow's checkpoint"),
    "TFLite": (b"\x1c\0\0\0TFL3" + bytes(40), "TensorFlow Lite"),
    "Keras 3": (
        archive(configDOTjson=b"{}", metadataDOTjson=b"{}", modelDOTweightsDOTh5=b""),
        "a Keras model",
    ),
    "pt2": (archive(m__archive_format=b"pt2", m__models__modelDOTjson=b"{}"), "a program of torch.export"),
    "HDF5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "a Keras model"),
}


@pytest.mark.parametrize("suffix", ["", ".onnx", ".pb"])
@pytest.mark.parametrize("case", READ)
def test_formats_are_told_by_content(case: str, suffix: str, tmp_path: Path) -> None:
    data, name = READ[case]
    (tmp_path / f"m{suffix}").write_bytes(data)
    found = format_of(tmp_path / f"m{suffix}")
    assert name in found.name and found.importer
    assert is_foreign(tmp_path / f"m{suffix}") is not found.is_onnx


@pytest.mark.parametrize("case", ["ONNX", "protobuf text", "syntax", "a comment first"])
def test_every_form_of_onnx_is_one_model(case: str, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(READ[case][0])
    wanted = graph_text(read_model(MODEL))
    assert graph_text(read_model(tmp_path / "m")) == wanted == graph_text(read_model(READ[case][0]))
    assert imported(tmp_path / "m").graph == MODEL.graph


TORCH = r"torch\.onnx\.export"
REFUSED: dict[str, tuple[bytes, str]] = {
    "a PyTorch pickle": (archive(m__dataDOTpkl=b"", m__version=b"3"), rf"is a PyTorch pickle; .*{TORCH}"),
    "TorchScript": (
        archive(m__dataDOTpkl=b"", m__constantsDOTpkl=b"", m__code__mDOTpy=b""),
        rf"is a TorchScript archive; .*{TORCH}",
    ),
    "an older pt2": (archive(serialized_exported_programDOTjson=b"{}"), r"older .*; load and save it with"),
    "an old PyTorch pickle": (pickle.dumps({"a": 1}, 2), f"is a Python pickle; .*{TORCH}"),
    "numpy": (array(), "is a NumPy array; give the model itself"),
    "npz": (archive(xDOTnpy=array()), "is an archive of NumPy arrays"),
    "safetensors": (b"\x40\0\0\0\0\0\0\0" + b'{"w":{"dtype":"F32"}}', "weights without a graph"),
    "GGUF": (b"GGUF\3\0\0\0", "is a GGUF file"),
    "a zip archive": (archive(modelDOTonnx=b""), "is a zip archive; unpack it"),
    "a PNG": (b"\x89PNG\r\n\x1a\n" + bytes(20), "is a PNG image"),
    "a JPEG": (b"\xff\xd8\xff\xe0" + bytes(20), "is a JPEG image"),
    "gzip": (b"\x1f\x8b\x08" + bytes(20), "is a gzip archive; unpack it"),
    "bzip2": (bz2.compress(RANDOM), "is a bzip2 archive; unpack it"),
    "a BMP": (b"BM\x36\4\0\0" + bytes(4) + b"\x36\0\0\0\x28\0\0\0" + RANDOM, "is a BMP image"),
    "tar": (b"model.onnx".ljust(257, b"\0") + b"ustar\x0000" + bytes(248), "is a tar archive; unpack it"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(20), "is a zstd archive"),
    "RAR": (b"Rar!\x1a\x07\x01\0" + bytes(20), "is a RAR archive"),
    "sound": (b"RIFF\x28\0\0\0WAVEfmt ", "is a RIFF file: sound"),
    "WebAssembly": (b"\0asm\1\0\0\0", "is an object file or a program"),
    "TensorRT": (b"ftrt" + bytes(60), "is a TensorRT engine; give the ONNX model"),
    "RKNN": (b"RKNN" + bytes(60), "is an RKNN model"),
    "Core ML": (
        b"\x08\x04\x12\x04\x0a\x02\x0a\0" + b"\xa2\x1f\x05\x0a\x03\x0a\x01a",
        "is a Core ML model; give the model that it was converted from",
    ),
    "TensorFlow.js": (b'{"format": "layers-model", "modelTopology": {}}', "is a TensorFlow.js model"),
    "XGBoost": (b'{"learner": {"attributes": {}}}', "is an XGBoost model; convert it .* onnxmltools"),
    "LightGBM": (b"tree\nversion=v4\n", "is a LightGBM model; convert it .* onnxmltools"),
    "CatBoost": (b"CBM1" + bytes(20), r"is a CatBoost model; save it as ONNX"),
    "Caffe": (b'name: "n"\nlayer { name: "conv" }', "is a Caffe network; convert it"),
    "Caffe's weights": (b"\x0a\x01n" + b"\xa2\x06\x03\x0a\x01c", "is a Caffe network; convert it"),
    "PaddlePaddle": (b"\x0a\x08\x08\0\x10\x01\x1a\x02\x0a\0", "is a PaddlePaddle program; .* paddle2onnx"),
    "Darknet": (b"# a network\n[net]\nbatch=1\n", "is a Darknet network"),
    "MLIR": (b"module @jit_f {\n  func.func public @main", "is an MLIR module"),
    "GGML": (b"lmgg" + bytes(20), "weights without a graph"),
    "MXNet": (b'{"nodes": [], "arg_nodes": []}', "is an MXNet symbol"),
    "Python": (b"import torch\n", r"is Python code; .*ingot\.compile\(module"),
    "an LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:", "git lfs pull"),
    "a web page": (b"<!DOCTYPE html><html>", "is a web page; the download failed"),
    "JSON": (b'{"class_name": "Sequential"}', "is JSON"),
    "ORT": (b"\x20\0\0\0ORTM" + bytes(20), "is an ORT format model"),
    "OpenVINO": (b'<?xml version="1.0"?>\n<net name="n">', "OpenVINO"),
    "a tfcompile configuration": (b'feed { id { node_name: "x" } }', "--config"),
    "the graph of a SavedModel": (graph_def("SavedModel"), "name its folder"),
    "its text": (b"saved_model_schema_version: 1\nmeta_graphs { }", "name its folder"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_read_is_named(case: str, tmp_path: Path) -> None:
    data, words = REFUSED[case]
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(UnsupportedError, match=words):
        format_of(tmp_path / "m.onnx")
    assert not is_foreign(tmp_path / "m.onnx")


NONE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "it is empty"),
    "zeros": (bytes(100), "no known format"),
    "words": (b"hello, world", "no known format"),
    "other keys": (b'sheet { name: "conv" }', "no known format"),
    "half a zip archive": (archive(configDOTjson=b"{}", metadataDOTjson=b"{}")[:40], "damaged or cut short"),
    "a field of no format": (b"\xaa\x06\x01x", "no known format"),
}


@pytest.mark.parametrize("case", NONE)
def test_what_is_no_model(case: str, tmp_path: Path) -> None:
    data, words = NONE[case]
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(InputError, match=words):
        format_of(tmp_path / "m.onnx")


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a folder in which no model lies"):
        format_of(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        format_of(tmp_path / "nothing")


FOLDERS = {
    "a model": (("m.onnx", "n.tflite"), r"is a folder; name the model in it: m\.onnx, n\.tflite"),
    "a model hub's": (("config.json", "model.safetensors"), "is a folder of weights without a graph"),
    "Core ML": (("Manifest.json",), "is a Core ML package"),
    "TensorFlow.js": (("model.json", "group1-shard1of1.bin"), "is a TensorFlow.js model"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_what_lies_in_a_folder_is_named(case: str, tmp_path: Path) -> None:
    names, words = FOLDERS[case]
    for name in names:
        (tmp_path / name).write_bytes(b"{}")
    with pytest.raises(InputError, match=words):
        format_of(tmp_path)


def test_options_of_another_importer(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(MODEL.SerializeToString())
    with pytest.raises(InputError, match=r"--inputs is for .*this is an ONNX model"):
        imported(tmp_path / "m", inputs=("x:1",))


CUTS: dict[str, Callable[[bytes, int], bytes]] = {
    "cut": lambda data, k: data[: len(data) * k // 12],
    "a bit": lambda data, k: flipped(data, k * 37 % len(data), 1 << k % 8),
    "a byte": lambda data, k: flipped(data, k * 53 % len(data), 0xFF),
}


def flipped(data: bytes, at: int, bits: int) -> bytes:
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("case", READ)
def test_damaged_files_are_read_or_refused(case: str, how: str, tmp_path: Path) -> None:
    """One error that is the user's to act on, or a model: nothing else comes out of the door."""
    path, seen = tmp_path / "m.pb", 0
    for k in range(12):
        path.write_bytes(CUTS[how](READ[case][0], k))
        try:
            imported(path)
        except InputError as error:
            assert len(str(error)) < 1000 and "\n" not in str(error)
            seen += 1
    assert seen or how != "cut"


LONG: dict[str, bytes] = {
    "a word": b"o" * 70_000,
    "spaces": b"name" + b" " * 70_000,
    "open strings": b'"' * 70_000,
    "escapes": b'"' + b"\\" * 70_000,
    "braces": b"a{" * 35_000,
    "words": b"a " * 35_000,
    "lines": b"#\n" * 35_000,
    "numbers": b"\x08\x80" * 35_000,
}


@pytest.mark.parametrize("case", LONG)
def test_telling_takes_no_time(case: str, tmp_path: Path) -> None:
    """Whatever lies at the beginning of a file is walked once."""
    (tmp_path / "m").write_bytes(LONG[case])
    with limit(1.0):
        try:
            format_of(tmp_path / "m")
        except InputError as error:
            assert "known" in str(error)


def test_a_truncated_model_says_so() -> None:
    with pytest.raises(ModelError, match="cut short"):
        read_model(MODEL.SerializeToString()[:-3])
