"""Windows, and the weights that make a mel spectrum of a linear one: what follows from a few numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingot.formula.expr import Expr, Extent, Tensor, Var, binary, call, cast, equal, select, wrap
from ingot.formula.index import as_expr
from ingot.formula.types import FLOAT32, FLOAT64, INT64, DType
from ingot.graph.onnx_types import dtype_from_onnx
from ingot.ops.registry import Builder, op
from ingot.ops.runtime import require_single, scalar


def _numbers(f: Builder, output_datatype: int) -> DType:
    dtype = dtype_from_onnx(output_datatype)
    f.require(dtype.kind in "fiu", f"output_datatype is {dtype}, no type of numbers")
    return dtype


def _window(name: str, weights: Sequence[float]) -> None:
    """Register a window: the sum of weights[j] * cos(2 pi j i / n), n = size or (periodic = 0) size - 1."""

    @op(name, since=17)
    def define(f: Builder, size: Tensor, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
        require_single(f, "iu", size=size)
        dtype = _numbers(f, output_datatype)
        late = f.is_late(size)
        n = f.measured(f.map((), scalar(size)), None) if late else f.extents(size, "size")[0]
        f.require(not isinstance(n, int) or n >= 0, f"size {n} is negative")
        (i,) = f.axes((n,), "i")
        wide = FLOAT64 if dtype is FLOAT64 else FLOAT32
        turn = cast(i, wide) * (2 * math.pi) / cast(as_expr(n) - (0 if periodic else 1), wide)
        total: Expr = wrap(weights[0], wide)
        for j, w in reversed(list(enumerate(weights[1:], 1))):  # so that what is 0 at the ends is 0
            total = total + call("cos", turn * float(j)) * w
        return f.map((i,), cast(total, dtype.compute), dtype)


_window("HannWindow", (0.5, -0.5))
_window("HammingWindow", (25 / 46, -21 / 46))
_window("BlackmanWindow", (0.42, -0.5, 0.08))


@op("MelWeightMatrix", since=17)
def mel_weight_matrix(
    f: Builder,
    num_mel_bins: Tensor,
    dft_length: Tensor,
    sample_rate: Tensor,
    lower_edge_hertz: Tensor,
    upper_edge_hertz: Tensor,
    *,
    output_datatype: int = 1,
) -> Tensor:
    """y[j, i]: triangle i over the bins j of a spectrum, from bin edge[i] over edge[i+1] to edge[i+2].

    The edges are equally far apart on the mel scale, 2595 * log10(1 + hertz / 700) (MelWeightMatrix-17).
    """
    require_single(f, "iu", num_mel_bins=num_mel_bins, dft_length=dft_length, sample_rate=sample_rate)
    require_single(f, "f", lower_edge_hertz=lower_edge_hertz, upper_edge_hertz=upper_edge_hertz)
    shape = f.declared(num_mel_bins, dft_length)
    if shape is None:
        shape = (
            f.integers(dft_length, "dft_length")[0] // 2 + 1,
            f.integers(num_mel_bins, "num_mel_bins")[0],
        )
    f.require(len(shape) == 2 and min((n for n in shape if isinstance(n, int)), default=0) >= 0, f"{shape}")
    dtype = _numbers(f, output_datatype)
    edge = _edges(f, shape[1], dft_length, sample_rate, (lower_edge_hertz, upper_edge_hertz))
    j, i = f.axes(shape, "j i")
    left, centre, right, bin_ = edge[i], edge[i + 1], edge[i + 2], cast(j, INT64)

    def share(a: Expr, b: Expr) -> Expr:
        return cast(a, FLOAT64) / cast(b, FLOAT64)

    one, zero = wrap(1, FLOAT64), wrap(0, FLOAT64)
    rising = select(
        equal(left, centre),
        select(equal(bin_, centre), one, zero),
        select(_between(left, bin_, centre + 1), share(bin_ - left, centre - left), zero),
    )
    y = select(_between(centre, bin_, right), share(right - bin_, right - centre), rising)
    return f.map((j, i), cast(y, dtype.compute), dtype)


def _between(low: Expr, e: Expr, high: Expr) -> Expr:
    return binary("le", low, e) & (e < high)


def _edges(f: Builder, bins: Extent, length: Tensor, rate: Tensor, hertz: tuple[Tensor, Tensor]) -> Tensor:
    """The bins of the spectrum where triangles begin, peak and end."""

    def number(t: Tensor) -> Expr:
        return cast(t.at((0,) * t.rank), FLOAT64)

    low, high = (call("log1p", number(t) / 700.0) * (2595 / math.log(10)) for t in hertz)
    i = Var("i", as_expr(bins) + 2 if not isinstance(bins, int) else bins + 2)
    mel = cast(i, FLOAT64) * ((high - low) / cast(as_expr(bins) + 2, FLOAT64)) + low
    place = call("expm1", mel * (math.log(10) / 2595)) * 700.0
    value = call("floor", (number(length) + 1.0) * place / number(rate))
    return f.map((i,), cast(value, INT64), name="edge")
