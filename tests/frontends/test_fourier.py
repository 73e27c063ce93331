"""Fourier transforms of TensorFlow and TFLite beside numpy's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.errors import InputError
from tests.tensorflow.graphs import FLOAT, Graph, floats, imported
from tests.tflite.test_boxes import run as run_lite
from tests.tflite.writer import Array, Op, T, model

LENGTHS = [(24, 24), (20, 32), (40, 32), (15, 15), (9, 8), (6, 1), (7, 2)]
"""Elements that there are, and those that are transformed."""


def computed(g: Graph, folder: Path, **inputs: Array) -> Array:
    """What the bundle gives: onnxruntime's own transforms lose more digits than the test allows."""
    (found,) = ingot.compile(imported(g, folder), target="c99").run(inputs).values()
    return found


def transform(n: int, length: int) -> Graph:
    g = Graph()
    g.input("x", 3, 2, n)
    g.const("n", np.int32([length]))
    g.node("f", "RFFT", "x", "n", Treal=FLOAT)
    return g


def parts(x: Array, length: int) -> list[Array]:
    f = np.fft.rfft(x, length)
    return [np.abs(f), f.real, f.imag, np.angle(f)]


@pytest.mark.parametrize(("n", "length"), LENGTHS)
def test_parts_of_a_transform(n: int, length: int, tmp_path: Path) -> None:
    x = floats(3, 2, n)
    for kind, wanted in zip(("ComplexAbs", "Real", "Imag"), parts(x, length), strict=False):
        g = transform(n, length)
        g.node("y", kind, "f", Tout=FLOAT)
        np.testing.assert_allclose(computed(g, tmp_path, x=x), wanted, atol=2e-5)


def test_angles(tmp_path: Path) -> None:
    g = transform(21, 21)
    g.node("y", "Angle", "f", Tout=FLOAT)
    x = floats(3, 2, 21)
    found = computed(g, tmp_path, x=x)[..., 1:]
    np.testing.assert_allclose(found, parts(x, 21)[3][..., 1:], atol=1e-4)


@pytest.mark.parametrize("length", [24, 15, 30, 8, 2, 1])
def test_the_way_back(length: int, tmp_path: Path) -> None:
    """Numpy, too, ignores what is imaginary of the ends, and cuts or fills up the rest."""
    g = Graph()
    for name in ("p", "q"):
        g.input(name, 3, 13)
    g.const("n", np.int32([length]))
    g.node("f", "Complex", "p", "q", T=FLOAT)
    g.node("c", "Conj", "f")
    g.node("y", "IRFFT", "c", "n", Treal=FLOAT)
    p, q = floats(3, 13), floats(3, 13)[::-1].copy()
    found = computed(g, tmp_path, p=p, q=q)
    np.testing.assert_allclose(found, np.fft.irfft(p - 1j * q, length), atol=1e-5)


def test_complex_numbers_are_no_operands(tmp_path: Path) -> None:
    g = transform(8, 8)
    g.node("s", "Sqrt", "f")
    g.node("y", "Real", "s", Tout=FLOAT)
    with pytest.raises(InputError, match="Sqrt node 's' reads complex numbers"):
        imported(g, tmp_path)


def spectrum(lengths: list[int], rows: int = 1) -> bytes:
    """What the converter makes of the magnitudes of a short-time transform."""
    bins = lengths[1] // 2 + 1
    tensors = [
        T("FLOAT32", (5, rows, 40)),
        T("INT32", (2,), data=np.int32(lengths)),
        T("COMPLEX64", (5, rows, bins)),
        T("INT32", (2,), data=np.int32([5, bins])),
        T("COMPLEX64", (5, bins)),
        *(T("FLOAT32", (5, bins)) for _ in range(3)),
    ]
    reads = [Op(kind, [4], [5 + i]) for i, kind in enumerate(("COMPLEX_ABS", "REAL", "IMAG"))]
    made = [Op("RFFT2D", [0, 1], [2]), Op("RESHAPE", [2, 3], [4], "ReshapeOptions"), *reads]
    return model(tensors, made, [0], [5, 6, 7])


@pytest.mark.parametrize("length", [40, 64, 32])
def test_spectra_of_tflite(length: int, tmp_path: Path) -> None:
    x = floats(5, 1, 40)
    found = run_lite(tmp_path, spectrum([1, length]), [x])
    for y, wanted in zip(found, parts(x[:, 0], length), strict=False):
        np.testing.assert_allclose(y, wanted, atol=2e-5)


@pytest.mark.parametrize(("lengths", "rows"), [([2, 40], 2), ([1, 0], 1), ([1, 1 << 40], 1)])
def test_transforms_that_are_none(lengths: list[int], rows: int, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    tensors = [
        T("FLOAT32", (5, rows, 40)),
        T("INT64", (2,), data=np.int64(lengths)),
        T("FLOAT32", (5, 1, 21)),
    ]
    path.write_bytes(
        model(
            [*tensors, T("FLOAT32", (5, 1, 21))], [Op("RFFT2D", [0, 1], [2]), Op("REAL", [2], [3])], [0], [3]
        )
    )
    with pytest.raises(InputError, match="RFFT2D"):
        ingot.compile(path, target="c99")
