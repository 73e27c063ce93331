"""Rows of Col2Im, its shapes constants or known at run time only."""

from collections.abc import Iterator

import numpy as np

from tests.ops.rows import Array, Row, floats


def dims(*values: int) -> Array:
    return np.array(values, np.int64)


def both(
    x: Array, image: Array, block: Array, shape: tuple[int, ...], **attributes: list[int]
) -> Iterator[Row]:
    yield Row("Col2Im", [x, image, block], attributes, constant=[1, 2])
    yield Row("Col2Im", [x, image, block], attributes, declared=[shape], note="runtime")


ROWS = [
    *both(floats(1, 10, 5), dims(5, 5), dims(1, 5), (1, 2, 5, 5)),
    *both(floats(1, 9, 4), dims(5, 5), dims(3, 3), (1, 1, 5, 5), strides=[2, 2]),
    *both(floats(2, 5, 15), dims(5, 5), dims(1, 5), (2, 1, 5, 5), pads=[0, 1, 0, 1]),
    *both(floats(1, 4, 5), dims(6, 6), dims(2, 2), (1, 1, 6, 6), dilations=[1, 5]),
    *both(floats(1, 10, 12), dims(3, 4, 5), dims(1, 1, 5), (1, 2, 3, 4, 5)),
    Row("Col2Im", [floats(1, 10, 5), dims(5, 5), dims(1, 5)], constant=[2], declared=[(1, 2, 5, 5)]),
]
