"""What ai.onnx.ml does to scores last: the post_transform of trees, support vectors and linear models.

In: scores [N, C]. Out: as many. The arithmetic is onnxruntime's, which the standard leaves open.
"""

from __future__ import annotations

from ingot.errors import ModelError
from ingot.formula.expr import Const, Expr, Extent, Tensor, Var, call, cast, select
from ingot.formula.types import FLOAT32, DType
from ingot.ops.registry import Builder

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
ZERO = 0.0000001
"""SOFTMAX_ZERO takes for zero what is not further from it."""


def transform_of(f: Builder, post_transform: str | int) -> str:
    """The name of a transform given by name, or by its number in TreeEnsemble-5. Raises ModelError."""
    if isinstance(post_transform, int) and 0 <= post_transform < len(TRANSFORMS):
        return TRANSFORMS[post_transform]
    if post_transform not in TRANSFORMS:
        raise ModelError(
            f"{f.node.label}: post_transform {post_transform!r} is not one of {', '.join(TRANSFORMS)}"
        )
    return str(post_transform)


def logistic(x: Expr) -> Expr:
    return call("sigmoid", x)


def probit(p: Expr) -> Expr:
    """The argument at which a normal distribution reaches p (Winitzki's approximation, a = 0.147)."""
    x = p * 2 - 1
    log = call("log", (1 - x) * (1 + x))
    v = 2 / (3.14159 * 0.147) + log * 0.5
    root = call("sqrt", call("sqrt", v * v - log * (1 / 0.147)) - v)
    return select(x < 0, -root, root) * 1.41421356


def pair(f: Builder, row: Var, s: Expr, how: str, plain: tuple[Expr, Expr]) -> Tensor:
    """Two scores of one: for LOGISTIC those of -s and s, for PROBIT -p and p, else the `plain` ones."""
    p = probit(s)
    return beside(f, row, *{"LOGISTIC": (logistic(-s), logistic(s)), "PROBIT": (-p, p)}.get(how, plain))


def beside(f: Builder, row: Var, first: Expr, second: Expr) -> Tensor:
    """The scores of two classes."""
    y = f.empty(first.dtype, (row.extent or 0, 2), "scores")
    f.put(y, (row,), (row, 0), first)
    f.put(y, (row,), (row, 1), second)
    return y


def rows_of(f: Builder, x: Tensor) -> Tensor:
    """X as rows [N, F] of floats: float32, unless it is float64 or narrower."""
    return rows_as(f, x, x.type if x.type.is_float else FLOAT32)


def rows_as(f: Builder, x: Tensor, to: DType) -> Tensor:
    """X as rows [N, F] of a type; a vector is one row."""
    f.require(x.rank in (1, 2), f"rank {x.rank}, rows of features are needed")
    f.same_type((x,), "fi")
    if x.rank == 2 and to is x.type:
        return x
    shape: tuple[Extent, ...] = (1, *x.shape) if x.rank == 1 else x.shape
    axes = f.axes(shape, "n k")
    return f.map(axes, cast(x[axes[-x.rank :]], to.compute), to, "rows")


def transformed(f: Builder, scores: Tensor, how: str, name: str = "scores") -> Tensor:
    """The scores of every row [N, C] after one of TRANSFORMS."""
    axes = f.axes(scores.shape, "n c")
    if how in ("SOFTMAX", "SOFTMAX_ZERO"):
        return _softmax(f, scores, how == "SOFTMAX_ZERO", name)
    if how == "NONE":
        return scores
    return f.map(axes, (logistic if how == "LOGISTIC" else probit)(scores[axes]), scores.type, name)


def _softmax(f: Builder, scores: Tensor, skip_zeros: bool, name: str) -> Tensor:
    """exp(s) over its sum; with `skip_zeros`, scores of 0 stay 0 and count for nothing."""
    n, c = axes = f.axes(scores.shape, "n c")
    most = f.reduce("max", (n,), (c,), scores[axes], init=scores.type.compute.lowest, name="most")

    def power(zero: Expr) -> Expr:
        s = scores[axes]
        e = call("exp_nonpositive", s - most[n])
        return select((s > ZERO) | (s < -ZERO), e, zero) if skip_zeros else e

    total = f.reduce("sum", (n,), (c,), power(Const(0.0, scores.type.compute)), name="total")
    small = scores[axes] * call("exp", -most[n])
    return f.map(axes, power(small) / total[n], scores.type, name)
