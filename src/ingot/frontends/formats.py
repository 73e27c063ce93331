"""The formats that models come in, recognised by content: one table, asked row by row.

A row says what users call the format, how its beginning looks, and either who imports it or what to do
instead. In: a path or bytes. Out: the row that fits. Called by `canonical` and the readers of single formats,
who may still find the file broken further on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Literal

import onnx

from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.frontends.sample import (
    Field,
    Sample,
    Test,
    fields_of,
    flatbuffer,
    holds,
    keyed,
    starts,
    zipped,
)
from ingot.frontends.unread import EXPORT, ITSELF, LIKE_MESSAGES, UNPACK, UNREAD

Form = Literal["", "binary", "text", "syntax", "meta", "checkpoint", "folder", "saved"]
ONNX = "ingot.frontends.onnx:read_proto"
TENSORFLOW = "ingot.frontends.tensorflow:import_tensorflow"
TFLITE = "ingot.frontends.tflite:import_tflite"
KERAS = "ingot.frontends.keras:import_keras"
PYTORCH = "ingot.frontends.pytorch:import_pytorch"
CAFFE2 = "ingot.frontends.caffe2:import_caffe2"
SAID = ("model_inputs",)
EDGES = ("inputs", "outputs", "config")
CUT = (*SAID, "outputs")
NUMBER, BYTES = 0, 2
"""Wire types of protobuf's."""
PROGRAM = (
    "load and save it with PyTorch 2.9 or newer: torch.export.save(torch.export.load(PATH), 'model.pt2')"
)
CONFIG = "give the graph; the configuration goes to `ingot import --config`"
ONNX_FIELDS = {
    f.number: NUMBER if f.type == f.TYPE_INT64 else BYTES for f in onnx.ModelProto.DESCRIPTOR.fields
}
ONNX_KEYS = frozenset(field.name for field in onnx.ModelProto.DESCRIPTOR.fields)
NET_KEYS = frozenset(
    (
        "name",
        "op",
        "type",
        "num_workers",
        "device_option",
        "arg",
        "external_input",
        "external_output",
        "partition_info",
    )
)
GRAPH_KEYS = frozenset(("node", "library", "versions", "version"))
META_KEYS = frozenset(
    ("meta_info_def", "graph_def", "saver_def", "collection_def", "signature_def", "asset_file_def")
)
SAVED_KEYS = frozenset(("saved_model_schema_version", "meta_graphs"))
CONFIG_KEYS = frozenset(("feed", "fetch", "variable"))
SAVED = ("saved_model.pb", "saved_model.pbtxt")
PARTS = (*SAVED, "checkpoint", "*.meta", "*.index", "*.data-*", "variables/variables.*")
NETS = ("init_net", "predict_net")
NET_SUFFIXES = (".pb", ".pbtxt")
PREDICT = re.compile(r"(predict|pred)(_net)?$")
TABLE_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")


@dataclass(frozen=True, slots=True)
class Format:
    """`importer` is module:function of who makes a ModelProto of a path; `takes` are the fields of the
    options that it understands as keywords. Without one, `remedy` says what to do instead. `form` tells an
    importer of several formats which one this is. `files` are those that a digest covers, in order.
    """

    name: str
    test: Test
    importer: str = ""
    takes: tuple[str, ...] = ()
    remedy: str = ""
    form: Form = ""
    files: Callable[[Path], list[Path]] = lambda path: [path]

    @property
    def is_onnx(self) -> bool:
        return self.importer == ONNX


# ---- protobuf: messages whose first fields, and what they hold, tell them apart


def _only(fields: Collection[Field], known: Mapping[int, int]) -> bool:
    return bool(fields) and all(known.get(number) == kind for number, kind, _ in fields)


def _inner(fields: Collection[Field], number: int) -> list[dict[int, int]]:
    """The fields with their wire types of each message that stands in a field."""
    return [{n: k for n, k, _ in fields_of(content)} for found, _, content in fields if found == number]


def _is_node(held: Mapping[int, int]) -> bool:
    """Whether this is a node of TensorFlow's: name, op, inputs, device, attributes."""
    return held.get(1) == BYTES == held.get(2) and held.keys() <= set(range(1, 8))


def _is_graph(fields: list[Field]) -> bool:
    known = {1: BYTES, 2: BYTES, 3: NUMBER, 4: BYTES, 5: BYTES}
    if not _only(fields, known):
        return False
    nodes = _inner(fields, 1)
    return bool(nodes) and all(map(_is_node, nodes[: -1 or None])) and _is_node(nodes[0])


