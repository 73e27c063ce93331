"""Random operators: the generator's published vectors, the numbers' distributions, and numbers per call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import ingot
from ingot.check.verify import verify
from ingot.driver import compile_with, front
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.options import Options
from tests.ops.random import philox

COUNT = 20_000
VECTORS = [  # of the authors' own library
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')


def drawn(node: str, dtype: str = "float", count: int = COUNT) -> Array:
    """What a node without inputs makes: a constant of the graph."""
    graph = front(model(f"g () => ({dtype}[{count}] y) {{ y = {node} }}"), Options())
    assert graph.outputs[0].constant is not None
    return graph.outputs[0].constant.astype(np.float64)


def distance(sample: Array, share: Array) -> float:
    """Kolmogorov and Smirnov: how far a sample is from `share`, times the root of its size."""
    steps = np.arange(len(sample) + 1) / len(sample)
    return float(max(np.max(steps[1:] - share), np.max(share - steps[:-1]))) * math.sqrt(len(sample))


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_published_vectors(counter: Any, key: Any, words: Any) -> None:
    """They hold for the oracle of the rows, which the bundles agree with."""
    assert philox(counter, key) == words


@pytest.mark.parametrize("dtype", [1, 11])
@pytest.mark.parametrize("seed", ["", ", seed=1.0", ", seed=2.5"])
def test_uniform_numbers(dtype: int, seed: str) -> None:
    name = {1: "float", 11: "double"}[dtype]
    u = drawn(f"RandomUniform<shape=[{COUNT}], dtype={dtype}, low=-2.0, high=6.0{seed}>()", name)
    assert u.min() >= -2 and u.max() < 6
    assert abs(u.mean() - 2) < 4 * 8 / math.sqrt(12 * COUNT)
    assert distance(np.sort(u), (np.sort(u) + 2) / 8) < 1.95  # one sample in a thousand is farther


@pytest.mark.parametrize("dtype", [1, 11])
@pytest.mark.parametrize("seed", ["", ", seed=1.0", ", seed=2.5"])
def test_normal_numbers(dtype: int, seed: str) -> None:
    name = {1: "float", 11: "double"}[dtype]
    z = drawn(f"RandomNormal<shape=[{COUNT}], dtype={dtype}, mean=3.0, scale=0.5{seed}>()", name)
    z = np.sort((z - 3) / 0.5)
    assert abs(z.mean()) < 4 / math.sqrt(COUNT) and abs(z.std() - 1) < 4 / math.sqrt(2 * COUNT)
    assert 3.2 < -z[0] < 6.8 and 3.2 < z[-1] < 6.8
    assert distance(z, np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in z])) < 1.95
    assert abs(np.mean(z**4) - 3) < 4 * math.sqrt(96 / COUNT)


def test_neighbours_and_nodes_are_independent() -> None:
    """Correlations within a tensor, and between the numbers of nodes and of seeds."""
    z = drawn(f"RandomNormal<shape=[{COUNT}], seed=4.0>()")
    others = [z[1:], z[2:], z[4:], drawn(f"RandomNormal<shape=[{COUNT}]>()")]
    for other in others:
        n = len(other)
        assert abs(np.mean(z[:n] * other)) < 4 / math.sqrt(n)


def test_classes_come_as_often_as_they_are_likely() -> None:
    share = np.array([0.5, 0.25, 0.125, 0.125])
    text = f"g (float[1,4] x) => (int32[1,{COUNT}] y) {{ y = Multinomial<sample_size={COUNT}>(x) }}"
    y = ingot.compile(model(text), target="c99").run({"x": np.log(share)[None].astype(np.float32)})["y"]
    found = np.bincount(y[0], minlength=4) / COUNT
    assert np.all(np.abs(found - share) < 4 * np.sqrt(share * (1 - share) / COUNT))


def test_dropout_keeps_the_mean() -> None:
    text = f"""g (float[{COUNT}] x, float r, bool t) => (float[{COUNT}] y, bool[{COUNT}] mask)
               {{ y, mask = Dropout(x, r, t) }}"""
    bundle, x = ingot.compile(model(text), target="c99"), np.ones(COUNT, np.float32)
    for ratio in (0.1, 0.5, 0.9):
        found = bundle.run({"x": x, "r": np.float32(ratio), "t": np.array(True)})
        part = math.sqrt(ratio * (1 - ratio) / COUNT)
        assert abs(found["mask"].mean() - (1 - ratio)) < 4 * part
        np.testing.assert_allclose(found["y"], found["mask"] / np.float32(1 - ratio), rtol=1e-6)
    same = bundle.run({"x": x, "r": np.float32(0.5), "t": np.array(False)})
    assert np.array_equal(same["y"], x) and same["mask"].all()


LOOPS = """g (float[3] x) => (float[2,2,3] y, float[3] z) <int64 n = {2}, bool go = {1}> {
  z = RandomUniformLike(x)
  y = Loop(n, go) <body = outer (int64 i, bool c) => (bool c2, float[2,3] inner) {
    c2 = Identity(c)
    inner = Loop(n, go) <body = b (int64 j, bool d) => (bool d2, float[3] u) {
      d2 = Identity(d)
      u = RandomUniformLike(x)
    }>
  }>
}"""


def test_every_turn_draws_other_numbers() -> None:
    found = ingot.compile(model(LOOPS), target="c99").run({"x": np.zeros(3, np.float32)})
    numbers = [*found["y"].reshape(-1), *found["z"]]
    assert len(set(numbers)) == len(numbers)


def test_every_seed_draws_other_numbers() -> None:
    bundle, x = ingot.compile(model(LOOPS), target="c99", seed_input=True), np.zeros(3, np.float32)
    runs = [bundle.run({"x": x, "seed": np.array(s)}) for s in (0, 1, -1, 1 << 40, 1)]
    assert len({float(v) for r in runs[:4] for v in (*r["y"].reshape(-1), *r["z"])}) == 4 * 15
    assert np.array_equal(runs[1]["y"], runs[4]["y"])
    plain = ingot.compile(model(LOOPS), target="c99").run({"x": x})
    assert np.array_equal(plain["z"], runs[0]["z"])


def test_the_seed_is_an_input_only_where_something_is_random() -> None:
    text = "g (float[3] seed) => (float[3] y) { y = Relu(seed) }"
    with pytest.raises(InputError, match="seed_input: no operator of the model draws numbers"):
        ingot.compile(model(text), target="c99", seed_input=True)
    text = "g (float[3] seed) => (float[3] y) { y = RandomUniformLike(seed) }"
    bundle = ingot.compile(model(text), target="c99", seed_input=True)
    assert [t["name"] for t in bundle.manifest["inputs"]] == ["seed", "seed_"]


@pytest.mark.parametrize(
    "node",
    [
        "RandomUniform<shape=[-1]>()",
        "RandomUniform<shape=[2], dtype=7>()",
        "RandomNormal()",
        "RandomUniform<shape=[100000, 100000]>()",
        "RandomNormal<shape=[2], seed=[1.0]>()",
    ],
)
def test_nonsense_is_one_error(node: str) -> None:
    with pytest.raises(InputError, match="Random"):
        ingot.compile(model(f"g () => (float[2] y) {{ y = {node} }}"), target="c99")


def test_verify_says_that_there_is_nothing_to_compare() -> None:
    text = "g (float[3] x) => (float[3] y) { r = RandomUniformLike(x) y = Add(x, r) }"
    with pytest.raises(InputError, match="RandomUniformLike node 'r' draws random numbers"):
        verify(model(text), Options(target="c99"), compile_with)
    text = "g (float[3] x) => (float[3] y) { y = Dropout(x) }"
    assert verify(model(text), Options(target="c99"), compile_with).ok
