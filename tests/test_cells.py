"""Recurrent cells written out: sums over what is put together, and gates that one kernel joins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from onnx.reference import ReferenceEvaluator

import ingot
from ingot.driver import stages
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.loops.operations import work
from ingot.loops.program import program_text
from ingot.loops.region import groups, region_text
from ingot.options import Options
from tests.corpus.cases import onnxruntime_outputs
from tests.fuzz.levels import compiled
from tests.here import require_runs

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'
LSTM = """cell (float[1,3] x, float[1,{n}] h, float[1,{n}] c) => (float[1,{n}] h_out, float[1,{n}] c_out) {{
    xh = Concat<axis=1>(x, h)
    z = Gemm<transB=1>(xh, w, b)
    i, f, j, o = Split<axis=1>(z, sizes)
    si = Sigmoid(i) sf = Sigmoid(f) tj = Tanh(j) so = Sigmoid(o)
    kept = Mul(sf, c) added = Mul(si, tj)
    c_out = Add(kept, added)
    tc = Tanh(c_out)
    h_out = Mul(so, tc)
}}"""
MINIMAL = """cell (float[1,5] x, float[1,{n}] h) => (float[1,{n}] h_out) {{
    xh = Concat<axis=1>(x, h)
    u = Gemm<transB=1>(xh, w, b)
    z = Sigmoid(u)
    zh = Mul(z, h)
    xz = Concat<axis=1>(x, zh)
    v = Gemm<transB=1>(xz, w2, b)
    t = Tanh(v)
    less = Sub(h, zh) more = Mul(z, t)
    h_out = Add(less, more)
}}"""


def model(text: str, **weights: Array) -> onnx.ModelProto:
    made = parser.parse_model(HEAD + text)
    made.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in weights.items())
    return made


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(0, 0.5, shape).astype(np.float32)


def lstm(n: int) -> onnx.ModelProto:
    return model(LSTM.format(n=n), w=random(4 * n, 3 + n), b=random(4 * n), sizes=np.array([n] * 4))


def minimal(n: int) -> onnx.ModelProto:
    return model(MINIMAL.format(n=n), w=random(n, 5 + n), w2=random(n, 5 + n) * 2, b=random(n))


def names(made: onnx.ModelProto, math: str = "standard") -> list[str]:
    """The first node of each group that is left."""
    return [g.nodes[0] for g in groups(stages(made, Options(target="c99", math=math)).region)]


def test_a_cell_is_one_kernel(golden: Callable[[str, str], None]) -> None:
    """The state is multiplied where it is, and its products meet the gates in registers."""
    made = stages(lstm(16), Options(target="x86-64-v4", math="exact"))
    golden("region_cell", region_text(made.region))
    golden("program_cell", program_text(made.program))


@pytest.mark.parametrize("target", ["c99", "x86-64", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("n", [7, 16, 32, 51])
@pytest.mark.parametrize("cell", [lstm, minimal])
def test_values(cell: Callable[[int], onnx.ModelProto], n: int, target: str) -> None:
    require_runs(target)
    made = cell(n)
    feeds = {i.name: random(*(d.dim_value for d in i.type.tensor_type.shape.dim)) for i in made.graph.input}
    wanted = ReferenceEvaluator(made).run(None, feeds)
    found = ingot.compile(made, target=target).run(feeds)
    for output, array in zip(made.graph.output, wanted, strict=True):
        np.testing.assert_allclose(found[output.name], array, atol=1e-6)


def test_a_vector_that_a_part_is_made_for() -> None:
    """Both concatenations vanish: a caller's tensor would have to be copied into either."""
    assert names(minimal(16)) == ["Gemm", "Mul", "Sub", "Gemm"]


