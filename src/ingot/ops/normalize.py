"""Softmax and the normalisations: statistics along axes, then a map.

In: tensors on ONNX's axes. Out: reductions to one number per row, group or channel, and the map that applies
them. Statistics are taken in the computation type; what is stored narrow is rounded once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ingot.formula.expr import Const, Expr, Extent, Tensor, Var, binary, call, cast
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, product, upper
from ingot.formula.types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from ingot.ops.registry import Builder, broadcast_index, op, shapes_text

Axes = tuple[Var, ...]
DIGITS = 24  # of a float32's significand
FINEST = -20  # the power of two that sums of exponentials, at least 1, may be off by
STASH = {1: FLOAT32, 10: FLOAT16, 11: FLOAT64, 16: BFLOAT16}


def _softmax(f: Builder, x: Tensor, axes: Axes, rest: Axes, along: Axes) -> Tensor:
    """16-bit floats round where Softmax-13's function body does: two cases of Attention show it.

    The others multiply by the sum's inverse: one division a row. A NaN overlooked in `top` is in the sum.
    """
    top = f.reduce("largest", rest, along, x[axes], init=x.type.compute.lowest, name="top")
    e = f.map(axes, call("exp_nonpositive", x[axes] - top[rest]), x.type, name="e")
    if x.type is not x.type.compute:
        total = f.reduce("sum", rest, along, e[axes], dtype=x.type, name="total")
        return f.map(axes, e[axes] / total[rest], x.type)
    inverse = f.reduce("sum", rest, along, e[axes], post=lambda acc: 1 / acc, name="inverse")
    return f.map(axes, e[axes] * inverse[rest], x.type)


def steady_softmax(
    f: Builder, x: Tensor, number: Callable[[Expr], Expr], *, axis: int, opset: int
) -> tuple[Axes, Expr]:
    """Softmax of the opset given, of the float32 `number` that an integer of x means: axes, and the result
    there, by operations that every target rounds alike. Exponentials are added as multiples of powers of two,
    so that no sum rounds, in whichever order its terms come.
    """
    axes, rest, along = (_one if opset >= 13 else _tail)(f, x, axis)
    top = f.reduce("largest", rest, along, number(x[axes]), init=FLOAT32.lowest, name="top")
    e = f.map(axes, call("exp_steady", number(x[axes]) - top[rest]), FLOAT32, name="e")
    *coarse, finest = _parts(e[axes], upper(product(tuple(a.extent or 0 for a in along))))
    sums = [f.reduce("sum", rest, along, part, name="part")[rest] for part in coarse]
    inverse = f.reduce("sum", rest, along, finest, post=lambda acc: 1 / sum(sums, acc), name="inverse")
    return axes, e[axes] * inverse[rest]


def _parts(e: Expr, count: int) -> list[Expr]:
    """Float32 numbers whose sum is e in 0..1, as far as it matters to the sum of `count` such numbers: each
    is a multiple of a power of two, the smallest one whose multiples have exact sums.
    """
    bits = max(2, (count - 1).bit_length())
    parts: list[Expr] = []
    step, off = bits - DIGITS, 1
    while off > FINEST:
        magic = 1.5 * 2.0 ** (step + DIGITS - 1)  # what is added to it becomes a multiple of 2^step
        parts.append((e + magic) - magic)
        e, off, step = e - parts[-1], bits + step - 1, step + bits - DIGITS - 1
    return parts


def _log_softmax(f: Builder, x: Tensor, axes: Axes, rest: Axes, along: Axes) -> Tensor:
    top = f.reduce("largest", rest, along, x[axes], init=x.type.compute.lowest, name="top")
    shifted = x[axes] - top[rest]
    e = call("exp_nonpositive", shifted)
    log = f.reduce("sum", rest, along, e, post=lambda acc: call("log", acc), name="log_total")
    return f.map(axes, shifted - log[rest], x.type)


def _one(f: Builder, x: Tensor, axis: int) -> tuple[Axes, Axes, Axes]:
    """All axes, those beside `axis`, and `axis` (Softmax-13)."""
    i = f.axis(axis, x.rank)
    axes = f.axes(x.shape)
    return axes, (*axes[:i], *axes[i + 1 :]), (axes[i],)


def _tail(f: Builder, x: Tensor, axis: int) -> tuple[Axes, Axes, Axes]:
    """All axes, those before `axis`, and the others, which count as one (Softmax-11 flattens to a matrix)."""
    i = x.rank if axis == x.rank else f.axis(axis, x.rank)
    axes = f.axes(x.shape)
    return axes, axes[:i], axes[i:]


@op("Softmax", since=13)
def softmax(f: Builder, x: Tensor, *, axis: int = -1) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along one axis (ONNX Softmax-13)."""
    return _softmax(f, x, *_one(f, x, axis))


