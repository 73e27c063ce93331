"""Spectrograms and cepstral coefficients of Glow, TensorFlow and TensorFlow Lite, against their definition.

The definition is written as sums over bands here, the importers' as one product with a matrix of filters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from flatbuffers import flexbuffers

import ingot
from ingot.errors import InputError
from tests.tensorflow.graphs import Graph, imported
from tests.tflite.writer import Op, T, model

Array = np.ndarray[Any, Any]
WINDOW, STRIDE, RATE, LOW, HIGH, FILTERS, COUNT = 200, 90, 8000, 30.0, 3500.0, 12, 7
SOUND = np.random.default_rng(3).standard_normal((2, 500)).astype(np.float32)


def spectrum(samples: Array) -> Array:
    """The power of each frequency of 256 samples, in windows that fade in and out."""
    fade = np.sin(np.pi * np.arange(WINDOW) / WINDOW) ** 2
    rows = [samples[i : i + WINDOW] * fade for i in range(0, len(samples) - WINDOW + 1, STRIDE)]
    return np.abs(np.fft.rfft(rows, 256)) ** 2


def heard(power: Array) -> Array:
    """Each band between the centres of two filters fades from the lower one to the upper one."""

    def mel(hertz: float) -> float:
        return 1127.0 * np.log1p(hertz / 700.0)

    bins = power.shape[-1]
    step = (mel(HIGH) - mel(LOW)) / (FILTERS + 1)
    centres = [mel(LOW) + step * (i + 1) for i in range(FILTERS + 1)]
    energies = np.zeros((*power.shape[:-1], FILTERS))
    width = 0.5 * RATE / (bins - 1)
    for i in range(int(1.5 + LOW / width), int(HIGH / width) + 1):
        band = next(k for k, centre in enumerate(centres) if centre >= mel(i * width)) - 1
        below = centres[band] if band >= 0 else mel(LOW)
        rest = (centres[band + 1] - mel(i * width)) / (centres[band + 1] - below)
        amplitude = np.sqrt(power[..., i])
        if band >= 0:
            energies[..., band] += rest * amplitude
        if band + 1 < FILTERS:
            energies[..., band + 1] += (1 - rest) * amplitude
    logs = np.log(np.maximum(energies, 1e-12))
    waves = [[np.cos(np.pi / FILTERS * k * (j + 0.5)) for k in range(COUNT)] for j in range(FILTERS)]
    return np.sqrt(2 / FILTERS) * logs @ np.array(waves)


WANTED = np.stack([heard(spectrum(channel)) for channel in SOUND])
OPTIONS = {
    "lower_frequency_limit": LOW,
    "upper_frequency_limit": HIGH,
    "filterbank_channel_count": FILTERS,
    "dct_coefficient_count": COUNT,
}


def glow(attributes: str = f"window_size = {WINDOW}, stride = {STRIDE}", low: float = LOW) -> Any:
    limits = f"sample_rate = {RATE}.0, lower_frequency_limit = {low}, upper_frequency_limit = {HIGH}"
    counts = f"filterbank_channel_count = {FILTERS}, dct_coefficient_count = {COUNT}"
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 10]> g (float[1,500] x) => (float[4,{COUNT}] y) '
        f"{{ s = AudioSpectrogram <{attributes}> (x) y = MFCC <{limits}, {counts}> (s) }}"
    )


def tensorflow(folder: Path, **more: Any) -> Any:
    graph = Graph()
    graph.input("x", 500, 2)
    graph.const("rate", np.int32(RATE))
    options = {"window_size": WINDOW, "stride": STRIDE, "magnitude_squared": True}
    graph.node("s", "AudioSpectrogram", "x", **options)
    graph.node("y", "Mfcc", "s", "rate", **{**OPTIONS, **more})
    return imported(graph, folder)


def test_glow() -> None:
    found = ingot.compile(glow(), target="c99").run({"x": SOUND[:1]})["y"]
    np.testing.assert_allclose(found, WANTED[0], rtol=1e-5, atol=1e-5)


def test_tensorflow(tmp_path: Path) -> None:
    found = ingot.compile(tensorflow(tmp_path), target="c99").run({"x": SOUND.T.copy()})["y"]
    np.testing.assert_allclose(found, WANTED, rtol=1e-5, atol=1e-5)


def test_tensorflow_lite(tmp_path: Path) -> None:
    """The amplitude, not the power, of which the filters take the root again."""
    first = {"window_size": WINDOW, "stride": STRIDE, "magnitude_squared": False}
    tensors = [
        *(T("FLOAT32", (500, 2)), T("FLOAT32", (2, 4, 129)), T("INT32", (), data=np.int32(RATE))),
        T("FLOAT32", (2, 4, COUNT)),
    ]
    ops = [
        Op("AudioSpectrogram", [0], [1], custom=bytes(flexbuffers.Dumps(first))),
        Op("Mfcc", [1, 2], [3], custom=bytes(flexbuffers.Dumps(OPTIONS))),
    ]
    path = tmp_path / "sound.tflite"
    path.write_bytes(model(tensors, ops, [0], [3]))
    found = next(iter(ingot.compile(path, target="c99").run({"t0": SOUND.T.copy()}).values()))
    wanted = np.stack([heard(np.sqrt(spectrum(channel))) for channel in SOUND])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda _: glow("stride = 3"), "AudioSpectrogram node 's': the attribute 'window_size' is missing"),
        (lambda _: glow("window_size = 0, stride = 3"), "windows of 0 samples by 3"),
        (lambda _: glow('window_size = 9, stride = 3, form = "power"'), "the attribute 'form' is not read"),
        (lambda _: glow(low=3600.0), "MFCC node 'y': frequencies from 3600 to 3500"),
        (lambda folder: tensorflow(folder, dct_coefficient_count=13), "13 coefficients of 12 filters"),
        (lambda folder: tensorflow(folder, upper_frequency_limit=4001.0), "frequencies from 30 to 4001"),
    ],
)
def test_what_does_not_fit_is_one_error(made: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        ingot.compile(made(tmp_path))
