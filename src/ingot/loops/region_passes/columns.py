"""A transposed convolution to few channels as one product and sums of its columns (known as col2im).

    y[n, oc, 2 * q] = sum(x[n, ic, q - 1 + k] * w[ic, oc, 2 - 2 * k] for ic, k)      a phase, one of two

    y_columns[n, oc, k, i] = sum(x[n, ic, i] * w[ic, oc, k] for ic)
    y_phases[n, oc, 0, q] = 0
    y_phases[n, oc, 0, q] += y_columns[n, oc, 0, q]          for each tap, where that is inside of the image
    y_phases[n, oc, 0, q + 1] += y_columns[n, oc, 2, q]
    y[n, oc, 2 * q + a] = y_phases[n, oc, a, q]              what `weave` writes

Each phase by itself goes through all of `x`, beyond its edges too, and has few outputs to multiply an element
by. The product reads an element once for all taps of all phases, where it lies; its vectors hold neighbours
of an image, and nothing beyond the edges is multiplied. Where windows do not overlap, the columns are the
phases.

In: a fused region, before its layouts are assigned. Out: the region with the product, the sums and what
weaves the phases together as groups of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product as combinations
from math import prod

from ingot.formula.compute import Compute, Reduction, Stage, copying
from ingot.formula.expr import Binary, Const, Expr, Load, Tensor, Var, binary, static, substitute
from ingot.formula.index import coefficient, interval, linear, mentions, simplify
from ingot.loops.region import Group, Region
from ingot.loops.region_passes.weave import Phases, offsets, phases_of, woven
from ingot.targets.record import Target

FEWEST_INPUTS = 8  # channels; with fewer, writing and reading the columns takes longer than the product
FEW_CHANNELS = 4  # of a result: with more, vectors along them are full


@dataclass(frozen=True, slots=True)
class Phase:
    """A stage of a transposed convolution: what it reads of its operand and of its weights."""

    stage: Compute
    reduction: Reduction
    x: Load
    w: Load


def sum_columns(region: Region, target: Target) -> set[Tensor]:
    """Rewrite the groups of a region in place; returns copies that have to be stored channels first."""
    copies: dict[Tensor, Tensor] = {}
    for group in [i for i in region.items if isinstance(i, Group)]:
        phases = _phases(group, region, target)
        if not phases:
            continue
        x, at, made = phases[0].x.tensor, region.items.index(group), list[Group]()
        if x not in region.inputs and x not in copies:
            copies[x] = Tensor(f"{x.name}_channels_first", x.type, x.shape)
            made.append(Group((f"import_{x.name}",), (copying(x, copies[x]),)))
        region.items[at : at + 1] = [*made, *_groups(group, phases, copies.get(x, x))]
    return set(copies.values())


def _phases(group: Group, region: Region, target: Target) -> list[Phase]:
    """The stages of a group, if they are phases of one transposed convolution and columns are quicker."""
    found = [p for s in group.stages if (p := _phase(s)) is not None]
    if len(found) < 2 or len(found) != len(group.stages):
        return []
    out, x, w = found[0].stage.out, found[0].x.tensor, found[0].w.tensor
    if any((p.stage.out, p.x.tensor, p.w.tensor) != (out, x, w) for p in found):
        return []
    if phases_of([p.stage for p in found]) is None:
        return []
    channels, lanes = static(out.shape[1]), target.lanes(out.type.bytes)
    suits = channels == 1 or (channels <= FEW_CHANNELS and out in region.outputs)
    columns = prod(map(static, (out.shape[0], *w.shape[1:], *x.shape[2:])))
    pays = static(x.shape[1]) >= FEWEST_INPUTS and prod(map(static, x.shape[2:])) >= lanes > 1
    return found if suits and pays and columns * out.type.bytes <= target.caches[2] // 4 else []


def _phase(stage: Stage) -> Phase | None:
    """The stage as a phase: a sum over channels and taps, stored with gaps, each axis in its place."""
    if not isinstance(stage, Compute) or stage.reduction is None or stage.out.rank < 3:
        return None
    r, rank = stage.reduction, stage.out.rank
    term, is_sum = r.term, r.combine == "sum" and r.init == r.identity
    if not is_sum or not isinstance(term, Binary) or term.op != "mul" or not _is_static(stage.out):
        return None
    if stage.out.type is not term.dtype:
        return None  # columns and phases hold sums, and have the type of the result
    if coefficient(stage.index[-1], stage.axes[-1].name) in (None, 1) or len(stage.axes) != rank:
        return None
    for x, w in ((term.a, term.b), (term.b, term.a)):
        if isinstance(x, Load) and isinstance(w, Load) and w.tensor.value is not None:
            phase = Phase(stage, r, x, w)
            return phase if _is_static(x.tensor) and _is_static(w.tensor) and _is_transposed(phase) else None
    return None


def _is_static(t: Tensor) -> bool:
    plain = t.type.is_float and t.type.compute is t.type and t.codebook is None
    return plain and t.pitch is None and all(isinstance(n, int) for n in t.shape)


def _is_transposed(p: Phase) -> bool:
    """Whether x is read at (n, ic, q + taps) and w at (ic, oc, taps), the taps apart from each other."""
    (n, oc, *q), (ic, *taps) = p.stage.axes, p.reduction.axes
    rank = p.stage.out.rank
    if len(taps) != rank - 2 or p.x.tensor.rank != rank or p.w.tensor.rank != rank:
        return False
    if p.x.index[:2] != (n, ic) or p.w.index[:2] != (ic, oc) or p.x.outside not in (None, _zero(p.x)):
        return False
    if static(ic.extent) != p.x.tensor.shape[1] or static(oc.extent) != p.w.tensor.shape[1]:
        return False
    at_points = all(
        coefficient(i, a.name) == 1 and _names(i) <= {a.name, k.name}
        for i, a, k in zip(p.x.index[2:], q, taps, strict=True)
    )
    return at_points and all(_names(i) <= {k.name} for i, k in zip(p.w.index[2:], taps, strict=True))


def _zero(load: Load) -> Const:
    return Const(0.0, load.dtype)


def _names(e: Expr) -> set[str]:
    """The variables that an index is a sum of; what is none of them stands for itself."""
    return {v.name if isinstance(v, Var) else repr(v) for v in linear(e) if v is not None}


def _groups(group: Group, phases: list[Phase], x: Tensor) -> Iterator[Group]:
    """The product, the sums of its columns, and the phases woven into the result."""
    out, w = phases[0].stage.out, phases[0].w.tensor
    columns = Tensor(f"{out.name}_columns", out.type, (out.shape[0], *w.shape[1:], *x.shape[2:]))
    names = ["n", "oc", *(f"k{d}" for d in range(x.rank - 2)), *(f"i{d}" for d in range(x.rank - 2))]
    axes = tuple(Var(name, n) for name, n in zip(names, columns.shape, strict=True))
    (n, oc, *places), ic = axes, Var("ic", x.shape[1])
    k, i = places[: x.rank - 2], places[x.rank - 2 :]
    r = phases[0].reduction
    of_x, of_w = (n, ic, *i), (ic, oc, *k)
    summed = replace(r, axes=(ic,), term=x[of_x] * w[of_w])
    yield Group(group.nodes, (Compute(columns, axes, Var("acc", None, r.term.dtype), summed),))
    if (made := _disjoint(phases, columns)) is not None:
        yield Group(group.nodes, tuple(woven(*made)))
        return
    woven_from = phases_of([p.stage for p in phases])
    assert woven_from is not None
    yield Group(group.nodes, tuple(s for p in phases for s in _sums(p, columns, woven_from)))
    yield Group(group.nodes, tuple(woven(woven_from)))


def _disjoint(phases: list[Phase], columns: Tensor) -> tuple[Phases, Expr] | None:
    """The columns as phases, and what becomes of each, where every element is made by one tap, and alike."""
    found, value = phases_of([p.stage for p in phases], columns), phases[0].stage.value
    if found is None:
        return None
    for p in phases:
        index = found.index(p.stage.axes, offsets(p.stage))
        taps = [t for t in _taps(p, columns) if all(t.counts)]
        counts = tuple(static(a.extent) for a in p.stage.axes)
        spatial = any(mentions(value, a.name) for a in p.stage.axes[2:])
        if p.stage.value != value or spatial or [(t.index, t.counts) for t in taps] != [(index, counts)]:
            return None
    return found, value


@dataclass(frozen=True, slots=True)
class Tap:
    """What a tap adds to a phase: the columns at `index`, for `counts` points from `first` on."""

    index: tuple[Expr, ...]
    first: tuple[int, ...]
    counts: tuple[int, ...]


def _sums(p: Phase, columns: Tensor, to: Phases) -> tuple[Compute, ...]:
    """A phase, without gaps: the columns of each tap are added where they lie inside the image, and then
    comes what the stage makes of the sum.
    """
    counts = tuple(static(a.extent) for a in p.stage.axes)
    taps = [t for t in _taps(p, columns) if all(t.counts)]
    made = to.stored(replace(p.stage, reduction=None))
    whole: list[Expr] = [columns[t.index] for t in taps if t.counts == counts]
    some = [t for t in taps if t.counts != counts]
    total = reduce(lambda a, b: binary("add", a, b), whole) if whole else p.reduction.init
    if not some:
        return (replace(made, value=substitute(p.stage.value, {"acc": total})),)
    last = replace(made, value=substitute(p.stage.value, {"acc": Load(to.tensor, made.at)}))
    return (replace(made, value=total), *(_added(t, made, columns) for t in some), last)


def _taps(p: Phase, columns: Tensor) -> Iterator[Tap]:
    """The taps of a phase, and which of its points meet an element of the image through each."""
    (n, oc, *q), terms = p.stage.axes, p.reduction.axes[1:]
    for at in combinations(*(range(static(k.extent)) for k in terms)):
        tap = {k.name: Const(j) for k, j in zip(terms, at, strict=True)}
        k = (simplify(substitute(i, tap)) for i in p.w.index[2:])
        i = tuple(simplify(substitute(i, tap)) for i in p.x.index[2:])
        first, counts = [0, 0], [static(n.extent), static(oc.extent)]
        for a, e, size in zip(q, i, p.x.tensor.shape[2:], strict=True):
            ahead = interval(substitute(e, {a.name: Const(0)}))[0]
            first.append(max(0, -ahead))
            counts.append(max(0, min(static(a.extent), static(size) - ahead) - first[-1]))
        yield Tap((n, oc, *k, *i), tuple(first), tuple(counts))


def _added(t: Tap, made: Compute, columns: Tensor) -> Compute:
    """phase[q] += columns[..], over the points that a tap reaches."""
    inner = tuple(Var(a.name, n) for a, n in zip(made.axes, t.counts, strict=True))
    places = {a.name: v + lo for a, v, lo in zip(made.axes, inner, t.first, strict=True)}
    at, index = (tuple(simplify(substitute(i, places)) for i in e) for e in (made.at, t.index))
    return Compute(made.out, inner, binary("add", Load(made.out, at), columns[index]), None, at)
