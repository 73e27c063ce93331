"""Sliding windows: where kernels, strides, dilations and every form of padding become index arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ingot.formula.expr import Expr, Extent, Var, maximum, minimum, text
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, simplify
from ingot.formula.index import span as span_of
from ingot.ops.registry import Builder, is_data


@dataclass(frozen=True, slots=True)
class Window:
    """Per spatial axis: extent of the output, kernel, stride, dilation, padding before and after."""

    size: tuple[Extent, ...]
    out: tuple[Extent, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[Extent, ...]
    after: tuple[Extent, ...]

    def positions(self, outputs: Sequence[Var], taps: Sequence[Var]) -> tuple[Expr, ...]:
        """Where tap k of output o reads: o*stride + k*dilation - pad."""
        rows = zip(outputs, taps, self.strides, self.dilations, self.before, strict=True)
        return tuple(o * s + k * d - p for o, k, s, d, p in rows)

    def taps_inside(self, outputs: Sequence[Var], limit_after: Sequence[Extent] | None = None) -> Expr:
        """How many taps of the window at `outputs` fall on elements (or up to `limit_after` beyond them)."""
        from ingot.formula.expr import Const

        total: Expr = Const(1)
        extra: Sequence[Extent] = limit_after or [0] * len(self.kernel)
        lead: Sequence[Extent] = self.before if limit_after else [0] * len(self.kernel)
        for o, size, k, s, d, p, first, more in zip(
            outputs,
            self.size,
            self.kernel,
            self.strides,
            self.dilations,
            self.before,
            lead,
            extra,
            strict=True,
        ):
            origin = o * s - p
            begin = maximum((d - 1 - as_expr(first) - origin) // d, 0)  # ceil((-first - origin) / d)
            end = minimum((as_expr(size) - 1 + more - origin) // d + 1, k)
            total = total * (end - begin)
        return total


def window(
    f: Builder,
    size: tuple[Extent, ...],
    kernel: tuple[int, ...],
    auto_pad: str,
    dilations: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
    ceil_mode: bool = False,
    of_pool: bool = False,
) -> Window:
    """Resolve ONNX's window attributes (Conv-22 and MaxPool-22: auto_pad, ceil_mode). Raises ShapeError.

    Along each axis there must be a window, unless it is `of_pool`: a pool may have none, and its padding SAME
    cuts elements off where windows leave gaps (docs/math.md).
    """
    rank = len(size)
    strides = tuple(strides or (1,) * rank)
    dilations = tuple(dilations or (1,) * rank)
    pads = tuple(pads or (0,) * 2 * rank)
    sound = len(strides) == len(dilations) == len(kernel) == rank and len(pads) == 2 * rank
    f.require(sound, f"strides {strides}, dilations {dilations}, pads {pads} do not fit {rank} spatial axes")
    f.require(
        min((*strides, *dilations, *kernel), default=1) > 0, "strides, dilations and kernel must be positive"
    )
    limit = 1 << 24
    f.require(
        max((*strides, *dilations, *map(abs, pads)), default=0) < limit,
        "strides, dilations or pads are absurd",
    )
    before: list[Extent] = list(pads[:rank])
    after: list[Extent] = list(pads[rank:])
    out: list[Extent] = []
    for i, (n, k, s, d) in enumerate(zip(size, kernel, strides, dilations, strict=True)):
        span = (k - 1) * d + 1
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            before[i], after[i] = _same(n, span, s, auto_pad, of_pool)
            out.append(extent((as_expr(n) + (s - 1)) // s))
            continue
        f.require(auto_pad in ("NOTSET", "VALID"), f"auto_pad {auto_pad!r} is unknown")
        start, end = (0, 0) if auto_pad == "VALID" else (pads[i], pads[rank + i])
        before[i], after[i] = start, end
        out.append(_extent(f, n, span, s, start, end, ceil_mode, of_pool))
    return Window(size, tuple(out), kernel, strides, dilations, tuple(before), tuple(after))


def _same(n: Extent, span: int, stride: int, auto_pad: str, of_pool: bool) -> tuple[Extent, Extent]:
    """ONNX Conv: output ceil(n / stride); the odd element goes to the end for UPPER, else to the start."""
    total = span - 1 - (as_expr(n) - 1) % stride  # the last window starts (n - 1) % stride early
    first = total if auto_pad == "SAME_UPPER" else total + 1
    before = maximum(first, 0) // 2 - (maximum(-first, 0) // 2 if of_pool else 0)  # rounded towards 0
    after = (total if of_pool else maximum(total, 0)) - before
    return extent(before), extent(after)


def _extent(
    f: Builder,
    n: Extent,
    span: int,
    stride: int,
    before: int,
    after: int,
    ceil_mode: bool,
    of_pool: bool,
) -> Extent:
    if not isinstance(n, int):
        return _late_extent(f, n, span, stride, before, after, ceil_mode)
    room = n + before + after - span
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode:  # the last window must start inside the input or its left padding (ONNX MaxPool)
        count -= (count - 1) * stride >= n + before
    is_rounded = room < 0 and room % stride != 0 and not ceil_mode
    f.require(
        count > 0 or (count == 0 and of_pool and not is_rounded),
        f"a window of {span} does not fit {n} elements padded by {before} and {after}",
    )
    return count


def _late_extent(
    f: Builder, n: Expr, span: int, stride: int, before: int, after: int, ceil_mode: bool
) -> Extent:
    """The same for an extent known at run time only, every value of which must leave room for a window."""
    room = n + before + after - span
    count: Expr = room // stride + 1
    if ceil_mode:
        count = minimum((room + (stride - 1)) // stride, (n + before - 1) // stride) + 1
    if is_data(n):
        return extent(maximum(count, 0))
    least, _ = span_of(simplify(count))
    f.require(
        least > 0,
        f"a window of {span} does not fit every extent that {text(n)} can take, padded by {before} and "
        f"{after}; raise the lower bound given with --define",
    )
    return extent(count)
