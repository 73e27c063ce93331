"""Reordered tensors and places on text: what disappears, and what a step then reads and writes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import ingot
from ingot.driver import stages
from ingot.formula.box import Box, covered, meet, without
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.loops.program import program_text
from ingot.loops.region import region_text
from ingot.options import Options
from tests.oracles import exact_session

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'


def model(text: str, **weights: Array | tuple[int, ...]) -> onnx.ModelProto:
    """The graph; a weight is given by its elements, or by its shape (then counted from 0)."""
    made = parser.parse_model(HEAD + text)
    for name, w in weights.items():
        array = np.arange(np.prod(w), dtype=np.float32).reshape(w) if isinstance(w, tuple) else w
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    return made


def test_a_shuffle_between_convolutions(golden: Callable[[str, str], None]) -> None:
    """The depthwise convolution works on the unshuffled channels, the last one reads them under an index."""
    made = model(
        "unit (float[1,8,5,5] x) => (float[1,4,5,5] y) {"
        " a = Reshape(x, s1) b = Transpose<perm=[0,2,1,3,4]>(a) c = Reshape(b, s2)"
        " [depthwise] d = Conv<pads=[1,1,1,1], group=8>(c, wd)"
        " [grouped] y = Conv<group=2>(d, wy) }",
        s1=np.array([1, 2, 4, 5, 5]),
        s2=np.array([1, 8, 5, 5]),
        wd=(8, 1, 3, 3),
        wy=(4, 4, 1, 1),
    )
    golden("region_shuffle", region_text(stages(made, Options(target="c99")).region))


@pytest.mark.parametrize("target", ["c99", "x86-64-v3"])
def test_a_reversed_axis_that_is_padded_stays(target: str) -> None:
    """A Pad makes places that its source does not have: it does not move above the reversal."""
    made = model(
        "padded (float[1,3,12] x) => (float[1,4,11] y) {"
        " a = Sigmoid(x) b = Slice(a, begin, end, axes, steps) c = Pad(b, around, value)"
        " d = AveragePool<kernel_shape=[3]>(c) y = Neg(d) }",
        begin=np.array([11]),
        end=np.array([-13]),
        axes=np.array([2]),
        steps=np.array([-1]),
        around=np.array([0, 0, 0, 0, 1, 1]),
        value=np.array(-3.0, np.float32),
    )
    x = np.random.default_rng(4).standard_normal((1, 3, 12), np.float32)
    (wanted,) = exact_session(made).run(None, {"x": x})
    (got,) = run(stages(made, Options(target=target)).program, {"x": x})
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_matrix_behind_an_image(golden: Callable[[str, str], None]) -> None:
    """The reduction walks the image as it is stored; no step flattens it."""
    made = model(
        "head (float[1,3,4,4] x) => (float[1,2] y) {"
        " [image] a = Conv(x, w) [flat] f = Flatten(a) [dense] y = Gemm<transB=1>(f, v) }",
        w=(3, 3, 3, 3),
        v=(2, 12),
    )
    golden("region_flatten", region_text(stages(made, Options(target="c99")).region))


def test_parts_of_a_whole(golden: Callable[[str, str], None]) -> None:
    """Two maps write halves of rows, the last step reads whole rows."""
    made = model(
        "whole (float[2,3] x) => (float[2,6] y) {"
        " [left] a = Exp(x) [right] b = Neg(a) [together] k = Concat<axis=1>(a, b) [last] y = Abs(k) }"
    )
    golden("program_parts", program_text(stages(made, Options(target="c99", fuse=False)).program))


def test_boxes() -> None:
    """Against arrays: what meets, what is left, what is covered."""
    rng = np.random.default_rng(7)
    shape = (4, 3, 5)

    def marks(*boxes: Box) -> Array:
        out = np.zeros(shape, np.int64)
        for box in boxes:
            out[tuple(slice(lo, hi) for lo, hi in box)] += 1
        return out

    def some() -> Box:
        ends = [sorted(int(v) for v in rng.integers(0, n + 1, 2)) for n in shape]
        return tuple((lo, max(hi, lo + 1) if lo < n else hi) for (lo, hi), n in zip(ends, shape, strict=True))

    seen = set()
    for _ in range(300):
        a, *others = boxes = [some() for _ in range(5)]
        assert meet(a, boxes[1]) == bool((marks(a) * marks(boxes[1])).any())
        left = marks(*without(a, boxes[1]))
        assert left.max(initial=0) <= 1 and (left == (marks(a) > marks(boxes[1]))).all()
        answer = covered(a, others)
        assert answer == bool((marks(*others)[marks(a) > 0] > 0).all())
        seen.add(answer)
    assert seen == {True, False}


@pytest.mark.parametrize("target", ["c99", "native"])
def test_a_tensor_that_is_resized_was_repeated(target: str) -> None:
    """The sum of two weighted neighbours reads its places from a table, and the source modulo its extent."""
    made = model(
        "tiled (float[1,18,23] x) => (float[1,18,145] y) {"
        ' t = Tile(x, r) y = Resize<mode="linear">(t, , s) }',
        r=np.array([1, 1, 3]),
        s=np.float32([1, 1, 2.1130939]),
    )
    x = {"x": np.random.default_rng(0).standard_normal((1, 18, 23)).astype(np.float32)}
    (wanted,) = exact_session(made).run(None, x)
    np.testing.assert_allclose(run(stages(made, Options(target=target)).program, x)[0], wanted, atol=2e-6)
    np.testing.assert_allclose(ingot.compile(made, target=target).run(x)["y"], wanted, atol=2e-6)
