"""MediaPipe's own operators: transposed convolutions with a bias, and parts of an image cut out by landmarks.

A matrix [1, 4, 4] takes places of the part to places of the image: its first two rows give x and y. What
is outside the image is 0. Of operators in two versions these are the second: landmarks are [1, N, 2 or 3].
"""

from __future__ import annotations

import struct

from ingot.errors import ModelError
from ingot.formula.types import FLOAT32
from ingot.frontends.builder import extents_of
from ingot.frontends.orders import channels_first
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.flexbuffer import Number, integers_of, numbers_of
from ingot.frontends.tflite.ops.table import Call, op, single
from ingot.graph.ir import Value

SAME, VALID = 1, 2
Corner = tuple[Value, Value]
"""x and y, or cosine and sine, or the two scales."""


@op("CUSTOM Convolution2DTransposeBias")
def transpose_conv_bias(c: Call) -> Result:
    """The options are three numbers of a C struct: padding, stride of columns, stride of rows."""
    x, w, order = c.tensor(0), c.tensor(1), channels_first(4)
    if len(c.operator.custom) < 12:
        raise ModelError(f"{c.operator.label}: its custom options are damaged")
    padding, across, down = struct.unpack_from("<3i", c.operator.custom)
    c.require(
        padding in (SAME, VALID) and min(across, down) > 0, f"padding {padding}, strides {down, across}"
    )
    c.require(x.rank == w.rank == 4 and w.shape[3] == x.shape[3], "image and kernel do not fit")
    strides, taps = [down, across], list(w.shape[1:3])
    more = [max(0, k - (n - 1) % s - 1) for k, n, s in zip(taps, x.shape[1:3], strides, strict=True)]
    pads = [n // 2 for n in more] + [n - n // 2 for n in more] if padding == SAME else [0] * 4
    kernel = c.b.transposed(c.b.plain(w), (3, 0, 1, 2))
    how = {"strides": strides, "pads": pads, "kernel_shape": taps}
    return Tensor(c.b.one("ConvTranspose", c.b.held(x, order), kernel, c.plain(2), **how), order)


@op("CUSTOM Landmarks2TransformMatrix")
def to_matrix(c: Call) -> Result:
    """shift by the centre, turn back, scale the part to the box, shift by half the part."""
    b, given, rows = c.b, numbers_of(c.operator.custom, c.operator.label), _points(c, 0)
    angle = _angle(c, rows, given)
    centre, size = _box(c, rows, angle)
    cosine, sine = b.one("Cos", angle), b.one("Neg", b.one("Sin", angle))  # of the angle turned back
    across, down = _whole(c, given, "output_width"), _whole(c, given, "output_height")
    scales = [
        _times(c, v, _option(c, given, f"scale_{n}") / by)
        for n, v, by in zip("xy", size, (across, down), strict=True)
    ]
    first = b.one("Mul", cosine, scales[0]), b.one("Neg", b.one("Mul", sine, scales[1]))
    second = b.one("Mul", sine, scales[0]), b.one("Mul", cosine, scales[1])
    made = []
    for (p, q), at in zip((first, second), centre, strict=True):
        moved = b.one("Add", _times(c, p, -across / 2), _times(c, q, -down / 2))
        made += [p, q, _number(c, 0), b.one("Add", moved, at)]
    rest = b.constant([0, 0, 1, 0, 0, 0, 0, 1], FLOAT32)
    return b.reshape(b.one("Concat", *made, rest, axis=0), [1, 4, 4])


def _angle(c: Call, rows: Value, given: dict[str, Number]) -> Value:
    """By how much the line between two landmarks misses its direction, [1]."""
    left, right = (_point(c, rows, _whole(c, given, f"{n}_rotation_idx", 0)) for n in ("left", "right"))
    x, y = (Tensor(c.b.one("Sub", q, p)) for p, q in zip(left, right, strict=True))
    turned = single(c.standard("Atan2", [y, x])).value
    return c.b.one("Sub", _number(c, _option(c, given, "target_rotation_radians")), turned)


def _box(c: Call, rows: Value, angle: Value) -> tuple[Corner, Corner]:
    """Centre and size of the box that holds the subset, and stands upright once it is turned."""
    b = c.b
    subset = integers_of(c.operator.custom, "subset_idxs", c.operator.label)
    count = extents_of(rows)[0]
    c.require(bool(subset) and all(0 <= i < count for i in subset), f"landmarks {list(subset)} of {count}")
    chosen = b.one("Gather", rows, b.ints(list(subset)), axis=0)
    turned = _turned(c, _columns(c, chosen), (b.one("Cos", angle), b.one("Sin", angle)))
    most, least = ([b.one(f"Reduce{n}", v, b.ints([0]), keepdims=1) for v in turned] for n in ("Max", "Min"))
    size = b.one("Sub", most[0], least[0]), b.one("Sub", most[1], least[1])
    middle = [_times(c, b.one("Add", p, q), 0.5) for p, q in zip(most, least, strict=True)]
    back = b.one("Cos", angle), b.one("Neg", b.one("Sin", angle))
    return _turned(c, (middle[0], middle[1]), back), size


def _turned(c: Call, at: Corner, by: Corner) -> Corner:
    (x, y), (cosine, sine), b = at, by, c.b
    return (
        b.one("Sub", b.one("Mul", x, cosine), b.one("Mul", y, sine)),
        b.one("Add", b.one("Mul", x, sine), b.one("Mul", y, cosine)),
    )


@op("CUSTOM TransformLandmarks")
def transform_landmarks(c: Call) -> Result:
    """x and y by the matrix; a third number of a landmark stays."""
    b, rows, matrix = c.b, _points(c, 0), _matrix(c)
    made = list(_moved(c, matrix, _columns(c, rows)))
    count, width = extents_of(rows)
    columns = [b.reshape(v, [count, 1]) for v in made]
    if width == 3:
        columns.append(b.one("Gather", rows, b.ints([2]), axis=1))
    return b.reshape(b.one("Concat", *columns, axis=1), [1, count, width])


@op("CUSTOM TransformTensorBilinear")
def transform_tensor(c: Call) -> Result:
    """The image read between its pixels; corners of pixels, not their centres, are what the matrix moves."""
    b, x, given, order = c.b, c.tensor(0), numbers_of(c.operator.custom, c.operator.label), channels_first(4)
    c.require(x.rank == 4 and x.shape[0] == 1, f"an image of {list(x.shape)}: one image is needed")
    rows, columns = _whole(c, given, "output_height"), _whole(c, given, "output_width")
    c.require(b.is_modest([rows, columns, x.shape[3]], FLOAT32), f"a part of {rows} by {columns}")
    places = [(i % columns + 0.5, i // columns + 0.5) for i in range(rows * columns)]
    at = b.constant([p[0] for p in places], FLOAT32), b.constant([p[1] for p in places], FLOAT32)
    inside, ends = [], []
    for moved, size in zip(_moved(c, _matrix(c), at), (x.shape[2], x.shape[1]), strict=True):
        place = b.one("Sub", moved, _number(c, 0.5))
        inside += [
            b.one("GreaterOrEqual", place, _number(c, 0)),
            b.one("LessOrEqual", place, _number(c, size - 1)),
        ]
        unit = b.one("Sub", _times(c, place, 2 / max(size - 1, 1)), _number(c, 1))
        ends.append(b.reshape(unit, [1, rows, columns, 1]))
    grid = b.one("Concat", *ends, axis=3)
    read = b.one(
        "GridSample", b.held(x, order), grid, mode="bilinear", padding_mode="border", align_corners=1
    )
    is_inside = b.one("And", b.one("And", *inside[:2]), b.one("And", *inside[2:]))
    return Tensor(b.one("Where", b.reshape(is_inside, [1, 1, rows, columns]), read, _number(c, 0)), order)


# ---- landmarks, matrices and options


def _points(c: Call, i: int) -> Value:
    """[N, 2 or 3]."""
    shape = list(c.tensor(i).shape)
    if len(shape) != 3 or shape[0] != 1 or shape[2] not in (2, 3):
        raise c.refuse(f"landmarks of {shape}: [1, N, 2] or [1, N, 3] are supported")
    return c.b.reshape(c.plain(i), shape[1:])


def _columns(c: Call, rows: Value) -> Corner:
    count = extents_of(rows)[0]
    x, y = (c.b.reshape(c.b.one("Gather", rows, c.b.ints([i]), axis=1), [count]) for i in (0, 1))
    return x, y


def _point(c: Call, rows: Value, i: int) -> Corner:
    """One landmark, of [1] each."""
    c.require(i < extents_of(rows)[0], f"landmark {i} of {extents_of(rows)[0]}")
    return _columns(c, c.b.one("Gather", rows, c.b.ints([i]), axis=0))


def _matrix(c: Call) -> list[Value]:
    """The eight numbers of the first two rows, of [1] each."""
    shape = list(c.tensor(1).shape)
    c.require(shape == [1, 4, 4], f"a matrix of {shape}: [1, 4, 4] is needed")
    flat = c.b.reshape(c.plain(1), [16])
    return [c.b.one("Gather", flat, c.b.ints([i]), axis=0) for i in range(8)]


def _moved(c: Call, matrix: list[Value], at: Corner) -> Corner:
    b = c.b
    x, y = (
        b.one("Add", b.one("Add", b.one("Mul", p, at[0]), b.one("Mul", q, at[1])), r)
        for p, q, _, r in (matrix[:4], matrix[4:])
    )
    return x, y


def _number(c: Call, value: float) -> Value:
    return c.b.constant([value], FLOAT32)


def _times(c: Call, x: Value, by: float) -> Value:
    return c.b.one("Mul", x, _number(c, by))


def _option(c: Call, given: dict[str, Number], name: str) -> Number:
    if name not in given:
        raise ModelError(f"{c.operator.label}: its custom options lack {name!r}")
    return given[name]


def _whole(c: Call, given: dict[str, Number], name: str, least: int = 1) -> int:
    value = int(_option(c, given, name))
    c.require(value >= least, f"{name} is {value}")
    return value
