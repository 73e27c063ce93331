"""Winograd convolutions: exact algorithms, every kind of border and remainder at each level, and when they
are chosen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from ingot import driver
from ingot.driver import stages
from ingot.formula.compute import Compute
from ingot.formula.expr import static
from ingot.formula.statements import Madd, flatten
from ingot.loops import choice
from ingot.loops.choice import DEFAULT, Choice, Chooser
from ingot.loops.evaluate import run
from ingot.loops.kernels.winograd.cook_toom import POINTS, Line, cook_toom
from ingot.loops.kernels.winograd.match import Convolution, match
from ingot.loops.layout import Storage
from ingot.loops.program import calls
from ingot.loops.verify import verify_program
from ingot.options import Options
from ingot.targets.records import find
from tests.corpus.cases import onnxruntime_outputs
from tests.here import require_runs
from tests.ops.rows import check
from tests.probes.levels import agree_from_loops

TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4")


def convolution(
    channels: int,
    features: int,
    image: tuple[int, ...],
    *,
    group: int = 1,
    batch: int = 1,
    residual: bool = False,
    taps: int = 3,
    stride: int = 1,
    dilation: int = 1,
) -> onnx.ModelProto:
    """Relu, a padded convolution, a residual perhaps, a pool that does nothing."""
    rng = np.random.default_rng(channels)
    made = [(n - 1) // stride + 1 for n in image]
    pads = [(taps - 1) // 2 * dilation] * len(image) + [taps // 2 * dilation] * len(image)
    more = {"strides": [stride] * len(image), "dilations": [dilation] * len(image)}
    kernel = rng.standard_normal((features, channels // group, *[taps] * len(image)))
    bias = rng.standard_normal(features).astype(np.float32)
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Conv", ["a", "w", "b"], ["c"], pads=pads, group=group, **more),
        helper.make_node("Add", ["c", "a" if residual else "b0"], ["d"]),
        helper.make_node("MaxPool", ["d"], ["y"], kernel_shape=[1] * len(image)),
    ]
    values = [("w", (kernel / channels).astype(np.float32)), ("b", bias), ("b0", np.full(1, 0.5, np.float32))]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [batch, channels, *image])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [batch, features, *made])],
        [numpy_helper.from_array(v, n) for n, v in values],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """always(m): every convolution that can be is computed by F(m, 3), whatever it costs."""

    def choose(self: Chooser, c: Compute, storage: Storage) -> Choice:
        fits = c.reduction is not None and match(c, storage, {}) is not None
        return Choice(winograd=wanted[0]) if fits else DEFAULT

    wanted = [0]
    monkeypatch.setattr(Chooser, "_choice", choose)
    return lambda m: wanted.__setitem__(0, m)


MODELS = {
    "divided": convolution(16, 16, (12, 12)),
    "residual, batch of two": convolution(16, 16, (12, 24), batch=2, residual=True),
    "borders": convolution(8, 16, (7, 13)),
    "smaller than a tile": convolution(8, 8, (2, 3)),
    "ragged channels": convolution(19, 21, (9, 6)),
    "few channels": convolution(3, 5, (8, 5)),
    "groups": convolution(32, 48, (6, 10), group=2),
    "blocks of tiles": convolution(48, 16, (26, 36)),
    "one dimension": convolution(12, 20, (37,)),
    "a long line": convolution(16, 16, (480,)),
    "five taps": convolution(9, 23, (11, 13), taps=5),
    "seven taps": convolution(16, 8, (10,), taps=7),
    "two taps": convolution(8, 12, (8, 9), taps=2),
    "stride": convolution(16, 32, (16, 16), stride=2),
    "stride, borders": convolution(19, 21, (11, 14), stride=2),
    "stride, groups": convolution(32, 48, (9, 13), stride=2, group=2, batch=2),
    "stride, five taps": convolution(9, 23, (17, 12), stride=2, taps=5),
    "stride, four taps": convolution(8, 16, (15,), stride=2, taps=4),
    "stride, blocks of tiles": convolution(48, 16, (52, 70), stride=2),
    "gaps": convolution(16, 16, (16, 24), dilation=2, residual=True),
    "gaps, borders": convolution(19, 21, (11, 15), dilation=2),
    "gaps, one dimension": convolution(12, 20, (41,), dilation=3),
    "gaps, groups": convolution(32, 48, (9, 13), dilation=3, group=2, batch=2),
    "gaps, five taps": convolution(9, 23, (17, 12), dilation=2, taps=5),
    "gaps, hardly an image": convolution(16, 16, (7, 8), dilation=6),
    "gaps, blocks of tiles": convolution(48, 16, (53, 70), dilation=2),
    "gaps, a last block of fewer": convolution(16, 16, (18, 24), dilation=3),
}


CASES = [
    *((case, m) for case in MODELS for m in (2, 4) if (case, m) != ("seven taps", 4)),
    *(("divided", 3), ("borders", 3), ("groups", 5)),
]


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: "F{1} {0}".format(*CASES[n]))
def test_every_level_agrees(number: int, always: Callable[[int], None]) -> None:
    """Loops and C, with every access proved, against onnxruntime; the targets take turns."""
    case, m = CASES[number]
    target = TARGETS[number % len(TARGETS)]
    require_runs(target)
    always(m)
    model = MODELS[case]
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(m).standard_normal(shape).astype(np.float32)
    program = stages(model, Options(target=target)).program
    assert any("transformed" in t.name for k in program.kernels for t in k.parameters)
    agree_from_loops(program, {"x": x}, onnxruntime_outputs(model, {"x": x}), 3e-5, target)


POINT_BY_POINT = [
    *("blocks of tiles", "residual, batch of two", "ragged channels", "groups"),
    *("stride, blocks of tiles", "stride, groups", "gaps, blocks of tiles"),
]


@pytest.mark.parametrize("case", POINT_BY_POINT)
def test_point_by_point(case: str, always: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where caches hold neither transformed inputs nor weights: all features of a point, then the next."""
    name = "x86-64-v3"
    small = replace(find(name), caches=(1 << 10, 16 << 10, 128 << 10))
    monkeypatch.setattr(driver, "target_of", lambda options: small)
    always(4)
    model = MODELS[case]
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    program = stages(model, Options(target=name)).program
    weights = [t.shape[-4:] for k in program.kernels for t in k.parameters if t.name.startswith("w")]
    points = 81 if "stride" in case else 36
    assert all(shape[0] == points for shape in weights)  # points first
    require_runs(name)
    agree_from_loops(program, {"x": x}, onnxruntime_outputs(model, {"x": x}), 3e-5, name)


