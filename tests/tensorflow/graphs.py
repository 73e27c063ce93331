"""GraphDefs written by tests, and checkpoints: with the importer's own descriptors, without TensorFlow.

g = Graph()
g.node("x", "Placeholder", dtype=FLOAT, shape=(1, 4))
g.node("y", "Relu", "x", T=FLOAT)
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import ingot
from ingot.frontends.tensorflow import import_tensorflow
from ingot.frontends.tensorflow.checkpoint import MAGIC, masked_crc32c
from ingot.frontends.tensorflow.pieces import WHOLE, piece_key
from ingot.frontends.tensorflow.protos import message

FLOAT, INT32, BOOL = 1, 3, 10
NUMBERS = {
    "float32": FLOAT,
    "int32": INT32,
    "bool": BOOL,
    "int64": 9,
    "float64": 2,
    "uint8": 4,
    "float16": 19,
    "uint64": 23,
}


RNG = np.random.default_rng(0)


class Type(int):
    """A number that stands for an element type, not for itself."""


def set_shape(shape: Any, extents: tuple[int, ...] | None) -> None:
    if extents is None:
        shape.unknown_rank = True
    for n in extents or ():
        shape.dim.add(size=n)


def set_tensor(tensor: Any, array: Any) -> None:
    if array.dtype.kind in "OS":
        tensor.dtype = 7
        tensor.string_val.extend(array.reshape(-1).tolist())
    else:
        tensor.dtype, tensor.tensor_content = NUMBERS[array.dtype.name], array.tobytes()
    set_shape(tensor.tensor_shape, array.shape)


def set_attribute(attribute: Any, name: str, value: Any) -> None:
    """By the type of the value: shapes are tuples under the name shape, types are Types."""
    match value:
        case bool():
            attribute.b = value
        case Type():
            attribute.type = int(value)
        case int():
            attribute.i = value
        case float():
            attribute.f = value
        case str():
            attribute.s = value.encode()
        case np.ndarray():
            set_tensor(attribute.tensor, value)
        case list():
            attribute.list.i.extend(value)
        case ("call", function):
            attribute.func.name = function
        case _:
            set_shape(attribute.shape, value)


class Nodes:
    """Appends to a list of nodes: that of a graph, or of a function."""

    def __init__(self, nodes: Any) -> None:
        self.nodes = nodes

    def node(self, name: str, op: str, *inputs: str, **attributes: Any) -> str:
        made = self.nodes.add(name=name, op=op, input=inputs)
        for key, value in attributes.items():
            is_type = key in ("T", "dtype", "DstT", "element_dtype") and isinstance(value, int)
            set_attribute(made.attr.add(key=key).value, key, Type(value) if is_type else value)
        return name

    def const(self, name: str, value: Any, *controls: str, dtype: Any = None) -> str:
        array = np.asarray(value, dtype)
        array = array.astype(np.float32) if array.dtype == np.float64 and dtype is None else array
        array = array.astype(np.int32) if array.dtype == np.int64 and dtype is None else array
        return self.node(name, "Const", *controls, value=array, dtype=NUMBERS.get(array.dtype.name, 7))


class Graph(Nodes):
    """A whole GraphDef."""

    def __init__(self) -> None:
        self.proto = message("GraphDef")
        super().__init__(self.proto.node)

    def input(self, name: str, *shape: int, dtype: int = FLOAT) -> str:
        return self.node(name, "Placeholder", dtype=dtype, shape=shape)

    def function(self, name: str, inputs: list[str], outputs: dict[str, str]) -> Nodes:
        made = self.proto.library.function.add()
        made.signature.name = name
        for argument in inputs:
            made.signature.input_arg.add(name=argument, type=FLOAT)
        for result, source in outputs.items():
            made.signature.output_arg.add(name=result, type=FLOAT)
            made.ret.add(key=result, value=source)
        return Nodes(made.node_def)

    def save(self, path: Path) -> Path:
        path.write_bytes(self.proto.SerializeToString())
        return path


def varint(n: int) -> bytes:
    out = b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def block(entries: dict[bytes, bytes]) -> bytes:
    """Keys share no beginnings; one restart; no compression; the checksum is not looked at."""
    rows = (varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in sorted(entries.items()))
    return b"".join(rows) + bytes(4) + (1).to_bytes(4, "little")


def save_checkpoint(prefix: Path, variables: dict[str, Any], rows: tuple[int, ...] = ()) -> None:
    """PREFIX.index and PREFIX.data-00000-of-00001. `rows`: where variables are cut into pieces."""
    header = message("BundleHeader")
    header.num_shards = 1
    entries, data = {b"": header.SerializeToString()}, b""
    pieces: dict[bytes, bytes] = {}
    for name, array in variables.items():
        whole = message("BundleEntry")
        whole.dtype = NUMBERS[array.dtype.name]
        set_shape(whole.shape, array.shape)
        for start, stop in itertools.pairwise((0, *rows, len(array))):
            entry, part = message("BundleEntry"), array[start:stop]
            entry.dtype, entry.offset, entry.size = whole.dtype, len(data), part.nbytes
            set_shape(entry.shape, part.shape)
            entry.crc32c = masked_crc32c(part.tobytes())
            data += part.tobytes()
            if rows:
                whole.slices.add().extent.add(start=start, length=stop - start)
                for _ in array.shape[1:]:
                    whole.slices[-1].extent.add()  # all of the axis
                all_of = [(0, WHOLE)] * (array.ndim - 1)
                pieces[piece_key(name, [(start, stop - start), *all_of])] = entry.SerializeToString()
        entries[name.encode()] = (whole if rows else entry).SerializeToString()
    entries = dict(sorted({**entries, **pieces}.items()))
    Path(f"{prefix}.data-00000-of-00001").write_bytes(data)
    first = block(entries)
    index = block({b"\xff": varint(0) + varint(len(first))})
    at = len(first) + 5
    footer = varint(0) + varint(0) + varint(at) + varint(len(index))
    table = first + bytes(5) + index + bytes(5) + footer.ljust(40, b"\0") + MAGIC
    Path(f"{prefix}.index").write_bytes(table)


def save_model(folder: Path, w: Any, rows: int) -> Path:
    """A SavedModel of one product with a matrix: its signature calls a function, and another one restores."""
    g, (inner, outer) = Graph(), w.shape
    g.input("serving_x", -1, inner)
    g.node("handle", "VarHandleOp", shared_name="weights", dtype=FLOAT, shape=(inner, outer))
    call = g.function("serve", ["x", "w"], {"out": "m:product:0"})
    call.node("read", "ReadVariableOp", "w", dtype=FLOAT)
    call.node("m", "MatMul", "x", "read:value:0", T=FLOAT)
    g.node("served", "StatefulPartitionedCall", "serving_x", "handle", f=("call", "serve"))
    restore = g.function("restore", ["prefix", "w"], {})
    restore.const("names", np.array([b"_/other", b"_/w"], object))
    restore.const("pieces", np.array([b"", b""], object))
    restore.node("r", "RestoreV2", "prefix", "names:output:0", "pieces:output:0")
    restore.node("same", "Identity", "r:tensors:1", T=FLOAT)
    restore.node("assign", "AssignVariableOp", "w", "same:output:0", dtype=FLOAT)
    g.const("prefix", np.array(b"", object))
    g.node("restored", "StatefulPartitionedCall", "prefix", "handle", f=("call", "restore"))
    saved = message("SavedModel")
    meta = saved.meta_graphs.add()
    meta.graph_def.CopyFrom(g.proto)
    meta.meta_info_def.tags.append("serve")
    entry = meta.signature_def.add(key="serving_default").value
    for part, name, ref, shape in (
        ("inputs", "x", "serving_x:0", (rows, inner)),
        ("outputs", "scores", "served:0", (rows, outer)),
    ):
        info = getattr(entry, part).add(key=name).value
        info.name, info.dtype = ref, FLOAT
        for n in shape:
            info.tensor_shape.dim.add(size=n)
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
    save_checkpoint(folder / "variables" / "variables", {"_/w": w, "_/other": floats(inner, outer)})
    return folder


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def imported(graph: Graph, folder: Path, outputs: str = "y", **options: Any) -> onnx.ModelProto:
    model = import_tensorflow(graph.save(folder / "graph.pb"), outputs=outputs.split(), **options)
    onnx.checker.check_model(model, full_check=True)
    return model


def run(model: onnx.ModelProto, **inputs: Any) -> Any:
    """By onnxruntime and by the bundle, which must agree."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    first = session.run(None, inputs)[0]
    found = ingot.compile(model).run(inputs)[model.graph.output[0].name]
    np.testing.assert_allclose(found, first, rtol=1e-5, atol=1e-6)
    return first


def ops(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]
