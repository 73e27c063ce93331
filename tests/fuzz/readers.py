"""What is fuzzed beside models: every reader of a file, with well-formed files to begin with.

A case is the bytes of one file; the files around it (weights, a graph, a bundle) are the reader's own. It
is read, or refused by one error of `errors.py`; anything else is a finding. `cage` runs cases, `guided` looks
for them by coverage.
"""

from __future__ import annotations

import io
import json
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, parser

import ingot
from ingot.bundle.bundle import load
from ingot.compression.container import Form, Stored, read_container, write_container
from ingot.compression.model import Wish
from ingot.data.arrays import read_array
from ingot.driver import compress_model, front
from ingot.errors import InputError
from ingot.files import read_file
from ingot.frontends.caffe2.protos import message as caffe2_message
from ingot.frontends.tensorflow.protos import message
from ingot.graph.encoding import Sparse
from ingot.loops.interpret import interpret
from ingot.loops.region import formulate_graph
from ingot.loops.tuning import choices_of, read_tuning
from ingot.options import Options
from ingot.targets.records import find
from tests.fuzz import formats, seeds
from tests.fuzz.containers import mutate_archive, mutate_flatbuffer, mutate_hdf5, mutate_json
from tests.fuzz.found import FOUND
from tests.fuzz.mutate import mutate_bytes, mutate_message, mutate_text
from tests.tensorflow.graphs import FLOAT, Graph, Nodes, save_checkpoint

Mutate = Callable[[bytes, random.Random], bytes]
OPTIONS: dict[str, Any] = {"target": "c99", "name": "net", "capacity": {"": 8}}
WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)
CODE = {"tensorflow": "frontends/tensorflow", "onnx": "frontends/onnx"}


@dataclass(frozen=True)
class Reader:
    """`read` reads the folder in which a case lies as `file`, beside what `around` puts there. `code` are the
    files whose lines count as the reader's, below src/ingot."""

    file: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[Path], object]
    mutate: Mutate
    code: tuple[str, ...]
    around: Callable[[Path], None] = field(default=lambda folder: None)
    deep: Callable[[Path], object] | None = None

    def place(self, folder: Path, data: bytes) -> Path:
        """Write a case and what is around it; where it lies."""
        path = folder / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        self.around(folder)
        path.write_bytes(data)
        return path


def either(kind: Callable[[], Any]) -> Mutate:
    """Mostly the message that the bytes are, field by field; now and then the bytes."""

    def mutate(data: bytes, rng: random.Random) -> bytes:
        made = kind()
        if rng.random() < 0.15:
            return mutate_bytes(data, rng)
        try:
            made.ParseFromString(data)
            mutate_message(made, rng)
            return bytes(made.SerializeToString())
        except Exception:  # protobuf's own: these bytes are no message, or no longer one that it writes
            return mutate_bytes(data, rng)

    return mutate


# ---- ONNX

MODELS = (
    """g (float[1, 3, 8, 8] x) => (float[N] y) <float[4, 3, 3, 3] w = {FILL}> {
        c = Conv <pads = [1, 1, 1, 1]> (x, w)  p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
        r = Relu (p)  f = Flatten (r)  s = ReduceMax <keepdims = 0> (f)  y = Unsqueeze (s, zero)
    }""".replace("FILL", ", ".join(str(i % 5 - 2) for i in range(108))).replace(
        "float[4, 3, 3, 3] w", "int64[1] zero = {0}, float[4, 3, 3, 3] w"
    ),
    """g (float[2, 3] x, bool on) => (float[2, 3] y, float[M] z) {
        y = If (on) <then_branch = a () => (float[2, 3] p) { p = own.twice (x) },
                     else_branch = b () => (float[2, 3] q) { q = Softmax <axis = -1> (x) }>
        s = SequenceConstruct (x, y)  k = Constant <value_int = 1> ()  e = SequenceAt (s, k)
        n = NonZero (e)  t = Transpose (n)  g = GatherND (e, t)  z = Identity (g)
    }""",
    """g (string[2] x, float[2, 4] v) => (bool[2] y, int64[2, 2] i, float[2, 4] w) {
        u = StringNormalizer <case_change_action = "UPPER"> (x)  y = RegexFullMatch <pattern = "(A|B)+c*"> (u)
        k = Constant <value_ints = [2]> ()  t, i = TopK (v, k)  l = Constant <value_ints = [0, 1]> ()
        q = QuantizeLinear (v, scale)  w = DequantizeLinear (q, scale)
    }""".replace("g (string", "g (string").replace("w) {", "w) <float scale = {0.5}> {", 1),
)
BRIEF = """<ir_version: 8, opset_import: ["" : OPSET]> g (float[1, 4] x) => (float[1, 3] y)
    <float[4, 3] w = {FILL}, int64[1] axis = {0}> {
        m = MatMul (x, w)  u = Unsqueeze (m, axis)  s = Squeeze (u, axis)  y = Softmax (s)
    }""".replace("FILL", ", ".join(str((i * 7 % 11 - 5) / 4) for i in range(12)))
