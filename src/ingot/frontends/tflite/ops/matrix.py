"""Matrix products: fully connected layers and batches of products."""

from __future__ import annotations

import numpy as np

from ingot.formula.types import FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8
from ingot.frontends.builder import extents_of
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.fixed import Array, float32_factors, in_float32
from ingot.frontends.tflite.ops.hybrid import quantised_rows
from ingot.frontends.tflite.ops.requantise import away, finished, rescaled, scaled_along
from ingot.frontends.tflite.ops.table import Call, activated, op
from ingot.graph.ir import Value


@op("FULLY_CONNECTED")
def fully_connected(c: Call) -> Result:
    """Rows by the transposed weights [out, in]; everything but the last axis is a batch."""
    x, w = c.tensor(0), c.tensor(1)
    if c.option("weights_format"):
        raise c.refuse("shuffled weights are not supported")
    c.require(w.rank == 2, "the weights are a matrix")
    out, inner = w.shape
    count = int(np.prod(x.shape))
    c.require(inner > 0 and count % inner == 0, f"{count} elements are no rows of {inner}")
    rows = c.b.reshape(c.b.plain(x), (count // inner, inner))
    weights = c.b.transposed(c.b.plain(w), (1, 0))
    y = _product(c, rows, weights)
    keeps = bool(c.option("keep_num_dims")) and x.rank > 0 and x.shape[-1] == inner
    y = c.b.reshape(y, (*x.shape[:-1], out)) if keeps else y
    return y if c.is_quantised(c.result()) else activated(c, Tensor(y))


def _product(c: Call, rows: Value, weights: Value) -> Value:
    x, w = rows.type, weights.type
    assert x is not None and w is not None, "every value of the importer is inferred"
    if x.is_float and w.is_float:
        y = c.b.one("MatMul", rows, weights)
        return c.b.one("Add", y, c.plain(2)) if c.has(2) else y
    if x.is_float:
        return _hybrid(c, rows, weights)
    return _from_sums(c, sums(c, rows, weights, 0, 1))


def _from_sums(c: Call, total: Value) -> Value:
    """Bias, then the result's scale as a number of 64 bits, halves away from 0: TFLite's reference kernel of
    fully connected layers is the one that does not multiply in fixed point. TFLite Micro's does.
    """
    b, image, to = c.b, c.scale(c.info(0))[0], c.scale(c.result())[0]
    if c.has(2):
        assert total.type is not None, "every value of the importer is inferred"
        total = b.one("Add", total, b.cast(c.plain(2), total.type))
    factors = image * c.scales(c.info(1)).scale.astype(np.float64) / to
    if c.scope.model.is_micro:
        one = len(factors) == 1
        each = [in_float32([image, c.scale(c.info(1))[0]], 1) / to] if one else factors.tolist()
        return finished(c, scaled_along(b, total, each, 1), c.result())
    return finished(c, _rounded(c, total, factors), c.result())


def _rounded(c: Call, total: Value, factors: Array) -> Value:
    """The sums by factors of 64 bits, halves away from 0; by 32 bits where these give the same bytes."""
    b, to = c.b, c.result()
    zero, limits = c.scale(to)[1], (int(to.dtype.lowest), int(to.dtype.highest))
    is_byte = total.type is INT32 and to.dtype in (INT8, UINT8)
    narrow = float32_factors(factors, *(n - zero for n in limits)) if is_byte else None
    wide, type = (factors, FLOAT64) if narrow is None else (narrow, FLOAT32)
    scaled = b.one("Mul", b.cast(total, type), b.constant(wide if len(wide) > 1 else wide[0]))
    return b.cast(away(b, scaled) if narrow is None else b.one("Round", scaled), INT32)


def sums(c: Call, a: Value, b: Value, first: int, second: int) -> Value:
    """Exact integers: 32 bits of bytes, 64 of 16 bits."""
    zeros = []
    for i, v in ((first, a), (second, b)):
        zero = c.scales(c.info(i)).zero
        c.require(bool(np.all(zero == zero[0])), f"{c.info(i).label} has several zero points")
        zeros.append(c.b.constant(int(zero[0]), v.type))
    if a.type in (INT8, UINT8):
        return c.b.one("MatMulInteger", a, b, *zeros)
    c.require(a.type is INT16, f"an operand of {a.type} is not supported")
    return c.b.one("MatMul", c.b.cast(a, INT64), c.b.cast(b, INT64))


def _hybrid(c: Call, rows: Value, weights: Value) -> Value:
    """Numbers by integers: each row is brought to bytes by its largest element."""
    q, zero, scale = quantised_rows(c, rows, bool(c.option("asymmetric_quantize_inputs")))
    product = c.b.one("MatMulInteger", q, weights)
    if c.option("asymmetric_quantize_inputs"):
        columns = c.b.one("ReduceSum", c.b.cast(weights, INT32), c.b.ints([0]), keepdims=1)
        product = c.b.one("Sub", product, c.b.one("Mul", zero, columns))
    given = c.scales(c.info(1)).scale
    by = c.b.one("Mul", scale, c.b.constant(given if len(given) > 1 else given[0]))
    y = c.b.one("Mul", c.b.cast(product, FLOAT32), by)
    return c.b.one("Add", y, c.plain(2)) if c.has(2) else y


@op("BATCH_MATMUL")
def batch_matmul(c: Call) -> Result:
    a, b = (_turned(c, i, name) for i, name in enumerate(("adj_x", "adj_y")))
    if a.type is not None and b.type is not None and a.type.is_float and b.type.is_float:
        return c.b.one("MatMul", a, b)
    if a.type is not None and a.type.is_float:
        return _hybrid_batch(c, a, b)
    factor = in_float32([c.scale(c.info(0))[0], c.scale(c.info(1))[0]], 1) / c.scale(c.result())[0]
    return finished(c, rescaled(c.b, sums(c, a, b, 0, 1), factor), c.result(), 0)


def _turned(c: Call, i: int, name: str) -> Value:
    x = c.tensor(i)
    c.require(x.rank >= 2, "a matrix is needed")
    order = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    return c.b.transposed(c.b.plain(x), order) if c.option(name) else c.b.plain(x)


def _hybrid_batch(c: Call, a: Value, b: Value) -> Value:
    """Rows of numbers by integers: each row on its own."""
    *batch, m, k = extents_of(a)
    flat = c.b.reshape(a, (int(np.prod(batch)) * m, k))
    q, zero, scale = quantised_rows(c, flat, bool(c.option("asymmetric_quantize_inputs")))
    product = c.b.one("MatMulInteger", c.b.reshape(q, (*batch, m, k)), b)
    if c.option("asymmetric_quantize_inputs"):
        columns = c.b.one("ReduceSum", c.b.cast(b, INT32), c.b.ints([len(extents_of(b)) - 2]), keepdims=1)
        zero = c.b.reshape(zero, (*batch, m, 1))
        product = c.b.one("Sub", product, c.b.one("Mul", zero, columns))
    by = c.b.one("Mul", c.b.reshape(scale, (*batch, m, 1)), c.b.constant(c.scales(c.info(1)).scale[0]))
    return c.b.one("Mul", c.b.cast(product, FLOAT32), by)
