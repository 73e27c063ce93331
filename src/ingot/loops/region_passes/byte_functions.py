"""Functions of one tensor of bytes whose results are bytes become tables of 256 entries.

    x = (qx - 120) * 0.05
    s = sigmoid(x)                       ->      qy = table[qx]
    qy = uint8(round(s / 0.004) + 3)

In: a region before fusion. Out: the same region, in which a map to bytes that reads one tensor of bytes
alone, element by element and through any number of maps between, looks its results up. Maps that nobody reads
any more are gone. The entries are computed here, functions such as exp in float64, so that no target has
other bytes than another. Cheap maps, such as a change of scale, stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ingot.formula.compute import Compute, same_point
from ingot.formula.evaluate import IndexOutOfRange
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import (
    Array,
    Binary,
    Expr,
    Fma,
    Gathered,
    Load,
    Param,
    Select,
    Tensor,
    Unary,
    Var,
    cast,
    constant,
    node_count,
    rebuild,
    transform,
    walk,
)
from ingot.formula.operations import convert
from ingot.formula.types import FLOAT32, FLOAT64, INDEX
from ingot.loops.lookup import BYTES, looked_up
from ingot.loops.math import FUNCTIONS
from ingot.loops.region import Either, Group, Iterate, Region
from ingot.loops.region_passes.fuse import pointwise, readers_of

BYTE = "byte"
INEXACT = FUNCTIONS - {"away", "ceil", "floor", "round", "sqrt", "trunc", "fmod"}
"""Functions that targets round as their instructions allow."""
MOST_CHEAP = 9
"""Operations of a change of scale that is limited twice: vectors of floats do as well as a table."""
WORTH = 256
"""Elements from which on a table pays that only saves time."""
LONGEST = 400
"""Nodes of one expression."""


@dataclass(frozen=True, slots=True, eq=False)
class _Function:
    """A value as an expression of the variable BYTE, an element of the source at the same place; the groups
    that compute it, the last one last.
    """

    source: Tensor
    value: Expr
    groups: tuple[Group, ...]


def tabulate_bytes(region: Region) -> Region:
    """Rewrite in place, regions of branches and loops too, and return the region."""
    made: dict[Tensor, _Function] = {}
    for item in region.items:
        match item:
            case Either():
                tabulate_bytes(item.then)
                tabulate_bytes(item.other)
            case Iterate(body=body):
                tabulate_bytes(body)
            case Group() if (stage := pointwise(item)) is not None:
                if (found := _function(item, stage, made)) is not None:
                    made[stage.out] = found
                    item.stages = (_looking_up(stage, found),)
    _drop_unread(region, made)
    return region


def _drop_unread(region: Region, made: dict[Tensor, _Function]) -> None:
    """Take away maps that only tables' maps had read; these go by the names of both."""
    readers, gone = readers_of(region), list[Group]()
    for item in reversed(region.items):
        stage = pointwise(item) if isinstance(item, Group) else None
        if isinstance(item, Group) and stage is not None and stage.out in made and not readers[stage.out]:
            readers.subtract(item.reads)
            gone.append(item)
    region.items = [i for i in region.items if i not in gone]
    for found in made.values():
        *through, last = found.groups
        names = [n for g in through if g in gone and last not in gone for n in g.nodes]
        gone = [g for g in gone if last in gone or g not in through]
        last.nodes = (*names, *last.nodes)


def _function(group: Group, stage: Compute, made: dict[Tensor, _Function]) -> _Function | None:
    """What a map computes of one tensor of bytes; None where it reads anything else that is not a number."""
    parts: dict[Tensor, _Function] = {}

    def of_byte(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or node.tensor.value is not None or not same_point(node, stage.axes):
            return None
        t = node.tensor
        if t not in made and t.type not in BYTES:
            return None
        parts[t] = made.get(t) or _Function(t, Var(BYTE, None, t.type), ())
        return parts[t].value

    value = transform(stage.value, of_byte)
    if node_count(value) > LONGEST or not all(map(_is_known, walk(value))):
        return None
    sources = {p.source for p in parts.values()}
    if len(sources) != 1 or (source := sources.pop()).shape != stage.out.shape:
        return None
    return _Function(source, value, (*(g for p in parts.values() for g in p.groups), group))


def _is_known(node: Expr) -> bool:
    """Whether a part of a value is the byte or follows from it."""
    match node:
        case Var(name):
            return name == BYTE
        case Load(tensor):
            return tensor.value is not None
    return not isinstance(node, Param)


def _looking_up(stage: Compute, function: _Function) -> Compute:
    """The stage with a table, where one pays."""
    if stage.out.type not in BYTES or not _pays(stage, function.value):
        return stage
    kind = function.source.type
    every = np.arange(int(kind.lowest), int(kind.highest) + 1).astype(kind.numpy)
    try:
        with np.errstate(all="ignore"):
            found = evaluate(_exact(function.value), {}, {BYTE: every})
    except IndexOutOfRange:
        return stage  # the bundle says so when it meets such a byte
    entries: Array = convert(np.broadcast_to(found, every.shape), stage.out.type)
    table = constant(entries, f"{stage.out.name}_table")
    return replace(stage, value=looked_up(table, Load(function.source, stage.axes)))


def _pays(stage: Compute, value: Expr) -> bool:
    """Whether targets would round a function otherwise, or each element takes many operations."""
    nodes = list(walk(value))
    if any(isinstance(n, Unary | Binary) and n.op in INEXACT for n in nodes):
        return True
    done = sum(isinstance(n, Unary | Binary | Fma | Select) and n.dtype is not INDEX for n in nodes)
    heavy = done > MOST_CHEAP or any(isinstance(n, Gathered) for n in nodes)
    return heavy and isinstance(stage.out.count, int) and stage.out.count >= WORTH


def _exact(value: Expr) -> Expr:
    """The value with its functions in float64, rounded: what arithmetic there is stays in float32."""

    def widened(node: Expr) -> Expr | None:
        match node:
            case Unary(op) | Binary(op) if op in INEXACT and node.dtype is FLOAT32:
                return cast(rebuild(node, lambda a: cast(transform(a, widened), FLOAT64)), FLOAT32)
        return None

    return transform(value, widened)
