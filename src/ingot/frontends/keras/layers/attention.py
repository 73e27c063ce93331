"""Attention: of many heads, of grouped heads, and Keras' two older layers. Masks and causality are kept."""

from __future__ import annotations

from functools import reduce
from math import sqrt

import numpy as np

from ingot.formula.expr import Array
from ingot.formula.types import BOOL
from ingot.frontends.keras.configs import Layer, leaves
from ingot.frontends.keras.layers.activation import hide
from ingot.frontends.keras.layers.core import require_floats
from ingot.frontends.keras.settings import Settings
from ingot.frontends.keras.table import Call, Result, layer
from ingot.frontends.keras.weights import Spec
from ingot.frontends.orders import Tensor, like
from ingot.graph.ir import Value

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _projections(layer: Layer, settings: Settings) -> Spec:
    own = Spec(("kernel", "bias") if settings.flag("use_bias", True) else ("kernel",))
    gate = ("gate_dense",) if settings.flag("use_gate") else ()
    names = ("query_dense", "key_dense", *gate, "value_dense", "output_dense")
    return Spec(inside=tuple((name, own) for name in names))


def _projected(c: Call, name: str, x: Value, equation: str, shape: tuple[int, ...], bound: int) -> Value:
    """x times a kernel of this shape along its first axes, plus a bias over the rest of them."""
    inner = Call(c.b, c.layer, (), {}, c.tree.child(name), c.world)
    y = c.b.one("Einsum", x, inner.weight("kernel", shape), equation=equation)
    if not c.settings.flag("use_bias", True):
        return y
    return c.b.one("Add", y, inner.weight("bias", shape[bound:]))


@layer("MultiHeadAttention", weights=_projections, mask="keep")
def multi_head(c: Call) -> Result:
    """softmax(q k / sqrt(key_dim)) v for each head, over the axes that `attention_axes` names."""
    require_floats(c)
    s, (query, value, key) = c.settings, _operands(c)
    heads, size = s.count("num_heads"), s.count("key_dim")
    out_size = s.count("value_dim", size)
    rank = query.rank
    axes = _attended(c, rank)
    free = LETTERS[: rank - 1]
    into = f"{free}x,xyz->{free}yz"
    q, k, v = (
        _projected(c, f"{name}_dense", c.plain(t), into, (t.shape[-1], heads, n), 1)
        for name, t, n in (("query", query, size), ("key", key, size), ("value", value, out_size))
    )
    made, scores = _attend(c, q, k, v, axes, size, _mask(c, query, value, key))
    if s.flag("use_gate"):
        gate = _projected(c, "gate_dense", c.plain(query), into, (query.shape[-1], heads, out_size), 1)
        made = c.b.one("Mul", made, c.b.one("Sigmoid", gate))
    last = s.integers("output_shape") if s.has("output_shape") else [query.shape[-1]]
    names = LETTERS[rank - 1 : rank - 1 + len(last)]
    y = _projected(c, "output_dense", made, f"{free}yz,yz{names}->{free}{names}", (heads, out_size, *last), 2)
    return _with_scores(c, y, scores)


def _with_scores(c: Call, y: Value, scores: Value) -> Result:
    if c.argument(7, "return_attention_scores", False):
        return (Tensor(y), Tensor(scores))
    return Tensor(y)


def _operands(c: Call) -> tuple[Tensor, Tensor, Tensor]:
    """query, value, and key, which is the value where it is not given."""
    found = c.args[0] if c.args and isinstance(c.args[0], list | tuple) else None
    if found is not None:  # Keras 2: what is given by position, in one list
        given = [t for t in leaves(found) if isinstance(t, Tensor)]
        query, value, key = (*given, *[None] * 3)[:3]
        value, key = value or c.tensor_at(9, "value"), key or c.tensor_at(9, "key")
    else:
        query, value, key = (c.tensor_at(i, name) for i, name in enumerate(("query", "value", "key")))
    c.require(query is not None and value is not None, "a query and a value are needed")
    assert query is not None and value is not None
    key = key or value
    c.require(
        query.rank == value.rank == key.rank >= 3,
        "query, value and key need the same number of axes, at least three",
    )
    return query, value, key


