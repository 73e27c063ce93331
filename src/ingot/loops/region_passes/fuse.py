"""Fusion: an elementwise group joins the group that makes its operand.

    c = conv(x, w)            c = conv(x, w) |> relu(. + s)
    y = relu(c + s)     ->

Works on formulas: the producer's last stage takes the consumer's expression as its own value. Where the
producer only puts parts together, the expression goes to the makers of the parts, which write them in place:

    y = relu(concat(a, b))    ->    y = concat(relu(a), relu(b))

What makes integers wider joins its reader first, so that what is stored between two layers are bytes:

    u = scaled(int32(x))      x = conv(..)           x = conv(..)
    y = uint8(u + ..)     ->  y = uint8(scaled(int32(x)) + ..)

Needs a formulated region. Guarantees the same outputs, every intermediate that disappears being read by
nobody else.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace

from ingot.formula.compute import Compute, Stage, reads, same_point, writes
from ingot.formula.expr import Expr, Load, Tensor, Var, loads, node_count, transform
from ingot.loops.lookup import is_lookup
from ingot.loops.region import Either, Group, Item, Iterate, Region
from ingot.loops.region_passes.subviews import move_of

MOST_NODES = 32  # of the model in one kernel: keeps names, code size and expression depth within reason
MOST_PARTS = 16  # stages that make one tensor in parts: each repeats the consumer's expression
DEEPEST = 200  # nodes of one fused expression


def fuse(region: Region) -> Region:
    """Fuse in place, regions of branches and loops included, and return the region."""
    return _fused(_fused(region, _is_widening), lambda producer, t: True)


def _is_widening(producer: Group, t: Tensor) -> bool:
    """Whether `t` is a map of narrower integers."""
    maps = pointwise(producer)
    read = () if maps is None else tuple(loads(maps.value))
    return t.type.kind == "i" and bool(read) and all(x.tensor.type.bytes < t.type.bytes for x in read)


def _fused(region: Region, joins: Callable[[Group, Tensor], bool]) -> Region:
    """Every group that makes such a tensor and the one that reads it, as one."""
    items: list[Item] = []
    readers = readers_of(region)
    makers: dict[Tensor, int] = {}
    waiting = deque(region.items)
    while waiting:
        item = waiting.popleft()
        if isinstance(item, Either):
            _fused(item.then, joins)
            _fused(item.other, joins)
        elif isinstance(item, Iterate):
            _fused(item.body, joins)
        elif (found := _producer(item, items, makers, readers, joins)) is not None:
            at, tensor = found
            producer = items[at]
            assert isinstance(producer, Group)
            items[at] = Group((), ())  # the merged group stands where its consumer stood
            if is_concatenation(producer):
                waiting.extendleft(reversed(_pushed(producer, item, tensor, readers)))
                continue
            readers.subtract(producer.reads & item.reads)  # two readers of these are one now
            waiting.appendleft(_merged(producer, item, tensor))  # which may join what makes its operands
            continue
        items.append(item)
        if isinstance(item, Group):
            makers.update(dict.fromkeys(item.writes, len(items) - 1))
    region.items = [i for i in items if not (isinstance(i, Group) and not i.stages)]
    return region


def readers_of(region: Region) -> Counter[Tensor]:
    """How many groups (or outputs, or control steps) read each tensor."""
    count: Counter[Tensor] = Counter(region.outputs)
    for item in region.items:
        match item:
            case Group():
                count.update(item.reads)
            case Either(_, condition, then, other, _):
                count.update([condition])
                count.update(readers_of(then) + readers_of(other))
            case Iterate(body=body):
                count.update((*item.reads, *item.writes, *body.inputs))
                count.update(readers_of(body))
    return count


def _producer(
    item: Item,
    items: list[Item],
    makers: dict[Tensor, int],
    readers: Counter[Tensor],
    joins: Callable[[Group, Tensor], bool],
) -> tuple[int, Tensor] | None:
    """The latest group whose only result this group consumes element by element."""
    assert isinstance(item, Group)
    consumer = pointwise(item)
    if consumer is None:
        return None
    candidates = [t for t in item.reads if t in makers and readers[t] == 1]
    for t in sorted(candidates, key=lambda t: -makers[t]):
        producer = items[makers[t]]
        assert isinstance(producer, Group)
        if not joins(producer, t):
            continue
        alone = all(w is t or not readers[w] for w in producer.writes)  # else the group could not move down
        if alone and len(producer.nodes) + len(item.nodes) <= MOST_NODES and _joins(producer, consumer, t):
            return makers[t], t
    return None


def pointwise(group: Group) -> Compute | None:
    """The group's one stage if it maps elements to elements."""
    stage = group.stages[0] if len(group.stages) == 1 else None
    if not isinstance(stage, Compute) or stage.reduction is not None or stage.at or group.view:
        return None
    return stage


