"""TFLite Micro's audio front end: from samples of 16 bits to the logarithms of energies in bands.

In and out: integers, to the bit those of its kernels (Signal...). What these leave unwritten is 0 here.
States are operands and results; transforms are in `fixed_fft`.
"""

from __future__ import annotations

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import Const, Expr, Tensor, Var, call, cast, equal, maximum, minimum, select, static
from ingot.formula.types import FLOAT64, INDEX, INT16, INT32, INT64, UINT32, UINT64, DType
from ingot.ops.fixed_fft import DOMAIN
from ingot.ops.registry import Builder, op

SEGMENTS = 128
"""Of the table of logarithms."""
GAINS = 125
"""Elements of a table of gains: three for each number of bits of the noise."""


def require_types(f: Builder, *pairs: tuple[Tensor, DType]) -> None:
    for t, wanted in pairs:
        f.require(t.type is wanted, f"'{t.name}' is {t.type}, {wanted} is needed")


def bit_length(f: Builder, x: Tensor) -> Tensor:
    """The bits of a uint32, as int32; of 0 it is 32, as TFLite Micro has it."""
    axes = f.axes(x.shape)
    left, bits = x, f.map(axes, Const(1, INT32), name="bits")
    for step in (16, 8, 4, 2, 1):
        is_large = left[axes] >= (1 << step)
        bits = f.map(axes, bits[axes] + select(is_large, Const(step, INT32), Const(0, INT32)), name="bits")
        left = f.map(axes, select(is_large, left[axes] >> step, left[axes]), name="left")
    return f.map(axes, select(equal(x[axes], 0), Const(32, INT32), bits[axes]), name="bits")


def entry(table: Tensor, at: Expr) -> Expr:
    """The element of a table at an index that is data and within it."""
    return table[minimum(maximum(cast(at, INDEX), 0), static(table.shape[0]) - 1)]


@op("SignalWindow", domain=DOMAIN)
def window(f: Builder, x: Tensor, weights: Tensor, *, shift: int) -> Tensor:
    """x * weights / 2^shift along the last axis, rounded down, within int16."""
    require_types(f, (x, INT16), (weights, INT16))
    f.require(0 <= shift < 32, f"a shift by {shift} bits")
    f.require(x.shape[-1:] == weights.shape, f"{list(weights.shape)} weights of {list(x.shape)}")
    axes = f.axes(x.shape)
    y = (cast(x[axes], INT32) * cast(weights[axes[-1]], INT32)) >> shift
    return f.map(axes, cast(minimum(maximum(y, INT16.lowest), INT16.highest), INT16))