def _attended(c: Call, rank: int) -> list[int]:
    """The axes that attend to each other: all between batch and features, or those that are named."""
    if not c.settings.has("attention_axes"):
        return list(range(1, rank - 1))
    found = [a % rank if -rank <= a < rank else 0 for a in c.settings.integers("attention_axes")]
    c.require(
        all(0 < a < rank - 1 for a in found) and len(set(found)) == len(found), f"attention along {found}"
    )
    return found


def _attend(
    c: Call, q: Value, k: Value, v: Value, axes: list[int], size: int, mask: Value | None
) -> tuple[Value, Value]:
    """Scores are [batch axes, head, query axes, key axes]."""
    b, rank = c.b, Tensor(q).rank
    ours = LETTERS[:rank]  # of the query: free axes, head, size
    theirs = "".join(LETTERS[rank + i] if i in axes else a for i, a in enumerate(ours))
    batch = [a for i, a in enumerate(ours[:-2]) if i not in axes]
    score = "".join([*batch, ours[-2], *(ours[i] for i in axes), *(theirs[i] for i in axes)])
    scaled = b.one("Mul", q, like(b, q, 1 / sqrt(size)))
    scores = b.one("Einsum", scaled, k, equation=f"{ours},{theirs}->{score}")
    if mask is not None:
        scores = hide(c, scores, _raised(c, mask, Tensor(scores).rank, len(axes)))
    weights = _softmax(c, scores, len(axes))
    last = LETTERS[2 * rank]
    return b.one("Einsum", weights, v, equation=f"{score},{theirs[:-1]}{last}->{ours[:-1]}{last}"), weights


def _raised(c: Call, mask: Value, rank: int, axes: int) -> Value:
    """A mask [batch, query, key] gets an axis for the heads before those of the query."""
    extents = list(Tensor(mask).shape)
    at = max(len(extents) - 2 * axes, 0)
    return c.b.reshape(mask, [*extents[:at], *[1] * (rank - len(extents)), *extents[at:]])


def _softmax(c: Call, scores: Value, axes: int) -> Value:
    if axes == 1:
        return c.b.one("Softmax", scores, axis=-1)
    extents = list(Tensor(scores).shape)
    flat = c.b.reshape(scores, [*extents[:-axes], int(np.prod(extents[-axes:]))])
    return c.b.reshape(c.b.one("Softmax", flat, axis=-1), extents)


def _places(c: Call, query: Tensor, key: Tensor) -> tuple[Array, Array]:
    """Rows and columns of the scores, as numpy broadcasts them."""
    rows, columns = query.shape[1], key.shape[1]
    c.require(c.b.is_modest([rows, columns], BOOL), f"a mask of {rows} x {columns}")
    return np.arange(rows)[:, None], np.arange(columns)


def _mask(c: Call, query: Tensor, value: Tensor, key: Tensor) -> Value | None:
    """What may be seen: the masks of query, value and key, an attention mask, causality and a window."""
    b = c.b
    found = []
    for name, t, axis in (("query", query, -1), ("value", value, -2), ("key", key, -2)):
        given = c.kwargs.get(f"{name}_mask")
        held = c.plain(given) if isinstance(given, Tensor) else c.mask_of(t)
        if held is not None and not (name == "key" and key is value and given is None):
            found.append(b.one("Unsqueeze", b.cast(held, BOOL), b.ints([axis])))
    given = c.tensor_at(6, "attention_mask")
    if given is not None:
        found.append(b.cast(c.plain(given), BOOL))
    if c.argument(9, "use_causal_mask", False):
        row, column = _places(c, query, value)
        found.append(b.constant((row >= column)[None], BOOL))
    if c.settings.has("sliding_window"):
        row, column = _places(c, query, value)
        found.append(b.constant((abs(row - column) < c.settings.count("sliding_window"))[None], BOOL))
    return reduce(lambda x, y: b.one("And", x, y), found) if found else None


