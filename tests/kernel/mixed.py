"""Models whose inputs and outputs are of all types, odd in number, and long runs with a state.

In: nothing. Out: models, and what an output's elements look like in the kernel's log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import parser

from ingot.formula.expr import Array
from ingot.formula.packing import pack, unpack
from ingot.formula.types import DType, dtype_named
from ingot.packaging.kbuild.golden import RUNS, ramp
from ingot.packaging.kbuild.layout import layout

SHOWN = 16
BETWEEN = 0x5A
LINE = "mixed_network_line(line, sizeof(line), outputs, i)"
LINE_LEAK = (f"{LINE};", f"if (i) {LINE}; else line[sizeof(line) - 1] = 0;")
"""A mistake in the module: the line of the first output is what the stack holds."""
CASTS = {
    "int8": 3,
    "string": 8,
    "bool": 9,
    "float64": 11,
    "int16": 5,
    "uint8": 2,
    "float16": 10,
    "uint64": 13,
    "int4": 22,
    "float32": 1,
    "bfloat16": 16,
    "uint16": 4,
    "float8e4m3fn": 17,
    "int32": 6,
    "float8e4m3fnuz": 18,
    "int64": 7,
    "float8e5m2": 19,
    "uint4": 21,
    "float8e5m2fnuz": 20,
    "uint32": 12,
    "float4e2m1": 23,
    "float8e8m0": 24,
    "uint2": 25,
    "int2": 26,
}
"""ONNX's number of each type. Neighbours differ in size, so that what is packed carelessly is not aligned."""
PLACES = {3: (0, 1, 0), 5: (3, 2, 1, 0, 2)}
SPELLED = {"float32": "float", "float64": "double"}


def mixed() -> onnx.ModelProto:
    """Three to five elements of each type in, and as many out; an index that may be wrong; strings."""
    counts = {name: 3 + 2 * (i % 2) for i, name in enumerate(CASTS)}
    inputs = [f"{SPELLED.get(n, n)}[{c}] given_{n}" for n, c in counts.items()]
    outputs = [f"{SPELLED.get(n, n)}[{c}] made_{n}" for n, c in counts.items()]
    rows = []
    for name, count in counts.items():
        if name == "string":
            rows.append("made_string = StringConcat(given_string, given_string)")
            continue
        rows.append(f"made_{name} = Gather(given_{name}, at_{count})")
    return parser.parse_model(
        f"""<ir_version: 12, opset_import: ["" : 25]>
        mixed ({", ".join(inputs)}, int64 first) => ({", ".join(outputs)})
        <int64[3] places_3 = {{{str(PLACES[3])[1:-1]}}}, int64[5] places_5 = {{{str(PLACES[5])[1:-1]}}}> {{
          at_3 = Add(places_3, first)
          at_5 = Add(places_5, first)
          {"          ".join(rows)}
        }}""".replace("\n          made", "\n made")
    )


KEPT = """<ir_version: 10, opset_import: ["" : 21]>
kept (int8[3] odd, float[1,96] x, int64 turns, float[1,96] before, int64 count)
  => (int8[3] same, float[1,96] y, float[1,96] after, int64 counted, int64 told)
<int64[2] up = {96, 256}, int64[2] down = {256, 96}, float[1] step = {0.001}, int64 one = {1},
 bool on = {1}> {
  same = Identity(odd)
  spread = Expand(step, up)
  gather = Expand(step, down)
  seen = Add(x, before)
  wide = MatMul(seen, spread)
  after = MatMul(wide, gather)
  counted = Add(count, one)
  told = Mul(counted, one)
  y = Loop(turns, on, after)<body = turn (int64 i, bool go, float[1,96] v) => (bool still, float[1,96] w) {
    still = Identity(go)
    again = MatMul(v, spread)
    w = MatMul(again, gather)
  }>
}"""
STATE = {"after": "before", "counted": "count"}


