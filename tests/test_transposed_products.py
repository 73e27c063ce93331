"""Products of two tensors that lie transposed: the result is transposed instead where that takes less."""

from __future__ import annotations

import pytest
from onnx import parser

from ingot.driver import stages
from ingot.options import Options
from tests.corpus.cases import onnxruntime_outputs
from tests.here import require_runs
from tests.ops.rows import floats
from tests.probes.levels import agree_from_loops


@pytest.mark.parametrize("target", ["c99", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(
    ("sizes", "how", "pays"),
    [
        ((40, 70, 10), {"transA": 1, "transB": 1}, True),
        ((40, 70, 10), {"transA": 1}, True),
        ((16, 64, 50), {"transA": 1, "transB": 1}, True),
        ((40, 33, 50), {"transA": 1, "transB": 1}, False),
        ((5, 64, 10), {"transA": 1, "transB": 1}, False),
        ((40, 12, 10), {"transA": 1}, False),
        ((40, 70, 10), {}, False),
        ((40, 70, 10), {"transB": 1}, False),
    ],
)
def test_gemm(sizes: tuple[int, int, int], how: dict[str, int], pays: bool, target: str) -> None:
    require_runs(target)
    m, k, n = sizes
    a, b = (k, m) if how.get("transA") else (m, k), (n, k) if how.get("transB") else (k, n)
    attributes = ", ".join(f"{key} = {value}" for key, value in how.items()) or "alpha = 1.0"
    proto = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        g (float[{a[0]},{a[1]}] x, float[{b[0]},{b[1]}] z, float[{n}] c) => (float[{m},{n}] y)
        {{ s = Gemm <{attributes}> (x, z, c)  y = Relu (s) }}"""
    )
    feed = {"x": floats(*a, seed=3), "z": floats(*b, seed=4), "c": floats(n, seed=5)}
    program = stages(proto, Options(target=target)).program
    made = {t.name for k in program.kernels for t in (*k.parameters, *k.scratch)}
    assert any("_transposed" in name for name in made) == pays
    agree_from_loops(program, feed, list(onnxruntime_outputs(proto, feed)), 1e-5, target)
