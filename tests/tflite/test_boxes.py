"""Boxes that TFLite chooses, as litert 2.3 chooses them (`boxes.py` asks it), and damaged custom options."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.errors import InputError
from ingot.frontends.tflite.flexbuffer import numbers_of
from tests.tflite.boxes import BY_CLASS, CASES, ENCODED, OPTIONS, detection
from tests.tflite.writer import Array

FIRST = [-0.02091831, 0.02990064, 1.04091835, 1.01009929]
FAR = [0.96989936, 2.75994968, 1.99010062, 3.27005053]
WIDE = [0.15, 1.46835637, 0.65, 2.55164361]
NEAR = [0.0295946, 0.05000001, 1.07040548, 1.04999995]
EVERY = ([FIRST, FAR, NEAR, WIDE, WIDE], [0, 2, 1, 1, 2], [0.9, 0.8, 0.7, 0.6, 0.5])
"""Boxes, classes and scores."""
CHOSEN = {
    "by class": (10, 5, EVERY),
    "by class at the limit": (10, 5, EVERY),
    "by class, few": (4, 2, ([FIRST, FAR], [0, 2], [0.9, 0.8])),
    "by box": (
        10,
        3,
        ([FIRST, FIRST, FAR, FAR, WIDE, WIDE], [0, 2, 2, 1, 1, 2], [0.9, 0.4, 0.8, 0.2, 0.6, 0.5]),
    ),
}
"""How many rows there are, how many were found, and what."""


def run(tmp_path: Path, data: bytes, given: list[Array]) -> list[Array]:
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    bundle = ingot.compile(path, target="c99")
    names = [t["name"] for t in bundle.manifest["inputs"]]
    return list(bundle.run(dict(zip(names, given, strict=True))).values())


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("V4", [[3, 0, 0, 0, 0], 2]),
        ("V4 at the limit", [[3, 0, 0, 0, 0], 1]),
        ("V5", [[3, 0], [np.float32(0.95), np.float32(0.9)], 2]),
    ],
)
def test_suppression(name: str, wanted: list[object], tmp_path: Path) -> None:
    found = run(tmp_path, *CASES[name])
    assert [a.tolist() for a in found] == wanted
    assert [a.dtype for a in (found[0], found[-1])] == [np.int32] * 2


@pytest.mark.parametrize("name", CHOSEN)
def test_detection(name: str, tmp_path: Path) -> None:
    rows, count, wanted = CHOSEN[name]
    *found, number = run(tmp_path, *CASES[name])
    assert number.tolist() == [count]
    assert [a.shape for a in found] == [(1, rows, 4), (1, rows), (1, rows)]
    for a, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a[0, : len(w)], w, rtol=1e-6, atol=1e-6)
        assert not a[0, len(w) :].any()


def test_damaged_options_are_one_error(tmp_path: Path) -> None:
    """Every byte of the options changed, and every beginning of them."""
    from flatbuffers import flexbuffers

    whole = bytes(flexbuffers.Dumps(OPTIONS))
    assert numbers_of(whole, "x") == pytest.approx(OPTIONS)
    damaged = [whole[:n] for n in range(len(whole))]
    damaged += [whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :] for i in range(len(whole))]
    for data in damaged:
        try:
            numbers_of(data, "x")
        except InputError as error:
            assert str(error) == "x: its custom options are damaged"
    with pytest.raises(InputError, match=r"num_classes is 7, there are scores for 4"):
        run(tmp_path, detection(True, num_classes=7), [ENCODED, BY_CLASS])