def shown(dtype: DType, values: Array) -> str:
    """The line that the selftest prints of an output, computed another way."""
    return "".join(f" {_element(dtype, v)}" for v in values.reshape(-1)[:SHOWN])


def _element(dtype: DType, value: Any) -> str:
    if dtype.is_text:
        text = "".join(
            chr(c) if 32 <= c <= 126 and chr(c) not in '"\\' else f"\\x{c:02x}" for c in bytes(value)
        )
        return f'"{text}"'
    if not dtype.is_float:
        return str(int(value))
    return _float(value, dtype.bits == 64)


def _float(value: Any, is_double: bool) -> str:
    """Cut off behind five decimals, in the arithmetic of its type."""
    x = float(value)
    if not math.isfinite(x):
        return str(x).replace("-nan", "nan")
    if abs(x) >= 1e15:
        mantissa, exponent = f"{x:.20e}".split("e")
        return f"{mantissa[: mantissa.index('.') + 6]}e+{int(exponent):02d}"
    whole = math.floor(abs(x))
    part = int((abs(x) - whole) * 1e5)
    if not is_double and abs(x) < 2e4:
        whole, part = divmod(int(np.float32(abs(x)) * np.float32(1e5)), 100000)
    return f"{'-' if x < 0 and (whole or part) else ''}{whole}.{part:05d}"


def printed(run: int) -> dict[str, str]:
    """What the selftest of `mixed` prints of each output."""
    names = ("string64" if name == "string" else name for name in CASTS)
    rows = zip(CASTS, names, golden(run), strict=True)
    return {f"made_{name}": shown(dtype_named(dtype), made) for name, dtype, made in rows}


def golden(run: int) -> list[Array]:
    """The outputs of `mixed` in a run of the selftest."""
    outputs = []
    for i, name in enumerate(CASTS):
        dtype = dtype_named("string64" if name == "string" else name)
        given, first = ramp(dtype, (3 + 2 * (i % 2),), run), int(ramp(dtype_named("int64"), (1,), run)[0])
        if dtype.is_text:
            made = np.array([2 * word for word in given], "S64")
        else:
            made = given[np.array(PLACES[given.size]) + first]
        outputs.append(made)
    return outputs


def vectors(manifest: Mapping[str, Any]) -> str:
    """C: what `mixed` is given in each run of the selftest, and what it must give, as its structs have it.

    Between the inputs stands a byte that nobody may see; between the outputs stand zeros.
    """
    given, wanted = layout(manifest["inputs"], "in"), layout(manifest["outputs"], "out")
    rows: dict[str, list[bytes]] = {"given": [], "wanted": []}
    for n in range(RUNS):
        parts = [_stored(m.dtype, ramp(m.dtype, m.shape, n)) for m in given.members]
        covered = given.packed([b"\1" * m.bytes for m in given.members])
        pairs = zip(given.packed(parts), covered, strict=True)
        rows["given"].append(bytes(byte if known else BETWEEN for byte, known in pairs))
        found = zip(wanted.members, golden(n), strict=True)
        rows["wanted"].append(wanted.packed([_stored(m.dtype, a) for m, a in found]))
    return "\n".join(
        f"static const unsigned char {name}[{RUNS}][{len(each[0])}] = {{\n"
        + ",\n".join("{" + ", ".join(map(str, row)) + "}" for row in each)
        + "\n};"
        for name, each in rows.items()
    )


def _stored(dtype: DType, values: Array) -> bytes:
    return (pack(values) if dtype.is_packed else values.astype(dtype.numpy)).tobytes()


def elements(t: Any, data: bytes) -> Array:
    """The elements of a manifest's tensor in its bytes."""
    dtype, size = dtype_named(t["dtype"]), tuple(t["shape"])
    if dtype.is_packed:
        return unpack(np.frombuffer(data, np.uint8), dtype, size)
    return np.frombuffer(data, dtype.numpy).reshape(size)
