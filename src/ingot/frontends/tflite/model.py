"""A TFLite model as checked data. In: the bytes of a file; out: a `Model` whose numbers all point somewhere.

Called by this package's `__init__`. What the file says of activations' shapes is not believed, since whoever
resizes an input leaves them as they were; constants must agree with their buffers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.types import DTYPES, DType
from ingot.frontends.tflite.flatbuffer import Bytes, Table
from ingot.frontends.tflite.schema import IDENTIFIER, OPERATORS, OPTIONS, TABLES, TYPES
from ingot.graph.verify import COUNT_LIMIT, RANK_LIMIT

Array = np.ndarray[Any, Any]
NO_TENSOR = -1
BIASES = ("INT32", "INT64")
CHANNELS = 3
"""The axis of channels in a filter of images."""
PACKED_BITS = {"INT4": 4, "UINT4": 4, "INT2": 2}
_STANDS = {"INT4": "int8", "INT2": "int8", "UINT4": "uint8"}
_SAME = (
    "FLOAT32",
    "FLOAT16",
    "FLOAT64",
    "BFLOAT16",
    "BOOL",
    *(f"{u}INT{n}" for u in ("", "U") for n in (8, 16, 32, 64)),
)


NAME_SHOWN = 120


def brief(name: str) -> str:
    """A name in a message: of a long one, such as damage makes, the beginning.

    >>> brief("conv"), len(brief("x" * 1000))
    ('conv', 123)
    """
    return name if len(name) <= NAME_SHOWN else f"{name[:NAME_SHOWN]}..."


@dataclass(frozen=True, slots=True)
class Quantisation:
    """number = (integer - zero) * scale, for all elements or one by one along an axis."""

    scale: Array
    zero: Array
    axis: int = 0

    @property
    def is_single(self) -> bool:
        return len(self.scale) == 1


@dataclass(frozen=True, slots=True, eq=False)
class TensorInfo:
    """A tensor of a subgraph as the file declares it."""

    index: int
    name: str
    kind: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    quantisation: Quantisation | None
    is_variable: bool
    buffer: memoryview
    sparsity: Table | None

    @property
    def label(self) -> str:
        return f"tensor {self.index} {brief(self.name)!r}"

    @property
    def dtype(self) -> DType:
        """The element type; integers below 8 bits are handled as 8. Raises UnsupportedError for others."""
        name = _STANDS.get(self.kind, self.kind.lower() if self.kind in _SAME else "")
        if not name:
            raise UnsupportedError(f"{self.label}: element type {self.kind} of TFLite is not supported")
        return DTYPES[name]

    @property
    def is_constant(self) -> bool:
        return len(self.buffer) > 0


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One operation: tensors by number, -1 for an optional input that is absent."""

    kind: str
    index: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Table | None
    custom: bytes
    intermediates: tuple[int, ...] = ()
    place: str = ""

    @property
    def label(self) -> str:
        at = f" ({brief(self.place)!r})" if self.place else ""
        return f"{brief(self.kind)} operator {self.index}{at}"


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    index: int
    name: str
    tensors: list[TensorInfo]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: list[Operator]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a subgraph's inputs and outputs are called by whoever runs it: name and tensor."""

    key: str
    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A whole file. `is_micro`: operators of it are TFLite Micro's, with whose kernels it is to agree."""

    subgraphs: list[Subgraph]
    signatures: list[Signature] = field(default_factory=list)
    is_micro: bool = False

    def subgraph(self, index: int, label: str) -> Subgraph:
        """Raises ModelError for a number without a subgraph."""
        if not 0 <= index < len(self.subgraphs):
            raise ModelError(f"{label}: there is no subgraph {index} among {len(self.subgraphs)}")
        return self.subgraphs[index]


def _is_micro(operator: Operator, tensors: list[TensorInfo]) -> bool:
    kinds = [tensors[i].kind for i in operator.inputs[:1] if i != NO_TENSOR]
    is_integer_lstm = operator.kind == "UNIDIRECTIONAL_SEQUENCE_LSTM" and kinds != ["FLOAT32"]
    return is_integer_lstm or operator.kind.startswith("CUSTOM Signal")


def parse_model(data: bytes) -> Model:
    """Everything the file holds. Raises ModelError where something in it leads nowhere."""
    if data[4:8] != IDENTIFIER:
        raise ModelError("it is no TFLite model: the identifier TFL3 is missing at byte 4")
    root = Bytes(data, TABLES).root("Model")
    if root.number("version") != 3:
        raise UnsupportedError(f"version {root.number('version')} of the TFLite schema; only 3 is known")
    codes = [_code(t) for t in root.children("operator_codes")]
    buffers = [_buffer(t) for t in root.children("buffers")]
    subgraphs = [_subgraph(i, t, codes, buffers) for i, t in enumerate(root.children("subgraphs"))]
    if not subgraphs:
        raise ModelError("it holds no subgraph")
    is_micro = any(_is_micro(o, g.tensors) for g in subgraphs for o in g.operators)
    return Model(subgraphs, [_signature(t, subgraphs) for t in root.children("signature_defs")], is_micro)


def _code(t: Table) -> str:
    """The operator's name; a custom one's with its own behind it. Old files have one byte for the number."""
    number = max(t.number("deprecated_builtin_code"), t.number("builtin_code"))
    if not 0 <= number < len(OPERATORS):
        raise UnsupportedError(f"builtin operator {number} of TFLite is not known")
    name = OPERATORS[number]
    return f"CUSTOM {t.text('custom_code')}" if name == "CUSTOM" else name