HEAD = '<ir_version: 10, opset_import: ["" : 20, "own" : 1]>\n'
TWICE = '\n<domain: "own", opset_import: ["" : 20, "own" : 1]>\ntwice (a) => (b) { b = Add (a, a) }'


@cache
def texts() -> tuple[str, ...]:
    return (*FOUND.values(), *(HEAD + m + TWICE for m in MODELS))


@cache
def models() -> tuple[bytes, ...]:
    return (*(parser.parse_model(t).SerializeToString() for t in texts()), *seeds.models())


def read_model(path: Path) -> object:
    return front(path, Options(**OPTIONS))


def compress(path: Path) -> object:
    """Weights are looked for in the model as the file has it, before any reader has checked it."""
    return compress_model(path, Wish(density=("0.5",)))


@cache
def compressible() -> tuple[bytes, ...]:
    """Of an old opset, of the newest, with a function, and compressed already."""
    old = BRIEF.replace("OPSET", "13")
    made = [parser.parse_model(t) for t in (old, BRIEF.replace("OPSET", "20"), texts()[-3])]
    return (*(m.SerializeToString() for m in made), compress_model(made[0], Wish()).model.SerializeToString())


def compile_model(path: Path) -> object:
    """The whole way: C that compiles, and whose run answers what the formulas do."""
    bundle = ingot.compile(path, emit=("obj",), **OPTIONS)
    rng = np.random.default_rng(0)
    feeds = {}
    for t in bundle.manifest["inputs"]:
        if "ports" in bundle.manifest or any(not isinstance(n, int) for n in t["shape"]):
            return None
        kind = "O" if t["dtype"].startswith("string") else t["dtype"]
        feeds[t["name"]] = np.asarray(rng.integers(0, 2, t["shape"])).astype("U1" if kind == "O" else kind)
    found = bundle.run({n: a.astype(object) if a.dtype.kind == "U" else a for n, a in feeds.items()})
    if any(a.dtype.kind in "OUS" for a in (*feeds.values(), *found.values())):
        return None
    wanted = interpret(formulate_graph(front(path, Options(**OPTIONS))), feeds)
    for (name, made), right in zip(found.items(), wanted, strict=False):
        same = np.allclose(made.astype(np.float64), np.asarray(right, np.float64), 1e-3, 1e-3, equal_nan=True)
        assert made.shape == right.shape and same, f"{name} differs from what the formulas give"
    return found


def external() -> list[bytes]:
    """A model of two constants, whose elements lie beside it."""
    nodes = [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Mul", ["s", "v"], ["y"])]
    ends = [[helper.make_tensor_value_info(n, 1, [2, 3])] for n in "xy"]
    graph = helper.make_graph(nodes, "g", *ends)
    for name, more in (("w", {"offset": "0", "length": "24"}), ("v", {"offset": "24"})):
        tensor = graph.initializer.add(name=name, data_type=1, dims=[2, 3], data_location=1)
        for key, value in {"location": "w.bin", **more}.items():
            tensor.external_data.add(key=key, value=value)
    return [
        helper.make_model(
            graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]
        ).SerializeToString()
    ]


# ---- TensorFlow


def perceptron(nodes: Nodes, variables: bool = False) -> None:
    nodes.node("x", "Placeholder", dtype=FLOAT, shape=(1, 4))
    if variables:
        nodes.node("w", "VarHandleOp", dtype=FLOAT, shape=(4, 3), shared_name="w")
        nodes.node("r", "ReadVariableOp", "w", dtype=FLOAT)
    else:
        nodes.const("r", WEIGHTS)
    nodes.node("m", "MatMul", "x", "r", T=FLOAT)
    nodes.const("b", [1.0, 2.0, 3.0])
    nodes.node("a", "BiasAdd", "m", "b", T=FLOAT)
    nodes.const("begin", [0, 0])
    nodes.const("end", [1, 2])
    nodes.const("by", [1, 1])
    nodes.node("s", "StridedSlice", "a", "begin", "end", "by", begin_mask=1, T=FLOAT)
    nodes.const("axis", 1)
    nodes.node("c", "ConcatV2", "s", "a", "axis", T=FLOAT)
    nodes.node("y", "Relu", "c", T=FLOAT)