def _is_meta(fields: list[Field]) -> bool:
    graphs = [content for number, _, content in fields if number == 2]
    return (
        _only(fields, dict.fromkeys(range(1, 8), BYTES))
        and len(graphs) == 1
        and _is_graph(fields_of(graphs[0]))
    )


def _is_saved(fields: list[Field]) -> bool:
    if not _only(fields, {1: NUMBER, 2: BYTES}):
        return False
    metas = [content for number, _, content in fields if number == 2]
    return bool(metas) and _is_meta(fields_of(metas[0]))


def _is_net(fields: list[Field]) -> bool:
    """A NetDef of Caffe2's: its operators have inputs, outputs, a name and a type."""
    known = dict.fromkeys((1, 2, 3, 5, 6, 7, 8, 9), BYTES) | {4: NUMBER}
    operators = _inner(fields, 2) if _only(fields, known) else []
    return bool(operators) and operators[0].get(4) == BYTES and operators[0].keys() <= set(range(1, 12))


def _is_onnx(fields: list[Field]) -> bool:
    return _only(fields, ONNX_FIELDS)


def binary(test: Callable[[list[Field]], bool]) -> Test:
    """A format that is a protobuf message."""
    return lambda s: test(s.fields)


def _is_damaged(s: Sample) -> bool:
    """A zip archive whose list of entries cannot be read; of bytes in memory it is not asked."""
    return s.path is not None and s.head.startswith(b"PK\x03\x04") and not s.entries


def _is_checkpoint(s: Sample) -> bool:
    """A checkpoint's index, or the folder of one."""
    if s.is_folder:
        return any(name == "checkpoint" or name.endswith((".meta", ".index")) for name in s.entries)
    return s.tail == TABLE_MAGIC


def _is_nets(s: Sample) -> bool:
    return s.is_folder and all(any(net + suffix in s.entries for suffix in NET_SUFFIXES) for net in NETS)


def _is_syntax(s: Sample) -> bool:
    """ONNX's own syntax: <ir_version: 8, ...> graph (...) => (...) {...}."""
    text = "\n".join(line for line in s.text.splitlines() if not line.lstrip().startswith("#")).lstrip()
    return text[:1] == "<" and text[1:].lstrip().startswith(tuple(ONNX_KEYS))


# ---- the table


def _checkpoint(path: Path) -> list[Path]:
    """The files of a checkpoint or a SavedModel: all that begin with its name, or what its folder holds."""
    if path.is_dir():
        return sorted({p for pattern in PARTS for p in path.glob(pattern) if p.is_file()})
    return sorted(p for p in path.parent.glob(f"{escape(path.stem)}.*") if p.is_file())


def _beside(path: Path) -> list[Path]:
    """The files of the SavedModel whose graph this is."""
    return _checkpoint(path.parent)


def _is_saved_file(s: Sample) -> bool:
    """The graph of a SavedModel under its own name: its folder is meant."""
    if s.path is None or s.path.name not in SAVED:
        return False
    return binary(_is_saved)(s) or keyed(SAVED_KEYS, SAVED_KEYS)(s)


def _caffe2_files(path: Path) -> list[Path]:
    """Both nets, in order."""
    return [p for p in caffe2_nets(path) if p is not None]


def caffe2_nets(path: Path) -> tuple[Path | None, Path]:
    """Caffe2's init net, if there is one, and its predict net: a folder's, or a file's and that beside it."""
    if path.is_dir():
        found = [next((p for s in NET_SUFFIXES if (p := path / f"{n}{s}").is_file()), None) for n in NETS]
        if found[1] is None:
            raise InputError(f"{path} holds no predict_net.pb")
        return found[0], found[1]
    stem = path.stem.removesuffix("_net")
    stems = [PREDICT.sub(name, path.stem) for name in ("init_net", "init")]
    stems += [f"{one}_{name}" for one in (path.stem, stem) for name in ("init_net", "init")]
    beside = [path.with_name(f"{stem}{s}") for stem in dict.fromkeys(stems) for s in NET_SUFFIXES]
    return next((p for p in beside if p != path and p.is_file()), None), path


def _is_bundle(sample: Sample) -> bool:
    """Whether a folder holds a bundle's manifest, which names the model in its first lines."""
    if not sample.is_folder or sample.path is None:
        return False
    paths = (sample.path / name for name in sample.entries if name.endswith(".json"))
    return any('"model_sha256"' in Sample(path).text for path in paths if path.is_file())


