"""Networks of integers on processors without floats: no instruction, no call of one, and the same bits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import parser

import ingot
from ingot.audit.decode import instructions
from ingot.binary.objects import functions, read_object, undefined_symbols
from ingot.driver import stages
from ingot.formula.evaluate import value
from ingot.formula.expr import Binary, Cast, Const, Expr, Select, Tensor, Unary, Var, cast, walk
from ingot.formula.statements import expressions, flatten
from ingot.formula.types import FLOAT32, INT8, INT32, UINT8, DType
from ingot.loops.evaluate import run
from ingot.loops.program import Program, touched
from ingot.loops.soft_floats import SoftFloats
from ingot.loops.whole_sums import rounded
from ingot.options import Options
from ingot.targets import TARGETS
from tests.corpus import CASES

Array = np.ndarray[Any, Any]
WITHOUT = [t.name for t in TARGETS.values() if not t.has_floats]
NETS = [c for c in CASES if c.name.endswith("_bytes")]
OF_FLOATS = re.compile(
    r"__(aeabi_(([fd]|c[fd]cmp|[fd]cmp)\w*|u?[il]2[fd])|\w*[sd]f(2|3|si|di)?|(float|fix)\w+)$"
)
INSTRUCTION = re.compile(r"(v|f(?!ence)|c\.f)\w")  # of Arm's and RISC-V's units
FLOATS = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { y = Mul(x, x) }"""


def holds_floats(program: Program) -> bool:
    tensors = {
        *touched(program.steps),
        *program.constants,
        *(t for k in program.kernels for t in k.parameters),
    }
    nodes = (n for k in program.kernels for s in flatten(k.body) for e in expressions(s) for n in walk(e))
    return any(t.type.is_float for t in tensors) or any(n.dtype.is_float for n in nodes)


@pytest.mark.parametrize("target", WITHOUT)
def test_objects_have_no_floats(target: str) -> None:
    for case in NETS[:3]:
        code = ingot.compile(case.model, target=target, name=case.name).object
        assert [n for n in undefined_symbols(code) if OF_FLOATS.match(n)] == []
        file = read_object(code)
        texts = [i.text for f in functions(file) for i in instructions(file, f)]
        assert [t for t in texts if INSTRUCTION.match(t)] == [], case.name
        assert len(texts) > 100 or TARGETS[target].name == "lanai"  # which nothing decodes


def test_names_and_instructions_of_floats_are_known() -> None:
    """What the test above looks for is what a network of floats has."""
    names = undefined_symbols(ingot.compile(parser.parse_model(FLOATS), target="cortex-m3", name="g").object)
    assert names and all(OF_FLOATS.match(n) for n in names)
    assert all(map(OF_FLOATS.match, ("__aeabi_i2f", "__addsf3", "__floatsisf", "__gtsf2", "__fixsfsi")))
    assert not any(map(OF_FLOATS.match, ("__aeabi_lmul", "__aeabi_uidiv", "__clzsi2", "__moddi3")))
    file = read_object(ingot.compile(parser.parse_model(FLOATS), target="cortex-m7", name="g").object)
    assert any(INSTRUCTION.match(i.text) for f in functions(file) for i in instructions(file, f))


@pytest.mark.parametrize("case", NETS, ids=lambda c: c.name)
def test_the_program_on_bits_computes_the_same(case: Any) -> None:
    """In the evaluator, to the bit what the program on floats does."""
    plain, whole = (stages(case.model, Options(target=t)).program for t in ("c99", "cortex-m3"))
    assert holds_floats(plain) and not holds_floats(whole)
    for a, b in zip(run(plain, case.feeds), run(whole, case.feeds), strict=True):
        assert (
            np.max(np.abs(a.astype(int) - b.astype(int))) <= case.steps
        )  # functions are the C library's here


def test_networks_with_floats_at_the_edge_keep_them() -> None:
    assert holds_floats(stages(parser.parse_model(FLOATS), Options(target="cortex-m3")).program)