@op("SignalFftAutoScale", domain=DOMAIN)
def auto_scale(f: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """int16 shifted left by as many bits as the largest of them leaves free, and how many these are."""
    require_types(f, (x, INT16))
    f.require(x.rank == 1, "a vector is needed")
    largest, i = f.map((), Const(0, INT32), name="largest"), Var("i", x.shape[0])

    def compare() -> None:
        """-32768 has no size in 16 bits: it becomes the largest, and all that follows is larger."""
        value, most = cast(x[i], INT32), largest[()]
        size = select(Const(0, INT32) - value > most, Const(0, INT32) - value, most)
        f.put(largest, (), (), cast(cast(select(value > most, value, size), INT16), INT32))

    f.scan(i, (largest,), compare)
    used = bit_length(f, f.map((), cast(largest[()], UINT32), name="unsigned"))
    bits = f.map((), maximum(Const(15, INT32) - used[()], 0), name="bits")
    (axis,) = f.axes(x.shape)
    y = cast(x[axis], INT32) * (Const(1, INT32) << bits[()])
    return f.map((axis,), cast(y, INT16)), bits


@op("SignalEnergy", domain=DOMAIN)
def energy(f: Builder, x: Tensor, *, start: int, end: int) -> Tensor:
    """uint32: the squares of real and imaginary part added, of the numbers from start to end."""
    require_types(f, (x, INT16))
    f.require(x.rank == 1 and static(x.shape[0]) % 2 == 0, f"{list(x.shape)} is no spectrum")
    count = static(x.shape[0]) // 2
    f.require(0 <= start <= end <= count, f"numbers {start} to {end} of {count}")
    k = Var("k", count)
    parts = [cast(cast(x[k * 2 + p], INT32), UINT32) for p in (0, 1)]
    total = parts[0] * parts[0] + parts[1] * parts[1]
    is_wanted = (k >= start) & (k < end)
    return f.map((k,), select(is_wanted, total, Const(0, UINT32)))


@op("SignalFilterBank", domain=DOMAIN)
def filter_bank(f: Builder, x: Tensor, starts: Tensor, weights: Tensor) -> Tensor:
    """uint64: y[c] = the sum over h, k of x[starts[h, c] + k] * weights[h, c, k], two slopes for a band."""
    require_types(f, (x, UINT32), (starts, INT32), (weights, INT16))
    f.require(x.rank == 1 and weights.rank == 3, "a vector and slopes of channels are needed")
    f.require(starts.shape == weights.shape[:2], f"{list(starts.shape)} starts of {list(weights.shape)}")
    h, c, k = f.axes(weights.shape, "h c k")
    value = entry(x, cast(starts[h, c], INDEX) + k)
    # a weight is extended with its sign, and a product taken modulo 2^64
    term = cast(cast(weights[h, c, k], INT64), UINT64) * cast(value, UINT64)
    return f.reduce("sum", (c,), (h, k), term)


@op("SignalFilterBankSquareRoot", domain=DOMAIN)
def square_root(f: Builder, x: Tensor, bits: Tensor) -> Tensor:
    """uint32: the nearest integer to the root, shifted right; of numbers below 2^32 it is below 2^16."""
    require_types(f, (x, UINT64), (bits, INT32))
    f.require(x.rank == 1 and bits.count == 1, "a vector and a number of bits are needed")
    axes = f.axes(x.shape)
    top = (1 << 32) - 1
    # a float64 has 53 bits of 64: the root may be one too large or too small
    near = minimum(cast(call("sqrt", cast(x[axes], FLOAT64)), INT64), top)
    root = f.map(axes, cast(near, UINT64), name="root")
    zero, one = Const(0, UINT64), Const(1, UINT64)
    is_above = root[axes] * root[axes] > x[axes]
    root = f.map(axes, root[axes] - select(is_above, one, zero), name="root")
    is_below = x[axes] - root[axes] * root[axes] > root[axes] * 2
    root = f.map(axes, root[axes] + select(is_below, one, zero), name="root")
    most = select(x[axes] > top, Const(top, UINT64), Const(0xFFFF, UINT64))
    is_nearer = x[axes] - root[axes] * root[axes] > root[axes]
    value = minimum(root[axes] + select(is_nearer, one, zero), most)
    by = cast(minimum(maximum(bits.at((0,) * bits.rank), 0), 31), UINT32)
    return f.map(axes, cast(value, UINT32) >> by)


@op("SignalFilterBankSpectralSubtraction", domain=DOMAIN)
def spectral_subtraction(
    f: Builder,
    x: Tensor,
    noise: Tensor,
    *,
    smoothing: tuple[int, ...],
    one_minus_smoothing: tuple[int, ...],
    min_signal_remaining: int,
    smoothing_bits: int,
    spectral_subtraction_bits: int,
    clamping: int = 0,
) -> tuple[Tensor, Tensor]:
    """The signal less an estimate of the noise, and the next estimate, times 2^smoothing_bits: a running
    mean, by factors for even and for odd channels. All uint32, products uint64.
    """
    require_types(f, (x, UINT32), (noise, UINT32))
    f.require(x.rank == 1 and noise.shape == x.shape, f"noise {list(noise.shape)} of {list(x.shape)}")
    f.require(len(smoothing) == len(one_minus_smoothing) == 2, "two factors are needed, even and odd")
    f.require(0 <= smoothing_bits < 32 and 0 <= spectral_subtraction_bits < 64, "impossible shifts")
    (c,) = f.axes(x.shape, "c")
    factors = np.array([smoothing, one_minus_smoothing], np.int64).astype(np.uint32)
    table = f.constant(factors, "factors")
    signal = f.map((c,), x[c] << smoothing_bits, name="signal")
    new, old = (cast(table[i, c % 2], UINT64) for i in (0, 1))
    mean = cast(signal[c], UINT64) * new + cast(noise[c], UINT64) * old
    estimate = f.map((c,), cast(mean >> spectral_subtraction_bits, UINT32), name="estimate")
    taken = f.map((c,), minimum(estimate[c], signal[c]), name="taken")
    least = cast(x[c], UINT64) * Const(min_signal_remaining % (1 << 32), UINT64)
    floor = cast(least >> spectral_subtraction_bits, UINT32)
    y = f.map((c,), maximum((signal[c] - taken[c]) >> smoothing_bits, floor))
    return y, taken if clamping else estimate


@op("SignalPCAN", domain=DOMAIN)
def pcan(f: Builder, x: Tensor, noise: Tensor, gains: Tensor, *, snr_shift: int) -> Tensor:
    """Per-channel automatic gain control: x times a gain that the noise tells, through a soft threshold."""
    require_types(f, (x, UINT32), (noise, UINT32), (gains, INT16))
    f.require(x.rank == 1 and noise.shape == x.shape, f"noise {list(noise.shape)} of {list(x.shape)}")
    f.require(gains.rank == 1 and gains.count >= GAINS, f"{gains.count} gains, {GAINS} are needed")
    f.require(0 <= snr_shift < 64, f"a shift by {snr_shift} bits")
    (c,) = f.axes(x.shape, "c")
    gain = f.map((c,), _gain(f, noise, gains, c), name="gain")
    product = cast(x[c], UINT64) * cast(cast(gain[c], UINT32), UINT64)
    ratio = f.map((c,), cast(product >> snr_shift, UINT32), name="ratio")
    r = ratio[c]
    return f.map((c,), select(r < (2 << 12), (r * r) >> 20, (r >> 6) - (1 << 6)))


def _gain(f: Builder, noise: Tensor, gains: Tensor, c: Var) -> Expr:
    """int32 within int16: a parabola for each number of bits, of ten bits below the first."""
    bits = bit_length(f, noise)
    first = f.map((c,), maximum(bits[c] * 4 - 6, 0), name="first")
    left = cast(maximum(Const(11, INT32) - bits[c], 0), UINT32)
    right = cast(maximum(bits[c] - 11, 0), UINT32)
    fraction = f.map((c,), cast(((noise[c] << left) >> right) & 0x3FF, INT64), name="fraction")
    a, b, square = (cast(entry(gains, first[c] + i), INT64) for i in range(3))
    slope = ((square * fraction[c]) >> 5) + (b << 5)
    raised = cast(slope * fraction[c] + (1 << 14), INT32)
    value = cast((cast(raised, INT64) >> 15) + a, INT16)
    small = entry(gains, cast(minimum(noise[c], Const(2, UINT32)), INT32))
    return cast(select(noise[c] <= 2, small, value), INT32)


@op("SignalFilterBankLog", domain=DOMAIN)
def filter_bank_log(f: Builder, x: Tensor, *, input_correction_bits: int, output_scale: int) -> Tensor:
    """int16: output_scale * ln(x * 2^input_correction_bits), 0 of 0 and 1."""
    require_types(f, (x, UINT32))
    if not 0 <= input_correction_bits < 32:
        raise ModelError(f"{f.node.label}: a shift by {input_correction_bits} bits")
    axes = f.axes(x.shape)
    given = f.map(axes, x[axes] << input_correction_bits, name="given")
    half = 1 << 15
    natural = cast(_log2(f, given), UINT64) * round(np.log(2) * (1 << 16)) + half
    scaled = cast(natural >> 16, UINT32) * Const(output_scale % (1 << 32), UINT32) + half
    value = cast(minimum(scaled >> 16, INT16.highest), INT16)
    return f.map(axes, select(given[axes] > 1, value, Const(0, INT16)))


def _log2(f: Builder, x: Tensor) -> Expr:
    """uint32 with 16 bits behind the point: the first bit's place, and a table of lines for the others."""
    axes = f.axes(x.shape)
    whole = f.map(axes, bit_length(f, x)[axes] - 1, name="whole")
    w = cast(whole[axes], UINT32)
    rest = cast(x[axes], INT64) - (Const(1, INT64) << cast(whole[axes], INT64))
    left = (rest << cast(maximum(16 - whole[axes], 0), INT64)) >> cast(maximum(whole[axes] - 16, 0), INT64)
    fraction = f.map(axes, cast(left, INT32), name="fraction")
    part = fraction[axes]
    steps = np.arange(SEGMENTS + 1) / SEGMENTS
    bend = np.round((np.log2(1 + steps) - steps) * (1 << 16)).astype(np.int32)
    table = f.constant(bend, "bend")
    segment = part >> 9
    low, high = entry(table, segment), entry(table, segment + 1)
    more = ((high - low) * (part - (segment << 9))) >> 16
    return (w << 16) + cast(part + low + more, UINT32)
