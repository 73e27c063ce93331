"""Sigmoids and tanhs over one division: the same values, limits included, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import ingot
from ingot.formula.evaluate import value
from ingot.formula.expr import Expr, Var, binary, call, walk
from ingot.formula.types import FLOAT32, FLOAT64
from ingot.loops.region_passes.quotients import joined

X, Y, Z, C = (Var(n, type=FLOAT32) for n in "xyzc")


def sigmoid(x: Expr) -> Expr:
    return call("sigmoid", x)


def tanh(x: Expr) -> Expr:
    return call("tanh", x)


JOINED = {
    "lstm state": sigmoid(X) * C + sigmoid(Y) * tanh(Z),
    "lstm output": sigmoid(X) * tanh(Y),
    "three factors": sigmoid(X) * tanh(Y) * sigmoid(Z) * C,
    "difference": sigmoid(X) - tanh(Y),
    "one less a gate": (1 - sigmoid(X)) * tanh(Y),
    "nested": sigmoid(X) * tanh(C + sigmoid(Y) * tanh(Z)),
}
KEPT = {
    "one quotient": sigmoid(X) * C,
    "a summand of any size": sigmoid(X) * C + Y,
    "five quotients in a sum": sigmoid(X) + tanh(X) + sigmoid(Y) + tanh(Y) + sigmoid(Z),
}


def divisions(e: Expr) -> int:
    seen = {n for n in walk(e) if getattr(n, "op", "") == "div"}
    return len(seen)


@pytest.mark.parametrize("name", JOINED)
def test_values(name: str) -> None:
    e = JOINED[name]
    new = joined(e)
    assert divisions(new) == (2 if name == "nested" else 1)
    random = np.random.default_rng(0)
    edges = np.array([0, -0.0, 20, -20, 88, -88, 104, -104, 3e38, -3e38, np.inf, -np.inf], np.float32)
    x, y, z = (np.concatenate([random.normal(0, 6, 4000).astype(np.float32), edges]) for _ in range(3))
    for v in (x, y, z):
        random.shuffle(v)
    c = random.normal(0, 50, len(x)).astype(np.float32)
    grid = {"x": x, "y": y, "z": z, "c": c}
    with np.errstate(all="ignore"):
        wanted, found = value(e, {}, grid), value(new, {}, grid)
    assert np.all(np.abs(found - wanted) <= 4e-7 * np.maximum(1, np.abs(c)))


@pytest.mark.parametrize("name", JOINED)
def test_nan_stays(name: str) -> None:
    grid = {n: np.float32(0.5) for n in "xyzc"}
    for n in {v.name for v in walk(JOINED[name]) if isinstance(v, Var)}:
        with np.errstate(all="ignore"):
            assert np.isnan(value(joined(JOINED[name]), {}, {**grid, n: np.float32("nan")}))


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    assert divisions(joined(KEPT[name])) <= 1
    if name != "five quotients in a sum":
        assert joined(KEPT[name]) is KEPT[name]


def test_float64_is_kept() -> None:
    x = Var("x", type=FLOAT64)
    e = binary("mul", sigmoid(x), tanh(x))
    assert joined(e) is e


def test_exact_has_every_function() -> None:
    text = """<ir_version: 10, opset_import: ["" : 17]>
        g (float[32] x, float[32] z) => (float[32] y) { a = Sigmoid(x) b = Tanh(z) y = Mul(a, b) }"""
    proto = parser.parse_model(text)
    for math, wanted in (("standard", False), ("exact", True)):
        bundle = ingot.compile(proto, target="c99", name="gated", math=math)
        assert (b"tanh_f32(" in bundle.files["gated.c"]) == wanted
        x = np.linspace(-30, 30, 32, dtype=np.float32)
        found = bundle.run({"x": x, "z": x[::-1].copy()})["y"]
        np.testing.assert_allclose(found, np.tanh(x[::-1]) / (1 + np.exp(-x)), atol=2e-7)
