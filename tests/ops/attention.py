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


ROWS = [
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
