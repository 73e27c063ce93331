"""The loop level: its evaluator on kernels written by hand, its verifier on wrong ones, the text form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ingot.driver import stages
from ingot.errors import InternalError
from ingot.formula.compute import Compute, Reduction, accumulator
from ingot.formula.evaluate import IndexOutOfRange
from ingot.formula.expr import (
    Array,
    Cast,
    Const,
    Expr,
    Lane,
    Load,
    Param,
    Select,
    Tensor,
    Var,
    binary,
    constant,
    maximum,
    minimum,
    with_lanes,
)
from ingot.formula.statements import (
    Assign,
    Check,
    For,
    Instruction,
    Let,
    Madd,
    Statement,
    Store,
    When,
    statements_text,
)
from ingot.formula.types import BOOL, FLOAT32, INDEX, INT8, INT32, INT64, UINT8, DType
from ingot.loops.evaluate import Compiler, run
from ingot.loops.kernels.naive import naive
from ingot.loops.layout import Storage
from ingot.loops.program import Alias, Branch, Call, Copy, Kernel, Program, Repeat, Step, program_text
from ingot.loops.program_passes.parallel import is_independent
from ingot.loops.verify import pressure, require_proved, verify_kernel, verify_program
from ingot.options import Options
from tests.probes.levels import build

Golden = Callable[[str, str], None]
DIGITS = Path(__file__).parent.parent / "examples" / "digits"
i, j, k = Var("i"), Var("j"), Var("k")


def vec(load: Load, lanes: int) -> Load:
    return with_lanes(load, lanes)


def reg(name: str, dtype: DType = FLOAT32) -> Var:
    return Var(name, None, dtype)


def loop(name: str, hi: Expr | int, *body: Statement, lo: Expr | int = 0, step: int = 1) -> For:
    first = Const(lo) if isinstance(lo, int) else lo
    return For(name, first, Const(hi) if isinstance(hi, int) else hi, step, body)


def kernel(*body: Statement, parameters: tuple[Tensor, ...], params: tuple[Param, ...] = ()) -> Kernel:
    return Kernel("k", parameters, body, ("node",), 0, params)


def program(x: Tensor, y: Tensor, *body: Statement, constants: tuple[Tensor, ...] = ()) -> Program:
    """One kernel that makes y from x and constants."""
    parameters = (x, *constants, y)
    return Program("p", (x,), (y,), constants, (Call(kernel(*body, parameters=parameters), parameters),))


def result(p: Program, x: Array, params: Mapping[str, int] | None = None) -> Array:
    """What the program makes of x, which the verifier must approve and the compiled C must agree with."""
    require_proved(p)
    name = p.inputs[0].name
    found = run(p, {name: x}, params)[0]
    compiled = build(p).run({name: x})[p.outputs[0].name]
    written = found == found  # what nothing writes is NaN here and anything in C
    assert np.array_equal(compiled[written], found[written])
    return found


def tensors(n: int, dtype: DType = FLOAT32, m: int | None = None) -> tuple[Tensor, Tensor]:
    return Tensor("x", dtype, (n,)), Tensor("y", dtype, (n if m is None else m,))


# -- the evaluator


def dot_product() -> Program:
    """y[0] = sum of x[i] * w[i], four lanes at a time, the rest one by one."""
    x, y = tensors(10, m=1)
    w = constant(np.arange(10, dtype=np.float32), "w")
    zero = Const(0.0, FLOAT32)
    lanes = [Lane(reg("acc"), n) for n in range(4)]
    total = reg("rest") + ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]))
    return program(
        x,
        y,
        Let("acc", zero, 4, True),
        loop("i", 8, Madd("acc", vec(x[i], 4), vec(w[i], 4), 4), step=4),
        Let("rest", zero, 1, True),
        loop("i", 10, Madd("rest", x[i], w[i]), lo=8),
        Store(y[0], total),
        constants=(w,),
    )


def test_vector_registers_and_their_lanes() -> None:
    x = np.arange(10, dtype=np.float32)[::-1].copy()
    assert result(dot_product(), x).tolist() == [float(x @ np.arange(10))]


def test_a_scalar_beside_a_vector_is_broadcast_and_a_vector_select_takes_lanes() -> None:
    x, y = tensors(8)
    half = binary("lt", vec(x[i], 4), Const(0.0, FLOAT32))
    p = program(x, y, loop("i", 8, Store(y[i], Select(half, vec(x[i], 4) * 10, x[0]), 4), step=4))
    assert result(p, np.array([7, -1, 2, -3, -4, 5, -6, 1], np.float32)).tolist() == [
        7,
        -10,
        7,
        -30,
        -40,
        7,
        -60,
        7,
    ]


def test_lanes_may_run_on_in_row_major_order_but_not_leave_the_tensor() -> None:
    x, y = Tensor("x", FLOAT32, (3, 2)), Tensor("y", FLOAT32, (3, 2))
    copy = loop("i", 2, Store(y[i, 0], vec(x[i, 0], 4), 4))
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert np.array_equal(result(program(x, y, copy), data), data)
    beyond = program(x, y, loop("i", 3, Store(y[i, 0], vec(x[i, 0], 4), 4)))
    with pytest.raises(InternalError, match="4 lanes"):
        run(beyond, {"x": data})


def test_loops_of_different_lengths_side_by_side() -> None:
    """Triangular sums: the inner loop's bounds depend on the outer one, which runs all at once."""
    x, y = tensors(6)
    body = (
        Let("acc", Const(0.0, FLOAT32), 1, True),
        loop("k", i + 1, Assign("acc", reg("acc") + x[k]), lo=i % 2),
    )
    p = program(x, y, loop("i", 6, *body, Store(y[i], reg("acc"))))
    data = np.array([1, 2, 4, 8, 16, 32], np.float32)
    assert result(p, data).tolist() == [data[n % 2 : n + 1].sum() for n in range(6)]