W = {"w": random(8, 6), "sizes": np.array([4, 4]), "uneven": np.array([4, 1, 3])}
KEPT = {
    "rows that make tiles": (
        "g (float[2,3] x, float[2,3] h) => (float[2,4] y) "
        "{ k = Concat<axis=1>(x, h) z = Gemm<transB=1>(k, w) a, b = Split<axis=1>(z, sizes) y = Mul(a, b) }",
        ["Concat", "Gemm", "Split", "Split", "Mul"],
    ),
    "parts that are made in place": (
        "g (float[1,3] x, float[1,3] h) => (float[1,8] y) "
        "{ a = Exp(x) b = Neg(h) k = Concat<axis=1>(a, b) y = Gemm<transB=1>(k, w) }",
        ["Exp", "Neg", "Concat", "Gemm"],
    ),
    "a whole that others read": (
        "g (float[1,3] x, float[1,3] h) => (float[1,8] y, float[1,6] s) "
        "{ k = Concat<axis=1>(x, h) y = Gemm<transB=1>(k, w) s = Softmax(k) }",
        ["Concat", "Gemm", "Softmax"],
    ),
    "a gate that is an output": (
        "g (float[1,6] x) => (float[1,4] y, float[1,4] a) "
        "{ z = Gemm<transB=1>(x, w) a, b = Split<axis=1>(z, sizes) y = Mul(a, b) }",
        ["Gemm", "Split", "Split", "Mul"],
    ),
    "maps of as many ranks as sizes": (
        "g (float[1,6] x, float[1,1,8] s) => (float[1,4] y, float[1,1,8] d) "
        "{ z = Gemm<transB=1>(x, w) a, b, c = Split<axis=1>(z, uneven) y = Tanh(a) d = Mul(b, s) }",
        ["Gemm", "Split", "Split", "Tanh", "Mul"],
    ),
    "a map that waits for another product": (
        "g (float[1,6] x, float[4,4] v) => (float[1,4] y, float[1,4] d) "
        "{ z = Gemm<transB=1>(x, w) a, b = Split<axis=1>(z, sizes)"
        " u = Tanh(a) d = MatMul(u, v) e = Mul(b, d) y = Mul(e, a) }",
        ["Gemm", "Split", "Split", "Tanh", "MatMul", "Mul"],
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    text, wanted = KEPT[name]
    made = model(text, **W)
    used = {i for n in made.graph.node for i in n.input}
    del made.graph.initializer[:]
    made.graph.initializer.extend(numpy_helper.from_array(w, k) for k, w in W.items() if k in used)
    assert names(made) == wanted


def test_a_loop_carries_the_state() -> None:
    """The body of a loop is a region of its own: what it carries is no part of a larger vector either."""
    text = """unrolled (float[6,1,5] xs, float[1,7] h0) => (float[1,7] h) {
        steps = Constant<value_int=6>() active = Constant<value = bool {1}>()
        h = Loop<body = step (int64 t, bool go, float[1,7] before) => (bool next, float[1,7] after) {
            next = Identity(go)
            x = Gather<axis=0>(xs, t)
            k = Concat<axis=1>(x, before)
            z = Gemm<transB=1>(k, w)
            after = Tanh(z)
        }>(steps, active, h0)
    }"""
    made = model(text, w=random(7, 12))
    xs, h = random(6, 1, 5), random(1, 7)
    found = ingot.compile(made, target="c99").run({"xs": xs, "h0": h})["h"]
    for x in xs:
        h = np.tanh(np.concatenate([x, h], 1) @ random(7, 12).T)
    np.testing.assert_allclose(found, h, atol=1e-6)
    assert not any("Concat" in name for name in names(made))


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_sequences_of_a_batch_may_end_earlier(op: str) -> None:
    """Whether one has ended is the same for all units, so it chooses between whole vectors of them."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    layer = f"y = {op} <hidden_size = 19> (x, w, r, b, n)"
    made = model(
        f"cell (float[5,3,6] x, int32[3] n) => (float[5,1,3,19] y) {{ {layer} }}",
        w=random(1, gates * 19, 6),
        r=random(1, gates * 19, 19),
        b=random(1, gates * 38),
    )
    feed = {"x": random(5, 3, 6), "n": np.array([5, 1, 3], np.int32)}
    (wanted,) = onnxruntime_outputs(made, feed)
    for target in ("x86-64-v3", "aarch64"):
        program = stages(made, Options(target=target)).program
        assert all(work(k.body, {}).scalar_share < 0.2 for k in program.kernels)
        np.testing.assert_allclose(run(program, feed)[0], wanted, rtol=1e-5, atol=1e-6)
    require_runs("x86-64-v3")
    np.testing.assert_allclose(compiled("x86-64-v3")(made, feed)[0], wanted, rtol=1e-5, atol=1e-6)
