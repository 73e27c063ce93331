"""A decoder of about 100 million random weights of 4 bits, as ONNX and GGUF, for `benchmarks.decoder`.

Its layers are those of Llama: normalised, queries, keys and values turned by rotary embeddings, a cache, a
gated feed-forward part. In: a `Shape`. Out: an ONNX model with MatMulNBits and GroupQueryAttention, and a
GGUF file of the same weights in Q4_0. They are noise, whose scales are exact in 16 bits, as Q4_0 has them.
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
        scales = (self.noise.uniform(0.5, 1, (columns, blocks)) * 0.2 / inner**0.5).astype(np.float16)
        operands = (x, self.constant(f"{to}_q", codes), self.constant(f"{to}_s", scales.astype(np.float32)))
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


def q4_0(codes: Array, scales: Array) -> Array:
    """MatMulNBits' weights as Q4_0: uint8 [columns, bytes of a row].

    A block is its scale and 16 bytes. Of MatMulNBits' byte j, the low half is weight 2j, the high half is
    2j + 1; of Q4_0's, weight j and weight j + 16. Both subtract 8.
    """
    each = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:-1], BLOCK)
    blocks = np.empty(scales.shape, np.dtype([("d", np.float16), ("q", np.uint8, BLOCK // 2)]))
    blocks["d"] = scales
    blocks["q"] = each[..., : BLOCK // 2] | each[..., BLOCK // 2 :] << 4
    return blocks.view(np.uint8).reshape(len(codes), -1)


def interleaved(rows: Array, heads: int) -> Array:
    """The rows of queries or keys in llama.cpp's order: it turns neighbours, GroupQueryAttention halves."""
    halves = rows.reshape(heads, 2, len(rows) // heads // 2, -1)
    return halves.swapaxes(1, 2).reshape(rows.shape)


def write_gguf(s: Shape, path: Path) -> None:
    """The same network as llama.cpp reads it; needs the package gguf."""
    from gguf import GGMLQuantizationType, GGUFWriter

    constants = {t.name: numpy_helper.to_array(t) for t in onnx_model(s).graph.initializer}
    writer = GGUFWriter(path, "llama")
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

    def dense(name: str, of: str, heads: int = 0) -> None:
        rows = q4_0(constants[f"{of}_q"], constants[f"{of}_s"])
        rows = interleaved(rows, heads) if heads else rows
        writer.add_tensor(f"{name}.weight", rows, raw_dtype=GGMLQuantizationType.Q4_0)

    writer.add_tensor("token_embd.weight", constants["embedding"])
    for i in range(s.layers):
        n, of = f"blk.{i}.", f"l{i}_"
        writer.add_tensor(f"{n}attn_norm.weight", constants[f"{of}norm_g"])
        writer.add_tensor(f"{n}ffn_norm.weight", constants[f"{of}ffn_g"])
        dense(f"{n}attn_q", f"{of}q", s.heads)
        dense(f"{n}attn_k", f"{of}k", s.shared)
        dense(f"{n}attn_v", f"{of}v")
        dense(f"{n}attn_output", f"{of}o")
        for part in ("gate", "up", "down"):
            dense(f"{n}ffn_{part}", f"{of}{part}")
    writer.add_tensor("output_norm.weight", constants["last_g"])
    dense("output", "logits")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
