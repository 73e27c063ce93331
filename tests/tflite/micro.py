"""Small models of what TFLite Micro alone has, each with the inputs of several runs in a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from tests.tflite.cases import NUMPY, Draw, integer_lstm
from tests.tflite.writer import Array, Op, T, model

FLOAT, SHORT, INT = "FLOAT32", "INT16", "INT32"
TYPES = {SHORT: 7, INT: 2, FLOAT: 0}
"""TFLite's numbers, as the options have them."""
Case = tuple[str, bytes, list[Array]]
RUNS = 6


def one(
    kind: str, tensors: list[T], made: list[T], options: dict[str, Any] | None = None, outputs: int = 9
) -> bytes:
    """A model of one operator, whose tensors without elements are its inputs."""
    custom = b"" if options is None else bytes(flexbuffers.Dumps(options))
    ins, outs = list(range(len(tensors))), list(range(len(tensors), len(tensors) + len(made)))
    inputs = [i for i, t in enumerate(tensors) if t.data is None]
    return model([*tensors, *made], [Op(f"Signal{kind}", ins, outs, custom=custom)], inputs, outs[:outputs])


def samples(name: str, shape: tuple[int, ...], largest: int = 32767, runs: int = RUNS) -> list[Array]:
    """Runs of int16, of all sizes up to the largest; the last one is full of the limits."""
    random = Draw(name).random
    sizes = [max(int(largest * 0.5 ** (2 * i)), 1) for i in range(runs - 1)]
    made = [random.integers(-n, n + 1, shape).astype(np.int16) for n in sizes]
    return [*made, random.choice(np.array([-32768, 32767, 0, -1], np.int16), shape)]


def transforms() -> Iterator[Case]:
    for n in (4, 6, 8, 10, 12, 16, 30, 32, 60, 128, 250, 512):
        short = n - n // 4
        options = {"T": TYPES[SHORT], "fft_length": n}
        data = one("Rfft", [T(SHORT, (2, short))], [T(SHORT, (2, n + 2))], options)
        yield f"rfft {n}", data, samples(f"rfft {n}", (2, short))
        data = one("Irfft", [T(SHORT, (2, n + 2))], [T(SHORT, (2, n))], options)
        yield f"irfft {n}", data, samples(f"irfft {n}", (2, n + 2))
    for n in (30, 60, 128):
        random, options = Draw(f"wide {n}").random, {"T": TYPES[INT], "fft_length": n}
        wide = [random.integers(-m, m, (n + 2)).astype(np.int32) for m in (1 << 31, 1 << 24, 100)]
        data = one("Rfft", [T(INT, (n,))], [T(INT, (n + 2,))], options)
        yield f"rfft int32 {n}", data, [x[:n] for x in wide]
        yield f"irfft int32 {n}", one("Irfft", [T(INT, (n + 2,))], [T(INT, (n,))], options), wide
    options = {"T": TYPES[FLOAT], "fft_length": 64}
    x = Draw("float").random.standard_normal((2, 66)).astype(np.float32)
    data = one("Rfft", [T(FLOAT, (2, 50))], [T(FLOAT, (2, 66))], options)
    yield "rfft float", data, [x[:, :50].copy()]
    yield "irfft float", one("Irfft", [T(FLOAT, (2, 66))], [T(FLOAT, (2, 64))], options), [x]


