"""Bytes within a network take the sign that the target multiplies; results stay the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ingot
from ingot.driver import front, stages
from ingot.formula.expr import Array
from ingot.formula.types import INT8, UINT8
from ingot.loops.evaluate import run
from ingot.options import Options
from tests.here import require_runs
from tests.oracles import exact_session

SHAPE = (1, 5, 9, 11)
ONE_SIGN = ("x86-64-v3", "x86-64-v4", "x86-64-v4-vnni")


def network(kind: type, last: str = "Relu", given: str = "float") -> onnx.ModelProto:
    """Two convolutions, pooling, a residual and `last`, as exporters write them."""
    random = np.random.default_rng(5)
    numbers: dict[str, Array] = {}
    nodes: list[onnx.NodeProto] = []

    def pair(x: str, scale: float, zero: int) -> str:
        numbers[f"{x}_s"], numbers[f"{x}_z"] = np.array(scale, np.float32), np.array(zero, kind)
        nodes.append(helper.make_node("QuantizeLinear", [x, f"{x}_s", f"{x}_z"], [f"{x}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{x}_q", f"{x}_s", f"{x}_z"], [f"{x}_d"]))
        return f"{x}_d"

    def weights(name: str, shape: tuple[int, ...]) -> str:
        numbers[f"{name}_q"] = random.integers(-127, 128, shape).astype(np.int8)
        numbers[f"{name}_s"] = random.uniform(0.001, 0.004, shape[0]).astype(np.float32)
        numbers[f"{name}_z"] = np.zeros(shape[0], np.int8)
        inputs = [f"{name}_{n}" for n in "qsz"]
        nodes.append(helper.make_node("DequantizeLinear", inputs, [name], axis=0))
        return name

    middle = 0 if kind is np.int8 else 128
    x = pair("x", 0.03, middle + 5)
    nodes.append(helper.make_node("Conv", [x, weights("v", (8, 5, 3, 3))], ["a"], pads=[1] * 4))
    nodes.append(helper.make_node("Relu", ["a"], ["b"]))
    a = pair("b", 0.02, middle - 128)
    nodes.append(helper.make_node("MaxPool", [a], ["c"], kernel_shape=[3, 3], pads=[1] * 4))
    c = pair("c", 0.02, middle - 128)
    nodes.append(helper.make_node("Conv", [c, weights("w", (8, 8, 1, 1))], ["d"]))
    d = pair("d", 0.05, middle + 3)
    nodes.append(helper.make_node("Add", [c, d], ["e"]))
    nodes.append(helper.make_node(last, ["e"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, SHAPE)],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(v, n) for n, v in numbers.items()],
    )
    if given == "bytes":  # the integers of the first layer come back as well
        graph.output.append(
            helper.make_tensor_value_info("b_q", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None)
        )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def feed() -> dict[str, Array]:
    return {"x": np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)}


def inner_types(proto: onnx.ModelProto, target: str) -> dict[str, object]:
    """The types of the bytes that nodes make."""
    made = front(proto, Options(target=target))
    return {
        v.name: v.type for n in made.nodes for v in n.outputs if v is not None and v.type in (INT8, UINT8)
    }


@pytest.mark.parametrize("target", ONE_SIGN)
def test_bytes_become_unsigned(target: str) -> None:
    found = inner_types(network(np.int8), target)
    assert found.pop("d_q") is INT8  # no product reads it
    assert len(found) == 3 and set(found.values()) == {UINT8}  # those that products read


@pytest.mark.parametrize("target", ONE_SIGN)
def test_types_that_an_attribute_repeats_change_too(target: str) -> None:
    """`output_dtype` may stand beside a zero point, whose type it names."""
    proto, said = network(np.int8), network(np.int8)
    for node in said.graph.node:
        if node.op_type == "QuantizeLinear":
            node.attribute.append(helper.make_attribute("output_dtype", onnx.TensorProto.INT8))
    said.opset_import[0].version = proto.opset_import[0].version = 21
    given = feed()
    found, wanted = (run(stages(m, Options(target=target)).program, given) for m in (said, proto))
    np.testing.assert_array_equal(found[0], wanted[0])


@pytest.mark.parametrize("target", ["c99", "aarch64", "cortex-m4", "cortex-m55"])
def test_other_targets_leave_them(target: str) -> None:
    assert set(inner_types(network(np.int8), target).values()) == {INT8}


def test_outputs_keep_their_type() -> None:
    found = inner_types(network(np.int8, given="bytes"), "x86-64-v4-vnni")
    assert found["b_q"] is INT8 and found["x_q"] is UINT8


@pytest.mark.parametrize("target", [*ONE_SIGN, "aarch64", "c99"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("last, given", [("Relu", "float"), ("Neg", "float"), ("Relu", "bytes")])
def test_results_are_the_same(kind: type, last: str, given: str, target: str) -> None:
    proto = network(kind, last, given)
    wanted = exact_session(proto).run(None, feed())
    for got, true in zip(run(stages(proto, Options(target=target)).program, feed()), wanted, strict=True):
        np.testing.assert_allclose(got, true, atol=1e-6)


@pytest.mark.parametrize("target", ONE_SIGN)
def test_compiled(target: str) -> None:
    require_runs(target)
    proto = network(np.int8)
    (wanted,) = exact_session(proto).run(None, feed())
    bundle = ingot.compile(proto, target=target)
    (got,) = bundle.run(feed()).values()
    np.testing.assert_allclose(got, wanted, atol=1e-6)
