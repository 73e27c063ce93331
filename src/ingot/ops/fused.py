"""Operators of com.microsoft that onnxruntime's optimiser makes of several nodes: a contraction and what
follows it, a sum and its normalisation, embeddings and their sum, activations.

In: the operands of all of them. Out: the stages of the operators that they stand for; fusion does the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.errors import UnsupportedError
from ingot.formula.expr import Const, Expr, Tensor, Var, call, cast, equal, maximum, minimum, select
from ingot.formula.types import INT32
from ingot.ops.activation import gelu, hard_sigmoid, sigmoid
from ingot.ops.contract import conv, matrix_product
from ingot.ops.normalize import layer_normalization, root_mean_square
from ingot.ops.registry import Builder, broadcast_map, elementwise, op, shapes_text

ACTIVATIONS: dict[str, tuple[Callable[..., Expr], tuple[float, ...]]] = {
    "": (lambda x: x, ()),
    "Relu": (lambda x: maximum(x, 0), ()),
    "Tanh": (lambda x: call("tanh", x), ()),
    "Sigmoid": (sigmoid, ()),
    "LeakyRelu": (lambda x, alpha: select(x < 0, x * alpha, x), (0.01,)),
    "Clip": (lambda x, lowest, highest: minimum(maximum(x, lowest), highest), (-3.4028235e38, 3.4028235e38)),
    "HardSigmoid": (lambda x, alpha, beta: hard_sigmoid(x, alpha=alpha, beta=beta), (0.2, 0.5)),
}
"""What FusedConv may apply, and how many parameters that has."""

elementwise("Gelu", lambda x: gelu(x), domain="com.microsoft", kinds="f")


@op("FastGelu", domain="com.microsoft")
def fast_gelu(f: Builder, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """y = gelu(x + bias) through tanh (com.microsoft FastGelu-1). Raises ShapeError for a bias that is not
    one number per element of x's last axis.
    """
    if bias is None:
        f.same_type((x,), "f")
        return broadcast_map(f, (x,), lambda a: gelu(a, approximate="tanh"))
    f.same_type((x, bias), "f")
    fits = bias.shape == x.shape[-1:]
    f.require(
        fits,
        f"the bias must be of shape {shapes_text([x.shape[-1:]])}, but it is {shapes_text([bias.shape])}",
    )
    return broadcast_map(f, (x, bias), lambda a, b: gelu(a + b, approximate="tanh"))


@op("FusedConv", domain="com.microsoft")
def fused_conv(
    f: Builder,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    z: Tensor | None = None,
    *,
    activation: str = "",
    activation_params: tuple[float, ...] = (),
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """y = activation(Conv(x, w, b) + z), z of the result's shape (com.microsoft FusedConv-1).

    Raises UnsupportedError for an activation that onnxruntime does not fuse.
    """
    found = ACTIVATIONS.get(activation)
    if found is None:
        known = ", ".join(a for a in ACTIVATIONS if a)
        raise UnsupportedError(
            f"{f.node.label}: the activation {activation!r} is not known; known are {known}"
        )
    g, parameters = found
    fits = len(activation_params) in (0, len(parameters))
    said = f"{activation or 'no activation'} takes {len(parameters)} activation_params"
    f.require(fits, f"{said}, but there are {len(activation_params)}")
    y = conv(
        *(f, x, w, b),
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    if z is not None:
        z = f.settled(
            z,
            y.shape,
            f"z must be of the result's shape {shapes_text([y.shape])}, but it is {shapes_text([z.shape])}",
        )
    axes = f.axes(y.shape)
    total = y[axes] if z is None else y[axes] + z[axes]
    return f.map(axes, g(total, *(activation_params or parameters)), x.type)


@op("FusedMatMul", domain="com.microsoft")
def fused_matmul(
    f: Builder,
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    """y = alpha * a @ b, batches broadcasting (com.microsoft FusedMatMul-1).

    transBatchA says that the rows of a are its first axis and its batch follows; transA then swaps rows and
    columns. A vector is not transposed.
    """
    a, b = _turned(f, a, transA, transBatchA), _turned(f, b, transB, transBatchB)
    a, b, over = matrix_product(f, a, b)
    term = a.at(over.a) * b.at(over.b)
    scaled = (lambda acc: acc) if alpha == 1 else (lambda acc: acc * alpha)
    return f.reduce("sum", over.outer, over.inner, term, post=scaled, dtype=a.type)


def _turned(f: Builder, t: Tensor, swap: int, batch_last: int) -> Tensor:
    """An operand with its batch first, its rows and its columns."""
    f.require(
        not batch_last or t.rank > 2,
        f"{t.name!r} has {t.rank} axes, but transBatchA and transBatchB need at least three",
    )
    order = [*range(1, t.rank - 1), 0, t.rank - 1] if batch_last else list(range(t.rank))
    if swap and t.rank > 1:
        order[-2:] = reversed(order[-2:])
    return t if order == list(range(t.rank)) else f.call("Transpose", t, perm=tuple(order))


# -- normalisations


@op("SimplifiedLayerNormalization")
def simplified_layer_normalization(
    f: Builder, x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Tensor, ...]:
    """y = x / sqrt(mean(x^2) + epsilon) * scale, and the inverse of the root, with 1 for each axis reduced:
    what onnxruntime has in the default domain.
    """
    y, inverse = root_mean_square(f, x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)
    axes = f.axes((*inverse.shape, *(1 for _ in range(x.rank - inverse.rank))))
    return y, f.map(axes, inverse[axes[: inverse.rank]], name="inverse")


@op("SkipLayerNormalization", domain="com.microsoft")
def skip_layer_normalization(
    f: Builder,
    input: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, ...]:
    """LayerNormalization of input + skip + bias along the last axis; its mean, the inverse of its deviation
    and the sum (com.microsoft SkipLayerNormalization-1).
    """
    total = _skipped(f, input, skip, gamma, bias)
    return (*layer_normalization(f, total, gamma, beta, epsilon=epsilon), total)


@op("SkipSimplifiedLayerNormalization", domain="com.microsoft")
def skip_simplified_layer_normalization(
    f: Builder,
    input: Tensor,
    skip: Tensor,
    gamma: Tensor,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, ...]:
    """input + skip + bias, divided by the root of its mean square along the last axis, times gamma
    (com.microsoft SkipSimplifiedLayerNormalization-1). Raises UnsupportedError where its mean is wanted.
    """
    if len(f.wanted) > 1 and f.wanted[1]:
        reason = "the output 'mean' is not computed, as nothing is subtracted"
        raise UnsupportedError(f"{f.node.label}: {reason}", remedy="remove the output from the model")
    total = _skipped(f, input, skip, gamma, bias)
    y, inverse = simplified_layer_normalization(f, total, gamma, epsilon=epsilon)
    return y, inverse, inverse, total


def _skipped(f: Builder, x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None) -> Tensor:
    """x + skip + bias, in x's shape."""
    f.same_type(tuple(t for t in (x, skip, gamma, bias) if t is not None), "f")
    f.require(x.rank >= 2, f"the input must have at least two axes, but it has {x.rank}")
    for name, t in (("gamma", gamma), ("bias", bias)):
        if t is not None:
            said = f"{name} must be of shape {shapes_text([x.shape[-1:]])}, one number for each channel"
            f.require(t.shape == x.shape[-1:], f"{said}, but it is {shapes_text([t.shape])}")
    parts = (x, skip) if bias is None else (x, skip, bias)
    total = broadcast_map(f, parts, lambda a, b, *more: sum(more, start=a + b))
    said = f"skip {shapes_text([skip.shape])} must broadcast to the input {shapes_text([x.shape])}"
    f.require(total.shape == x.shape, f"{said}, not the other way round")
    return total