GRID = {"i": np.arange(256)[:, None], "j": np.arange(256)[None, :]}


def added(scales: Array, zeros: Array, kinds: tuple[DType, ...]) -> tuple[Expr, dict[Tensor, Array]]:
    """What a residual addition rounds, of the bytes x[i] and y[j]; all there are of each."""
    tensors = [Tensor(n, k, (256,)) for n, k in zip("xy", kinds, strict=True)]
    parts = [
        cast(cast(t[Var(i, 256)], INT32) - int(z), FLOAT32) * Const(float(s), FLOAT32)
        for t, i, z, s in zip(tensors, GRID, zeros, scales, strict=False)
    ]
    bytes_ = {t: np.arange(int(t.type.lowest), int(t.type.highest) + 1).astype(t.type.numpy) for t in tensors}
    return Binary("div", Binary("add", *parts), Const(float(scales[2]), FLOAT32)), bytes_


@pytest.mark.parametrize("seed", range(12))
def test_sums_of_scaled_bytes_are_rounded_as_floats_are(seed: int) -> None:
    """All pairs of bytes, any scales; nearly all of them without a float."""
    random = np.random.default_rng(seed)
    kinds = tuple((INT8, UINT8)[k] for k in random.integers(0, 2, 2))
    zeros = np.array([random.integers(int(k.lowest), int(k.highest) + 1) for k in kinds])
    e, given = added((2.0 ** random.uniform(-9, -3, 3)).astype(np.float32), zeros, kinds)
    found = rounded(e)
    assert found is not None
    whole, is_near = (value(part, given, GRID) for part in (found.whole, found.is_near))
    rounds = Cast(Unary("round", e), INT32)
    wanted = value(rounds, given, GRID)
    assert np.array_equal(whole[~is_near], wanted[~is_near])
    assert is_near.mean() < 0.02
    assert np.array_equal(value(SoftFloats().expression(rounds), given, GRID), wanted)


def test_sums_that_are_often_ties_are_rounded_to_even() -> None:
    e, given = added(np.array([0.25, 0.25, 0.5]), np.array([3, 250]), (UINT8, UINT8))
    rounds = Cast(Unary("round", e), INT32)
    assert np.array_equal(value(SoftFloats().expression(rounds), given, GRID), value(rounds, given, GRID))


def test_bytes_that_one_byte_decides_are_looked_up() -> None:
    x = Tensor("x", UINT8, (4,))
    scaled = Unary("sigmoid", cast(x[0], FLOAT32) * Const(0.03, FLOAT32))
    y = Cast(Binary("min", Unary("round", scaled * 255.0), Const(255.0, FLOAT32)), UINT8)
    floats = SoftFloats()
    found = floats.expression(y)
    (table,) = floats.tables
    assert table.shape == (256,) and not any(n.dtype.is_float for n in walk(found))
    assert table.value is not None
    wanted = np.rint(255 / (1 + np.exp(-0.03 * np.arange(256))))
    assert np.max(np.abs(table.value.astype(int) - wanted)) <= 1
    assert floats.expression(y) == found and len(floats.tables) == 1


def test_bytes_that_their_place_decides_too_are_computed() -> None:
    """A part of a concatenation, padded where it ends."""
    i, x = Var("i", 4), Tensor("x", UINT8, (4,))
    known = Select(i < 3, cast(cast(x[i], INT32), FLOAT32) * Const(0.03, FLOAT32), Const(0.5, FLOAT32))
    y = Cast(Binary("min", Unary("round", known / Const(0.07, FLOAT32)), Const(255.0, FLOAT32)), UINT8)
    floats = SoftFloats()
    found, given = floats.expression(y), {x: np.array([3, 200, 91, 7], np.uint8)}
    grid = {"i": np.arange(4)}
    assert not floats.tables and np.array_equal(value(found, given, grid), value(y, given, grid))
