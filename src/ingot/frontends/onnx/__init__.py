"""The ONNX reader. In: a model as a file (.onnx, .onnxtxt), bytes or a ModelProto; out: a Graph.

Nothing here is inferred; `ingot.ops.infer` does that next. Everything wrong with the file is an InputError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx
import onnx.parser
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ingot.errors import ModelError, UnsupportedError
from ingot.files import read_file
from ingot.formula.types import STRING
from ingot.frontends.capacities import Capacities
from ingot.frontends.formats import format_of
from ingot.frontends.onnx.functions import functions_of, opsets_of
from ingot.frontends.onnx.glow_quantised import with_scales
from ingot.frontends.onnx.graph import GraphReader
from ingot.frontends.onnx.scales import note_declared
from ingot.frontends.onnx.shapes import Define, Dimensions
from ingot.frontends.onnx.states import declared_states, pair_declared
from ingot.frontends.onnx.text import text_type_of
from ingot.frontends.text_form import parse_text
from ingot.frontends.wire import Parts, read_message
from ingot.graph.ir import Graph
from ingot.options import Capacity, Options

Source = str | Path | bytes | onnx.ModelProto
PARTS: Parts = {7: {1: {}, 5: {}}}  # the graph, its nodes and initializers
TEXT_DEPTH_LIMIT = 128
TEXT_BYTES = 1 << 27
SHOWN = 300  # characters of either end of a long message: it quotes the line, which may be the file
_TOKEN = re.compile(r'"(?:\\.?|[^"\\])*(?:"|\Z)|#[^\n]*|[{}()\[\]]', re.DOTALL)  # linear in any text


def read_model(
    source: Source,
    *,
    define: Define | None = None,
    capacity: Mapping[str, Capacity] | None = None,
    keep_inputs: bool = False,
    string_bytes: int = STRING.bytes,
    kept: Iterable[str] = (),
    infer_shapes: bool = False,
) -> Graph:
    """The graph of an ONNX model.

    `define` gives dynamic dimensions: an int, or (lo, hi) for one known at run time only. An initializer that
    is also a graph input is a constant unless `keep_inputs` or among the `kept`. `capacity` goes to the
    values it names (see `Capacities`), `string_bytes` is that of strings. `infer_shapes` forgets declared
    shapes that the operators contradict. Raises InputError for a bad model.
    """
    home = Path(source) if isinstance(source, (str, Path)) else None
    try:
        model = read_proto(source)
        if not model.HasField("graph"):
            raise ModelError("this is not an ONNX model: it holds no graph")
        text = text_type_of(model, string_bytes)
        dimensions, capacities = Dimensions(define or {}, text=text), Capacities(capacity or {})
        pairs = declared_states(model)
        functions, names = functions_of(model), frozenset((*kept, *pairs.values()))
        reader = GraphReader(home, dimensions, functions, keep_inputs, names, capacities, text, infer_shapes)
        graph = reader.main(with_scales(model.graph), opsets(model))
        return note_declared(pair_declared(graph, pairs), model)
    except UnicodeDecodeError as error:
        raise ModelError(f"a name in the model is not UTF-8: {error}") from None
    except RecursionError:
        raise UnsupportedError("the model is nested too deeply") from None


def read_with(source: Source, options: Options) -> Graph:
    """The graph of a model, sized as the options say."""
    return read_model(
        source,
        define=options.define,
        capacity=options.capacity,
        keep_inputs=options.keep_inputs,
        string_bytes=options.string_bytes,
        kept=options.state.values(),
        infer_shapes=options.infer_shapes,
    )


def opsets(model: onnx.ModelProto) -> dict[str, int]:
    """The opset of each domain the model imports. Raises where there is none, or one from the future, which
    the version of the file's format must not be from, either."""
    version = model.ir_version
    if model.HasField("ir_version") and version < 1:
        raise ModelError(f"the model's ir_version is {version}; they count from 1")
    if version > onnx.IR_VERSION:
        raise UnsupportedError(f"the model's ir_version is {version}; the newest known is {onnx.IR_VERSION}")
    return opsets_of(model.opset_import, "the model")


def read_proto(source: Source) -> onnx.ModelProto:
    """The model as it is in the file, nothing checked. InputError for what cannot be read or parsed."""
    if isinstance(source, onnx.ModelProto):
        return source
    place = source if isinstance(source, bytes) else Path(source)
    found, name = format_of(place), "the model" if isinstance(place, bytes) else str(place)
    if not found.is_onnx:
        raise UnsupportedError(f"{name} is {found.name}, not an ONNX model")
    model = onnx.ModelProto()
    if found.form != "binary":
        data = place if isinstance(place, bytes) else read_file(place, TEXT_BYTES)
        return (
            _parse(data, name) if found.form == "syntax" else parse_text(model, data, name, "an ONNX model")
        )
    data = place if isinstance(place, bytes) else read_message(place, "an ONNX model", PARTS)
    try:
        model.ParseFromString(data)
    except DecodeError:
        reason = "is not an ONNX model, or is cut short, nested too deeply or larger than 2 GB"
        raise ModelError(f"{name} {reason}") from None
    return model


def _parse(data: bytes, name: str) -> onnx.ModelProto:
    try:
        text = data.decode()
        if _depth(text) > TEXT_DEPTH_LIMIT:
            raise UnsupportedError(f"{name} is nested too deeply")
        return onnx.parser.parse_model(text)
    except DecodeError:
        raise UnsupportedError(f"{name} is nested too deeply") from None
    except (onnx.parser.ParseError, UnicodeDecodeError) as error:
        said = error.args[0] if isinstance(error, onnx.parser.ParseError) else error  # in bytes
        message = " ".join((said.decode(errors="replace") if isinstance(said, bytes) else str(said)).split())
        shown = message if len(message) <= 2 * SHOWN else f"{message[:SHOWN]} [...] {message[-SHOWN:]}"
        raise ModelError(f"{name} is not ONNX text: {shown}") from None
    except (IndexError, ValueError, RuntimeError):  # what C++ says of a number that does not fit
        raise ModelError(f"{name} is not ONNX text: a number is out of range") from None


def _depth(text: str) -> int:
    """How deep brackets are nested. ONNX's parser recurses on them in C++, without a limit of its own."""
    depth = deepest = 0
    for match in _TOKEN.finditer(text):
        depth += (match[0] in "{([") - (match[0] in "})]")
        deepest = max(deepest, depth)
    return deepest
