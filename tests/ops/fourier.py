"""Rows of DFT and STFT. Results that cancel are held against numpy's, in float64."""

from collections.abc import Iterator

import numpy as np

from tests.ops.rows import Array, Row, floats


def number(n: int) -> Array:
    return np.array(n, np.int64)


def spectrum(x: Array, n: int, axis: int) -> Array:
    """The transform in float64, as pairs."""
    z = np.fft.fft(x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0), n, axis)
    return np.stack([z.real, z.imag], -1).astype(x.dtype)


def lengths() -> Iterator[Row]:
    """Powers of 2, radices written out and not and both in one, a prime beyond the largest radix."""
    for n in (1, 8, 30, 42, 49, 66, 67):
        x = floats(2, n, 2, seed=n)
        yield Row("DFT", [x], opset=20, oracle=[spectrum(x, n, 1)], tolerance=1e-6)
    x = floats(3, 360, 1, dtype=np.float64)
    yield Row("DFT", [x], opset=20, oracle=[spectrum(x, 360, 1)], tolerance=1e-14)
    x = floats(1, 101, 2, dtype=np.float64)
    yield Row("DFT", [x], opset=20, oracle=[spectrum(x, 101, 1)], tolerance=1e-14)


X = floats(2, 6, 5, 1)
Z = floats(2, 6, 5, 2)
HALF = floats(1, 6, 3, 2)


def real(x: Array, n: int, axis: int) -> Array:
    return np.fft.irfft(x[..., 0] + 1j * x[..., 1].astype(np.float64), n, axis)[..., None].astype(x.dtype)


SIGNAL = floats(2, 40, 1)
WINDOW = np.abs(floats(8))

ROWS = [
    *lengths(),
    Row("DFT", [X, None, number(1)], constant=[2], opset=20),
    Row("DFT", [X, None, number(1)], {"onesided": 1}, constant=[2], opset=20),
    Row("DFT", [Z, number(4), number(-3)], constant=[1, 2], opset=20, note="cut"),
    Row("DFT", [Z, number(9), number(1)], {"inverse": 1}, constant=[1, 2], opset=20, note="filled"),
    Row("DFT", [Z], {"axis": 2, "inverse": 1}, opset=17),
    Row("DFT", [X, number(8)], {"axis": 1}, constant=[1], opset=17),
    Row("DFT", [X, number(7)], {"axis": 2, "onesided": 1}, constant=[1], opset=19),
    Row(
        "DFT",
        [HALF, None, number(1)],
        {"inverse": 1, "onesided": 1},
        constant=[2],
        opset=20,
        oracle=[real(HALF, 10, 1)],
    ),
    Row(
        "DFT",
        [HALF, number(9), number(1)],
        {"inverse": 1, "onesided": 1},
        constant=[1, 2],
        opset=20,
        oracle=[real(HALF, 9, 1)],
    ),
    Row(
        "DFT",
        [X, None, number(1)],
        declared=[(2, 6, 5, 2)],
        opset=20,
        oracle=[spectrum(X, 6, 1)],
        note="runtime_axis",
    ),
    Row(
        "DFT",
        [X, number(7), number(-2)],
        {"onesided": 1},
        declared=[(2, 6, 4, 2)],
        opset=20,
        oracle=[spectrum(X, 7, 2)[:, :, :4]],
        note="runtime",
    ),
    Row("DFT", [floats(0, 4, 1)], opset=20, oracle=[np.zeros((0, 4, 2), np.float32)]),
    Row(
        "DFT",
        [floats(2, 8, 1, dtype=np.float16)],
        opset=20,
        oracle=[spectrum(floats(2, 8, 1, dtype=np.float16), 8, 1)],
        tolerance=1e-3,
    ),
    Row("STFT", [SIGNAL, number(4), WINDOW], {"onesided": 1}, constant=[1], opset=17),
    Row("STFT", [SIGNAL, number(3), None, number(9)], {"onesided": 1}, constant=[1, 3], opset=17),
    Row("STFT", [SIGNAL, number(5), WINDOW, number(8)], {"onesided": 0}, constant=[1, 3], opset=17),
    Row("STFT", [SIGNAL, number(8), WINDOW], declared=[(2, 5, 5, 2)], opset=17, note="runtime"),
    Row("STFT", [SIGNAL, number(8), None, number(9)], declared=[(2, 4, 5, 2)], opset=17, note="runtime"),
    Row(
        "STFT",
        [floats(1, 20, 2), number(6), None, number(7)],
        {"onesided": 0},
        constant=[1, 3],
        opset=17,
        note="complex",
    ),
]