def _buffer(t: Table) -> memoryview:
    """The bytes, within the table or, of large files, behind all tables."""
    offset, size = t.number("offset"), t.number("size")
    if offset > 1:
        t.file.inside(offset, size)
        return memoryview(t.file.data)[offset : offset + size]
    return t.numbers("data").data


def _subgraph(index: int, t: Table, codes: list[str], buffers: list[memoryview]) -> Subgraph:
    tensors = [_tensor(i, x, buffers) for i, x in enumerate(t.children("tensors"))]
    name = t.text("name") or f"subgraph {index}"
    inputs, outputs = t.integers("inputs"), t.integers("outputs")
    _require_known(name, (*inputs, *outputs), len(tensors))
    operators = [_operator(i, x, codes, tensors) for i, x in enumerate(t.children("operators"))]
    return Subgraph(index, name, tensors, inputs, outputs, operators)


def _require_known(label: str, indices: tuple[int, ...], count: int, least: int = 0) -> None:
    if wrong := [i for i in indices if not least <= i < count]:
        raise ModelError(f"{label}: there is no tensor {wrong[0]} among {count}")


def _operator(index: int, t: Table, codes: list[str], tensors: list[TensorInfo]) -> Operator:
    at = t.number("opcode_index")
    if at >= len(codes):
        raise ModelError(f"operator {index}: there is no operator code {at} among {len(codes)}")
    inputs, outputs, between = (t.integers(n) for n in ("inputs", "outputs", "intermediates"))
    label = f"{brief(codes[at])} operator {index}"
    _require_known(label, (*inputs, *between), len(tensors), NO_TENSOR)
    _require_known(label, outputs, len(tensors))
    place = tensors[outputs[0]].name if outputs else ""
    custom = t.numbers("custom_options").tobytes()
    return Operator(codes[at], index, inputs, outputs, _options(t, label), custom, between, place)


def _options(t: Table, label: str) -> Table | None:
    """The table of options, its kind told by the union's number; None for one without fields."""
    number = t.number("builtin_options_type")
    if not t.has("builtin_options") or not number:
        return None
    if number >= len(OPTIONS):
        raise UnsupportedError(f"{label}: options {number} of TFLite are not known")
    return t.child("builtin_options", OPTIONS[number]) if OPTIONS[number] in TABLES else None


def _tensor(index: int, t: Table, buffers: list[memoryview]) -> TensorInfo:
    name, kind, at = t.text("name"), t.number("type"), t.number("buffer")
    label = f"tensor {index} {brief(name)!r}"
    if not 0 <= kind < len(TYPES):
        raise UnsupportedError(f"{label}: element type {kind} of TFLite is not known")
    if at and at >= len(buffers):
        raise ModelError(f"{label}: there is no buffer {at} among {len(buffers)}")
    shape = t.integers("shape")
    if (
        len(shape) > RANK_LIMIT
        or min(shape, default=0) < -1
        or math.prod(max(n, 1) for n in shape) >= COUNT_LIMIT
    ):
        raise ModelError(f"{label}: a shape of {list(shape[:8])} is impossible or too large")
    if t.number("external_buffer"):
        raise UnsupportedError(f"{label}: its elements are in another file, which is not supported")
    return TensorInfo(
        index,
        name or f"tensor{index}",
        TYPES[kind],
        tuple(1 if n < 0 else n for n in shape),
        t.integers("shape_signature"),
        _quantisation(t.child("quantization"), label, shape, TYPES[kind]),
        bool(t.number("is_variable")),
        buffers[at] if at else memoryview(b""),
        t.child("sparsity"),
    )


def _quantisation(t: Table | None, label: str, shape: tuple[int, ...], kind: str) -> Quantisation | None:
    """None where the elements are numbers themselves. Raises ModelError for scales that cannot be."""
    if t is None or not len(t.numbers("scale")):
        return None
    if t.number("details_type") > 1:
        raise UnsupportedError(f"{label}: quantisation in blocks is not supported")
    scale, zero = t.numbers("scale").astype(np.float32), t.numbers("zero_point").astype(np.int64)
    zero = zero if len(zero) else np.zeros(1, np.int64)
    zero = np.broadcast_to(zero, scale.shape) if len(zero) == 1 else zero
    axis = t.number("quantized_dimension")
    if kind in BIASES and len(shape) == 1 and 0 < axis <= CHANNELS:  # older converters: that of its weights
        axis = 0
    if axis < 0 or (shape and axis >= len(shape)):
        raise ModelError(f"{label}: its quantized_dimension is {axis}, and it has {len(shape)} axes")
    if len(zero) != len(scale) or not np.all(np.isfinite(scale)) or scale.min() < 0:
        raise ModelError(
            f"{label}: {len(scale)} scales, {len(zero)} zero points: as many finite, positive ones are needed"
        )
    if np.abs(zero).max() >= 1 << 31:
        raise ModelError(f"{label}: a zero point of {np.abs(zero).max()} is too large")
    if len(scale) > 1 and (not shape or shape[axis] != len(scale)):
        raise ModelError(f"{label}: {len(scale)} scales along axis {axis} of {list(shape)}")
    return Quantisation(scale, zero, axis)


def _signature(t: Table, subgraphs: list[Subgraph]) -> Signature:
    key, at = t.text("signature_key"), t.number("subgraph_index")
    if at >= len(subgraphs):
        raise ModelError(f"signature {brief(key)!r}: there is no subgraph {at} among {len(subgraphs)}")

    def named(which: str) -> Iterator[tuple[str, int]]:
        for entry in t.children(which):
            index = entry.number("tensor_index")
            _require_known(f"signature {brief(key)!r}", (index,), len(subgraphs[at].tensors))
            yield entry.text("name"), index

    return Signature(key, at, tuple(named("inputs")), tuple(named("outputs")))
