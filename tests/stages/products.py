"""Products of matrices, of bytes, with encoded weights; convolutions of these kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ingot.errors import InputError
from ingot.formula.compute import Compute, Stage, reads, writes
from ingot.formula.expr import (
    Const,
    Extent,
    Tensor,
    Var,
    cast,
    constant,
    maximum,
    minimum,
    static,
    substitute,
)
from ingot.formula.types import FLOAT16, FLOAT32, FLOAT64, INT8, INT32, UINT8, DType
from ingot.loops.choice import Choice
from ingot.loops.region import Group, Region
from ingot.loops.region_passes.fold import fold_stages
from ingot.loops.region_passes.zero_points import with_plain_products
from ingot.ops.blocked import matmul_n_bits
from ingot.ops.contract import conv, gemm, matmul
from ingot.ops.microsoft import qgemm
from ingot.ops.quantize import conv_integer, matmul_integer, qlinear_conv, qlinear_matmul
from ingot.ops.registry import Builder
from ingot.ops.tflite import doubling_high, shifted
from ingot.targets.record import Target
from tests.probes.levels import builder
from tests.stages.dice import Dice, Impossible
from tests.stages.drawn import Drawn, Habits
from tests.stages.windows import Geometry, geometry, some_channels, stored

PLAIN = Habits(
    last=95, halo=97, kinds=("none", "relu", "bias", "residual", "scale", "sigmoid", "place", "bytes")
)


def multiplied(dice: Dice, target: Target) -> Drawn:
    """MatMul or Gemm: batches, transposed operands, weights that are known or not."""
    dtype = dice.choice((FLOAT32, FLOAT32, FLOAT32, FLOAT64, FLOAT16))
    lanes = target.lanes(max(dtype.bytes, 4))
    m = 1 if dice.chance(25) else dice.number(1, 20)  # few sums at once are sums in chains
    k, n = dice.number(1, 100), some_channels(dice, lanes)
    if dice.chance(60):  # several blocks of whole registers
        n = dice.number(4, 9) * min(lanes, 8)
    f = builder()
    if dice.chance(50):
        turned, other = dice.below(2), dice.below(2)
        x = dice.tensor("x", dtype, (k, m) if turned else (m, k))
        b = _operand(dice, "w", dtype, (n, k) if other else (k, n))
        gemm(f, x, b, _bias(dice, dtype, m, n), transA=turned, transB=other, alpha=dice.choice((1.0, 2.0)))
    else:
        batch = dice.choice(((), (2,), (2, 3)))
        x = dice.tensor("x", dtype, (*batch, m, k) if dice.chance(90) else (k,))
        matmul(f, x, _operand(dice, "w", dtype, (*(batch if dice.chance(50) else ()), k, n)))
    drawn = stored(dice, f, target, replace(PLAIN, last=0))
    # what is rounded to 16 bits when it is stored may be rounded the other way by another order of sums
    return drawn if dtype is not FLOAT16 else replace(drawn, tolerance=2e-3)


def inner(dice: Dice, target: Target) -> Drawn:
    """A product of two tensors whose terms lie side by side in both, or a window whose taps do."""
    dtype = dice.choice((FLOAT32, FLOAT32, FLOAT32, FLOAT64))
    f, few = builder(), dice.number(1, 9)
    if dice.chance(40):
        taps, stride, channels = dice.number(1, 9), dice.choice((2, 1, 3)), dice.number(2, 20)
        x = dice.tensor("x", dtype, (dice.choice((1, 2)), channels, taps + dice.number(0, 40)))
        b = dice.constant("b", dtype, (1,)) if dice.chance(50) else None
        conv(f, x, dice.constant("w", dtype, (1, channels, taps)), b, strides=(stride,))
        return stored(dice, f, target, replace(PLAIN, last=95))
    m, k, n = dice.number(1, 20), dice.number(8, 120), dice.number(1, 40)
    if dice.chance(50):
        few, n = n, few
    batch = dice.choice(((), (), (2,), (2, 3)))
    x, w = (
        dice.tensor("x", dtype, (*batch, few if dice.chance(80) else m, k)),
        dice.tensor("w", dtype, (n, k)),
    )
    if batch:
        axes = f.axes((*x.shape[:-1], n), "a b m n" if len(batch) == 2 else "a m n")
        terms = f.axes((k,), "k")
        f.reduce("sum", axes, terms, x[(*axes[:-1], *terms)] * w[(axes[-1], *terms)])
    else:
        rows = few if static(x.shape[0]) == few else m
        gemm(f, x, w, _bias(dice, dtype, rows, n), transB=1, alpha=dice.choice((1.0, 2.0)))
    return stored(dice, f, target, replace(PLAIN, last=0))


def _bias(dice: Dice, dtype: DType, m: int, n: int) -> Tensor | None:
    """What a product of m rows and n columns is added to: mostly one number a column, as in a dense layer."""
    if dice.chance(50):
        return None
    return dice.constant("c", dtype, dice.choice(((n,), (n,), (n,), (m, 1), (m, n), (1, n), ())))


def _operand(dice: Dice, name: str, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    return dice.constant(name, dtype, shape) if dice.chance(60) else dice.tensor(name, dtype, shape)


def in_blocks(dice: Dice, target: Target, whole: int = 0) -> Drawn:
    """A product with weights of few bits, blocks of which have a scale and perhaps a zero point; in so many
    of a hundred all blocks are `whole`.
    """
    if dice.chance(8):  # none of that form
        return multiplied(dice, target)
    f, lanes = builder(), target.lanes(4)
    bits, block = dice.choice((4, 4, 8, 2)), dice.choice((16, 32, 64))
    inner, columns = dice.number(1, 3 * block), some_channels(dice, lanes)
    if whole and dice.chance(whole):
        inner = -(-inner // block) * block
    if dice.chance(50):  # several tiles
        columns = dice.number(1, 19) * min(lanes, 8)
    blocks = -(-inner // block)
    b = dice.constant("b", UINT8, (columns, blocks, block * bits // 8))
    scales = dice.constant("scales", FLOAT32, (columns, blocks))
    packed = (columns, -(-blocks * bits // 8))
    zeros = dice.choice((None, None, (UINT8, packed), (FLOAT32, (columns, blocks))))
    zero = None if zeros is None else dice.constant("zeros", *zeros)
    rows = dice.choice(((1,), (dice.number(1, 9),), (2, dice.number(1, 9)), ()))
    x = dice.tensor("x", FLOAT32, (*rows, inner))
    bias = dice.constant("c", FLOAT32, (columns,)) if dice.chance(30) else None
    matmul_n_bits(f, x, b, scales, zero, None, bias, K=inner, N=columns, bits=bits, block_size=block)
    if dice.chance(25):
        f.stages[-1] = _split(dice, f.stages[-1])
    return stored(dice, f, target, replace(PLAIN, last=0))


def _split(dice: Dice, stage: Stage) -> Compute:
    """A sum over two axes, as where its operand is read through a view of more dimensions."""
    assert isinstance(stage, Compute) and stage.reduction is not None
    (k,) = stage.reduction.axes
    terms = static(k.extent)
    inner = dice.choice([n for n in range(1, terms + 1) if terms % n == 0])
    outer, within = Var(f"{k.name}_outer", terms // inner), Var(f"{k.name}_inner", inner)
    term = substitute(stage.reduction.term, {k.name: outer * inner + within})
    return replace(stage, reduction=replace(stage.reduction, axes=(outer, within), term=term))


# -- encoded weights


def encoded(dice: Dice, name: str, dtype: DType, shape: tuple[int, ...], most: int = 16) -> Tensor:
    """A constant of few values, most of them 0."""
    count = dice.number(1, most - 1)
    values = dice.random.choice(np.arange(-30, 0) if count < 30 else np.arange(-127, 0), count, replace=False)
    values = np.where(dice.random.random(count) < 0.5, values, -values)
    density = dice.choice((0.1, 0.03, 0.3, 0.6, 1.0))
    kept = dice.random.random(shape) < density
    array = np.where(kept, dice.random.choice(values, shape), 0).astype(dtype.numpy)
    values = np.unique(np.append(values, 0)).astype(dtype.numpy)
    return replace(constant(array, f"{name}{dice.seed}"), codebook=values)


def sparse_product(dice: Dice, target: Target, of_bytes: bool | None = None) -> Drawn:
    """A product or a convolution with encoded weights, of floats or bytes."""
    if of_bytes is None:  # vectors of 64 bytes and of 32 look up floats, the others only bytes
        floats_only = target.name in ("x86-64-v3", "x86-64-v4")
        bytes_only = target.name.startswith(("aarch64-", "armv8"))
        of_bytes = dice.chance(10 if floats_only else 90 if bytes_only else 50)
    x_type, w_type = (UINT8, INT8) if of_bytes else (FLOAT32, FLOAT32)
    if of_bytes and dice.chance(15):
        x_type = INT8
    most = dice.choice((16, 4, 40, 120))
    f = builder()
    if dice.chance(65):
        m, k, n = dice.choice((1, 1, 2, 3, 5, 9)), dice.number(1, 300), dice.number(1, 70)
        x = dice.tensor("x", x_type, (m, k))
        w = encoded(dice, "w", w_type, (n, k), most)
        if of_bytes:
            _matrix_of_bytes(dice, f, x, w)
        else:
            gemm(f, x, w, None, transB=1)
    else:
        g = geometry(dice, 3, (2, 2, 1))
        channels, features = dice.number(1, 24), dice.number(1, 40)
        x = dice.tensor("x", x_type, (g.batch, channels, *g.size))
        w = encoded(dice, "w", w_type, (features, channels, *g.kernel), most)
        _convolution(dice, f, x, w, g, of_bytes)
    return replace(stored(dice, f, target, EPILOGUES[of_bytes]), how=Choice(sparse=True))


EPILOGUES = {True: Habits(last=90, halo=95, kinds=("none",)), False: PLAIN}


def _matrix_of_bytes(dice: Dice, f: Builder, x: Tensor, w: Tensor) -> None:
    """x times w transposed: the constant's rows are the result's columns."""
    assert w.value is not None
    values = w.codebook
    turned = replace(constant(np.ascontiguousarray(w.value.T), w.name), codebook=values)
    zero = _zero(dice, "z", x.type)
    if dice.chance(40):
        matmul_integer(f, x, turned, zero)
    elif dice.chance(40):
        _qgemm(dice, f, x, turned, zero)
    else:
        scales = [_scale(dice, n) for n in ("xs", "ws", "ys")]
        at_zero = _at_zero(dice, w, w.shape[0])
        qlinear_matmul(
            f, x, scales[0], zero, turned, scales[1], at_zero, scales[2], _zero(dice, "yz", UINT8, True)
        )


def _qgemm(dice: Dice, f: Builder, x: Tensor, w: Tensor, zero: Tensor) -> None:
    """With a bias for each column, each row or each result."""
    (m, _), (_, n) = (tuple(map(static, t.shape)) for t in (x, w))
    bias = _bias(dice, INT32, m, n)
    result = (_scale(dice, "ys"), _zero(dice, "yz", UINT8, True)) if dice.chance(70) else ()
    qgemm(f, x, _scale(dice, "xs"), zero, w, _scale(dice, "ws"), _at_zero(dice, w, n), bias, *result)


def _convolution(
    dice: Dice, f: Builder, x: Tensor, w: Tensor, g: Geometry, of_bytes: bool, group: int = 1
) -> None:
    how: dict[str, Any] = {"group": group, "strides": g.strides, "dilations": g.dilations, "pads": g.pads}
    try:
        if not of_bytes:
            conv(f, x, w, None, **how)
            return
        zero = _zero(dice, "z", x.type)
        if dice.chance(50):
            conv_integer(f, x, w, zero, **how)
            return
        scales = [_scale(dice, n) for n in ("xs", "ws", "ys")]
        at_zero = _at_zero(dice, w, w.shape[0])
        out = _zero(dice, "yz", UINT8, True)
        bias = dice.constant("b", INT32, (int(w.shape[0]),), 999) if dice.chance(50) else None
        qlinear_conv(f, x, scales[0], zero, w, scales[1], at_zero, scales[2], out, bias, **how)
    except InputError as error:
        raise Impossible from error


def _zero(dice: Dice, name: str, dtype: DType, known: bool = False) -> Tensor:
    """A zero point: none to speak of, another one, or one that is data."""
    if not known and dice.chance(20):
        return dice.tensor(name, dtype, ())
    lo, hi = int(dtype.lowest), int(dtype.highest)
    value = np.array(dice.choice((0, 3, hi, lo, hi // 2)), dtype.numpy)
    return constant(value, f"{name}{dice.seed}")


def _at_zero(dice: Dice, w: Tensor, rows: Extent) -> Tensor:
    """The zero point of weights: none, for all together or for each row."""
    shape = (static(rows),) if dice.chance(40) else ()
    value = 0 if w.codebook is not None else dice.choice((0, 0, 0, 1))
    return constant(np.full(shape, value, w.type.numpy), f"wz{dice.seed}")


def _scale(dice: Dice, name: str) -> Tensor:
    return constant(np.array(2.0 ** -dice.number(2, 6), np.float32), f"{name}{dice.seed}")


# -- bytes


def _plain_bytes(dice: Dice, shape: tuple[int, ...]) -> Tensor:
    """Constants of bytes, some without a sign, which no int8 holds."""
    low, kind = (0, np.uint8) if dice.chance(15) else (-127, np.int8)
    return constant(dice.random.integers(low, low + 255, shape).astype(kind), f"w{dice.seed}")


def with_plain_product(c: Compute) -> Compute:
    """The stage with its zero points folded; sums that it needs for that are one of its inputs."""
    return list(with_plain_products([c]))[-1]


def bytes_product(dice: Dice, target: Target) -> Drawn:
    """A product of bytes whose weights are plain constants."""
    x_type = dice.choice((UINT8, INT8))
    f = builder()
    if dice.chance(40):
        g, group = geometry(dice, 4, (2, 2, 1)), dice.choice((1, 1, 1, 2, 3))
        each, outputs = dice.number(1, 20), dice.number(2, 13)
        if dice.chance(40):  # a dense layer
            none = (0,) * len(g.pads)
            g = replace(g, batch=1, size=g.kernel, dilations=tuple(1 for _ in g.kernel), pads=none)
        _quantised_convolution(dice, f, x_type, (outputs * group, each), g, group)
        return stored(dice, f, target, TIDY_BYTES, with_plain_product)
    if dice.chance(60):
        m, k, n = dice.number(1, 7), dice.number(1, 80), dice.number(1, 20)
        x = dice.tensor("x", x_type, (m, k))
        _matrix_of_bytes(dice, f, x, _plain_bytes(dice, (n, k)))
    else:
        g = geometry(dice, 4, (2, 2, 1))
        group = dice.choice((1, 1, 1, 2, 3))
        each, outputs = dice.number(1, 20), dice.number(1, 9)
        x = dice.tensor("x", x_type, (g.batch, each * group, *g.size))
        w = _plain_bytes(dice, (outputs * group, each, *g.kernel))
        _convolution(dice, f, x, w, g, True, group)
    return stored(dice, f, target, EPILOGUES[True])


def wide_bytes(dice: Dice, target: Target) -> Drawn:
    """A product of bytes over vectors of results, its zero points folded as in a model."""
    x_type, lanes = dice.choice((UINT8, INT8)), target.lanes(INT32.bytes)
    f = builder()
    if dice.chance(45):
        m, k, n = dice.number(1, 9), dice.number(1, 80), some_channels(dice, lanes)
        x = dice.tensor("x", x_type, (m, k))
        _matrix_of_bytes(dice, f, x, _plain_bytes(dice, (n, k)))
    else:
        g = geometry(dice, 4, (2, 2, 1))
        group = dice.choice((1, 1, 1, 2))
        each, outputs = dice.number(1, 20), some_channels(dice, lanes)
        x = dice.tensor("x", x_type, (g.batch, each * group, *g.size))
        w = _plain_bytes(dice, (outputs * group, each, *g.kernel))
        _convolution(dice, f, x, w, g, True, group)
    return stored(dice, f, target, TIDY_BYTES, with_plain_product)


def small_windows(dice: Dice, target: Target) -> Drawn:
    """A depthwise convolution of bytes with windows of at most three by three, mostly of two or three."""
    x_type, g = dice.choice((UINT8, INT8)), geometry(dice, 3, (2,))
    channels = dice.choice((16, 17, 35)) if dice.chance(25) else dice.number(2, 12)
    if dice.chance(80):
        kernel, stride = (dice.choice((3, 2)), dice.choice((3, 2))), dice.choice((1, 2))
        g = replace(g, kernel=kernel, strides=(stride, stride), dilations=(1, 1))
    f = builder()
    _quantised_convolution(dice, f, x_type, (channels, 1), g, channels)
    return stored(dice, f, target, TIDY_BYTES, with_plain_product)


def depthwise_bytes(dice: Dice, target: Target) -> Drawn:
    """A depthwise convolution of bytes, its zero points folded as in a model."""
    x_type, g = dice.choice((UINT8, INT8)), geometry(dice, 5, (2, 2, 2, 1))
    channels = dice.choice((16, 17, 24, 31, 32, 40, 48, 64, 65, 80, 100, 128, 150, dice.number(16, 130)))
    if dice.chance(35):  # so few that a vector holds several columns
        channels, stride = dice.choice((2, 4, 8, 16, 32)), dice.choice((1, 2))
        g = replace(g, size=(*g.size[:-1], dice.number(9, 40)), strides=(*g.strides[:-1], stride))
    f = builder()
    _quantised_convolution(dice, f, x_type, (channels, 1), g, channels)
    return stored(dice, f, target, TIDY_BYTES, with_plain_product)


def _quantised_convolution(
    dice: Dice, f: Builder, x_type: DType, channels: tuple[int, int], g: Geometry, group: int
) -> None:
    """A convolution of bytes to bytes, with so many outputs, and inputs of each."""
    x = dice.tensor("x", x_type, (g.batch, channels[1] * group, *g.size))
    w = _plain_bytes(dice, (*channels, *g.kernel))
    scales = [_scale(dice, n) for n in ("xs", "ws", "ys")]
    zero, out = _zero(dice, "z", x_type, dice.chance(90)), _zero(dice, "yz", dice.choice((UINT8, INT8)), True)
    bias = dice.constant("b", INT32, (channels[0],), 999) if dice.chance(50) else None
    how: dict[str, Any] = {"strides": g.strides, "dilations": g.dilations, "pads": g.pads, "group": group}
    try:
        if dice.chance(30):
            conv_integer(f, x, w, zero, **how)
            f.stages[-1] = _in_fixed_point(dice, f.stages[-1], out, bias)
            return
        at_zero = _at_zero(dice, w, channels[0])
        qlinear_conv(f, x, scales[0], zero, w, scales[1], at_zero, scales[2], out, bias, **how)
    except InputError as error:
        raise Impossible from error
    _known_scales(dice, f)


def _in_fixed_point(dice: Dice, stage: Stage, zero: Tensor, bias: Tensor | None) -> Compute:
    """A sum that becomes bytes by a multiplier and a shift of its channel, as TFLite's kernels have it."""
    assert isinstance(stage, Compute) and zero.value is not None
    channel, count = stage.axes[1:2], (static(stage.out.shape[1]),)
    multipliers = dice.random.integers(1 << 30, 1 << 31, count).astype(np.int32)
    shifts = dice.random.integers(3, 12, count).astype(np.int32)
    multiplier, shift = (
        constant(array, f"{name}{dice.seed}") for array, name in ((multipliers, "m"), (shifts, "s"))
    )
    total = stage.value if bias is None else stage.value + bias[channel]
    made = shifted(doubling_high(total, multiplier[channel]), shift[channel]) + Const(int(zero.value), INT32)
    limited = minimum(maximum(made, int(zero.type.lowest)), int(zero.type.highest))
    out = Tensor("y", zero.type, stage.out.shape)
    return replace(stage, out=out, value=cast(limited, zero.type))


def _known_scales(dice: Dice, f: Builder) -> None:
    """Mostly the scales are folded into constants, as a model's are; else they are data of a stage before."""
    if dice.chance(75):
        stages = tuple(f.stages)
        made = {t for s in stages for t in writes(s)}
        inputs = tuple({t: None for s in stages for t in reads(s) if t not in made and t.value is None})
        region = Region(inputs, tuple(writes(stages[-1])), [Group(("product",), stages)])
        (group,) = (g for g in fold_stages(region).items if isinstance(g, Group))
        f.stages[:] = group.stages


TIDY_BYTES = Habits(last=95, halo=95, kinds=("none",))
