"""Models of the corpus that are bytes from end to end: small networks of MLPerf Tiny's kinds, whose layers a
quantiser wrote as QDQ or as QLinear operators. Their outputs are bytes too, the same on every target.

Scales are odd numbers, as calibration gives them: nearly every result is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tests.corpus.cases import Case
from tests.corpus.net import Array, Net

MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Quantised:
    """A tensor of bytes by name, and what they stand for: (byte - zero) * scale. Numbers have deviation 1."""

    name: str
    scale: float
    zero: int


@dataclass(frozen=True)
class Layers:
    """Layers of quantised networks; `kind` is the type of activations, `qdq` how layers are written."""

    net: Net
    kind: Any
    qdq: bool

    def feed(self, *shape: int) -> Quantised:
        lo, hi = np.iinfo(self.kind).min, np.iinfo(self.kind).max
        middle = (int(lo) + int(hi) + 1) // 2
        bytes_ = np.clip(np.rint(self.net.random(*shape) * 40 + middle), lo, hi).astype(self.kind)
        return Quantised(self.net.feed("x", bytes_), 0.025, middle)

    def result(self, low: float = -3.1, high: float = 2.9) -> tuple[float, int]:
        """Scale and zero point of a range, made a little wider by chance."""
        lo = int(np.iinfo(self.kind).min)
        scale = float(np.float32((high - low) * self.net.rng.uniform(1.0, 1.2) / 255))
        return scale, min(max(lo + round(-low / scale), lo), lo + 255)

    def numbers(self, q: Quantised) -> tuple[str, str]:
        return self.net.const(q.scale, np.float32), self.net.const(q.zero, self.kind)

    def floats(self, q: Quantised) -> str:
        return str(self.net("DequantizeLinear", q.name, *self.numbers(q)))

    def quantise(self, y: str, scale: float, zero: int) -> Quantised:
        ends = self.net.const(scale, np.float32), self.net.const(zero, self.kind)
        return Quantised(str(self.net("QuantizeLinear", y, *ends)), scale, zero)

    def weights(self, *shape: int, fan: int) -> tuple[Array, Array]:
        """int8 weights, and scales per output channel that keep the deviation at 1."""
        w = self.net.rng.integers(-127, 128, shape).astype(np.int8)
        scales = self.net.rng.uniform(0.8, 1.3, shape[0]) / (73 * np.sqrt(fan))
        return w, scales.astype(np.float32)

    def conv(
        self,
        x: Quantised,
        c_in: int,
        c_out: int,
        kernel: tuple[int, int],
        limit: float = 0,
        **attributes: Any,
    ) -> Quantised:
        """A convolution with bias, a Relu if `limit` is infinite, a Clip if it is positive."""
        group = attributes.get("group", 1)
        fan = c_in // group * prod(kernel)
        w, scales = self.weights(c_out, c_in // group, *kernel, fan=fan)
        bias = self.net.rng.integers(-(127 * fan), 127 * fan + 1, c_out).astype(np.int32)
        to = self.result(0, min(limit, 3.0)) if limit else self.result()
        per, zeros, units = map(
            self.net.const, (scales, np.zeros_like(w, shape=c_out), scales * np.float32(x.scale))
        )
        kernel_name, bias_name = self.net.const(w), self.net.const(bias)
        if not self.qdq:
            ends = self.net.const(to[0], np.float32), self.net.const(to[1], self.kind)
            found = self.net(
                "QLinearConv",
                x.name,
                *self.numbers(x),
                kernel_name,
                per,
                zeros,
                *ends,
                bias_name,
                **attributes,
            )
            return Quantised(str(found), *to)
        dequantised = self.net("DequantizeLinear", kernel_name, per, zeros, axis=0)
        added = self.net("DequantizeLinear", bias_name, units, axis=0)
        y = self.net("Conv", self.floats(x), dequantised, added, **attributes)
        if limit:
            ends = self.net.const(0, np.float32), self.net.const(limit, np.float32)
            y = self.net("Relu", y) if np.isinf(limit) else self.net("Clip", y, *ends)
        return self.quantise(y, *to)

    def add(self, a: Quantised, b: Quantised) -> Quantised:
        to = self.result(-4.1, 4.2)
        if self.qdq:
            return self.quantise(self.net("Add", self.floats(a), self.floats(b)), *to)
        ends = self.net.const(to[0], np.float32), self.net.const(to[1], self.kind)
        operands = (a.name, *self.numbers(a), b.name, *self.numbers(b))
        return Quantised(str(self.net("QLinearAdd", *operands, *ends, domain=MICROSOFT)), *to)

    def dense(self, x: str, q: Quantised, n_in: int, n_out: int) -> Quantised:
        """Rows of bytes `x`, that stand for what q's do, by a matrix."""
        (w, scales), to = self.weights(n_out, n_in, fan=n_in), self.result()
        matrix, zero = np.ascontiguousarray(w.T), np.zeros(1, np.int8)
        ends = self.net.const(to[0], np.float32), self.net.const(to[1], self.kind)
        if not self.qdq:
            weights = map(self.net.const, (matrix, scales[:1], zero))
            return Quantised(str(self.net("QLinearMatMul", x, *self.numbers(q), *weights, *ends)), *to)
        weights = map(self.net.const, (matrix, scales, np.zeros(n_out, np.int8)))
        dequantised = self.net("DequantizeLinear", *weights, axis=1)
        rows = self.floats(Quantised(x, q.scale, q.zero))
        return self.quantise(self.net("MatMul", rows, dequantised), *to)


