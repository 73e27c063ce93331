"""Rows of attention as com.microsoft has it."""

from typing import Any

import numpy as np

from tests.ops.rows import Array, Row, floats

DOMAIN: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
B, S, L, HEADS, SIZE = 2, 3, 5, 2, 4
WIDTH = HEADS * SIZE
LENGTHS = np.array([3, 5], np.int32)
PADDED = (np.arange(L) < LENGTHS[:, None]).astype(np.int32)
SQUARE = np.array([[[1, 0, 1, 1, 0], [1] * 5, [0, 0, 0, 1, 1]]] * B, np.int32)


def multi(note: str, *inputs: Array | None, outputs: Any = 1, **how: Any) -> Row:
    """A row of MultiHeadAttention."""
    given = list(inputs)
    return Row("MultiHeadAttention", given, {"num_heads": HEADS, **how}, outputs=outputs, note=note, **DOMAIN)


def own(note: str, *inputs: Array | None, length: int = L, outputs: Any = 1, **how: Any) -> Row:
    """A row of Attention: an input of 6 channels and its projections come first."""
    widths = how.get("qkv_hidden_sizes", [WIDTH] * 3)
    first = [floats(B, length, 6), floats(6, sum(widths), seed=1, scale=0.5), floats(sum(widths), seed=2)]
    return Row(
        "Attention",
        [*first, *inputs],
        {"num_heads": HEADS, **how},
        constant=(1, 2),
        outputs=outputs,
        note=note,
        **DOMAIN,
    )


def packed(note: str, parts: int, bias: bool) -> Row:
    """A row of MultiHeadAttention with queries, keys and values in one, or the last two: numpy's answer, as
    onnxruntime has it on GPUs only.
    """
    x = floats(B, L, HEADS, parts, SIZE)
    q = x[:, :, :, 0] if parts == 3 else floats(B, S, WIDTH, seed=1).reshape(B, S, HEADS, SIZE)
    k, v = x[:, :, :, -2], x[:, :, :, -1]
    added = floats(3, HEADS, SIZE, seed=2) if bias else np.zeros((3, HEADS, SIZE), np.float32)
    q, k, v = (np.swapaxes(t + a, 1, 2).astype(np.float64) for t, a in zip((q, k, v), added, strict=True))
    e = np.exp(q @ np.swapaxes(k, 2, 3) / SIZE**0.5)
    y = np.swapaxes(e / e.sum(-1, keepdims=True) @ v, 1, 2).reshape(B, -1, WIDTH).astype(np.float32)
    first = [x, None, None] if parts == 3 else [floats(B, S, WIDTH, seed=1), x, None]
    inputs = [*first, added.reshape(-1)] if bias else first[: 4 - parts]
    return Row("MultiHeadAttention", inputs, {"num_heads": HEADS}, oracle=[y], note=note, **DOMAIN)


Q, K, V = floats(B, S, WIDTH), floats(B, L, WIDTH, seed=1), floats(B, L, WIDTH, seed=2)
BIAS = floats(3 * WIDTH, seed=3)
NARROW = floats(B, L, HEADS * 3, seed=4)
CROSS_K, CROSS_V = floats(B, HEADS, L, SIZE, seed=5), floats(B, HEADS, L, SIZE, seed=6)
PAST_K, PAST_V = floats(B, HEADS, 2, SIZE, seed=7), floats(B, HEADS, 2, SIZE, seed=8)
SCORES = floats(1, HEADS, S, L, seed=9)


def rotated(note: str, *shape: int, positions: Array | None = None, pairs: int = 4, **how: Any) -> Row:
    """A row of RotaryEmbedding: 9 positions."""
    angles = floats(9, pairs, seed=1)
    length = shape[1] if len(shape) == 3 else shape[2]
    given = np.arange(shape[0] * length).reshape(shape[0], length) % 9 if positions is None else positions
    inputs = [floats(*shape), given, np.cos(angles), np.sin(angles)]
    return Row("RotaryEmbedding", inputs, how, constant=(2, 3), note=note, **DOMAIN)


