"""Operators that draw random numbers: uniform, normal, Bernoulli, multinomial, and Dropout in training.

In: shapes, probabilities, a seed. Out: maps over the words of `philox`. Behind the inputs that ONNX knows all
take one more, the number of the call: other numbers for every one. `passes/number_calls.py` puts it there.
"""

from __future__ import annotations

from ingot.formula.expr import Const, Expr, Extent, Tensor, Var, binary, call, cast, minimum, select, wrap
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, product
from ingot.formula.types import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, DType
from ingot.graph.ir import Graph, Node
from ingot.graph.onnx_types import dtype_from_onnx
from ingot.ops.philox import Random, key_of, random
from ingot.ops.registry import Builder, op
from ingot.ops.runtime import require_single

INPUTS = {
    "RandomUniform": 0,
    "RandomNormal": 0,
    "RandomUniformLike": 1,
    "RandomNormalLike": 1,
    "Bernoulli": 1,
    "Multinomial": 1,
    "Dropout": 3,
}
"""The operators here, and how many inputs ONNX gives them: the number of the call comes behind these."""

BITS = {FLOAT16: 11, BFLOAT16: 8}  # what these tell apart: more would round up to 1
FLOAT = 1


def draws(node: Node) -> bool:
    """Whether a node may draw random numbers: Dropout does where it may be training."""
    if node.domain or node.op != "Dropout":
        return not node.domain and node.op in INPUTS
    training = node.inputs[2] if node.version >= 12 and len(node.inputs) > 2 else None
    return training is not None and (training.constant is None or bool(training.constant.any()))


def drawing(graph: Graph) -> list[Node]:
    """The nodes that do, those of subgraphs too."""
    inner = [n for node in graph.nodes for sub in node.subgraphs.values() for n in drawing(sub)]
    return [n for n in graph.nodes if draws(n)] + inner


def _numbers(
    f: Builder, shape: tuple[Extent, ...], dtype: DType, seed: float | None, number: Tensor | None
) -> tuple[Random, tuple[Var, ...], Expr]:
    """The generator, the axes of the result and the number of an element."""
    axes, flat = f.axes(shape), as_expr(0)
    for a, n in zip(axes, shape, strict=True):
        flat = flat * n + a
    drawn = random(f, extent(product(shape)), dtype, key_of(f.node, seed), _call(f, number))
    return drawn, axes, flat


def _call(f: Builder, number: Tensor | None) -> Tensor | None:
    f.require(number is None or (number.type is INT64 and number.count == 1), "the call is one int64")
    return number


def _float(f: Builder, dtype: int | DType) -> DType:
    found = dtype_from_onnx(dtype) if isinstance(dtype, int) else dtype
    f.require(found.is_float, f"random numbers are floats, not {found}")
    return found


def _uniform(
    f: Builder,
    shape: tuple[Extent, ...],
    dtype: DType,
    low: float,
    high: float,
    seed: float | None,
    number: Tensor | None,
) -> Tensor:
    drawn, axes, i = _numbers(f, shape, dtype, seed, number)
    u = drawn.unit(i, BITS.get(dtype))
    y = u if (low, high) == (0, 1) else u * (high - low) + low
    inside = y if (low, high) == (0, 1) else select(y < high, y, wrap(low, y.dtype))  # not rounded up to it
    return f.map(axes, inside, dtype)


def _normal(
    f: Builder,
    shape: tuple[Extent, ...],
    dtype: DType,
    mean: float,
    scale: float,
    seed: float | None,
    number: Tensor | None,
) -> Tensor:
    drawn, axes, i = _numbers(f, shape, dtype, seed, number)
    y = drawn.normal(i)
    return f.map(axes, y if (mean, scale) == (0, 1) else y * scale + mean, dtype)


def _shape(f: Builder, shape: tuple[int, ...]) -> tuple[Extent, ...]:
    f.require(min((0, *shape)) >= 0, f"shape {list(shape)} is negative")
    return tuple(shape)


