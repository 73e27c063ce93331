"""The contraction generator where a machine's caches decide: loops agree with the formulas on any of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from ingot.emit.statement import lines
from ingot.emit.vector import VectorPrinter
from ingot.formula.expr import Const, Lane
from ingot.formula.statements import For, Let, Madd, Prefetch, flatten
from ingot.frontends.onnx import read_model
from ingot.loops.choice import LOWERING, LoweringOptions
from ingot.loops.cuts import parts, pieces
from ingot.loops.evaluate import run
from ingot.loops.kernels.contraction.tiles import (
    Sizes,
    Tile,
    best_tile,
    is_by_element,
    segments,
    terms_per_iteration,
)
from ingot.loops.lower import lower
from ingot.loops.program import Program
from ingot.loops.region import formulate_graph
from ingot.loops.region_passes.fuse import fuse
from ingot.loops.region_passes.layout_assignment import assign_layouts
from ingot.loops.verify import require_proved
from ingot.ops.infer import infer
from ingot.targets import TARGETS

SMALL = replace(TARGETS["x86-64-v3"], caches=(256, 512, 1024))  # everything is far
LARGE = replace(TARGETS["x86-64-v3"], caches=(1 << 20, 1 << 24, 1 << 28))  # everything is near


def compiled(
    text: str, target: Any, how: LoweringOptions = LOWERING, **weights: tuple[int, ...]
) -> tuple[Program, dict[str, np.ndarray]]:
    """The program of a model in ONNX's text form, with random weights, and those."""
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
    made = {
        n: np.random.default_rng(i).standard_normal(s).astype("f") for i, (n, s) in enumerate(weights.items())
    }
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in made.items())
    region = fuse(formulate_graph(infer(read_model(proto))))
    program = lower(region, assign_layouts(region, target, how.fast), "test", target, how)
    require_proved(program)
    return program, made


def prefetches(program: Program) -> list[Prefetch]:
    return [s for k in program.kernels for s in flatten(k.body) if isinstance(s, Prefetch)]


POINTWISE = "agraph (float[1, 6, 5, 7] x) => (float[1, 75, 5, 7] y) { y = Conv(x, w) }"


@pytest.mark.parametrize("target", [SMALL, LARGE], ids=["small caches", "large caches"])
def test_the_caches_change_the_order_and_not_the_result(target: Any) -> None:
    program, made = compiled(POINTWISE, target, w=(75, 6, 1, 1))
    x = np.random.default_rng(9).standard_normal((1, 6, 5, 7)).astype("f")
    wanted = np.einsum("nchw,kc->nkhw", x, made["w"][:, :, 0, 0])
    np.testing.assert_allclose(run(program, {"x": x})[0], wanted, atol=1e-5)
    asked = prefetches(program)
    assert bool(asked) == (target is SMALL)
    assert all(p.level == 2 and p.ahead >= 4 * 6 * 8 for p in asked)


@pytest.mark.parametrize("channels, points", [(3, 1), (4, 1), (7, 1), (4, 2), (4, 3)])
def test_values_in_vectors_end_with_the_operand(channels: int, points: int) -> None:
    """As many terms a turn as there are chains would read beyond: 5, 6 or 7 by vectors of four."""
    for terms in range(33, 72):
        text = (
            f"agraph (float[{points}, {terms}] x) => (float[{points}, {channels}] y) {{ y = MatMul(x, w) }}"
        )
        program, made = compiled(text, TARGETS["aarch64"], w=(terms, channels))
        x = np.random.default_rng(9).standard_normal((points, terms)).astype("f")
        np.testing.assert_allclose(run(program, {"x": x})[0], x @ made["w"], atol=1e-4)


def test_small_weights_among_many_are_asked_for_ahead() -> None:
    one = "agraph (float[7, 16] x) => (float[7, 48] y) { y = MatMul(x, w) }"
    two = "agraph (float[7, 16] x) => (float[7, 9] y) { z = MatMul(x, w) y = MatMul(z, v) }"
    target = replace(
        TARGETS["x86-64-v3"], caches=(4096, 8192, 1 << 20)
    )  # the first has 3072 bytes of weights
    alone, _ = compiled(one, target, w=(16, 48))
    among, _ = compiled(two, target, w=(16, 48), v=(48, 9))
    assert not prefetches(alone)
    assert {p.level for p in prefetches(among)} == {2}