@pytest.mark.parametrize("target", TARGETS)
def test_the_last_block_holds_a_register_tile(target: str, always: Callable[[int], None]) -> None:
    """Ten rows of ten tiles in blocks of three: the last has ten, and its accumulators stay inside."""
    always(2)
    program = stages(convolution(16, 16, (20, 20)), Options(target=target)).program
    assert not verify_program(program)


@pytest.mark.parametrize(
    ("target", "registers"), [("i386", 8), ("x86-64", 16), ("x86-64-v3", 16), ("aarch64", 32)]
)
def test_a_register_tile_leaves_room_for_its_operands(target: str, registers: int) -> None:
    """For the weights, a value and a product; where a value is an element, for a vector of every row."""
    program = stages(convolution(64, 64, (28, 28)), Options(target=target)).program
    made = (s.name for k in program.kernels for s in flatten(k.body) if isinstance(s, Madd))
    places = [
        tuple(map(int, found.groups())) for name in made if (found := re.fullmatch(r"c(\d+)_(\d+)", name))
    ]
    rows, vectors = (1 + max(at) for at in zip(*places, strict=True))
    others = {"aarch64": rows, "x86-64-v3": 1}.get(target, 2)
    assert rows * vectors + vectors + others <= registers


@pytest.mark.parametrize(
    ("taps", "stride"), [(2, 1), (3, 1), (5, 1), (7, 1), (3, 2), (4, 2), (5, 2), (7, 2), (5, 3)]
)
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6])
def test_an_algorithm_is_exact_in_fractions(m: int, taps: int, stride: int) -> None:
    """A [(G g) * (B d)] is the convolution, and the straight lines are the matrices."""
    phases = [n for n in (len(range(p, taps, stride)) for p in range(stride)) if n != 1]
    if any(m + n - 2 not in POINTS for n in phases):
        with pytest.raises(KeyError):
            cook_toom(m, taps, stride)
        return
    f = cook_toom(m, taps, stride)
    d = [Fraction(3 * i * i - 7 * i + 2, 5) for i in range(f.points)]
    g = [Fraction(7 - 3 * k, 3 + k) for k in range(taps)]
    transformed = follow(f.inputs(), d, f.points)
    assert transformed == [sum(c * x for c, x in zip(row, d, strict=True)) for row in f.b]
    weights = [sum(c * x for c, x in zip(row, g, strict=True)) for row in f.g]
    products = [u * v for u, v in zip(weights, transformed, strict=True)]
    outputs = [sum(d[stride * i + k] * g[k] for k in range(taps)) for i in range(m)]
    assert follow(f.outputs(), products, m) == outputs