@op("EmbedLayerNormalization", domain="com.microsoft")
def embed_layer_normalization(
    f: Builder,
    input_ids: Tensor,
    segment_ids: Tensor | None,
    word_embedding: Tensor,
    position_embedding: Tensor,
    segment_embedding: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> tuple[Tensor, ...]:
    """LayerNormalization of the sum of a word's, its position's and its segment's embedding; how many places
    the mask leaves, and the sum (com.microsoft EmbedLayerNormalization-1).

    Indices outside their table: the bundle returns ERR_INDEX. mask_index_type tells nothing but shapes.
    """
    del mask_index_type
    f.require(
        input_ids.rank == 2, f"input_ids must have two axes, batch and sequence, but it has {input_ids.rank}"
    )
    is_paired = (segment_ids is None) == (segment_embedding is None)
    f.require(is_paired, "segment_ids and segment_embedding must both be given, or neither")
    words = f.call("Gather", word_embedding, input_ids)
    parts = [words, _positions(f, input_ids, position_embedding, position_ids)]
    if segment_ids is not None and segment_embedding is not None:
        parts.append(f.call("Gather", segment_embedding, segment_ids))
    total = broadcast_map(f, tuple(parts), lambda first, *more: sum(more, start=first))
    shapes = shapes_text([t.shape for t in parts])
    f.require(
        total.shape == words.shape,
        f"the embeddings of words, places and segments must fit each other, but they are {shapes}",
    )
    y = layer_normalization(f, total, gamma, beta, epsilon=epsilon)[0]
    return y, _unmasked(f, input_ids, mask), total


def _positions(f: Builder, ids: Tensor, table: Tensor, positions: Tensor | None) -> Tensor:
    """The embedding of each place: those given, or counted from 0."""
    if positions is not None:
        return f.call("Gather", table, positions)
    batch, (s, h) = f.axes((1,), "b"), f.axes((ids.shape[1], *table.shape[1:]), "s h")
    rows, places = table.shape[0], ids.shape[1]
    if isinstance(rows, int) and isinstance(places, int):
        f.require(
            places <= rows,
            f"the sequence has {places} places, but the table of position embeddings has only {rows}",
        )
    return f.map((*batch, s, h), f.element(table, (s, h), (*batch, s, h)), table.type, "position")


def _unmasked(f: Builder, ids: Tensor, mask: Tensor | None) -> Tensor:
    """How many elements of each row of the mask are 1; 0 where there is none."""
    (b,) = f.axes(ids.shape[:1], "b")
    if mask is None:
        return f.map((b,), Const(0, INT32), name="mask_index")
    said = f"the mask must be of the shape of input_ids, {shapes_text([ids.shape])}"
    f.require(mask.shape == ids.shape, f"{said}, but it is {shapes_text([mask.shape])}")
    s = Var("s", mask.shape[1])
    return f.reduce("sum", (b,), (s,), cast(equal(mask[b, s], 1), INT32), dtype=INT32, name="mask_index")
