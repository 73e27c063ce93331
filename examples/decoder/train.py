"""Trains the decoder of this example and writes `sums.onnx`, its weights in 4 bits.

In: the text of `text.py`. Out, beside this file: a model with MatMulNBits and GroupQueryAttention, as
exporters of language models write them. Weights are rounded while they are trained, so that those that are
stored are those that were trained. Needs numpy and onnx, which Ingot needs too; a minute.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import network
import numpy as np
import onnx
from network import CONTEXT, EPSILON, HEAD, HEADS, LAYERS, WIDTH, Array, Weights, angles, forward
from onnx import TensorProto, helper, numpy_helper
from text import Vocabulary, lines, vocabulary

OUTPUT = Path(__file__).parent / "sums.onnx"
BLOCK = 32  # weights that share a scale
STEPS, BATCH, LENGTH = 2000, 24, 40
REQUIRED_ACCURACY = 0.97


def quantised(w: Array) -> tuple[Array, Array]:
    """Codes 0 to 15 and scales, of [outputs, blocks, BLOCK] and [outputs, blocks]: w ~ (code - 8) * scale."""
    blocks = w.T.reshape(w.shape[1], -1, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)[..., 0]
    scales = (np.where(largest == 0, 1, largest) / -8).astype(np.float32)
    codes = np.clip(np.round(blocks / scales[..., None]) + 8, 0, 15)
    return codes.astype(np.uint8), scales


def rounded(w: Weights) -> Weights:
    """The weights as 4 bits have them; the embedding, which is only read by rows, stays."""
    return {name: each if name == "embedding" else dequantised(*quantised(each)) for name, each in w.items()}


def dequantised(codes: Array, scales: Array) -> Array:
    """The matrix [inputs, outputs] again."""
    return ((codes.astype(np.float32) - 8) * scales[..., None]).reshape(len(codes), -1).T


def cross_entropy(logits: Array, wanted: Array) -> tuple[float, Array]:
    """Its mean, and its gradient."""
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    chosen = np.take_along_axis(p, wanted[..., None], -1)
    np.put_along_axis(p, wanted[..., None], chosen - 1, -1)
    return float(-np.log(chosen + 1e-9).mean()), p / wanted.size


def sample(rng: np.random.Generator, facts: Sequence[Sequence[int]]) -> Array:
    """Lines one after the other, from the start of one, LENGTH + 1 tokens each."""
    rows = [np.concatenate([facts[i] for i in rng.integers(0, len(facts), LENGTH)]) for _ in range(BATCH)]
    return np.stack([row[: LENGTH + 1] for row in rows])


def train(rng: np.random.Generator, v: Vocabulary) -> Weights:
    """Adam with a falling rate; forwards with rounded weights, whose gradients move the unrounded ones."""
    facts = [v.encode(line) for line in lines()]
    w = {n: rng.normal(0, s[0] ** -0.5, s).astype(np.float32) for n, s in network.shapes(len(v)).items()}
    w["embedding"] *= len(v) ** 0.5
    mean, square = ({name: np.zeros_like(each) for name, each in w.items()} for _ in range(2))
    for step in range(1, STEPS + 1):
        tokens = sample(rng, facts)
        logits, gradients = forward(rounded(w), tokens[:, :-1])
        loss, d = cross_entropy(logits, tokens[:, 1:])
        rate = 0.004 * min(step / 100, 1) * (1 + np.cos(np.pi * step / STEPS)) / 2
        for name, gradient in gradients(d).items():
            mean[name] += 0.1 * (gradient - mean[name])
            square[name] += 0.01 * (gradient**2 - square[name])
            size = np.sqrt(square[name] / (1 - 0.99**step)) + 1e-8
            w[name] -= np.float32(rate) * mean[name] / (1 - 0.9**step) / size
        if step % 100 == 0:
            print(f"step {step:4}/{STEPS}  loss {loss:.4f}", flush=True)
    return w


def accuracy(w: Weights, v: Vocabulary) -> float:
    """The share of lines whose end is foretold, token by token, from ` is` on."""
    right = 0
    for line in lines():
        tokens, known = np.array(v.encode(line)), len(v.encode(line.partition(" is")[0] + " is"))
        foretold = forward(w, tokens[None, :-1])[0][0].argmax(-1)
        right += np.array_equal(foretold[known - 1 :], tokens[known:])
    return right / len(lines())


class _Model:
    """Nodes and constants, as they are made."""

    def __init__(self, w: Weights) -> None:
        self.w = w
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}

    def node(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=outputs[0], **attributes))
        return outputs[0]

    def dense(self, x: str, name: str) -> str:
        codes, scales = quantised(self.w[name])
        packed = codes[..., ::2] | codes[..., 1::2] << 4
        self.constants |= {f"{name}.codes": packed, f"{name}.scales": scales}
        sizes = {"K": len(self.w[name]), "N": len(codes), "bits": 4, "block_size": BLOCK}
        inputs = (x, f"{name}.codes", f"{name}.scales")
        return self.node("MatMulNBits", inputs, [name], domain="com.microsoft", **sizes)

    def normal(self, x: str, to: str) -> str:
        return self.node("SimplifiedLayerNormalization", [x, "ones"], [to], axis=-1, epsilon=EPSILON)

    def layer(self, i: int, x: str) -> str:
        h = self.normal(x, f"{i}.first")
        parts = [self.dense(h, f"{i}.{part}") for part in "qkv"]
        inputs = [*parts, f"past_k{i}", f"past_v{i}", "last", "context", "cos", "sin"]
        outputs = [f"{i}.heads", f"present_k{i}", f"present_v{i}"]
        counts = {"num_heads": HEADS, "kv_num_heads": HEADS, "do_rotary": 1}
        heads = self.node("GroupQueryAttention", inputs, outputs, domain="com.microsoft", **counts)
        x = self.node("Add", [x, self.dense(heads, f"{i}.o")], [f"{i}.attended"])
        h = self.normal(x, f"{i}.second")
        gate, up = self.dense(h, f"{i}.gate"), self.dense(h, f"{i}.up")
        sigmoid = self.node("Sigmoid", [gate], [f"{i}.sigmoid"])
        gated = self.node("Mul", [self.node("Mul", [gate, sigmoid], [f"{i}.silu"]), up], [f"{i}.gated"])
        return self.node("Add", [x, self.dense(gated, f"{i}.down")], [f"{i}.fed"])


def model(w: Weights) -> onnx.ModelProto:
    """Tokens [1, S], the place of the last and the caches, to logits [1, S, tokens] and the caches."""
    m = _Model(w)
    cos, sin = angles()
    m.constants = {"embedding": w["embedding"], "ones": np.ones(WIDTH, np.float32), "cos": cos, "sin": sin}
    m.constants["context"] = np.array(CONTEXT, np.int32)
    x = m.node("Gather", ["embedding", "tokens"], ["x"])
    for i in range(LAYERS):
        x = m.layer(i, x)
    m.dense(m.normal(x, "normal"), "logits")
    kinds = [f"{kind}{i}" for i in range(LAYERS) for kind in "kv"]

    def value(name: str, shape: Sequence[int | str], type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, type, shape)

    cache = (1, HEADS, CONTEXT, HEAD)
    inputs = [value("tokens", [1, "S"], TensorProto.INT64), value("last", [1], TensorProto.INT32)]
    inputs += [value(f"past_{kind}", cache) for kind in kinds]
    outputs = [value("logits", [1, "S", len(w["embedding"])])]
    outputs += [value(f"present_{kind}", cache) for kind in kinds]
    constants = [numpy_helper.from_array(array, name) for name, array in m.constants.items()]
    graph = helper.make_graph(m.nodes, "sums", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def main() -> None:
    """Train, check with rounded weights, write the model."""
    v = vocabulary()
    w = train(np.random.default_rng(7), v)
    share = accuracy(rounded(w), v)
    print(f"{len(lines())} lines of {len(v)} tokens: {share:.1%} ended rightly, with weights of 4 bits")
    if share < REQUIRED_ACCURACY:
        raise SystemExit(f"less than {REQUIRED_ACCURACY:.0%}: nothing written")
    onnx.save(model(w), OUTPUT)


if __name__ == "__main__":
    main()
