"""The formula level: evaluator, index algebra against brute force, proofs, verifier, text form."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from ingot.errors import InternalError, UnsupportedError
from ingot.formula.compute import Compute, Formula, Reduction, Scan, accumulator, formula_text
from ingot.formula.evaluate import IndexOutOfRange, evaluate, value
from ingot.formula.expr import (
    Array,
    Bitcast,
    Cast,
    Const,
    Expr,
    Gathered,
    Param,
    Select,
    Tensor,
    Unary,
    Var,
    binary,
    constant,
    maximum,
    minimum,
    select,
    transform,
)
from ingot.formula.extents import alike, extent
from ingot.formula.index import as_expr, interval, simplify, span
from ingot.formula.prove import Scope, keeps_within
from ingot.formula.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    INDEX,
    INT8,
    INT32,
    INT64,
    UINT8,
    DType,
)
from ingot.formula.verify import verify_formula

Golden = Callable[[str, str], None]
U, V, W = Var("u", 4), Var("v", 3), Var("w", 5)


def zero(dtype: DType = FLOAT32) -> Const:
    return Const(0.0 if dtype.is_float else 0, dtype)


def matrix_product() -> Formula:
    a, b, y = Tensor("a", FLOAT32, (4, 5)), Tensor("b", FLOAT32, (5, 3)), Tensor("y", FLOAT32, (4, 3))
    r = Reduction("sum", (W,), zero(), a[U, W] * b[W, V])
    return Formula((a, b), (Compute(y, (U, V), accumulator(FLOAT32), r),), (y,))


def running_sum() -> Formula:
    """total[i] goes on from step to step, y[t, i] keeps each of them."""
    x, y = Tensor("x", INT32, (6, 4)), Tensor("y", INT32, (6, 4))
    total, t = Tensor("total", INT32, (4,)), Var("t", 6)
    start = Compute(total, (U,), zero(INT32))
    step = Compute(total, (U,), total[U] + x[t, U])
    keep = Compute(y, (U,), total[U], None, (t, U))
    return Formula((x,), (start, Scan(t, (step, keep), (total,))), (y,))


def padded_window() -> Formula:
    """y[i] = max of x[i - 1 .. i + 1], what is outside being the lowest."""
    x, y = Tensor("x", FLOAT32, (4,)), Tensor("y", FLOAT32, (4,))
    low = Const(FLOAT32.lowest, FLOAT32)
    r = Reduction("max", (V,), low, x.at(U + V - 1, outside=low))
    return Formula((x,), (Compute(y, (U,), accumulator(FLOAT32), r),), (y,))


# -- the evaluator


def test_a_contraction() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((4, 5), np.float32), rng.standard_normal((5, 3), np.float32)
    np.testing.assert_allclose(evaluate(matrix_product(), [a, b])[0], a @ b, rtol=1e-6)


def test_a_scan() -> None:
    x = np.arange(24, dtype=np.int32).reshape(6, 4)
    assert np.array_equal(evaluate(running_sum(), [x])[0], np.cumsum(x, 0))


def countdown(until: int, least: int = 0) -> Formula:
    """n = 5; at most 9 times: n is looked up in a table that subtracts one, until it is `until`."""
    n, y = Tensor("n", INT32, (), within=(least, 9)), Tensor("y", INT32, ())
    active, step = Tensor("active", BOOL, ()), Var("step", 9)
    below = constant(np.array([0, 0, 1, 2, 3, 4, 5, 6, 7, 8], np.int32), "below")
    turn = Compute(n, (), below[Cast(n[()], INDEX)])
    again = Compute(active, (), binary("gt", n[()], until))
    begin = (Compute(n, (), Const(5, INT32)), Compute(active, (), Const(True, BOOL)))
    return Formula((), (*begin, Scan(step, (turn, again), (n, active), active), Compute(y, (), n[()])), (y,))


def test_a_scan_that_ends() -> None:
    verify_formula(countdown(2), "test")
    assert [int(evaluate(countdown(k), [])[0]) for k in (2, 4, 9)] == [2, 4, 4]


def test_messages_show_an_expression_as_text() -> None:
    x = Tensor("x", FLOAT32, (4,))
    i = Var("i", 4)
    assert f"{[x[i] * 2, Cast(x[i + 1], INT32)]}" == "[(x[i] * 2.0), int32(x[(i + 1)])]"


def test_a_read_outside_yields_its_value() -> None:
    (y,) = evaluate(padded_window(), [np.array([3, 1, 4, 1], np.float32)])
    assert y.tolist() == [3, 4, 4, 4]


def test_a_run_time_extent() -> None:
    n = Param("N", 1, 8)
    x, y, i = Tensor("x", FLOAT32, (n,)), Tensor("y", FLOAT32, (n,)), Var("i", n)
    double = Formula((x,), (Compute(y, (i,), x[i] * 2),), (y,))
    assert evaluate(double, [np.array([1, 2, 3], np.float32)], {"N": 3})[0].tolist() == [2, 4, 6]


@pytest.mark.parametrize("index", [-1, 4])
def test_a_gathered_index_is_checked(index: int) -> None:
    x, at, y = Tensor("x", FLOAT32, (4,)), Tensor("at", INT64, (1,)), Tensor("y", FLOAT32, (1,))
    one = Var("o", 1)
    pick = Compute(y, (one,), x[Gathered(at[one], Const(0), Const(4))])
    take = Formula((x, at), (pick,), (y,))
    assert evaluate(take, [np.arange(4, dtype=np.float32), np.array([2])])[0].tolist() == [2]
    with pytest.raises(IndexOutOfRange):
        evaluate(take, [np.arange(4, dtype=np.float32), np.array([index])])


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16])
def test_narrow_floats_compute_wide_and_round_when_stored(dtype: DType) -> None:
    x, y = Tensor("x", dtype, (4,)), Tensor("y", dtype, (4,))
    f = Formula((x,), (Compute(y, (U,), x[U] * x[U] + 1),), (y,))
    data = np.array([0.1, 1.5, -3.3, 100], dtype.numpy)
    wide = data.astype(np.float32)
    assert np.array_equal(evaluate(f, [data])[0], (wide * wide + 1).astype(dtype.numpy))


SCALARS: list[tuple[Expr, object]] = [
    (Cast(Const(-1.9, FLOAT32), INT8), -1),
    (Cast(Const(300.0, FLOAT32), UINT8), 255),
    (Cast(Const(float("nan"), FLOAT32), INT32), 0),
    (Cast(Const(300, INT32), UINT8), 44),
    (Bitcast(Const(1.0, FLOAT32), INT32), 0x3F800000),
    (binary("div", Const(-7, INT32), 2), -3),
    (binary("floordiv", Const(-7, INT32), 2), -4),
    (binary("mod", Const(-7, INT32), 2), 1),
    (binary("fmod", Const(-7, INT32), 2), -1),
    (binary("div", Const(7, INT32), 0), 0),
    (binary("shr", Const(-8, INT8), 9), -1),
    (binary("shl", Const(1, UINT8), 8), 0),
    (binary("mulhi", Const(1 << 30, INT32), 1 << 30), 1 << 28),
    (binary("pow", Const(-2, INT32), 3), -8),
    (Unary("round", Const(2.5, FLOAT32)), 2.0),
    (select(binary("lt", Const(1, INT32), 2), Const(5, INT32), 6), 5),
]


@pytest.mark.parametrize(("e", "wanted"), SCALARS, ids=lambda v: str(v)[:40])
def test_scalar_meanings(e: Expr, wanted: object) -> None:
    with np.errstate(all="ignore"):
        found = value(e, {}, {})
    assert np.asarray(found).dtype == e.dtype.numpy and found == wanted


# -- the index algebra, against brute force

RANGES = {"i": (0, 3), "j": (-2, 4), "k": (1, 6)}
GRID = dict(zip(RANGES, np.meshgrid(*(np.arange(a, b + 1) for a, b in RANGES.values())), strict=True))


def random_index(rng: np.random.Generator, depth: int) -> Expr:
    """A quasi-affine index over i, j, k."""
    if depth == 0 or rng.random() < 0.15:
        name = str(rng.choice(list(RANGES)))
        return Var(name) if rng.random() < 0.7 else Const(int(rng.integers(-9, 10)))
    a, other = random_index(rng, depth - 1), random_index(rng, depth - 1)
    k = int(rng.integers(1, 6))
    return [
        lambda: a + other,
        lambda: a - other,
        lambda: a * int(rng.integers(-4, 5)),
        lambda: a // k,
        lambda: a % k,
        lambda: maximum(a, other),
        lambda: minimum(a, other),
    ][int(rng.integers(7))]()


def brute_force(e: Expr) -> Array:
    """The value at every point."""
    return np.broadcast_to(value(e, {}, GRID), GRID["i"].shape)


@pytest.mark.parametrize("seed", range(120))
def test_index_algebra(seed: int) -> None:
    """simplify changes no value and is a normal form; interval holds all values; proofs are true."""
    rng = np.random.default_rng(seed)
    e = random_index(rng, 4)
    values = brute_force(e)
    simple = simplify(e, RANGES)
    assert np.array_equal(brute_force(simple), values), f"{e} became {simple}"
    assert simplify(simple, RANGES) == simple
    lo, hi = interval(e, RANGES)
    assert lo <= values.min() and values.max() <= hi
    scope = Scope()
    for name, (a, b) in RANGES.items():
        scope = scope.variable(name, Const(a), Const(b + 1))
    for n in map(int, rng.integers(values.min() - 1, values.max() + 2, 8)):
        assert not scope.proves(e - n) or values.min() >= n
        assert not scope.proves(n - e) or values.max() <= n


@pytest.mark.parametrize("seed", range(60))
def test_extents_by_their_values(seed: int) -> None:
    """Products of sums are alike when they are equal at every point, and a span is exact."""
    rng = np.random.default_rng(seed)
    n, m = Param("N", 0, 3), Param("M", 2, 5)

    def drawn(depth: int) -> Expr:
        if depth == 0:
            return [n, m, Const(int(rng.integers(0, 4)))][int(rng.integers(3))]
        a, b, k = drawn(depth - 1), drawn(depth - 1), int(rng.integers(1, 4))
        return [a + b, a - b, a * b, a // k, a % k, (a + b) * m // m, maximum(a, b)][int(rng.integers(7))]

    def points(e: Expr) -> list[int]:
        at = itertools.product(range(4), range(2, 6))
        return [int(value(_with_extents(e, {"N": i, "M": j}), {}, {})) for i, j in at]

    a, b = drawn(3), drawn(2)
    assert span(a) == (min(points(a)), max(points(a)))
    assert points(simplify(a)) == points(a) and points(as_expr(extent(a))) == points(a)
    lo, hi = interval(simplify(a))
    assert lo <= min(points(a)) and max(points(a)) <= hi
    assert alike(a, b) == (points(a) == points(b)) and alike((a + b) * (n + 1), b * n + a * n + a + b)


def test_extents_in_one_form() -> None:
    n, m, many = Param("N", 1, 1 << 20), Param("M", 1, 1 << 20), Param("K", 4, 5)
    third = (m + 2) // 3
    assert extent((n * 4 + 4) * third) == extent((n + 1) * 4 * third)
    assert extent((n + 1) * m // (n + 1)) == m and extent((n * m + m + n + 1) // (n + 1)) == extent(m + 1)
    assert extent(many // 2 + 1) == 3 and extent(n // (n + 1)) == 0 and extent(n % (n + 1)) == n
    assert interval(simplify((n - 1) * (m - 1)))[0] == 0 and interval(simplify((n - 1) * n))[0] == 0
    assert alike(n, n * 1) and not alike(n, m) and not alike(2, n)


# -- proofs


@pytest.mark.parametrize("seed", range(60))
def test_proofs_about_run_time_extents_are_true(seed: int) -> None:
    """i < N, j < 3 * M * N: what is proved of products and quotients holds for every N and M."""
    rng = np.random.default_rng(seed)
    i, j, n, m = Var("i"), Var("j"), Param("N", 1, 4), Param("M", 1, 3)
    scope = Scope().variable("i", Const(0), n).variable("j", Const(0), n * m * 3)

    def index(depth: int) -> Expr:
        if depth == 0:
            return [i, j, n, m, Const(int(rng.integers(-3, 4)))][int(rng.integers(5))]
        a, k = index(depth - 1), [n, m, n * m, Const(3)][int(rng.integers(4))]
        kinds = (a + index(depth - 1), a - index(depth - 1), a * k, a // k, a % k)
        return kinds[int(rng.integers(5))]

    for _ in range(20):
        e, proved = index(3), list[int]()
        proved += [c for c in range(-6, 7) if scope.proves(e - c)]
        for at_n, at_m in itertools.product(range(1, 5), range(1, 4)):
            there = _with_extents(e, {"N": at_n, "M": at_m})
            points = np.ogrid[:at_n, : 3 * at_m * at_n]
            values = value(there, {}, dict(zip("ij", points, strict=True)))
            assert all(np.min(values) >= c for c in proved), f"{e} >= {proved} for N {at_n}, M {at_m}"


def _with_extents(e: Expr, known: Mapping[str, int]) -> Expr:
    return transform(e, lambda x: Const(known[x.name]) if isinstance(x, Param) else None)


def test_divisions_by_run_time_extents_are_undone() -> None:
    i, j, n, m = Var("i"), Var("j"), Param("N", 1, 4), Param("M", 1, 4)
    flat = Scope().variable("i", Const(0), n * m)
    assert flat.inside(i // n, m) and not flat.inside(i // n + 1, m)
    nest = Scope().variable("i", Const(0), n * m * 2).variable("j", Const(0), Const(3))
    assert nest.inside((i * 3 + j) // n // 6, m) and not nest.inside((i * 3 + j) // n // 5, m)


def test_ranges_of_loops_prove_remainders_and_differences() -> None:
    """What a bounded sum, quotient or remainder cannot exceed; nothing of a variable nobody declared."""
    scope = Scope().variable("i", Const(13), Const(169), 13).variable("j", Const(0), Const(4))
    i, j = Var("i"), Var("j")
    assert scope.inside(i // 13 % 2 * 16, 17) and not scope.inside(i // 13 % 2 * 16, 16)
    assert scope.inside(i - 13, 156, 1) and not scope.inside(i - 14, 156)
    assert scope.inside(j * 8, 32, 8) and not scope.inside(j * 8, 31, 8)
    assert not scope.inside(Var("k", 4) * 1, 4)


def test_a_column_of_a_dilated_window_is_proved_exactly() -> None:
    """The tap ((column // 17) % 2) * 2 behind a row that is walked three points at a time, or in a width that
    is known at run time only.
    """
    column, ow, width = Var("column"), Var("ow"), Param("W", 4, 9)
    tap = column // 17 % 2 * 2
    for out, size in ((Const(6), 8), (width, width + 2)):
        step = 3 if isinstance(size, int) else 1
        scope = Scope().variable("ow", Const(0), out, step).variable("column", Const(0), Const(68))
        last = ow + tap + (step - 1)
        assert scope.inside(last, size) and not scope.inside(last + 1, size)
        assert scope.inside(out - 1 - ow + tap, size) and not scope.inside(tap - ow - 1, size)


def window(scope: Scope, n: int, taps: int, stride: int, dilation: int, pad: int) -> tuple[Scope, Expr]:
    """Inside the clipped loop over the taps of a window, and the element a tap reads."""
    o, k = Var("o"), Var("k")
    out = (n + 2 * pad - dilation * (taps - 1) - 1) // stride + 1
    scope = scope.variable("o", Const(0), Const(out))
    first = o * stride - pad
    lo = maximum(0, (Const(dilation - 1) - first) // dilation)
    hi = minimum(taps, (Const(n + dilation - 1) - first) // dilation)
    return scope.variable("k", lo, hi), first + k * dilation


@pytest.mark.parametrize(
    ("n", "taps", "stride", "dilation", "pad"),
    [(8, 3, 1, 1, 1), (9, 3, 2, 1, 1), (11, 3, 2, 3, 3), (5, 5, 3, 2, 4), (7, 2, 1, 1, 0)],
)
def test_clipped_windows_are_proved_exactly(n: int, taps: int, stride: int, dilation: int, pad: int) -> None:
    scope, read = window(Scope(), n, taps, stride, dilation, pad)
    assert scope.inside(read, n)
    assert not scope.inside(read + 1, n) and not scope.inside(read - 1, n)


def test_proofs_use_conditions_definitions_steps_and_run_time_extents() -> None:
    i, n, raw = Var("i"), Param("N", 1, 8), Var("raw", None, INT64)
    scope = Scope().variable("i", Const(0), n)
    assert scope.inside(i, n) and not scope.inside(i + 1, n)
    assert scope.given(i + 3 < n).inside(i + 3, n)
    assert scope.given(i + 3 >= n, holds=False).inside(i + 3, n)
    assert scope.let("p", i * 2).inside(Var("p"), n * 2)
    assert Scope().variable("i", Const(0), Const(20), 8).inside(i, 24, lanes=8)
    assert not Scope().variable("i", Const(0), Const(20), 8).inside(i, 23, lanes=8)
    checked = scope.given((raw >= 0) & (raw < Cast(n, INT64)))
    assert checked.inside(Cast(raw, INDEX), n) and not scope.inside(Cast(raw, INDEX), n)
    assert scope.variable("e", Const(3), Const(3)).inside(i + 99, n), "a loop of no turns proves everything"


def test_proofs_know_the_ranges_of_data() -> None:
    codes, table = Tensor("codes", UINT8, (4,)), constant(np.array([3, 0, 7]))
    code = Cast(codes[0] & 15, INDEX)
    assert Scope().inside(code, 16) and not Scope().inside(code, 15)
    assert Scope().inside(Cast(table[Var("t", 3)], INDEX), 8)
    assert Scope().inside(Cast(codes[0], INDEX), 256) and not Scope().inside(Cast(codes[0], INDEX), 255)


# -- the verifier


def wrong(out: Tensor, x: Tensor, value: Expr, axes: tuple[Var, ...] = (U,), **more: object) -> Formula:
    return Formula((x,), (Compute(out, axes, value, **more),), (out,))  # type: ignore[arg-type]


X, Y, Z = Tensor("x", FLOAT32, (4,)), Tensor("y", FLOAT32, (4,)), Tensor("z", FLOAT32, (4,))
CARRY = Tensor("carry", FLOAT32, (4,))
T = Var("t", 6)
WRONG: dict[str, tuple[Formula, str]] = {
    "read beyond the end": (wrong(Y, X, X[U + 1]), "not provable"),
    "read before the start": (wrong(Y, X, X[U - 1]), "not provable"),
    "write beyond the end": (wrong(Y, X, X[U], at=(U + 1,)), "may leave"),
    "guard that is too wide": (
        wrong(Y, X, Select(binary("lt", U, 4), X[U + 1], zero())),
        "not provable",
    ),
    "unknown name": (wrong(Y, X, X[V]), "not in scope"),
    "accumulator without a reduction": (wrong(Y, X, accumulator(FLOAT32)), "not in scope"),
    "index of data": (wrong(Y, X, X.at(Cast(X[U], INT32))), "indexed by"),
    "implicit cast": (wrong(Y, X, Cast(X[U], INT32)), "without a cast"),
    "start of another type": (
        wrong(Y, X, accumulator(FLOAT32), reduction=Reduction("sum", (V,), zero(INT32), X[V])),
        "start",
    ),
    "two axes of one name": (
        wrong(Y, X, accumulator(FLOAT32), reduction=Reduction("sum", (U,), zero(), X[U])),
        "two axes",
    ),
    "read of nothing": (wrong(Y, X, Z[U]), "before it is written"),
    "output nobody writes": (Formula((X,), (), (Y,)), "never written"),
    "constant that is written": (wrong(constant(np.zeros(4, np.float32)), X, X[U]), "constant"),
    "hidden carry": (
        Formula(
            (X,),
            (
                Compute(CARRY, (U,), zero()),
                Scan(T, (Compute(Y, (U,), CARRY[U]), Compute(CARRY, (U,), X[U])), ()),
            ),
            (Y,),
        ),
        "not carried",
    ),
    "promise that is not kept": (countdown(2, 1), "may lie beyond"),
    "end that is not carried": (
        Formula((X,), (Compute(CARRY, (U,), zero()), Scan(T, (), (CARRY,), CARRY)), ()),
        "cannot end it",
    ),
    "carry without a start": (
        Formula((X,), (Scan(T, (Compute(CARRY, (U,), CARRY[U]),), (CARRY,)),), (CARRY,)),
        "no first value",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_verifier_catches(name: str) -> None:
    formula, message = WRONG[name]
    with pytest.raises(InternalError, match=message):
        verify_formula(formula, "test")


RIGHT: dict[str, Formula] = {
    "matrix_product": matrix_product(),
    "running_sum": running_sum(),
    "padded_window": padded_window(),
    "guarded": wrong(Y, X, Select(binary("lt", U, 3), X[minimum(U + 1, 3)], zero())),
    "both_bounds": wrong(Y, X, Select((U >= 1) & (U <= 2), X[U + 1] + X[U - 1], zero())),
    "negated": wrong(Y, X, Select(Unary("not", binary("eq", U, 3) & Const(True, BOOL)), X[U], zero())),
}


@pytest.mark.parametrize("name", RIGHT)
def test_sound_formulas_pass_and_read_as_they_are(name: str, golden: Golden) -> None:
    verify_formula(RIGHT[name], "test")
    golden(f"formula_{name}", formula_text(RIGHT[name]))


def test_what_run_time_extents_leave_unproved_is_the_users_to_mend() -> None:
    """A read that depends on an extent may be out of the prover's reach; with constants it is our fault."""
    n = Param("N", 1, 8)
    x = Tensor("x", FLOAT32, (n,))
    i = Var("i", n * n)
    formula = Formula((x,), (Compute(Tensor("y", FLOAT32, (n * n,)), (i,), x[i]),), ())
    with pytest.raises(UnsupportedError, match="--define"):
        verify_formula(formula, "probe")


def test_a_promise_holds_for_what_stands_outside_too() -> None:
    x, y = (Tensor(name, UINT8, (4,), within=(0, 127)) for name in "xy")
    i = Var("i", 4)
    assert keeps_within(y, x[i], Scope())
    assert keeps_within(y, x.at(i - 1, outside=Const(127, UINT8)), Scope())
    assert not keeps_within(y, x.at(i - 1, outside=Const(128, UINT8)), Scope())
    assert not keeps_within(y, Select(x[i] < 5, x[i], Const(128, UINT8)), Scope())