def _writers(producer: Group, t: Tensor) -> list[Compute]:
    """The stages that make `t`, where nothing else of the group touches it; several that each make a part."""
    writers = [s for s in producer.stages if isinstance(s, Compute) and s.out is t]
    others = [s for s in producer.stages if not isinstance(s, Compute) or s.out is not t]
    touched = {x for s in others for x in (*reads(s), *writes(s))} | {x for s in writers for x in reads(s)}
    in_order = list(producer.stages[-len(writers) :]) == writers  # what made the operands has run by then
    return [] if producer.view or t in touched or not in_order else writers


def _joins(producer: Group, consumer: Compute, t: Tensor) -> bool:
    writers = _writers(producer, t)
    if is_lookup(consumer.value) or any(is_lookup(w.value) for w in writers):
        return False  # vectors of bytes look up as they are; what is beside them would go element by element
    if not writers or t.type.compute is not t.type or t.shape != consumer.out.shape:
        return False  # a narrow type rounds when it is stored
    here = [load for load in loads(consumer.value) if load.tensor is t]
    if not all(same_point(load, consumer.axes) for load in here):
        return False
    after = node_count(consumer.value)
    sizes = [node_count(w.value) * len(here) + after for w in writers]
    once = len(here) == 1 or all(w.reduction is not None for w in writers)
    return once and max(sizes) <= DEEPEST and len(writers) <= MOST_PARTS


def _merged(producer: Group, consumer: Group, t: Tensor) -> Group:
    """Both groups as one; what made the operand computes the consumer's value."""
    after = consumer.stages[0]
    assert isinstance(after, Compute)
    writers = set(_writers(producer, t))
    stages = [_with_value(s, after, t) if s in writers else s for s in producer.stages]
    return Group((*producer.nodes, *consumer.nodes), tuple(stages))


def is_concatenation(group: Group) -> bool:
    """Whether a group puts tensors together, as parts of one, and does nothing else."""
    moves = [move_of(s) for s in group.stages]
    whole = all(m is not None and m.extents == m.source.shape for m in moves)
    return len(moves) > 1 and whole and len(group.writes) == 1  # copies of copies are parts of nothing


def _pushed(producer: Group, consumer: Group, t: Tensor, readers: Counter[Tensor]) -> list[Group]:
    """The consumer applied to each part that makes up `t`, and the parts of its result put together."""
    after = consumer.stages[0]
    assert isinstance(after, Compute)
    maps: list[Group] = []
    together: list[Stage] = []
    for stage in producer.stages:
        whole = _with_value(stage, after, t)
        part = Tensor(after.out.name, after.out.type, tuple(a.extent or 0 for a in whole.axes))
        maps.append(Group(consumer.nodes, (Compute(part, whole.axes, whole.value),)))
        together.append(replace(whole, value=part[whole.axes]))
        readers[part] = 1
    others = [x for x in consumer.reads if x is not t]
    readers.update(others * (len(maps) - 1))
    readers.subtract(producer.reads)  # one group; now each part that is one of these reads it
    readers.update(x for m in maps for x in m.reads & producer.reads)
    return [*maps, Group(producer.nodes, tuple(together))]


def _with_value(stage: Stage, after: Compute, t: Tensor) -> Compute:
    assert isinstance(stage, Compute)
    renamed = {a.name: i for a, i in zip(after.axes, stage.index, strict=True)}
    return replace(stage, out=after.out, value=_inline(after.value, t, stage.value, renamed))


def _inline(e: Expr, t: Tensor, value: Expr, renamed: dict[str, Expr]) -> Expr:
    """The consumer's expression over the producer's axes, its reads of `t` being the producer's value."""

    def replace_node(node: Expr) -> Expr | None:
        match node:
            case Load(tensor=tensor) if tensor is t:
                return value
            case Var(name) if name in renamed:
                return renamed[name]
        return None

    return transform(e, replace_node)
