"""Sliding windows: where kernels, strides, dilations and every form of padding become index arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ingot.formula.expr import Expr, Extent, Var, extent, maximum, minimum, text
from ingot.formula.index import interval, simplify
from ingot.ops.registry import Builder, is_data


@dataclass(frozen=True, slots=True)
class Window:
    """Per spatial axis: extent of the output, kernel, stride, dilation, padding before and after."""

    size: tuple[Extent, ...]
    out: tuple[Extent, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def positions(self, outputs: Sequence[Var], taps: Sequence[Var]) -> tuple[Expr, ...]:
        """Where tap k of output o reads: o*stride + k*dilation - pad."""
        rows = zip(outputs, taps, self.strides, self.dilations, self.before, strict=True)
        return tuple(o * s + k * d - p for o, k, s, d, p in rows)

    def taps_inside(self, outputs: Sequence[Var], limit_after: Sequence[int] | None = None) -> Expr:
        """How many taps of the window at `outputs` fall on elements (or up to `limit_after` beyond them)."""
        from ingot.formula.expr import Const

        total: Expr = Const(1)
        extra = limit_after or [0] * len(self.kernel)
        lead = self.before if limit_after else (0,) * len(self.kernel)
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
            begin = maximum((d - 1 - first - origin) // d, 0)  # ceil((-first - origin) / d)
            end = minimum((size - 1 + more - origin) // d + 1, k)
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
) -> Window:
    """Resolve ONNX's window attributes (Conv-22 and MaxPool-22: auto_pad, ceil_mode). Raises ShapeError."""
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
    before, after = list(pads[:rank]), list(pads[rank:])
    out: list[Extent] = []
    for i, (n, k, s, d) in enumerate(zip(size, kernel, strides, dilations, strict=True)):
        span = (k - 1) * d + 1
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            before[i], after[i] = _same(f, n, span, s, auto_pad)
        elif auto_pad == "VALID":
            before[i] = after[i] = 0
        else:
            f.require(auto_pad == "NOTSET", f"auto_pad {auto_pad!r} is unknown")
        out.append(_extent(f, n, span, s, before[i], after[i], ceil_mode and auto_pad in ("NOTSET", "VALID")))
    return Window(size, tuple(out), kernel, strides, dilations, tuple(before), tuple(after))


def _same(f: Builder, n: Extent, span: int, stride: int, auto_pad: str) -> tuple[int, int]:
    """ONNX Conv: output ceil(n / stride); the odd element goes to the end for UPPER, else to the start."""
    if isinstance(n, int):
        total = max((-(-n // stride) - 1) * stride + span - n, 0)
    else:
        f.require(
            stride == 1, f"auto_pad SAME with stride {stride} needs one extent: --define it as a number"
        )
        total = span - 1
    small = total // 2
    return (small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small)


def _extent(
    f: Builder, n: Extent, span: int, stride: int, before: int, after: int, ceil_mode: bool
) -> Extent:
    if not isinstance(n, int):
        return _late_extent(f, n, span, stride, before, after, ceil_mode)
    room = n + before + after - span
    f.require(
        room >= 0 or ceil_mode, f"a window of {span} does not fit {n} elements padded by {before} and {after}"
    )
    if not ceil_mode:
        return room // stride + 1
    count = -(-room // stride) + 1
    # the last window must start inside the input or its left padding (ONNX MaxPool, ceil_mode)
    count -= (count - 1) * stride >= n + before
    f.require(count > 0, f"no window of {span} fits {n} elements padded by {before} and {after}")
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
    least, _ = interval(simplify(count))
    f.require(
        least > 0,
        f"a window of {span} does not fit every extent that {text(n)} can take, padded by {before} and "
        f"{after}; raise the lower bound given with --define",
    )
    return extent(count)