def grouped(note: str, length: int, past: int = 0, *, packed: bool = False, **how: Any) -> Row:
    """A row of GroupQueryAttention: 4 heads of queries, 2 of keys and values, 16 elements each."""
    batch, size = (1 if past else B), 16
    parts = [floats(batch, length, n * size, seed=i) for i, n in enumerate((4, 2, 2))]
    first = [np.concatenate(parts, 2), None, None] if packed else parts
    cache = [floats(batch, 2, past, size, seed=i) if past else None for i in (4, 5)]
    counts = [np.full(batch, past + length - 1, np.int32), np.array(past + length, np.int32)]
    angles = floats(12, size // 2, seed=6)
    rotary = [np.cos(angles), np.sin(angles)] if how.get("do_rotary") else []
    if how.pop("scores", False):
        positions = np.arange(past, past + length)[None].repeat(batch, 0)
        rotary += [positions, floats(1, 4, length, past + length, seed=7)]
    heads = {"num_heads": 4, "kv_num_heads": 2, **how}
    inputs = [*first, *cache, *counts, *rotary]
    return Row("GroupQueryAttention", inputs, heads, constant=(6,), outputs=3, note=note, **DOMAIN)


def ragged() -> Row:
    """A row of GroupQueryAttention whose two sequences are of different lengths, in a cache with room:
    numpy's answer, as what onnxruntime leaves in the rest of the cache is anything.
    """
    q, k, v = (floats(B, 1, n * 16, seed=i) for i, n in enumerate((4, 2, 2)))
    caches = [floats(B, 2, 8, 16, seed=i) for i in (4, 5)]
    lengths = np.array([3, 6], np.int32)
    present = [c.copy() for c in caches]
    y = np.zeros((B, 4, 16))
    for b, n in enumerate(lengths):
        for cache, new in zip(present, (k, v), strict=True):
            cache[b, :, n] = new[b].reshape(2, 16)
        keys, values = (c[b, :, : n + 1].repeat(2, 0).astype(np.float64) for c in present)
        e = np.exp(np.einsum("hd,htd->ht", q[b].reshape(4, 16), keys) / 4)
        y[b] = np.einsum("ht,htd->hd", e / e.sum(-1, keepdims=True), values)
    inputs = [q, k, v, *caches, lengths, np.array(7, np.int32)]
    oracle = [y.reshape(B, 1, 64).astype(np.float32), *present]
    heads = {"num_heads": 4, "kv_num_heads": 2}
    return Row("GroupQueryAttention", inputs, heads, (6,), 3, oracle=oracle, note="ragged", **DOMAIN)


ROWS = [
    grouped("prompt", 5),
    grouped("packed", 5, packed=True),
    grouped("rotary", 5, do_rotary=1),
    grouped("rotary_packed", 5, packed=True, do_rotary=1, rotary_interleaved=1),
    grouped("token", 1, 6, do_rotary=1),
    grouped("chunk", 3, 4, scale=0.2),
    grouped("window", 5, local_window_size=2),
    grouped("cap", 1, 6, softcap=0.7),
    grouped("scores", 3, 4, do_rotary=1, softcap=0.7, scores=True),
    ragged(),
    rotated("heads", 2, 3, 16),
    rotated("apart", 2, 2, 3, 8),
    rotated("interleaved", 2, 3, 16, interleaved=1),
    rotated("offset", 2, 3, 16, positions=np.array([4])),
    rotated("part", 2, 3, 24, num_heads=2, rotary_embedding_dim=8),
    rotated("part_interleaved", 2, 2, 3, 12, num_heads=2, rotary_embedding_dim=8, interleaved=1),
    multi("plain", Q, K, V),
    multi("bias", Q, K, V, BIAS),
    multi("padding", Q, K, V, None, PADDED),
    multi("lengths", Q, K, V, None, LENGTHS),
    multi("square", Q, K, V, None, SQUARE, scale=0.3),
    multi("scores", Q, K, V, BIAS, PADDED, SCORES, mask_filter_value=-3.0),
    multi("narrow_values", Q, K, NARROW),
    multi("cross", Q, CROSS_K, CROSS_V),
    multi("causal", K, K, V, None, 1 - PADDED, unidirectional=1),
    multi("past", Q, Q, Q, None, None, None, PAST_K, PAST_V, outputs=3),
    multi("past_causal", Q, Q, Q, None, None, None, PAST_K, PAST_V, outputs=3, unidirectional=1),
    packed("packed", 3, False),
    packed("packed_bias", 3, True),
    packed("packed_cross", 2, True),
    own("plain"),
    own("padding", PADDED),
    own("lengths", LENGTHS),
    own("ends", np.array([3, 5, 1, 2], np.int32)),
    own("causal", unidirectional=1),
    own("causal_padding", 1 - PADDED, unidirectional=1),
    own("narrow_values", qkv_hidden_sizes=[8, 8, 6], scale=0.7),
    own("past", None, np.stack([PAST_K, PAST_V]), length=S, outputs=2, unidirectional=1),
    own("scores", None, None, floats(1, 2, L, L, seed=9)),
]