def test_weights_that_are_read_once_are_asked_for_ahead() -> None:
    text = "agraph (float[1, 40] x) => (float[1, 50] y) { y = MatMul(x, w) }"
    program, made = compiled(text, SMALL, w=(40, 50))
    x = np.random.default_rng(9).standard_normal((1, 40)).astype("f")
    np.testing.assert_allclose(run(program, {"x": x})[0], x @ made["w"], atol=1e-5)
    (kernel,) = program.kernels
    assert {(p.ahead, p.level) for p in prefetches(program)} == {(16384, 1)}
    printer = VectorPrinter(SMALL, lambda t: t.name)
    assert any(
        "__builtin_prefetch((const void *)((uintptr_t)&w" in row for row in lines(kernel.body, printer, {})
    )


@pytest.mark.parametrize("rows, target", [(64, "x86-64-v4"), (1024, "x86-64-v4"), (1024, "x86-64-v3")])
def test_far_columns_that_the_caller_has_are_asked_for_ahead(rows: int, target: str) -> None:
    """The next block's, by vectors of a line: a caller's memory need not begin with one."""
    text = f"agraph (float[{rows}, 512] x) => (float[24, 512] y) {{ y = MatMul(w, x) }}"
    program, made = compiled(text, TARGETS[target], w=(24, rows))
    x = np.random.default_rng(9).standard_normal((rows, 512)).astype("f")
    np.testing.assert_allclose(run(program, {"x": x})[0], made["w"] @ x, atol=1e-3)
    asked = {(p.at.tensor.name, p.level) for p in prefetches(program)}
    assert asked == ({("x", 1)} if rows > 64 and target == "x86-64-v4" else set())


def test_rows_go_around_the_channels_of_a_large_image() -> None:
    text = "agraph (float[1, 8, 40, 41] x) => (float[1, 70, 38, 39] y) { y = Conv(x, w) }"
    near, far = (
        compiled(text, replace(SMALL, caches=(4096, n, n)), w=(70, 8, 3, 3))[0] for n in (1 << 17, 1 << 22)
    )
    outermost = [next(s.var for s in flatten(p.kernels[0].body) if isinstance(s, For)) for p in (near, far)]
    assert outermost == ["oh", "oc"]


def test_pieces_differ_by_one() -> None:
    assert list(pieces(49, 14)) == [(0, 13, 13), (13, 49, 12)]
    assert list(pieces(28, 14)) == [(0, 28, 14)]
    assert list(pieces(3, 14)) == [(0, 3, 3)]


def test_the_last_register_is_as_narrow_as_serves() -> None:
    assert [(s.first, s.blocks, s.widths, s.channels) for s in segments(1000, 16, 3)] == [
        (0, 20, (16, 16, 16), 48),
        (960, 1, (16, 16, 8), 40),
    ]
    assert [s.widths for s in segments(58, 16, 4)] == [(16, 16, 16, 16)]
    assert [(s.widths, s.offsets) for s in segments(7, 8, 2, "repeated")] == [((4, 4), (0, 3))]
    assert [s.widths for s in segments(3, 8, 2, "repeated")] == [(1, 1, 1)]
    assert parts(14, 16) == (8, 4, 1, 1)


def test_the_last_register_repeats_channels_where_an_operand_has_no_more() -> None:
    assert [(s.first, s.size, s.widths, s.offsets) for s in segments(58, 16, 2, "repeated")] == [
        (0, 32, (16, 16), (0, 16)),
        (26, 32, (16, 16), (0, 16)),
    ]
    assert [(s.first, s.size, s.offsets) for s in segments(28, 16, 2, "repeated")] == [(0, 28, (0, 12))]


def test_rows_that_share_a_set_of_the_cache_are_few() -> None:
    apart, together = (Sizes(512, 16, (49,), 2048, (n,)) for n in (2048 * 4 + 64, 2048 * 4))
    assert best_tile(TARGETS["x86-64-v4"], apart).rows > 8 >= best_tile(TARGETS["x86-64-v4"], together).rows


PRODUCT = "agraph (float[5, 7] x) => (float[5, 8] y) { y = MatMul(x, w) }"


