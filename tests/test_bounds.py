"""Work without bounds: compile time is linear in the model, and a small file makes nothing large."""

from __future__ import annotations

import cProfile
import pstats
import sys
import tracemalloc
from collections.abc import Sequence
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import ingot
from benchmarks.compile_time import FORMS, concat, constant, many, model, node
from ingot.driver import stages
from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.formula import budget
from ingot.formula.box import any_meet, meet
from ingot.formula.budget import Budget, work_of
from ingot.formula.compute import Compute, Scan
from ingot.formula.evaluate import evaluate
from ingot.formula.expr import Array, Tensor
from ingot.formula.types import FLOAT32
from ingot.frontends.builder import Builder, Names
from ingot.graph.ir import Graph, Node, Value, constant_value
from ingot.loops.program import Area, Call, Kernel, neighbours
from ingot.loops.region import Group
from ingot.ops.by_numpy import FORMS as BY_NUMPY
from ingot.ops.by_numpy import by_numpy
from ingot.ops.elementwise import AT_ONCE
from ingot.ops.registry import formulate
from ingot.options import Options

C99 = Options(target="c99", name="net")
LARGER = {"lstms": 80, "Sum": 160, "Max": 160, "Mean": 160, "Min": 160}
STEP = {form: LARGER.get(form, 32) for form in FORMS if form != "nested"}
"""The smallest model of each form, of which others are multiples. Depth is limited, and costs its square."""
SEARCHED = (Tensor, Compute, Scan, Group, Call, Kernel, Value, Node)


def same(a: object, b: object) -> bool:
    return a is b


