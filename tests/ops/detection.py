"""Rows of NonMaxSuppression."""

from collections.abc import Iterator

import numpy as np

from tests.ops.rows import Array, Row, floats

CORNERS = np.float32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1]])
BOXES = np.concatenate([CORNERS, [[1, 101, 0, 100]]]).astype(np.float32)[None]
SCORES = np.float32([0.9, 0.75, 0.6, 0.95, 0.5, 0.3]).reshape(1, 1, 6)
MIDDLES = np.float32([[0.5, 0.5, 1, 1], [0.5, 0.6, 1, 1], [0.5, 10.5, 1, 1], [0.5, 10.6, 1, 1]])[None]


def number(n: int) -> Array:
    return np.array([n], np.int64)


def part(x: float) -> Array:
    return np.array([x], np.float32)


def crowd() -> Iterator[Row]:
    """Many random boxes; scores of few values, so that ties are common."""
    start = floats(2, 40, 2, scale=3)
    boxes = np.concatenate([start, start + np.abs(floats(2, 40, 2, seed=1)) * 4], -1).astype(np.float32)
    scores = np.round(np.abs(floats(2, 3, 40, seed=2)), 1).astype(np.float32)
    for most in (0, 3, 100):
        given = [boxes, scores, number(most), part(0.3), part(0.2)]
        yield Row("NonMaxSuppression", given, constant=[2, 3, 4], opset=11)
        yield Row("NonMaxSuppression", given, note="runtime", opset=11)
    centred = {"center_point_box": 1}
    yield Row("NonMaxSuppression", [boxes, scores, number(10), part(0.1)], centred, opset=10)


UNKNOWN = np.float32([[[0.9, np.nan, 0.7, np.nan, np.inf, -np.inf]]])

ROWS = [
    Row("NonMaxSuppression", [BOXES, SCORES, number(3), part(0.5), part(0)], opset=11),
    Row("NonMaxSuppression", [BOXES, SCORES, number(3), part(0.5), part(0.4)], declared=[(2, 3)], opset=11),
    Row("NonMaxSuppression", [BOXES, SCORES, number(9), None, part(0.4)], opset=11),
    Row("NonMaxSuppression", [BOXES, SCORES, number(2)], opset=10),
    Row("NonMaxSuppression", [BOXES, SCORES], opset=10, oracle=[np.zeros((0, 3), np.int64)]),
    Row("NonMaxSuppression", [MIDDLES, SCORES[..., :4], number(3), part(0.5)], {"center_point_box": 1}),
    Row("NonMaxSuppression", [BOXES, SCORES * 0 + 1, number(9), part(0.5)], note="ties"),
    Row("NonMaxSuppression", [BOXES * 0, SCORES, number(9), part(0.5)], note="points"),
    Row(
        "NonMaxSuppression",
        [BOXES, UNKNOWN, number(9), part(1)],
        note="nan",
        oracle=[np.array([[0, 0, 4], [0, 0, 0], [0, 0, 2], [0, 0, 5]])],
    ),
    Row(
        "NonMaxSuppression",
        [floats(1, 0, 4), floats(1, 2, 0), number(3)],
        oracle=[np.zeros((0, 3), np.int64)],
    ),
    *crowd(),
]
