"""WebAssembly modules: NAME.wasm has no imports, and NAME.mjs gives in Node what the bundle gives here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import ingot
from ingot.binary.objects import undefined_symbols
from ingot.errors import InputError
from tests.here import require_program

Array = np.ndarray[Any, Any]
HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
MODELS = {
    "floats": "g (float[1,2,6,6] x) => (float[1,3] y) <float[3,2,6,6] w> "
    "{ c = Conv (x, w) f = Flatten (c) y = Softmax (f) }",
    "integers": "g (int64[4] a, uint8[4] b, bool[4] c) => (int64[4] y, int32[4] z) "
    "{ w = Cast <to = 7> (b) s = Add (a, w) y = Where (c, s, a) z = Cast <to = 6> (y) }",
    "extents": "g (float[N,3] x) => (float[N,3] y) { y = Softmax (x) }",
    "state": "g (float[2] x, float[2] h) => (float[2] y, float[2] g) { g = Add (x, h) y = Mul (g, g) }",
}
SCRIPT = """
import { load, inputs } from "./net.mjs";
const { readFileSync } = await import("node:fs");
const { given, sizes, turns, weights } = JSON.parse(readFileSync(0, "utf8"));
const network = weights ? await load(undefined, readFileSync(weights)) : await load();
const types = Object.fromEntries(inputs.map((i) => [i.name, globalThis[i.type]]));
const made = Object.fromEntries(Object.entries(given).map(([n, v]) =>
  [n, types[n].from(v.map((x) => types[n] === BigInt64Array ? BigInt(x) : x))]));
let found;
for (let i = 0; i < turns; i++) found = network.run(made, sizes);
const plain = Object.entries(found).map(([n, v]) => [n, Array.from(v, Number)]);
console.log(JSON.stringify(Object.fromEntries(plain)));
"""


def model(name: str) -> onnx.ModelProto:
    made = parser.parse_model(HEAD + MODELS[name].replace("<float[3,2,6,6] w>", ""))
    if name == "floats":
        w = np.random.default_rng(0).standard_normal((3, 2, 6, 6)).astype(np.float32)
        made.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    return made


def in_node(
    bundle: ingot.Bundle, folder: Path, given: Mapping[str, Array], turns: int = 1, **more: Any
) -> Any:
    bundle.save(folder)
    (folder / "test.mjs").write_text(SCRIPT)
    lists = {name: a.reshape(-1).tolist() for name, a in given.items()}
    sent = json.dumps({"given": lists, "sizes": {}, "turns": turns, **more})
    done = subprocess.run(
        ["node", "test.mjs"], cwd=folder, input=sent, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def _node() -> None:
    require_program("node")


def inputs(name: str) -> dict[str, Array]:
    random = np.random.default_rng(1)
    if name == "integers":
        return {
            "a": np.array([1, -2, 2**40, 5]),
            "b": np.array([1, 255, 3, 4], np.uint8),
            "c": np.array([True, False, True, True]),
        }
    shape = {"floats": (1, 2, 6, 6), "extents": (5, 3), "state": (2,)}[name]
    return {"x": random.standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("target", ["wasm32", "wasm32-simd128"])
@pytest.mark.parametrize("name", MODELS)
def test_node_gives_what_the_bundle_gives(name: str, target: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"state": {"g": "h"}} if name == "state" else {}
    options |= {"define": {"N": (1, 8)}} if name == "extents" else {}
    bundle = ingot.compile(model(name), target=target, name="net", **options)
    assert {"net.wasm", "net.mjs", "net.d.mts"} <= bundle.files.keys()
    assert undefined_symbols(bundle.files["net.wasm"]) == []
    given, turns = inputs(name), 3 if name == "state" else 1
    session = bundle.session()
    for _ in range(turns):
        wanted = session.run(given)
    found = in_node(bundle, tmp_path / "net", given, turns, sizes={"N": 5} if name == "extents" else {})
    assert {n: np.asarray(v).size for n, v in found.items()} == {n: a.size for n, a in wanted.items()}
    for n, array in wanted.items():
        assert np.array_equal(np.array(found[n], array.dtype), array.reshape(-1)), n


def test_weights_of_the_caller(tmp_path: Path) -> None:
    bundle = ingot.compile(model("floats"), target="wasm32-simd128", name="net", weights="external")
    given = inputs("floats")
    found = in_node(bundle, tmp_path / "net", given, weights="net.weights.bin")
    assert np.array_equal(np.array(found["y"], np.float32), bundle.run(given)["y"].reshape(-1))


def test_what_is_no_module_is_one_error() -> None:
    for options in (
        {"target": "c99"},
        {"target": "wasm32", "api": "static"},
        {"target": "wasm32", "profile": True},
    ):
        with pytest.raises(InputError, match="no module is made"):
            ingot.compile(model("floats"), emit=("module",), **options)
    static = ingot.compile(model("floats"), target="wasm32", api="static", name="net")
    assert "net.wasm" not in static.files and static.run(inputs("floats"))["y"].shape == (1, 3)
