"""From graph to formulas: every node replaced by its definition, bound to one tensor per value.

A `Region` is what lowering works on: an ordered list of `Group`s (stages that become one kernel) and control
steps. Fusion merges groups, layouts are assigned to their tensors, generators turn each into a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from ingot.formula.compute import Compute, Formula, Scan, Stage, computes, reads, stages_text, writes
from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Gathered,
    Load,
    Param,
    Tensor,
    Var,
    cast,
    measures,
    static,
    transform,
    wrap,
)
from ingot.formula.index import as_expr, upper
from ingot.formula.types import INT64
from ingot.graph.ir import Graph, Node, Value
from ingot.ops.control import body
from ingot.ops.loop import inside, trip_count
from ingot.ops.registry import formulate


@dataclass(slots=True, eq=False)
class Group:
    """Stages that become one kernel, and the model's nodes they come from."""

    nodes: tuple[str, ...]
    stages: tuple[Stage, ...]
    view: tuple[Tensor, Tensor] | None = None  # (view, base): the same elements in row-major order

    @property
    def reads(self) -> frozenset[Tensor]:
        """What comes from outside the group."""
        return frozenset(chain.from_iterable(map(reads, self.stages))) - self.writes

    @property
    def writes(self) -> frozenset[Tensor]:
        return frozenset(c.out for c in computes(self.stages))


@dataclass(slots=True, eq=False)
class Either:
    """An If: the region taken writes its results to `results` by copies."""

    nodes: tuple[str, ...]
    condition: Tensor
    then: Region
    other: Region
    results: tuple[Tensor, ...]


@dataclass(slots=True, eq=False)
class Iterate:
    """A Loop. The body's inputs are (turn, condition, carried ...), its outputs (condition, carried ...,
    stacked ...).

    `initial` are the carried values' first contents, `results` where their last ones go, `stacked` collects
    one slice an iteration; results and slices nobody reads are None. `turns` says of each of these how many
    slices it has: None where that is known, else a scalar to be set, or the number that the model declares.
    """

    nodes: tuple[str, ...]
    trips: Tensor | None
    condition: Tensor | None
    initial: tuple[Tensor, ...]
    results: tuple[Tensor | None, ...]
    stacked: tuple[Tensor | None, ...]
    body: Region
    turns: tuple[Tensor | int | None, ...] = ()

    @property
    def reads(self) -> tuple[Tensor, ...]:
        return tuple(t for t in (self.trips, self.condition, *self.initial) if t is not None)

    @property
    def writes(self) -> tuple[Tensor, ...]:
        return tuple(t for t in (*self.results, *self.stacked, *self.turns) if isinstance(t, Tensor))


Item = Group | Either | Iterate


