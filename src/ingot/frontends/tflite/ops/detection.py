"""Boxes: NON_MAX_SUPPRESSION_V4 and _V5, and TFLite_Detection_PostProcess, which decodes boxes first.

Both are ONNX's NonMaxSuppression on one batch. TFLite's results have fixed extents: zeros stand behind what
was found, and a number says how many were.
"""

from __future__ import annotations

import numpy as np

from ingot.errors import ModelError
from ingot.formula.types import FLOAT32, INT32, INT64
from ingot.frontends.builder import extents_of
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tflite.flexbuffer import Number, numbers_of
from ingot.frontends.tflite.ops.table import Call, op
from ingot.graph.ir import Value

CENTERS = 4
"""Columns of an encoded box, and of an anchor: y, x, height, width."""
DEFAULTS: dict[str, Number] = {"detections_per_class": 100, "use_regular_nms": 0}


@op("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def non_max_suppression(c: Call) -> Result:
    """The places of what is kept, by score, perhaps the scores, and how many they are."""
    has_scores = c.operator.kind.endswith("V5")
    if has_scores:
        c.require(c.number(5, "soft_nms_sigma") == 0, "soft_nms_sigma is not 0")
    most = int(c.number(2, "max_output_size"))
    overlap, least = c.number(3, "iou_threshold"), c.number(4, "score_threshold")
    b, scores = c.b, c.plain(1)
    kept = _kept(c, c.plain(0), b.reshape(scores, [1, *extents_of(scores)]), most, overlap, least)
    places = b.reshape(_column(c, kept, 2), [-1])
    found = [_filled(c, places, most)]
    if has_scores:
        found.append(_filled(c, b.one("Gather", scores, places, axis=0), most))
    return [b.cast(found[0], INT32), *found[1:], b.cast(b.one("Size", places), INT32)]


@op("CUSTOM TFLite_Detection_PostProcess")
def detections(c: Call) -> Result:
    """Boxes, classes, scores and the number of detections, from encoded boxes, scores and anchors."""
    given = DEFAULTS | numbers_of(c.operator.custom, c.operator.label)
    boxes = _decoded(c, given)
    scores = c.b.reshape(c.plain(1), extents_of(c.plain(1))[1:])
    count, classes = extents_of(scores)[1], int(_option(c, given, "num_classes"))
    c.require(1 <= classes <= count, f"num_classes is {classes}, there are scores for {count}")
    columns = c.b.ints([count - classes]), c.b.ints([count]), c.b.ints([1])  # the background comes first
    scores = c.b.one("Slice", scores, *columns)
    return (_by_class if given["use_regular_nms"] else _by_box)(c, boxes, scores, given)


def _option(c: Call, given: dict[str, Number], name: str) -> Number:
    if name not in given:
        raise ModelError(f"{c.operator.label}: its custom options lack {name!r}")
    return given[name]


def _decoded(c: Call, given: dict[str, Number]) -> Value:
    """[N, 4] corners: y, x of the lower and of the upper one."""
    b, encoded, anchors = c.b, c.plain(0), c.plain(2)
    extents = extents_of(encoded)
    c.require(len(extents) == 3 and extents[0] == 1, f"boxes {extents}, not [1, boxes, 4]")
    c.require(extents_of(anchors) == [extents[1], CENTERS], f"anchors {extents_of(anchors)} of {extents}")
    rows = b.reshape(encoded, extents[1:])
    y, x, h, w = (_column(c, rows, i) for i in range(CENTERS))
    scales = [b.constant(_option(c, given, f"{n}_scale"), FLOAT32) for n in "yxhw"]
    at_y, at_x, high, wide = (_column(c, anchors, i) for i in range(CENTERS))
    half = b.constant(0.5, FLOAT32)
    corners = []
    for place, size, anchor, extent, by, grown in (
        (y, h, at_y, high, scales[0], scales[2]),
        (x, w, at_x, wide, scales[1], scales[3]),
    ):
        center = b.one("Add", b.one("Mul", b.one("Div", place, by), extent), anchor)
        reach = b.one("Mul", b.one("Mul", half, b.one("Exp", b.one("Div", size, grown))), extent)
        corners.append((b.one("Sub", center, reach), b.one("Add", center, reach)))
    return b.one("Concat", corners[0][0], corners[1][0], corners[0][1], corners[1][1], axis=1)


def _by_class(c: Call, boxes: Value, scores: Value, given: dict[str, Number]) -> Result:
    """Each class by itself; of all that is kept the highest scores, in as many places as `_by_box` needs."""
    b, most = c.b, int(_option(c, given, "max_detections"))
    room = most * int(_option(c, given, "max_classes_per_detection"))
    c.require(b.is_modest([room], INT64), f"{room} detections")
    each = min(int(given["detections_per_class"]), extents_of(boxes)[0])
    by_class = b.transposed(scores, (1, 0))
    kept = _kept(c, boxes, by_class, each, *_limits(c, given))
    pairs = b.one("Slice", kept, b.ints([1]), b.ints([3]), b.ints([1]))
    values = b.one("GatherND", by_class, pairs)
    last = b.constant(np.full(room, -np.inf), FLOAT32)  # TopK always finds as many as it is asked for
    highest, order = b.many("TopK", 2, b.one("Concat", values, last, axis=0), b.ints([room]), axis=0)
    is_real = b.one("And", b.one("Less", order, b.one("Size", values)), b.constant(np.arange(room) < most))
    rows = b.one("Where", is_real, order, b.ints([0]))
    nothing = b.constant(np.zeros([1, 2]), INT64)
    pairs = b.one("Gather", b.one("Concat", pairs, nothing, axis=0), rows, axis=0)
    classes, places = (b.reshape(_column(c, pairs, i), [room]) for i in (0, 1))
    return _results(c, b.one("Gather", boxes, places, axis=0), classes, highest, is_real, 1)


def _by_box(c: Call, boxes: Value, scores: Value, given: dict[str, Number]) -> Result:
    """Each box by its highest score; what is kept gives its highest classes."""
    b, most = c.b, int(_option(c, given, "max_detections"))
    each = min(int(_option(c, given, "max_classes_per_detection")), extents_of(scores)[1])
    c.require(b.is_modest([most, each], INT64), f"{most} detections of {each} classes")
    highest, classes = b.many("TopK", 2, scores, b.ints([each]), axis=1)
    first = b.reshape(_column(c, highest, 0), [1, -1])
    kept = _kept(c, boxes, first, most, *_limits(c, given))
    found = b.reshape(_column(c, kept, 2), [-1])
    places = _filled(c, found, most)
    is_real = b.one("Less", b.constant(np.arange(most), INT64), b.one("Size", found))
    repeated = b.reshape(b.constant(np.repeat(np.arange(most), each), INT64), [most * each])
    corners = b.one("Gather", b.one("Gather", boxes, places, axis=0), repeated, axis=0)
    flat = [b.reshape(b.one("Gather", v, places, axis=0), [most * each]) for v in (classes, highest)]
    return _results(c, corners, flat[0], flat[1], b.one("Gather", is_real, repeated, axis=0), each)


def _results(c: Call, corners: Value, classes: Value, scores: Value, is_real: Value, each: int) -> Result:
    """The four outputs as TFLite shapes them: floats with a batch in front, zeros behind what is real."""
    b, count = c.b, extents_of(scores)[0]
    real = b.cast(is_real, FLOAT32)
    number = b.one("Div", b.one("ReduceSum", real, b.ints([0]), keepdims=1), b.constant(each, FLOAT32))
    zero = b.constant(0.0, FLOAT32)
    tall = b.reshape(is_real, [count, 1])
    kept = [(tall, corners), (is_real, b.cast(classes, FLOAT32)), (is_real, scores)]
    made = [b.one("Where", where, value, zero) for where, value in kept]
    return [b.reshape(made[0], [1, count, CENTERS]), *(b.reshape(v, [1, count]) for v in made[1:]), number]


def _limits(c: Call, given: dict[str, Number]) -> tuple[float, float]:
    """How much boxes may overlap, and which scores are too low: here the limit itself is high enough."""
    least = np.float32(_option(c, given, "nms_score_threshold"))
    return _option(c, given, "nms_iou_threshold"), float(np.nextafter(least, np.float32(-np.inf)))


def _kept(c: Call, boxes: Value, scores: Value, most: int, overlap: float, least: float) -> Value:
    """[K, 3]: batch 0, the row of `scores` [rows, boxes], the box; only of scores above the least one."""
    b, n = c.b, extents_of(boxes)[0]
    return b.one(
        "NonMaxSuppression",
        b.reshape(boxes, [1, n, CENTERS]),
        b.reshape(scores, [1, extents_of(scores)[0], n]),
        b.ints([most]),
        b.constant([overlap], FLOAT32),
        b.constant([least], FLOAT32),
    )


def _column(c: Call, rows: Value, i: int) -> Value:
    """[N, 1]."""
    return c.b.one("Gather", rows, c.b.ints([i]), axis=1)


def _filled(c: Call, values: Value, count: int) -> Value:
    """A vector of `count` elements: the values, then zeros."""
    b = c.b
    assert values.type is not None
    rows = b.one("Range", b.constant(0, INT64), b.one("Size", values), b.constant(1, INT64))
    zeros = b.constant(np.zeros(count), values.type)
    return b.one("ScatterND", zeros, b.reshape(rows, [-1, 1]), values)