def follow(lines: tuple[Line, ...], inputs: list[Fraction], count: int) -> list[Fraction]:
    known = {f"x{i}": x for i, x in enumerate(inputs)}
    for line in lines:
        known[line.name] = sum((c * known[name] for c, name in line.terms), Fraction(0))
    return [known[f"y{i}"] for i in range(count)]


def test_points_are_distinct() -> None:
    assert all(len(set(p)) == n for n, p in POINTS.items())


def test_chosen_by_cost_and_by_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer of ResNet gets F(4, 3); a tighter tolerance makes it safer; `exact` and no vectors none."""
    model = convolution(32, 32, (16, 16), residual=True)
    assert tile(model) == 4
    assert tile(model, math="exact") == 0
    assert tile(model, target="c99") == 0
    monkeypatch.setattr(choice, "TOLERANCE", 3e-7)
    assert tile(model) == 2
    monkeypatch.setattr(choice, "TOLERANCE", 1e-9)
    assert tile(model) == 0


def tile(model: onnx.ModelProto, target: str = "x86-64-v3", **options: str) -> int:
    """The m that was chosen, read off the transformed inputs: (m + 2)^2 planes."""
    program = stages(model, Options(target=target, **options)).program  # type: ignore[arg-type]
    planes = {static(t.shape[0]) for k in program.kernels for t in k.parameters if "transformed" in t.name}
    return int(np.sqrt(planes.pop())) - 2 if planes else 0


def test_layers_share_a_kernel_only_if_they_share_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two layers of one shape the weights of one do not allow F(m, 3): two kernels, both right."""
    model = twice(convolution(16, 16, (12, 12)))
    assert len(kernels(model)) == 1
    first = numpy_helper.to_array(model.graph.initializer[0])

    def error(conv: Convolution, m: int) -> float:
        taps = conv.c.b.tensor.value
        assert taps is not None
        return 0.0 if np.isclose(taps.sum(), first.sum()) else 1.0

    monkeypatch.setattr(choice, "error", error)
    assert len(kernels(model)) == 2
    x = np.random.default_rng(0).standard_normal((1, 16, 12, 12)).astype(np.float32)
    program = stages(model, Options(target="x86-64-v3")).program
    check(run(program, {"x": x}), onnxruntime_outputs(model, {"x": x}), 1e-5, "loops")


def twice(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with three more convolutions behind it, equal but for their weights."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    model.graph.node[-1].output[0] = "t0"
    taps = numpy_helper.to_array(model.graph.initializer[0])
    for i in range(3):
        model.graph.initializer.append(numpy_helper.from_array(taps * (1 - 3 * (i % 2)), f"taps{i}"))
        names = [f"t{i}", f"taps{i}", "b"], [f"t{i + 1}" if i < 2 else "y"]
        model.graph.node.append(
            helper.make_node("Conv", *names, name=f"Twin_{i}" if i < 2 else "Last", pads=[1] * 4)
        )
    model.graph.output[0].name = "y"
    return model


def kernels(model: onnx.ModelProto) -> set[str]:
    """The kernels that compute the second convolution and the third: they store alike."""
    program = stages(model, Options(target="x86-64-v3")).program
    return {c.kernel.name for c in calls(program.steps) if "Twin" in "".join(c.nodes or c.kernel.nodes)}