def graphs() -> list[bytes]:
    first, second = Graph(), Graph()
    perceptron(first)
    second.input("x", 1, 4)
    body = second.function("f", ["p"], {"r": "k:activations:0"})
    body.node("k", "Relu", "p", T=FLOAT)
    second.node("y", "PartitionedCall", "x", f=("call", "f"))
    return [*(g.proto.SerializeToString() for g in (first, second)), *seeds.graphs()]


def graph_texts() -> list[bytes]:
    from google.protobuf import text_format  # type: ignore[import-untyped]

    made = []
    for data in graphs():
        proto = message("GraphDef")
        proto.ParseFromString(data)
        made.append(text_format.MessageToString(proto).encode())
    return made


def read_graph(path: Path) -> object:
    return front(path, Options(outputs=("y",), **OPTIONS))


def saved_model() -> list[bytes]:
    saved = message("SavedModel")
    meta = saved.meta_graphs.add()
    perceptron(Nodes(meta.graph_def.node), variables=True)
    signature = meta.signature_def.add(key="serving_default").value
    signature.outputs.add(key="y").value.name = "y:0"
    given = signature.inputs.add(key="x").value
    given.name, given.dtype = "x:0", FLOAT
    given.tensor_shape.dim.add(size=1)
    given.tensor_shape.dim.add(size=4)
    return [saved.SerializeToString()]


def variables(folder: Path) -> None:
    (folder / "variables").mkdir(exist_ok=True)
    save_checkpoint(folder / "variables" / "variables", {"w": WEIGHTS})


def checkpoint(folder: Path) -> None:
    save_checkpoint(folder / "model", {"w": WEIGHTS, "v/Adam": WEIGHTS[0]})
    meta = message("MetaGraph")
    nodes = Nodes(meta.graph_def.node)
    perceptron(nodes, variables=True)
    (folder / "model.meta").write_bytes(meta.SerializeToString())


@cache
def indices() -> tuple[bytes, ...]:
    with tempfile.TemporaryDirectory() as name:
        checkpoint(Path(name))
        return ((Path(name) / "model.index").read_bytes(),)


def beside(folder: Path) -> None:
    (folder / "m.pb").write_bytes(graphs()[0])


CONFIGS = (
    b'feed { id { node_name: "x" } shape { dim { size: 1 } dim { size: 4 } } }'
    b' fetch { id { node_name: "y" } }',
    b'feed { id { node_name: "m" } name: "p" shape { dim { size: 1 } dim { size: 3 } } }'
    b'\nfetch { id { node_name: "a" } name: "q" }',
)

# ---- Ingot's own


@cache
def bundle() -> Mapping[str, bytes]:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[4] x) => (float[4] y) { y = Relu (x) }'
    return ingot.compile(parser.parse_model(text), target="c99", name="net", emit=("c", "obj")).files


def bundle_files(folder: Path) -> None:
    for name, content in bundle().items():
        (folder / name).write_bytes(content)


FORMS = [Form("conv1", (4, 3, 3, 3), 4, 8), Form("fc", (10, 16), 10, 4)]


def containers() -> list[bytes]:
    rng = np.random.default_rng(0)
    layers = []
    for form in FORMS:
        codes = rng.integers(0, 4, form.shape) * (rng.random(form.shape) < 0.3)
        values = np.zeros(1 << form.bits, np.float32)
        values[1:4] = 1, 2, 3
        stored = Stored(Sparse.of(codes.astype(np.uint8), values, 4), np.ones(form.outputs, np.float32))
        layers.append((form, stored))
    return [write_container(layers)]


def arrays() -> list[bytes]:
    made = []
    for array in (WEIGHTS, np.arange(5), np.array("ab"), np.asfortranarray(WEIGHTS)):
        with io.BytesIO() as file:
            np.save(file, array)
            made.append(file.getvalue())
    return made


CHOICES = {"k1": "direct", "k2": "tile=4x2"}
TUNING = {"schema": 1, "ingot": "0.1.0", "target": "c99", "machine": "x", "choices": CHOICES}


def read_choices(path: Path) -> object:
    return choices_of(read_tuning(path), find("c99"))


