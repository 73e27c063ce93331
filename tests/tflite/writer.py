"""Writes TFLite models for the tests: the other way of `frontends/tflite/flatbuffer.py`, by the same tables.

A model is made of `T` (tensors) and `Op`; what a table's fields are is said by name. Nothing of the schema is
believed that the reader does not read, and litert has read what this writes (`make litert`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ingot.frontends.tflite.flatbuffer import SCALARS
from ingot.frontends.tflite.schema import OPERATORS, OPTIONS, TABLES, TYPES

Array = np.ndarray[Any, Any]
SIZES = {name: struct.calcsize("<" + form) for name, form in SCALARS.items()}


@dataclass
class T:
    """A tensor: type, shape, scales and zero points, elements of a constant."""

    kind: str
    shape: Sequence[int]
    scale: float | Sequence[float] = ()
    zero: int | Sequence[int] = 0
    axis: int = 0
    data: Array | bytes | None = None
    name: str = ""
    is_variable: bool = False
    more: dict[str, Any] = field(default_factory=dict)


@dataclass
class Op:
    """An operator: inputs and outputs by number, options by name; `custom` are a custom one's options."""

    kind: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    custom: bytes = b""
    intermediates: Sequence[int] = ()


@dataclass
class Graph:
    tensors: list[T]
    ops: list[Op]
    inputs: Sequence[int]
    outputs: Sequence[int]
    name: str = "main"


def model(
    tensors: list[T], ops: list[Op], inputs: Sequence[int], outputs: Sequence[int], *more: Graph, **rest: Any
) -> bytes:
    """The bytes of a model: its first subgraph, and others."""
    graphs = [Graph(tensors, ops, inputs, outputs), *more]
    kinds = list(dict.fromkeys(o.kind for g in graphs for o in g.ops))
    buffers: list[dict[str, Any]] = [{}]
    written = [_graph(g, kinds, buffers) for g in graphs]
    root = {
        "version": 3,
        "operator_codes": [_code(k) for k in kinds],
        "subgraphs": written,
        "description": "made for a test",
        "buffers": buffers,
        **rest,
    }
    return write("Model", root)


def _code(kind: str) -> dict[str, Any]:
    if kind not in OPERATORS:
        return {"deprecated_builtin_code": 32, "builtin_code": 32, "custom_code": kind, "version": 1}
    number = OPERATORS.index(kind)
    return {"deprecated_builtin_code": min(number, 127), "builtin_code": number, "version": 1}


def _graph(g: Graph, kinds: list[str], buffers: list[dict[str, Any]]) -> dict[str, Any]:
    tensors = [_tensor(i, t, buffers) for i, t in enumerate(g.tensors)]
    return {
        "tensors": tensors,
        "inputs": list(g.inputs),
        "outputs": list(g.outputs),
        "operators": [_operator(o, kinds) for o in g.ops],
        "name": g.name,
    }


def _tensor(i: int, t: T, buffers: list[dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {"shape": list(t.shape), "type": TYPES.index(t.kind), "name": t.name or f"t{i}"}
    if t.data is not None:
        raw = t.data if isinstance(t.data, bytes) else np.ascontiguousarray(t.data).tobytes()
        made["buffer"] = len(buffers)
        buffers.append({"data": raw})
    scales = [t.scale] if isinstance(t.scale, float) else list(t.scale)
    if scales:
        zeros = [t.zero] * len(scales) if isinstance(t.zero, int) else list(t.zero)
        made["quantization"] = {"scale": scales, "zero_point": zeros, "quantized_dimension": t.axis}
    if t.is_variable:
        made["is_variable"] = True
    return {**made, **t.more}


def _operator(o: Op, kinds: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "opcode_index": kinds.index(o.kind),
        "inputs": list(o.inputs),
        "outputs": list(o.outputs),
    }
    if o.options:
        made["builtin_options_type"] = OPTIONS.index(o.options)
        made["builtin_options"] = (o.options, o.fields)
    if o.custom:
        made["custom_options"] = o.custom
    if o.intermediates:
        made["intermediates"] = list(o.intermediates)
    return made


# ---- bytes


@dataclass
class _Out:
    data: bytearray = field(default_factory=bytearray)

    def align(self, n: int, ahead: int = 0) -> None:
        while (len(self.data) + ahead) % n:
            self.data.append(0)

    def point(self, at: int) -> None:
        """The reference at `at` leads to the end."""
        struct.pack_into("<I", self.data, at, len(self.data) - at)


def write(name: str, fields: dict[str, Any]) -> bytes:
    """The bytes of a table and all below it, with TFLite's identifier."""
    out = _Out(bytearray(b"\0\0\0\0TFL3"))
    _table(out, 0, name, fields)
    return bytes(out.data)


def _table(out: _Out, ref: int, name: str, fields: dict[str, Any]) -> None:
    schema = TABLES.get(name, {})
    known = sorted((schema[k].slot, k) for k in fields)
    slots = 1 + max((s for s, _ in known), default=-1)
    sizes = {k: SIZES.get(schema[k].kind, 4) for _, k in known}
    places, at = {}, 4
    for _, k in sorted(known, key=lambda one: -sizes[one[1]]):
        at += -at % sizes[k]
        places[k], at = at, at + sizes[k]
    vtable = [4 + 2 * slots, at, *[0] * slots]
    for slot, k in known:
        vtable[2 + slot] = places[k]
    out.align(8, 2 * len(vtable))
    begin = len(out.data)
    out.data += struct.pack(f"<{len(vtable)}H", *vtable)
    start = len(out.data)
    out.point(ref)
    out.data += bytes(at)
    struct.pack_into("<i", out.data, start, start - begin)
    for _, k in known:
        _value(out, start + places[k], schema[k].kind, schema[k].table, fields[k])


def _value(out: _Out, at: int, kind: str, table: str, value: Any) -> None:
    if kind in SCALARS:
        struct.pack_into("<" + SCALARS[kind], out.data, at, value)
    elif kind == "table":
        chosen, fields = value if isinstance(value, tuple) else (table, value)
        _table(out, at, chosen, fields)
    elif kind == "string":
        out.align(4)
        out.point(at)
        raw = value.encode()
        out.data += struct.pack("<I", len(raw)) + raw + b"\0"
    elif kind == "[table]":
        out.align(4)
        out.point(at)
        out.data += struct.pack("<I", len(value)) + bytes(4 * len(value))
        first = len(out.data) - 4 * len(value)
        for i, one in enumerate(value):
            _table(out, first + 4 * i, table, one)
    else:
        _vector(out, at, SCALARS[kind[1:-1]], value)


def _vector(out: _Out, at: int, form: str, value: Any) -> None:
    out.align(16 if isinstance(value, bytes) else max(struct.calcsize("<" + form), 4), 4)
    out.point(at)
    raw = value if isinstance(value, bytes) else struct.pack(f"<{len(value)}{form}", *value)
    out.data += struct.pack("<I", len(raw) // struct.calcsize("<" + form)) + raw
