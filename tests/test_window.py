"""Windows that slide over channels-last tensors: every kind of tail, border and target, against onnxruntime.

Each case stands between two 1x1 convolutions, so that both its sides lie channels last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ingot.driver import stages
from ingot.formula.expr import Array
from ingot.formula.statements import For, flatten
from ingot.loops.cuts import in_vectors
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.corpus.cases import onnxruntime_outputs
from tests.fuzz.levels import compiled, loops
from tests.ops.rows import check, floats

LOOPS = ("x86-64", "x86-64-v3", "aarch64")  # one for each case, beside the widest
SHIPPED = [t for t in ("c99", "x86-64-v3", "x86-64-v4") if not obstacle(find(t))]


def net(
    op: str, channels: int, size: tuple[int, int], multiplier: int = 1, **attributes: Any
) -> onnx.ModelProto:
    """1x1 convolution, the window, 1x1 convolution."""
    kernel = attributes.pop("kernel")
    weights = {
        "first": floats(channels, 3, 1, 1, seed=1),
        "last": floats(2, channels * multiplier, 1, 1, seed=2),
    }
    window = helper.make_node(op, ["a"], ["b"], kernel_shape=kernel, **attributes)
    if op == "Conv":
        weights["w"] = floats(channels * multiplier, 1, *kernel, seed=3)
        weights["bias"] = floats(channels * multiplier, seed=4)
        window = helper.make_node(
            op, ["a", "w", "bias"], ["b"], kernel_shape=kernel, group=channels, **attributes
        )
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"]),
        window,
        helper.make_node("Relu", ["b"], ["r"]),
        helper.make_node("Conv", ["r", "last"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "window",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, *size))],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


PADS = {"pads": [1, 1, 1, 1]}
CASES: list[tuple[str, int, tuple[int, int], dict[str, Any]]] = [
    *(("Conv", c, (7, 9), {"kernel": (3, 3), **PADS}) for c in (2, 3, 5, 8, 17, 24, 58)),
    ("Conv", 20, (9, 9), {"kernel": (3, 3), **PADS, "strides": [2, 2]}),
    ("Conv", 12, (11, 13), {"kernel": (5, 5), "pads": [2, 2, 2, 2]}),
    ("Conv", 12, (11, 13), {"kernel": (3, 3), "pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    ("Conv", 6, (8, 9), {"kernel": (3, 2), "pads": [1, 0, 0, 1], "strides": [1, 2]}),
    ("Conv", 6, (7, 7), {"kernel": (3, 3), **PADS, "multiplier": 2}),
    ("Conv", 300, (4, 5), {"kernel": (3, 3), **PADS}),
    ("Conv", 10, (9, 11), {"kernel": (7, 7), "pads": [3, 3, 3, 3]}),
    ("Conv", 9, (6, 40), {"kernel": (1, 31), "pads": [0, 15, 0, 15]}),
    ("MaxPool", 9, (16, 12), {"kernel": (6, 5)}),
    *(("MaxPool", c, (8, 9), {"kernel": (2, 2), "strides": [2, 2]}) for c in (3, 12, 19)),
    ("MaxPool", 10, (9, 12), {"kernel": (3, 3), "strides": [2, 2], **PADS}),
    ("MaxPool", 9, (6, 7), {"kernel": (3, 3), **PADS}),
    ("MaxPool", 9, (9, 7), {"kernel": (3, 3), "dilations": [2, 2], "ceil_mode": 1, "strides": [2, 2]}),
    ("AveragePool", 18, (9, 12), {"kernel": (3, 3), "strides": [2, 2], **PADS}),
    ("AveragePool", 5, (6, 7), {"kernel": (3, 3), **PADS, "count_include_pad": 1}),
    ("AveragePool", 5, (6, 8), {"kernel": (3, 2), **PADS, "ceil_mode": 1, "strides": [2, 3]}),
    *(("MaxPool", c, (8, 11), {"kernel": (2, 2), "strides": [2, 2]}) for c in (2, 4, 5, 6, 8)),
    *(("AveragePool", c, (9, 13), {"kernel": (3, 3), "strides": [2, 2]}) for c in (1, 4, 7)),
    ("AveragePool", 2, (3, 17), {"kernel": (2, 1), "strides": [1, 2]}),
    *(("AveragePool", 1, (6, n), {"kernel": (2, 2), "pads": [0, 0, 1, 1]}) for n in (3, 6)),
    ("MaxPool", 4, (7, 9), {"kernel": (2, 3)}),
    ("MaxPool", 3, (9, 12), {"kernel": (2, 2), "dilations": [3, 2], "strides": [2, 1]}),
    ("LpPool", 5, (6, 8), {"kernel": (2, 2), "strides": [2, 2]}),
    *((op, 5, (2, 409), {"kernel": (1, 403), "pads": [0, 2, 0, 0]}) for op in ("MaxPool", "AveragePool")),
    ("MaxPool", 1, (2, 409), {"kernel": (2, 403), "strides": [1, 2]}),
    ("Conv", 9, (1, 199), {"kernel": (1, 195), "pads": [0, 0, 0, 1]}),
]


@pytest.mark.parametrize(("op", "channels", "size", "how"), CASES, ids=str)
def test_window(op: str, channels: int, size: tuple[int, int], how: dict[str, Any]) -> None:
    model = net(op, channels, size, **how)
    feeds: dict[str, Array] = {"x": floats(1, 3, *size)}
    wanted = onnxruntime_outputs(model, feeds)
    for target in ("x86-64-v4", LOOPS[(channels) % len(LOOPS)]):
        check(loops(target)(model, feeds), wanted, 1e-5, f"loops for {target}")
    target = SHIPPED[channels % len(SHIPPED)]
    check(compiled(target)(model, feeds), wanted, 1e-5, f"C for {target}")


def test_a_window_of_nan_and_infinities() -> None:
    """A NaN anywhere in a window is its maximum, whichever operand of an instruction it is."""
    model = net("MaxPool", 8, (7, 7), kernel=(3, 3), pads=[1, 1, 1, 1])
    x = floats(1, 3, 7, 7)
    x[0, 0, 2, 3], x[0, 1, 6, 6], x[0, 2, 0, 0] = np.nan, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        formula = loops("c99")(model, {"x": x})
    for target in SHIPPED:
        check(compiled(target)(model, {"x": x}), formula, 1e-5, f"C for {target}")


def test_an_average_counts_its_taps_where_the_border_is_zeros() -> None:
    """A convolution wants a border of zeros around what the average reads, which then needs no clipping."""
    weights = {
        "w": floats(4, 3, 1, 1, seed=1),
        "v": floats(4, 4, 3, 3, seed=2),
        "u": floats(2, 4, 1, 1, seed=3),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Conv", ["a", "v"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("AveragePool", ["a"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "p"], ["s"]),
        helper.make_node("Conv", ["s", "u"], ["y"]),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 9, 8))]
    constants = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", given, [helper.make_empty_tensor_value_info("y")], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feeds = {"x": floats(1, 3, 9, 8)}
    for target in ("x86-64-v4", *LOOPS):
        check(loops(target)(model, feeds), onnxruntime_outputs(model, feeds), 1e-5, f"loops for {target}")


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "Conv"])
def test_a_long_row_of_taps_is_a_loop(op: str) -> None:
    """Written out, 2000 taps were 70 kB of code, and 3000 x 3000 of padding took a compiler 14 s."""

    def written(taps: int) -> int:
        model = net(op, 8, (1, 2010), kernel=(1, taps))
        program = stages(model, Options(target="x86-64-v3", name="net")).program
        return sum(1 for k in program.kernels for _ in flatten(k.body))

    assert written(2000) <= written(500) < 400


def test_interior_has_no_guards() -> None:
    """The borders of a padded pool are peeled: all loop limits are numbers."""
    model = net("MaxPool", 16, (12, 12), kernel=(3, 3), pads=[1, 1, 1, 1], strides=[2, 2])
    program = stages(model, Options(target="x86-64-v3", name="net")).program
    (pool,) = (k for k in program.kernels if k.name.startswith("MaxPool"))
    limits = [e for s in flatten(pool.body) if isinstance(s, For) for e in (s.lo, s.hi)]
    assert limits and all(type(e).__name__ == "Const" for e in limits)


@pytest.mark.parametrize("n", range(1, 70))
@pytest.mark.parametrize("overlap", [False, True])
def test_pieces_cover_everything(n: int, overlap: bool) -> None:
    for widest in (1, 4, 16):
        covered = [i for lo, hi, lanes in in_vectors(n, widest, overlap) for i in range(lo, hi, lanes)]
        widths = [lanes for lo, hi, lanes in in_vectors(n, widest, overlap) for _ in range(lo, hi, lanes)]
        elements = [i + j for i, lanes in zip(covered, widths, strict=True) for j in range(lanes)]
        assert set(elements) == set(range(n)) and max(elements) == n - 1
        assert overlap or len(elements) == n