def streams() -> Iterator[Case]:
    for length in (0, 3, 7, 20):
        data = one("Delay", [T(SHORT, (2, 7))], [T(SHORT, (2, 7))], {"delay_length": length})
        yield f"delay {length}", data, samples(f"delay {length}", (2, 7))
    framings = (
        (8, 4, 1, 4),
        (8, 4, 0, 4),
        (10, 4, 0, 4),
        (10, 4, 1, 8),
        (10, 4, 0, 12),
        (3, 4, 0, 8),
        (4, 4, 0, 4),
    )
    for size, step, prefill, count in framings:
        name = f"framer {size} {step} {prefill} {count}"
        options = {"frame_size": size, "frame_step": step, "prefill": bool(prefill)}
        made = [T(SHORT, (2, count // step, size)), T("BOOL", ())]
        yield name, one("Framer", [T(SHORT, (2, count))], made, options), samples(name, (2, count))
    for frames, size, step in ((1, 8, 4), (1, 10, 3), (3, 10, 3), (2, 6, 6)):
        name = f"overlap {frames} {size} {step}"
        options = {"T": TYPES[SHORT], "frame_step": step}
        given, made = T(SHORT, (2, frames, size)), T(SHORT, (2, frames * step))
        yield name, one("OverlapAdd", [given], [made], options), samples(name, (2, frames, size))
        options = {"T": TYPES[FLOAT], "frame_step": step}
        given, made = T(FLOAT, (frames, size)), T(FLOAT, (frames * step,))
        random = Draw(name).random
        runs = [random.standard_normal((frames, size)).astype(np.float32) for _ in range(RUNS)]
        yield f"{name} float", one("OverlapAdd", [given], [made], options), runs
    for left, right, step in ((1, 1, 1), (2, 0, 3), (0, 2, 2), (3, 1, 2), (0, 0, 1)):
        name, frames = f"stacker {left} {right} {step}", left + right + 1
        options = {
            "num_channels": 5,
            "stacker_left_context": left,
            "stacker_right_context": right,
            "stacker_step": step,
        }
        made = [T(SHORT, (5 * frames,)), T("BOOL", ())]
        yield name, one("Stacker", [T(SHORT, (5,))], made, options), samples(name, (5,))


def points() -> Iterator[Case]:
    weights = T(SHORT, (8,), data=Draw("window").random.integers(-4096, 4097, 8).astype(np.int16))
    for shift in (3, 12):
        data = one("Window", [T(SHORT, (3, 8)), weights], [T(SHORT, (3, 8))], {"shift": shift})
        yield f"window {shift}", data, samples("window", (3, 8))
    data = one("FftAutoScale", [T(SHORT, (9,))], [T(SHORT, (9,)), T(INT, ())])
    yield "auto scale", data, [*samples("scale", (9,), runs=12), np.zeros(9, np.int16)]


def pipeline(clamping: bool, correction: int, bands: int = 6, bins: int = 20) -> bytes:
    """Energies, bands, roots, less noise, gain and logarithms: their types have no other way in."""
    random = Draw(f"pipeline {clamping}").random
    widths = random.integers(0, 4, bands + 1).astype(np.int16)
    starts = (np.cumsum(widths) - widths).astype(np.int16)
    places = (starts + 1).astype(np.int16)  # nothing writes the first energy
    total = int(widths.sum())
    slopes = random.integers(0, 4097, total).astype(np.int16)
    gains = random.integers(-2000, 32767, 125).astype(np.int16)
    constants = [slopes, (4096 - slopes).astype(np.int16), places, starts, widths, gains]
    given = [T(SHORT, (2 * bins,)), T(INT, (), data=np.int32(correction))]
    given += [T(SHORT, a.shape, data=a) for a in constants]
    vector = [T(k, (bands,)) for k in ("UINT64", "UINT32", "UINT32", "UINT32", "UINT32", SHORT, INT, INT)]
    options: list[tuple[str, list[int], list[int], dict[str, Any]]] = [
        ("Energy", [0], [8], {"start_index": 1, "end_index": bins}),
        ("FilterBank", [8, 2, 3, 4, 5, 6], [9], {"num_channels": bands}),
        ("FilterBankSquareRoot", [9, 1], [10], {}),
        (
            "FilterBankSpectralSubtraction",
            [10],
            [11, 12],
            {**NOISE, "num_channels": bands, "clamping": clamping},
        ),
        ("PCAN", [11, 12, 7], [13], {"snr_shift": 6}),
        ("FilterBankLog", [13], [14], {"input_correction_bits": 3, "output_scale": 1600}),
    ]
    ops = [Op(f"Signal{k}", i, o, custom=bytes(flexbuffers.Dumps(d))) for k, i, o, d in options]
    ops += [Op("CAST", [i], [o], "CastOptions") for i, o in ((10, 15), (13, 16))]
    return model([*given, T("UINT32", (bins,)), *vector], ops, [0], [14, 15, 16])


NOISE = {
    "alternate_one_minus_smoothing": 15401,
    "alternate_smoothing": 983,
    "min_signal_remaining": 819,
    "one_minus_smoothing": 15975,
    "smoothing": 409,
    "smoothing_bits": 10,
    "spectral_subtraction_bits": 14,
}


def spectra() -> Iterator[Case]:
    for clamping, correction in ((False, 0), (True, 3)):
        name = f"pipeline {correction}"
        yield name, pipeline(clamping, correction), samples(name, (40,), runs=9)


def recurrent() -> Iterator[Case]:
    for kind in ("INT8", "INT16"):
        info = np.iinfo(NUMPY[kind])
        for clip in (0.0, 0.5):
            name = f"lstm {kind} {clip}"
            d = Draw(name)
            runs = [d.random.integers(info.min, info.max + 1, (2, 4, 3)).astype(info.dtype) for _ in range(3)]
            yield name, integer_lstm(d, kind, clip), runs
    for kind, outputs in (("INT8", 300), ("INT16", 40)):
        name, info = f"lstm {kind} and a dense layer", np.iinfo(NUMPY[kind])
        d = Draw(name)
        runs = [d.random.integers(info.min, info.max + 1, (2, 4, 3)).astype(info.dtype) for _ in range(3)]
        yield name, integer_lstm(d, kind, dense=outputs), runs


def cases() -> dict[str, tuple[bytes, list[Array]]]:
    """Every model by its name, with the inputs of its runs."""
    found = (transforms(), streams(), points(), spectra(), recurrent())
    return {name: (data, runs) for family in found for name, data, runs in family}
