"""Sums of products of bytes on machines without vectors of floats: the loops and the C beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ingot.driver import stages
from ingot.formula.statements import Instruction, flatten
from ingot.loops.evaluate import run
from ingot.loops.program import Program
from ingot.loops.verify import verify_program
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.fuzz.levels import compiled
from tests.oracles import exact_session
from tests.test_paired_tiles import routines

Array = np.ndarray[Any, Any]
PAIRED, LONG, SINGLE = "armv7e-m", "armv8.1m", ("c99", "s390x", "riscv64")


def model(node: onnx.NodeProto, x: Array, constants: dict[str, Array]) -> onnx.ModelProto:
    """One node; input `x`, all others constants."""
    kind = TensorProto.UINT8 if node.op_type.startswith("QLinear") else TensorProto.INT32
    graph = helper.make_graph(
        [node],
        "bytes",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info("y", kind, [None] * x.ndim)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def integers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    """Any bytes, the extreme ones among them."""
    info = np.iinfo(dtype)
    made = np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)
    made.reshape(-1)[:2] = info.min, info.max
    return made


def product(rows: int, terms: int, channels: int, a: str, b: str, a_zero: int, b_zero: int) -> Any:
    x, w = integers((rows, terms), a), integers((terms, channels), b, 1)
    if b == "uint8":
        w = np.clip(w, 1, 255)  # less the zero point they are int8
    node = helper.make_node("MatMulInteger", ["x", "w", "x_zero", "w_zero"], ["y"])
    return model(node, x, {"w": w, "x_zero": np.array(a_zero, a), "w_zero": np.array(b_zero, b)}), x


def quantised_conv(channels: int, features: int, window: int, strides: int, group: int, zero: int) -> Any:
    x = integers((2, channels, 9, 11), "uint8")
    w = integers((features, channels // group, window, window), "int8", 1)
    node = helper.make_node(
        "QLinearConv",
        ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"],
        ["y"],
        strides=[strides] * 2,
        group=group,
    )
    scales = np.linspace(0.01, 0.02, features, dtype=np.float32)
    bias = integers((features,), "int16", 2).astype(np.int32)
    constants = {"xs": np.float32(0.03), "xz": np.uint8(zero), "w": w, "ws": scales, "b": bias}
    rest = {"wz": np.zeros(features, np.int8), "ys": np.float32(1.3), "yz": np.uint8(99)}
    return model(node, x, {**constants, **rest}), x


CASES = {
    "one row": product(1, 37, 9, "uint8", "int8", 0, 0),
    "one row, zero points": product(1, 40, 13, "uint8", "int8", 128, 0),
    "signed": product(1, 39, 6, "int8", "int8", -7, 0),
    "unsigned weights": product(1, 38, 5, "uint8", "uint8", 3, 128),
    "fewer terms than a load": product(1, 3, 5, "uint8", "int8", 3, 0),
    "two channels": product(3, 21, 2, "uint8", "int8", 3, 0),
    "five rows": product(5, 70, 7, "int8", "int8", 100, 0),
    "convolution": quantised_conv(3, 10, 3, 1, 1, 0),
    "one channel in": quantised_conv(1, 6, 5, 1, 1, 128),
    "strides": quantised_conv(4, 5, 3, 2, 1, 7),
    "groups": quantised_conv(6, 9, 3, 1, 3, 7),
    "1x1": quantised_conv(8, 12, 1, 1, 1, 7),
}


def program(made: onnx.ModelProto, target: str) -> Program:
    """The program for a target, every access of it proved."""
    found = stages(made, Options(target=target, name="net")).program
    assert verify_program(found) == []
    return found


def oracle(made: onnx.ModelProto, x: Array) -> Array:
    return np.asarray(exact_session(made).run(None, {"x": x})[0])


@pytest.mark.parametrize("name", CASES)
def test_products_of_bytes(name: str) -> None:
    made, x = CASES[name]
    wanted = oracle(made, x)
    for target in (PAIRED, LONG, *SINGLE):
        found = program(made, target)
        body = [s for k in found.kernels for s in flatten(k.body)]
        used = {s.operation for s in body if isinstance(s, Instruction)}
        if target == LONG and any(r.startswith("long") for r in routines(found)):
            np.testing.assert_array_equal(run(found, {"x": x})[0], wanted, f"loops for {target}")
            continue  # first values hold what zero points add; test_long_bytes.py has these routines' cases
        assert used <= {PAIRED: {"dot2"}, LONG: {"dot2", "dot16"}}.get(target, set())
        assert used or target != PAIRED or name not in ("one row", "signed", "five rows", "one channel in")
        assert "dot16" in used or target != LONG or name not in ("one row", "signed", "five rows")
        assert any("sums" in p.name for k in found.kernels for p in k.parameters)
        np.testing.assert_array_equal(run(found, {"x": x})[0], wanted, f"loops for {target}")
    for target in (PAIRED, LONG, SINGLE[list(CASES).index(name) % len(SINGLE)]):
        if not obstacle(find(target)):
            np.testing.assert_array_equal(compiled(target)(made, {"x": x})[0], wanted, f"C for {target}")


def test_what_does_not_fit_bytes_is_corrected_by_the_sums_of_rows() -> None:
    """Weights less their zero point beyond int8 are multiplied less 128."""
    made, x = product(2, 20, 5, "uint8", "uint8", 3, 0)
    found = program(made, PAIRED)
    assert {"x_sums", "w_centred_duo"} <= {t.name for k in found.kernels for t in k.parameters}
    np.testing.assert_array_equal(run(found, {"x": x})[0], oracle(made, x))
