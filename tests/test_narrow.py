"""Every code of every type below 16 bits: the C that reads and stores it against ml_dtypes; packing; one
object that moves all codes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
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


@pytest.mark.parametrize(("kind", "size"), [(TensorProto.INT4, 2), (TensorProto.UINT2, 3), (27, 5)])
def test_packed_data_of_the_wrong_length_is_one_error(kind: int, size: int) -> None:
    """Five elements take 3, 2 and 4 bytes."""
    weight = TensorProto(name="w", data_type=kind, dims=[5], raw_data=bytes(size))
    output = helper.make_tensor_value_info("y", kind, [5])
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [output], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=10)
    with pytest.raises(ingot.errors.ModelError, match=f"holds {size} bytes where"):
        ingot.compile(model, target="c99")
