"""--optimize: what it decides, functions that several layers share, and what MLPerf Tiny's nets take."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import ingot
from benchmarks.models import MODELS
from ingot.driver import stages
from ingot.loops.alike import generals
from ingot.loops.priority import PRIORITIES
from ingot.options import Optimize, Options
from tests.bundle import build
from tests.bundle.test_selftest import status_of
from tests.corpus.cases import onnxruntime_outputs

LEVELS: tuple[Optimize, ...] = get_args(Optimize)
NETS = ("resnet8", "ds_cnn", "mobilenet", "autoencoder")
CODE = {"size": 8000, "speed": 12000}


@cache
def net(name: str) -> onnx.ModelProto:
    """A net of the benchmark suite, in floats or in bytes."""
    model = MODELS[name.removesuffix("_int8")]()
    if not name.endswith("_int8"):
        return model
    (edge,) = model.graph.input
    shape = [d.dim_value for d in edge.type.tensor_type.shape.dim]
    data = np.random.default_rng(7).standard_normal((4, *shape[1:])).astype(np.float32)
    profile = ingot.profile(model, {edge.name: data})
    return onnx.load_from_string(ingot.quantize(model, profile).model.SerializeToString())


def chain() -> onnx.ModelProto:
    """Convolutions and products that differ in sizes, and one that is grouped otherwise."""
    made = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[1,4,16,16] x) => (float[1,12] y)
        { a = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (x, k1)  b = Relu (a)
          c = Conv <kernel_shape = [3,3], pads = [1,1,1,1], strides = [2,2]> (b, k2)  d = Relu (c)
          e = Conv <kernel_shape = [3,3], pads = [1,1,1,1], strides = [2,2]> (d, k3)  f = Relu (e)
          g1 = Conv <kernel_shape = [1,1]> (f, k4)  h = Relu (g1)
          p = GlobalAveragePool (h)  q = Flatten (p)
          r = MatMul (q, w1)  s = Relu (r)  t = MatMul (s, w2)  u = Relu (t)
          v = MatMul (u, w3)  y = Relu (v) }"""
    )
    shapes = {
        "k1": (8, 4, 3, 3),
        "k2": (12, 8, 3, 3),
        "k3": (16, 12, 3, 3),
        "k4": (20, 16, 1, 1),
        "w1": (20, 24),
        "w2": (24, 16),
        "w3": (16, 12),
    }
    rng = np.random.default_rng(3)
    for name, shape in shapes.items():
        scale = np.sqrt(2 / np.prod(shape[1:] if name[0] == "k" else shape[:1]))
        values = (rng.standard_normal(shape) * scale).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(values, name))
    return made


@pytest.mark.parametrize("target", ["c99", "x86-64-v3", "armv7e-m", "aarch64"])
@pytest.mark.parametrize("level", ["size", "balanced"])
def test_shared_functions_compute_what_each_layer_does(level: Optimize, target: str) -> None:
    """Against onnxruntime, and layer by layer against the loops that were not shared."""
    bundle = ingot.compile(chain(), target=target, name="net", optimize=level, selftest=True)
    assert status_of(bundle) == 0
    feeds = {"x": np.random.default_rng(5).standard_normal((1, 4, 16, 16)).astype(np.float32)}
    (wanted,) = onnxruntime_outputs(chain(), feeds)
    np.testing.assert_allclose(bundle.run(feeds)["y"], wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["ds_cnn_int8", "mobilenet"])
def test_the_nets_agree_layer_by_layer(name: str) -> None:
    bundle = ingot.compile(net(name), target="armv7e-m", name="net", optimize="size", selftest=True)
    assert status_of(bundle) == 0


def test_layers_of_different_sizes_share_a_function() -> None:
    functions = {
        level: {k["name"] for k in made.manifest["kernels"]}
        for level in LEVELS
        for made in [ingot.compile(chain(), target="c99", name="net", optimize=level)]
    }
    assert len(functions["size"]) < len(functions["speed"])
    text = ingot.compile(chain(), target="c99", name="net", optimize="size").files["net.c"].decode()
    found = re.search(r"/\* MatMul .*?given the sizes of (.*?) too.*?\n.*?\(int size_", text, re.S)
    assert found is not None
    kernels = stages(chain(), Options(target="c99", optimize="size")).program.kernels
    shared = generals(kernels)
    assert set(shared) <= set(kernels)
    for kernel, general in shared.items():
        assert len(general.given) > 1
        assert len(general.given[kernel]) == len(general.kernel.numbers) > 0


@pytest.mark.parametrize("kind", build.COMPILERS)
def test_strict_compilers_take_what_is_shared(kind: str, tmp_path: Path) -> None:
    """No number is given that nobody reads."""
    bundle = ingot.compile(net("mobilenet"), target="c99", name="net", optimize="size")
    build.write(tmp_path, bundle.files)
    build.compile_c(kind, tmp_path, "net.c", "-std=c99", *build.STRICT, "-Os")


def test_numbers_that_are_given_are_those_that_differ() -> None:
    kernels = stages(chain(), Options(target="c99", optimize="size")).program.kernels
    for general in set(generals(kernels).values()):
        columns = list(zip(*general.given.values(), strict=True))
        assert all(len(set(map(repr, column))) > 1 for column in columns)
        assert len({tuple(map(repr, column)) for column in columns}) == len(columns)


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "cortex-m0"])
@pytest.mark.parametrize("name", NETS)
def test_bytes_of_code_beside_the_constants(name: str, target: str) -> None:
    """MLPerf Tiny's nets in bytes: what the object takes beyond its weights."""
    sizes = {
        level: ingot.compile(
            net(f"{name}_int8"), target=target, name="net", optimize=level, emit=("obj",)
        ).manifest["sizes"]
        for level in LEVELS
    }
    beside = {level: s["flash_bytes"] - s["weights_bytes"] for level, s in sizes.items()}
    assert beside["size"] <= CODE["size"]
    assert beside["speed"] <= CODE["speed"]
    assert beside["size"] <= beside["speed"] + 16


def test_size_stores_no_transformed_weights() -> None:
    sizes = {
        level: ingot.compile(MODELS["resnet8"](), target="x86-64-v3", name="net", optimize=level).manifest
        for level in LEVELS
    }
    weights = {level: m["sizes"]["weights_bytes"] for level, m in sizes.items()}
    assert weights["size"] == weights["balanced"] < weights["speed"]
    assert sizes["size"]["sizes"]["code_bytes"] < sizes["balanced"]["sizes"]["code_bytes"]


def test_speed_is_what_is_compiled_without_the_option() -> None:
    plain: Any = ingot.compile(chain(), target="armv7e-m", name="net")
    assert PRIORITIES.keys() == set(LEVELS)
    assert ingot.compile(chain(), target="armv7e-m", name="net", optimize="speed").object == plain.object


def test_threads_keep_their_tasks() -> None:
    bundle = ingot.compile(chain(), target="x86-64-v3", name="net", optimize="size", threads=True)
    feeds = {"x": np.random.default_rng(5).standard_normal((1, 4, 16, 16)).astype(np.float32)}
    (wanted,) = onnxruntime_outputs(chain(), feeds)
    np.testing.assert_allclose(bundle.run(feeds)["y"], wanted, atol=1e-5 * np.abs(wanted).max())
