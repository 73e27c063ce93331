"""The C that each builder writes for each kind of target, short enough to be read: tests/golden/*.c.

A change to what is emitted shows in the diff of these files. `pytest --update-golden` writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.net import Net
from ingot.options import Options
from tests.encoded import one_node, random_codes, sparse
from tests.ops.blocked import packed
from tests.ops.rows import floats
from tests.ops.rows import model as of_row
from tests.replay.compare import definitions
from tests.replay.emit import emit

Array = np.ndarray[Any, Any]
LONGEST = 100
KERNEL = re.compile(r"__noinline__|_task\d+\(void \*context")
X86 = ("x86-64-v4", "x86-64-v3")
PADS = {"pads": [0, 1, 0, 1]}
FLOAT = TensorProto.FLOAT


@dataclass(frozen=True)
class Golden:
    """A layer, the targets it is compiled for, and which of its kernels are kept: those of this name."""

    model: Callable[[], onnx.ModelProto]
    targets: tuple[str, ...]
    kernel: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


def layer(
    op: str,
    shape: tuple[int | str, ...],
    kind: int = FLOAT,
    constants: dict[str, Array] | None = None,
    **how: Any,
) -> onnx.ModelProto:
    """One node on x; the constants are its other inputs, a `then` follows it."""
    constants, then = constants or {}, how.pop("then", "")
    nodes = [helper.make_node(op, ["x", *constants], ["y"], op, **how)]
    if then:
        nodes[0].output[0] = "inner"
        nodes.append(helper.make_node(then, ["inner"], ["y"], then))
    graph = helper.make_graph(
        nodes,
        "golden",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def between(op: str, channels: int, size: int, **how: Any) -> onnx.ModelProto:
    """The node between two pointwise convolutions, so that both its sides lie channels last."""
    how |= {**PADS, "kernel_shape": [1, 3]}
    weights = {"w_first": floats(channels, 2, 1, 1, seed=1), "w_last": floats(2, channels, 1, 1, seed=2)}
    if op == "Conv":
        weights["w"] = floats(channels, channels // how.get("group", 1), 1, 3, seed=3)
    nodes = [
        helper.make_node("Conv", ["x", "w_first"], ["a"], "First"),
        helper.make_node(op, ["a", *(["w"] if "w" in weights else [])], ["b"], op, **how),
        helper.make_node("Conv", ["b", "w_last"], ["y"], "Last"),
    ]
    graph = helper.make_graph(
        nodes,
        "golden",
        [helper.make_tensor_value_info("x", FLOAT, (1, 2, size, size))],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def product() -> onnx.ModelProto:
    weights = {"w": floats(12, 16, seed=1), "b": floats(16, seed=2)}
    return layer("Gemm", (2, 12), constants=weights, then="Relu")


def inner_product() -> onnx.ModelProto:
    """Two tensors whose terms lie side by side in both."""
    net = Net("golden", (2, 28), (4, 28))
    y = net.one("Gemm", ["x", "h"], (2, 4), transB=1)
    return net.model(y=y)


def convolution(inputs: int, channels: int, size: int) -> onnx.ModelProto:
    """Three taps in a row: the generators unroll a window."""
    weights = {"w": floats(channels, inputs, 1, 3, seed=1), "b": floats(channels, seed=2)}
    return layer("Conv", (1, inputs, size, size), constants=weights, then="Relu", **PADS)


def top(n: int, k: int, axis: int) -> onnx.ModelProto:
    """The k largest of n, in two rows or in columns."""
    net, shape = Net("golden", (2, n) if axis else (n, 16)), (2, k) if axis else (k, 16)
    values, _ = net.node("TopK", ["x", net.integers(k)], shape, shape, axis=axis)
    return net.model(values=values)


def cell() -> onnx.ModelProto:
    net = Net("golden", (1, 1, 8), (1, 1, 8), (1, 1, 8))
    _, h, c = net.lstm("x", 8, "h", "c")
    return net.model(h_out=h, c_out=c)


def integers() -> onnx.ModelProto:
    weights = np.random.default_rng(1).integers(-127, 128, (32, 8)).astype(np.int8)
    return layer("MatMulInteger", (1, 32), TensorProto.UINT8, {"w": weights})


def quantised(channels: int, group: int = 1) -> onnx.ModelProto:
    """A padded convolution of bytes about a zero point, channels first at both its ends."""
    weights = np.random.default_rng(1).integers(-127, 128, (channels, 4 // group if group == 1 else 1, 1, 3))
    u8 = np.uint8
    constants: dict[str, Array] = {
        "xs": np.float32(0.02), "xz": u8(7), "w": weights.astype(np.int8), "ws": np.float32(0.01),
        "wz": np.int8(0), "ys": np.float32(0.9), "yz": u8(3), "b": np.arange(channels, dtype=np.int32),
    }  # fmt: skip
    shape = (1, 4 if group == 1 else channels, 1, 4)
    arrays = {name: np.asarray(a) for name, a in constants.items()}
    return layer("QLinearConv", shape, TensorProto.UINT8, arrays, group=group, **PADS)


def in_blocks() -> onnx.ModelProto:
    """Weights of 8 bits, 16 of which have a scale."""
    return of_row(packed(8, 48, "none", 16, block=16, rows=(1,)))


def encoded(kind: str, rows: int = 32, columns: int = 64) -> onnx.ModelProto:
    codes = random_codes((rows, columns), 0.2 if kind == "sparse" else 1.0)
    node = helper.make_node("Gemm", ["x", "w"], ["y"], "Gemm", transB=1)
    return one_node(node, {"x": (1, columns)}, {}, {"w": sparse(codes) if kind == "sparse" else codes})


def encoded_layers(rows: int = 16) -> onnx.ModelProto:
    """Two layers of one shape, whose weights have different numbers of entries."""
    first, second = random_codes((rows, rows), 0.2), random_codes((rows, rows), 0.15, seed=1)
    node = helper.make_node("Gemm", ["x", "v"], ["h"], "first", transB=1)
    model = one_node(node, {"x": (1, rows)}, {}, {"v": sparse(first), "w": sparse(second)})
    model.graph.node.append(helper.make_node("Gemm", ["h", "w"], ["y"], "second", transB=1))
    model.graph.output[0].name = "y"
    return model


CASES = {
    "matrix_product": Golden(product, (*X86, "aarch64", "c99"), "Gemm"),
    "inner_product": Golden(inner_product, ("x86-64-v3", "aarch64"), "Gemm"),
    "convolution": Golden(lambda: convolution(2, 16, 4), ("x86-64-v3", "c99"), "Conv"),
    "narrow_convolution": Golden(lambda: between("Conv", 4, 8), ("x86-64-v3",), "_Conv"),
    "depthwise": Golden(lambda: between("Conv", 16, 4, group=16), ("x86-64-v3", "c99"), "_Conv"),
    "pooling": Golden(lambda: between("MaxPool", 16, 4), ("x86-64-v4", "c99"), "MaxPool"),
    "doubled_rows": Golden(
        lambda: layer("MaxPool", (1, 2, 30), kernel_shape=[9], pads=[4, 4]), ("x86-64-v3", "aarch64")
    ),
    "picked_columns": Golden(lambda: between("MaxPool", 4, 8), ("x86-64-v3",), "MaxPool"),
    "map": Golden(lambda: layer("HardSwish", (5, 13)), (*X86, "aarch64", "armv8.1m", "c99")),
    "row_reduction": Golden(lambda: layer("Softmax", (4, 20)), ("x86-64-v4", "c99")),
    "rows_together": Golden(lambda: layer("Softmax", (5, 8)), ("aarch64",)),
    "long_rows": Golden(lambda: layer("Softmax", (3, 133)), ("x86-64-v3",)),
    "selection": Golden(lambda: top(80, 3, 1), ("x86-64-v3",)),
    "selection_beside": Golden(lambda: top(6, 2, 0), ("x86-64-v3",)),
    "transpose": Golden(lambda: layer("Transpose", (16, 8), perm=[1, 0]), ("aarch64",)),
    "interleave": Golden(lambda: layer("Transpose", (3, 16), perm=[1, 0]), ("x86-64-v3",)),
    "deinterleave": Golden(lambda: layer("Transpose", (16, 3), perm=[1, 0]), ("x86-64-v3",)),
    "pad": Golden(
        lambda: layer("Pad", (3, 18), constants={"pads": np.array([0, 1, 1, 1])}), ("x86-64-v3", "aarch64")
    ),
    "quantised_convolution": Golden(lambda: quantised(16), ("x86-64-v4-vnni", "x86-64-v3"), "QLinearConv"),
    "quantised_depthwise": Golden(lambda: quantised(16, 16), ("x86-64-v4-vnni", "aarch64"), "QLinearConv"),
    "integer_product": Golden(integers, ("x86-64-v4-vnni", "armv7e-m", "armv8.1m")),
    "sparse": Golden(lambda: encoded("sparse"), (*X86, "armv8.1m")),
    "sparse_layers": Golden(encoded_layers, ("c99",)),
    "weight_blocks": Golden(in_blocks, ("x86-64-v4-vnni",)),
    "codebook": Golden(lambda: encoded("codebook", 512, 1024), ("x86-64-v4-vnni",)),
    "recurrent_cell": Golden(cell, ("x86-64-v3",)),
    "scan": Golden(lambda: layer("CumSum", (4, 6), constants={"axis": np.array(1)}), ("x86-64-v3",)),
    "extent_of_a_run": Golden(
        lambda: layer("Relu", ("N", 5)), ("x86-64-v3",), options={"define": {"N": (1, 8)}}
    ),
    "threads": Golden(lambda: layer("Tanh", (64, 512)), ("c99",), options={"threads": True}),
}
FILES = [(name, target) for name, case in CASES.items() for target in case.targets]


@pytest.mark.parametrize("name, target", FILES)
def test_kernels_read_as_they_are(name: str, target: str, golden: Callable[[str, str], None]) -> None:
    case = CASES[name]
    text = emit(case.model(), Options(name="golden", target=target, weights="external", **case.options))
    kernels = [part for n, part in definitions(text).items() if KERNEL.search(part) and case.kernel in n]
    read = "\n\n".join(kernels)
    assert kernels and read.count("\n") < LONGEST
    golden(f"{name}.{target}.c", read)


def test_a_bundle_reads_as_it_is(golden: Callable[[str, str], None]) -> None:
    """Header, weights, a kernel and the entry of one layer."""
    golden("bundle.c99.c", emit(product(), Options(name="golden", target="c99", weights="external")).rstrip())
