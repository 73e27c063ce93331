"""Quantised layers compute in vectors of integers: the oracles' bytes, on every kind of target.

The oracles are ONNX's reference evaluator and onnxruntime (`tests/oracles.py`), which must agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import ingot
from ingot.driver import stages
from ingot.formula.compute import Compute
from ingot.formula.expr import Array
from ingot.formula.statements import Instruction, Store, flatten
from ingot.loops.evaluate import run
from ingot.loops.program import Program
from ingot.loops.region import groups, region_text
from ingot.loops.verify import require_proved
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.corpus.cases import onnxruntime_outputs
from tests.fuzz.levels import compiled

VECTORS = ("x86-64", "x86-64-v3", "x86-64-v4-vnni", "aarch64", "aarch64-dotprod", "aarch64-i8mm")
SHIPPED = [t for t in ("x86-64-v3", "x86-64-v4-vnni") if not obstacle(find(t))]
PRODUCTS = {"x86-64-v3": "dot2", "x86-64-v4-vnni": "dot4", "aarch64-dotprod": "dot4"}


@dataclass(frozen=True)
class Layer:
    """A quantised convolution, or a product of matrices where there is no kernel."""

    shape: tuple[int, ...]
    weights: tuple[int, ...]
    zero: int = 11
    kind: type[np.integer] = np.uint8
    weight_zero: tuple[int, ...] = (0,)
    weight_kind: type[np.integer] = np.int8
    bias: bool = True
    pads: tuple[int, ...] = ()
    strides: tuple[int, ...] = (1, 1)
    group: int = 1
    largest: float = 0.01

    def model(self) -> onnx.ModelProto:
        """The layer as ONNX has it, on x."""
        random, outputs = np.random.default_rng(5), self.weights[0 if self.pads else -1]
        info = np.iinfo(self.weight_kind)
        low, high = max(info.min, -127), info.max
        wz = np.array(self.weight_zero, self.weight_kind)
        scales = random.uniform(self.largest / 9, self.largest, len(wz) if len(wz) > 1 else 1)
        arrays = {
            "xs": np.array(0.02, np.float32),
            "xz": np.array(self.zero, self.kind),
            "w": random.integers(low, high + 1, self.weights).astype(self.weight_kind),
            "ws": (scales if len(wz) > 1 else scales[0]).astype(np.float32),
            "wz": wz if len(wz) > 1 else wz[0],
            "ys": np.array(0.9, np.float32),
            "yz": np.array(self.zero + 20, self.kind),
        }
        how = {}
        if self.pads:
            how = {"pads": self.pads, "strides": self.strides, "group": self.group}
        if self.bias and self.pads:
            arrays["b"] = random.integers(-9999, 9999, outputs).astype(np.int32)
        node = helper.make_node("QLinearConv" if self.pads else "QLinearMatMul", ["x", *arrays], ["y"], **how)
        kind = TensorProto.UINT8 if self.kind is np.uint8 else TensorProto.INT8
        graph = helper.make_graph(
            [node],
            "quantised",
            [helper.make_tensor_value_info("x", kind, self.shape)],
            [helper.make_tensor_value_info("y", kind, None)],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)

    def feed(self) -> dict[str, Array]:
        info = np.iinfo(self.kind)
        random = np.random.default_rng(6)
        return {"x": random.integers(info.min, info.max + 1, self.shape).astype(self.kind)}


SAME = (1, 1, 1, 1)
LAYERS = {
    "padded": Layer((1, 8, 9, 7), (32, 8, 3, 3), pads=SAME),
    "padded on one side": Layer((2, 6, 7, 9), (20, 6, 2, 3), pads=(0, 0, 1, 2)),
    "no bias": Layer((1, 8, 5, 6), (16, 8, 1, 1), bias=False, pads=(0, 0, 0, 0)),
    "signed": Layer((1, 8, 9, 7), (17, 8, 3, 3), zero=-3, kind=np.int8, pads=SAME),
    "three channels": Layer((1, 3, 11, 9), (16, 3, 3, 3), pads=SAME, strides=(2, 2)),
    "one channel": Layer((1, 1, 11, 9), (8, 1, 3, 3), pads=SAME),
    "groups": Layer((1, 8, 6, 7), (32, 4, 3, 3), pads=SAME, group=2),
    "weights about a zero point for each channel": Layer(
        (1, 8, 6, 7), (16, 8, 3, 3), weight_zero=tuple(range(-8, 8)), weight_kind=np.int8, pads=SAME
    ),
    "unsigned weights about 128": Layer(
        (1, 8, 6, 7), (16, 8, 3, 3), weight_zero=(128,), weight_kind=np.uint8, pads=SAME
    ),
    "unsigned weights that leave int8": Layer(
        (1, 8, 6, 7), (16, 8, 3, 3), weight_zero=(100,), weight_kind=np.uint8, pads=SAME
    ),
    "unsigned weights about 0": Layer((1, 8, 6, 7), (16, 8, 3, 3), weight_kind=np.uint8, pads=SAME),
    "depthwise, unsigned weights about 0": Layer(
        (1, 48, 7, 9), (48, 1, 3, 3), weight_kind=np.uint8, pads=SAME, group=48
    ),
    "rows, unsigned weights about 0": Layer((15, 3), (3, 2), weight_kind=np.uint8),
    "dense, unsigned weights about 0": Layer((3, 70), (70, 33), zero=0, weight_kind=np.uint8),
    "a scale above one": Layer((1, 8, 6, 7), (16, 8, 3, 3), pads=SAME, largest=99.0),
    "depthwise": Layer((1, 48, 7, 9), (48, 1, 3, 3), pads=SAME, group=48),
    "depthwise, signed": Layer((1, 33, 8, 9), (33, 1, 5, 3), -5, np.int8, pads=(2, 1, 2, 1), group=33),
    "depthwise, strided": Layer((2, 64, 9, 9), (64, 1, 3, 3), pads=SAME, strides=(2, 2), group=64),
    "depthwise, few channels": Layer((1, 5, 9, 9), (5, 1, 3, 3), pads=SAME, group=5),
    "dense": Layer((1, 128), (128, 40)),
    "rows": Layer((7, 13), (13, 33)),
    "few terms": Layer((3, 3), (3, 33)),
    "batches of rows": Layer((3, 2, 9, 4), (4, 18)),
}


def wanted_bytes(layer: Layer) -> Array:
    """What both oracles say."""
    (wanted,) = ReferenceEvaluator(layer.model()).run(None, layer.feed())
    (second,) = onnxruntime_outputs(layer.model(), layer.feed())
    assert np.array_equal(wanted, second), "the oracles disagree"
    return np.asarray(wanted)


def programs(layer: Layer, target: str) -> Program:
    program = stages(layer.model(), Options(target=target)).program
    require_proved(program)
    return program


@pytest.mark.parametrize("name", LAYERS)
def test_the_same_bytes(name: str) -> None:
    layer = LAYERS[name]
    wanted = wanted_bytes(layer)
    for target in (*VECTORS, "c99"):
        (got,) = run(programs(layer, target), layer.feed())
        assert np.array_equal(got, wanted), f"loops for {target}"
    for target in SHIPPED:
        (got,) = compiled(target)(layer.model(), layer.feed())
        assert np.array_equal(got, wanted), f"C for {target}"


OPEN = {
    "padded": {0: "N"},
    "padded on one side": {0: "N", 2: "H", 3: "W"},
    "signed": {3: "W"},
    "groups": {2: "H"},
    "dense": {0: "N"},
    "rows": {0: "N"},
    "few terms": {0: "N"},
    "batches of rows": {0: "N"},
    "depthwise": {0: "N"},
    "unsigned weights that leave int8": {0: "N", 3: "W"},
}
"""Layers with extents that only the caller knows: the axes of the operand, and their names."""


@pytest.mark.parametrize("target", [*VECTORS, "c99"])
@pytest.mark.parametrize("name", OPEN)
def test_open_extents(name: str, target: str) -> None:
    layer = LAYERS[name]
    at = {n: layer.shape[d] for d, n in OPEN[name].items()}
    proto = layer.model()
    for d, n in OPEN[name].items():
        proto.graph.input[0].type.tensor_type.shape.dim[d].dim_param = n
    bounds = {n: (max(1, size - 3), size + 9) for n, size in at.items()}
    program = stages(proto, Options(target=target, define=bounds)).program
    require_proved(program)
    assert np.array_equal(run(program, layer.feed(), at)[0], wanted_bytes(layer))
    if target in PRODUCTS and name in ("padded", "dense", "rows"):  # a batch is gone around, as it is here
        body = [s for k in program.kernels for s in flatten(k.body)]
        assert PRODUCTS[target] in {s.operation for s in body if isinstance(s, Instruction)}


@pytest.mark.parametrize("target", SHIPPED)
def test_an_open_batch_in_c(target: str) -> None:
    proto = LAYERS["padded"].model()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    bundle = ingot.compile(proto, target=target, define={"N": (1, 9)})
    x = np.random.default_rng(3).integers(0, 256, (9, *LAYERS["padded"].shape[1:])).astype(np.uint8)
    for size in (9, 1, 8):
        wanted = ReferenceEvaluator(LAYERS["padded"].model()).run(None, {"x": x[:size]})[0]
        assert np.array_equal(bundle.run({"x": x[:size]})["y"], wanted)


@pytest.mark.parametrize("target, instruction", PRODUCTS.items())
@pytest.mark.parametrize("name", ["padded", "signed", "three channels", "dense", "rows"])
def test_products_are_dot_products(name: str, target: str, instruction: str) -> None:
    body = [s for k in programs(LAYERS[name], target).kernels for s in flatten(k.body)]
    assert instruction in {s.operation for s in body if isinstance(s, Instruction)}


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4-vnni", "aarch64-dotprod"])
@pytest.mark.parametrize("name", ["padded", "no bias", "depthwise", "depthwise, strided", "dense"])
def test_results_are_stored_as_vectors(name: str, target: str) -> None:
    (kernel,) = (k for k in programs(LAYERS[name], target).kernels if k.name.startswith("QLinear"))
    widths = [s.lanes for s in flatten(kernel.body) if isinstance(s, Store)]
    assert min(widths) > 1


def test_zero_points_and_biases_become_the_first_value() -> None:
    region = stages(LAYERS["padded"].model(), Options()).region
    assert "((ow + kw) - 1) else 11]) * int32(w[oc, ic, kh, kw]))" in region_text(region)
    (stage,) = (s for g in groups(region) for s in g.stages if isinstance(s, Compute) and s.reduction)
    assert isinstance(stage, Compute) and stage.reduction is not None
    layer = LAYERS["padded"]
    arrays = {i.name: numpy_helper.to_array(i) for i in layer.model().graph.initializer}
    sums = arrays["w"].astype(np.int64).sum((1, 2, 3))
    (first,) = (n for n in [stage.reduction.init] if hasattr(n, "tensor"))
    assert np.array_equal(first.tensor.value, arrays["b"] - 11 * sums)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_a_zero_point_that_is_data(kind: type[np.integer]) -> None:
    """MatMulInteger behind DynamicQuantizeLinear: the zero point is multiplied behind the sum."""
    weights = np.random.default_rng(1).integers(-127, 128, (40, 33)).astype(np.int8)
    node = helper.make_node("MatMulInteger", ["x", "w", "z"], ["y"])
    code = TensorProto.UINT8 if kind is np.uint8 else TensorProto.INT8
    graph = helper.make_graph(
        [node],
        "dynamic",
        [helper.make_tensor_value_info("x", code, (3, 40)), helper.make_tensor_value_info("z", code, ())],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    x = np.random.default_rng(2).integers(0, 100, (3, 40)).astype(kind)
    feed = {"x": x, "z": np.array(7, kind)}
    wanted = (x.astype(np.int32) - 7) @ weights.astype(np.int32)
    for target in VECTORS:
        program = stages(model, Options(target=target)).program
        require_proved(program)
        assert np.array_equal(run(program, feed)[0], wanted), target


@pytest.mark.parametrize("target", VECTORS)
def test_a_convolution_of_floats_to_few_channels_is_stored_as_bytes(target: str) -> None:
    """Lanes that are not stored are left out of a vector of the bytes."""
    w = numpy_helper.from_array(np.random.default_rng(1).standard_normal((3, 4, 3, 3), np.float32), "w")
    s, z = (numpy_helper.from_array(np.array(v), n) for v, n in ((np.float32(0.1), "s"), (np.int8(3), "z")))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 11, 14])
    y = helper.make_tensor_value_info("y", TensorProto.INT8, [1, 3, 9, 12])
    graph, opset = helper.make_graph(nodes, "g", [x], [y], [w, s, z]), [helper.make_opsetid("", 21)]
    proto = helper.make_model(graph, ir_version=10, opset_imports=opset)
    feed = {"x": np.random.default_rng(2).integers(-4, 5, (1, 4, 11, 14)).astype(np.float32)}
    (wanted,) = onnxruntime_outputs(proto, feed)
    (got,) = run(stages(proto, Options(target=target)).program, feed)
    assert np.abs(got.astype(int) - wanted.astype(int)).max() <= 1
    if target in SHIPPED:
        (again,) = compiled(target)(proto, feed)
        assert np.array_equal(got, again)