READERS: dict[str, Reader] = {
    "onnx": Reader(
        "m.onnx", models, read_model, either(onnx.ModelProto), (CODE["onnx"], "graph"), deep=compile_model
    ),
    "compress": Reader(
        "m.onnx",
        compressible,
        compress,
        either(onnx.ModelProto),
        ("compression/layers.py", "compression/model.py", "compression/opset.py"),
    ),
    "onnx-text": Reader(
        "m.onnxtxt", lambda: [t.encode() for t in texts()], read_model, mutate_text, (CODE["onnx"],)
    ),
    "external-data": Reader(
        "m.onnx",
        external,
        read_model,
        either(onnx.ModelProto),
        ("frontends/onnx/tensors.py",),
        lambda folder: (folder / "w.bin").write_bytes(bytes(48)) and None,
    ),
    "graphdef": Reader(
        "m.pb", graphs, read_graph, either(lambda: message("GraphDef")), (CODE["tensorflow"],)
    ),
    "graphdef-text": Reader(
        "m.pbtxt", graph_texts, read_graph, mutate_text, ("frontends/tensorflow/protos.py",)
    ),
    "saved-model": Reader(
        "saved_model.pb",
        saved_model,
        lambda path: front(path.parent, Options(**OPTIONS)),
        either(lambda: message("SavedModel")),
        ("frontends/tensorflow/files.py", "frontends/tensorflow/config.py"),
        variables,
    ),
    "checkpoint": Reader(
        "model.index",
        indices,
        lambda path: read_graph(path.with_suffix(".meta")),
        mutate_bytes,
        ("frontends/tensorflow/checkpoint.py", "frontends/tensorflow/pieces.py"),
        checkpoint,
    ),
    "tfcompile-config": Reader(
        "m.config.pbtxt",
        lambda: CONFIGS,
        lambda path: front(path.with_name("m.pb"), Options(**OPTIONS)),
        mutate_text,
        ("frontends/tensorflow/config.py",),
        beside,
    ),
    "manifest": Reader(
        "net.json",
        lambda: [bundle()["net.json"]],
        lambda path: load(path.parent),
        mutate_text,
        ("bundle/schema.py", "bundle/bundle.py", "files.py"),
        bundle_files,
    ),
    "npy": Reader(
        "x.npy", arrays, lambda path: read_array(path, "float32"), mutate_bytes, ("data/arrays.py",)
    ),
    "tuning": Reader(
        "t.json", lambda: [json.dumps(TUNING).encode()], read_choices, mutate_text, ("loops/tuning.py",)
    ),
    "container": Reader(
        "m.net",
        containers,
        lambda path: read_container(read_file(path), FORMS),
        mutate_bytes,
        ("compression/container.py", "graph/encoding.py"),
    ),
}
READERS |= {
    "tflite": Reader("m.tflite", formats.lite, read_model, mutate_flatbuffer, ("frontends/tflite",)),
    "keras": Reader("m.keras", formats.keras, read_model, formats.mutate_keras, ("frontends/keras",)),
    "keras-hdf5": Reader("m.h5", formats.hdf5, read_model, mutate_hdf5, ("frontends/keras/hdf5.py",)),
    "pt2": Reader(
        "m.pt2",
        formats.programs,
        formats.read_program,
        lambda data, rng: mutate_archive(data, rng, lambda name, inner, rng: mutate_json(inner, rng)),
        ("frontends/pytorch/archive.py", "frontends/pytorch/program.py"),
    ),
    "caffe2": Reader(
        "predict_net.pb",
        lambda: [formats.nets()[1].SerializeToString()],
        formats.read_nets,
        either(lambda: caffe2_message("Net")),
        ("frontends/caffe2",),
        formats.put_init,
    ),
    "caffe2-text": Reader(
        "init_net.pbtxt",
        lambda: [formats.as_text(formats.nets()[0])],
        formats.read_nets,
        mutate_text,
        ("frontends/caffe2/protos.py", "frontends/caffe2/fills.py"),
        formats.put_predict,
    ),
}


class Overdue(BaseException):
    """A case took too long. No `except` of what is tested catches it."""


def outcome(reader: Reader, path: Path, is_deep: bool = False) -> str:
    """Reads a case: "read", "refused", or what is wrong, beginning with the kind of exception."""
    before = sorted(path.parent.rglob("*"))
    try:
        (reader.deep or reader.read if is_deep else reader.read)(path)
        said = "read"
    except InputError as error:
        said = "refused" if str(error).strip() else f"{type(error).__name__} that says nothing"
    except (Exception, Overdue) as error:
        said = f"{type(error).__name__}: {str(error)[:300]} at {place_of(error)}"
    if said in ("read", "refused") and sorted(path.parent.rglob("*")) != before:
        return "files left behind"
    return said


def place_of(error: BaseException) -> str:
    """The last line of Ingot's that an exception came through."""
    found, trace = "nowhere", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "/ingot/" in file:
            found = f"{file.rpartition('/ingot/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
