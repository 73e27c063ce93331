"""Rows of Resize and Upsample: every mode, with scales and sizes, known early and late."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.ops.rows import Array, Row, floats, integers

X = floats(1, 2, 4, 5)
COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


def by_scales(*scales: float, x: Array = X, note: str = "", **attributes: Any) -> Row:
    values = np.array(scales, np.float32)
    other = {k: attributes.pop(k) for k in ("opset", "oracle", "tolerance") if k in attributes}
    roi = np.zeros(0, np.float32) if attributes.pop("roi", False) else None
    return Row(
        "Resize",
        [x, roi, values],
        attributes,
        constant=[2] if roi is None else [1, 2],
        note="_".join(["scales", *map(str, scales), note]),
        **other,
    )


def by_sizes(*sizes: int, x: Array = X, note: str = "", **attributes: Any) -> Row:
    values = np.array(sizes, np.int64)
    other = {k: attributes.pop(k) for k in ("opset", "oracle", "tolerance", "declared") if k in attributes}
    return Row(
        "Resize",
        [x, None, None, values],
        attributes,
        constant=[] if other.get("declared") else [3],
        note="_".join(["sizes", *map(str, sizes), note]),
        **other,
    )


def nearest() -> Iterator[Row]:
    for how in COORDINATES:
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            more = {"mode": "nearest", "coordinate_transformation_mode": how, "nearest_mode": rounding}
            yield by_scales(1, 1, 2, 1.6, **more, note=f"{how}_{rounding}")
    yield by_scales(1, 1, 0.5, 0.6, mode="nearest")
    yield by_sizes(1, 2, 7, 3, mode="nearest")
    yield by_scales(
        1, 1, 3, 2, mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn", opset=11, roi=True
    )
    yield by_scales(2, x=integers(5, dtype=np.uint8), mode="nearest", note="u8")
    yield by_scales(1, 1, 2, 2, x=integers(1, 1, 2, 2, dtype=np.int32), mode="nearest", note="i32")
    yield by_scales(1, 1, 2, 2, x=floats(1, 1, 2, 2, dtype=np.float64), note="f64", oracle="reference")


def uneven() -> Iterator[Row]:
    """Scales that give no whole number of elements."""
    corners: dict[str, Any] = {"coordinate_transformation_mode": "align_corners"}
    for a, b in ((0.7, 1.3), (1.6, 0.33)):
        for mode in ("linear", "nearest"):
            # onnxruntime takes the whole number; before opset 19 so does everyone
            yield by_scales(1, 1, a, b, mode=mode, oracle="reference", note="corners", **corners)
            yield by_scales(1, 1, a, b, mode=mode, opset=13, note="corners", **corners)
        for how in ("half_pixel", "asymmetric", "half_pixel_symmetric"):
            more = {"coordinate_transformation_mode": how, "note": how}
            yield by_scales(1, 1, a, b, mode="linear", **more)
            yield by_scales(1, 1, a, b, mode="cubic", **more)
    for n, scale in ((5, 0.7), (3, 1.5), (5, 1.5), (7, 1.5)):  # a place on the border of two elements
        more = {"coordinate_transformation_mode": "half_pixel_symmetric", "nearest_mode": "floor"}
        yield by_scales(1, 1, 1, scale, x=floats(1, 1, 1, n), mode="nearest", note="border", **more)


def symmetric() -> Iterator[Row]:
    """Places half way, or on an element, that float32 reaches if it divides once: as in exact arithmetic."""
    for n, scale, rounding in (
        (6, 1.6, "round_prefer_floor"),
        (6, 1.6, "floor"),
        (7, 0.6, "round_prefer_floor"),
        (7, 2.6, "round_prefer_ceil"),
        (7, 1.6, "round_prefer_floor"),
    ):
        more = {"coordinate_transformation_mode": "half_pixel_symmetric", "nearest_mode": rounding}
        yield by_scales(1, 1, 1, scale, x=floats(1, 1, 1, n), mode="nearest", note=rounding, **more)


def empty() -> Iterator[Row]:
    """A batch of no images, and images of no rows, which stay so."""
    for mode in ("nearest", "linear", "cubic"):
        yield by_sizes(0, 2, 7, 10, x=floats(0, 2, 4, 5), mode=mode)
    yield by_sizes(1, 2, 0, 10, x=floats(1, 2, 0, 5), mode="linear")


def between() -> Iterator[Row]:
    for how in COORDINATES:
        more = {"coordinate_transformation_mode": how, "note": how}
        yield by_scales(1, 1, 2, 1.6, mode="linear", **more)
        yield by_sizes(1, 2, 3, 9, mode="linear", **more)
        yield by_scales(1, 1, 2, 0.6, mode="cubic", **more)
    corners = {"coordinate_transformation_mode": "align_corners", "mode": "linear"}
    yield by_scales(1, 1, 0.6, 0.7, **corners, oracle="reference", note="fraction")
    yield by_scales(1, 1, 0.6, 0.7, **corners, opset=18, note="whole")
    yield by_scales(1, 1, 1, 0.6, mode="linear", coordinate_transformation_mode="half_pixel_symmetric")
    yield by_sizes(1, 2, 1, 1, mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
    yield by_scales(1, 1, 2, 2, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)
    yield by_scales(2, 1.5, x=floats(3, 4), mode="linear", note="2d")
    yield by_scales(1, 1, 2, 2, x=floats(1, 1, 3, 3, dtype=np.float16), mode="linear", oracle="reference")
    for mode in ("linear", "cubic"):
        yield by_scales(1, 1, 0.5, 0.6, mode=mode, antialias=1, note="antialias", oracle="reference")
        yield by_sizes(1, 2, 3, 2, mode=mode, antialias=1, note="antialias", oracle="reference")


def whole() -> Iterator[Row]:
    """Integers between integers: rounded, but by two elements cut off; none of these is near a half."""
    for dtype in (np.uint8, np.int8, np.int32):
        x = integers(1, 1, 5, 9, dtype=dtype, **({"low": -99, "high": 99} if dtype is np.int32 else {}))
        more = {"x": x, "note": np.dtype(dtype).name}
        yield by_sizes(1, 1, 7, 13, mode="linear", **more)
        for mode in ("linear", "cubic"):
            yield by_sizes(1, 1, 3, 13, mode=mode, antialias=1, oracle="reference", **more)
        yield by_sizes(1, 1, 7, 13, mode="cubic", oracle="reference", **more)


def with_axes() -> Iterator[Row]:
    yield by_scales(2, 3, mode="nearest", axes=[2, 3], opset=18)
    yield by_scales(2, 3, mode="linear", axes=[3, 2], opset=18, oracle="reference")
    yield by_sizes(7, 8, mode="nearest", axes=[-2, -1], opset=18, note="negative")
    for policy in ("not_larger", "not_smaller"):
        for sizes in ((7, 8), (2, 3)):
            yield by_sizes(
                *sizes, keep_aspect_ratio_policy=policy, axes=[2, 3], oracle="reference", note=policy
            )


def cropped(*roi: float, late: bool = False, **attributes: Any) -> Row:
    inputs = [floats(1, 1, 4, 4), np.array(roi, np.float32), None, np.array([1, 1, 3, 3], np.int64)]
    mode = {"coordinate_transformation_mode": "tf_crop_and_resize", **attributes}
    declared = [(1, 1, 3, 3)] if late else []
    return Row(
        "Resize", inputs, mode, [] if late else [1, 3], declared=declared, note=str(roi).replace(" ", "")
    )


CROPPED = [
    cropped(0, 0, 0.4, 0.6, 1, 1, 0.6, 0.8, mode="linear"),
    cropped(0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7, mode="linear", extrapolation_value=10.0),
    cropped(0, 0, -0.2, 0.6, 1, 1, 1.3, 0.7, mode="nearest", extrapolation_value=-1.0),
    cropped(0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7, mode="linear", extrapolation_value=10.0, late=True),
]


def late(mode: str, to: tuple[int, ...], *scales: float, **attributes: Any) -> Row:
    values = np.array(scales, np.float32)
    attributes = {"mode": mode, **attributes}
    return Row(
        "Resize", [X, None, values], attributes, declared=[to], oracle="reference", note=f"late_{scales[2:]}"
    )


LATE = [
    late("nearest", (1, 2, 8, 8), 1, 1, 2, 1.6),
    late("linear", (1, 2, 8, 3), 1, 1, 2, 0.6),
    late("cubic", (1, 2, 8, 3), 1, 1, 2, 0.6, exclude_outside=1),
    late("linear", (1, 2, 2, 3), 1, 1, 0.5, 0.6, antialias=1),
    by_sizes(1, 2, 3, 9, mode="linear", declared=[(1, 2, 3, 9)], note="late"),
    by_sizes(
        7,
        8,
        axes=[2, 3],
        keep_aspect_ratio_policy="not_larger",
        declared=[(1, 2, 6, 8)],
        note="late",
        oracle="reference",
    ),
]

OLD = [
    *(
        Row("Resize", [floats(2, 1), None, np.array([1, 0.5], np.float32)], {"mode": m}, [2], note="nothing")
        for m in ("nearest", "linear", "cubic")
    ),
    Row("Resize", [floats(1, 1, 3, 4, 3), np.array([1, 1, 1.5, 1.5, 0.75], np.float32)], {}, [1], opset=10),
    Row("Resize", [X, np.array([1, 1, 2, 2.5], np.float32)], {"mode": "nearest"}, constant=[1], opset=10),
    Row("Resize", [X, np.array([1, 1, 0.5, 0.6], np.float32)], {"mode": "nearest"}, constant=[1], opset=10),
    Row("Resize", [X, np.array([1, 1, 0.6, 3], np.float32)], {"mode": "nearest"}, constant=[1], opset=10),
    Row("Resize", [X, np.array([1, 1, 2, 2.5], np.float32)], {"mode": "linear"}, constant=[1], opset=10),
    Row(
        "Resize", [X, np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)], constant=[1, 2], opset=11
    ),
    Row("Upsample", [X, np.array([1, 1, 2, 3], np.float32)], {"mode": "nearest"}, constant=[1], opset=9),
    Row("Upsample", [X, np.array([1, 1, 2, 3], np.float32)], {"mode": "linear"}, constant=[1], opset=9),
    Row("Upsample", [X], {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 1.5]}, opset=7),
    Row(
        "Upsample",
        [X],
        {"height_scale": 2.0, "width_scale": 1.0},
        opset=1,
        oracle=[np.repeat(X, 2, axis=2)],
    ),
]


def halves() -> Iterator[Row]:
    """Places half way between two elements, which a scale in float32 misses by its last digit."""
    for to, coordinates in (((2, 19), "asymmetric"), ((4, 19), "half_pixel"), ((2, 1), "half_pixel")):
        for rounding in ("round_prefer_floor", "round_prefer_ceil"):
            yield by_sizes(
                *(1, 1, *to),
                x=floats(1, 1, 7, 14),
                note=f"{coordinates}_{rounding}_half",
                mode="nearest",
                coordinate_transformation_mode=coordinates,
                nearest_mode=rounding,
            )


ROWS = [
    *nearest(),
    *halves(),
    *symmetric(),
    *uneven(),
    *empty(),
    *between(),
    *whole(),
    *with_axes(),
    *CROPPED,
    *LATE,
    *OLD,
]