def test_clipped_windows_and_guards_run_only_where_they_hold() -> None:
    x, y = tensors(6)
    lo, hi = maximum(0, Const(1) - i), minimum(3, Const(7) - i)
    taps = loop("k", hi, Assign("acc", reg("acc") + x[i + k - 1]), lo=lo)
    edge = When((i >= 1) & (i < 5), (Assign("acc", reg("acc") - x[i - 1]),), (Assign("acc", reg("acc") * 0),))
    p = program(
        x, y, loop("i", 6, Let("acc", Const(0.0, FLOAT32), 1, True), taps, edge, Store(y[i], reg("acc")))
    )
    data = np.array([1, 2, 4, 8, 16, 32], np.float32)
    assert result(p, data).tolist() == [0, 6, 12, 24, 48, 0]


def test_a_select_reads_only_the_side_it_takes() -> None:
    x, y = tensors(4)
    p = program(x, y, loop("i", 4, Store(y[i], Select(i < 3, x[i + 1], x[0]))))
    assert result(p, np.array([1, 2, 3, 4], np.float32)).tolist() == [2, 3, 4, 1]


WRITES: list[tuple[Expr, Callable[[int, int], int]]] = [
    (i // 2 + j, lambda a, b: a // 2 + b),
    (j + 0, lambda a, b: b),
    (Const(5) - i - j, lambda a, b: 5 - a - b),
    (maximum(i, 1) + maximum(j, 1), lambda a, b: max(a, 1) + max(b, 1)),
]


@pytest.mark.parametrize(("to", "place"), WRITES, ids=range(len(WRITES)))
def test_the_last_write_to_a_place_stays(to: Expr, place: Callable[[int, int], int]) -> None:
    """Every cell holds what the last iteration in the C's order left there, the others what was there."""
    x, y = tensors(1, m=6)
    p = program(x, y, loop("i", 4, loop("j", 3, Store(y[to], Cast(i * 10 + j, FLOAT32)))))
    cells = {place(a, b): float(10 * a + b) for a in range(4) for b in range(3)}
    found = result(p, np.zeros(1, np.float32))
    assert {n: v for n, v in enumerate(found.tolist()) if v == v} == cells


def test_what_an_iteration_wrote_the_next_one_reads() -> None:
    x, y = tensors(5)
    p = program(x, y, Store(y[0], x[0]), loop("i", 5, Store(y[i], y[i - 1] + x[i]), lo=1))
    assert result(p, np.ones(5, np.float32)).tolist() == [1, 2, 3, 4, 5]


def test_views_share_their_bytes() -> None:
    """A kernel fills a matrix; the next one reads the same bytes as a vector."""
    x, a, y = Tensor("x", FLOAT32, (6,)), Tensor("a", FLOAT32, (6,)), Tensor("y", FLOAT32, (6,))
    view = Tensor("view", FLOAT32, (2, 3))
    fill = loop("i", 2, loop("j", 3, Store(view[i, j], x[i + j * 2])))
    turn = loop("i", 6, Store(y[i], a[Const(5) - i]))
    steps: tuple[Step, ...] = (
        Call(kernel(fill, parameters=(x, view)), (x, view)),
        Call(kernel(turn, parameters=(a, y)), (a, y)),
    )
    p = Program("p", (x,), (y,), (), steps, {view: Alias(a)})
    assert result(p, np.arange(6, dtype=np.float32)).tolist() == [5, 3, 1, 4, 2, 0]


def test_branches_and_loops_of_calls() -> None:
    """while (y < 10 and turns < 3) y = y + y; then y = -1 where it is not positive."""
    x, y = Tensor("x", FLOAT32, (1,)), Tensor("y", FLOAT32, (1,))
    small, turn, trips = Tensor("small", BOOL, ()), Tensor("turn", INT64, ()), constant(np.array(3), "trips")
    test = kernel(Store(small[()], y[0] < 10), parameters=(y, small))
    double = kernel(Store(y[0], y[0] + y[0]), parameters=(y,))
    lose = kernel(Store(y[0], Const(-1.0, FLOAT32)), parameters=(y,))
    positive = kernel(Store(small[()], y[0] > 0), parameters=(y, small))
    body: tuple[Step, ...] = (Call(double, (y,)), Call(test, (y, small)))
    steps: tuple[Step, ...] = (
        Copy(x, y),
        Call(test, (y, small)),
        Repeat(turn, trips, small, body),
        Call(positive, (y, small)),
        Branch(small, (), (Call(lose, (y,)),)),
    )
    p = Program("p", (x,), (y,), (trips,), steps)
    ends = {3.0: 12.0, 1.0: 8.0, 11.0: 11.0, -3.0: -1.0}
    assert {v: float(result(p, np.array([v], np.float32))[0]) for v in ends} == ends


def test_unwritten_memory_is_not_a_number() -> None:
    x, y = tensors(4)
    p = program(x, y, loop("i", 2, Store(y[i * 2], x[i])))
    assert np.isnan(result(p, np.zeros(4, np.float32))).tolist() == [False, True, False, True]


def test_a_failed_check_stops() -> None:
    x, y = tensors(3, INT64)
    at = reg("at", INT64)
    checked = Check((at >= 0) & (at < 3), "ERR_INDEX")
    p = program(x, y, loop("i", 3, Let("at", x[i]), checked, Store(y[i], x[Cast(at, INDEX)])))
    assert result(p, np.array([2, 0, 1])).tolist() == [1, 2, 0]
    with pytest.raises(IndexOutOfRange, match="ERR_INDEX"):
        run(p, {"x": np.array([2, 0, 3])})


def test_a_run_time_extent() -> None:
    n = Param("N", 1, 8)
    x, y = Tensor("x", FLOAT32, (n, 2)), Tensor("y", FLOAT32, (n, 2))
    body = loop("i", n, loop("j", 2, Store(y[i, j], x[n - 1 - i, j])))
    p = Program("p", (x,), (y,), (), (Call(kernel(body, parameters=(x, y), params=(n,)), (x, y)),), {}, (n,))
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert np.array_equal(result(p, data, {"N": 3}), data[::-1])


@pytest.mark.parametrize("dtype", [INT8, UINT8])
def test_dot4_sums_four_products_into_every_lane(dtype: DType) -> None:
    """Four groups of four bytes against one group of weights that all lanes share, and against their own."""
    x, y = Tensor("x", dtype, (16,)), Tensor("y", INT32, (8,))
    rng = np.random.default_rng(3)
    w = constant(rng.integers(-128, 128, 16, np.int8), "w")
    body = (
        Let("acc", Const(5, INT32), 4, True),
        Instruction("dot4", "acc", vec(x[0], 16), vec(w[0], 4), 4),
        Store(y[0], reg("acc", INT32), 4),
        Instruction("dot4", "acc", vec(x[0], 16), vec(w[0], 16), 4),
        Store(y[4], reg("acc", INT32), 4),
    )
    data = rng.integers(dtype.lowest, dtype.highest + 1, 16, dtype.numpy)
    groups, weights = data.reshape(4, 4).astype(int), w.value.reshape(4, 4).astype(int)  # type: ignore[union-attr]
    first = 5 + groups @ weights[0]
    assert result(program(x, y, *body, constants=(w,)), data).tolist() == [
        *first,
        *(first + (groups * weights).sum(1)),
    ]


@pytest.mark.parametrize("target", ["c99", "x86-64", "x86-64-v3"])
def test_wide_steps_change_no_bit(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digits net, its independent loops at once and one iteration after the other."""
    with np.load(DIGITS / "test_images.npz") as tests:
        image = tests["images"][:1].astype(np.float32)
    p = stages(DIGITS / "digits.onnx", Options(target=target)).program
    wide = run(p, {"image": image})[0]
    monkeypatch.setattr(Compiler, "is_independent", lambda self, s: len(list(_loops(s))) > 3)
    assert np.array_equal(run(p, {"image": image})[0], wide)


def _loops(s: For) -> list[For]:
    return [s] + [inner for b in s.body if isinstance(b, For) for inner in _loops(b)]


# -- the verifier

X, Y = tensors(8)
W = constant(np.zeros(8, np.float32), "w")
ZERO = Const(0.0, FLOAT32)
WRONG: dict[str, tuple[tuple[Statement, ...], str]] = {
    "use before declaration": ((Store(Y[0], reg("a")), Let("a", X[0])), "before it is declared"),
    "use after its block": ((loop("i", 8, Let("a", X[i])), Store(Y[0], reg("a"))), "before it is declared"),
    "declared twice": ((Let("a", X[0]), loop("i", 8, Let("a", X[i]))), "declared twice"),
    "one name for two loops": ((loop("i", 8, loop("i", 8, Store(Y[i], X[i]))),), "declared twice"),
    "assigned though constant": ((Let("a", X[0]), Assign("a", X[1])), "not a mutable register"),
    "assigned though unknown": ((Madd("a", X[0], X[1]),), "not a mutable register"),
    "another type": ((Let("a", ZERO, 1, True), Assign("a", Const(1, INT32))), "int32 value"),
    "another type stored": ((Store(Y[0], Const(1, INT32)),), "int32 value"),
    "a type used wrongly": (
        (Let("a", ZERO), Store(Y[0], reg("a") + Cast(reg("a", INT32), FLOAT32))),
        "used as",
    ),
    "more lanes": ((Let("a", ZERO, 4, True), Assign("a", vec(X[0], 8), 4)), "8 lanes where 4"),
    "mixed lanes": ((Store(Y[0], vec(X[0], 4) + vec(X[0], 8), 4),), "mixes"),
    "lanes of a register": ((Let("a", ZERO, 4, True), Assign("a", vec(X[0], 8), 8)), "has 4 lanes"),
    "no such lane": ((Let("a", vec(X[0], 4), 4), Store(Y[0], Lane(reg("a"), 4))), "no such lane"),
    "vector into a scalar": ((Let("a", vec(X[0], 4)),), "4 lanes where 1"),
    "not a parameter": ((Store(Y[0], Tensor("z", FLOAT32, (8,))[0]),), "not a parameter"),
    "a constant is written": ((Store(W[0], ZERO),), "is a constant"),
    "beyond the end": ((Store(Y[8], ZERO),), "lies outside"),
    "before the start": ((loop("i", 8, Store(Y[Const(-1) - i], X[i])),), "lies outside"),
    "condition of floats": ((When(X[0], ()),), "condition of type"),
    "unknown instruction": (
        (Let("a", Const(0, INT32), 4, True), Instruction("dot9", "a", X[0], X[0], 4)),
        "no such",
    ),
    "a guard of formulas": ((Store(Y[0], X.at(9, outside=0.0)),), "not a plain access"),
    "steps of nothing": ((loop("i", 8, step=0),), "not a loop"),
    "run-time extent from nowhere": ((loop("i", Param("N", 1, 8), Store(Y[i], ZERO)),), "not a parameter of"),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_verifier_catches(name: str) -> None:
    body, message = WRONG[name]
    with pytest.raises(InternalError, match=message):
        verify_kernel(kernel(*body, parameters=(X, W, Y)))


UNPROVED: dict[str, Statement] = {
    "one too many": loop("i", 9, Store(Y[i], ZERO)),
    "lanes over the end": loop("i", 8, Store(Y[i], X[0], 4), step=2),
    "clipped too late": loop("i", 8, loop("k", minimum(9, i + 2), Store(Y[k], ZERO))),
    "guarded too wide": loop("i", 12, When(i < 8, (Store(Y[i + 1], ZERO),))),
}


@pytest.mark.parametrize("name", UNPROVED)
def test_what_may_leave_a_tensor_is_counted_and_strictly_refused(name: str) -> None:
    p = program(X, Y, UNPROVED[name])
    assert len(verify_program(p)) == 1
    with pytest.raises(InternalError, match="cannot be proved"):
        require_proved(p)


def call(*body: Statement, parameters: tuple[Tensor, ...], arguments: tuple[Tensor, ...]) -> Call:
    return Call(kernel(*body, parameters=parameters), arguments)


A, B, OTHER = Tensor("a", FLOAT32, (8,)), Tensor("b", FLOAT32, (8,)), Tensor("o", FLOAT32, (2, 4))
COPY = loop("i", 8, Store(Y[i], X[i]))
CHOICE = constant(np.array(True), "choice")
STEPS: dict[str, tuple[tuple[Step, ...], str]] = {
    "nothing writes the output": ((), "never written"),
    "read before written": ((call(COPY, parameters=(X, Y), arguments=(B, A)),), "b is read before"),
    "copy of nothing": ((Copy(B, A),), "b is read before"),
    "input is written": (
        (Copy(X, A), call(COPY, parameters=(X, Y), arguments=(A, X))),
        "belongs to others",
    ),
    "constant is written": ((Copy(X, W),), "belongs to others"),
    "too few arguments": ((call(COPY, parameters=(X, Y), arguments=(X,)),), "1 arguments"),
    "argument of another shape": ((call(COPY, parameters=(X, Y), arguments=(X, OTHER)),), "for y"),
    "read and written at once": (
        (Copy(X, A), call(COPY, parameters=(X, Y), arguments=(A, A))),
        "share elements",
    ),
    "written on one side only": (
        (Branch(CHOICE, (Copy(X, A),), ()),),
        "never written",
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_verifier_catches_wrong_steps(name: str) -> None:
    steps, message = STEPS[name]
    p = Program("p", (X,), (A,), (W, CHOICE), steps)
    with pytest.raises(InternalError, match=message):
        verify_program(p)


def test_vector_registers_live_at_once_are_counted() -> None:
    """Two accumulators live through the loop, the loaded vector inside it, the scalar does not count."""
    body = (
        Let("c0", ZERO, 4, True),
        Let("c1", ZERO, 4, True),
        Let("s", ZERO),
        loop(
            "k",
            8,
            Let("w", vec(W[k], 4), 4),
            Madd("c0", X[k], reg("w"), 4),
            Madd("c1", X[0], reg("w"), 4),
            step=4,
        ),
        Store(Y[0], reg("c0"), 4),
        Let("late", vec(X[0], 4), 4),
        Store(Y[4], reg("c1") + reg("late"), 4),
    )
    assert verify_kernel(kernel(*body, parameters=(X, W, Y))) == []
    assert pressure(body) == 3


# -- the text form


def test_programs_read_as_they_are(golden: Golden) -> None:
    golden("program_dot_product", program_text(dot_product()))


def test_naive_loops_clip_and_guard(golden: Golden) -> None:
    """A convolution with padding: the taps are clipped; of two padded operands each is guarded instead."""
    x, w, y = Tensor("x", FLOAT32, (3, 9)), Tensor("w", FLOAT32, (2, 3, 3)), Tensor("y", FLOAT32, (2, 5))
    oc, o, ic, tap = Var("oc", 2), Var("o", 5), Var("ic", 3), Var("k", 3)
    read = x.at((ic, o * 2 + tap - 1), outside=0.0)
    one = Reduction("sum", (ic, tap), ZERO, read * w[oc, ic, tap])
    two = Reduction("sum", (ic, tap), ZERO, read * x.at((ic, o + tap - 2), outside=1.0))
    acc = accumulator(FLOAT32)
    for name, r in (("clipped", one), ("guarded", two)):
        body = naive((Compute(y, (oc, o), acc, r),), Storage({}, {}))
        golden(f"loops_{name}", "\n".join(statements_text(body, "")))


# Independence -----------------------------------------------------------------------------------------------


def test_loops_of_one_name_reach_as_far_as_the_farthest() -> None:
    """for i: y[4 i + j] for j < 8, then for j < 2: the first overlaps with its neighbours."""
    y, i, j = Tensor("y", FLOAT32, (40,)), Var("i"), Var("j")
    store = Store(y[i * 4 + j], Const(0.0, FLOAT32))
    wide, narrow = (For("j", Const(0), Const(n), 1, (store,)) for n in (8, 2))
    assert not is_independent(For("i", Const(0), Const(8), 1, (wide, narrow)))
    assert not is_independent(For("i", Const(0), Const(8), 1, (narrow, wide)))
    assert is_independent(For("i", Const(0), Const(8), 1, (narrow, narrow)))


def test_without_generators_every_stage_is_naive_loops() -> None:
    """Every product is summed in one number; the outputs stay. Halos are still filled in vectors."""
    x = np.load(DIGITS / "test_images.npz")["images"][:1].astype("f")
    options = Options(target="x86-64-v3", name="digits")
    fast, plain = (
        stages(DIGITS / "digits.onnx", replace(options, generators=g)).program for g in (True, False)
    )
    sums = [
        [line.split(" += ")[0].strip() for line in program_text(p).split("\n") if " += " in line]
        for p in (fast, plain)
    ]
    assert "acc:1" not in sums[0] and set(sums[1]) == {"acc:1"}
    np.testing.assert_allclose(run(plain, {"image": x})[0], run(fast, {"image": x})[0], rtol=1e-5, atol=1e-5)
