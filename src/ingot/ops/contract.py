"""Contractions: sums of products. Convolutions of any rank, matrix products, Gemm.

In: operands on ONNX's axes. Out: one stage each, a sum over products of two elements; what follows the sum
(scale, bias) stands in its value. Generators know contractions by that form.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.formula.expr import Const, Expr, Extent, Tensor, Var
from ingot.formula.extents import extent
from ingot.formula.index import as_expr
from ingot.ops.registry import Builder, broadcast_shape, is_data, op, shapes_text, stretched
from ingot.ops.window import window

SPATIAL = {0: "", 1: "w", 2: "h w", 3: "d h w"}


@op("Conv")
def conv(
    f: Builder,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """y[n, oc, o...] = b[oc] + sum over ic, k of x[n, g*IC + ic, o*stride + k*dilation - pad] * w[oc, ic, k]

    g is the group of oc; beyond the input stand zeros (ONNX Conv-22).
    """
    f.require(
        b is None or b.shape == w.shape[:1], f"a bias of shape {b and b.shape} for {w.shape[0]} outputs"
    )
    if x.rank > 1 and is_data(x.shape[1]):
        channels = extent(as_expr(w.shape[1]) * group)
        apart = f"{shapes_text([x.shape])} has not {channels} channels"
        x = f.settled(x, (x.shape[0], channels, *x.shape[2:]), apart)
    over = convolution(f, x, w, auto_pad, dilations, group, kernel_shape, pads, strides)
    return f.reduce(
        "sum",
        over.outer,
        over.inner,
        x.at(over.a, outside=0) * w.at(over.b),
        post=lambda acc: acc if b is None else acc + b[over.outer[1]],
        dtype=x.type,
    )


@dataclass(frozen=True, slots=True)
class Contraction:
    """A sum of products: the axes of its result, those summed over, and where the operands are read."""

    outer: tuple[Var, ...]
    inner: tuple[Var, ...]
    a: tuple[Expr, ...]
    b: tuple[Expr, ...]


def convolution(
    f: Builder,
    x: Tensor,
    w: Tensor,
    auto_pad: str,
    dilations: tuple[int, ...] | None,
    group: int,
    kernel_shape: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
) -> Contraction:
    """ONNX Conv's attributes as index arithmetic; x may be read outside its shape. Raises ShapeError."""
    f.require(x.rank >= 3 and w.rank == x.rank, f"input rank {x.rank} and weight rank {w.rank} do not fit")
    kernel = f.fixed(w.shape[2:], "a window")
    f.require(
        kernel_shape is None or tuple(kernel_shape) == kernel,
        f"kernel_shape {kernel_shape} but weights {kernel}",
    )
    channels, per_group = x.shape[1], w.shape[1]
    f.require(
        group > 0 and channels == per_group * group,
        f"shapes {shapes_text((x.shape, w.shape))}: {group} groups do not have the input's channels",
    )
    f.require(w.shape[0] % group == 0, f"{w.shape[0]} outputs are not divisible into {group} groups")
    where = window(f, x.shape[2:], kernel, auto_pad, dilations, pads, strides)
    names = SPATIAL[len(where.out)].split()
    n, oc, *o = f.axes((x.shape[0], w.shape[0], *where.out), " ".join(["n oc", *(f"o{s}" for s in names)]))
    ic, *k = f.axes(w.shape[1:], " ".join(["ic", *(f"k{s}" for s in names)]))
    outputs = w.shape[0] // group
    channel: Expr = ic if group == 1 else (oc if outputs == 1 else oc // outputs) * per_group + ic
    return Contraction((n, oc, *o), (ic, *k), (n, channel, *where.positions(o, k)), (oc, ic, *k))


@op("Gemm")
def gemm(
    f: Builder,
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 1,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """y[m, n] = alpha * sum over k of a[m, k] * b[k, n] + beta * c, where c broadcasts (ONNX Gemm-13).

    With beta 0 nothing of c counts, an infinity neither, as in BLAS, the reference and onnxruntime. Up to
    opset 6 a model asks for the broadcast by an attribute.
    """
    f.require(a.rank == 2 and b.rank == 2, f"ranks {a.rank} and {b.rank}, 2 and 2 are needed")
    rows, inner = (a.shape[1], a.shape[0]) if transA else a.shape
    inner_b, columns = (b.shape[1], b.shape[0]) if transB else b.shape
    differ = f"inner dimensions {inner} and {inner_b} differ"
    inner = inner_b if is_data(inner) else inner
    a = f.settled(a, (inner, rows) if transA else (rows, inner), differ)
    b = f.settled(b, (columns, inner) if transB else (inner, columns), differ)
    fits = c is None or _fits(f, c.shape, (rows, columns))
    f.require(fits, f"c of shape {c and c.shape} does not broadcast to {(rows, columns)}")
    m, n = f.axes((rows, columns), "m n")
    k = Var("k", inner)
    term = a[(k, m) if transA else (m, k)] * b[(n, k) if transB else (k, n)]

    def post(acc: Expr) -> Expr:
        y = acc if alpha == 1 else acc * alpha
        if c is None or beta == 0:
            return y
        bias = stretched(f, c, (m, n))
        return y + (bias if beta == 1 else bias * beta)

    return f.reduce("sum", (m, n), (k,), term, post=post, dtype=a.type)


def _fits(f: Builder, shape: tuple[Extent, ...], to: tuple[Extent, ...]) -> bool:
    """Whether a shape broadcasts to another one; of extents that are data only the run tells."""
    made = broadcast_shape(f, shape, to)
    return len(made) == len(to) and all(n == m or is_data(m) for n, m in zip(made, to, strict=True))


@op("MatMul")
def matmul(f: Builder, a: Tensor, b: Tensor) -> Tensor:
    """y[..., m, n] = sum over k of a[..., m, k] * b[..., k, n]; batches broadcast."""
    a, b, over = matrix_product(f, a, b)
    return f.reduce("sum", over.outer, over.inner, a.at(over.a) * b.at(over.b), dtype=a.type)


def matrix_product(f: Builder, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Contraction]:
    """numpy.matmul's rule: batches broadcast, a vector is a row on the left and a column on the right.

    The operands come back as they are read: extents that are data are those of the other operand.
    """
    f.require(a.rank >= 1 and b.rank >= 1, "a scalar has no matrix product")
    apart = f"shapes {shapes_text((a.shape, b.shape))} do not fit"
    inner = b.shape[-2:][0] if is_data(a.shape[-1]) else a.shape[-1]
    a = f.settled(a, (*a.shape[:-1], inner), apart)
    b = f.settled(b, (*b.shape[:-2], inner, *b.shape[-2:][1:]), apart)
    batch = broadcast_shape(f, a.shape[:-2], b.shape[:-2])
    a, b = _batched(f, a, batch), _batched(f, b, batch)
    outer = f.axes(batch)
    m = f.axes(a.shape[-2:-1], "m" if a.rank > 1 else "")
    n = f.axes(b.shape[-1:], "n") if b.rank > 1 else ()
    k = Var("k", inner)

    def batched(t: Tensor) -> tuple[Expr, ...]:
        lead = t.shape[:-2]
        return tuple(
            Const(0) if e == 1 else x for e, x in zip(lead, outer[len(outer) - len(lead) :], strict=True)
        )

    return a, b, Contraction((*outer, *m, *n), (k,), (*batched(a), *m, k), (*batched(b), k, *n))


def _batched(f: Builder, t: Tensor, batch: tuple[Extent, ...]) -> Tensor:
    """`t`, with all the batch axes where only the run tells along which of them it broadcasts."""
    own = t.shape[:-2]
    if all(n in (1, m) for n, m in zip(own, batch[len(batch) - len(own) :], strict=True)):
        return t
    axes = f.axes((*batch, *t.shape[-2:]))
    return f.map(axes, stretched(f, t, axes), t.type, t.name)
