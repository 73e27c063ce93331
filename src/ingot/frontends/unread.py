"""Files that are no models, or models that Ingot does not read: what each is, and what to give instead.

In: nothing. Out: `UNREAD`, rows of a name, a test on a sample and a remedy, in the order in which `formats`
asks them, behind the formats that have an importer, and `LIKE_MESSAGES`, before them.
"""

from __future__ import annotations

import re

from ingot.frontends.sample import Sample, Test, fields_of, flatbuffer, holds, keyed, starts

EXPORT = "ingot.compile(module, example_inputs), or torch.onnx.export(module, example_inputs, dynamo=True)"
PICKLE = f"load it; a module of PyTorch's: {EXPORT}; of scikit-learn: skl2onnx.to_onnx(model, X[:1])"
ITSELF = "give the model itself"
ONNX_AGAIN = "export the model to ONNX from the framework that it was trained in"
LFS = "fetch it: git lfs pull"
UNPACK = "unpack it, and name the model in it"
SOURCE = "give the model that it was compiled from"
BEFORE = "give the model that it was converted from"
MODULE = f"from the module behind it: {EXPORT}"
BOOSTED = "convert it to ONNX with onnxmltools"
CAFFE = frozenset(
    ("name", "layer", "layers", "input", "input_dim", "input_shape", "force_backward", "state", "debug_info")
)
TAR, TAR_AT = b"ustar", 257
PROGRAMS = (b"MZ", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm", b"\x7fELF")
BMP_HEADERS = {n.to_bytes(4, "little") for n in (12, 40, 52, 56, 64, 108, 124)}
ARRAYS = "give the model itself; arrays are for --input NAME=FILE.npy"


def _is_tar(s: Sample) -> bool:
    return s.head[TAR_AT : TAR_AT + len(TAR)] == TAR


def _is_pickle(s: Sample) -> bool:
    return s.head[:1] == b"\x80" and 2 <= (s.head[1:2] or b"\0")[0] <= 5


def _is_safetensors(s: Sample) -> bool:
    size = int.from_bytes(s.head[:8], "little")
    return s.head[8:10] == b'{"' and size < 1 << 30


def _holds_weights(s: Sample) -> bool:
    """The folder of a network as model hubs keep it."""
    return s.is_folder and any(n.endswith((".safetensors", "pytorch_model.bin")) for n in s.entries)


def _is_core_ml(s: Sample) -> bool:
    """Its version, a description, and the network in one of the fields from 200 on."""
    numbers = [number for number, _, _ in s.fields]
    return numbers[:2] == [1, 2] and any(200 <= n < 4096 for n in numbers)


def _is_caffe(s: Sample) -> bool:
    """A NetParameter: its name, and layers in field 100."""
    return bool(s.fields) and {1, 100} <= {n for n, _, _ in s.fields} <= {*range(1, 9), 100}


def _is_paddle(s: Sample) -> bool:
    """A ProgramDesc: blocks, of which the first says its number, its parent's and its variables."""
    if not s.fields or s.fields[0][0] != 1:
        return False
    held = fields_of(s.fields[0][2])
    return [(n, kind) for n, kind, _ in held[:3]] == [(1, 0), (2, 0), (3, 2)]


def _is_bmp(s: Sample) -> bool:
    """Behind the size four zeros, and the length of one of the headers that there are."""
    return s.head[:2] == b"BM" and s.head[6:10] == bytes(4) and s.head[14:18] in BMP_HEADERS


def _says(*words: str) -> Test:
    """JSON in whose beginning one of these keys stands."""
    return lambda s: _is_json(s) and any(f'"{word}"' in s.text for word in words)


def _is_json(s: Sample) -> bool:
    return re.match(r'\s*(\{\s*["}]|\[\s*["\[{\]\d])', s.text) is not None


def _matches(pattern: str) -> Test:
    """Text that begins so, behind white space and comments."""
    expression = re.compile(r"(\s|(#|//)[^\n]*\n)*" + pattern)
    return lambda s: expression.match(s.text) is not None


def _is_web_page(s: Sample) -> bool:
    return s.text.lstrip()[:15].lower().startswith(("<!doctype html", "<html"))


def _is_xml(s: Sample) -> bool:
    return s.text.lstrip().startswith(("<?xml", "<net "))


Row = tuple[str, Test, str]
LIKE_MESSAGES: tuple[Row, ...] = (
    ("a bzip2 archive", starts(b"BZh"), UNPACK),
    ("a BMP image", _is_bmp, ITSELF),
)
"""What begins as a message of protobuf's does too: asked before all other formats."""
UNREAD: tuple[Row, ...] = (
    ("a Python pickle", _is_pickle, PICKLE),
    ("a safetensors file: weights without a graph", _is_safetensors, ONNX_AGAIN),
    ("a folder of weights without a graph", _holds_weights, ONNX_AGAIN),
    ("a GGUF file: weights without a graph", starts(b"GGUF"), ONNX_AGAIN),
    ("a GGML file: weights without a graph", starts(b"lmgg", b"fmgg", b"tjgg"), ONNX_AGAIN),
    ("an ORT format model", flatbuffer(b"ORTM"), "give the .onnx file that it was made of"),
    ("an ExecuTorch program", flatbuffer(b"ET12"), MODULE),
    ("a TensorRT engine", starts(b"ftrt", b"ptrt"), "give the ONNX model that it was built from"),
    ("an RKNN model", starts(b"RKNN"), BEFORE),
    ("a Core ML model", _is_core_ml, BEFORE),
    ("a Core ML package", holds("Manifest.json"), BEFORE),
    ("a TensorFlow.js model", _says("weightsManifest", "modelTopology"), BEFORE),
    ("a TensorFlow.js model", holds("model.json"), BEFORE),
    ("a Caffe network", _is_caffe, "convert it to ONNX"),
    ("a Caffe network", keyed(CAFFE, ("layer", "layers")), "convert it to ONNX"),
    ("a PaddlePaddle program", _is_paddle, "convert it to ONNX with paddle2onnx"),
    ("a Darknet network", _matches(r"\[(net|network)\]"), "convert it to ONNX"),
    ("an ncnn network", starts(b"7767517"), ONNX_AGAIN),
    ("an MXNet symbol", _says("arg_nodes"), ONNX_AGAIN),
    ("an MLIR module", starts(b"ML\xefR"), ONNX_AGAIN),
    ("an MLIR module", _matches(r"(module @|module \{|module attributes|func\.func)"), ONNX_AGAIN),
    ("a CatBoost model", starts(b"CBM1"), "save it as ONNX: model.save_model(PATH, format='onnx')"),
    ("a LightGBM model", _matches(r"tree\nversion="), BOOSTED),
    ("an XGBoost model", _says("learner"), BOOSTED),
    ("an XGBoost model", starts(b"{L\0\0\0\0\0\0\0\x07learner"), BOOSTED),
    ("a NumPy array", starts(b"\x93NUMPY"), ARRAYS),
    ("a PNG image", starts(b"\x89PNG\r\n\x1a\n"), ITSELF),
    ("a JPEG image", starts(b"\xff\xd8\xff"), ITSELF),
    ("a GIF image", starts(b"GIF8"), ITSELF),
    ("a RIFF file: sound, a film or an image", starts(b"RIFF"), ITSELF),
    ("a PDF document", starts(b"%PDF"), ITSELF),
    ("an object file or a program", starts(*PROGRAMS), SOURCE),
    ("a tar archive", _is_tar, UNPACK),
    ("a gzip archive", starts(b"\x1f\x8b"), UNPACK),
    ("an xz archive", starts(b"\xfd7zXZ\0"), UNPACK),
    ("a zstd archive", starts(b"\x28\xb5\x2f\xfd"), UNPACK),
    ("a 7z archive", starts(b"7z\xbc\xaf\x27\x1c"), UNPACK),
    ("a RAR archive", starts(b"Rar!\x1a\x07"), UNPACK),
    (
        "a pointer of Git LFS, not the file itself",
        starts(b"version https://git-lfs"),
        "fetch it: git lfs pull",
    ),
    ("a web page", _is_web_page, "the download failed: fetch the model itself"),
    ("XML, perhaps an OpenVINO network", _is_xml, ONNX_AGAIN),
    ("JSON, perhaps a network without its weights", _is_json, ITSELF),
    ("Python code", _matches(r"(import \w|from [\w.]+ import |def \w+\(|class \w+)"), MODULE),
)
