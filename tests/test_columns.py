"""Products whose vectors are not along channels: transposed convolutions to few channels, points of images
where the caller has them, constant matrices from the left; inner products, with vectors along their terms.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from ingot.driver import stages
from ingot.formula.statements import For, flatten
from ingot.loops.evaluate import run
from ingot.loops.verify import require_proved
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.corpus.cases import onnxruntime_outputs
from tests.fuzz.levels import compiled
from tests.ops.rows import check, floats

TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4", "aarch64", "i386")
SHIPPED = [t for t in ("x86-64-v3", "x86-64-v4") if not obstacle(find(t))]
Shape = tuple[int, ...]
TRANSPOSED: dict[str, tuple[Shape, Shape, str]] = {
    "no pads": ((1, 8, 7, 9), (8, 1, 4, 4), "strides = [2, 2]"),
    "three outputs": ((1, 9, 6, 11), (9, 3, 3, 3), "strides = [2, 2], pads = [1, 1, 1, 1]"),
    "four outputs, two images": ((2, 8, 5, 6), (8, 4, 5, 5), "strides = [3, 3], pads = [2, 0, 1, 2]"),
    "as far as the window": ((1, 8, 9, 5), (8, 2, 3, 2), "strides = [3, 2]"),
    "with holes": ((1, 8, 5, 8), (8, 1, 2, 2), "strides = [3, 3]"),
    "dilated": ((1, 10, 6, 8), (10, 1, 3, 2), "strides = [2, 3], dilations = [3, 2]"),
    "more at the end": ((1, 8, 6, 8), (8, 1, 3, 3), "strides = [2, 2], output_padding = [1, 1]"),
    "one axis": ((1, 8, 37), (8, 3, 5), "strides = [2], pads = [2, 1]"),
    "three axes": ((1, 8, 4, 3, 6), (8, 1, 2, 3, 3), "strides = [2, 1, 2], pads = [0, 1, 1, 1, 0, 1]"),
    "most of it cut off": ((1, 8, 5, 9), (8, 1, 5, 5), "strides = [2, 2], pads = [4, 4, 4, 4]"),
    "too small for columns": ((1, 8, 2, 1), (8, 1, 3, 3), "strides = [2, 2]"),
    "by rows only": ((1, 8, 6, 9), (8, 2, 3, 3), "strides = [2, 1]"),
}
SCENES = {
    "alone": "y = ConvTranspose <{}> (x, w, b)",
    "and a curve": "a = ConvTranspose <{}> (x, w, b) y = Sigmoid (a)",
    "behind a convolution": "a = Conv (x, p) c = Relu (a) y = ConvTranspose <{}> (c, w)",
    "read twice": "a = Relu (x) c = ConvTranspose <{}> (a, w) z = Neg (a) y = Tanh (c)",
}


def model(text: str, constants: dict[str, Shape], shape: Shape) -> onnx.ModelProto:
    outputs = "float[] y, float[] z" if " z = " in text else "float[] y"
    sizes = ", ".join(map(str, shape))
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]>\nagraph (float[{sizes}] x) => ({outputs}) {{ {text} }}'
    )
    for i, (name, extents) in enumerate(constants.items()):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(floats(*extents, seed=i), name))
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    return proto


def require_same(proto: onnx.ModelProto, feed: dict[str, np.ndarray], number: int) -> None:
    """Loops for two targets and C for one, beside onnxruntime."""
    wanted = [np.asarray(a) for a in onnxruntime_outputs(proto, feed)]
    for target in {TARGETS[number % len(TARGETS)], "x86-64-v4"}:
        program = stages(proto, Options(target=target)).program
        require_proved(program)
        check(run(program, feed), wanted, 1e-5, f"loops for {target}")
    for target in SHIPPED[number % 2 :: 2]:
        check(compiled(target)(proto, feed), wanted, 1e-5, f"C for {target}")


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolutions(case: str, scene: str) -> None:
    shape, weights, attributes = TRANSPOSED[case]
    text = SCENES[scene].format(attributes)
    known = {"w": weights, "b": (weights[1],), "p": (shape[1],) * 2 + (1,) * (len(shape) - 2)}
    used = {name: extents for name, extents in known.items() if f" {name}" in text.replace("(", " ")}
    number = list(TRANSPOSED).index(case) + list(SCENES).index(scene)
    require_same(model(text, used, shape), {"x": floats(*shape, seed=9)}, number)


POINTS = {
    "few": ((1, 5, 6, 9), 3, ""),
    "many": ((1, 12, 13, 11), 19, "c = Relu (a)"),
    "two images": ((2, 3, 7, 5), 33, "c = HardSwish (a)"),
    "a line": ((1, 24, 65), 7, "c = Tanh (a)"),
    "a volume": ((1, 6, 3, 5, 7), 2, ""),
    "one channel": ((1, 1, 8, 8), 1, "c = Sigmoid (a)"),
    "and the caller's": ((1, 8, 9, 10), 8, "c = Add (a, x)"),
    "and read again": ((1, 8, 6, 7), 6, "z = Softmax <axis = 1> (a)"),
}


def test_a_result_of_another_type_than_the_sums() -> None:
    shape, weights, attributes = TRANSPOSED["no pads"]
    text = f"a = ConvTranspose <{attributes}> (x, w) c = Less (a, b) y = Cast <to = 11> (c)"
    proto = model(text, {"w": weights, "b": (1,)}, shape)
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    require_same(proto, {"x": floats(*shape, seed=9)}, 0)


@pytest.mark.parametrize("case", POINTS)
def test_points_where_the_caller_has_them(case: str) -> None:
    shape, channels, then = POINTS[case]
    text = f"a = Conv (x, w, b) {then} y = Identity ({'c' if 'c =' in then else 'a'})"
    known = {"w": (channels, shape[1], *(1,) * (len(shape) - 2)), "b": (channels,)}
    require_same(model(text, known, shape), {"x": floats(*shape, seed=9)}, list(POINTS).index(case))


LEFT = {"plain": ((7, 33), 5), "one row": ((12, 40), 1), "many rows": ((9, 17), 70), "batch": ((3, 8, 21), 6)}


@pytest.mark.parametrize("case", LEFT)
def test_constant_matrices_from_the_left(case: str) -> None:
    shape, rows = LEFT[case]
    proto = model("y = MatMul (w, x)", {"w": (rows, shape[-2])}, shape)
    require_same(proto, {"x": floats(*shape, seed=9)}, list(LEFT).index(case))


BOTH = "t = Transpose <perm = [1, 0]> (x) u = Transpose <perm = [1, 0]> (h) y = MatMul (t, u)"
INNER = {
    "one row": ((1, 40), "t = Transpose <perm = [1, 0]> (h) y = MatMul (x, t)", (7, 40)),
    "five rows": ((5, 67), "t = Transpose <perm = [1, 0]> (h) y = MatMul (x, t)", (33, 67)),
    "more rows than terms": ((64, 33), "t = Transpose <perm = [1, 0]> (h) y = MatMul (x, t)", (9, 33)),
    "many rows": ((150, 70), "t = Transpose <perm = [1, 0]> (h) y = MatMul (x, t)", (59, 70)),
    "rows, batches": ((2, 90, 33), "t = Transpose <perm = [0, 2, 1]> (h) y = MatMul (x, t)", (2, 41, 33)),
    "batches": ((2, 3, 4, 48), "t = Transpose <perm = [0, 1, 3, 2]> (h) y = MatMul (x, t)", (2, 3, 10, 48)),
    "scaled, with a bias": ((3, 50), "y = Gemm <transB = 1, alpha = 0.5> (x, h, b)", (7, 50)),
    "both the other way round": ((40, 23), BOTH, (9, 40)),
    "both the other way round, few terms": ((3, 23), BOTH, (31, 3)),
    "batches, both the other way round": (
        (2, 3, 33, 20),
        "t = Transpose <perm = [0, 1, 3, 2]> (x) u = Transpose <perm = [0, 1, 3, 2]> (h) y = MatMul (t, u)",
        (2, 3, 17, 33),
    ),
    "both the other way round, with a bias": (
        (50, 5),
        "y = Gemm <transA = 1, transB = 1> (x, h, b)",
        (7, 50),
    ),
    "the first the other way round": (
        (50, 21),
        "t = Transpose <perm = [1, 0]> (x) y = MatMul (t, h)",
        (50, 18),
    ),
    "to one channel, strided": ((1, 9, 57), "y = Conv <strides = [2], pads = [2, 3]> (x, w)", (1, 1)),
    "to one channel of an image": ((1, 17, 13, 9), "y = Conv <strides = [2, 1]> (x, v)", (1, 1)),
}


@pytest.mark.parametrize("case", INNER)
def test_inner_products(case: str) -> None:
    shape, text, other = INNER[case]
    known = {"w": (1, 9, 6), "v": (1, 17, 3, 2), "b": other[:1]}
    proto = model(text, {n: s for n, s in known.items() if f" {n})" in text}, shape)
    feed = {"x": floats(*shape, seed=9)}
    if "h" in text.replace("Transpose", ""):
        second = onnx.helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT, other)
        proto.graph.input.append(second)
        feed["h"] = floats(*other, seed=8)
    require_same(proto, feed, list(INNER).index(case))


def test_who_goes_along_the_terms() -> None:
    """Few rows go along the terms of both operands, many along blocks of one, copied in the kernel."""
    for rows, generator in ((5, "dot_product"), (200, "contract")):
        text = "t = Transpose <perm = [1, 0]> (h) y = MatMul (x, t)"
        proto = model(text, {}, (rows, 64))
        second = onnx.helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT, (300, 64))
        proto.graph.input.append(second)
        (kernel,) = stages(proto, Options(target="x86-64-v3")).program.kernels
        assert kernel.generators == (generator,)


@pytest.mark.parametrize(("terms", "beside"), [(1024, 4), (512, 8), (1000, 16)])
def test_rows_that_share_a_set_of_the_cache_are_read_few_at_a_time(terms: int, beside: int) -> None:
    """Sixteen rows that are 4096 bytes apart would push each other out before their lines are read."""
    proto = model("t = Transpose <perm = [1, 0]> (h) y = MatMul (x, t)", {}, (1, terms))
    proto.graph.input.append(onnx.helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT, (100, terms)))
    (kernel,) = stages(proto, Options(target="x86-64-v4")).program.kernels
    first = next(s for s in flatten(kernel.body) if isinstance(s, For))
    assert (kernel.generators, first.step) == (("dot_product",), beside)


def test_a_result_is_turned_for_both_operands() -> None:
    """A product of two tensors that stand the other way round takes two kernels."""
    proto = model(BOTH, {}, (100, 64))
    proto.graph.input.append(onnx.helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT, (20, 100)))
    product, turned = stages(proto, Options(target="x86-64-v3")).program.kernels
    assert product.macs == 64 * 20 * 100
    assert (product.generators, turned.generators) == (("contract",), ("transpose",))


def test_an_image_is_multiplied_where_it_lies() -> None:
    """No copy before a product of points and none behind it, and one product for all phases."""
    shape = (1, 16, 32, 32)
    point = model("y = Conv (x, w)", {"w": (16, 16, 1, 1)}, shape)
    assert len(stages(point, Options(target="x86-64-v3")).program.kernels) == 1
    turned = model("y = ConvTranspose <strides = [2, 2]> (x, w)", {"w": (16, 1, 4, 4)}, shape)
    program = stages(turned, Options(target="x86-64-v3")).program
    assert [bool(k.macs) for k in program.kernels] == [True, False, False]
