"""Stages that go through the rows of an image together: the same elements, and no tensor between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from ingot.frontends.onnx import read_model
from ingot.loops.choice import LoweringOptions
from ingot.loops.evaluate import run
from ingot.loops.lower import lower
from ingot.loops.program import Program
from ingot.loops.program_passes.parallel import is_parallel, parallelize
from ingot.loops.region import formulate_graph
from ingot.loops.region_passes.fuse import fuse
from ingot.loops.region_passes.layout_assignment import assign_layouts
from ingot.loops.region_passes.reorder import reorder
from ingot.loops.verify import require_proved
from ingot.memory.plan import plan
from ingot.ops.infer import infer
from ingot.targets.records import find
from tests.probes.levels import agree_from_loops

CONV, SAME = "Conv <pads = [1, 1, 1, 1]>", "Conv <pads = [1, 1, 1, 1], group = 8>"
HALF = "Conv <pads = [1, 1, 1, 1], strides = [2, 2], group = 8>"
FAR = "Conv <group = 8, pads ="
POOL = "MaxPool <kernel_shape = [3, 3], strides = [2, 2]>"

CHAINS = {
    "pool": (f"a = {CONV} (x, w) b = Relu (a) y = {POOL} (b)", (1, 4, 21, 23), 1),
    "pool that leaves": (
        f"a = {CONV} (x, w) y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (a)",
        (1, 4, 24, 20),
        1,
    ),
    "pool of two": (
        f"a = {CONV} (x, w) y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)",
        (1, 4, 24, 20),
        1,
    ),
    "average that counts": (
        f"a = {CONV} (x, w) y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (a)",
        (1, 4, 24, 20),
        1,
    ),
    "uneven pads": (
        f"a = {CONV} (x, w) y = MaxPool <kernel_shape = [4, 3], strides = [2, 2], pads = [0, 1, 3, 1]> (a)",
        (1, 4, 23, 20),
        1,
    ),
    "dilated": (
        f"a = {CONV} (x, w) y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], dilations = [2, 2]> (a)",
        (1, 4, 24, 16),
        1,
    ),
    "skips rows": (
        f"a = {CONV} (x, w) y = MaxPool <kernel_shape = [1, 2], strides = [3, 2]> (a)",
        (1, 4, 24, 20),
        1,
    ),
    "the last skips rows": (
        f"a = {CONV} (x, w) b = Conv <pads = [1, 1, 0, 0], group = 8> (a, two) "
        "y = Conv <strides = [2, 2]> (b, p)",
        (1, 4, 23, 20),
        1,
    ),
    "depthwise": (f"a = {CONV} (x, w) b = Relu (a) y = {SAME} (b, d)", (1, 4, 20, 20), 1),
    "depthwise of half": (f"a = {CONV} (x, w) b = Relu (a) y = {HALF} (b, d)", (1, 4, 24, 20), 1),
    "three": (f"a = {CONV} (x, w) b = {SAME} (a, d) y = Conv (b, p)", (1, 4, 24, 20), 2),
    "three windows": (
        f"a = {CONV} (x, w) b = {SAME[:-1]}, strides = [2, 1]> (a, d) y = {SAME} (b, d)",
        (1, 4, 72, 8),
        2,
    ),
    "residual": (f"a = {CONV} (x, w) b = {SAME} (a, d) c = Conv (b, p) y = Add (c, x)", (1, 4, 24, 20), 2),
    "batch": (f"a = {CONV} (x, w) y = {SAME} (a, d)", (2, 4, 20, 16), 1),
    "one dimension": ("a = Conv (x, v) y = MaxPool <kernel_shape = [2], strides = [2]> (a)", (1, 4, 640), 1),
    "read twice": (f"a = {CONV} (x, w) b = {SAME} (a, d) y = Add (a, b)", (1, 4, 20, 20), 0),
    "stays near": (f"a = {CONV} (x, w) y = {SAME} (a, d)", (1, 4, 10, 10), 0),
    "far below": (f"a = {CONV} (x, w) y = {FAR} [0, 1, 6, 1]> (a, d)", (1, 4, 20, 20), 1),
    "far above": (f"a = {CONV} (x, w) y = {FAR} [6, 1, 0, 1]> (a, d)", (1, 4, 20, 20), 0),
    "copy in place": (
        f"a = {CONV} (x, w) b = Reshape (a, split) c = Transpose <perm = [0, 2, 1, 3, 4]> (b) "
        f"e = Reshape (c, whole) y = {SAME} (e, d)",
        (1, 4, 20, 20),
        0,
    ),
    "prime": (f"a = {CONV} (x, w) y = {SAME} (a, d)", (1, 4, 23, 20), 0),
}
WEIGHTS = {
    "w": (8, 4, 3, 3),
    "d": (8, 1, 3, 3),
    "p": (4, 8, 1, 1),
    "v": (8, 4, 1),
    "q": (16, 16, 3, 3),
    "two": (8, 1, 2, 2),
    "s": (1, 64, 5),
    "column": (32, 64, 3, 1),
    "row": (32, 64, 1, 3),
}
SHAPES = {"split": (1, 8, 1, 20, 20), "whole": (1, 8, 20, 20)}


def programs(text: str, shape: tuple[int, ...], target: str, second: int = 8 << 10) -> list[Program]:
    """The program of whole tensors, with bands, and with bands in two parts. The caller gets `y` channels
    last, as windows make it: for channels first other copies and vectors might pay.

    The second cache is so small that images of a few kB leave it.
    """
    sizes, places = (", ".join(map(str, numbers)) for numbers in (shape, range(2, len(shape))))
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        f"agraph (float[{sizes}] x) => (float[] z) "
        f"{{ {text} z = Transpose <perm = [0, {places}, 1]> (y) }}"
    )
    for i, (name, weights) in enumerate(WEIGHTS.items()):
        made = np.random.default_rng(i).standard_normal(weights).astype("f")
        proto.graph.initializer.append(onnx.numpy_helper.from_array(made, name))
    for name, value in SHAPES.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value), name))
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    small = replace(find(target), caches=(1 << 10, second, 1 << 20))
    found = []
    for parts in (0, 1, 2):
        region = reorder(fuse(formulate_graph(infer(read_model(proto)))))
        layouts = assign_layouts(region, small)
        found.append(lower(region, layouts, "bands", small, LoweringOptions(parts=parts)))
        require_proved(found[-1])
    return found


def bands(program: Program) -> list[str]:
    """The bands of a program, but for that between `y` and the copy behind it."""
    names = [t.name for k in program.kernels for t in k.scratch]
    return [n for n in names if n.endswith("_rows") and n != "y_rows"]


@pytest.mark.parametrize("target", ["c99", "x86-64-v3"])
@pytest.mark.parametrize(("text", "shape", "count"), CHAINS.values(), ids=CHAINS.keys())
def test_the_same_elements(text: str, shape: tuple[int, ...], count: int, target: str) -> None:
    whole, *banded = programs(text, shape, target)
    given = {"x": np.random.default_rng(9).standard_normal(shape).astype("f")}
    wanted = run(whole, given)
    assert not bands(whole)
    for program in banded:
        assert len(bands(program)) == count
        np.testing.assert_array_equal(run(program, given)[0], wanted[0])
        if count:
            assert plan(program).arena_bytes < plan(whole).arena_bytes
    if target != "c99":
        agree_from_loops(banded[-1], given, wanted, 1e-5, target)


def test_parts_run_at_once() -> None:
    _, one, two = programs(*CHAINS["three"][:2], "x86-64-v3")
    assert not any(is_parallel(k) for k in parallelize(one).kernels if k.scratch)
    assert any(is_parallel(k) for k in parallelize(two).kernels if k.scratch)


@pytest.mark.parametrize(
    ("weights", "pads", "count"), [("column", "1, 0, 1, 0", 0), ("row", "0, 1, 0, 1", 1)]
)
def test_fast_columns_are_not_cut(weights: str, pads: str, count: int) -> None:
    """A band has all tiles of a row, but of a column so few that their products share no registers."""
    text, shape = f"a = Relu (x) y = Conv <pads = [{pads}]> (a, {weights})", (1, 64, 48, 32)
    whole, banded, _ = programs(text, shape, "x86-64-v3", 128 << 10)
    assert any("winograd" in choice for k in whole.kernels for _, choice in k.choices)
    assert len(bands(banded)) == count
    given = {"x": np.random.default_rng(9).standard_normal(shape).astype("f")}
    np.testing.assert_array_equal(run(banded, given)[0], run(whole, given)[0])


def test_dilated_fast_convolutions_keep_their_tiles() -> None:
    """The outputs of a tile are two rows apart: a band has the rows of two tiles of four."""
    text = "a = Conv <pads = [2, 2, 2, 2], dilations = [2, 2]> (x, q) b = Relu (a) "
    text += "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (b)"
    shape = (1, 16, 48, 32)
    whole, banded, _ = programs(text, shape, "x86-64-v3", 64 << 10)
    given = {"x": np.random.default_rng(9).standard_normal(shape).astype("f")}
    np.testing.assert_array_equal(run(banded, given)[0], run(whole, given)[0])
    (kernel,) = (k for k in banded.kernels if k.choices)
    (rows,) = (t.shape[1] for t in kernel.scratch if t.name == "b_rows")
    (m,) = (int(choice.removeprefix("winograd=")) for _, choice in kernel.choices if "winograd" in choice)
    assert rows % (2 * m) == 0


def test_a_signal_in_rows_is_copied_whole() -> None:
    """A band along its vectors would have a few points of each channel."""
    _, banded, _ = programs("y = Conv <pads = [2, 2]> (x, s)", (1, 64, 640), "x86-64-v3")
    assert not bands(banded)


def test_fast_convolutions_keep_their_tiles() -> None:
    """A band that is read once has the rows of whole tiles."""
    text = f"a = {CONV} (x, q) y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)"
    shape = (1, 16, 40, 32)
    whole, banded, _ = programs(text, shape, "x86-64-v3", 64 << 10)
    given = {"x": np.random.default_rng(9).standard_normal(shape).astype("f")}
    np.testing.assert_array_equal(run(banded, given)[0], run(whole, given)[0])
    (kernel,) = (k for k in banded.kernels if k.choices)
    (rows,) = (t.shape[1] for t in kernel.scratch if t.name == "a_rows")
    assert kernel.choices[0][1] == "winograd=4"
    assert rows % 4 == 0
