"""Small float models, profiles of them, and how both forms answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

from ingot.check.oracle import with_copies
from ingot.formula.expr import Array
from ingot.quantization.profile import BINS, Profile, Statistics, exponent_of, graph_digest
from ingot.quantization.quantize import Quantized, quantize
from ingot.quantization.scheme import Scheme
from tests.oracles import exact_session

Feeds = Sequence[dict[str, Array]]


def net(body: str, constants: dict[str, Array], signature: str, opset: int = 17) -> onnx.ModelProto:
    """A model in onnx's text form, with constants by name."""
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {signature} {{ {body} }}')
    read = {name for node in proto.graph.node for name in node.input}
    proto.graph.initializer.extend(
        numpy_helper.from_array(a, name) for name, a in constants.items() if name in read
    )
    return proto


def profile_of(model: onnx.ModelProto, feeds: Feeds) -> Profile:
    """What the tensors of a model hold over some runs."""
    names = [name for node in model.graph.node for name in node.output if name]
    seen, copies = with_copies(model, names)
    session = exact_session(seen)
    held: dict[str, list[Array]] = {}
    for feed in feeds:
        found = dict(zip([o.name for o in session.get_outputs()], session.run(None, feed), strict=True))
        for name, array in {**feed, **{copies.get(n, n): a for n, a in found.items()}}.items():
            held.setdefault(name, []).append(array)
    floats = {name: arrays for name, arrays in held.items() if arrays[0].dtype == np.float32}
    tensors = {name: statistics(np.stack(arrays)) for name, arrays in floats.items()}
    return Profile(1, graph_digest(model), len(feeds), tensors)


def statistics(samples: Array) -> Statistics:
    """Of a tensor's elements; axis 0 goes over samples."""
    low, high = float(samples.min()), float(samples.max())
    width = math.ldexp(1.0, exponent_of(low, high))
    bins = np.floor(samples.reshape(-1).astype(np.float64) / width) - math.floor(low / width)
    counts = np.bincount(bins.astype(np.int64), minlength=BINS)
    axes = tuple(d for d in range(samples.ndim) if d != 2 or samples.ndim < 3)
    means, squares = (np.atleast_1d(a.mean(axis=axes, dtype=np.float64)) for a in (samples, samples**2))
    return Statistics(
        low, high, samples.size, tuple(counts.tolist()), tuple(means.tolist()), tuple(squares.tolist())
    )


def quantized(model: onnx.ModelProto, feeds: Feeds, **scheme: Any) -> Quantized:
    """The model quantised by what it does on some inputs."""
    return quantize(model, profile_of(model, feeds), Scheme(**scheme), {})


def answers(model: onnx.ModelProto, feeds: Feeds) -> Array:
    """The first output for all inputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = exact_session(model, options)
    return np.stack([session.run(None, feed)[0] for feed in feeds])


def sqnr(wanted: Array, found: Array) -> float:
    """Signal to noise in decibels."""
    noise = float(np.square(wanted.astype(np.float64) - found).sum())
    return 10 * math.log10(float(np.square(wanted.astype(np.float64)).sum()) / max(noise, 1e-30))


def normal(rng: np.random.Generator, *shape: int, size: float = 1.0) -> Array:
    return (rng.standard_normal(shape) * size).astype(np.float32)


def images(rng: np.random.Generator, count: int, *shape: int, name: str = "x") -> list[dict[str, Array]]:
    return [{name: normal(rng, *shape)} for _ in range(count)]


def residual(rng: np.random.Generator) -> onnx.ModelProto:
    """Convolutions with batch normalisations, a residual block, squeeze and excite, pools, a classifier."""
    constants = {
        "w0": normal(rng, 8, 3, 3, 3, size=0.3),
        "w1": normal(rng, 8, 8, 3, 3, size=0.2),
        "b1": normal(rng, 8),
        "dw": normal(rng, 8, 1, 3, 3, size=0.4)
        * np.logspace(-1, 1, 8, dtype=np.float32)[:, None, None, None],
        "gamma": rng.uniform(0.5, 2, 8).astype(np.float32),
        "beta": normal(rng, 8),
        "mean": normal(rng, 8, size=0.2),
        "var": rng.uniform(0.5, 2, 8).astype(np.float32),
        "zero": np.array(0, np.float32),
        "six": np.array(6, np.float32),
        "w2": normal(rng, 4, 8, 1, 1, size=0.4),
        "w3": normal(rng, 8, 4, 1, 1, size=0.4),
        "fc": normal(rng, 32, 10, size=0.2),
        "fb": normal(rng, 10),
        "flat": np.array([1, -1], np.int64),
    }
    return net(
        """c0 = Conv<pads=[1,1,1,1]>(x, w0) n0 = BatchNormalization(c0, gamma, beta, mean, var) r0 = Relu(n0)
        c1 = Conv<pads=[1,1,1,1]>(r0, w1, b1) n1 = BatchNormalization(c1, gamma, beta, mean, var)
        a = Add(n1, r0) r1 = Relu(a)
        d = Conv<group=8, pads=[1,1,1,1], strides=[2,2]>(r1, dw) r2 = Clip(d, zero, six)
        g = GlobalAveragePool(r2) s0 = Conv(g, w2) s1 = Relu(s0) s2 = Conv(s1, w3) s3 = HardSigmoid(s2)
        m = Mul(r2, s3) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(m) t = Concat<axis=1>(p, p)
        e = Slice(t, first, last, axis) v = Reshape(e, flat) 
        f = MatMul(v, fc) o = Add(f, fb) y = Softmax(o)""",
        constants | {"first": np.array([0]), "last": np.array([8]), "axis": np.array([1])},
        "(float[1,3,8,8] x) => (float[1,10] y)",
    )
