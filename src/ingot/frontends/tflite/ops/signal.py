"""Custom operators of audio: TensorFlow's spectrogram, and TFLite Micro's Signal..., which have variables.

The latter's arithmetic is that of `ops/audio.py` and `ops/fixed_fft.py`. TFLite Micro leaves the output of a
framer or a stacker as it was while it is not valid; here it holds what has come so far, behind zeros.
"""

from __future__ import annotations

import numpy as np

from ingot.errors import ModelError
from ingot.formula.types import BOOL, INT16, INT32
from ingot.frontends.orders import like
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.flexbuffer import numbers_of
from ingot.frontends.tflite.model import Array
from ingot.frontends.tflite.ops.requantise import DOMAIN, narrowed
from ingot.frontends.tflite.ops.table import Call, op
from ingot.graph.ir import Value


def _options(c: Call, *names: str) -> list[int]:
    """Integers of the custom options."""
    given = numbers_of(c.operator.custom, c.operator.label)
    if missing := [n for n in names if n not in given]:
        raise ModelError(f"{c.operator.label}: its custom options lack {missing[0]!r}")
    return [int(given[n]) for n in names]


def _shape(c: Call, i: int = 0) -> tuple[int, ...]:
    """Extents of an input that has one axis or more."""
    shape = c.tensor(i).shape
    c.require(len(shape) > 0, "a tensor of one axis or more is needed")
    return shape


def _kept(c: Call, number: int, name: str, initial: Array) -> Value:
    """What the operator left in a run before."""
    found: Tensor = c.scope.variables.own(_key(c, number), f"{c.b.names.place}/{name}", initial)
    return found.value


def _keep(c: Call, number: int, value: Value) -> None:
    c.scope.variables.write(_key(c, number), Tensor(value))


def _key(c: Call, number: int) -> tuple[int, ...]:
    return (c.scope.subgraph.index, c.operator.index, number)


def _part(c: Call, x: Value, start: int, end: int, axis: int) -> Value:
    return c.b.one("Slice", x, *(c.b.ints([n]) for n in (start, end, axis)))


def _followed(c: Call, count: int) -> Value:
    """The samples behind the `count` before them, which are 0 at first; the last `count` are kept."""
    (*lead, size), x = _shape(c), c.plain(0)
    if count == 0:
        return x
    before = _kept(c, 0, "before", np.zeros((*lead, count), c.tensor(0).dtype.numpy))
    both = c.b.one("Concat", before, x, axis=len(lead))
    _keep(c, 0, _part(c, both, size, size + count, -1))
    return both


@op("CUSTOM AudioSpectrogram", "CUSTOM Mfcc")
def spectrum(c: Call) -> Result:
    """What TensorFlow has under the name."""
    given = numbers_of(c.operator.custom, c.operator.label)
    attributes = {k: bool(v) if k == "magnitude_squared" else v for k, v in given.items()}
    return c.standard(c.operator.kind.removeprefix("CUSTOM "), None, **attributes)


# ---- from run to run


@op("CUSTOM SignalDelay")
def delay(c: Call) -> Result:
    """Samples of int16, `delay_length` later."""
    (length,) = _options(c, "delay_length")
    size = _shape(c)[-1]
    c.require(length >= 0, f"a delay of {length}")
    return _part(c, _followed(c, length), 0, size, -1)


