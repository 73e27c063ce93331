"""DFT and STFT: signals to spectra and back.

In: signals [..., 1 or 2], real or complex. Out: what `fft` makes of them. Real signals are transformed in
float64, for results that cancel to 0 must do so however large their neighbours are; complex ones, which have
rounding errors of their own, in the type they have. numpy, and so the reference, does the same.

What is known at run time only (the axis, lengths, the step of the frames) must be one of the ways to get the
shape that the model declares: each is computed, and the bundle takes the one that it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Operand,
    Tensor,
    Var,
    cast,
    equal,
    maximum,
    minimum,
    select,
    static,
    text,
    wrap,
)
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, interval, simplify
from ingot.formula.types import BOOL, FLOAT64, INDEX, INT64
from ingot.ops.fft import fft
from ingot.ops.registry import Builder, op
from ingot.ops.runtime import require_single, zero_if

FAR = 1 << 30  # beyond every signal
Way = tuple[int, Extent]


def number(t: Tensor) -> Expr:
    """The one element of a run-time parameter."""
    return cast(t.at((0,) * t.rank), INT64)


@dataclass(frozen=True, slots=True)
class Kind:
    """Which of the transforms: back to signals, and with one half of a symmetric spectrum only."""

    inverse: bool
    onesided: bool

    def length(self, n: Extent) -> Extent:
        """How many elements a transform of `n` gives."""
        return n // 2 + 1 if self.onesided and not self.inverse else n

    @property
    def parts(self) -> int:
        """1 for real results: half a spectrum is that of a real signal."""
        return 1 if self.onesided and self.inverse else 2

    def lengths(self, given: Extent) -> tuple[Extent, ...]:
        """The transforms that give so many elements."""
        if not self.onesided or self.inverse:
            return (given,) if given != 0 else ()
        return tuple(n for n in (2 * given - 2, 2 * given - 1) if n != 0) if isinstance(given, int) else ()


@op("DFT", since=20)
def dft(
    f: Builder,
    x: Tensor,
    dft_length: Tensor | None = None,
    axis: Tensor | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """y[k] = sum over t of x[t] * e^(-2 pi i k t / n) along an axis, by default the last before the parts.

    Shorter signals are followed by zeros, longer ones cut; the inverse divides by n (DFT-20).
    """
    return _dft(f, x, dft_length, -2 if axis is None else axis, Kind(bool(inverse), bool(onesided)))


@op("DFT", since=17)
def dft_17(
    f: Builder,
    x: Tensor,
    dft_length: Tensor | None = None,
    *,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """DFT-17: the axis is an attribute."""
    return _dft(f, x, dft_length, axis, Kind(bool(inverse), bool(onesided)))


def _dft(f: Builder, x: Tensor, length: Tensor | None, axis: Tensor | int, kind: Kind) -> Tensor:
    f.same_type((x,), "f")
    require_single(f, "iu", dft_length=length, axis=axis if isinstance(axis, Tensor) else None)
    f.require(x.rank >= 2 and x.shape[-1] in (1, 2), f"shape {list(x.shape)}: the last axis is 1 or 2 parts")
    ways = _ways(f, x, length, axis, kind)
    answers = [_transformed(f, x, a, n, kind) for a, n in ways]
    asked = [_is_asked(x, length, axis, way) for way in ways]
    return _chosen(f, answers, asked, x)


def _ways(f: Builder, x: Tensor, length: Tensor | None, axis: Tensor | int, kind: Kind) -> list[Way]:
    """The axes and lengths that the transform may have."""
    late = [t for t in (length, axis) if isinstance(t, Tensor)]
    declared = f.declared(*late)
    if declared is None and length is None and not kind.onesided and f.is_late(*late):
        declared = (*x.shape[:-1], 2)  # which axis it is makes no difference to the shape
    if declared is None:
        known = axis if isinstance(axis, int) else f.integers(axis, "axis")[0]
        a = f.axis(known, x.rank)
        f.require(a < x.rank - 1, f"axis {known} holds the real and imaginary parts")
        n = _default(x, a, kind) if length is None else f.extents(length, "dft_length")[0]
        f.require(not isinstance(n, int) or 0 < n < 1 << 24, f"a transform of {n} elements")
        return [(a, n)]
    fits = len(declared) == x.rank and declared[-1] == kind.parts
    f.require(fits, f"declared as {list(declared)}, the signal is {list(x.shape)}")
    found = [(a, n) for a in range(x.rank - 1) for n in kind.lengths(declared[a])]
    rest = [(a, n) for a, n in found if _others(declared, a) == _others(x.shape, a)]
    if not isinstance(axis, Tensor) or axis.value is not None:
        known = f.axis(axis if isinstance(axis, int) else f.integers(axis, "axis")[0], x.rank)
        rest = [(a, n) for a, n in rest if a == known]
    if length is None or length.value is not None:
        fixed = None if length is None else f.integers(length, "dft_length")[0]
        rest = [(a, n) for a, n in rest if n == (_default(x, a, kind) if fixed is None else fixed)]
    f.require(bool(rest), f"no axis and length make {list(declared)} of {list(x.shape)}")
    return rest


def _others(shape: Sequence[Extent], a: int) -> tuple[Extent, ...]:
    return (*shape[:a], *shape[a + 1 : -1])


def _default(x: Tensor, a: int, kind: Kind) -> Extent:
    n = x.shape[a]
    return n * 2 - 2 if kind.inverse and kind.onesided else n


def _is_asked(x: Tensor, length: Tensor | None, axis: Tensor | int, way: Way) -> Expr:
    """Whether the bundle is asked for this axis and length."""
    a, n = way
    asked: Expr = Const(True, BOOL)
    if isinstance(axis, Tensor) and axis.value is None:
        asked = asked & (equal(number(axis), a) | equal(number(axis), a - x.rank))
    if length is not None and length.value is None:
        asked = asked & equal(number(length), cast(as_expr(n), INT64))
    return asked


def _chosen(f: Builder, answers: list[Tensor], asked: list[Expr], x: Tensor) -> Tensor:
    """The answer that is asked for. The bundle leaves with ERR_INDEX where it is none of them."""
    if len(answers) == 1 and asked[0] == Const(True, BOOL):
        return answers[0]
    found: Expr = Const(False, BOOL)
    for a in asked:
        found = found | a
    agrees = f.map((), cast(zero_if(found), INT64), name="agrees")
    axes = f.axes(answers[0].shape)
    y: Expr = answers[-1][axes]
    for answer, a in zip(answers[:-1], asked[:-1], strict=True):
        y = select(a, answer[axes], y)
    return f.map(axes, select(equal(agrees[()], 0), y, wrap(0, y.dtype)), x.type)


def _transformed(f: Builder, x: Tensor, a: int, n: Extent, kind: Kind) -> Tensor:
    """One transform of x along axis a: the axis moves to the end, and back."""
    *signal, _ = f.axes(x.shape)
    lead, t = [v for d, v in enumerate(signal) if d != a], Var("t", n)
    half, mirrored = n // 2, kind.inverse and kind.onesided
    wide = FLOAT64 if mirrored or x.shape[-1] == 1 else x.type.compute
    z = f.empty(wide, (*(v.extent or 0 for v in lead), 2, n), "z")
    at: Expr = select(t < half + 1, t, n - t) if mirrored else t
    for part in (0, 1):
        index = (*lead[:a], at, *lead[a:], part)
        given = part < static(x.shape[-1])
        value: Expr = cast(x.at(index, outside=0), wide) if given else wrap(0, wide)
        if mirrored and part and given:
            value = select(t < half + 1, value, -value)  # the other half is the conjugate of this
        f.put(z, (*lead, t), (*lead, part, t), value)
    z = fft(f, z, kind.inverse)
    k, p = Var("k", kind.length(n)), Var("p", kind.parts)
    share: Operand = 1.0 / n if isinstance(n, int) else 1.0 / cast(n, wide)
    value = z.at((*lead, p, k)) * (share if kind.inverse else 1.0)
    return f.map((*lead[:a], k, *lead[a:], p), cast(value, x.type.compute), x.type)


# -- STFT


@op("STFT", since=17)
def stft(
    f: Builder,
    signal: Tensor,
    frame_step: Tensor,
    window: Tensor | None = None,
    frame_length: Tensor | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """y[b, frame, k] = the DFT of window[i] * signal[b, frame * step + i] (STFT-17)."""
    given = tuple(t for t in (signal, window) if t is not None)
    f.same_type(given, "f")
    require_single(f, "iu", frame_step=frame_step, frame_length=frame_length)
    f.require(
        signal.rank in (2, 3) and (signal.rank == 2 or signal.shape[2] in (1, 2)),
        f"a signal of shape {list(signal.shape)}, [batch, length, 1 or 2] is needed",
    )
    f.require(window is None or window.rank == 1, "a window of one axis is needed")
    kind = Kind(False, bool(onesided))
    ways, frames = _framings(f, signal, frame_step, window, frame_length, kind)
    answers = [_framed(f, signal, frame_step, window, n, frames, kind) for n in ways]
    asked: list[Expr] = [Const(True, BOOL)] * len(ways)
    if frame_length is not None and f.is_late(frame_length) and window is None:
        counts = [_count(signal, frame_step, n) for n in ways]
        asked = [
            equal(number(frame_length), n) & equal(c, cast(as_expr(frames), INT64))
            for n, c in zip(ways, counts, strict=True)
        ]
    return _chosen(f, answers, asked, signal)


def _framings(
    f: Builder,
    signal: Tensor,
    step: Tensor,
    window: Tensor | None,
    length: Tensor | None,
    kind: Kind,
) -> tuple[list[int], Extent]:
    """The lengths that a frame may have, and how many frames there are."""
    total = signal.shape[1]
    n = None if window is None else static(window.shape[0])
    if length is not None and not f.is_late(length):
        wanted = f.integers(length, "frame_length")[0]
        f.require(n in (None, wanted), f"frames of {wanted} under a window of {n} elements")
        n = wanted
    if length is None and n is None:
        f.require(isinstance(total, int), "frames of a length known at run time only; give a window")
        n = static(total)
    if n is None:
        return _declared_frames(f, signal, length, kind)
    fits = 0 < n <= (total if isinstance(total, int) else interval(total)[0])
    f.require(fits, f"frames of {n} elements of {text(as_expr(total))}")
    if f.is_late(step):
        return [n], f.measured(f.map((), _count(signal, step, n), INT64, "frames"), total, axis=1)
    stride = f.integers(step, "frame_step")[0]
    f.require(0 < stride < 1 << 24, f"frames every {stride} elements")
    return [n], extent(simplify((as_expr(total) - n) // stride + 1))


def _declared_frames(
    f: Builder, signal: Tensor, length: Tensor | None, kind: Kind
) -> tuple[list[int], Extent]:
    """The same where the length is known at run time only, from the shape that the model declares."""
    declared = f.declared(length)
    if declared is None:
        f.integers(length, "frame_length")  # which says what is missing
    assert declared is not None
    f.require(len(declared) == 4, f"declared as {list(declared)}, [batch, frames, length, 2] is needed")
    found = [static(n) for n in kind.lengths(declared[2])]
    ways = [n for n in found if n <= interval(as_expr(signal.shape[1]))[0]]
    f.require(bool(ways), f"no length of a frame makes {list(declared)} of {list(signal.shape)}")
    return ways, declared[1]


def _count(signal: Tensor, step: Tensor, n: int) -> Expr:
    """How many frames fit; -1 for a step that leads nowhere."""
    s, total = number(step), cast(as_expr(signal.shape[1]), INT64)
    return select(s > 0, (total - n) // maximum(s, 1) + 1, Const(-1, INT64))


def _framed(
    f: Builder,
    signal: Tensor,
    step: Tensor,
    window: Tensor | None,
    n: int,
    frames: Extent,
    kind: Kind,
) -> Tensor:
    b, frame, t = f.axes((signal.shape[0], frames, n), "b frame t")
    z = f.empty(FLOAT64, (*signal.shape[:1], frames, 2, n), "z")
    place: Expr
    if not f.is_late(step):
        place = frame * f.integers(step, "frame_step")[0] + t
    else:  # frames of a length that is not asked for may lie outside
        late, total = cast(frame, INT64) * number(step) + cast(t, INT64), as_expr(signal.shape[1])
        place = maximum(minimum(cast(minimum(late, Const(FAR, INT64)), INDEX), total), 0)
    for part in (0, 1):
        if part and (signal.rank == 2 or signal.shape[2] == 1):
            value: Expr = Const(0.0, FLOAT64)
        else:
            at = (b, place) if signal.rank == 2 else (b, place, part)
            value = cast(signal.at(at, outside=0), FLOAT64)
            value = value if window is None else value * cast(window[t], FLOAT64)
        f.put(z, (b, frame, t), (b, frame, part, t), value)
    z = fft(f, z, False)
    k, p = Var("k", kind.length(n)), Var("p", 2)
    return f.map((b, frame, k, p), cast(z.at((b, frame, p, k)), signal.type.compute), signal.type)