@op("RandomUniform")
def random_uniform(
    f: Builder,
    number: Tensor | None = None,
    *,
    dtype: int = FLOAT,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> Tensor:
    """Numbers between low and high, which is never one (RandomUniform-22)."""
    return _uniform(f, _shape(f, shape), _float(f, dtype), low, high, seed, number)


@op("RandomUniformLike")
def random_uniform_like(
    f: Builder,
    x: Tensor,
    number: Tensor | None = None,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Tensor:
    """RandomUniform of the shape, and unless `dtype` says otherwise of the type, of x (-22)."""
    return _uniform(f, x.shape, _float(f, x.type if dtype is None else dtype), low, high, seed, number)


@op("RandomNormal")
def random_normal(
    f: Builder,
    number: Tensor | None = None,
    *,
    dtype: int = FLOAT,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> Tensor:
    """Normal numbers of a mean and a standard deviation (RandomNormal-22)."""
    return _normal(f, _shape(f, shape), _float(f, dtype), mean, scale, seed, number)


@op("RandomNormalLike")
def random_normal_like(
    f: Builder,
    x: Tensor,
    number: Tensor | None = None,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    """RandomNormal of the shape, and unless `dtype` says otherwise of the type, of x (-22)."""
    return _normal(f, x.shape, _float(f, x.type if dtype is None else dtype), mean, scale, seed, number)


@op("Bernoulli", since=15)
def bernoulli(
    f: Builder,
    x: Tensor,
    number: Tensor | None = None,
    *,
    dtype: int | None = None,
    seed: float | None = None,
) -> Tensor:
    """1 with probability x, else 0 (Bernoulli-22)."""
    f.same_type((x,), "f")
    to = x.type if dtype is None else dtype_from_onnx(dtype)
    f.require(to.kind in "fiub", f"outcomes are numbers, not {to}")
    drawn, axes, i = _numbers(f, x.shape, x.type, seed, number)
    hit = drawn.unit(i) < x[axes]
    return f.map(axes, select(hit, wrap(1, to.compute), wrap(0, to.compute)), to)


@op("Multinomial", since=7)
def multinomial(
    f: Builder,
    x: Tensor,
    number: Tensor | None = None,
    *,
    dtype: int = 6,
    sample_size: int = 1,
    seed: float | None = None,
) -> Tensor:
    """`sample_size` classes of each row, class c with a probability in proportion to e^x[c] (-22)."""
    f.same_type((x,), "f")
    to = dtype_from_onnx(dtype)
    f.require(x.rank == 2 and x.shape[1] != 0, f"shape {list(x.shape)}, rows of classes are needed")
    f.require(to in (INT32, INT64) and sample_size >= 0, f"{sample_size} samples of type {to}")
    (b, c), k = f.axes(x.shape, "b c"), Var("k", x.shape[1])
    top = f.reduce("max", (b,), (c,), cast(x[b, c], FLOAT64), init=FLOAT64.lowest, name="top")
    sums = f.empty(FLOAT64, x.shape, "sums")
    total = f.map((b,), Const(0.0, FLOAT64), name="total")

    def body() -> None:
        f.put(total, (b,), (b,), total[b] + call("exp_nonpositive", cast(x[b, k], FLOAT64) - top[b]))
        f.put(sums, (b,), (b, k), total[b])

    f.scan(k, (total,), body)
    drawn, (r, s), i = _numbers(f, (x.shape[0], sample_size), FLOAT32, seed, number)
    place = cast(drawn.word(i), FLOAT64) * 2.0**-32 * total[r]  # always less than the total
    below = binary("le", sums[r, c], place)
    last = as_expr(x.shape[1]) - 1

    def post(acc: Expr) -> Expr:
        return cast(minimum(acc, cast(last, INT64)), to)

    return f.reduce("sum", (r, s), (c,), cast(below, INT64), post=post, dtype=to)


@op("Dropout", since=12)
def dropout(
    f: Builder,
    x: Tensor,
    ratio: Tensor | None = None,
    training_mode: Tensor | None = None,
    number: Tensor | None = None,
    *,
    seed: int | None = None,
) -> tuple[Tensor, ...]:
    """In training, elements are 0 with probability `ratio`, the others 1 / (1 - ratio) times as large.

    The mask says which are kept. Otherwise y = x and all are kept (Dropout-22).
    """
    f.same_type((x,), "fn")
    require_single(f, "f", ratio=ratio)
    require_single(f, "b", training_mode=training_mode)
    never = training_mode is None or _is(training_mode, False) or (ratio is not None and _is(ratio, 0))
    if never:
        return kept(f, x, BOOL)
    wide = FLOAT64 if x.type is FLOAT64 else FLOAT32
    part = Const(0.5, wide) if ratio is None else cast(ratio.at((0,) * ratio.rank), wide)
    assert training_mode is not None
    on = training_mode.at((0,) * training_mode.rank)
    drawn, axes, i = _numbers(f, x.shape, x.type, seed, number)
    mask = f.map(axes, call("not", on) | binary("ge", drawn.unit(i), part), BOOL, "mask")
    factor = select(on, 1.0 / (1.0 - part), wrap(1, wide))
    y = f.map(axes, select(mask[axes], x[axes] * factor, wrap(0, wide)), x.type)
    return y, mask


def _is(t: Tensor, value: float) -> bool:
    return t.value is not None and t.value.size == 1 and bool(t.value.item() == value)


def kept(f: Builder, x: Tensor, mask: DType) -> tuple[Tensor, ...]:
    """x as it is, and a mask of ones. A view is all that its operator makes: with the mask it is a copy."""
    axes = f.axes(x.shape)
    y = f.map(axes, x[axes], x.type)
    if f.wanted[1:] == (True,):
        return y, f.map(axes, Const(1, mask.compute), mask, name="mask")
    f.view = x
    return (y,)


@op("Dropout", since=10)
def dropout_10(f: Builder, x: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, ...]:
    """Dropout-10 says nothing of training; it is for inference."""
    return kept(f, x, BOOL)


@op("Dropout")
def dropout_1(f: Builder, x: Tensor, *, ratio: float = 0.5, is_test: int = 0) -> tuple[Tensor, ...]:
    """Before opset 10 the mask has the type of x. is_test = 0 stands in models exported for inference too."""
    return kept(f, x, x.type)