@layer("GroupQueryAttention", "GroupedQueryAttention", weights=_projections, mask="keep")
def grouped(c: Call) -> Result:
    """Several heads of the query read one head of key and value."""
    require_floats(c)
    s, b, (query, value, key) = c.settings, c.b, _operands(c)
    size, heads, fewer = s.count("head_dim"), s.count("num_query_heads"), s.count("num_key_value_heads")
    c.require(query.rank == 3 and heads % fewer == 0, f"{heads} heads on {fewer}")
    into = "abx,xyz->abyz"
    q = _projected(c, "query_dense", c.plain(query), into, (query.shape[-1], heads, size), 1)
    k, v = (
        _projected(c, f"{name}_dense", c.plain(t), into, (t.shape[-1], fewer, size), 1)
        for name, t in (("key", key), ("value", value))
    )
    places = b.constant(np.repeat(np.arange(fewer), heads // fewer))
    k, v = (b.one("Gather", t, places, axis=2) for t in (k, v))
    made, scores = _attend(c, q, k, v, [1], size, _mask(c, query, value, key))
    if s.flag("use_gate"):
        gate = _projected(c, "gate_dense", c.plain(query), into, (query.shape[-1], heads, size), 1)
        made = b.one("Mul", made, b.one("Sigmoid", gate))
    last = query.shape[-1]
    return _with_scores(
        c, _projected(c, "output_dense", made, "abyz,yzx->abx", (heads, size, last), 2), scores
    )


# ---- the older layers: [query, value, key] in a list


def _scale_weights(layer: Layer, settings: Settings) -> Spec:
    is_joined = layer.kind == "Attention" and settings.text("score_mode", "dot") == "concat"
    default = layer.kind == "AdditiveAttention"
    scale = ("scale",) if settings.flag("use_scale", default) else ()
    return Spec((*scale, "concat_score_weight") if is_joined else scale)


@layer("Attention", "AdditiveAttention", weights=_scale_weights, mask="own")
def attention(c: Call) -> Result:
    """softmax(scores) v, where the value's mask hides keys and the query's one makes rows 0."""
    b, s, given = c.b, c.settings, c.tensors
    c.require(len(given) in (2, 3) and all(t.rank == 3 for t in given), "two or three sequences are needed")
    query, value = given[:2]
    key = given[2] if len(given) > 2 else value
    masks = c.argument(1, "mask")
    shown = [
        b.cast(c.plain(m), BOOL) if isinstance(m, Tensor) else None
        for m in (masks if isinstance(masks, list | tuple) else [None, None])
    ]
    shown = [m if m is not None else c.mask_of(t) for m, t in zip(shown, (query, value), strict=False)]
    scores = _scores(c, c.plain(query), c.plain(key))
    hidden = [] if shown[1] is None else [b.one("Unsqueeze", shown[1], b.ints([1]))]
    if c.kwargs.get("use_causal_mask") or s.flag("causal"):
        row, column = _places(c, query, key)
        hidden.append(b.constant((row >= column)[None], BOOL))
    if hidden:
        scores = _lowered(c, scores, reduce(lambda x, y: b.one("And", x, y), hidden))
    weights = b.one("Softmax", scores, axis=-1)
    made = b.one("MatMul", weights, c.plain(value))
    if shown[0] is not None:
        made = b.one("Where", b.one("Unsqueeze", shown[0], b.ints([2])), made, like(b, made, 0))
    result = c.mask(Tensor(made), shown[0])
    return (result, Tensor(weights)) if c.kwargs.get("return_attention_scores") else result


def _lowered(c: Call, scores: Value, mask: Value) -> Value:
    """Hidden scores less 1e9 (65504 in float16), so that a row of nothing else keeps its order."""
    least = 65504.0 if Tensor(scores).dtype.bits == 16 else 1e9
    return c.b.one("Where", mask, scores, c.b.one("Sub", scores, like(c.b, scores, least)))


def _scores(c: Call, query: Value, key: Value) -> Value:
    b, s = c.b, c.settings
    if c.layer.kind == "Attention" and s.text("score_mode", "dot") == "dot":
        scores = b.one("MatMul", query, b.transposed(key, (0, 2, 1)))
        return b.one("Mul", scores, c.weight("scale", [])) if s.flag("use_scale") else scores
    both = b.one("Add", b.one("Unsqueeze", query, b.ints([2])), b.one("Unsqueeze", key, b.ints([1])))
    if c.layer.kind == "Attention":
        both = b.one("Mul", both, c.weight("scale", [])) if s.flag("use_scale") else both
        total = b.one("ReduceSum", b.one("Tanh", both), b.ints([-1]), keepdims=0)
        return b.one("Mul", total, c.weight("concat_score_weight", []))
    bent = b.one("Tanh", both)
    if s.flag("use_scale", True):
        bent = b.one("Mul", bent, c.weight("scale", [Tensor(query).shape[-1]]))
    return b.one("ReduceSum", bent, b.ints([-1]), keepdims=0)
