"""Stages that go through rows at one pace: the same elements, and only some rows of what lies between."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import ingot
from ingot.driver import stages
from ingot.errors import InputError
from ingot.frontends.onnx import read_model
from ingot.loops.choice import LoweringOptions
from ingot.loops.evaluate import run
from ingot.loops.lower import lower
from ingot.loops.program import Program
from ingot.loops.program_passes.parallel import is_parallel, parallelize
from ingot.loops.region import copied, formulate_graph
from ingot.loops.region_passes.fuse import fuse
from ingot.loops.region_passes.layout_assignment import assign_layouts
from ingot.loops.verify import verify_program
from ingot.memory.plan import plan
from ingot.ops.infer import infer
from ingot.options import Options
from ingot.targets.records import find
from tests.probes.levels import agree_from_loops
from tests.test_bands import CONV, HALF, SAME
from tests.test_priority import net

TOP = "pads = [0, 0, 1, 1], strides = [2, 2]"

NETS = {
    "three windows": (f"a = {CONV} (x, w) b = {SAME} (a, d) y = {SAME} (b, d)", (1, 4, 20, 12), 2),
    "strides": (
        f"a = {CONV} (x, w) b = {HALF} (a, d) c = {SAME} (b, d) y = {HALF} (c, d)",
        (1, 4, 24, 12),
        3,
    ),
    "odd heights": (f"a = {CONV} (x, w) b = {HALF} (a, d) y = {HALF} (b, d)", (1, 4, 23, 11), 2),
    "of three": (
        f"a = {CONV} (x, w) y = Conv <strides = [3, 1], pads = [1, 1, 1, 1]> (a, q)",
        (1, 4, 22, 12),
        1,
    ),
    "uneven pads": (
        f"a = {CONV} (x, w) b = Conv <{TOP}, group = 8> (a, d) y = Conv <{TOP}> (b, q)",
        (1, 4, 24, 12),
        2,
    ),
    "residual": (
        f"a = {CONV} (x, w) b = {SAME} (a, d) c = {SAME} (b, d) e = Add (a, c) y = {SAME} (e, d)",
        (1, 4, 18, 10),
        3,
    ),
    "residual of half": (
        f"a = {CONV} (x, w) b = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (a, q) c = {SAME} (b, d) "
        f"e = Conv <strides = [2, 2]> (a, p) f = Add (c, e) y = {SAME} (f, d)",
        (1, 4, 18, 10),
        4,
    ),
    "pools": (
        f"a = {CONV} (x, w) b = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (a) "
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (b)",
        (1, 4, 22, 12),
        2,
    ),
    "dilated": (
        f"a = {CONV} (x, w) y = Conv <pads = [2, 2, 2, 2], dilations = [2, 2], group = 8> (a, d)",
        (1, 4, 20, 12),
        1,
    ),
    "far below": (f"a = {CONV} (x, w) y = Conv <group = 8, pads = [0, 1, 6, 1]> (a, d)", (1, 4, 20, 12), 1),
    "far above": (f"a = {CONV} (x, w) y = Conv <group = 8, pads = [6, 1, 0, 1]> (a, d)", (1, 4, 20, 12), 1),
    "skips rows": (
        f"a = {CONV} (x, w) y = MaxPool <kernel_shape = [1, 2], strides = [3, 2]> (a)",
        (1, 4, 24, 12),
        1,
    ),
    "batch": (f"a = {CONV} (x, w) b = {SAME} (a, d) y = {SAME} (b, d)", (2, 4, 12, 10), 2),
    "one dimension": ("a = Conv (x, v) y = MaxPool <kernel_shape = [2], strides = [2]> (a)", (1, 4, 60), 1),
    "two paces": (
        f"a = {CONV} (x, w) b = {HALF} (a, d) c = MaxPool <kernel_shape = [1, 2], strides = [1, 2]> (a) "
        "e = ReduceMean <axes = [2], keepdims = 1> (c) y = Add (b, e)",
        (1, 4, 12, 12),
        0,
    ),
}
WEIGHTS = {"w": (8, 4, 3, 3), "d": (8, 1, 3, 3), "q": (8, 8, 3, 3), "p": (8, 8, 1, 1), "v": (8, 4, 1)}


def floats(text: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    """A model whose result the caller gets channels last, as windows make it."""
    sizes, places = (", ".join(map(str, numbers)) for numbers in (shape, range(2, len(shape))))
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        f"agraph (float[{sizes}] x) => (float[] z) {{ {text} z = Transpose <perm = [0, {places}, 1]> (y) }}"
    )
    for i, (name, weights) in enumerate(WEIGHTS.items()):
        made = np.random.default_rng(i).standard_normal(weights).astype("f")
        proto.graph.initializer.append(numpy_helper.from_array(made, name))
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def lowered(proto: onnx.ModelProto, target: str) -> tuple[Program, Program]:
    """The programs of whole tensors and of streams that leave as little as they can."""
    region = fuse(formulate_graph(infer(read_model(proto))))
    record = find(target)
    layouts = assign_layouts(region, record)
    return (
        lower(copied(region), layouts, "streams", record, LoweringOptions("exact")),
        lower(region, layouts, "streams", record, LoweringOptions("exact", room=1)),
    )


def buffers(program: Program) -> list[str]:
    """The line buffers of a program, but for that between `y` and the copy behind it."""
    names = [t.name for k in program.kernels for t in k.scratch]
    return [n for n in names if n.endswith("_rows") and n != "y_rows"]


@pytest.mark.parametrize("target", ["c99", "x86-64-v3"])
@pytest.mark.parametrize(("text", "shape", "count"), NETS.values(), ids=NETS.keys())
def test_the_same_elements(text: str, shape: tuple[int, ...], count: int, target: str) -> None:
    whole, streams = lowered(floats(text, shape), target)
    given = {"x": np.random.default_rng(9).standard_normal(shape).astype("f")}
    (wanted,) = run(whole, given)
    assert not buffers(whole)
    assert len([n for n in buffers(streams) if not n.startswith("x_")]) == count
    assert verify_program(streams) == []  # every access is proved inside
    np.testing.assert_array_equal(run(streams, given)[0], wanted)
    if count:
        assert plan(streams).arena_bytes < plan(whole).arena_bytes
    if count > 2:
        agree_from_loops(streams, given, [wanted], 1e-5, target)


def test_what_two_fills_surround_is_whole() -> None:
    """Zeros for the sum, the least number for the maximum."""
    text = (
        f"a = {CONV} (x, w) b = {SAME} (a, d) "
        "c = MaxPool <kernel_shape = [3, 3], strides = [1, 1], pads = [1, 1, 1, 1]> (a) y = Add (b, c)"
    )
    whole, streams = lowered(floats(text, (1, 4, 12, 10)), "c99")
    given = {"x": np.random.default_rng(9).standard_normal((1, 4, 12, 10)).astype("f")}
    assert buffers(streams) == ["b_rows"]
    np.testing.assert_array_equal(run(streams, given)[0], run(whole, given)[0])


def test_rows_follow_each_other() -> None:
    _, streams = lowered(floats(*NETS["residual"][:2]), "x86-64-v3")
    (stream,) = (k for k in streams.kernels if "streamed" in k.generators)
    assert not is_parallel(next(k for k in parallelize(streams).kernels if k.nodes == stream.nodes))


def test_what_fits_is_whole() -> None:
    model = net("resnet8_int8")
    made = stages(model, Options(target="cortex-m4", max_ram=48 << 10))
    assert made.plan.whole_bytes is None
    assert not any("streamed" in k.generators for k in made.program.kernels)


@pytest.mark.parametrize(("name", "share"), [("mobilenet_int8", 0.5), ("resnet8_int8", 0.56)])
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
def test_half_the_memory_the_same_bytes(name: str, share: float, target: str) -> None:
    """MLPerf Tiny's nets in bytes: about half of the arena, and no MAC more. Line buffers have halos, which
    ResNet's whole images have not.
    """
    model = net(name)
    whole = ingot.compile(model, target=target, name="net")
    half = int(share * whole.manifest["sizes"]["arena_bytes"])
    split = ingot.compile(model, target=target, name="net", max_ram=half)
    sizes = split.manifest["sizes"]
    assert sizes["arena_bytes"] <= half
    assert sizes["arena_whole_bytes"] == whole.manifest["sizes"]["arena_bytes"]
    macs = [sum(k["macs"] for k in b.manifest["kernels"]) for b in (whole, split)]
    assert macs[0] == macs[1]
    shape = [int(n) for n in whole.manifest["inputs"][0]["shape"]]
    for seed in range(2):
        feeds = {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}
        np.testing.assert_array_equal(split.run(feeds)["y"], whole.run(feeds)["y"])


def test_the_costs_say_what_rows_save() -> None:
    bundle = ingot.compile(net("resnet8_int8"), target="cortex-m4", name="net", max_ram=20 << 10)
    (costs, *_) = bundle.tables()
    assert "row by row" in str(costs) and "35,648 bytes; no MAC is computed twice" in str(costs)


@pytest.mark.parametrize(
    ("rooms", "ram"), [({"tcm": 12 << 10, "sram": 20 << 10}, None), ({"tcm": 64 << 10}, 20 << 10)]
)
def test_rows_where_regions_are_too_small(rooms: dict[str, int], ram: int | None) -> None:
    """35,648 bytes of whole tensors: the same answers out of less, wherever it lies."""
    model = net("resnet8_int8")
    whole = ingot.compile(model, target="cortex-m4", name="net")
    split = ingot.compile(model, target="cortex-m4", name="net", memory=rooms, max_ram=ram)
    regions = split.manifest["memory"]
    assert all(r["arena_bytes"] <= rooms[r["name"]] for r in regions)
    assert sum(r["arena_bytes"] for r in regions) <= (ram or sum(rooms.values()))
    assert split.manifest["sizes"]["arena_whole_bytes"] == whole.manifest["sizes"]["arena_bytes"]
    shape = [int(n) for n in whole.manifest["inputs"][0]["shape"]]
    feeds = {"x": np.random.default_rng(3).standard_normal(shape).astype(np.float32)}
    np.testing.assert_array_equal(split.run(feeds)["y"], whole.run(feeds)["y"])


def test_regions_that_no_rows_fit_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"does not fit into tcm of 2,048 bytes.* has no place, \w+ lacks"
    ) as said:
        ingot.compile(net("resnet8_int8"), target="cortex-m4", name="net", memory={"tcm": 2048, "sram": 4096})
    assert "ingot quantize" not in str(said.value)  # it is


def test_what_no_rows_make_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"more than max_ram=4,096; step \d+ keeps "):
        ingot.compile(net("resnet8_int8"), target="cortex-m4", name="net", max_ram=4096)
