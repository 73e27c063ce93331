"""The models that a replay emits: the benchmark suite, the examples, the tests' corpus, encoded layers,
options that change the C, and random models by their seeds.

In: nothing. Out: `models(count)`, each with the options it is compiled with. A model is made when its bytes
are asked for, the same every time.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from benchmarks.models import GROUPS, MODELS
from benchmarks.random_models import SEED, draw
from ingot.compression.model import Wish
from ingot.driver import compress_model
from tests.corpus import CASES
from tests.encoded import one_node, random_codes, sparse
from tests.fuzz.found import FOUND, grown
from tests.fuzz.grow import grow

EXAMPLES = Path(__file__).parents[2] / "examples"
RANDOM = 300
QUICK_RANDOM = 40
TARGETS = (
    *("c99", "x86-64", "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni", "i386", "aarch64", "aarch64-dotprod"),
    *(
        "aarch64-i8mm",
        "aarch64-sve256",
        "ppc64le",
        "armv7e-m",
        "armv8.1m",
        "riscv64",
        "s390x",
        "wasm32-simd128",
    ),
)
"""Those whose C is another: what the other targets' records say of it, one of these says too."""
QUICK_TARGETS = ("c99", "x86-64-v3", "x86-64-v4-vnni", "aarch64-dotprod", "armv8.1m")


@dataclass(frozen=True)
class Model:
    """A model and the options it is compiled with, as JSON has them. `is_light`: in the quick share."""

    name: str
    make: Callable[[], onnx.ModelProto]
    options: Mapping[str, Any] = field(default_factory=dict)
    is_light: bool = True


def models(random: int = RANDOM) -> Iterator[Model]:
    """All of them; those that take long last."""
    yield from sorted(_all(random), key=lambda m: not m.is_light)


def _all(random: int) -> Iterator[Model]:
    yield from _suite()
    yield from _drawn()
    yield from _examples()
    yield from _encoded()
    yield from _options()
    for case in CASES:
        yield Model(f"corpus_{case.name}", partial(getattr, case, "model"), {"define": dict(case.define)})
    for name in FOUND:
        yield Model(f"found_{name}", partial(_found, name))
    for seed in range(random):
        yield Model(f"random_{seed}", partial(_grown, seed), is_light=seed < QUICK_RANDOM)


def _suite() -> Iterator[Model]:
    light = {*GROUPS["overhead"], *GROUPS["small"], *GROUPS["sequence"]}
    for name, make in MODELS.items():
        yield Model(name, make, is_light=name in light)


def _drawn() -> Iterator[Model]:
    drawn = draw(SEED)
    for name, model in drawn.items():
        yield Model(name, partial(drawn.__getitem__, name), is_light=len(model.graph.node) < 30)


def _examples() -> Iterator[Model]:
    """As the examples compile them; networks that only PyTorch trains stand here with random weights."""
    yield Model("example_kernel", _policy, {"pauses": True, "frame_bytes": 1024})
    yield Model("example_threads", MODELS["resnet18"], {"threads": True}, is_light=False)
    for name, huffman in (("compression", False), ("compression_huffman", True)):
        yield Model(f"example_{name}", _compressed, {"activations": "int8", "huffman": huffman})


def _policy() -> onnx.ModelProto:
    """The network of `examples/kernel` before its training."""
    example = runpy.run_path(str(EXAMPLES / "kernel" / "train.py"))
    rng, gaps, hidden, kinds = (
        np.random.default_rng(7),
        example["GAPS"],
        example["HIDDEN"],
        example["CLASSES"],
    )
    shapes = {"in": (gaps, hidden), "in_bias": hidden, "out": (hidden, len(kinds)), "out_bias": len(kinds)}
    made: onnx.ModelProto = example["model"]({n: rng.random(s).astype(np.float32) for n, s in shapes.items()})
    return made


def _compressed() -> onnx.ModelProto:
    """LeNet-5, a tenth of its weights left."""
    return compress_model(MODELS["lenet5"](), Wish(density=("0.1",), bits=("4",))).model


def _encoded() -> Iterator[Model]:
    """Products by codes, dense and sparse, in floats and in bytes."""
    shapes = {"dense": (96, 200), "narrow": (10, 64), "wide": (700, 128)}
    for name, shape in shapes.items():
        for kind, density in (("codebook", 1.0), ("sparse", 0.1)):
            for activations in ("float", "int8"):
                make = partial(_product, shape, kind, density)
                yield Model(f"encoded_{name}_{kind}_{activations}", make, {"activations": activations})
    yield Model("encoded_convolution", _encoded_convolution)


def _product(shape: tuple[int, int], kind: str, density: float) -> onnx.ModelProto:
    codes = random_codes(shape, density)
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    bias = {"b": np.linspace(-1, 1, shape[0]).astype(np.float32)}
    return one_node(node, {"x": (1, shape[1])}, bias, {"w": sparse(codes) if kind == "sparse" else codes})


def _encoded_convolution() -> onnx.ModelProto:
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    return one_node(node, {"x": (1, 16, 12, 12)}, {}, {"w": random_codes((24, 16, 3, 3), 1.0)}, rank=4)


def _options() -> Iterator[Model]:
    """What a user can say that changes the C."""
    for name in ("digits", "resnet8"):
        for option in ({"fuse": False}, {"generators": False}, {"math": "exact"}, {"threads": True}):
            (said,) = option.items()
            yield Model(f"{name}_{said[0]}_{said[1]}".lower(), MODELS[name], option)
    yield Model("digits_profile", MODELS["digits"], {"profile": True})
    yield Model("digits_embedded", MODELS["digits"], {"weights": "embedded"})
    for api, weights in (("static", None), ("dynamic", None), ("argument", "embedded")):
        yield Model(f"digits_{api}", MODELS["digits"], {"api": api, "weights": weights})
    mlp = next(c for c in CASES if c.name == "mlp")
    yield Model("mlp_bounded", lambda: mlp.model, {"define": {"N": [1, 64]}})
    yield Model("indigo_state", MODELS["indigo_op"], {"state": {"h_out": "h", "c_out": "c"}})


def _found(name: str) -> onnx.ModelProto:
    return grown(name).model


def _grown(seed: int) -> onnx.ModelProto:
    return grow(seed).model
