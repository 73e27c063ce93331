"""The C of a bundle has nothing that gcc's usual warnings would say a word about."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import parser

import ingot
from ingot.targets.records import find

from .build import STRICT, compile_c, need, write

MODELS = {
    # Where a helper needs several lines, what follows an `if` stands on the next one.
    "narrow_floats": """
        g (float[5] x) => (float16[5] half, bfloat16[5] brain, float8e4m3fn[5] quarter, float[5] y) {
            half = Cast <to = 10> (x)
            brain = Cast <to = 16> (x)
            quarter = Cast <to = 17> (x)
            back = Cast <to = 1> (half)
            more = Cast <to = 1> (brain)
            y = Add (back, more)
        }""",
    # Of no places none is asked for, and no quotient by 0 is printed.
    "no_places": """
        g (float[2, 3, 4] boxes, float[2, 3, 3] scores, float[2, 3, 0] nothing)
            => (int64[K, 3] chosen, int64[3, L] places) <int64 most = {0}> {
            chosen = NonMaxSuppression (boxes, scores, most)
            places = NonZero (nothing)
        }""",
    # Vectors of doubles as wide as the target's: a wider one is returned in memory, or not, says gcc.
    "a_halo_of_doubles": """
        g (double[1, 16, 9, 9] x, double[16, 16, 3, 3] w) => (double[1, 16, 9, 9] y) {
            y = Conv <pads = [1, 1, 1, 1]> (x, w)
        }""",
    # Trees that are leaves compare nothing, least of all an unsigned number with 0.
    "trees_of_one_leaf": """
        g (float[4, 2] x) => (float[4, 1] y) {
            y = ai.onnx.ml.TreeEnsembleRegressor <
                nodes_treeids = [0, 1], nodes_nodeids = [0, 0], nodes_featureids = [0, 0],
                nodes_values = [0.0, 0.0], nodes_modes = ["LEAF", "LEAF"], nodes_truenodeids = [0, 0],
                nodes_falsenodeids = [0, 0], target_treeids = [0, 1], target_nodeids = [0, 0],
                target_ids = [0, 0], target_weights = [1.5, -0.25]> (x)
        }""",
    # One argument for two parameters: neither is `restrict`.
    "one_tensor_twice": """
        g (string[3] a) => (string[3] b) { b = StringConcat (a, a) }""",
    "one_tensor_in_two_shapes": """
        g (float[2, 6, 9, 1] x) => (float[2, 6, 18, 2] y) <float[6, 3, 4, 3] w = {FILL}> {
            y = ConvTranspose <group = 2, pads = [1, 1, 1, 0], strides = [2, 2]> (x, w)
        }""".replace("FILL", ", ".join(str(i % 7 - 3) for i in range(216))),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", ["c99", "x86-64-v3"])
def test_gcc_has_nothing_to_say(name: str, target: str, tmp_path: Path) -> None:
    need("gcc")
    model = parser.parse_model('<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]>' + MODELS[name])
    bundle = ingot.compile(model, name="net", target=target, capacity={"": 8})
    write(tmp_path, bundle.files)
    compile_c("gcc", tmp_path, "net.c", "-std=gnu99", *find(target).gcc[1:], *STRICT)