@pytest.mark.parametrize(("name", "by_element"), [("x86-64", False), ("i386", False), ("aarch64", True)])
def test_turns_of_four_terms_where_vectors_are_narrow(name: str, by_element: bool) -> None:
    """Seven terms: a turn of four, by elements of a vector where the target can, and three by themselves."""
    program, made = compiled(PRODUCT, TARGETS[name], w=(7, 8))
    x = np.random.default_rng(9).standard_normal((5, 7)).astype("f")
    np.testing.assert_allclose(run(program, {"x": x})[0], x @ made["w"], atol=1e-5)
    kernel = next(k for k in program.kernels if k.macs)
    terms = [
        s for s in flatten(kernel.body) if isinstance(s, For) and any(isinstance(m, Madd) for m in s.body)
    ]
    turn, rest = terms[:2]
    assert (turn.step, rest.step) == (4, 1)
    rows = [s for s in turn.body if isinstance(s, Let) and s.name.startswith("v")]
    taken = [s for s in turn.body if isinstance(s, Let) and isinstance(s.value, Lane)]
    assert (len(taken) == 4 * len(rows) > 0) == by_element
    assert not [s for s in rest.body if isinstance(s, Let) and isinstance(s.value, Lane)]


def test_no_more_terms_in_a_turn_than_there_are() -> None:
    target = TARGETS["x86-64"]
    assert [terms_per_iteration(target, Tile(2, 4), n) for n in (1, 3, 64)] == [1, 3, 4]
    assert terms_per_iteration(target, Tile(6, 4), 64) == 2  # enough in a turn without
    assert terms_per_iteration(TARGETS["x86-64-v3"], Tile(2, 4), 64) == 1


def test_by_element_needs_registers_for_the_rows() -> None:
    neon = TARGETS["aarch64"]
    assert is_by_element(neon, 4, Tile(7, 3)) and not is_by_element(neon, 4, Tile(7, 4))
    assert not is_by_element(neon, 2, Tile(7, 3))  # float64
    assert not is_by_element(TARGETS["x86-64"], 4, Tile(1, 1))


PADS = [
    # kernel, strides, dilations, pads: the last ones are wider than the kernel, some windows see nothing
    ("3,3", "1,1", "1,1", "1,1,1,1"),
    ("3,3", "2,2", "1,1", "1,1,1,1"),
    ("3,3", "1,1", "2,2", "2,2,2,2"),
    ("5,3", "3,1", "1,2", "3,2,1,4"),
    ("2,2", "3,3", "1,1", "4,4,4,4"),
]


@pytest.mark.parametrize("kernel, strides, dilations, pads", PADS)
def test_rows_beside_the_image_are_skipped(kernel: str, strides: str, dilations: str, pads: str) -> None:
    rows, columns = map(int, kernel.split(","))
    shape = {"x": (1, 16, 7, 9), "w": (24, 16, rows, columns)}
    text = f"""agraph (float[1, 16, 7, 9] x) => (float[N, M, H, W] y) {{
        y = Conv <pads = [{pads}], strides = [{strides}], dilations = [{dilations}]> (x, w)
    }}"""
    program, made = compiled(text, TARGETS["x86-64-v3"], LoweringOptions(fast=False), w=shape["w"])
    x = np.random.default_rng(9).standard_normal(shape["x"]).astype("f")
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
    proto.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, shape["w"]))
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x, "w": made["w"]})
    np.testing.assert_allclose(run(program, {"x": x})[0], wanted, atol=1e-4)
    loops = [s for k in program.kernels for s in flatten(k.body) if isinstance(s, For)]
    assert any(not isinstance(s.hi, Const) for s in loops)


def test_the_tile_of_rows_that_skip_is_one_row() -> None:
    """Of 4 x 4 points a tile of two rows would go through all rows of the window."""
    text = """agraph (float[1, 32, 7, 7] x) => (float[1, 96, 4, 4] y) {
        y = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)
    }"""
    program, _ = compiled(text, TARGETS["x86-64-v4"], w=(96, 32, 3, 2))
    loops = [s for k in program.kernels for s in flatten(k.body) if isinstance(s, For)]
    assert [s.step for s in loops if s.var == "oh"] == [1]
    assert any(not isinstance(s.lo, Const) for s in loops)
