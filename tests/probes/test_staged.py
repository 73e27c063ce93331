"""Several stages in one kernel: convolution with overlapping max-pool, Winograd F(2,3)."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from ingot.formula.compute import Formula
from ingot.formula.expr import Array, Tensor, Var, constant, maximum
from ingot.formula.types import FLOAT32
from ingot.loops.program import calls
from tests.probes.levels import agree, builder, floats


def onnxruntime(nodes: list[onnx.NodeProto], feeds: dict[str, Array]) -> Array:
    """The last node's output `y`."""
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in feeds.items()]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found: Array = session.run(None, feeds)[0]
    return found


def test_convolution_and_overlapping_max_pool_in_one_kernel() -> None:
    """The pool's windows overlap, so every element of the convolution is read by up to four of them."""
    x, w = Tensor("x", FLOAT32, (1, 3, 9, 9)), constant(floats(4, 3, 3, 3, seed=1), "w")
    f = builder()
    n, oc, h, v, ph, pw = f.axes((1, 4, 9, 9, 5, 5), "n oc h v ph pw")
    ic, kh, kw, rh, rw = f.axes((3, 3, 3, 3, 3), "ic kh kw rh rw")
    term = x.at((n, ic, h + kh - 1, v + kw - 1), outside=0) * w[oc, ic, kh, kw]
    conv = f.reduce("sum", (n, oc, h, v), (ic, kh, kw), term, post=lambda acc: maximum(acc, 0), name="conv")
    low = FLOAT32.lowest
    tap = conv.at((n, oc, ph * 2 + rh - 1, pw * 2 + rw - 1), outside=low)
    y = f.reduce("max", (n, oc, ph, pw), (rh, rw), tap, init=low)

    data = floats(1, 3, 9, 9)
    assert w.value is not None
    wanted = onnxruntime(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("MaxPool", ["r"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        ],
        {"x": data, "w": w.value},
    )
    for program in agree(Formula((x,), tuple(f.stages), (y,)), [data], [wanted]):
        assert len(list(calls(program.steps))) == 1


B = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float32)
G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], np.float32)
A = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float32)


def test_winograd_in_three_stages_of_one_kernel() -> None:
    """Y = A [(G g G') * (B d B')] A': tiles of 4x4 inputs overlap by two and give 2x2 outputs."""
    weights = floats(5, 3, 3, 3, seed=2)
    u = constant(np.einsum("ai,ocij,bj->aboc", G, weights, G).astype(np.float32), "u")
    b, a = constant(B, "b"), constant(A, "a")
    x = Tensor("x", FLOAT32, (3, 8, 6))
    f = builder()
    p, q, c, o, th, tw = f.axes((4, 4, 3, 5, 4, 3), "p q c o th tw")
    i, j, m, n = f.axes((4, 4, 4, 4), "i j m n")
    point = x.at((c, th * 2 + i - 1, tw * 2 + j - 1), outside=0)
    v = f.reduce("sum", (p, q, c, th, tw), (i, j), b[p, i] * b[q, j] * point, name="v")
    products = f.reduce("sum", (p, q, o, th, tw), (c,), u[p, q, o, c] * v[p, q, c, th, tw], name="products")
    h, w = Var("h", 8), Var("w", 6)
    term = a[h % 2, m] * a[w % 2, n] * products[m, n, o, h // 2, w // 2]
    y = f.reduce("sum", (o, h, w), (m, n), term)

    data = floats(3, 8, 6)
    conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    wanted = onnxruntime([conv], {"x": data[None], "w": weights})[0]
    programs = agree(Formula((x,), tuple(f.stages), (y,)), [data], [wanted])
    assert all(len(list(calls(p.steps))) == 1 for p in programs)
