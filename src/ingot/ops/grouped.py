"""GroupQueryAttention of com.microsoft: several heads of queries share keys and values, which a cache keeps.

In: new queries, keys and values, the cache and how much of it is in use. Out: what the queries attend to, and
the cache with the new keys and values where the old ones end.
"""

from __future__ import annotations

from ingot.errors import UnsupportedError
from ingot.formula.expr import Const, Expr, Extent, Gathered, Tensor, cast, maximum, select
from ingot.formula.extents import alike, extent
from ingot.formula.index import as_expr
from ingot.formula.types import INDEX, INT32
from ingot.ops.attention import Rules, attend, heads
from ingot.ops.registry import Builder, op, shapes_text
from ingot.ops.rotary import angles_at, turn


@op("GroupQueryAttention", domain="com.microsoft")
def group_query_attention(
    f: Builder,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens_k: Tensor,
    total_sequence_length: Tensor,
    cos_cache: Tensor | None = None,
    sin_cache: Tensor | None = None,
    position_ids: Tensor | None = None,
    attention_bias: Tensor | None = None,
    *,
    do_rotary: int = 0,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
) -> tuple[Tensor, ...]:
    """Causal attention of queries [b, s, heads * d] to keys and values [b, s, fewer heads * d] behind those
    of the past, [b, fewer heads, length, d]; the cache afterwards (com.microsoft GroupQueryAttention-1).

    seqlens_k[b] + 1 keys are in use afterwards; more than the cache holds: the bundle returns ERR_INDEX. How
    long the cache is, total_sequence_length says when the model is compiled. Quantised and rolling caches,
    norms and sinks of heads, smooth_softmax and the output of scores are refused by name.
    """
    if smooth_softmax > 0 or (len(f.wanted) > 3 and f.wanted[3]):
        name = "smooth_softmax" if smooth_softmax > 0 else "output_qk"
        raise UnsupportedError(f"{f.node.label}: {name} is not supported", remedy="export without it")
    fits = kv_num_heads > 0 and num_heads > 0 and num_heads % kv_num_heads == 0
    f.require(fits, f"{num_heads} heads of queries do not share {kv_num_heads} of keys and values")
    q, k, v = _parts(f, query, key, value, num_heads, kv_num_heads)
    f.require((past_key is None) == (past_value is None), "past_key and past_value go together")
    length = _cache_length(f, k, past_key, total_sequence_length)
    start = _start(f, seqlens_k, q, length)
    if do_rotary:
        f.require(cos_cache is not None and sin_cache is not None, "do_rotary needs cos_cache and sin_cache")
        assert cos_cache is not None and sin_cache is not None
        places = _places(f, start, q) if position_ids is None else position_ids
        angles = angles_at(f, places, (cos_cache, sin_cache), q, 2)
        (half, size) = f.fixed((cos_cache.shape[1], q.shape[3]), "a head")
        q, k = (turn(f, t, angles, 2, size, 2 * half, bool(rotary_interleaved)) for t in (q, k))
    k, v = _kept(f, past_key, k, start, length), _kept(f, past_value, v, start, length)
    rules = Rules(
        scale, bias=attention_bias, is_causal=True, start=start, window=local_window_size, cap=softcap
    )
    return attend(f, q, k, v, rules, num_heads // kv_num_heads), k, v


def _parts(
    f: Builder, query: Tensor, key: Tensor | None, value: Tensor | None, count: int, shared: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as [b, heads, s, d]; all in one where key and value are left out."""
    f.require((key is None) == (value is None), "key and value go together")
    f.require(query.rank == 3, f"query is {shapes_text([query.shape])}, 3 axes are needed")
    (width,) = f.fixed(query.shape[2:], "the queries")
    all_heads = count if key is not None else count + 2 * shared
    f.require(width % all_heads == 0, f"{width} elements are not divisible into {all_heads} heads")
    size = width // all_heads
    q = heads(f, query, count, size, 0, None)
    if key is None or value is None:
        ends = (count * size, (count + shared) * size)
        k, v = (heads(f, query, shared, size, end, None) for end in ends)
        return q, k, v
    wanted = (*query.shape[:2], shared * size)
    shapes = shapes_text([key.shape, value.shape])
    fits = key.shape == wanted and value.shape == wanted
    f.require(fits, f"keys and values are {shapes}, {shapes_text([wanted])} is needed")
    return q, heads(f, key, shared, size, 0, None), heads(f, value, shared, size, 0, None)


def _cache_length(f: Builder, k: Tensor, past: Tensor | None, total: Tensor) -> Extent:
    """How many keys the cache holds afterwards: as many as are in use, at least as many as before."""
    said = f.declared(total, output=1)
    if past is None:
        return k.shape[2]
    fits = past.rank == 4 and (past.shape[0], past.shape[1], past.shape[3]) == (
        k.shape[0],
        k.shape[1],
        k.shape[3],
    )
    f.require(fits, f"the cache is {shapes_text([past.shape])}, the keys {shapes_text([k.shape])}")
    if said is not None and len(said) == 4:
        return said[2]
    (needed,) = f.extents(total, "total_sequence_length")
    return (
        past.shape[2]
        if alike(needed, past.shape[2])
        else extent(maximum(as_expr(needed), as_expr(past.shape[2])))
    )


def _start(f: Builder, lengths: Tensor, q: Tensor, length: Extent) -> Tensor:
    """How many keys are in use before the new ones: int32 [b]; of a shorter prompt, none."""
    fits = lengths.shape in (q.shape[:1], (*q.shape[:1], 1)) and lengths.type.is_integer
    f.require(fits, f"seqlens_k is {shapes_text([lengths.shape])}, one integer per sequence is needed")
    (b,) = f.axes(q.shape[:1], "b")
    at = (b,) if lengths.rank == 1 else (b, Const(0))
    last = Gathered(lengths[at], Const(0), as_expr(length))
    return f.map((b,), cast(maximum(cast(last, INDEX) + 1 - as_expr(q.shape[2]), 0), INT32), name="start")


def _places(f: Builder, start: Tensor, q: Tensor) -> Tensor:
    b, s = f.axes((q.shape[0], q.shape[2]), "b s")
    return f.map((b, s), start[b] + cast(s, INT32), name="places")


def _kept(f: Builder, past: Tensor | None, new: Tensor, start: Tensor, length: Extent) -> Tensor:
    """The cache: what was there, and from `start` on what is new."""
    if past is None:
        return new
    b, n, t, d = axes = f.axes((*new.shape[:2], length, new.shape[3]), "b n t d")
    at = t - cast(start[b], INDEX)
    old = past.at(axes, outside=0)
    is_new = (at < as_expr(new.shape[2])) & (cast(start[b], INDEX) < t + 1)
    value: Expr = select(is_new, new.at((b, n, at, d), outside=0), old)
    return f.map(axes, value, new.type, "present")
