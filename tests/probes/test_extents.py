"""Extents known at run time only: one bundle for N = 1 .. 8."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import ingot
from ingot.driver import stages
from ingot.errors import IngotError
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.options import Options
from tests.ops.rows import check
from tests.probes.levels import floats

Shapes = dict[str, list[int | str]]


def model(
    nodes: list[onnx.NodeProto], inputs: Shapes, outputs: Shapes, **constants: Array
) -> onnx.ModelProto:
    def infos(shapes: Shapes) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]

    weights = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def batched_net() -> onnx.ModelProto:
    """A small classifier over a batch, its scores also with the batch last and twice over."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        helper.make_node("Reshape", ["p", "shape"], ["f"]),
        helper.make_node("Gemm", ["f", "d", "b"], ["g"]),
        helper.make_node("Softmax", ["g"], ["scores"]),
        helper.make_node("Transpose", ["g"], ["turned"], perm=[1, 0]),
        helper.make_node("Concat", ["g", "scores"], ["both"], axis=0),
    ]
    outputs: Shapes = {"scores": ["N", 7], "turned": [7, "N"], "both": ["M", 7]}
    return model(
        nodes,
        {"x": ["N", 3, 10, 10]},
        outputs,
        w=floats(4, 3, 3, 3, seed=1) * np.float32(0.2),
        d=floats(100, 7, seed=2) * np.float32(0.1),
        b=floats(7, seed=3),
        shape=np.array([0, -1]),
    )


def attention() -> onnx.ModelProto:
    """softmax(q k') v over N steps, both extents of the scores known at run time only."""
    nodes = [
        helper.make_node("Transpose", ["k"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["q", "t"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    return model(nodes, {"q": ["N", 6], "k": ["N", 6], "v": ["N", 5]}, {"y": ["N", 5]})


@pytest.mark.parametrize("target", ["c99", "x86-64-v3"])
@pytest.mark.parametrize("make", [batched_net, attention])
def test_one_bundle_for_every_extent(make: object, target: str) -> None:
    proto = make()  # type: ignore[operator]
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in proto.graph.output]
    program = stages(proto, Options(target=target, name="net", define={"N": (1, 8)})).program
    bundle = ingot.compile(proto, target=target, name="net", define={"N": (1, 8)})
    for n in (1, 3, 8):
        feeds = {
            t.name: floats(n, *(d.dim_value for d in t.type.tensor_type.shape.dim[1:]), seed=n)
            for t in proto.graph.input
        }
        wanted = list(session.run(None, feeds))
        check(run(program, feeds, {"N": n}), wanted, 1e-5, f"loops for N={n}")
        for _ in range(2):
            found = bundle.run(feeds)
            check([found[o] for o in names], wanted, 1e-5, f"C for N={n}")


def test_an_extent_beyond_its_bound_is_refused() -> None:
    bundle = ingot.compile(attention(), target="c99", name="net", define={"N": (1, 8)})
    with pytest.raises(IngotError, match=r"CAPACITY|at most 8|1 \.\. 8"):
        bundle.run({"q": floats(9, 6), "k": floats(9, 6), "v": floats(9, 5)})
