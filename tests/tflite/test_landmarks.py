"""MediaPipe's operators beside loops that follow their definition: its own interpreter agrees on networks
(docs/tflite.md).
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import pytest
from flatbuffers import flexbuffers

import ingot
from ingot.errors import InputError
from tests.tflite.test_boxes import run
from tests.tflite.writer import Array, Op, T, model

RANDOM = np.random.default_rng(18).standard_normal
SUBSET = (4, 0, 3, 5, 1, 3)
POINTS = RANDOM((1, 6, 3)).astype(np.float32) * 9
MATRICES = {
    "turned": [[0.8, -0.5, 0, 1.7], [0.6, 0.7, 0, -0.4]],
    "corner to corner": [[1, 0, 0, 0], [0, 1, 0, 0]],
    "far away": [[1, 0, 0, 90], [0, 1, 0, 0]],
}


def options(subset: tuple[int, ...] = SUBSET, **changed: float) -> bytes:
    numbers = {"left_rotation_idx": 1, "right_rotation_idx": 4, "target_rotation_radians": 0.3}
    numbers |= {"output_height": 5, "output_width": 3, "scale_x": 1.5, "scale_y": 1.25} | changed
    b = flexbuffers.Builder()
    with b.Map():
        for name, value in numbers.items():
            b.Key(name)
            b.Add(value)
        b.Key("subset_idxs")
        b.TypedVectorFromElements(subset)
    return bytes(b.Finish())


def one(kind: str, given: list[T], out: tuple[int, ...], custom: bytes) -> bytes:
    """A model of one operator, all of whose inputs that are not constants are the model's."""
    n = len(given)
    ins = [i for i, t in enumerate(given) if t.data is None]
    return model([*given, T("FLOAT32", out)], [Op(kind, range(n), [n], custom=custom)], ins, [n])


