"""NonMaxSuppression: of boxes that overlap, the one with the highest score.

In: boxes, and scores per class. Out: the boxes chosen; how many is data. Each step of a Scan chooses the best
box left of every class and drops those that overlap it.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Tensor,
    Var,
    call,
    cast,
    equal,
    maximum,
    minimum,
    select,
    wrap,
)
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, product, upper
from ingot.formula.types import BOOL, FLOAT32, INT32, INT64
from ingot.ops.nonzero import data_point, set_places
from ingot.ops.registry import Builder, op
from ingot.ops.runtime import require_single
from ingot.ops.sorting import place

TOP, LEFT, BOTTOM, RIGHT = range(4)


@op("NonMaxSuppression", since=10)
def non_max_suppression(
    f: Builder,
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Tensor | None = None,
    iou_threshold: Tensor | None = None,
    score_threshold: Tensor | None = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """y[k] = (batch, class, box) of the k-th box chosen, by batch, class and score (NonMaxSuppression-11).

    Of equal scores the box that comes first is chosen first; a score that is NaN never is.
    """
    f.same_type((boxes, scores), "f")
    f.require(
        boxes.rank == scores.rank == 3
        and boxes.shape[2] == 4
        and (boxes.shape[0], boxes.shape[1]) == (scores.shape[0], scores.shape[2]),
        f"shapes {list(boxes.shape)} and {list(scores.shape)} do not fit",
    )
    require_single(f, "iu", max_output_boxes_per_class=max_output_boxes_per_class)
    require_single(f, "f", iou_threshold=iou_threshold, score_threshold=score_threshold)
    f.require(center_point_box in (0, 1), f"center_point_box is {center_point_box}")
    corners = _corners(f, boxes, bool(center_point_box))
    most = _most(f, max_output_boxes_per_class, boxes.shape[1])
    chosen = _chosen(f, corners, scores, most, _number(iou_threshold, 0.0), score_threshold)
    b, c, s = f.axes(chosen.shape, "b c s")
    taken = f.map((b, c, s), chosen[b, c, s] >= 0, BOOL, "taken")
    places, found = set_places(f, taken)
    count = f.measured(found, extent(product(taken.shape)))
    k = Var("k", count)
    index = data_point(places[k], taken.shape)
    y = f.empty(INT64, (count, 3))
    f.put(y, (k,), (k, 0), cast(index[0], INT64))
    f.put(y, (k,), (k, 1), cast(index[1], INT64))
    f.put(y, (k,), (k, 2), cast(chosen.at(index), INT64))
    return y


def _number(t: Tensor | None, default: float) -> Expr:
    """The one element of a threshold."""
    return Const(default, FLOAT32) if t is None else cast(t.at((0,) * t.rank), FLOAT32)


def _most(f: Builder, t: Tensor | None, n: Extent) -> Extent:
    """How many boxes of a class are chosen at most: none by default. There may be fewer than that."""
    if t is None:
        return 0
    if t.value is not None:
        wanted = max(int(np.asarray(t.value).reshape(-1)[0]), 0)
        return wanted if wanted < upper(n) else n
    wanted_ = maximum(minimum(cast(t.at((0,) * t.rank), INT64), cast(as_expr(n), INT64)), 0)
    return f.counted(f.map((), wanted_, INT64, "wanted"), n, "most")


def _corners(f: Builder, boxes: Tensor, centred: bool) -> Tensor:
    """The boxes as (top, left, bottom, right), whichever two corners they are given by."""
    b, i = f.axes(boxes.shape[:2], "b i")
    e = [boxes[b, i, j] for j in range(4)]
    out = f.empty(boxes.type.compute, boxes.shape, "corners")
    for d in (0, 1):  # rows, columns
        if centred:
            middle, half = e[1 - d], e[3 - d] / 2
            low, high = middle - half, middle + half
        else:
            low, high = minimum(e[d], e[d + 2]), maximum(e[d], e[d + 2])
        f.put(out, (b, i), (b, i, d), low)
        f.put(out, (b, i), (b, i, d + 2), high)
    return out


def _chosen(
    f: Builder, corners: Tensor, scores: Tensor, most: Extent, overlap: Expr, threshold: Tensor | None
) -> Tensor:
    """Which box of each class is chosen s-th, -1 where none is left: [batches, classes, most], int32.

    Its shape is the largest that `most` may make it.
    """
    n = scores.shape[2]
    b, c, i = axes = f.axes(scores.shape, "b c i")
    j, s = Var("j", 4), Var("s", upper(most))
    score = scores[axes]
    enough = call("not", call("isnan", score))
    if threshold is not None:
        enough = cast(score, FLOAT32) > _number(threshold, 0.0)
    left = f.map(axes, enough, BOOL, "left")
    chosen = f.map((b, c, s), Const(-1, INT32), name="chosen")
    if n == 0:
        return chosen
    step, active = Var("step", most), f.map((), Const(True, BOOL), name="active")
    none = cast(as_expr(n), INT32)
    lowest = wrap(scores.type.compute.lowest, scores.type.compute)

    def body() -> None:
        best = f.reduce(*("max", (b, c), (i,), select(left[axes], score, lowest)), init=lowest, name="best")
        hit = left[axes] & equal(score, best[b, c])
        at = f.reduce("min", (b, c), (i,), select(hit, cast(i, INT32), none), init=none, name="at")
        is_some = at[b, c] < none
        f.put(chosen, (b, c), (b, c, step), select(is_some, at[b, c], Const(-1, INT32)))
        box = f.map((b, c, j), corners.at((b, place(at[b, c], n), j)), name="box")
        dropped = equal(cast(i, INT32), at[b, c]) | _overlaps(
            [corners[b, i, d] for d in range(4)], [box[b, c, d] for d in range(4)], overlap
        )
        f.put(left, axes, axes, left[axes] & call("not", dropped))
        f.reduce("or", (), (b, c), is_some, init=False, into=(active, ()))

    f.scan(step, (left, chosen, active), body, active)
    return chosen


def _overlaps(a: list[Expr], b: list[Expr], threshold: Expr) -> Expr:
    """Whether the area that two boxes share is more than that part of the area that they cover."""
    height = minimum(a[BOTTOM], b[BOTTOM]) - maximum(a[TOP], b[TOP])
    width = minimum(a[RIGHT], b[RIGHT]) - maximum(a[LEFT], b[LEFT])
    areas = [(e[BOTTOM] - e[TOP]) * (e[RIGHT] - e[LEFT]) for e in (a, b)]
    shared = height * width
    share = shared / (areas[0] + areas[1] - shared)
    solid = (areas[0] > 0) & (areas[1] > 0) & (height > 0) & (width > 0)
    return solid & (cast(share, FLOAT32) > threshold)