def calls(form: str, n: int) -> int:
    """The calls of functions that it takes to compile a model of n: the same on every machine."""
    proto, profile = FORMS[form](n), cProfile.Profile()
    profile.enable()
    stages(proto, C99)
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("form", STEP)
def test_twice_the_model_is_twice_the_work(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 2n to 4n twice as much is added as from n to 2n; four times where all are compared with all.

    Searching a list calls nothing that shows: here each comparison on the way does.
    """
    for kind in SEARCHED:
        monkeypatch.setattr(kind, "__eq__", same)
    calls(form, STEP[form])  # modules are loaded, and their tables made, the first time
    few, some, several = (calls(form, n) for n in (STEP[form], 2 * STEP[form], 4 * STEP[form]))
    assert several - some <= 2.2 * (some - few)


def large_objects(form: str, n: int) -> int:
    """How often what n pointers take, or more, is made between one call of a function and the next."""
    proto, count, before = FORMS[form](n), 0, 0

    def called(*_: object) -> None:
        nonlocal count, before
        now, most = tracemalloc.get_traced_memory()
        count += most - before > 8 * n
        tracemalloc.reset_peak()
        before = now

    tracemalloc.start()
    sys.settrace(called)
    try:
        stages(proto, C99)
    finally:
        sys.settrace(None)
        tracemalloc.stop()
    return count


@pytest.mark.parametrize("form", ["chain", "outputs"])
def test_nothing_copies_all_there_is_for_each_node(form: str) -> None:
    """Copies of lists and sets call nothing, but they take memory: once for each step of the compiler."""
    assert large_objects(form, 400) < 400


def test_neighbours_are_all_areas_that_may_meet() -> None:
    rng, base = np.random.default_rng(0), Tensor("t", FLOAT32, (6, 6))
    found, several = 0, 0
    for _ in range(300):
        areas = []
        for _ in range(int(rng.integers(0, 7))):
            low = rng.integers(0, 6, 2)
            box = tuple((int(a), int(a + rng.integers(0, 4))) for a in low)
            areas.append(Area(base, (6, 6) if rng.random() < 0.9 else (9, 4), box))
        wanted = {(i, k) for k, a in enumerate(areas) for i, b in enumerate(areas[:k]) if a.meets(b)}
        pairs = list(neighbours(areas))
        assert wanted <= set(pairs) and len(set(pairs)) == len(pairs) and all(i < k for i, k in pairs)
        found, several = found + len(wanted), several + (len(pairs) < len(areas) * (len(areas) - 1) // 2)
    assert found and several


# ---- constants


def random_array(rng: np.random.Generator, dtype: Any, *shape: int) -> Array:
    """Few different values, so that there are equal ones; of floats zeros of both signs and NaN too."""
    if np.dtype(dtype).kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    values = rng.integers(0 if np.dtype(dtype).kind == "u" else -3, 5, shape).astype(np.float32)
    if np.dtype(dtype).kind in "fV":
        values = np.where(values == 4, rng.standard_normal(shape), values)
        values[rng.random(shape) < 0.1] = np.nan
        values[rng.random(shape) < 0.1] = -0.0
    return values.astype(dtype)


AXES = [0, 1, -1]
ATTRIBUTES: dict[str, list[tuple[dict[str, int], Sequence[Any]]]] = {
    "CumSum": [({"exclusive": e, "reverse": r}, [np.int64(a)]) for e in (0, 1) for r in (0, 1) for a in AXES],
    "CumProd": [({"exclusive": e, "reverse": 1 - e}, [np.int64(a)]) for e in (0, 1) for a in AXES],
    "TopK": [({"largest": n, "axis": a}, [np.array([3])]) for n in (0, 1) for a in AXES],
    "Unique": [({"sorted": s}, []) for s in (0, 1)]
    + [({"sorted": s, "axis": a}, []) for s in (0, 1) for a in AXES],
    "NonZero": [({}, [])],
}
OUTPUTS = {"TopK": 2, "Unique": 4}
SHAPES = [(4, 5), (0, 5), (4, 0)]
TYPES = ["f4", "f8", "f2", ml_dtypes.bfloat16, "i1", "u1", "i4", "i8", "u8", "?"]


@pytest.mark.parametrize("op", BY_NUMPY)
def test_numpy_folds_what_the_formula_says(op: str) -> None:
    """To the last bit, for every type the operator takes, of tensors without elements too."""
    rng, compared = np.random.default_rng(0), 0
    types = TYPES if op in ("Unique", "NonZero") else TYPES[:-1]
    for dtype, shape in product(types, SHAPES):
        for attributes, more in ATTRIBUTES[op]:
            few = [np.minimum(a, min(shape)) for a in more] if op == "TopK" else more
            arrays = [random_array(rng, dtype, *shape), *map(np.asarray, few)]
            values = [constant_value(f"x{i}", a) for i, a in enumerate(arrays)]
            made = Node(
                op,
                [*values],
                [Value(f"y{i}") for i in range(OUTPUTS.get(op, 1))],
                dict(attributes),
                version=26,
            )
            found = by_numpy(made, arrays)
            formula = formulate(made, [v.tensor() for v in values])
            wanted = evaluate(formula, [t.value for t in formula.inputs if t.value is not None])
            for a, b in zip(found or (), wanted, strict=found is not None):
                assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), (
                    dtype,
                    shape,
                    attributes,
                )
            compared += found is not None
    assert compared >= len(types) * len(SHAPES) * len(ATTRIBUTES[op]) // (2 if op == "TopK" else 1)


def test_a_million_constants_are_sorted_at_once() -> None:
    """No step of the definition's scans is taken: they would be millions."""
    x = onnx.numpy_helper.from_array(np.arange(1_000_000, dtype=np.float32)[::-1] % 1000, "c")
    nodes = [node("Unique", ["c"], "u"), node("Add", ["u", "x"], "y")]
    program = stages(model(nodes, ["y"], inputs=[("x", [1])], constants=[x]), C99).program
    (of_values,) = [t for t in program.constants if t.count == 1000]
    assert of_values.value is not None and np.array_equal(of_values.value, np.arange(1000))


def test_what_importers_fold_counts_against_what_the_model_brings() -> None:
    """A constant that doubles forty times over has no share for what was folded of it."""
    b = Builder(Graph("net"), Names(folding=Budget(bytes=1 << 12)))
    b.at("doubled")
    last = b.constant(np.ones((2, 8), np.float32))
    folded = 0
    for _ in range(20):
        last = b.one("Concat", last, last, axis=0)
        folded += 0 if last.constant is None else last.constant.nbytes
    assert 1 << 11 < folded <= (1 << 12) + 64 * budget.BYTES_PER_BYTE, folded
    assert last.shape == (2 << 20, 8)


def test_what_exceeds_the_budget_is_left_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work and memory each, whichever is out first: the constants that were folded by then are kept."""
    nodes = [node("Softmax", [f"v{i}" if i else "c"], f"v{i + 1}") for i in range(8)]
    proto = model([*nodes, node("Add", ["v8", "x"], "y")], ["y"], constants=[constant("c", 1, 2, 3, 4)])
    x = np.zeros(4, np.float32)
    everything = ingot.compile(proto, target="x86-64", emit=("obj",))
    for name, few in (("WORK", 40_000), ("BYTES", 40)):
        with monkeypatch.context() as m:
            m.setattr(budget, name, few)
            m.setattr(budget, "WORK_PER_ELEMENT" if name == "WORK" else "BYTES_PER_BYTE", 0)
            m.setattr(Budget.__init__, "__defaults__", (budget.WORK, budget.BYTES))
            some = ingot.compile(proto, target="x86-64", emit=("obj",))
        assert len(everything.manifest["kernels"]) == 1 < len(some.manifest["kernels"]) < 9
        np.testing.assert_allclose(some.run({"x": x})["y"], everything.run({"x": x})["y"], rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("HannWindow", [np.int64(2**31 - 1)], {}),
        ("ConstantOfShape", [np.array([2**31 - 1])], {}),
        ("Range", [np.int64(0), np.int64(2**31 - 1), np.int64(1)], {}),
        ("RandomNormal", [], {"shape": [2**30]}),
        ("Expand", [np.ones(1, np.float32), np.array([2**15, 2**15])], {}),
        ("Tile", [np.ones(2, np.float32), np.array([2**29])], {}),
        ("MatMul", [np.ones((2048, 2048), np.float32)] * 2, {}),
        ("Det", [np.eye(3000, dtype=np.float32)], {}),
        ("NonMaxSuppression", [np.ones((1, 50_000, 4), np.float32), np.ones((1, 1, 50_000), np.float32)], {}),
    ],
)
def test_large_results_of_small_files_are_left_to_the_run(
    op: str, inputs: list[Array], attributes: dict[str, Any]
) -> None:
    """No constant is larger than those of the model, and hardly any step is taken."""
    arrays = [np.asarray(a) for a in inputs]
    constants = [onnx.numpy_helper.from_array(a, f"c{i}") for i, a in enumerate(arrays)]
    proto = model([node(op, [f"c{i}" for i in range(len(arrays))], "y", **attributes)], ["y"], (), constants)
    for output in proto.graph.output:
        output.type.Clear()
    profile = cProfile.Profile()
    profile.enable()
    made = stages(proto, C99)
    profile.disable()
    assert sum(t.bytes for t in made.program.constants) <= sum(a.nbytes for a in arrays)
    assert int(pstats.Stats(profile).total_calls) < 200_000  # type: ignore[attr-defined]


def test_work_counts_steps_and_points() -> None:
    """A scan costs at least its steps, a product its terms."""
    a = [constant_value(n, np.ones((40, 40), np.float32)).tensor() for n in "ab"]
    product = formulate(Node("MatMul", [], [Value("y")], version=13), [*a])
    assert 40**3 * 4 < work_of(product.stages) < 40**3 * 16
    axis = constant_value("axis", np.int64(0)).tensor()
    running = formulate(Node("CumSum", [], [Value("y")], version=14), [a[0], axis])
    assert work_of(running.stages) > 40 * 2 * budget.STEP


# ---- many inputs


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
def test_any_number_of_inputs(op: str) -> None:
    """Far more than expressions may be deep; added up from the left."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((700, 4)).astype(np.float32)
    feeds = {f"x{i}": row for i, row in enumerate(x)}
    how = {"Sum": np.add, "Mean": np.add, "Max": np.maximum, "Min": np.minimum}[op]
    wanted = how.accumulate(x)[-1] / np.float32(700 if op == "Mean" else 1)
    found = ingot.compile(many(op)(700), target="x86-64", emit=("obj",)).run(feeds)["y"]
    np.testing.assert_array_equal(found, wanted)


def test_no_kernel_takes_thousands_of_inputs() -> None:
    """A C compiler takes the square of them; kernels that are alike are one function."""
    made = ingot.compile(many("Sum")(1000), target="x86-64", emit=("c",))
    program = stages(many("Sum")(1000), C99).program
    kernels = [step.kernel for step in program.steps if isinstance(step, Call)]
    assert len(kernels) > 10 and max(len(k.parameters) for k in kernels) <= AT_ONCE + 1
    assert len({k["name"] for k in made.manifest["kernels"]}) == 2


def test_einsum_of_many_operands() -> None:
    """What is multiplied so far passes from kernel to kernel, as of sums."""
    n = 300
    equation = ",".join(["ab"] * n) + "->ab"
    nodes = [node("Einsum", ["x"] * n, "y", equation=equation)]
    made = ingot.compile(model(nodes, ["y"], inputs=[("x", [2, 2])]), target="x86-64", emit=("obj",))
    x = np.array([[1, -1], [0.99, 1.01]], np.float32)
    np.testing.assert_allclose(made.run({"x": x})["y"], x**n, rtol=1e-4)
    assert len(made.manifest["kernels"]) == 5


@pytest.mark.parametrize("form", ["Sum", "outputs"])
def test_thousands_of_inputs_or_outputs(form: str) -> None:
    """A C compiler takes the square of the pointers that a function takes."""
    with pytest.raises(UnsupportedError, match="9,001 inputs and outputs, a C function takes at most 8,192"):
        stages(FORMS[form](9000), C99)


def test_one_input_many_times() -> None:
    x = np.arange(4, dtype=np.float32)
    made = ingot.compile(concat(500), target="x86-64", emit=("obj",))
    np.testing.assert_array_equal(made.run({"x": x})["y"], np.tile(x, 500))
    assert len(made.manifest["kernels"]) == -(-500 // AT_ONCE)  # of thousands of loops clang takes minutes


def test_boxes_that_meet() -> None:
    rng = np.random.default_rng(0)
    answers = set()
    for _ in range(400):
        rank, many_boxes = int(rng.integers(0, 4)), int(rng.integers(0, 5))
        low = rng.integers(0, 6, (many_boxes, rank))
        high = low + rng.integers(0, 4, (many_boxes, rank))
        boxes = [tuple(zip(a, b, strict=True)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        wanted = any(meet(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
        assert any_meet(boxes) is wanted
        answers.add(wanted)
    assert answers == {True, False}


# ---- what running takes

WIDE = "(float[1,{n}] x) => (float[1,{n}] y) {{ y = Relu(x) }}"
SUMMED = """(float[1] x) => (float y) <int64[1] s = {268435456}> {
    z = Expand(x, s)
    y = ReduceSum <keepdims = 0> (z)
}"""


def written(graph: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> m {graph}')


def wide(n: int) -> onnx.ModelProto:
    return written(WIDE.format(n=n))


@pytest.mark.parametrize(
    ("what", "named"), [(ingot.verify, "outputs and state 768 MiB, inputs 384"), (ingot.bench, "inputs 384")]
)
def test_memory_is_refused_before_it_is_asked_for(
    what: Any, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_MEMORY_MIB", "500")
    with pytest.raises(InputError, match=f"main_graph takes about .* MiB .*{named}.*set INGOT_MEMORY_MIB="):
        what(wide(2**25), target="c99", name="main_graph")


def test_memory_of_an_oracle_is_counted_where_the_bundle_needs_none() -> None:
    proto = written(SUMMED)
    with pytest.raises(InputError, match="the oracle's tensors 2,048 MiB"):
        ingot.verify(proto, target="c99", name="net")


def test_memory_of_an_arena_is_refused_and_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, x = ingot.compile(wide(1 << 18), target="c99", name="net"), np.zeros((1, 1 << 18), np.float32)
    monkeypatch.setenv("INGOT_MEMORY_MIB", "1")
    with pytest.raises(InputError, match="inputs 1 MiB, outputs and state 1 MiB"):
        bundle.run({"x": x})
    monkeypatch.setenv("INGOT_MEMORY_MIB", "2")
    assert not bundle.run({"x": x})["y"].any()
    monkeypatch.setenv("INGOT_MEMORY_MIB", "2G")
    with pytest.raises(InputError, match="INGOT_MEMORY_MIB=2G: write a number of MiB"):
        ingot.compile(wide(8), target="c99", name="net").run({"x": x[:, :8]})


def test_room_that_the_data_may_not_need_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_MEMORY_MIB", "4")
    proto = written("(bool[16,16384] x) => (int64[2,n] y) { y = NonZero(x) }")
    x = np.zeros((16, 1 << 14), bool)
    x[3, 5] = True
    assert ingot.compile(proto, target="c99", name="net").run({"x": x})["y"].tolist() == [[3], [5]]


LOOP = """(float[1] x, bool b) => (float[1] y)
    <int64 n = {%d}, bool t = {1}> {
    y = Loop(%s, %s, x) <body = b (int64 i, bool c, float[1] v) => (bool d, float[1] w) {
        d = %s
        w = Add(v, v)
    }>
}"""


@pytest.mark.parametrize(
    ("turns", "limit", "start", "condition", "often"),
    [
        (2**62, "n", "t", "Identity(c)", "4611686018427387904 times"),
        (2**62, "n", "", "Identity(c)", "4611686018427387904 times"),
        (1, "", "t", "Identity(c)", "forever"),
        (1, "", "t", "Constant<value = bool {1}>()", "forever"),
        (2**40, "n", "t", "Identity(c)", ""),
        (2**62, "n", "b", "Identity(c)", ""),
        (2**62, "n", "t", "Not(c)", ""),
    ],
)
def test_a_loop_that_nothing_ends_is_refused(
    turns: int, limit: str, start: str, condition: str, often: str
) -> None:
    proto = written(LOOP % (turns, limit, start, condition))
    if not often:
        assert stages(proto, C99)
        return
    with pytest.raises(ModelError, match=f"turns {often}: its condition is always true"):
        stages(proto, C99)
