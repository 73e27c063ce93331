"""The audio front end of TensorFlow: samples to a spectrogram, a spectrogram to cepstral coefficients."""

from __future__ import annotations

from ingot.formula.types import FLOAT32
from ingot.frontends.audio import coefficients, spectrogram
from ingot.frontends.tensorflow.ops.table import Call, Result, op


@op("AudioSpectrogram")
def audio_spectrogram(c: Call) -> Result:
    """[sample, channel] to [channel, slice, frequency]."""
    x, node = c.tensor(0), c.node
    c.require(x.rank == 2 and x.dtype is FLOAT32, "samples are [sample, channel] in float32")
    window = node.integer("window_size")
    c.require(window <= x.shape[0], f"{x.shape[0]} samples are less than a window of {window}")
    made = spectrogram(node.label, window, node.integer("stride"), node.flag("magnitude_squared"))
    return c.b.call(made, c.b.transposed(c.plain(0), (1, 0)))


@op("Mfcc")
def mfcc(c: Call) -> Result:
    """[channel, slice, frequency] and the sample rate to [channel, slice, coefficient]."""
    x, node = c.tensor(0), c.node
    c.require(x.rank == 3 and x.dtype is FLOAT32, "a spectrogram is [channel, slice, frequency] in float32")
    c.require(x.shape[-1] > 1, "one frequency is no spectrogram")
    low, high = node.number("lower_frequency_limit", 20.0), node.number("upper_frequency_limit", 4000.0)
    filters = node.integer("filterbank_channel_count", 40)
    count = node.integer("dct_coefficient_count", 13)
    rate = float(c.number(1, "the sample rate"))
    made = coefficients(node.label, rate, low, high, filters, count)
    return c.b.call(made, c.plain(0))
