"""Networks as NetDefs of Caffe2, and what they compute: layers are written and evaluated in float64 at once.

Nothing here is the importer's: values follow from the operators' documentation, by loops and sums of numpy's.
Weights are random, and as large as keeps values near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Operator = tuple[str, str, str, dict[str, Any]]


def erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def windows(x: Array, kernel: int, stride: int, pad: int, filler: float = 0.0) -> Array:
    """[N, C, H, W, kernel, kernel]"""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=filler)
    return np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]


def convolved(x: Array, w: Array, stride: int, pad: int, group: int) -> Array:
    parts = zip(np.split(x, group, 1), np.split(w, group), strict=True)
    made = [np.einsum("nchwij,ocij->nohw", windows(p, w.shape[2], stride, pad), v) for p, v in parts]
    return np.concatenate(made, 1)


class Network:
    """Blobs are their names; `values` holds what each is, in float64 (indices in int64)."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.fills: dict[str, Array] = {}
        self.operators: list[Operator] = []
        self.values: dict[str, Array] = {}
        self.inputs: dict[str, Array] = {}

    # ---- blobs

    def input(self, name: str, array: Array) -> str:
        self.inputs[name] = self.values[name] = array
        return name

    def image(self, name: str, channels: int, size: int) -> str:
        return self.input(name, self.random.standard_normal((1, channels, size, size)).astype(np.float32))

    def tokens(self, name: str, count: int, words: int = 20) -> str:
        return self.input(name, self.random.integers(0, words, (1, count)))

    def weight(self, *shape: int, scale: float = 1.0, shift: float = 0.0) -> str:
        name = f"w{len(self.fills)}"
        array = (self.random.standard_normal(shape) * scale + shift).astype(np.float32)
        self.fills[name] = array
        self.values[name] = array.astype(float)
        return name

    def op(self, kind: str, inputs: str, value: Array, more: Sequence[str] = (), **arguments: Any) -> str:
        """Write an operator; its first result has this value."""
        name = f"{kind.lower()}{len(self.operators)}"
        self.operators.append((kind, inputs, " ".join((name, *more)), arguments))
        self.values[name] = value
        return name

    def __getitem__(self, name: str) -> Array:
        return self.values[name]

    # ---- layers

    def conv(self, x: str, count: int, kernel: int = 3, stride: int = 1, group: int = 1) -> str:
        channels = self[x].shape[1] // group
        w = self.weight(count, channels, kernel, kernel, scale=(channels * kernel * kernel) ** -0.5)
        b, pad = self.weight(count, scale=0.1), kernel // 2
        value = convolved(self[x], self[w], stride, pad, group) + self[b].reshape(1, -1, 1, 1)
        how = {"kernel": kernel, "stride": stride, "pad": pad, "group": group, "order": "NCHW"}
        return self.op("Conv", f"{x} {w} {b}", value, **how)

    def up(self, x: str, count: int) -> str:
        """Twice as high and wide: every pixel becomes two by two."""
        n, channels, height, width = self[x].shape
        w, b = self.weight(channels, count, 2, 2, scale=channels**-0.5), self.weight(count, scale=0.1)
        value = np.einsum("nchw,coij->nohiwj", self[x], self[w]).reshape(n, count, 2 * height, 2 * width)
        value = value + self[b].reshape(1, -1, 1, 1)
        return self.op("ConvTranspose", f"{x} {w} {b}", value, kernel=2, stride=2)

    def norm(self, x: str) -> str:
        n = self[x].shape[1]
        parts = [self.weight(n, scale=0.1, shift=1.0), self.weight(n, scale=0.1), self.weight(n, scale=0.1)]
        parts.append(self.weight(n, scale=0.01, shift=1.0))
        scale, bias, mean, variance = (self[p].reshape(1, -1, 1, 1) for p in parts)
        value = (self[x] - mean) / np.sqrt(variance + 1e-3) * scale + bias
        return self.op("SpatialBN", " ".join((x, *parts)), value, is_test=1, epsilon=1e-3, order="NCHW")

    def relu(self, x: str) -> str:
        """In place, as Caffe2's exporters write it: the name means another value from now on."""
        self.operators.append(("Relu", x, x, {}))
        self.values[x] = np.maximum(self[x], 0)
        return x

    def act(self, x: str, kind: str) -> str:
        functions: dict[str, Callable[[Array], Array]] = {
            "Swish": lambda v: v * sigmoid(v),
            "Sigmoid": sigmoid,
            "Tanh": np.tanh,
            "Gelu": lambda v: v * (1 + erf(v / math.sqrt(2))) / 2,
        }
        return self.op(kind, x, functions[kind](self[x]))

    def clip(self, x: str, low: float, high: float) -> str:
        return self.op("Clip", x, np.clip(self[x], low, high), min=low, max=high)

    def hard_swish(self, x: str) -> str:
        """x min(max(x + 3, 0), 6) / 6, of operators that Caffe2 has."""
        six, three = self.weight(1, scale=0.0, shift=1 / 6), self.weight(1, scale=0.0, shift=3.0)
        moved = self.op("Add", f"{x} {three}", self[x] + 3, broadcast=1)
        gate = self.op(
            "Mul", f"{self.clip(moved, 0.0, 6.0)} {six}", np.clip(self[x] + 3, 0, 6) / 6, broadcast=1
        )
        return self.mul(x, gate)

    def add(self, *blobs: str) -> str:
        return self.op("Sum", " ".join(blobs), sum(self[b] for b in blobs[1:]) + self[blobs[0]])

    def mul(self, a: str, b: str) -> str:
        return self.op("Mul", f"{a} {b}", self[a] * self[b])

    def joined(self, *blobs: str, axis: int = 1) -> str:
        value = np.concatenate([self[b] for b in blobs], axis)
        return self.op("Concat", " ".join(blobs), value, [f"sizes{len(self.operators)}"], axis=axis)

    def pool(self, x: str, kernel: int = 2, stride: int = 2, pad: int = 0, kind: str = "MaxPool") -> str:
        rows = windows(self[x], kernel, stride, pad, -np.inf if kind == "MaxPool" else 0.0)
        value = rows.max((4, 5)) if kind == "MaxPool" else rows.mean((4, 5))
        return self.op(kind, x, value, kernel=kernel, stride=stride, pad=pad)

    def whole(self, x: str) -> str:
        value = self[x].mean((2, 3), keepdims=True)
        return self.op("AveragePool", x, value, global_pooling=1, kernel=1)

    def dense(self, x: str, count: int, axis: int = 1) -> str:
        rows = self[x].reshape(*self[x].shape[:axis], -1)
        w = self.weight(count, rows.shape[-1], scale=rows.shape[-1] ** -0.5)
        b = self.weight(count, scale=0.1)
        return self.op("FC", f"{x} {w} {b}", rows @ self[w].T + self[b], axis=axis)

    def soft(self, x: str) -> str:
        return self.op("Softmax", x, softmax(self[x]), axis=self[x].ndim - 1)

    def head(self, x: str, count: int = 5) -> str:
        return self.soft(self.dense(self.whole(x), count))

    def embedded(self, tokens: str, width: int, words: int = 20) -> str:
        table = self.weight(words, width)
        return self.op("Gather", f"{table} {tokens}", self[table][self[tokens]])

    def parts(self, x: str, count: int, axis: int = 1) -> list[str]:
        names = [f"part{len(self.operators)}_{i}" for i in range(count)]
        self.operators.append(("Split", x, " ".join(names), {"axis": axis}))
        self.values.update(zip(names, np.split(self[x], count, axis), strict=True))
        return names

    def shaped(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self[x].reshape(shape), [f"old{len(self.operators)}"], shape=list(shape))

    def turned(self, x: str, *axes: int) -> str:
        return self.op("Transpose", x, self[x].transpose(axes), axes=list(axes))

    def layer_norm(self, x: str) -> str:
        axis, v = self[x].ndim - 1, self[x]
        g, b = self.weight(v.shape[-1], scale=0.1, shift=1.0), self.weight(v.shape[-1], scale=0.1)
        value = (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5) * self[g] + self[b]
        more = [f"mean{len(self.operators)}", f"deviation{len(self.operators)}"]
        how = {"axis": axis, "epsilon": 1e-5, "elementwise_affine": 1}
        return self.op("LayerNorm", f"{x} {g} {b}", value, more, **how)


