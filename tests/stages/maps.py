"""Maps, transpositions and reductions: what is neither a window nor a product."""

from __future__ import annotations

from dataclasses import replace

from ingot.formula.compute import Compute, Reduction, accumulator, computes
from ingot.formula.expr import Const, Expr, Load, Tensor, Var, binary, call, cast, maximum, select, static
from ingot.formula.types import FLOAT32, FLOAT64, INT8, INT16, INT32, UINT8, DType
from ingot.loops.layout import Layout
from ingot.loops.lookup import looked_up
from ingot.loops.region import Group
from ingot.ops.normalize import layer_normalization, log_softmax, rms_normalization, softmax
from ingot.ops.order import top_stages
from ingot.ops.pad import pad_2
from ingot.ops.quantize import saturated
from ingot.ops.registry import Builder
from ingot.targets.record import Target
from tests.probes.levels import builder
from tests.stages.dice import Dice
from tests.stages.drawn import Drawn, Habits
from tests.stages.epilogues import with_epilogue
from tests.stages.windows import pooled, with_layouts

FLOATS = (FLOAT32, FLOAT32, FLOAT32, FLOAT64)
ANY = Habits(last=50, halo=60)
LETTERS = "abcd"


def shape_of(dice: Dice, lanes: int, least: int = 1) -> tuple[int, ...]:
    """Up to four extents, one of which is about a vector, or several."""
    rank = dice.number(least, 4)
    shape = [dice.number(1, 6) for _ in range(rank)]
    edges = (lanes, lanes + 1, lanes - 1, 2 * lanes, 2 * lanes + 3, 3 * lanes, lanes // 2, 1, 40)
    shape[dice.choice((-1, -1, 0, dice.below(rank)))] = max(1, dice.choice(edges))
    return tuple(shape)


def axes_of(shape: tuple[int, ...]) -> tuple[Var, ...]:
    return tuple(Var(letter, n) for letter, n in zip(LETTERS, shape, strict=False))


def mapped(dice: Dice, target: Target) -> Drawn:
    """An elementwise map of operands that have all axes, or some."""
    dtype = dice.choice(FLOATS)
    shape = shape_of(dice, target.lanes(dtype.bytes))
    axes = axes_of(shape)
    value: Expr = dice.tensor("x", dtype, shape)[axes]
    for k in range(dice.below(3)):
        value = _joined(dice, value, _broadcast(dice, f"o{k}_", axes, dtype))
    c = Compute(Tensor("y", dtype, shape), axes, value)
    c, _ = with_epilogue(dice, c)
    return with_layouts(dice, (c,), (c.out,), target, ANY)


def _broadcast(dice: Dice, name: str, axes: tuple[Var, ...], dtype: DType) -> Expr:
    """An operand over the axes, some of which it may lack."""
    kept = tuple(a for a in axes if dice.chance(60))
    shape = tuple(int(a.extent) for a in kept if isinstance(a.extent, int))
    t = dice.constant(name, dtype, shape) if dice.chance(40) else dice.tensor(name, dtype, shape)
    return t[kept]


def _joined(dice: Dice, a: Expr, b: Expr) -> Expr:
    match dice.choice(("add", "mul", "sub", "max", "select", "div")):
        case "add":
            return a + b
        case "mul":
            return a * b
        case "sub":
            return a - b
        case "max":
            return maximum(a, b)
        case "select":
            return select(a < b, a, b * 2)
        case _:
            return a / (call("abs", b) + 1)


def integral(dice: Dice, target: Target, order: tuple[int, ...] | None = None) -> Drawn:
    """A map of integers of several widths: wrapped, made floats, or quantised; `order` turns an operand."""
    shape = shape_of(dice, min(16, target.lanes(1)) if order else target.lanes(4), 2 if order else 1)
    axes = axes_of(shape)
    if order is not None:
        order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    value: Expr = _integer(dice, "x", axes, order)
    for k in range(dice.below(3)):
        other = _integer(dice, f"o{k}_", axes, None)
        how = dice.choice(("add", "sub", "mul", "max", "min"))
        value = binary(how, value, other)
    to = dice.choice(INTEGERS)
    match dice.choice(("as it is", "wrapped", "float", "quantised", "quantised")):
        case "wrapped":
            value = cast(value, to)
        case "float":
            value = cast(value, FLOAT32) * 0.5
        case "quantised":
            scale = dice.choice((0.25, 0.003, 2.0))
            value = saturated(cast(value, FLOAT32) * scale, float(dice.choice((0, 3, 128))), to)
    c = Compute(Tensor("y", value.dtype, shape), axes, value)
    return with_layouts(dice, (c,), (c.out,), target, Habits(last=20, halo=20, parts=10))


def looked_up_bytes(dice: Dice, target: Target) -> Drawn:
    """Bytes looked up in a table of 256 entries, in rows of about a vector of bytes or several."""
    shape = shape_of(dice, target.lanes(1) if target.vector_bytes else 16)
    axes, kinds = axes_of(shape), (UINT8, INT8)
    x, table = dice.tensor("x", dice.choice(kinds), shape), dice.constant("t", dice.choice(kinds), (256,))
    c = Compute(Tensor("y", table.type, shape), axes, looked_up(table, Load(x, axes)))
    return with_layouts(dice, (c,), (c.out,), target, Habits(last=80, halo=40, parts=10))


INTEGERS = (UINT8, INT8, INT16)


def _integer(dice: Dice, name: str, axes: tuple[Var, ...], order: tuple[int, ...] | None) -> Expr:
    """An element as int32: of all axes, turned, or of some of them."""
    dtype = dice.choice((*INTEGERS, INT32))
    if order is None and name != "x":
        return cast(_broadcast(dice, name, axes, dtype), INT32)
    at = axes if order is None else tuple(axes[d] for d in order)
    shape = tuple(int(a.extent) for a in at if isinstance(a.extent, int))
    return cast(dice.tensor(name, dtype, shape)[at], INT32)


def integers_summed(dice: Dice, target: Target) -> Drawn:
    """A sum or an extreme of bytes over outer axes: what a pooling or a depthwise product of integers is."""
    shape = shape_of(dice, target.lanes(4), 2)
    axes = axes_of(shape)
    gone = tuple(a for a in axes[:-1] if dice.chance(60)) or axes[:1]
    kept = tuple(a for a in axes if a not in gone)
    x = dice.tensor("x", dice.choice((UINT8, INT8)), shape)
    term: Expr = cast(x[axes], INT32)
    if dice.chance(50):
        term = term * cast(_broadcast(dice, "w", axes, INT8), INT32)
    combine = dice.choice(("sum", "sum", "max", "min"))
    first = {"sum": 0, "max": INT32.lowest, "min": INT32.highest}[combine]
    value: Expr = accumulator(INT32)
    if dice.chance(60):
        value = saturated(cast(value, FLOAT32) * 0.125, 3.0, dice.choice(INTEGERS))
    r = Reduction(combine, gone, Const(int(first), INT32), term)
    c = Compute(Tensor("y", value.dtype, tuple(static(a.extent) for a in kept)), kept, value, r)
    return with_layouts(dice, (c,), (c.out,), target, ANY)


def reduced(dice: Dice, target: Target, inner: bool) -> Drawn:
    """A reduction over outer axes, or over the innermost among others."""
    dtype = dice.choice(FLOATS)
    shape = shape_of(dice, target.lanes(dtype.bytes), 2)
    axes = axes_of(shape)
    gone = [a for a in axes[:-1] if dice.chance(45)]
    gone = [*gone, axes[-1]] if inner else gone or [axes[0]]
    kept = tuple(a for a in axes if a not in gone)
    combine = dice.choice(("sum", "max", "min", "sum"))
    x = dice.tensor("x", dtype, shape)
    term: Expr = x[axes]
    if dice.chance(30):
        term = call("abs", term) if dice.chance(50) else term * _broadcast(dice, "o", axes, dtype)
    first = {"sum": 0.0, "max": dtype.lowest, "min": dtype.highest}[combine]
    start = float(first) if dice.chance(80) else 5.0
    r = Reduction(combine, tuple(gone), Const(start, dtype), term)
    c = Compute(Tensor("y", dtype, tuple(static(a.extent) for a in kept)), kept, accumulator(dtype), r)
    if kept:
        c, _ = with_epilogue(dice, c)
    return with_layouts(dice, (c,), (c.out,), target, ANY)


def elementwise_stage(dice: Dice, target: Target) -> Drawn:
    match dice.choice(("map", "map", "reduce", "pool", "integers", "bytes")):
        case "map":
            return mapped(dice, target)
        case "integers":
            return integral(dice, target)
        case "bytes":
            return integers_summed(dice, target)
        case "reduce":
            return reduced(dice, target, False)
    return pooled(dice, target)


def turned(dice: Dice, target: Target) -> Drawn:
    """A transposition, with what is joined to it."""
    if dice.chance(35):
        return integral(dice, target, ())
    dtype = dice.choice(FLOATS)
    lanes = target.lanes(dtype.bytes)
    rank = dice.number(2, 4)
    shape = [dice.number(1, 4) for _ in range(rank)]
    for d in (-1, -2 if dice.chance(70) else 0):
        shape[d] = max(1, dice.choice((lanes, 2 * lanes, lanes + 1, lanes + 5, 3, lanes // 2, 2 * lanes + 3)))
    axes = axes_of(tuple(shape))
    order = list(range(rank))
    dice.random.shuffle(order)
    if dice.chance(60) or order[-1] == rank - 1:
        order = [*range(rank - 2), rank - 1, rank - 2]
    source = dice.tensor("x", dtype, [shape[d] for d in order])
    value: Expr = source[tuple(axes[d] for d in order)]
    if dice.chance(40):
        other = dice.tensor("z", dtype, [shape[d] for d in order] if dice.chance(50) else shape)
        at = tuple(axes[d] for d in order) if other.shape == source.shape and dice.chance(60) else axes
        if other.shape == tuple(int(a.extent or 1) for a in at):  # type: ignore[arg-type]
            value = _joined(dice, value, other[at])
    c = Compute(Tensor("y", dtype, tuple(shape)), axes, value)
    c, _ = with_epilogue(dice, c)
    return with_layouts(dice, (c,), (c.out,), target, Habits(last=15, halo=10, parts=15))


def cut(dice: Dice, target: Target) -> Drawn:
    """A Pad of any mode, or two tensors of which an axis takes a part each."""
    dtype = dice.choice((FLOAT32, FLOAT32, FLOAT64, INT32, UINT8, INT16))
    shape = shape_of(dice, target.lanes(dtype.bytes))
    x, f = dice.tensor("x", dtype, shape), builder()
    if dice.chance(25):
        _two_parts(dice, f, x)
    else:
        mode = dice.choice(("constant", "constant", "edge", "reflect", "wrap"))
        most = [3 if mode != "wrap" else n for n in shape]
        pads = [dice.below(most[d % len(shape)] + 1) if dice.chance(60) else 0 for d in range(2 * len(shape))]
        pads = [-1 if dice.chance(6) and shape[d % len(shape)] > 2 else p for d, p in enumerate(pads)]
        pad_2(f, x, pads=tuple(pads), mode=mode, value=float(dice.number(0, 2)))
    *stages, last = (s for s in f.stages if isinstance(s, Compute))
    made, _ = with_epilogue(dice, last) if dtype.is_float else (last, last)
    return with_layouts(dice, (*stages, made), (made.out,), target, ANY)


def _two_parts(dice: Dice, f: Builder, x: Tensor) -> None:
    """One tensor up to a place of an axis, another one from there on."""
    axis = dice.below(x.rank)
    shape = tuple(n if d != axis else dice.number(1, 40) for d, n in enumerate(x.shape))
    other, n = dice.tensor("z", x.type, tuple(map(static, shape))), static(x.shape[axis])
    axes = f.axes(tuple(n + static(shape[d]) if d == axis else m for d, m in enumerate(x.shape)))
    there = tuple(a - n if d == axis else a for d, a in enumerate(axes))
    f.map(axes, select(axes[axis] < n, x.at(axes, outside=0), other.at(there, outside=0)), x.type)


def interleaved(dice: Dice, target: Target) -> Drawn:
    """Two to four planes side by side, as they are or quantised."""
    dtype = dice.choice((FLOAT32, FLOAT32, FLOAT32, FLOAT64))
    planes, lanes = dice.number(2, 4), target.lanes(dtype.bytes)
    edges = (lanes, 2 * lanes, lanes + 1, 3 * lanes + 5, 2 * lanes + 3)
    width = dice.choice(edges) if dice.chance(70) else dice.number(1, 40)
    shape = (*(dice.number(1, 4) for _ in range(dice.number(0, 2))), width, planes)
    axes = axes_of(shape)
    *rest, i, c = axes
    whole = dice.chance(80)
    source = dice.tensor("x", dtype, [*(shape[:-2] if whole else ()), planes, width])
    value: Expr = source[(*(rest if whole else ()), c, i)]
    if dice.chance(30):
        each = dice.chance(50)
        other = dice.tensor("z", dtype, [planes] if each else list(shape))
        value = _joined(dice, value, other[(c,) if each else axes])
    habits = Habits(last=0, halo=10, parts=10)
    if dice.chance(40) and dtype is FLOAT32:
        kind = dice.choice((UINT8, INT8))
        lowest, highest = (Const(float(v), dtype) for v in (kind.lowest, kind.highest))
        rounded = call("round", value * 0.5) + float(dice.number(0, 9))
        limited = binary("min", binary("larger", rounded, lowest), highest)
        made = Compute(Tensor("y", kind, shape), axes, cast(limited, kind))
    else:
        made, _ = with_epilogue(dice, Compute(Tensor("y", dtype, shape), axes, value))
    return with_layouts(dice, (made,), (made.out,), target, habits)


def deinterleaved(dice: Dice, target: Target) -> Drawn:
    """Two to four elements side by side to planes, alone or with an operand of the same type."""
    dtype = dice.choice((FLOAT32, FLOAT32, FLOAT32, FLOAT64, UINT8, INT8))
    planes, lanes = dice.number(2, 4), target.lanes(dtype.bytes)
    edges = (lanes, 2 * lanes, lanes + 1, 3 * lanes + 5, 2 * lanes + 3)
    width = dice.choice(edges) if dice.chance(70) else dice.number(1, 40)
    shape = (*(dice.number(1, 4) for _ in range(dice.number(0, 2))), planes, width)
    axes = axes_of(shape)
    *rest, c, i = axes
    if dice.chance(30):  # columns of one row, as strided windows find them
        source = dice.tensor("x", dtype, [*shape[:-2], planes * width])
        value: Expr = source[(*rest, planes * i + c)]
    else:
        source = dice.tensor("x", dtype, [*shape[:-2], width, planes])
        value = source[(*rest, i, c)]
    if dtype.is_float and dice.chance(30):
        each = dice.chance(50)
        other = dice.tensor("z", dtype, [planes] if each else list(shape))
        value = _joined(dice, value, other[(c,) if each else axes])
    made = Compute(Tensor("y", dtype, shape), axes, value)
    if dtype.is_float:
        made, _ = with_epilogue(dice, made)
    return with_layouts(dice, (made,), (made.out,), target, Habits(last=0, halo=10, parts=10))


def numbered(dice: Dice, target: Target) -> Drawn:
    """Statistics of rows, numbers made of them, maps of both; every stage names its axes otherwise."""
    dtype = dice.choice(FLOATS)
    shape = shape_of(dice, target.lanes(dtype.bytes), 2)
    x, kept, axes = dice.tensor("x", dtype, shape), shape[:-1], axes_of(shape)
    rows = tuple(Var(f"r{d}", n) for d, n in enumerate(kept))
    there = tuple(Var(f"q{d}", n) for d, n in enumerate(shape))
    combine = dice.choice(("sum", "max"))
    start = Const(0.0 if combine == "sum" else float(dtype.lowest), dtype)
    total, number, y = (Tensor(n, dtype, s) for n, s in (("t", kept), ("u", kept), ("y", shape)))
    first = Compute(total, axes[:-1], accumulator(dtype), Reduction(combine, axes[-1:], start, x[axes]))
    second = Compute(number, rows, total[rows] * 2 + dice.number(0, 3))
    value = x[there] - number[there[:-1]]
    if dice.chance(40):
        value = _joined(dice, value, _broadcast(dice, "o", there, dtype))
    if dice.chance(15):
        value = call("sign", value)
    stages = (first, second, Compute(y, there, value))
    shown = tuple(t for t in (total, number) if dice.chance(30))
    return with_layouts(dice, stages, (y, *shown), target, Habits(last=10, halo=10))


def selected(dice: Dice, target: Target) -> Drawn:
    """The largest or smallest few along an axis: rows of several vectors, or points beside each other."""
    lanes = target.lanes(4)
    sizes = (lanes, 2 * lanes + 3, 3, 5 * lanes + 1, 1, 9 * lanes + 2, 40, 14 * lanes, lanes // 2)
    shape = [dice.number(1, 3) for _ in range(dice.number(1, 4))]
    shape[-1] = max(1, dice.choice(sizes))
    a = dice.choice((len(shape) - 1, len(shape) - 1, dice.below(len(shape))))
    shape[a] = max(1, dice.choice(sizes))
    k = min(shape[a], dice.choice((1, 3, 5, lanes, lanes + 1, 17, shape[a])))
    x = dice.tensor("x", dice.choice((FLOAT32, FLOAT32, FLOAT32, FLOAT64)), shape)
    stages = top_stages(x, a, k, dice.chance(50))
    made = tuple(dict.fromkeys(c.out for c in computes(stages) if c.at and c.out.rank == len(shape)))
    last = Layout((0, *range(2, len(shape)), 1), (0,) * len(shape), (0,) * len(shape), 0)
    layouts = {x: last} if len(shape) > 2 and dice.chance(30) else {}
    return Drawn(stages, (Group(("subject",), stages),), made, layouts, target)


def rows_stage(dice: Dice, target: Target) -> Drawn:
    """A softmax, a normalisation, or a reduction along rows."""
    if dice.chance(40):
        return reduced(dice, target, True)
    if dice.chance(20):
        return numbered(dice, target)
    dtype = dice.choice(FLOATS)
    lanes = target.lanes(dtype.bytes)
    shape = shape_of(dice, lanes, 2)
    x, f = dice.tensor("x", dtype, shape), builder()
    axis = dice.choice((-1, -1, -1, len(shape) - 1))
    extra: list[Tensor] = []
    match dice.choice(("softmax", "layer", "log", "rms")):
        case "softmax":
            softmax(f, x, axis=axis)
        case "log":
            log_softmax(f, x, axis=axis)
        case "rms":
            rms_normalization(f, x, dice.constant("s", dtype, shape[-1:]), axis=-1)
        case _:
            first = dice.choice((-1, -1, -2))
            scale = dice.constant("s", dtype, shape[first:])
            shift = dice.constant("t", dtype, shape[first:]) if dice.chance(50) else None
            layer_normalization(f, x, scale, shift, axis=first)
    stages = tuple(s for s in f.stages if isinstance(s, Compute))
    shown = [stages[-1].out, *extra]
    shown += [s.out for s in stages[:-1] if dice.chance(10)]
    drawn = with_layouts(
        dice, stages, tuple(dict.fromkeys(shown)), target, Habits(last=15, halo=10, parts=10)
    )
    caches = (1 << 7, 1 << 9, 1 << 12) if dice.chance(20) else target.caches
    return replace(drawn, tolerance=5e-5, target=replace(target, caches=caches))