@op("CUSTOM SignalFramer")
def framer(c: Call) -> Result:
    """Frames of `frame_size`, one every `frame_step`; whether all of them are full."""
    size, step, prefill = _options(c, "frame_size", "frame_step", "prefill")
    count = _shape(c)[-1]
    c.require(size > 0 and step > 0 and count % step == 0, f"{count} samples in frames of {size} by {step}")
    c.require(not prefill or size >= step, f"frames of {size} by {step} cannot be filled before they come")
    full = -(-size // step)  # steps until the first frame
    both = _followed(c, size - step if prefill else (full - 1) * step)
    places = np.arange(count // step)[:, None] * step + np.arange(size)
    frames = c.b.one("Gather", both, c.b.constant(places), axis=len(c.tensor(0).shape) - 1)
    return [frames, c.b.constant(True, BOOL) if prefill or full == 1 else _is_full(c, full, count // step)]


def _is_full(c: Call, full: int, count: int) -> Value:
    """Whether the first of `count` frames has all its steps, the run's first step included."""
    b = c.b
    steps = _kept(c, 1, "steps", np.zeros((), np.int32))
    now = b.one("Min", b.one("Add", steps, like(b, steps, count)), like(b, steps, full))
    _keep(c, 1, now)
    return b.one("GreaterOrEqual", steps, like(b, steps, full - 1))


@op("CUSTOM SignalOverlapAdd")
def overlap_add(c: Call) -> Result:
    """Frames added where they overlap, of each its first `frame_step` elements; int16 stays in its range."""
    (step,) = _options(c, "frame_step")
    shape = _shape(c)
    c.require(len(shape) > 1 and 0 < step <= shape[-1], f"frames {list(shape)} by {step}")
    b, x, size = c.b, c.plain(0), shape[-1]
    assert x.type is not None, "every value of the importer is inferred"
    c.require(x.type is INT16 or x.type.is_float, f"{x.type}: float32 or int16 are added")
    total = _kept(c, 0, "sums", np.zeros((*shape[:-2], size), x.type.numpy))
    rest = b.constant(np.zeros((*shape[:-2], step), x.type.numpy))
    made = []
    for i in range(shape[-2]):
        frame = b.one("Gather", x, b.constant(np.int64(i)), axis=len(shape) - 2)
        total = _added(c, frame, total)
        made.append(_part(c, total, 0, step, -1))
        total = b.one("Concat", _part(c, total, step, size, -1), rest, axis=len(shape) - 2)
    _keep(c, 0, total)
    return made[0] if len(made) == 1 else b.one("Concat", *made, axis=len(shape) - 2)


def _added(c: Call, x: Value, y: Value) -> Value:
    if x.type is not INT16:
        return c.b.one("Add", x, y)
    total = c.b.one("Add", c.b.cast(x, INT32), c.b.cast(y, INT32))
    return narrowed(c.b, total, int(INT16.lowest), int(INT16.highest), INT16)


@op("CUSTOM SignalStacker")
def stacker(c: Call) -> Result:
    """A frame with those left and right of it, every `stacker_step` frames; whether there is one.

    The first frame stands for those before it.
    """
    names = ("num_channels", "stacker_left_context", "stacker_right_context", "stacker_step")
    channels, left, right, step = _options(c, *names)
    frames = left + right + 1
    c.require(_shape(c) == (channels,), f"{list(_shape(c))} is no frame of {channels} channels")
    c.require(left >= 0 and right >= 0 and 0 < step <= frames, f"{left} and {right} frames by {step}")
    b, x = c.b, c.plain(0)
    wait = _kept(c, 1, "wait", np.array(-1, np.int32))  # runs until there is a frame; before the first, -1
    is_first = b.one("Less", wait, like(b, wait, 0))
    wait = b.one("Where", is_first, like(b, wait, right), wait)
    is_valid = b.one("Equal", wait, like(b, wait, 0))
    less = b.one("Sub", wait, like(b, wait, 1))
    _keep(c, 1, b.one("Where", is_valid, like(b, wait, step - 1), less))
    if frames == 1:
        return [x, is_valid]
    kept = channels * (frames - 1)
    before = _kept(c, 0, "frames", np.zeros(kept, INT16.numpy))
    before = b.one("Where", is_first, b.one("Tile", x, b.ints([frames - 1])), before)
    both = b.one("Concat", before, x, axis=0)
    _keep(c, 0, _part(c, both, channels, channels + kept, 0))
    return [both, is_valid]


@op("CUSTOM SignalFilterBankSpectralSubtraction")
def spectral_subtraction(c: Call) -> Result:
    """The signal without the noise, and what is held to be the noise."""
    alike = ("min_signal_remaining", "smoothing_bits", "spectral_subtraction_bits", "clamping")
    factors = ("smoothing", "alternate_smoothing", "one_minus_smoothing", "alternate_one_minus_smoothing")
    even, odd, rest_even, rest_odd = _options(c, *factors)
    shared = dict(zip(alike, _options(c, *alike), strict=True))
    (channels,) = _options(c, "num_channels")
    c.require(_shape(c) == (channels,), f"{list(_shape(c))} are not {channels} channels")
    noise = _kept(c, 0, "noise", np.zeros(channels, np.uint32))
    made = c.b.many(
        f"{DOMAIN}.SignalFilterBankSpectralSubtraction",
        2,
        c.plain(0),
        noise,
        smoothing=(even, odd),
        one_minus_smoothing=(rest_even, rest_odd),
        **shared,
    )
    _keep(c, 0, made[1])
    return list(made)


# ---- of one run


@op("CUSTOM SignalWindow")
def window(c: Call) -> Result:
    (shift,) = _options(c, "shift")
    shape, size = _shape(c), _shape(c, 1)[0]
    c.require(size > 0 and int(np.prod(shape)) % size == 0, f"{size} weights of {list(shape)}")
    rows = c.b.reshape(c.plain(0), (-1, size))
    return c.b.reshape(c.b.one(f"{DOMAIN}.SignalWindow", rows, c.plain(1), shift=shift), shape)


@op("CUSTOM SignalFftAutoScale")
def auto_scale(c: Call) -> Result:
    return list(c.b.many(f"{DOMAIN}.SignalFftAutoScale", 2, c.plain(0)))


@op("CUSTOM SignalEnergy")
def energy(c: Call) -> Result:
    start, end = _options(c, "start_index", "end_index")
    return c.b.one(f"{DOMAIN}.SignalEnergy", c.plain(0), start=start, end=end)


@op("CUSTOM SignalRfft")
def rfft(c: Call) -> Result:
    """Real and imaginary parts in turn. Integers are divided by the length, floats are not."""
    (length,) = _options(c, "fft_length")
    b, x, shape = c.b, c.plain(0), _shape(c)
    assert x.type is not None, "every value of the importer is inferred"
    c.require(shape[-1] <= length and length % 2 == 0, f"{shape[-1]} elements, a transform of {length}")
    if not x.type.is_float:
        return b.one(f"{DOMAIN}.Rfft", x, fft_length=length)
    rows = b.reshape(x, (-1, shape[-1], 1))
    made = b.one("DFT", rows, b.constant(np.int64(length)), axis=1, onesided=1)
    return b.reshape(made, (*shape[:-1], length + 2))


@op("CUSTOM SignalIrfft")
def irfft(c: Call) -> Result:
    """The way back; floats are divided by the length."""
    (length,) = _options(c, "fft_length")
    b, x, shape = c.b, c.plain(0), _shape(c)
    assert x.type is not None, "every value of the importer is inferred"
    c.require(shape[-1] == length + 2 and length % 2 == 0, f"{shape[-1]} elements of a transform of {length}")
    if not x.type.is_float:
        return b.one(f"{DOMAIN}.Irfft", x, fft_length=length)
    half = b.reshape(x, (-1, length // 2 + 1, 2))
    return b.reshape(_back(c, half, length), (*shape[:-1], length))


def _back(c: Call, half: Value, length: int) -> Value:
    """The inverse transform of half a spectrum: the other half is its conjugate, the other way round."""
    b = c.b
    others = b.constant(np.arange(length // 2 - 1, 0, -1))
    conjugate = b.one("Mul", b.one("Gather", half, others, axis=1), b.constant(np.array([1, -1], np.float32)))
    whole = b.one("Concat", half, conjugate, axis=1)
    return _part(c, b.one("DFT", whole, b.constant(np.int64(length)), axis=1, inverse=1), 0, 1, 2)


@op("CUSTOM SignalFilterBank")
def filter_bank(c: Call) -> Result:
    """Energies of bands: each has a rising slope, and the slope on which the band before it falls."""
    (channels,) = _options(c, "num_channels")
    rising, falling, places, firsts, widths = (_constant(c, i) for i in range(1, 6))
    c.require(channels > 0, f"{channels} channels")
    c.require(min(map(len, (places, firsts, widths))) > channels, f"{channels + 1} slopes are needed")
    taps, size = max(int(widths[: channels + 1].max()), 1), _shape(c)[0]
    slopes = np.zeros((2, channels, taps), np.int16)
    starts = np.zeros((2, channels), np.int32)
    for i in range(channels):
        for h, (at, weights) in enumerate(((i + 1, rising), (i, falling))):
            first, width, place = int(firsts[at]), int(widths[at]), int(places[at])
            fits = 0 <= first <= len(weights) - width and 0 <= place <= size - width
            c.require(width >= 0 and fits, f"slope {at} leaves its {len(weights)} weights or {size} bins")
            slopes[h, i, :width], starts[h, i] = weights[first : first + width], place
    return c.b.one(f"{DOMAIN}.SignalFilterBank", c.plain(0), *map(c.b.constant, (starts, slopes)))


def _constant(c: Call, i: int) -> Array:
    found = c.tensor(i).constant
    c.require(found is not None and found.ndim == 1, f"its input {i} must be a constant vector")
    assert found is not None
    return found


@op("CUSTOM SignalFilterBankSquareRoot")
def square_root(c: Call) -> Result:
    return c.b.one(f"{DOMAIN}.SignalFilterBankSquareRoot", c.plain(0), c.plain(1))


@op("CUSTOM SignalPCAN")
def pcan(c: Call) -> Result:
    (shift,) = _options(c, "snr_shift")
    return c.b.one(f"{DOMAIN}.SignalPCAN", *(c.plain(i) for i in range(3)), snr_shift=shift)


@op("CUSTOM SignalFilterBankLog")
def filter_bank_log(c: Call) -> Result:
    names = ("input_correction_bits", "output_scale")
    given: dict[str, int] = dict(zip(names, _options(c, *names), strict=True))
    return c.b.one(f"{DOMAIN}.SignalFilterBankLog", c.plain(0), **given)
