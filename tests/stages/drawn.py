"""A drawn stage: formulas, how their tensors are stored, and for which target; and numbers for its inputs.

The numbers are small integers, so that sums of products are exact in whatever order they are added: loops and
C must then equal the formulas to the last bit. Only where an expression rounds by itself (an exponential, a
root, Winograd's fractions) a tolerance is granted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ingot.formula.compute import Compute, Stage, computes, reads
from ingot.formula.expr import Array, Const, Load, Tensor, Unary, Var, loads, walk
from ingot.formula.index import interval
from ingot.loops.choice import DEFAULT, Choice
from ingot.loops.layout import Layout, Place, dense
from ingot.loops.region import Group, Region
from ingot.options import Math
from ingot.targets.record import Target
from tests.stages.dice import Dice
from tests.stages.epilogues import ALL

EXACT = frozenset({"neg", "abs", "floor", "ceil", "sqrt", "sign", "not", "isnan", "isinf", "round", "trunc"})
ROUNDED = 2e-5  # of the largest result: exponentials and quotients are computed by other means in vectors


@dataclass(frozen=True)
class Drawn:
    """Groups of stages, of which a generator is asked to write `stages`; naive loops serve the others.

    `outputs` are read outside, what else the stages make is theirs alone. `how` is what the generator is
    told; `tolerance` is of the largest result. With `parts` bands of rows are chosen as for a
    model, by the estimates of `math`. With `truth`, what the groups were before steps changed them, the
    generator is asked for all of them.
    """

    stages: tuple[Stage, ...]
    groups: tuple[Group, ...]
    outputs: tuple[Tensor, ...]
    layouts: dict[Tensor, Layout]
    target: Target
    how: Choice = DEFAULT
    tolerance: float | None = None
    parts: int = 0
    math: Math = "exact"
    truth: Region | None = None

    @property
    def region(self) -> Region:
        """The groups between what they read and what is read of them."""
        made = {t for g in self.groups for t in g.writes}
        read = dict.fromkeys(t for g in self.groups for s in g.stages for t in reads(s))
        inputs = tuple(t for t in read if t not in made and t.value is None)
        return Region(inputs, self.outputs, [replace(g) for g in self.groups])

    @property
    def loss(self) -> float:
        """How far from the formulas' a result may be, as a part of the largest."""
        if self.tolerance is not None:
            return self.tolerance
        computed = (c for g in self.groups for c in computes(g.stages))
        nodes = (n for c in computed for e in c.expressions for n in walk(e))
        rounds = any(isinstance(n, Unary) and n.op not in EXACT for n in nodes)
        return ROUNDED if rounds else 0.0


def numbers(t: Tensor, random: np.random.Generator, most: int = 99) -> Array:
    """Integers, small enough for sums of products to be exact; all there are of those of a byte."""
    shape = tuple(int(n) for n in t.shape if isinstance(n, int))
    if t.type.kind in "iu" and t.type.bits >= 8:
        least, highest = t.within or (int(t.type.lowest), int(t.type.highest))
        lo, hi = max(least, -(1 << 15)), min(highest, 1 << 15)
        return random.integers(lo, hi + 1, shape).astype(t.type.numpy)
    if t.type.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    return random.integers(-most, most + 1, shape).astype(t.type.numpy)


# -- layouts


@dataclass(frozen=True)
class Habits:
    """How often, of a hundred, tensors are stored channels last, with a halo, as parts of larger ones; and
    what stands behind a sum. A generator that asks for a layout is drawn stages that mostly have it.
    """

    last: int = 70
    halo: int = 75
    parts: int = 8
    kinds: tuple[str, ...] = ALL


def layout_of(dice: Dice, t: Tensor, readers: tuple[Compute, ...], habits: Habits) -> Layout:
    """Channels last or as the model has it, with what windows read beyond it, none of that, or more."""
    if t.rank < 3 or t.value is not None:
        return dense(t.rank)
    order = (0, *range(2, t.rank), 1) if dice.chance(habits.last) else tuple(range(t.rank))
    before, after, fill = beyond(t, readers)
    if not dice.chance(habits.halo):
        before, after = [0] * t.rank, [0] * t.rank
    elif dice.chance(15):
        before = [n + (dice.below(3) if d > 1 else 0) for d, n in enumerate(before)]
        after = [n + (dice.below(3) if d > 1 else 0) for d, n in enumerate(after)]
    return Layout(order, tuple(before), tuple(after), fill)


def beyond(t: Tensor, readers: tuple[Compute, ...]) -> tuple[list[int], list[int], float | int]:
    """How far the stages read before and behind each axis of a tensor, and what they find there."""
    before, after = [0] * t.rank, [0] * t.rank
    fill: float | int = 0
    for load in windows_on(t, readers):
        if not isinstance(load.outside, Const):
            continue
        fill = load.outside.value
        for d, (i, n) in enumerate(zip(load.index, t.shape, strict=True)):
            lo, hi = interval(i)
            before[d] = max(before[d], -lo)
            after[d] = max(after[d], hi - n + 1) if isinstance(n, int) else 0
    return before, after, fill


def windows_on(t: Tensor, readers: tuple[Compute, ...]) -> Iterator[Load]:
    for c in readers:
        for e in c.expressions:
            yield from (load for load in loads(e) if load.tensor is t and load.outside is not None)


def physical(t: Tensor, array: Array, layout: Layout) -> Array:
    """The elements of a tensor as they lie in memory, with what is around them."""
    around = list(zip(layout.before, layout.after, strict=True))
    filled = np.pad(array, around, constant_values=np.array(layout.fill, array.dtype)) if t.rank else array
    return np.asarray(filled.transpose(layout.order), order="C")


# -- parts of larger tensors


def part_of(dice: Dice, t: Tensor, layout: Layout, readable: bool) -> tuple[Layout, Group] | None:
    """A place for a tensor in a larger one, and the group that cuts it out, or joins it with another.

    The group costs nothing where its copies find their operand in place.
    """
    if any(layout.before) or any(layout.after) or not t.rank or t.value is not None:
        return None
    d = dice.number(min(1, t.rank - 1), t.rank - 1)
    n, less, more = t.shape[d], dice.below(3), dice.number(1, 3)
    assert isinstance(n, int)
    extents = tuple(n + less + more if k == d else m for k, m in enumerate(t.shape))
    whole = Tensor(f"{t.name}_whole", t.type, extents)
    corner = tuple(less if k == d else 0 for k in range(t.rank))
    axes = tuple(Var(f"i{k}", m) for k, m in enumerate(t.shape))
    at = tuple(a + c if c else a for a, c in zip(axes, corner, strict=True))
    if readable:
        return _placed(layout, whole, corner), Group(("slice",), (Compute(t, axes, whole[at]),))
    stages = [Compute(whole, axes, t[axes], None, at)]
    for k, (first, size) in enumerate(((0, less), (n + less, more))):
        if size:
            rest = dice.tensor(
                f"{t.name}_rest{k}_", t.type, [size if i == d else int(m) for i, m in enumerate(t.shape)]
            )
            there = tuple(Var(f"i{i}", m) for i, m in enumerate(rest.shape))
            moved = tuple(a + first if i == d and first else a for i, a in enumerate(there))
            stages.append(Compute(whole, there, rest[there], None, moved))
    return _placed(layout, whole, corner), Group(("concat",), tuple(stages))


def _placed(layout: Layout, whole: Tensor, corner: tuple[int, ...]) -> Layout:
    return Layout(layout.order, layout.before, layout.after, layout.fill, Place(whole, corner))
