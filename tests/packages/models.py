"""Models that no package's author had in mind, and their packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

from ingot.bundle.bundle import Bundle
from ingot.driver import compile_with
from ingot.options import Options
from ingot.packaging.project import project

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
FLOATS = """g (float[1,2,6,6] image) => (float[1,3] scores) <int64[2] s = {1, 3}>
{ c = Conv (image, w) f = Flatten (c) r = Reshape (f, s) scores = Softmax (r) }"""
MIXED = """g (int64[4] a, uint8[4] arena, bool[4] in) => (int64[4] Identity, int32[4] out, float16[2,2] half)
{ w = Cast <to = 7> (arena) t = Add (a, w) Identity = Where (in, t, a) out = Cast <to = 6> (Identity)
  k = Cast <to = 10> (arena) v = Constant <value = int64[2] {2, 2}> () half = Reshape (k, v) }"""
STATE = "g (float[2] x, float[2] h) => (float[2] y, float[2] n) { n = Add (x, h) y = Mul (n, n) }"
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "floats": (FLOATS, {}),
    "mixed": (MIXED, {}),
    "state": (STATE, {"state": {"n": "h"}}),
}


QUANTISED = """g (int8[1,4] x) => (float[1,4] y) <float s = {0.25}, int8 z = {3}>
{ y = DequantizeLinear (x, s, z) }"""
TEXTS = "g (string[2] words) => (string[2] same) { same = Identity (words) }"
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {"quantised": (QUANTISED, {}), "texts": (TEXTS, {})}
"""What not every kind of package takes, or no language but C has difficulties with."""


def model(name: str) -> onnx.ModelProto:
    made = parser.parse_model(HEAD + (MODELS | OTHERS)[name][0])
    if name == "floats":
        w = np.random.default_rng(0).standard_normal((3, 2, 6, 6)).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return made


def package(kind: str, name: str, folder: Path, **options: Any) -> Bundle:
    """The package of a model, saved into a folder."""
    made = project(
        model(name), Options(name=f"{name}_net", **(MODELS | OTHERS)[name][1], **options), compile_with, kind
    )
    made.save(folder)
    return made
