"""Reductions along axes, and normalisation by them."""

from __future__ import annotations

import math

import numpy as np

from ingot.formula.types import INT64
from ingot.frontends.orders import like
from ingot.frontends.tensorflow.ops.reduce import held_axes, without
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.fixed import multiplier_of
from ingot.frontends.tflite.ops.requantise import DOMAIN, centred, finished, scaled_by
from ingot.frontends.tflite.ops.table import OPS, Call, activated, op
from ingot.graph.ir import Value

FACTORS_LIMIT = 1024
STANDARD = {
    "SUM": "Sum",
    "MEAN": "Mean",
    "REDUCE_PROD": "Prod",
    "REDUCE_MAX": "Max",
    "REDUCE_MIN": "Min",
    "REDUCE_ANY": "Any",
    "REDUCE_ALL": "All",
}


def _enter(name: str, standard: str) -> None:
    OPS[name] = lambda c: reduction(c, standard)


for _name, _standard in STANDARD.items():
    _enter(_name, _standard)


def reduction(c: Call, standard: str) -> Result:
    """The largest and the smallest of integers are those of what they stand for."""
    if c.is_quantised(c.info(0)) and standard in ("Sum", "Mean"):
        return _mean(c, standard == "Mean")
    if c.is_quantised(c.info(0)) and standard == "Prod":
        return _product(c)
    return c.standard(standard, keep_dims=bool(c.option("keep_dims")))


def _mean(c: Call, is_mean: bool) -> Tensor | Value:
    """Sums less their zero points, then the result's scale; the mean's count goes into the multiplier."""
    x, t, to = c.tensor(0), c.info(0), c.result()
    axes = tuple(dict.fromkeys(c.axes(1, x.rank)))
    count = math.prod(x.shape[a] for a in axes)
    c.require(count > 0, "nothing is summed")
    wide = centred(c, x.value, t)
    sums = c.b.one("ReduceSum", wide, c.b.ints(sorted(held_axes(x, axes))), keepdims=1) if axes else wide
    multiplier, shift = multiplier_of(c.scale(t)[0] / c.scale(to)[0])
    if is_mean:
        by = min(count.bit_length() - 1, 32, 31 + shift)
        multiplier, shift = (multiplier << by) // count, shift - by
    made = finished(c, scaled_by(c.b, sums, multiplier, shift), to, 0)
    call = c.as_standard("Sum", keep_dims=bool(c.option("keep_dims")))
    return without(call, Tensor(made, x.order), axes) if axes else Tensor(made, x.order)


def _product(c: Call) -> Value:
    """Factor by factor, in the order in which they lie; each product is rounded, at a share of the result's
    scale (TFLite's QuantizedReduceProd).
    """
    x, t, to = c.tensor(0), c.info(0), c.result()
    axes = sorted(set(c.axes(1, x.rank)))
    outer, count = [a for a in range(x.rank) if a not in axes], math.prod(x.shape[a] for a in axes)
    said = f"the axes {axes} hold {count} elements to multiply, but 1 to {FACTORS_LIMIT} can be"
    c.require(0 < count <= FACTORS_LIMIT, said)
    rows = [x.shape[a] for a in outer]
    wide = c.b.cast(centred(c, c.b.transposed(c.b.plain(x), (*outer, *axes)), t), INT64)
    wide = c.b.reshape(wide, (*rows, count))
    multiplier, shift = multiplier_of(c.scale(t)[0] / c.scale(to)[0] ** (1 / count))
    factors = [c.b.one("Gather", wide, c.b.constant(np.int64(i)), axis=len(rows)) for i in range(count)]
    product = factors[0]
    for factor in factors[1:]:
        step = scaled_by(c.b, c.b.one("Mul", product, factor), multiplier, shift)
        product = c.b.cast(step, INT64)
    made = scaled_by(c.b, product, multiplier, shift)
    kept = [1 if a in axes else n for a, n in enumerate(x.shape)] if c.option("keep_dims") else rows
    return c.b.reshape(finished(c, made, to, 0), kept)


@op("ARG_MAX", "ARG_MIN")
def arg(c: Call) -> Result:
    name = "ArgMax" if c.operator.kind == "ARG_MAX" else "ArgMin"
    return c.standard(name, output_type=c.kind_option("output_type", "INT32"))


@op("L2_NORMALIZATION")
def l2_normalization(c: Call) -> Result:
    """Each last axis by the root of its sum of squares."""
    x, t, to = c.tensor(0), c.info(0), c.result()
    b = c.b
    if c.is_quantised(t):
        wide = centred(c, b.plain(x), t)
        made = b.one(f"{DOMAIN}.L2Normalize", wide, before=int(t.kind == "UINT8"))
        return finished(c, made, to, 0)
    axis = x.order[-1] if x.order else x.rank - 1
    squares = b.one("ReduceSum", b.one("Mul", x.value, x.value), b.ints([axis]), keepdims=1)
    norm = b.one("Max", b.one("Sqrt", squares), like(b, x.value, 1e-6))
    return activated(c, Tensor(b.one("Div", x.value, norm), x.order))


@op("SEGMENT_SUM")
def segment_sum(c: Call) -> Result:
    """Rows with the same ascending number are added; the numbers must be known."""
    return _segments(c, int(c.known(1, "the segments").max(initial=-1)) + 1, "add", 0)


@op("UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN")
def unsorted_segments(c: Call) -> Result:
    kind = c.operator.kind.rpartition("_")[2].lower()
    dtype = c.tensor(0).dtype
    lowest, highest = (
        float(n) if not dtype.is_float else s * 3.4028234663852886e38
        for n, s in ((dtype.lowest, -1), (dtype.highest, 1))
    )
    start = {"sum": 0, "prod": 1, "max": lowest, "min": highest}[kind]
    how = {"sum": "add", "prod": "mul"}.get(kind, kind)
    return _segments(c, int(c.number(2, "the number of segments")), how, start)


def _segments(c: Call, count: int, how: str, start: float) -> Value:
    x, b = c.tensor(0), c.b
    index = c.tensor(1)
    c.require(x.shape[: index.rank] == index.shape and 0 <= count < 1 << 24, "segments do not fit")
    rest = x.shape[index.rank :]
    filled = b.one("Expand", like(b, x.value, start), b.ints([count, *rest]))
    places = b.reshape(b.cast(b.plain(index), INT64), (*index.shape, 1))
    return b.one("ScatterND", filled, places, b.plain(x), reduction=how)