FOLDER = "name its folder, in which the variables lie too"
FORMATS = (
    *(Format(name, test, remedy=remedy) for name, test, remedy in LIKE_MESSAGES),
    Format("a TensorFlow Lite model", flatbuffer(b"TFL3"), TFLITE, ("inputs", "outputs")),
    Format("a Keras model", zipped("/config.json", "/metadata.json"), KERAS, EDGES[:2]),
    Format("a Keras model in HDF5", starts(b"\x89HDF\r\n\x1a\n"), KERAS, EDGES[:2]),
    Format("TensorFlow's SavedModel", holds(*SAVED), TENSORFLOW, EDGES, form="folder", files=_checkpoint),
    Format(
        "TensorFlow's checkpoint", _is_checkpoint, TENSORFLOW, EDGES, form="checkpoint", files=_checkpoint
    ),
    Format("TensorFlow's MetaGraph", binary(_is_meta), TENSORFLOW, EDGES, form="meta", files=_checkpoint),
    Format("TensorFlow's GraphDef", binary(_is_graph), TENSORFLOW, EDGES, form="binary"),
    Format("TensorFlow's GraphDef", keyed(GRAPH_KEYS, ("node", "library")), TENSORFLOW, EDGES, form="text"),
    Format("TensorFlow's SavedModel", _is_saved_file, TENSORFLOW, EDGES, form="saved", files=_beside),
    Format("the graph of a SavedModel", binary(_is_saved), remedy=FOLDER),
    Format("the graph of a SavedModel", keyed(SAVED_KEYS, SAVED_KEYS), remedy=FOLDER),
    Format("a MetaGraph as text", keyed(META_KEYS, META_KEYS), remedy="save it in its binary form"),
    Format("a tfcompile configuration", keyed(CONFIG_KEYS, CONFIG_KEYS), remedy=CONFIG),
    Format("Caffe2's two nets", _is_nets, CAFFE2, SAID, form="folder", files=_caffe2_files),
    Format("a net of Caffe2's", binary(_is_net), CAFFE2, SAID, form="binary", files=_caffe2_files),
    Format("a net of Caffe2's", keyed(NET_KEYS, ("op",)), CAFFE2, SAID, form="text", files=_caffe2_files),
    Format("an ONNX model", binary(_is_onnx), ONNX, CUT, form="binary"),
    Format(
        "an ONNX model as protobuf text", keyed(ONNX_KEYS, ("graph", "ir_version")), ONNX, CUT, form="text"
    ),
    Format("an ONNX model in ONNX's own syntax", _is_syntax, ONNX, CUT, form="syntax"),
    Format("a program of torch.export", zipped("/archive_format"), PYTORCH),
    Format("an older program of torch.export", zipped("/serialized_exported_program.json"), remedy=PROGRAM),
    Format("a TorchScript archive", zipped("/constants.pkl"), remedy=f"from the module behind it: {EXPORT}"),
    Format("a PyTorch pickle", zipped("/data.pkl"), remedy=f"load the weights into their module: {EXPORT}"),
    Format("an archive of NumPy arrays", zipped(".npy"), remedy=ITSELF),
    Format("a zip archive that is damaged or cut short", _is_damaged, remedy="fetch it or save it again"),
    Format("a zip archive", zipped(), remedy=UNPACK),
    *(Format(name, test, remedy=remedy) for name, test, remedy in UNREAD),
    Format("a bundle, which holds no model", _is_bundle, remedy="name what it was compiled from"),
)
KNOWN = (
    "ONNX (binary and text), TensorFlow (GraphDef, checkpoint, SavedModel), TensorFlow Lite, Keras, "
    "PyTorch (.pt2) and Caffe2"
)


SUFFIXES = (".onnx", ".onnxtxt", ".pb", ".pbtxt", ".tflite", ".keras", ".h5", ".pt2")
"""How files are called that may be models, for a message about the folder in which they lie."""


def format_of(source: Path | bytes) -> Format:
    """The format of a model. Raises InputError that names another thing, and says what to do."""
    sample = Sample(source) if isinstance(source, Path) else Sample(None, source)
    found = next((f for f in FORMATS if f.test(sample)), None)
    what = repr(str(source)) if isinstance(source, Path) else "the model"
    if found is None:
        raise _unknown(sample, what)
    if not found.importer:
        raise UnsupportedError(f"{what} is {found.name}", remedy=found.remedy)
    return found


def _unknown(sample: Sample, what: str) -> InputError:
    remedy = f"known are {KNOWN}"
    if sample.is_folder:
        models = sorted(name for name in sample.entries if name.endswith(SUFFIXES))
        if models:
            return InputError(f"{what} is a folder", remedy=f"name the model in it: {', '.join(models[:3])}")
        return InputError(f"cannot read {what}: a folder in which no model lies", remedy=remedy)
    reason = "it is of no known format, or cut short" if sample.head else "it is empty"
    return ModelError(f"{what} is not an ONNX model, nor another: {reason}", remedy=remedy)
