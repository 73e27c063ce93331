"""Every code of every type below 16 bits: the C that reads and stores it against ml_dtypes; packing; one
object that moves all codes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ingot
from ingot.bundle.run import load_library
from ingot.emit.expression import helper_name
from ingot.emit.helpers import helper as helper_text
from ingot.formula.packing import pack, packed_bytes, unpack
from ingot.formula.types import DTYPES, DType
from ingot.graph.onnx_types import dtype_to_onnx
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c, exported, link_shared

NARROW = [t for t in DTYPES.values() if t.is_narrow and t.bits < 16]
FLOATS = [t for t in NARROW if t.is_float]
HALVES = [t for t in DTYPES.values() if t.is_narrow and t.bits == 16]
Array = np.ndarray[Any, Any]


def codes(t: DType) -> Array:
    return np.arange(1 << t.bits).astype(f"u{t.bytes}")


def boundaries(t: DType) -> Array:
    """Every number of the type, the halves between neighbours, and the float32 on both sides of each."""
    numbers = codes(t).view(t.numpy).astype(np.float32)
    whole = np.unique(numbers[np.isfinite(numbers)].astype(np.float64))
    largest = np.float64(whole[-1])
    points = np.concatenate(
        [whole, (whole[1:] + whole[:-1]) / 2, [1.25 * largest, -1.25 * largest, 2 * largest]]
    )
    with np.errstate(all="ignore"):
        middle = points.astype(np.float32)
        near = [middle, *(np.nextafter(middle, np.float32(to)) for to in (np.inf, -np.inf))]
    special = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0x7F800000, 0xFF800000, 1, 0x80000001], np.uint32)
    anything = np.random.default_rng(1).integers(0, 1 << 32, 100_000, np.uint32)
    return np.concatenate([*near, special.view(np.float32), anything.view(np.float32)])


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    """`read_TYPE(codes, numbers, n)` and `store_TYPE(numbers, codes, n)` of every narrow type."""
    target, text, names = find("c99"), "#include <stdint.h>\n", []
    for t in (*NARROW, *HALVES):
        kinds = [("store", "narrow", t.compute.c, t.c)]
        kinds += [("read", "widen", t.c, t.compute.c)] if t.is_float else []
        for name, key, source, to in kinds:
            text += helper_text((key, t.name), target) + "\n"
            loop = f"for (int i = 0; i < n; i++) y[i] = {helper_name(key, t.name)}(x[i]);"
            text += f"void {name}_{t}(const {source} *x, {to} *y, int n) {{ {loop} }}\n"
            names.append(f"{name}_{t}")
    return load_library(link_shared([compile_c({"all.c": text}, target, name="all.c")], names))


def run(library: ctypes.CDLL, name: str, x: Array, to: Any) -> Array:
    y = np.zeros(x.shape, to)
    getattr(library, exported(name))(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), x.size)
    return y


@pytest.mark.parametrize("t", [*FLOATS, *HALVES], ids=str)
def test_c_reads_every_code(library: ctypes.CDLL, t: DType) -> None:
    found = run(library, f"read_{t}", codes(t), np.float32)
    wanted = codes(t).view(t.numpy).astype(np.float32)
    both = np.isnan(found) & np.isnan(wanted)
    assert np.array_equal(found.view(np.uint32)[~both], wanted.view(np.uint32)[~both])


@pytest.mark.parametrize("t", [*FLOATS, *HALVES], ids=str)
def test_c_stores_what_ml_dtypes_does(library: ctypes.CDLL, t: DType) -> None:
    x = boundaries(t)
    found = run(library, f"store_{t}", x, f"u{t.bytes}")
    with np.errstate(all="ignore"):
        wanted = x.astype(t.numpy).view(found.dtype)
    same = found == wanted
    if t in HALVES:  # which of its many NaNs is stored means nothing
        same |= np.isnan(found.view(t.numpy).astype(np.float32)) & np.isnan(x)
    assert same.all(), f"{x[~same][:4]} is stored as {found[~same][:4]}, expected {wanted[~same][:4]}"


@pytest.mark.parametrize("t", [t for t in NARROW if not t.is_float], ids=str)
def test_c_keeps_the_low_bits_of_integers(library: ctypes.CDLL, t: DType) -> None:
    x = np.arange(256).astype(np.uint8).view(t.compute.numpy)
    found = run(library, f"store_{t}", x, t.compute.numpy)
    assert np.array_equal(found, x.astype(t.numpy).astype(t.compute.numpy))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("t", [t for t in NARROW if t.is_packed], ids=str)
def test_packing_is_onnx_s(t: DType, count: int) -> None:
    array = np.resize(codes(t), count).view(t.numpy)
    assert pack(array).tobytes() == numpy_helper.from_array(array).raw_data
    assert len(pack(array)) == packed_bytes(count, t)
    assert np.array_equal(unpack(pack(array), t, (count,)).view(np.uint8), array.view(np.uint8))


def test_a_bundle_hands_on_every_code() -> None:
    """In and out again through a transposition, each type in an odd count: every bit as it was."""
    arrays = {f"x_{t}": np.resize(codes(t), (3, (1 << t.bits) // 3 + 1)).view(t.numpy) for t in NARROW}
    nodes = [helper.make_node("Transpose", [n], [n.replace("x", "y", 1)]) for n in arrays]
    types = {n: dtype_to_onnx(t) for n, t in zip(arrays, NARROW, strict=True)}
    inputs = [helper.make_tensor_value_info(n, types[n], a.shape) for n, a in arrays.items()]
    outputs = [helper.make_tensor_value_info(n.replace("x", "y", 1), types[n], None) for n in arrays]
    graph = helper.make_graph(nodes, "all", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=10)
    bundle = ingot.compile(model, target="c99", name="all")
    found = bundle.run(arrays)
    for name, array in arrays.items():
        moved = found[name.replace("x", "y", 1)]
        assert np.array_equal(moved.view(np.uint8), array.T.copy().view(np.uint8)), name
    packed = {t["name"]: t.get("packed_bits") for t in bundle.manifest["inputs"]}
    assert packed == {f"x_{t}": t.bits if t.bits < 8 else None for t in NARROW}
    assert "int4, 3x6 packed in 9 bytes" in bundle.files["all.h"].decode()


def test_float64_is_rounded_once() -> None:
    """Beside the middle between two neighbours, where a float32 in between would be the middle itself."""
    types = [t for t in (*FLOATS, *HALVES) if t.name != "float8e8m0"]
    middles, wanted = {}, {}
    for t in types:
        order = [c for c in codes(t)[: 1 << (t.bits - 1)] if np.isfinite(number(t, c))]
        low, high = np.array(order[:-1]), np.array(order[1:])
        middle = (number(t, low) + number(t, high)) / 2
        even = np.where(low & 1, high, low)
        middles[f"x_{t}"] = np.concatenate([middle * (1 - 2.0**-50), middle, middle * (1 + 2.0**-50)])
        wanted[f"y_{t}"] = np.concatenate([low, even, high])
    arrays = {n: np.concatenate([x, -x]) for n, x in middles.items()}
    nodes = [helper.make_node("Cast", [f"x_{t}"], [f"y_{t}"], to=dtype_to_onnx(t)) for t in types]
    inputs = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, a.shape) for n, a in arrays.items()]
    outputs = [helper.make_tensor_value_info(f"y_{t}", dtype_to_onnx(t), None) for t in types]
    graph = helper.make_graph(nodes, "once", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=10)
    found = ingot.compile(model, target="c99", name="once").run(arrays)
    for t in types:
        numbers = number(t, wanted[f"y_{t}"])
        assert np.array_equal(found[f"y_{t}"].astype(np.float64), np.concatenate([numbers, -numbers])), t


def number(t: DType, code: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(code, f"u{t.bytes}").view(t.numpy).astype(np.float64)


@pytest.mark.parametrize(("kind", "size"), [(TensorProto.INT4, 2), (TensorProto.UINT2, 3), (27, 5)])
def test_packed_data_of_the_wrong_length_is_one_error(kind: int, size: int) -> None:
    """Five elements take 3, 2 and 4 bytes."""
    weight = TensorProto(name="w", data_type=kind, dims=[5], raw_data=bytes(size))
    output = helper.make_tensor_value_info("y", kind, [5])
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [output], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=10)
    with pytest.raises(ingot.errors.ModelError, match=f"holds {size} bytes where"):
        ingot.compile(model, target="c99")


@pytest.mark.parametrize(
    ("op", "kind", "attributes", "message"),
    [
        ("Add", TensorProto.INT4, {}, "an input is int4, the operator takes floats"),
        ("MatMul", TensorProto.FLOAT8E5M2, {}, "input 'x' is float8e5m2, which MatMul does not take"),
        ("Softmax", TensorProto.FLOAT4E2M1, {}, "input 'x' is float4e2m1, which Softmax does not take"),
        ("Gather", TensorProto.INT4, {}, "input 'x' is int4, which Gather does not take"),  # as an index
        ("Cast", TensorProto.FLOAT, {"to": TensorProto.COMPLEX64}, "element type complex64 is not supported"),
        (
            "Cast",
            TensorProto.FLOAT,
            {"to": 24, "round_mode": "no"},
            "round_mode 'no' is not one of up, nearest",
        ),
        ("BitCast", TensorProto.FLOAT8E8M0, {"to": TensorProto.INT4}, "int4 has 4 bits, float8e8m0 has 8"),
        ("QuantizeLinear", TensorProto.FLOAT, {"output_dtype": 24}, "to float8e8m0 is undefined"),
        ("QuantizeLinear", TensorProto.FLOAT, {"precision": 3}, "a precision of int8 is undefined"),
    ],
)
def test_what_an_operator_does_not_take_is_one_error(
    op: str, kind: int, attributes: dict[str, Any], message: str
) -> None:
    count = onnx.defs.get_schema(op, 28).min_input
    inputs = [helper.make_tensor_value_info("x", kind, [4, 4])]
    scale = [helper.make_tensor("s", TensorProto.FLOAT, [], [0.5])]
    given = ["x", "s"] if op == "QuantizeLinear" else ["x"] * count
    made = helper.make_node(op, given, ["y"], **attributes)
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([made], "g", inputs, [output], scale)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=10)
    with pytest.raises(ingot.errors.InputError, match=message):
        ingot.compile(model, target="c99")
