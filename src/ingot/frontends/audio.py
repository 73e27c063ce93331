"""Spectrograms and mel-frequency cepstral coefficients, as TensorFlow, TensorFlow Lite and Glow have them.

Each is a function of ONNX's own operators: ONNX's reader expands it, builders write it out (`Builder.call`).
The number of frequencies may be known only there, so that filters are computed in the graph, and fold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser

from ingot.errors import ModelError

OPSET = 17
SPECTROGRAM = """(x) => (y) {
    samples = Shape <start = 1, end = 2> (x) count = Squeeze (samples, first) behind = Sub (count, window)
    steps = Div (behind, stride) slices = Add (steps, one) numbers = Range (zero, slices, one)
    starts = Mul (numbers, stride) down = Unsqueeze (starts, last) within = Range (zero, window, one)
    places = Add (down, within) frames = Gather <axis = 1> (x, places)
    faded = Mul (frames, hann) signal = Unsqueeze (faded, last)
    bins = DFT <axis = 2, onesided = 1> (signal, length) squares = Mul (bins, bins)
    power = ReduceSum <keepdims = 0> (squares, last) y = MEASURE (power) }"""
"""[channel, sample] to [channel, slice, frequency]."""
COEFFICIENTS = """(x) => (y) {
    inner = Shape <start = -1> (x) bins = Squeeze (inner, first) numbers = Range (zero, bins, one)
    bin = Cast <to = 11> (numbers) steps = Sub (bins, one) parts = Cast <to = 11> (steps)
    width = Div (nyquist, parts) hertz = Mul (bin, width) part = Div (hertz, corner) more = Add (part, unit)
    nats = Log (more) place = Div (nats, spacing) down = Unsqueeze (place, last)
    off = Sub (down, centres) far = Abs (off) near = Sub (unit, far) slope = Max (near, none)
    lowest = Div (low, width) lower = Add (lowest, half) is_above = Greater (bin, lower)
    upper = Div (high, width) is_below = LessOrEqual (bin, upper) is_heard = And (is_above, is_below)
    heard = Cast <to = 11> (is_heard) kept = Unsqueeze (heard, last) wide = Mul (slope, kept)
    filters = Cast <to = 1> (wide) amplitude = Sqrt (x) energies = MatMul (amplitude, filters)
    audible = Max (energies, least) logs = Log (audible) y = MatMul (logs, cosines) }"""
"""[..., frequency] to [..., coefficient]. Filters are triangles on the mel scale, from centre to centre."""
CORNER = 700.0
"""Hertz: the mel scale is the logarithm of 1 + frequency / CORNER."""
COUNTS = {"zero": 0, "one": 1, "first": [0], "last": [-1]}
MOST = 1 << 16


def spectrogram(label: str, window: int, stride: int, is_squared: bool) -> onnx.FunctionProto:
    """Of [channel, sample]: the power, or the amplitude, of each frequency in each window of samples."""
    if not (0 < window <= MOST and 0 < stride <= MOST):
        raise ModelError(f"{label}: windows of {window} samples by {stride}; both are from 1 to {MOST}")
    length = 1 << (window - 1).bit_length()
    turns = np.arange(window) / window
    hann = (0.5 - 0.5 * np.cos(2 * np.pi * turns)).astype(np.float32)
    text = SPECTROGRAM.replace("MEASURE", "Identity" if is_squared else "Sqrt")
    numbers = {"window": window, "stride": stride, "length": max(length, 2), "hann": hann}
    return _function("AudioSpectrogram", text, numbers)


def coefficients(
    label: str, rate: float, low: float, high: float, filters: int, count: int
) -> onnx.FunctionProto:
    """Of the power of each frequency: the first cosines of how loud it is to `filters` of the ear."""
    if not (0 <= low < high <= rate / 2 < math.inf):
        raise ModelError(f"{label}: frequencies from {low:g} to {high:g} of samples at {rate:g} Hz")
    if not 0 < count <= filters <= MOST:
        raise ModelError(f"{label}: {count} coefficients of {filters} filters; at most as many can be told")
    bottom, top = (math.log1p(f / CORNER) for f in (low, high))
    spacing = (top - bottom) / (filters + 1)
    angles = np.pi / filters * (np.arange(filters)[:, None] + 0.5) * np.arange(count)
    reals = {"nyquist": rate / 2, "corner": CORNER, "unit": 1.0, "none": 0.0, "half": 0.5}
    reals |= {"low": low, "high": high, "spacing": spacing}
    arrays = {
        "centres": bottom / spacing + 1 + np.arange(filters),
        "cosines": (math.sqrt(2 / filters) * np.cos(angles)).astype(np.float32),
        "least": np.float32(1e-12),
    }
    return _function("Mfcc", COEFFICIENTS, {**reals, **arrays})


def _function(name: str, text: str, numbers: Mapping[str, object]) -> onnx.FunctionProto:
    """A function with its constants before the nodes of the text."""
    function = onnx.parser.parse_function(f'<domain: "", opset_import: ["" : {OPSET}]> {name} {text}')
    nodes = list(function.node)
    del function.node[:]
    for constant, value in {**COUNTS, **numbers}.items():
        tensor = onnx.numpy_helper.from_array(np.asarray(value))
        function.node.append(onnx.helper.make_node("Constant", [], [constant], value=tensor))
    function.node.extend(nodes)
    return function