@dataclass(slots=True, eq=False)
class Region:
    """Items in order between inputs and outputs."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    items: list[Item]


def groups(region: Region) -> Iterator[Group]:
    """Every group of the tree, in order."""
    for item in region.items:
        match item:
            case Group():
                yield item
            case Either(_, _, then, other, _):
                yield from groups(then)
                yield from groups(other)
            case Iterate(body=body):
                yield from groups(body)


def replace_computes(region: Region, f: Callable[[Compute], Compute]) -> Region:
    """Replace every Compute in place, those of scans, branches and loops included, and return the region."""
    for group in groups(region):
        group.stages = tuple(_with_computes(s, f) for s in group.stages)
    return region


def _with_computes(stage: Stage, f: Callable[[Compute], Compute]) -> Stage:
    if isinstance(stage, Scan):
        return replace(stage, body=tuple(_with_computes(s, f) for s in stage.body))
    return f(stage)


def copied(region: Region) -> Region:
    """The region with lists of its own: steps that join groups leave the first one as it was."""
    items: list[Item] = []
    for item in region.items:
        match item:
            case Either(then=then, other=other):
                items.append(replace(item, then=copied(then), other=copied(other)))
            case Iterate(body=body):
                items.append(replace(item, body=copied(body)))
            case _:
                items.append(item)
    return replace(region, items=items)


def inner_tensors(region: Region) -> frozenset[Tensor]:
    """What one group, or the step of one scan, makes and nobody else reads: it need not be in memory."""
    made: dict[Tensor, int] = {}
    read: set[Tensor] = set()
    _uses(region, made, read)
    return frozenset(t for t, count in made.items() if count == 1 and t not in read)


def _uses(region: Region, made: dict[Tensor, int], read: set[Tensor]) -> None:
    """Count the stages that write each tensor; note what is read across groups and scans."""
    read.update((*region.inputs, *region.outputs))
    for item in region.items:
        match item:
            case Group(_, stages, view):
                read |= item.reads | set(view or ())
                for s in stages:
                    own = {s.out} if isinstance(s, Compute) else _of_a_step(s)
                    made.update({t: made.get(t, 0) + 1 for t in own})
                    others = (t for other in stages if other is not s for t in reads(other))
                    if isinstance(s, Scan):
                        read.update((*(t for t in (*reads(s), *writes(s)) if t not in own), *others))
            case Either(_, condition, then, other, results):
                read.update((condition, *results))
                _uses(then, made, read)
                _uses(other, made, read)
            case Iterate(body=body):
                read.update((*item.reads, *item.writes))
                _uses(body, made, read)


def _of_a_step(scan: Scan) -> set[Tensor]:
    """What a step of a scan makes for itself."""
    return {s.out for s in scan.body if isinstance(s, Compute)} - set(scan.carried)


def region_text(region: Region) -> str:
    """The text form, for dumps and golden tests."""
    return "\n".join(_lines(region, ""))


def _lines(region: Region, indent: str) -> Iterator[str]:
    yield f"{indent}region({_names(region.inputs)}) -> {_names(region.outputs)}"
    inner = indent + "  "
    for item in region.items:
        head = f"{inner}{type(item).__name__.lower()} {' + '.join(item.nodes)}"
        match item:
            case Group(_, stages, view):
                yield head + (f" view {view[0].name} of {view[1].name}" if view else "")
                yield from stages_text(stages, inner + "  ")
            case Either(_, condition, then, other, results):
                yield f"{head} if {condition.name} -> {_names(results)}"
                yield from _lines(then, inner + "  ")
                yield from _lines(other, inner + "  ")
            case Iterate():
                yield f"{head}({_names(item.reads)}) -> {_names(item.writes)}"
                yield from _lines(item.body, inner + "  ")


def _names(tensors: tuple[Tensor, ...]) -> str:
    return ", ".join(t.name for t in tensors)


def formulate_graph(graph: Graph) -> Region:
    """The region of an inferred graph. Tensors carry the names of the model's values.

    Behind the model's outputs stand the extents of theirs that are data.
    """
    region = _region(graph, {})
    measured = dict.fromkeys(t for o in region.outputs for n in o.shape for t in measures(n))
    region.outputs = (*region.outputs, *(t for t in measured if t not in region.outputs))
    return region


def _region(graph: Graph, tensors: dict[Value, Tensor]) -> Region:
    inputs = tuple(tensors.setdefault(v, v.tensor()) for v in graph.inputs)
    items: list[Item] = []
    for node in graph.nodes:
        if all(v is None or v.constant is not None for v in node.outputs):
            continue
        items += _items(node, tensors)
    outputs = tuple(_tensor(v, tensors) for v in graph.outputs)
    return Region(inputs, outputs, _needed(items, outputs))


def _needed(items: list[Item], outputs: tuple[Tensor, ...]) -> list[Item]:
    """Without groups that nobody reads: shape arithmetic whose outcome is known is an input only of nodes."""
    wanted, kept = set(outputs), list[Item]()
    for item in reversed(items):
        if not isinstance(item, Group) or item.writes & wanted:
            wanted.update(reads_of(item))
            kept.append(item)
    return kept[::-1]


def reads_beside(region: Region) -> set[Tensor]:
    """What is read of a region by others than its own groups: its user, branches and loops."""
    return {*region.outputs, *(t for i in region.items if not isinstance(i, Group) for t in reads_of(i))}


def reads_of(item: Item) -> Iterator[Tensor]:
    """What an item reads, the regions inside it included, repeatedly."""
    match item:
        case Group() | Iterate():
            yield from item.reads
        case Either():
            yield item.condition
    for inner in regions_of(item):
        yield from inner.outputs
        for below in inner.items:
            yield from reads_of(below)


def regions_of(item: Item) -> tuple[Region, ...]:
    """The regions inside an item."""
    match item:
        case Either(_, _, then, other, _):
            return then, other
        case Iterate(body=body):
            return (body,)
    return ()


def _tensor(value: Value, tensors: dict[Value, Tensor]) -> Tensor:
    if value not in tensors:
        tensors[value] = value.tensor()
    return tensors[value]


def _items(node: Node, tensors: dict[Value, Tensor]) -> list[Item]:
    """What a node becomes; several groups where extents are measured on the way."""
    if node.op == "If" and node.domain == "":
        return [_either(node, tensors)]
    if node.op == "Loop" and node.domain == "":
        return _iterate(node, tensors)
    inputs = [None if v is None else _tensor(v, tensors) for v in node.inputs]
    formula = _named(formulate(node, inputs), node)
    for value, tensor in zip(node.outputs, formula.outputs, strict=False):
        if value is not None:
            tensors[value] = tensor
    view = None if formula.view is None else (formula.outputs[0], formula.view)
    name = (node.name or node.op,)
    *before, last = formula.parts or ((),)
    groups = [*(Group(name, part) for part in before), Group(name, last, view)]
    for group in groups:
        first = group.stages[0] if group.stages else None
        if isinstance(first, Compute) and first in formula.aliases:
            group.view = (first.out, formula.aliases[first])
    return [*groups]


def _either(node: Node, tensors: dict[Value, Tensor]) -> Either:
    """Extents that are data come first among the results: those behind them are copied by them."""
    condition = _input(node, 0, tensors)
    assert condition is not None
    made = [(i, v) for i, v in enumerate(node.outputs) if v is not None]
    measured = [(i, d, p) for (i, d), p in sorted(node.measured.items(), key=lambda m: m[0])]
    sides = []
    for which in ("then_branch", "else_branch"):
        side = _region(body(node, which), tensors)
        extents = [_scalar(side.items, side.outputs[i].shape[d], p.hi) for i, d, p in measured]
        side.outputs = (*extents, *(side.outputs[i] for i, _ in made))
        sides.append(side)
    results = (*(p.source for _, _, p in measured if p.source), *(_tensor(v, tensors) for _, v in made))
    return Either((node.name or node.op,), condition, sides[0], sides[1], results)


def _scalar(items: list[Item], n: Extent, most: int) -> Tensor:
    """A tensor that holds an extent, which is found to be `most` at most."""
    if isinstance(n, int) and n <= most:
        return Tensor("extent", INT64, (), np.array(n, np.int64))
    if isinstance(n, Param) and n.source is not None and n.hi <= most:
        return n.source
    out = Tensor("extent", INT64, ())
    value = cast(as_expr(n), INT64)
    if upper(n) > most:
        value = cast(Gathered(value, Const(0), Const(most + 1), "ERR_CAPACITY"), INT64)
    items.append(Group(("extent",), (Compute(out, (), value),)))
    return out


def _iterate(node: Node, tensors: dict[Value, Tensor]) -> list[Item]:
    """Extents of carried values that are data are carried before these. Sequences begin in all their room."""
    graph, count = body(node, "body"), len(node.inputs) - 2
    items: list[Item] = []
    initial = [_tensor(v, tensors) for v in node.inputs[2:] if v is not None]
    outputs = [*node.outputs, *[None] * (count - len(node.outputs))]
    inner = _region(graph, tensors)
    (turn, active, *carried), (again, *made) = inner.inputs, inner.outputs
    begin: list[Tensor] = []
    enter: list[Tensor] = []
    after: list[Tensor] = []
    ends: list[Tensor | None] = []
    for i in range(count):
        own = {d: p for (k, d), p in sorted(node.measured.items(), key=lambda m: m[0]) if k == inside(i)}
        for d, p in own.items():
            assert p.source is not None
            begin.append(_scalar(items, initial[i].shape[d], p.hi))
            enter.append(p.source)
            after.append(_scalar(inner.items, made[i].shape[d], p.hi))
            ends.append(None if outputs[i] is None else node.measured[i, d].source)
        if not own and initial[i].shape != carried[i].shape:
            initial[i] = _roomy(items, initial[i], carried[i])
    inner.inputs = (turn, active, *enter, *carried)
    inner.outputs = (again, *after, *made)
    results = (*ends, *(None if v is None else _tensor(v, tensors) for v in outputs[:count]))
    stacked = tuple(None if v is None else _tensor(v, tensors) for v in node.outputs[count:])
    trips, test = _input(node, 0, tensors), _input(node, 1, tensors)
    turns = tuple(_turns(node, graph, k) for k in range(count, len(node.outputs)))
    name = (node.name or node.op,)
    return [*items, Iterate(name, trips, test, (*begin, *initial), results, stacked, inner, turns)]


def _roomy(items: list[Item], small: Tensor, like: Tensor) -> Tensor:
    """The data or the extents of a sequence, where there is room for more; -1 is what extent nothing has."""
    out = Tensor(small.name, like.type, like.shape)
    axes = tuple(Var(f"i{d}", n) for d, n in enumerate(like.shape))
    outside = wrap(-1 if like.rank == 2 and like.type is INT64 else 0, like.type.compute)
    value = small.at(axes[: small.rank], outside=outside) if small.count else outside
    items.append(Group(("room",), (Compute(out, axes, value),)))
    return out


def _turns(node: Node, graph: Graph, k: int) -> Tensor | int | None:
    """How many slices output k, a scan output, has, as far as it is not known."""
    value = node.outputs[k]
    if value is None or value.shape is None or trip_count(node, graph) is not None:
        return None
    measured = node.measured.get((k, 0))
    return static(value.shape[0]) if measured is None else measured.source


def _input(node: Node, i: int, tensors: dict[Value, Tensor]) -> Tensor | None:
    value = node.inputs[i] if i < len(node.inputs) else None
    return None if value is None else _tensor(value, tensors)


def _named(formula: Formula, node: Node) -> Formula:
    """Outputs take the names of the model's values, and what is known of them; not their identity."""
    for value, tensor in zip(node.outputs, formula.outputs, strict=False):
        if value is not None and tensor not in formula.inputs:  # which keeps the name it came with
            object.__setattr__(tensor, "name", value.name)
            object.__setattr__(tensor, "known", value.known)
    return formula


Index = tuple[Expr, ...]


def read_instead(stage: Stage, old: Tensor, new: Tensor) -> Stage:
    """The stage with every read of `old` made a read of `new`, at the same place."""
    return read_through(stage, old, new, lambda index: index)


def read_through(stage: Stage, old: Tensor, new: Tensor, moved: Callable[[Index], Index]) -> Stage:
    """The stage with every read of `old` made a read of `new`, at the place that `moved` says."""
    if isinstance(stage, Scan):
        body = tuple(read_through(s, old, new, moved) for s in stage.body)
        return replace(stage, body=body, active=new if stage.active is old else stage.active)

    def swapped(e: Expr) -> Expr:
        return transform(e, _swap)

    def _swap(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.tensor is old:
            return Load(new, moved(tuple(map(swapped, e.index))), e.outside, e.lanes)
        return None

    r = stage.reduction and stage.reduction.over(swapped)
    return replace(stage, value=swapped(stage.value), reduction=r, at=tuple(map(swapped, stage.at)))