def transposed(
    size: tuple[int, int], taps: tuple[int, int], how: tuple[int, int, int]
) -> tuple[bytes, Array]:
    """Convolution2DTransposeBias, and what it gives for `image(size)`."""
    w, bias, x = RANDOM((3, *taps, 2)).astype(np.float32), RANDOM(3).astype(np.float32), image(size)
    padding, across, down = how
    steps = (down, across)
    cut = [
        max(0, k - (n - 1) % s - 1) if padding == 1 else 0 for k, n, s in zip(taps, size, steps, strict=True)
    ]
    whole = np.zeros((*(s * (n - 1) + k for s, n, k in zip(steps, size, taps, strict=True)), 3)) + bias
    for i, j in np.ndindex(*size):
        at = slice(i * down, i * down + taps[0]), slice(j * across, j * across + taps[1])
        whole[at] += np.einsum("c,ohwc->hwo", x[0, i, j], w)
    ends = [n - (c - c // 2) for n, c in zip(whole.shape, cut, strict=False)]
    wanted = whole[cut[0] // 2 : ends[0], cut[1] // 2 : ends[1]][None]
    given = [T("FLOAT32", x.shape), T("FLOAT32", w.shape, data=w), T("FLOAT32", (3,), data=bias)]
    return one("Convolution2DTransposeBias", given, wanted.shape, struct.pack("<3i", *how)), wanted


def image(size: tuple[int, int]) -> Array:
    return np.random.default_rng(sum(size)).standard_normal((1, *size, 2)).astype(np.float32)


@pytest.mark.parametrize(
    ("size", "taps", "how"),
    [
        ((4, 5), (2, 2), (1, 2, 2)),
        ((3, 4), (3, 4), (1, 2, 1)),
        ((3, 4), (3, 3), (2, 2, 3)),
        ((4, 3), (5, 4), (1, 3, 2)),
    ],
)
def test_transposed_convolutions(
    size: tuple[int, int], taps: tuple[int, int], how: tuple[int, int, int], tmp_path: Path
) -> None:
    data, wanted = transposed(size, taps, how)
    np.testing.assert_allclose(run(tmp_path, data, [image(size)])[0], wanted, atol=1e-5)


def cut_out(x: Array, matrix: Array, rows: int, columns: int) -> Array:
    """What lies between the pixels, one place of the part after the other."""
    made = np.zeros((1, rows, columns, x.shape[3]))
    for i, j in np.ndindex(rows, columns):
        across, down = matrix[0, :2, :2] @ [j + 0.5, i + 0.5] + matrix[0, :2, 3] - 0.5
        if not (0 <= across <= x.shape[2] - 1 and 0 <= down <= x.shape[1] - 1):
            continue
        for p, q in np.ndindex(2, 2):
            u, v = math.floor(down) + p, math.floor(across) + q
            weight = (1 - abs(down - u)) * (1 - abs(across - v))
            made[0, i, j] += weight * x[0, min(u, x.shape[1] - 1), min(v, x.shape[2] - 1)]
    return made


@pytest.mark.parametrize("name", MATRICES)
def test_parts_of_an_image(name: str, tmp_path: Path) -> None:
    x, matrix = image((5, 6)), np.eye(4, dtype=np.float32)[None].copy()
    matrix[0, :2] = MATRICES[name]
    custom = bytes(flexbuffers.Dumps({"output_height": 4, "output_width": 7}))
    data = one(
        "TransformTensorBilinear", [T("FLOAT32", x.shape), T("FLOAT32", (1, 4, 4))], (1, 4, 7, 2), custom
    )
    (found,) = run(tmp_path, data, [x, matrix])
    wanted = cut_out(x, matrix, 4, 7)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert np.any(wanted) == (name != "far away")


@pytest.mark.parametrize("width", [2, 3])
def test_moved_landmarks(width: int, tmp_path: Path) -> None:
    matrix = RANDOM((1, 4, 4)).astype(np.float32)
    points = POINTS[..., :width]
    data = one("TransformLandmarks", [T("FLOAT32", points.shape), T("FLOAT32", (1, 4, 4))], points.shape, b"")
    (found,) = run(tmp_path, data, [points, matrix])
    wanted = points.copy()
    wanted[0, :, :2] = points[0, :, :2] @ matrix[0, :2, :2].T + matrix[0, :2, 3]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def matrix_of(points: Array) -> Array:
    """By matrices one after the other: shift to the centre, turn back, scale, shift to the part's middle."""
    left, right = points[0, 1], points[0, 4]
    angle = 0.3 - math.atan2(right[1] - left[1], right[0] - left[0])
    turned = points[0, list(SUBSET), :2] @ turn(angle)[:2, :2].T
    low, high = turned.min(0), turned.max(0)
    middle = turn(-angle)[:2, :2] @ ((low + high) / 2)
    scale = np.diag([1.5 * (high - low)[0] / 3, 1.25 * (high - low)[1] / 5, 1, 1])
    return shift(*middle) @ turn(-angle) @ scale @ shift(-1.5, -2.5)


def turn(angle: float) -> Array:
    made = np.eye(4)
    made[:2, :2] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    return made


def shift(x: float, y: float) -> Array:
    made = np.eye(4)
    made[:2, 3] = x, y
    return made


def to_matrix(custom: bytes) -> bytes:
    return one("Landmarks2TransformMatrix", [T("FLOAT32", POINTS.shape)], (1, 4, 4), custom)


def test_the_matrix_of_landmarks(tmp_path: Path) -> None:
    (found,) = run(tmp_path, to_matrix(options()), [POINTS])
    np.testing.assert_allclose(found, matrix_of(POINTS)[None], atol=1e-4)


@pytest.mark.parametrize(
    ("custom", "said"),
    [
        (options(subset=(0, 6)), "landmarks"),
        (options(left_rotation_idx=6), "landmark 6 of 6"),
        (options(output_width=0), "output_width is 0"),
        (bytes(flexbuffers.Dumps({"left_rotation_idx": 1})), "lack"),
        (b"\0\1\2", "damaged"),
        (options().replace(bytes((len(SUBSET), *SUBSET)), bytes((255, *SUBSET))), "damaged"),
    ],
)
def test_options_that_fit_no_landmarks(custom: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(to_matrix(custom))
    with pytest.raises(InputError, match=said):
        ingot.compile(path, target="c99")


@pytest.mark.parametrize("custom", [b"", struct.pack("<3i", 3, 2, 2), struct.pack("<3i", 1, 0, 2)])
def test_strides_that_are_none(custom: bytes, tmp_path: Path) -> None:
    x, w, bias = T("FLOAT32", (1, 3, 3, 2)), RANDOM((1, 2, 2, 2)), RANDOM(1)
    given = [x, *(T("FLOAT32", a.shape, data=a.astype(np.float32)) for a in (w, bias))]
    path = tmp_path / "m.tflite"
    path.write_bytes(one("Convolution2DTransposeBias", given, (1, 6, 6, 1), custom))
    with pytest.raises(InputError, match="Convolution2DTransposeBias"):
        ingot.compile(path, target="c99")
