"""Transposed convolution, as sums over what each output gathers.

Output o meets input i through tap k where o + pad == i*stride + k*dilation. Outputs of equal o % stride meet
the same taps, so each such phase is a plain convolution with every (stride / gcd)-th tap: no loop divides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product as combinations
from math import gcd, prod

from ingot.formula.expr import Const, Expr, Extent, Tensor, Var, wrap
from ingot.formula.extents import extent
from ingot.formula.index import as_expr
from ingot.formula.types import DType
from ingot.ops.contract import SPATIAL
from ingot.ops.registry import Builder, op, shapes_text

MOST_PHASES = 64
Index = tuple[Expr, ...]
Term = Callable[[Index, Index], Expr]
"""What is summed at a place of the input and one of the weights."""
Post = Callable[[Expr, Var], Expr]
"""What becomes of the sum for an output channel."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One spatial axis: extents of input and output, kernel, stride, dilation, and padding before."""

    size: Extent
    out: Extent
    kernel: int
    stride: int
    dilation: int
    before: int

    def phase(self, r: int) -> Phase:
        """The taps that outputs r, r + stride, ... meet."""
        base, common = r + self.before, gcd(self.stride, self.dilation)
        every, apart = self.stride // common, self.dilation // common
        first = next((k for k in range(every) if (base - k * self.dilation) % self.stride == 0), self.kernel)
        taps = max(0, -(-(self.kernel - first) // every))
        outputs = extent((as_expr(self.out) + (self.stride - 1 - r)) // self.stride)
        # tap 0 of the phase is the kernel's last, so that positions in x grow with it
        last = first + (taps - 1) * every
        return Phase(r, outputs, taps, last, every, (base - last * self.dilation) // self.stride, apart)


@dataclass(frozen=True, slots=True)
class Phase:
    """Output q*stride + start meets input q + origin + j*apart through tap last - j*every, for j < taps."""

    start: int
    outputs: Extent
    taps: int
    last: int
    every: int
    origin: int
    apart: int


@op("ConvTranspose")
def conv_transpose(
    f: Builder,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    output_padding: tuple[int, ...] | None = None,
    output_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """y[n, oc, o...] = b[oc] + sum over ic, k... of x[n, ic, (o + pad - k*dilation) / stride] * w[ic, oc, k].

    The sum takes the taps for which the division leaves no remainder (ONNX ConvTranspose-22).
    """
    where = geometry(
        f, x, w, auto_pad, dilations, group, kernel_shape, output_padding, output_shape, pads, strides
    )
    channels = extent(as_expr(w.shape[1]) * group)
    fits = b is None or b.shape == (channels,)
    f.require(fits, f"a bias of shape {b and b.shape} for {group} times {w.shape[1]} outputs")

    def term(i: Index, k: Index) -> Expr:
        return where.x.at(i, outside=0) * w.at(k, outside=0 if where.is_at_once else None)

    def post(acc: Expr, oc: Var) -> Expr:
        return acc if b is None else acc + b[oc]

    return where.build(x.type, term, post)


def geometry(
    f: Builder,
    x: Tensor,
    w: Tensor,
    auto_pad: str,
    dilations: tuple[int, ...] | None,
    group: int,
    kernel_shape: tuple[int, ...] | None,
    output_padding: tuple[int, ...] | None,
    output_shape: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
) -> Transposed:
    """The attributes of a transposed convolution, resolved. Raises ShapeError where they do not fit."""
    rank = x.rank - 2
    f.require(rank >= 1 and w.rank == x.rank, f"input rank {x.rank} and weight rank {w.rank} do not fit")
    kernel = f.fixed(w.shape[2:], "a window")
    fits = kernel_shape is None or tuple(kernel_shape) == kernel
    f.require(fits, f"kernel_shape {kernel_shape} but weights {kernel}")
    apart = f"{shapes_text([x.shape])} has not the channels of weights {shapes_text([w.shape])}"
    x = f.settled(x, (x.shape[0], w.shape[0], *x.shape[2:]), apart)
    grouped = group == 1 or (group > 1 and f.fixed(w.shape[:1], "channels")[0] % group == 0)
    f.require(grouped, f"{w.shape[0]} channels in {group} groups")
    s, d, more = (tuple(v or (n,) * rank) for v, n in ((strides, 1), (dilations, 1), (output_padding, 0)))
    ends = tuple(pads or (0,) * 2 * rank)
    f.require(len(more) == rank, f"output_padding has {len(more)} numbers for {rank} spatial axes")
    sound = len(s) == len(d) == rank and len(ends) == 2 * rank and min(*s, *d, *kernel) > 0
    f.require(sound, f"strides {s}, dilations {d}, pads {ends} do not fit {rank} spatial axes")
    f.require(output_shape is None or len(output_shape) == rank, f"output_shape {output_shape}")
    spreads = []
    for i in range(rank):
        wanted = None if output_shape is None else output_shape[i]
        pair = (ends[i], ends[rank + i])
        spreads.append(_spread(f, x.shape[2 + i], kernel[i], s[i], d[i], more[i], pair, wanted, auto_pad))
    return Transposed(f, x, w, group, tuple(spreads))


def _spread(
    f: Builder,
    size: Extent,
    kernel: int,
    stride: int,
    dilation: int,
    more: int,
    pads: tuple[int, int],
    wanted: int | None,
    auto_pad: str,
) -> Spread:
    """Resolve the padding of one axis: given, or what is left over from a given output, halved."""
    span = extent((as_expr(size) - 1) * stride + more + (kernel - 1) * dilation + 1)
    if wanted is None and auto_pad in ("NOTSET", "VALID"):
        before, after = pads if auto_pad == "NOTSET" else (0, 0)
        return Spread(size, extent(as_expr(span) - before - after), kernel, stride, dilation, before)
    f.require(
        auto_pad in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"), f"auto_pad {auto_pad!r} is unknown"
    )
    if wanted is None:  # size * stride; less where the windows leave gaps
        beyond = more + (kernel - 1) * dilation + 1 - stride
        out, total = extent(as_expr(size) * stride + min(beyond, 0)), max(beyond, 0)
    else:
        f.require(isinstance(span, int), "a given output needs a static extent")
        assert isinstance(span, int)
        out, total = wanted, max(span - wanted, 0)
    # the odd element goes to the end for SAME_UPPER, to the start otherwise
    before = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
    return Spread(size, out, kernel, stride, dilation, before)


@dataclass(frozen=True, slots=True)
class Transposed:
    """One node, its geometry resolved."""

    f: Builder
    x: Tensor
    w: Tensor
    group: int
    spreads: tuple[Spread, ...]

    @property
    def is_at_once(self) -> bool:
        """Whether one stage makes all outputs: phases are too many."""
        many = prod(s.stride for s in self.spreads) > MOST_PHASES
        return many and all(s.dilation == 1 for s in self.spreads)

    def build(self, to: DType, term: Term, post: Post) -> Tensor:
        """The result, of the sums of terms at places of x and w; some of both may lie outside."""
        channels = extent(as_expr(self.w.shape[1]) * self.group)
        shape = (self.x.shape[0], channels, *(s.out for s in self.spreads))
        for s in self.spreads:
            self.f.require(not isinstance(s.out, int) or s.out > 0, f"output {shape} has no elements")
        out = self.f.empty(to, shape)
        if self.is_at_once:
            self._at_once(out, term, post)
            return out
        for starts in combinations(*(range(s.stride) for s in self.spreads)):
            phases = tuple(s.phase(r) for s, r in zip(self.spreads, starts, strict=True))
            if all(not isinstance(p.outputs, int) or p.outputs > 0 for p in phases):
                self._phase(out, phases, term, post)
        return out

    def _axes(self, outputs: tuple[Extent, ...]) -> tuple[Var, ...]:
        names = " ".join(["n oc", *(f"o{s}" for s in SPATIAL[len(outputs)].split())])
        channels = extent(as_expr(self.w.shape[1]) * self.group)
        return self.f.axes((self.x.shape[0], channels, *outputs), names)

    def _taps(self, counts: tuple[int, ...]) -> tuple[Var, ...]:
        """The reduction's axes: input channels of the group, then taps."""
        names = " ".join(["ic", *(f"k{s}" for s in SPATIAL[len(counts)].split())])
        inputs = extent(as_expr(self.w.shape[0]) // self.group)
        return self.f.axes((inputs, *counts), names)

    def _channels(self, oc: Var, ic: Var) -> tuple[Expr, Expr]:
        """The input channel that ic means for output channel oc, and oc within its group."""
        if self.group == 1:
            return ic, oc
        outputs, inputs = as_expr(self.w.shape[1]), as_expr(self.w.shape[0]) // self.group
        if outputs == Const(1):
            return oc * inputs + ic, Const(0)
        return oc // outputs * inputs + ic, oc % outputs

    def _nothing(self, term: Term) -> Expr:
        """The sum of no terms."""
        zeros = (Const(0),) * self.w.rank
        return wrap(0, term(zeros, zeros).dtype)

    def _phase(self, out: Tensor, phases: tuple[Phase, ...], term: Term, post: Post) -> None:
        """The outputs of one residue per axis."""
        axes = self._axes(tuple(p.outputs for p in phases))
        n, oc, *q = axes
        steps = zip(q, phases, self.spreads, strict=True)
        at = (n, oc, *(v * s.stride + p.start for v, p, s in steps))
        if not all(p.taps for p in phases):
            self.f.put(out, axes, at, post(self._nothing(term), oc))
            return
        taps = ic, *j = self._taps(tuple(p.taps for p in phases))
        channel, local = self._channels(oc, ic)
        where = tuple(v + p.origin + t * p.apart for v, t, p in zip(q, j, phases, strict=True))
        weight = tuple(p.last - t * p.every for t, p in zip(j, phases, strict=True))
        product = term((n, channel, *where), (channel, local, *weight))
        self.f.reduce("sum", axes, taps, product, post=lambda acc: post(acc, oc), into=(out, at))

    def _at_once(self, out: Tensor, term: Term, post: Post) -> None:
        """All outputs in one stage, each with its own first tap: for strides with too many phases."""
        axes = n, oc, *o = self._axes(tuple(s.out for s in self.spreads))
        taps = ic, *j = self._taps(tuple(-(-s.kernel // s.stride) for s in self.spreads))
        channel, local = self._channels(oc, ic)
        rows = list(zip(o, j, self.spreads, strict=True))
        where = tuple((v + s.before) // s.stride - t for v, t, s in rows)
        weight = tuple((v + s.before) % s.stride + t * s.stride for v, t, s in rows)
        product = term((n, channel, *where), (channel, local, *weight))
        self.f.reduce("sum", axes, taps, product, post=lambda acc: post(acc, oc), into=(out, axes))
