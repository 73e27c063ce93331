"""Two layers share one kernel; narrow floats are stored, not computed with."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import ingot
from ingot.driver import stages
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.loops.program import calls
from ingot.options import Options
from tests.ops.rows import check
from tests.probes.levels import floats


def residual_stack(layers: int) -> onnx.ModelProto:
    """x, then `layers` times relu(conv(.)), all of one shape, each with weights of its own."""
    nodes, constants = [], []
    for i in range(layers):
        constants.append(numpy_helper.from_array(floats(8, 8, 3, 3, seed=i) * np.float32(0.2), f"w{i}"))
        nodes.append(helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"c{i}"], name=f"conv{i}", pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"x{i + 1}"], name=f"relu{i}"))
    inputs = [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1, 8, 10, 10])]
    outputs = [helper.make_tensor_value_info(f"x{layers}", TensorProto.FLOAT, [1, 8, 10, 10])]
    graph = helper.make_graph(nodes, "stack", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_layers_of_one_shape_share_a_kernel() -> None:
    """Five equal layers cost as many functions as three: the first and the last may see other layouts."""
    model, image = residual_stack(5), floats(1, 8, 10, 10, seed=9)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = list(session.run(None, {"x0": image}))
    for target in ("c99", "x86-64-v3"):
        program = stages(model, Options(target=target, name="stack")).program
        convolutions = [
            c for c in calls(program.steps) if any("conv" in n for n in c.nodes or c.kernel.nodes)
        ]
        kernels = {c.kernel for c in convolutions}
        assert len(convolutions) == 5 and len(kernels) <= 3
        (shared,) = [k for k in kernels if k.remark]
        named = {n for c in convolutions if c.kernel is shared for n in c.nodes}
        assert all(n in shared.remark for n in named)
        check(run(program, {"x0": image}), wanted, 1e-5, f"loops for {target}")
        bundle = ingot.compile(model, target=target, name="stack")
        check(list(bundle.run({"x0": image}).values()), wanted, 1e-5, f"C for {target}")
        assert len({k["name"] for k in bundle.manifest["kernels"]}) < len(bundle.manifest["kernels"])


def test_layers_share_a_kernel_wherever_in_a_whole_they_write() -> None:
    """y = concat of four convolutions of one shape: one function, called with four places in y's memory."""
    nodes, constants = [], []
    for i in range(4):
        constants.append(numpy_helper.from_array(floats(3, 8, 3, 3, seed=i), f"w{i}"))
        nodes.append(helper.make_node("Conv", ["x", f"w{i}"], [f"c{i}"], name=f"conv{i}", pads=[1] * 4))
    nodes.append(helper.make_node("Concat", [f"c{i}" for i in range(4)], ["k"], name="together", axis=1))
    nodes.append(helper.make_node("GlobalAveragePool", ["k"], ["y"], name="pool"))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 6, 6])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 12, 1, 1])]
    graph = helper.make_graph(nodes, "whole", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    program = stages(model, Options(target="x86-64-v3", name="whole")).program
    used = [c.kernel for c in calls(program.steps) if any("conv" in n for n in c.nodes or c.kernel.nodes)]
    assert len(used) == 4 and len(set(used)) == 1
    named = {n for c in calls(program.steps) for n in c.nodes or c.kernel.nodes}
    assert "together" not in named
    image = floats(1, 8, 6, 6, seed=9)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    check(run(program, {"x": image}), list(session.run(None, {"x": image})), 1e-5, "loops")


def narrow(dtype: int) -> onnx.ModelProto:
    """y = relu(a @ b + c), every tensor narrow."""
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["p"]),
        helper.make_node("Add", ["p", "c"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    shapes = {"a": [4, 6], "b": [6, 5], "c": [5]}
    inputs = [helper.make_tensor_value_info(n, dtype, s) for n, s in shapes.items()]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", dtype, [4, 5])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_bfloat16_is_storage() -> None:
    """Each stored tensor is rounded once; in between float32 computes."""
    data: dict[str, Array] = {
        n: floats(*shape, seed=i).astype(ml_dtypes.bfloat16)
        for i, (n, shape) in enumerate({"a": (4, 6), "b": (6, 5), "c": (5,)}.items())
    }
    wide = {n: v.astype(np.float32) for n, v in data.items()}
    product = (wide["a"] @ wide["b"]).astype(ml_dtypes.bfloat16).astype(np.float32)
    wanted = np.maximum((product + wide["c"]).astype(ml_dtypes.bfloat16), 0)
    model = narrow(TensorProto.BFLOAT16)
    for target in ("c99", "x86-64-v3"):
        program = stages(model, Options(target=target, name="narrow")).program
        check(run(program, data), [wanted], 0, f"loops for {target}")
        found = ingot.compile(model, target=target, name="narrow").run(data)
        check([found["y"]], [wanted], 0, f"C for {target}")