# ---- networks of images


def block(n: Network, x: str, count: int, kernel: int = 3, stride: int = 1, group: int = 1) -> str:
    return n.norm(n.conv(x, count, kernel, stride, group))


def resnet(n: Network) -> str:
    x = n.pool(n.relu(block(n, n.image("data", 3, 20), 8, 7, 2)), 3, 2, 1)
    for count, stride in ((8, 1), (16, 2)):
        short = x if stride == 1 else block(n, x, count, 1, stride)
        inner = n.relu(block(n, x, count, 3, stride))
        x = n.relu(n.add(block(n, inner, count), short))
    return n.head(x)


def vgg(n: Network) -> str:
    x = n.image("data", 3, 16)
    for count in (8, 16):
        x = n.pool(n.relu(n.conv(n.relu(n.conv(x, count)), count)))
    return n.soft(n.dense(n.relu(n.dense(x, 24)), 5))


def mobilenet_v1(n: Network) -> str:
    x = n.relu(block(n, n.image("data", 3, 16), 8, 3, 2))
    for count, stride in ((12, 1), (16, 2)):
        x = n.relu(block(n, x, n[x].shape[1], 3, stride, n[x].shape[1]))
        x = n.relu(block(n, x, count, 1))
    return n.head(x)


def inverted(
    n: Network, x: str, count: int, stride: int, act: Callable[[str], str], gate: bool = False
) -> str:
    wide = 3 * n[x].shape[1]
    inner = act(block(n, act(block(n, x, wide, 1)), wide, 3, stride, wide))
    if gate:
        squeezed = n.relu(n.conv(n.whole(inner), wide // 4, 1))
        inner = n.mul(inner, n.act(n.conv(squeezed, wide, 1), "Sigmoid"))
    made = block(n, inner, count, 1)
    return n.add(x, made) if n[made].shape == n[x].shape else made


def mobilenet_v2(n: Network) -> str:
    x = n.clip(block(n, n.image("data", 3, 16), 8, 3, 2), 0.0, 6.0)
    for count, stride in ((8, 1), (12, 2)):
        x = inverted(n, x, count, stride, lambda v: n.clip(v, 0.0, 6.0))
    return n.head(x)


def mobilenet_v3(n: Network) -> str:
    x = n.hard_swish(block(n, n.image("data", 3, 16), 8, 3, 2))
    return n.head(inverted(n, inverted(n, x, 8, 1, n.hard_swish, True), 12, 2, n.relu, True))


def efficientnet(n: Network) -> str:
    x = n.act(block(n, n.image("data", 3, 16), 8, 3, 2), "Swish")
    for count, stride in ((8, 1), (12, 2)):
        x = inverted(n, x, count, stride, lambda v: n.act(v, "Swish"), True)
    return n.head(x)


def densenet(n: Network) -> str:
    x = n.conv(n.image("data", 3, 16), 8, 3, 2)
    for _ in range(3):
        x = n.joined(x, n.conv(n.relu(n.norm(x)), 6))
    return n.head(n.pool(n.conv(n.relu(n.norm(x)), 12, 1), kind="AveragePool"))


def inception(n: Network) -> str:
    x = n.relu(n.conv(n.image("data", 3, 16), 8, 3, 2))
    ways = [n.relu(n.conv(x, 6, 1)), n.relu(n.conv(n.relu(n.conv(x, 4, 1)), 6))]
    ways.append(n.relu(n.conv(n.relu(n.conv(x, 4, 1)), 6, 5)))
    ways.append(n.relu(n.conv(n.pool(x, 3, 1, 1), 6, 1)))
    return n.head(n.joined(*ways))


def u_net(n: Network) -> str:
    a = n.relu(n.conv(n.image("data", 1, 16), 6))
    b = n.relu(n.conv(n.pool(a), 12))
    c = n.relu(n.conv(n.pool(b), 16))
    b = n.relu(n.conv(n.joined(n.up(c, 8), b), 12))
    return n.act(n.conv(n.joined(n.up(b, 6), a), 2, 1), "Sigmoid")


# ---- networks of text, and of several inputs


def steps(n: Network, count: int) -> list[str]:
    words = n.embedded(n.tokens("tokens", count), 8)
    return [n.shaped(x, 1, 8) for x in n.parts(words, count)]


def lstm(n: Network) -> str:
    """Two states, written out step by step; the gates' weights are those of every step."""
    h, c = n.weight(1, 6, scale=0.0), n.weight(1, 6, scale=0.0)
    w, b = n.weight(24, 14, scale=0.3), n.weight(24, scale=0.3)
    for x in steps(n, 5):
        both = n.joined(x, h)
        gates = n.op("FC", f"{both} {w} {b}", n[both] @ n[w].T + n[b])
        i, f, o, g = n.parts(gates, 4)
        new = n.mul(n.act(i, "Sigmoid"), n.act(g, "Tanh"))
        c = n.add(n.mul(n.act(f, "Sigmoid"), c), new)
        h = n.mul(n.act(o, "Sigmoid"), n.act(c, "Tanh"))
    return n.soft(n.dense(h, 3))


def gru(n: Network) -> str:
    h, one = n.weight(1, 6, scale=0.0), n.weight(1, 6, scale=0.0, shift=1.0)
    w, v, b = n.weight(12, 14, scale=0.3), n.weight(6, 14, scale=0.3), n.weight(12, scale=0.3)
    c = n.weight(6, scale=0.3)
    for x in steps(n, 5):
        both = n.joined(x, h)
        z, r = n.parts(n.act(n.op("FC", f"{both} {w} {b}", n[both] @ n[w].T + n[b]), "Sigmoid"), 2)
        reset = n.joined(x, n.mul(r, h))
        new = n.act(n.op("FC", f"{reset} {v} {c}", n[reset] @ n[v].T + n[c]), "Tanh")
        rest = n.op("Sub", f"{one} {z}", 1 - n[z])
        h = n.add(n.mul(rest, new), n.mul(z, h))
    return n.soft(n.dense(h, 3))


def transformer(n: Network) -> str:
    """An encoder's layer with two heads, behind words and places."""
    words, places = n.embedded(n.tokens("tokens", 6), 16), n.weight(1, 6, 16, scale=0.3)
    x = n.add(words, places)
    heads = [n.turned(n.shaped(n.dense(x, 16, 2), 1, 6, 2, 8), 0, 2, 1, 3) for _ in range(3)]
    query, key, value = heads
    scores = n.op("BatchMatMul", f"{query} {key}", n[query] @ n[key].swapaxes(2, 3), trans_b=1)
    scaled = n.op("Scale", scores, n[scores] * 8**-0.5, scale=8**-0.5)
    seen = n.soft(scaled)
    mixed = n.op("BatchMatMul", f"{seen} {value}", n[seen] @ n[value])
    x = n.layer_norm(n.add(x, n.dense(n.shaped(n.turned(mixed, 0, 2, 1, 3), 1, 6, 16), 16, 2)))
    x = n.layer_norm(n.add(x, n.dense(n.act(n.dense(x, 32, 2), "Gelu"), 16, 2)))
    mean = n.op("ReduceMean", x, n[x].mean(1), axes=[1], keepdims=0)
    return n.soft(n.dense(mean, 3))


def two_inputs(n: Network) -> str:
    """An image, and numbers about it."""
    image = n.whole(n.relu(n.conv(n.image("data", 3, 12), 8, 3, 2)))
    about = n.input("about", n.random.standard_normal((1, 4)).astype(np.float32))
    flat = n.shaped(image, 1, 8)
    return n.soft(n.dense(n.joined(flat, n.relu(n.dense(about, 8))), 3))


NETWORKS: dict[str, Callable[[Network], str]] = {
    "ResNet": resnet,
    "VGG": vgg,
    "MobileNet v1": mobilenet_v1,
    "MobileNet v2": mobilenet_v2,
    "MobileNet v3": mobilenet_v3,
    "EfficientNet": efficientnet,
    "DenseNet": densenet,
    "Inception": inception,
    "U-Net": u_net,
    "LSTM text": lstm,
    "GRU text": gru,
    "transformer encoder": transformer,
    "two inputs": two_inputs,
}