def resnet_bytes(net: Net) -> tuple[str, str]:
    """ResNet-8's: 3x3 layers, residual additions, a mean, classes; QDQ, int8, softmax to bytes."""
    q = Layers(net, np.int8, qdq=True)
    x = q.conv(q.feed(1, 3, 12, 10), 3, 8, (3, 3), np.inf, pads=[1, 1, 1, 1])
    y = q.conv(q.conv(x, 8, 8, (3, 3), np.inf, pads=[1, 1, 1, 1]), 8, 8, (3, 3), pads=[1, 1, 1, 1])
    x = q.add(x, y)
    y = q.conv(
        q.conv(x, 8, 13, (3, 3), np.inf, pads=[0, 0, 1, 1], strides=[2, 2]), 13, 13, (3, 3), pads=[1, 1, 1, 1]
    )
    x = q.add(q.conv(x, 8, 13, (1, 1), strides=[2, 2]), y)
    mean = q.quantise(net("GlobalAveragePool", q.floats(x)), *q.result(-0.6, 0.9))
    scores = q.dense(net("Flatten", mean.name), mean, 13, 10)
    return x.name, q.quantise(net("Softmax", q.floats(scores), axis=-1), 1 / 256, -128).name


def keywords_bytes(net: Net) -> tuple[str, str]:
    """DS-CNN's: a long first kernel, depthwise and pointwise layers; QLinear operators, uint8."""
    q = Layers(net, np.uint8, qdq=False)
    x = q.conv(q.feed(1, 1, 25, 7), 1, 16, (10, 4), pads=[4, 1, 5, 1], strides=[2, 2])
    for _ in range(2):
        x = q.conv(x, 16, 16, (3, 3), pads=[1, 1, 1, 1], group=16)
        x = q.conv(x, 16, 16, (1, 1))
    to = q.result(-1.1, 1.3)
    ends = net.const(to[0], np.float32), net.const(to[1], np.uint8)
    mean = net("QLinearGlobalAveragePool", x.name, *q.numbers(x), *ends, domain=MICROSOFT)
    scores = q.dense(net("Flatten", mean), Quantised("", *to), 16, 12)
    ends = net.const(1 / 256, np.float32), net.const(0, np.uint8)
    return scores.name, str(net("QLinearSigmoid", scores.name, *q.numbers(scores), *ends, domain=MICROSOFT))


def mobilenet_bytes(net: Net) -> tuple[str, str]:
    """MobileNetV2's inverted residual, branches of two scales joined, windows averaged, a sigmoid."""
    q = Layers(net, np.uint8, qdq=True)
    x = q.conv(q.feed(1, 3, 12, 10), 3, 8, (3, 3), 6.0, pads=[1, 1, 1, 1], strides=[2, 2])
    x = q.conv(x, 8, 8, (1, 1))
    y = q.conv(q.conv(x, 8, 24, (1, 1), 6.0), 24, 24, (3, 3), 6.0, pads=[1, 1, 1, 1], group=24)
    both = q.add(x, q.conv(y, 24, 8, (1, 1)))
    joined = q.quantise(net("Concat", q.floats(both), q.floats(x), axis=1), *q.result(-3.9, 4.4))
    pooled = net("AveragePool", q.floats(joined), kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 0, 0])
    means = q.quantise(pooled, *q.result(-2.2, 2.4))
    gate = q.quantise(net("Sigmoid", q.floats(means)), 1 / 256, 0)
    return means.name, q.quantise(net("Mul", q.floats(means), q.floats(gate)), *q.result(-0.9, 2.4)).name


def memory_bytes(net: Net) -> str:
    """An LSTM by int8 matrices, bytes in and out."""
    q = Layers(net, np.int8, qdq=True)
    x = q.feed(7, 1, 12)
    w, r = (net.rng.integers(-127, 128, (1, 64, n)).astype(np.int8) for n in (12, 16))
    matrices = (
        net("DequantizeLinear", net.const(m), net.const(s, np.float32), net.const(0, np.int8))
        for m, s in ((w, 0.004), (r, 0.0031))
    )
    bias = net.const(net.random(1, 128, scale=0.1))
    y, _ = net("LSTM", q.floats(x), *matrices, bias, outputs=2, hidden_size=16)
    return q.quantise(y, 1 / 128, 0).name


CASES = [
    Case("resnet_bytes", resnet_bytes, steps=1),
    Case("keywords_bytes", keywords_bytes),
    Case("mobilenet_bytes", mobilenet_bytes, steps=1),
    Case("memory_bytes", memory_bytes, steps=2),
]
