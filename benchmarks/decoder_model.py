"""A decoder of about 100 million random weights of 4 bits, as ONNX and GGUF, for `benchmarks.decoder`.

Its layers are those of Llama: normalised, queries, keys and values turned by rotary embeddings, a cache, a
gated feed-forward part. In: a `Shape`. Out: an ONNX model with MatMulNBits and GroupQueryAttention, or a GGUF
file with Q4_0. The weights are noise and not the same ones: only what is multiplied takes time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ingot.formula.expr import Array

BLOCK = 32  # weights with a scale, as in Q4_0
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Shape:
    """The extents; `context` is how many keys and values the cache holds."""

    width: int = 768
    layers: int = 12
    heads: int = 12
    shared: int = 12
    inner: int = 2048
    words: int = 16000
    context: int = 128

    @property
    def head(self) -> int:
        return self.width // self.heads

    @property
    def packed_weights(self) -> int:
        """How many weights of 4 bits a token is multiplied by."""
        attention = self.width * (2 * self.width + 2 * self.shared * self.head)
        return self.layers * (attention + 3 * self.width * self.inner) + self.width * self.words


@dataclass
class _Network:
    """Nodes and constants, as they are made."""

    shape: Shape
    noise: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, name: str, array: Array) -> str:
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, inputs: Sequence[str], to: Sequence[str] | str, **attributes: Any) -> str:
        outputs = [to] if isinstance(to, str) else list(to)
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, **attributes))
        return outputs[0]

    def dense(self, x: str, to: str, columns: int, inner: int) -> str:
        """Weights of 4 bits, small enough that sums stay near 1."""
        blocks = inner // BLOCK
        codes = self.noise.integers(0, 256, (columns, blocks, BLOCK // 2), dtype=np.uint8)
        scales = self.noise.uniform(0.5, 1, (columns, blocks)).astype(np.float32) * 0.2 / inner**0.5
        operands = (x, self.constant(f"{to}_q", codes), self.constant(f"{to}_s", scales))
        sizes = {"K": inner, "N": columns, "bits": 4, "block_size": BLOCK}
        return self.node("MatMulNBits", operands, to, domain=MICROSOFT, **sizes)

    def normal(self, x: str, to: str) -> str:
        factor = self.constant(f"{to}_g", np.ones(self.shape.width, np.float32))
        return self.node("SimplifiedLayerNormalization", (x, factor), to, axis=-1, epsilon=1e-5)

    def layer(self, i: int, x: str) -> str:
        """One layer's result of x, and its cache."""
        s, n = self.shape, f"l{i}_"
        normal, shared = self.normal(x, f"{n}norm"), s.shared * s.head
        columns = {"q": s.width, "k": shared, "v": shared}
        parts = [self.dense(normal, n + part, width, s.width) for part, width in columns.items()]
        past = (f"past_k{i}", f"past_v{i}", "used", "total", "cos", "sin")
        results = (f"{n}heads", f"present_k{i}", f"present_v{i}")
        counts = {"num_heads": s.heads, "kv_num_heads": s.shared, "do_rotary": 1}
        self.node("GroupQueryAttention", (*parts, *past), results, domain=MICROSOFT, **counts)
        x = self.node("Add", (x, self.dense(f"{n}heads", f"{n}o", s.width, s.width)), f"{n}a")
        normal = self.normal(x, f"{n}ffn")
        gate, up = (self.dense(normal, n + part, s.inner, s.width) for part in ("gate", "up"))
        silu = self.node("Mul", (gate, self.node("Sigmoid", (gate,), f"{n}sig")), f"{n}silu")
        gated = self.node("Mul", (silu, up), f"{n}gated")
        return self.node("Add", (x, self.dense(gated, f"{n}down", s.width, s.inner)), f"{n}b")


def onnx_model(s: Shape) -> onnx.ModelProto:
    """One token at a time: its number and how many are in the cache before it; logits and the caches."""
    net = _Network(s)
    table = net.noise.standard_normal((s.words, s.width)).astype(np.float32)
    x = net.node("Gather", (net.constant("embedding", table), "token"), "x")
    net.constant("total", np.array(s.context, np.int32))
    angles = np.arange(s.context)[:, None] / 10000 ** (np.arange(s.head // 2) / (s.head // 2))
    net.constant("cos", np.cos(angles).astype(np.float32))
    net.constant("sin", np.sin(angles).astype(np.float32))
    for i in range(s.layers):
        x = net.layer(i, x)
    net.dense(net.normal(x, "last"), "logits", s.words, s.width)
    cache = (1, s.shared, s.context, s.head)
    kinds = [(k, i) for i in range(s.layers) for k in "kv"]

    def value(name: str, shape: Sequence[int], type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, type, shape)

    inputs = [value("token", (1, 1), TensorProto.INT64), value("used", (1,), TensorProto.INT32)]
    inputs += [value(f"past_{k}{i}", cache) for k, i in kinds]
    outputs = [value("logits", (1, 1, s.words)), *(value(f"present_{k}{i}", cache) for k, i in kinds)]
    graph = helper.make_graph(net.nodes, "decoder", inputs, outputs, net.constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def states(s: Shape) -> dict[str, str]:
    """The caches as `state` wants them."""
    return {f"present_{k}{i}": f"past_{k}{i}" for i in range(s.layers) for k in "kv"}


def write_gguf(s: Shape, path: Path) -> None:
    """The same layers as llama.cpp reads them; needs the package gguf."""
    from gguf import GGMLQuantizationType, GGUFWriter

    noise, writer = np.random.default_rng(0), GGUFWriter(path, "llama")
    writer.add_context_length(s.context)
    writer.add_embedding_length(s.width)
    writer.add_block_count(s.layers)
    writer.add_feed_forward_length(s.inner)
    writer.add_head_count(s.heads)
    writer.add_head_count_kv(s.shared)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(s.head)
    writer.add_vocab_size(s.words)
    writer.add_tokenizer_model("no_vocab")

    def dense(name: str, columns: int, inner: int) -> None:
        rows = np.empty((columns, inner // BLOCK), np.dtype([("d", np.float16), ("q", np.uint8, BLOCK // 2)]))
        rows["d"] = 0.2 / inner**0.5
        rows["q"] = noise.integers(0, 256, rows["q"].shape, dtype=np.uint8)
        data = rows.view(np.uint8).reshape(columns, -1)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=GGMLQuantizationType.Q4_0)

    def normal(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(s.width, np.float32))

    dense("token_embd", s.words, s.width)
    for i in range(s.layers):
        n, shared = f"blk.{i}.", s.shared * s.head
        normal(f"{n}attn_norm")
        normal(f"{n}ffn_norm")
        for part, columns in (("q", s.width), ("k", shared), ("v", shared), ("output", s.width)):
            dense(f"{n}attn_{part}", columns, s.width)
        dense(f"{n}ffn_gate", s.inner, s.width)
        dense(f"{n}ffn_up", s.inner, s.width)
        dense(f"{n}ffn_down", s.width, s.inner)
    normal("output_norm")
    dense("output", s.words, s.width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