@op("Softmax")
def softmax_matrix(f: Builder, x: Tensor, *, axis: int = 1) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) over all axes from `axis` on together (ONNX Softmax-11)."""
    return _softmax(f, x, *_tail(f, x, axis))


@op("LogSoftmax", since=13)
def log_softmax(f: Builder, x: Tensor, *, axis: int = -1) -> Tensor:
    """x - max - log(sum(exp(x - max))) along one axis (ONNX LogSoftmax-13)."""
    return _log_softmax(f, x, *_one(f, x, axis))


@op("LogSoftmax")
def log_softmax_matrix(f: Builder, x: Tensor, *, axis: int = 1) -> Tensor:
    """x - max - log(sum(exp(x - max))) over all axes from `axis` on together (ONNX LogSoftmax-11)."""
    return _log_softmax(f, x, *_tail(f, x, axis))


def _count(extents: tuple[Extent, ...], dtype: DType) -> Expr:
    """The number of elements, as a constant wherever it is one."""
    n = extent(product(extents))
    return Const(float(n), dtype) if isinstance(n, int) else cast(n, dtype)


def _settled(f: Builder, shape: tuple[Extent, ...], **parameters: Tensor) -> Iterator[Tensor]:
    """The parameters in the shape; raises ShapeError where one has another."""
    for name, t in parameters.items():
        yield f.settled(
            t, shape, f"{name} of shape {shapes_text((t.shape,))}, {shapes_text((shape,))} is needed"
        )


def _mean(f: Builder, rest: Axes, along: Axes, element: Expr, name: str = "mean") -> Tensor:
    count = _count(tuple(a.extent for a in along if a.extent is not None), element.dtype)
    return f.reduce("sum", rest, along, element, post=lambda acc: acc / count, name=name)


def _inverse_deviation(
    f: Builder, rest: Axes, along: Axes, centred: Expr, epsilon: float, name: str = "inverse"
) -> Tensor:
    """1 / sqrt(mean(centred^2) + epsilon)."""
    count = _count(tuple(a.extent for a in along if a.extent is not None), centred.dtype)
    return f.reduce(
        *("sum", rest, along, centred * centred),
        post=lambda acc: 1 / call("sqrt", acc / count + epsilon),
        name=name,
    )


@op("BatchNormalization")
def batch_normalization(
    f: Builder,
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    consumed_inputs: tuple[int, ...] = (),
    epsilon: float = 1e-5,
    is_test: int = 1,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
) -> Tensor | tuple[Tensor, ...]:
    """y = (x - mean) / sqrt(var + epsilon) * scale + b, per channel (ONNX BatchNormalization-15).

    With training_mode the statistics are those of `x` itself, and the running ones come out too. Opsets 1 and
    6 say is_test = 0 of models that were exported for inference; only the first output is given for them.
    """
    axes = f.axes(x.shape)
    channel: Axes = axes[1:2] if spatial else axes[1:]
    channel = channel or f.axes((1,), "c")
    each = tuple(a.extent or 0 for a in channel)
    scale, b, mean, var = _settled(f, each, scale=scale, b=b, mean=mean, var=var)
    t = x.type.compute
    if training_mode:
        rest = (*axes[:1], *axes[2:])
        new_mean = _mean(f, channel, rest, x[axes])
        centred = x[axes] - new_mean[channel]
        new_var = _mean(f, channel, rest, centred * centred, "variance")
    else:
        new_mean, new_var = mean, var
    at = channel if x.rank > 1 else (Const(0),)
    factor = f.map(
        channel,
        cast(scale[channel], t) / call("sqrt", cast(new_var[channel], t) + epsilon),
        name="factor",
    )
    offset = f.map(channel, cast(b[channel], t) - cast(new_mean[channel], t) * factor[channel], name="offset")
    y = f.map(axes, x[axes] * factor[at] + offset[at], x.type)
    if not training_mode:
        return y
    running = (_running(f, channel, mean, new_mean, momentum), _running(f, channel, var, new_var, momentum))
    return (y, *running)


def _running(f: Builder, channel: Axes, old: Tensor, new: Tensor, momentum: float) -> Tensor:
    """running * momentum + current * (1 - momentum)."""
    t = old.type.compute
    value = old[channel] * momentum + cast(new[channel], t) * (1 - momentum)
    return f.map(channel, value, old.type, name="running")


@op("InstanceNormalization")
def instance_normalization(
    f: Builder,
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    *,
    consumed_inputs: tuple[int, ...] = (),
    epsilon: float = 1e-5,
) -> Tensor:
    """y = scale[c] * (x - mean) / sqrt(variance + epsilon) + b[c], per sample and channel."""
    f.require(x.rank >= 2, f"input rank {x.rank}, at least 2 is needed")
    scale, b = _settled(f, x.shape[1:2], scale=scale, b=b)
    n, c, *s = axes = f.axes(x.shape, " ".join(["n c", *(f"s{i}" for i in range(x.rank - 2))]))
    mean = _mean(f, (n, c), tuple(s), x[axes])
    centred = x[axes] - mean[n, c]
    inverse = _inverse_deviation(f, (n, c), tuple(s), centred, epsilon)
    return f.map(axes, centred * inverse[n, c] * scale[c] + b[c], x.type)


@op("MeanVarianceNormalization", since=9)
def mean_variance_normalization(f: Builder, X: Tensor, *, axes: tuple[int, ...] = (0, 2, 3)) -> Tensor:
    """(x - mean) / (deviation + 1e-9), both taken along `axes` (MeanVarianceNormalization-13)."""
    points, over = f.axes(X.shape), {f.axis(a, X.rank) for a in axes}
    rest = tuple(p for d, p in enumerate(points) if d not in over)
    along = tuple(p for d, p in enumerate(points) if d in over)
    mean = _mean(f, rest, along, X[points])
    centred = X[points] - mean[rest]
    count = _count(tuple(p.extent or 0 for p in along), centred.dtype)
    deviation = f.reduce(
        "sum", rest, along, centred * centred, post=lambda acc: call("sqrt", acc / count), name="deviation"
    )
    return f.map(points, centred / (deviation[rest] + 1e-9), X.type)


@op("LayerNormalization", since=17)
def layer_normalization(
    f: Builder,
    x: Tensor,
    scale: Tensor,
    b: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Tensor, ...]:
    """y = (x - mean) * inverse * scale + b (LayerNormalization-17), statistics over the axes from `axis` on.

    `mean` and `inverse` = 1 / sqrt(variance + epsilon) are outputs too, with 1 for each axis reduced.
    """
    i = f.axis(axis, x.rank)
    axes = f.axes(x.shape)
    kept = (*axes[:i], *(Var(f"one{k}", 1) for k in range(i, x.rank)))
    at = (*axes[:i], *(Const(0) for _ in axes[i:]))
    stash = _stash(f, stash_type)
    wide = stash if stash.bits > x.type.compute.bits else x.type.compute
    element = cast(x[axes], wide)
    mean = _mean(f, kept, axes[i:], element)
    centred = element - mean[at]
    inverse = _inverse_deviation(f, kept, axes[i:], centred, epsilon)
    y = _scaled(f, x, axes, centred * inverse[at], scale, b)
    return y, _stored(f, kept, mean, stash, 1), _stored(f, kept, inverse, stash, 2)


def _stash(f: Builder, stash_type: int) -> DType:
    """The type in which the statistics are given. Raises ShapeError for one that is no float."""
    f.require(stash_type in STASH, f"stash_type {stash_type} is not a floating-point type")
    return STASH[stash_type]


def _stored(f: Builder, axes: Axes, t: Tensor, to: DType, output: int) -> Tensor:
    """A statistic in the type in which it leaves, if it does."""
    if t.type is to or output >= len(f.wanted) or not f.wanted[output]:
        return t
    return f.map(axes, cast(t[axes], to.compute), to, name=t.name)


def _fitted(f: Builder, given: Tensor, x: Tensor) -> Tensor:
    """A parameter that broadcasts to `x`: what is not 1 in it is as in `x`."""
    apart = (
        f"a parameter of shape {shapes_text([given.shape])} does not broadcast to {shapes_text([x.shape])}"
    )
    f.require(given.rank <= x.rank, apart)
    last = x.shape[x.rank - given.rank :]
    return f.settled(given, tuple(1 if n == 1 else m for n, m in zip(given.shape, last, strict=True)), apart)


def _scaled(f: Builder, x: Tensor, axes: Axes, value: Expr, scale: Tensor, b: Tensor | None) -> Tensor:
    """value * scale + b in the type of `x`; scale and b broadcast as numpy does."""
    scale, b = _fitted(f, scale, x), b and _fitted(f, b, x)
    t = x.type.compute
    y = cast(value, t) * cast(scale[broadcast_index(scale, axes)], t)
    if b is not None:
        y = y + cast(b[broadcast_index(b, axes)], t)
    return f.map(axes, y, x.type)


@op("RMSNormalization", since=23)
def rms_normalization(
    f: Builder, x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """y = x / sqrt(mean(x^2) + epsilon) * scale, the mean over the axes from `axis` on (RMSNormalization)."""
    return root_mean_square(f, x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)[0]


def root_mean_square(
    f: Builder, x: Tensor, scale: Tensor, *, axis: int, epsilon: float, stash_type: int
) -> tuple[Tensor, Tensor]:
    """The same, and 1 / sqrt(mean(x^2) + epsilon) on the axes before `axis`."""
    i = f.axis(axis, x.rank)
    axes = f.axes(x.shape)
    stash = _stash(f, stash_type)
    wide = stash if stash.bits > x.type.compute.bits else x.type.compute
    element = cast(x[axes], wide)
    inverse = _inverse_deviation(f, axes[:i], axes[i:], element, epsilon)
    return _scaled(f, x, axes, element * inverse[axes[:i]], scale, None), inverse


@op("GroupNormalization", since=21)
def group_normalization(
    f: Builder,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> Tensor:
    """y = scale[c] * (x - mean) / sqrt(variance + epsilon) + bias[c], per sample and group of channels."""
    return _grouped(f, x, scale, bias, epsilon, num_groups, per_group=False)


@op("GroupNormalization", since=18)
def group_normalization_18(
    f: Builder, x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int
) -> Tensor:
    """As GroupNormalization-21, with one scale and bias per group."""
    return _grouped(f, x, scale, bias, epsilon, num_groups, per_group=True)


def _grouped(
    f: Builder, x: Tensor, scale: Tensor, bias: Tensor, epsilon: float, groups: int, per_group: bool
) -> Tensor:
    f.require(x.rank >= 2, f"input rank {x.rank}, at least 2 is needed")
    channels = as_expr(x.shape[1])
    f.require(
        isinstance(channels, Const) and groups > 0 and channels.value % groups == 0,
        f"{x.shape[1]} channels are not divisible into {groups} groups",
    )
    each = (groups,) if per_group else x.shape[1:2]
    scale, bias = _settled(f, each, scale=scale, bias=bias)
    size = extent(channels // groups)
    n, c, *s = axes = f.axes(x.shape, " ".join(["n c", *(f"s{i}" for i in range(x.rank - 2))]))
    g, m = f.axes((groups, size), "g m")
    element = x.at((n, g * size + m, *s))
    mean = _mean(f, (n, g), (m, *s), element)
    inverse = _inverse_deviation(f, (n, g), (m, *s), element - mean[n, g], epsilon)
    group = c // size
    at = group if per_group else c
    y = (x[axes] - mean[n, group]) * inverse[n, group] * scale[at] + bias[at]
    return f.map(axes, y, x.type)


@op("LRN")
def lrn(
    f: Builder, x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Tensor:
    """y = x / (bias + alpha / size * sum of x^2 over `size` channels around each)^beta (ONNX LRN-13)."""
    f.require(x.rank >= 2 and size > 0, f"input rank {x.rank} and size {size}")
    n, c, *s = axes = f.axes(x.shape, " ".join(["n c", *(f"s{i}" for i in range(x.rank - 2))]))
    channels = x.shape[1]
    most = max(channels - 1, 0) if isinstance(channels, int) else size  # further away there are none
    before, after = min((size - 1) // 2, most), min(size // 2, most)
    k = Var("k", before + 1 + after)
    near = call("abs", x.at((n, c + k - before, *s), outside=0))
    scale = alpha / size
    total = f.reduce(
        "sum", axes, (k,), near * near, post=lambda acc: binary("pow", acc * scale + bias, beta), name="power"
    )
    return f.map(axes, x[axes] / total[axes], x.type)
