"""Matrix products whose weights are packed integers, with a scale per block of them: MatMulNBits.

In: floats, bytes that hold several weights of 2, 4 or 8 bits, scales and zero points. Out: the product.
Constant weights are unpacked where they are multiplied, so that the bundle holds them in as few bits as the
model does. Weights that only the run knows become floats first, once for all rows.
"""

from __future__ import annotations

from ingot.errors import UnsupportedError
from ingot.formula.expr import Const, Expr, Operand, Tensor, Var, cast
from ingot.formula.types import FLOAT32, INT32, UINT8
from ingot.ops.contract import matrix_product
from ingot.ops.registry import Builder, op, shapes_text

BITS = (2, 4, 8)


@op("MatMulNBits", domain="com.microsoft")
def matmul_n_bits(
    f: Builder,
    a: Tensor,
    b: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    g_idx: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    K: int,
    N: int,
    accuracy_level: int = 0,
    bits: int = 4,
    block_size: int,
    weight_prepacked: int = 0,
) -> Tensor:
    """y[..., n] = bias[n] + sum over k of a[..., k] * (q[n, k] - zero) * scale, the last two of n and block
    k // block_size; where there are no zero points, 2^(bits - 1) (com.microsoft MatMulNBits-1).

    `accuracy_level` is the least accuracy of a that the model asks for, from 1 (float32) to 4 (int8): all get
    float32. Raises UnsupportedError for g_idx and weights in a layout of one processor, ShapeError for levels
    that are none and operands that do not fit K, N and block_size.
    """
    f.require(0 <= accuracy_level <= 4, f"accuracy_level={accuracy_level}, 0 to 4 are known")
    _require_plain(f, g_idx, weight_prepacked)
    f.require(bits in BITS, f"{bits} bits per weight, {BITS} are known")
    power = block_size >= 16 and block_size & (block_size - 1) == 0
    f.require(power and K > 0 and N > 0, f"K={K}, N={N}, block_size={block_size}: a power of 2 from 16 on")
    f.require(a.rank > 0 and a.shape[-1] == K, f"a is {shapes_text([a.shape])}, its last axis must be K={K}")
    f.require(bias is None or bias.shape == (N,), f"bias is {bias and shapes_text([bias.shape])}, not [{N}]")
    k, n = f.axes((K, N), "k n")
    weight = _weight(f, b, scales, zero_points, (K, N, bits, block_size), a, (k, n))
    outer: tuple[Var, ...]
    inner: tuple[Var, ...]
    if all(t is None or t.value is not None for t in (b, scales, zero_points)):
        outer = (*f.axes(a.shape[:-1]), n)
        inner, term = (k,), a.at((*outer[:-1], k)) * weight
    else:
        a, weights, over = matrix_product(f, a, f.map((k, n), weight, a.type, "weights"))
        outer, inner, term = over.outer, over.inner, a.at(over.a) * weights.at(over.b)
    return f.reduce(
        "sum",
        outer,
        inner,
        term,
        post=lambda acc: acc if bias is None else acc + bias[outer[-1]],
        dtype=a.type,
    )


def _require_plain(f: Builder, g_idx: Tensor | None, weight_prepacked: int) -> None:
    reason = "g_idx (which block a row belongs to)" if g_idx is not None else "weight_prepacked"
    if g_idx is not None or weight_prepacked:
        raise UnsupportedError(
            f"{f.node.label}: {reason} is not supported",
            remedy="quantise the model anew with blocks in their order along K, not packed for one processor",
        )


def _weight(
    f: Builder,
    b: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    sizes: tuple[int, int, int, int],
    a: Tensor,
    point: tuple[Var, Var],
) -> Expr:
    """The weight at (k, n) as a float of a's type."""
    inner, columns, bits, block = sizes
    blocks = -(-inner // block)
    f.same_type((b,), "u")
    f.same_type((a, scales), "f")
    packed = (columns, blocks, block * bits // 8)
    f.require(b.type is UINT8 and b.shape == packed, f"b is {b.type}{shapes_text([b.shape])}, not {packed}")
    k, n = point
    within = k % block
    q = _bits_of(b[n, k // block, within * bits // 8], within, bits)
    zero: Expr = Const(1 << (bits - 1), INT32)
    if zero_points is not None and zero_points.type.is_float:
        zero = cast(_row_of(f, zero_points, columns, blocks, n, k // block), FLOAT32)
    elif zero_points is not None:
        f.require(zero_points.type is UINT8, f"zero points are {zero_points.type}, not uint8 or floats")
        row, at = -(-blocks * bits // 8), k // block
        zero = _bits_of(_row_of(f, zero_points, columns, row, n, at * bits // 8), at, bits)
    scale = cast(_row_of(f, scales, columns, blocks, n, k // block), FLOAT32)
    q = q - zero if zero.dtype is INT32 else cast(q, FLOAT32) - zero
    return cast(cast(q, FLOAT32) * scale, a.type.compute)


def _bits_of(byte: Expr, number: Expr, bits: int) -> Expr:
    """The bits of element `number` of those that are packed, the first one lowest."""
    wide, shift = cast(byte, INT32), cast(number * bits % 8, INT32)
    return wide if bits == 8 else (wide >> shift) & ((1 << bits) - 1)


def _row_of(f: Builder, t: Tensor, rows: int, each: int, n: Var, i: Operand) -> Expr:
    """t[n, i] of `each` numbers for every row; older models hold them in one axis."""
    f.require(
        t.shape in ((rows, each), (rows * each,)),
        f"{t.name!r} is {shapes_text([t.shape])}, {[rows, each]} is needed",
    )
    return t[n, i] if t.rank == 2 else t[n * each + i]
