"""Attention as com.microsoft has it: MultiHeadAttention, and Attention with its projections.

In: queries, keys and values of several heads in one axis or apart, masks of padding, keys and values of the
past. Out: per head softmax(q @ k^T * scale + what is masked) @ v, the heads side by side again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ingot.errors import UnsupportedError
from ingot.formula.expr import Const, Expr, Extent, Tensor, Var, call, cast, select
from ingot.formula.extents import extent
from ingot.formula.index import as_expr
from ingot.formula.types import INDEX
from ingot.ops.normalize import softmax
from ingot.ops.registry import Builder, op, shapes_text, stretched

Three = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Rules:
    """What is added to the products of queries and keys, and by what they are multiplied before; 0 stands
    for 1 / sqrt(elements of a head).

    `start` says at which key the queries begin, per batch: else they are the last. `window` is how many keys
    up to its own a query sees, `cap` what tanh keeps the scores below.
    """

    scale: float = 0.0
    mask: Tensor | None = None
    filter: float = -10000.0
    bias: Tensor | None = None
    is_causal: bool = False
    start: Tensor | None = None
    window: int = -1
    cap: float = 0.0


@op("MultiHeadAttention", domain="com.microsoft")
def multi_head_attention(
    f: Builder,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    cache_indirection: Tensor | None = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Tensor, ...]:
    """Attention of queries [b, s, heads * d] to keys and values [b, t, heads * d] or [b, heads, t, d], or of
    all three packed as [b, s, heads, 3, d]; what is present of keys and values (MultiHeadAttention-1).

    Raises UnsupportedError for caches in a buffer shared with the past and for the output `qk`.
    """
    refused = {"past_sequence_length": past_sequence_length, "cache_indirection": cache_indirection}
    _refuse(f, [name for name, t in refused.items() if t is not None])
    _refuse(f, ["output qk"] if len(f.wanted) > 3 and f.wanted[3] else [])
    f.require(num_heads > 0, f"num_heads is {num_heads}")
    q, k, v = _parted(f, query, key, value, bias, num_heads)
    f.require((past_key is None) == (past_value is None), "past_key and past_value go together")
    if past_key is not None and past_value is not None:
        k = f.call("Concat", past_key, k, axis=2)
        v = f.call("Concat", past_value, v, axis=2)
    rules = Rules(scale, key_padding_mask, mask_filter_value, attention_bias, bool(unidirectional))
    return attend(f, q, k, v, rules), k, v


@op("Attention", domain="com.microsoft")
def attention(
    f: Builder,
    input: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask_index: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: tuple[int, ...] | None = None,
    rotary_embedding_dim: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Tensor, ...]:
    """Attention of input @ weights + bias to itself, weights [input, q + k + v]; what is present of keys and
    values, [2, b, heads, t, d] (com.microsoft Attention-1).

    Raises UnsupportedError for rotary embeddings and caches in a buffer shared with the past.
    """
    shares = past_present_share_buffer
    flags = {"do_rotary": do_rotary or rotary_embedding_dim, "past_present_share_buffer": shares}
    _refuse(f, [name for name, given in flags.items() if given])
    _refuse(f, ["past_sequence_length"] if past_sequence_length is not None else [])
    f.require(input.rank == 3 and weights.rank == 2, f"ranks {input.rank}, {weights.rank}: 3, 2 are needed")
    widths = _widths(f, weights, num_heads, qkv_hidden_sizes)
    projected = f.call("MatMul", input, weights)
    q, k, v = (
        heads(f, projected, num_heads, width // num_heads, sum(widths[:i]), bias)
        for i, width in enumerate(widths)
    )
    if past is not None:
        fits = past.rank == 5 and past.shape[0] == 2
        f.require(fits, f"past is {shapes_text([past.shape])}, [2, batch, heads, length, size] is needed")
        k, v = (f.call("Concat", _half(f, past, i), t, axis=2) for i, t in enumerate((k, v)))
    rules = Rules(scale, mask_index, mask_filter_value, attention_bias, bool(unidirectional))
    y = attend(f, q, k, v, rules)
    return (y, _stacked(f, k, v)) if len(f.wanted) > 1 and f.wanted[1] else (y,)


def _refuse(f: Builder, names: list[str]) -> None:
    if names:
        reason = f"{names[0]} is not supported"
        raise UnsupportedError(f"{f.node.label}: {reason}", remedy="export the model without it")


def _widths(f: Builder, weights: Tensor, count: int, said: tuple[int, ...] | None) -> tuple[int, ...]:
    """How many columns of the weights make queries, keys and values."""
    (columns,) = f.fixed(weights.shape[1:], "the weights")
    widths = said or (columns // 3,) * 3
    f.require(
        len(widths) == 3 and sum(widths) == columns and widths[0] == widths[1] and count > 0,
        f"{columns} columns of weights are not queries, keys and values of {list(widths)}",
    )
    even = all(n > 0 and n % count == 0 for n in widths)
    f.require(even, f"{list(widths)} columns are not divisible into {count} heads")
    return widths


def _half(f: Builder, past: Tensor, i: int) -> Tensor:
    axes = f.axes(past.shape[1:])
    return f.map(axes, past.at((i, *axes)), past.type, "past")


def _stacked(f: Builder, k: Tensor, v: Tensor) -> Tensor:
    f.require(k.shape == v.shape, f"keys and values differ: {shapes_text([k.shape, v.shape])}")
    present = f.empty(k.type, (2, *k.shape), "present")
    axes = f.axes(k.shape)
    for i, t in enumerate((k, v)):
        f.put(present, (Var("part", 1), *axes), (i, *axes), t[axes])
    return present


def _parted(
    f: Builder, query: Tensor, key: Tensor | None, value: Tensor | None, bias: Tensor | None, count: int
) -> Three:
    """Queries, keys and values as [b, heads, s, d], with the bias of their projection."""
    if query.rank == 5:
        f.require(key is None and value is None, "queries, keys and values are packed, more are given")
        q, k, v = (_packed(f, query, count, 3, bias, part) for part in range(3))
        return q, k, v
    f.require(query.rank == 3 and key is not None, f"query is {shapes_text([query.shape])}; key is needed")
    (width,) = f.fixed(query.shape[2:], "the queries")
    f.require(width % count == 0, f"queries of {width} are not divisible into {count} heads")
    q = heads(f, query, count, width // count, 0, bias)
    assert key is not None
    if key.rank == 5:
        f.require(value is None, "keys and values are packed, more are given")
        return q, _packed(f, key, count, 2, bias, 0, width), _packed(f, key, count, 2, bias, 1, width)
    f.require(value is not None and value.rank == key.rank, "value is needed, and must have the rank of key")
    assert value is not None
    if key.rank == 4:
        return q, key, value
    f.require(key.rank == 3, f"key is {shapes_text([key.shape])}, 3, 4 or 5 axes are needed")
    k_width, v_width = f.fixed((key.shape[2], value.shape[2]), "keys and values")
    fits = k_width == width and v_width % count == 0
    f.require(fits, f"keys of {k_width} and values of {v_width} do not fit {count} heads of {width // count}")
    k = heads(f, key, count, width // count, width, bias, own=0)
    return q, k, heads(f, value, count, v_width // count, 2 * width, bias, own=0)


def _packed(
    f: Builder, x: Tensor, count: int, parts: int, bias: Tensor | None, part: int = 0, first: int = 0
) -> Tensor:
    """One part of x[b, s, heads, parts, d] as [b, heads, s, d]."""
    f.require(x.shape[2:4] == (count, parts), f"{shapes_text([x.shape])} is not [b, s, {count}, {parts}, d]")
    (size,) = f.fixed(x.shape[4:], "a head")
    b, n, s, d = axes = f.axes((x.shape[0], count, x.shape[1], size), "b n s d")
    value: Expr = x[b, s, n, part, d]
    if bias is not None:
        least = first + parts * count * size
        enough = bias.rank == 1 and isinstance(bias.shape[0], int) and bias.shape[0] >= least
        f.require(enough, f"bias is {shapes_text([bias.shape])}, {least} are needed")
        value = value + bias[first + part * count * size + n * size + d]
    return f.map(axes, value, x.type, "part")


def heads(
    f: Builder, x: Tensor, count: int, size: int, first: int, bias: Tensor | None, *, own: int | None = None
) -> Tensor:
    """x[b, s, own + head * size + d] as [b, head, s, d]; the bias, of all projections, begins at `first`."""
    b, n, s, d = axes = f.axes((x.shape[0], count, x.shape[1], size), "b n s d")
    value: Expr = x[b, s, n * size + d + (first if own is None else own)]
    if bias is not None:
        least = first + count * size
        enough = bias.rank == 1 and isinstance(bias.shape[0], int) and bias.shape[0] >= least
        f.require(enough, f"bias is {shapes_text([bias.shape])}, at least {least} are needed")
        value = value + bias[n * size + d + first]
    return f.map(axes, value, x.type, "heads")


def attend(f: Builder, q: Tensor, k: Tensor, v: Tensor, rules: Rules, shared: int = 1) -> Tensor:
    """softmax(q @ k^T * scale + what is added) @ v, from [b, heads, s, d] to [b, s, heads * d].

    `shared` heads of queries read the same keys and values.
    """
    size, _ = f.fixed((q.shape[3], k.shape[3]), "a head")
    f.same_type((q, k, v), "f")
    f.require(
        q.shape[0] == k.shape[0] == v.shape[0]
        and q.shape[3] == k.shape[3]
        and k.shape[1:3] == v.shape[1:3]
        and k.shape[1] * shared == q.shape[1],
        f"queries, keys and values of {shapes_text([q.shape, k.shape, v.shape])} do not fit",
    )
    b, n, s, t = axes = f.axes((*q.shape[:3], k.shape[2]), "b n s t")
    scale, d = rules.scale or 1 / math.sqrt(size), Var("d", size)
    own: Expr = n if shared == 1 else n // shared
    products = q[b, n, s, d] * k[b, own, t, d]
    scores = f.reduce("sum", axes, (d,), products, post=lambda acc: acc * scale, dtype=q.type, name="scores")
    scores = _masked(f, scores, axes, rules)
    weights = softmax(f, scores, axis=-1)
    b, n, s, d = axes = f.axes((*q.shape[:3], v.shape[3]), "b n s d")
    t = Var("t", v.shape[2])
    own = n if shared == 1 else n // shared
    y = f.reduce("sum", axes, (t,), weights[b, n, s, t] * v[b, own, t, d], dtype=q.type, name="attended")
    return _joined(f, y)


def _joined(f: Builder, y: Tensor) -> Tensor:
    """[b, heads, s, d] as [b, s, heads * d]."""
    count, size = f.fixed((y.shape[1], y.shape[3]), "a head")
    b, s, h = axes = f.axes((y.shape[0], y.shape[2], count * size), "b s h")
    return f.map(axes, y[b, h // size, s, h % size], y.type)


def _masked(f: Builder, scores: Tensor, axes: tuple[Var, ...], rules: Rules) -> Tensor:
    """The scores with what the rules add."""
    b, _, s, t = axes
    value: Expr = scores[axes]
    if rules.cap:
        value = call("tanh", value / rules.cap) * rules.cap
    filter = Const(rules.filter, scores.type.compute)
    if rules.mask is not None:
        value = value + select(_is_open(f, rules.mask, scores.shape, axes), 0.0, filter)
    if rules.bias is not None:
        shape = shapes_text([rules.bias.shape])
        f.require(rules.bias.rank == 4, f"attention_bias is {shape}, 4 axes are needed")
        value = value + stretched(f, rules.bias, axes)
    if (
        rules.is_causal
    ):  # stronger than the filter: where both hide a place, padding is seen before the future
        past = as_expr(scores.shape[3]) - as_expr(scores.shape[2])
        own = s + (past if rules.start is None else cast(rules.start[b], INDEX))
        lowest = Const(scores.type.compute.lowest, scores.type.compute)
        value = select(own < t, lowest, value)
        value = value if rules.window < 0 else select(t + rules.window < own + 1, lowest, value)
    return f.map(axes, value, scores.type, "masked") if value != scores[axes] else scores


def _is_open(f: Builder, mask: Tensor, shape: tuple[Extent, ...], axes: tuple[Var, ...]) -> Expr:
    """Whether the mask leaves a place: where it is above 0, or of its lengths, before the end."""
    batch, _, rows, columns = shape
    b, _, s, t = axes
    f.same_type((mask,), "i")
    match mask.shape:
        case (n, m) if (n, m) == (batch, columns):
            return mask[b, t] > 0
        case (n, k, m) if (n, k, m) == (batch, rows, columns):
            return mask[b, s, t] > 0
        case (n,) if n == batch:
            return cast(t, mask.type) < mask[b]
        case (n,) if n == extent(as_expr(batch) * 2):
            start = mask.at((as_expr(batch) + b,))
            return (cast(t, mask.type) < mask[b]) & (start <= cast(t, mask.type))
    wanted = f"{shapes_text([(batch,), (batch, columns), (batch, rows, columns)])}"
    raise UnsupportedError(f"{f.node.label}: a mask of {shapes_text([mask.shape])}; known are {wanted}")
