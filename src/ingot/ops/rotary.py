"""Rotary embeddings as com.microsoft has them: pairs of a head's elements turned by angles of their position.

In: heads, positions, the cosines and sines of every position. Out: the heads turned.
"""

from __future__ import annotations

from ingot.errors import UnsupportedError
from ingot.formula.expr import Const, Expr, Gathered, Tensor, Var, cast
from ingot.formula.index import as_expr
from ingot.formula.types import INDEX
from ingot.ops.registry import Builder, op, shapes_text


@op("RotaryEmbedding", domain="com.microsoft")
def rotary_embedding(
    f: Builder,
    input: Tensor,
    position_ids: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Tensor:
    """Heads [b, s, heads * d] or [b, heads, s, d]; of the first elements of each, pairs (x, y) become
    (x cos - y sin, y cos + x sin) of their position (com.microsoft RotaryEmbedding-1).

    Positions are [b, s], or one number that the first has. Raises UnsupportedError for packed batches and a
    scale, ShapeError for caches that do not fit; a position beyond them: the bundle returns ERR_INDEX.
    """
    if is_packed_batching or scale != 1:
        name = "is_packed_batching" if is_packed_batching else f"scale {scale:g}"
        raise UnsupportedError(f"{f.node.label}: {name} is not supported", remedy="export without it")
    f.require(input.rank in (3, 4), f"input is {shapes_text([input.shape])}, 3 or 4 axes are needed")
    f.require(cos_cache.rank == 2, f"cos_cache is {shapes_text([cos_cache.shape])}, 2 axes are needed")
    (width, half) = f.fixed((input.shape[-1], cos_cache.shape[1]), "a head")
    size = width if input.rank == 4 else width // num_heads if num_heads > 0 else 2 * half
    turned = rotary_embedding_dim or size
    f.require(size > 0 and width % size == 0, f"{width} elements are not heads of {size}")
    s = 1 if input.rank == 3 else 2
    angles = angles_at(f, position_ids, (cos_cache, sin_cache), input, s)
    return turn(f, input, angles, s, size, turned, bool(interleaved))


def angles_at(
    f: Builder, positions: Tensor, caches: tuple[Tensor, Tensor], x: Tensor, s: int
) -> tuple[Tensor, Tensor]:
    """The cosines and sines of every place: [b, s, pairs]."""
    batch, length = x.shape[0], x.shape[s]
    single = positions.shape in ((), (1,))
    wanted = f"position_ids is {shapes_text([positions.shape])}, [1] or {shapes_text([(batch, length)])}"
    f.require(single or positions.shape == (batch, length), f"{wanted} is needed")
    f.require(positions.type.is_integer, f"position_ids are {positions.type}, not integers")
    f.require(
        caches[0].shape == caches[1].shape, f"caches of {shapes_text([c.shape for c in caches])} differ"
    )
    b, i, j = axes = f.axes((batch, length, caches[0].shape[1]), "b s j")
    at: Expr = cast(positions[(0,) * positions.rank], INDEX) + i if single else positions[b, i]
    row = Gathered(at, Const(0), as_expr(caches[0].shape[0]))
    cos, sin = (f.map(axes, c[row, j], c.type, name) for c, name in zip(caches, ("cos", "sin"), strict=True))
    return cos, sin


def turn(
    f: Builder,
    x: Tensor,
    angles: tuple[Tensor, Tensor],
    s: int,
    size: int,
    turned: int,
    interleaved: bool,
) -> Tensor:
    """x with the first `turned` elements of every `size` of its last axis turned; axis `s` counts positions.

    A pair is two neighbours if interleaved, else an element and the one half of `turned` behind it.
    """
    cos, sin = angles
    fits = 0 < turned <= size and turned % 2 == 0 and cos.shape[2] == turned // 2
    f.require(fits, f"{cos.shape[2]} angles for {turned} of {size} elements")
    # a rectangle for each half: of one choice per element clang 22 makes wrong vectors
    half, (width,) = turned // 2, f.fixed(x.shape[-1:], "a head")
    y = f.empty(x.type, x.shape)
    lead, n, j = f.axes(x.shape[:-1]), Var("n", width // size), Var("j", half)
    near, far = (2 * j, 2 * j + 1) if interleaved else (as_expr(j), j + half)
    a, b = (x.at((*lead, n * size + d)) for d in (near, far))
    at = (lead[0], lead[s], j)
    f.put(y, (*lead, n, j), (*lead, n * size + near), a * cos[at] - b * sin[at])
    f.put(y, (*lead, n, j), (*lead, n * size + far), b * cos[at] + a * sin[at])
    if turned < size:
        k = Var("k", size - turned)
        rest = (*lead, n * size + turned + k)
        f.put(y, (*lead, n, k), rest, x[rest])
    return y
