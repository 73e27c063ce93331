"""From formulas to the Program: each group becomes a call of a kernel.

The one place where a group's tensors become kernel parameters. Groups whose formulas differ in their tensors
only call one kernel, made for the first of them. Which generator writes the loops is `generate`'s business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from ingot.formula.compute import Compute, Stage, computes, macs, reads
from ingot.formula.expr import Const, Gathered, Load, Param, Tensor, Var, cast, walk
from ingot.formula.index import as_expr, upper
from ingot.formula.signature import signature
from ingot.formula.statements import Statement, Store, expressions, flatten
from ingot.formula.types import FLOAT32, INT64
from ingot.loops.byte_maps import with_byte_maps
from ingot.loops.choice import LOWERING, Choices, Chooser, LoweringOptions
from ingot.loops.generate import generate
from ingot.loops.interchange import in_common, parameters_of_layers
from ingot.loops.kernels.peel import is_cut
from ingot.loops.layout import Layout, Storage, at_once, fill_halo
from ingot.loops.program import Alias, Branch, Call, Copy, Kernel, Program, Repeat, Step, params_of, touched
from ingot.loops.region import Either, Group, Iterate, Region, groups, inner_tensors
from ingot.loops.region_passes.bands import merge_bands
from ingot.loops.region_passes.streams import stream_rows
from ingot.loops.region_passes.subviews import is_nothing
from ingot.loops.requantise import for_scalars
from ingot.loops.rewrite import rewritten, without_single_iterations
from ingot.loops.sum_range import room
from ingot.targets.record import Target


def lower(
    region: Region,
    layouts: dict[Tensor, Layout],
    name: str,
    target: Target,
    how: LoweringOptions = LOWERING,
) -> Program:
    """The program of a region whose tensors are stored as `layouts` says."""
    choose = Chooser(target, _constant_bytes(region), how)
    storage = Storage(dict(layouts))
    if how.room is not None:
        lines = stream_rows(region, storage, how.room, lambda c: choose.one(c, storage))
        choose.lines.update(lines)
    if how.parts:
        bands = merge_bands(region, storage, target, lambda c: choose.one(c, storage), how.parts)
        choose.bands.update(bands)
    storage.inner = inner_tensors(region)
    work = _Work(storage, target, choose)
    steps = _steps(region, work)
    inputs = tuple(work.storage.tensor(t) for t in region.inputs)
    outputs, copies = _outputs(region, work.storage)
    aliases = {**work.storage.aliases, **_views(steps, work.storage)}
    program = Program(name, inputs, outputs, (), (*steps, *copies), aliases)
    params = _params(program)
    given = tuple(p for p in params if p.source is None)
    measured = {p: work.storage.tensor(p.source) for p in params if p.source is not None}
    return replace(program, constants=_constants(program), params=given, measured=measured)


def _views(steps: Iterable[Step], storage: Storage) -> dict[Tensor, Alias]:
    """Of the views that generators made, those that a step touches."""
    found = set(touched(tuple(steps)))
    return {view: Alias(base) for view, base in storage.views.items() if view in found}


@dataclass(frozen=True, slots=True)
class _Work:
    """What lowering carries along: the tensors' storage, each kernel by what it does (`_key`)."""

    storage: Storage
    target: Target
    choose: Chooser
    kernels: dict[Hashable, tuple[Kernel, tuple[Tensor, ...]]] = field(default_factory=dict)


def _constant_bytes(region: Region) -> int:
    """How much memory the constants take that a region reads."""
    found = {t for g in groups(region) for t in g.reads}
    return sum(t.value.nbytes for t in found if t.value is not None)


def _steps(region: Region, work: _Work) -> list[Step]:
    storage, makers = work.storage, _makers(region)
    steps: list[Step] = []
    for item in region.items:
        match item:
            case Either():
                steps.append(_branch(item, work))
            case Iterate():
                steps += _repeat(item, work)
            case Group(view=(view, base)) if (owner := _owner(view, base, makers, storage)) is not None:
                other = base if owner is view else view
                storage.aliases[storage.tensor(other)] = Alias(storage.tensor(owner))
            case Group():
                stages = tuple(s for s in item.stages if not is_nothing(s, storage.layouts))
                steps += [_call(item.nodes, stages, work)] if stages else []
    return steps


def _branch(item: Either, work: _Work) -> Branch:
    """Each side ends with copies into the results."""
    storage, sides = work.storage, []
    for region in (item.then, item.other):
        steps = _steps(region, work)
        pairs = zip(region.outputs, item.results, strict=True)
        steps += [Copy(storage.tensor(a), storage.tensor(b)) for a, b in pairs]
        sides.append(tuple(steps))
    return Branch(storage.tensor(item.condition), *sides)


def _repeat(item: Iterate, work: _Work) -> list[Step]:
    """Copies in, the loop whose body ends by copying what it made over what it carries, copies out."""
    storage = work.storage
    turn, active, *carried = (storage.tensor(t) for t in item.body.inputs)
    condition, *made = item.body.outputs
    first: list[Step] = [] if item.condition is None else [Copy(storage.tensor(item.condition), active)]
    starts = [Copy(storage.tensor(t), c) for t, c in zip(item.initial, carried, strict=True)]
    body = _steps(item.body, work)
    slices, whole = _slices(item, work)
    body += slices
    made_now = [storage.tensor(t) for t in made[: len(carried)]]
    # what is made may be what is carried
    fresh = [Tensor(f"{c.name}_next", c.type, t.shape) for c, t in zip(carried, made_now, strict=True)]
    body += [Copy(t, f) for t, f in zip(made_now, fresh, strict=True)]
    body += [Copy(f, c) for f, c in zip(fresh, carried, strict=True)]
    tested = item.condition is not None or condition is not item.body.inputs[1]
    if tested:
        body.append(Copy(storage.tensor(condition), active))
        first = first or [_set_true(active)]
    trips = None if item.trips is None else storage.tensor(item.trips)
    loop = Repeat(turn, trips, active if tested else None, tuple(body))
    ends = [Copy(c, storage.tensor(r)) for c, r in zip(carried, item.results, strict=True) if r is not None]
    return [*first, *starts, loop, *ends, *whole]


def _slices(item: Iterate, work: _Work) -> tuple[list[Step], list[Step]]:
    """stacked[turn] = slice, for each scan output that is read; and what is left to do after the loop."""
    steps: list[Step] = []
    after: list[Step] = []
    turn = item.body.inputs[0]
    made = item.body.outputs[1 + len(item.initial) :]
    for slice_, whole, turns in zip(made, item.stacked, item.turns, strict=False):
        if whole is None:
            continue
        most = upper(whole.shape[0])
        room = whole if turns is None else Tensor(f"{whole.name}_room", whole.type, (most, *whole.shape[1:]))
        axes = tuple(Var(f"i{d}", n) for d, n in enumerate(slice_.shape))
        error = "ERR_INDEX" if turns is None else "ERR_CAPACITY"
        at = Gathered(turn[()], Const(0), as_expr(room.shape[0]), error)
        steps.append(_call(item.nodes, (Compute(room, axes, slice_[axes], None, (at, *axes)),), work))
        if turns is None:
            continue
        lo, hi = (turns, turns + 1) if isinstance(turns, int) else (0, most + 1)
        count = turns if isinstance(turns, Tensor) else Tensor("turns", INT64, ())
        number = Gathered(turn[()], Const(lo), Const(hi), "ERR_CAPACITY")
        after.append(_call(item.nodes, (Compute(count, (), cast(number, INT64)),), work))
        after.append(Copy(work.storage.tensor(room), work.storage.tensor(whole)))
    return steps, after


def _set_true(condition: Tensor) -> Call:
    body = (Store(Load(condition, ()), Const(True, condition.type)),)
    return Call(Kernel(f"start_{condition.name}", (condition,), body, ("Loop",)), (condition,))


@dataclass(frozen=True, slots=True)
class _Makers:
    """The groups of a region that make each tensor, and what the region gives."""

    outputs: frozenset[Tensor]
    groups: dict[Tensor, list[Group]]


def _makers(region: Region) -> _Makers:
    found: dict[Tensor, list[Group]] = {}
    for group in (i for i in region.items if isinstance(i, Group)):
        for t in group.writes:
            found.setdefault(t, []).append(group)
    return _Makers(frozenset(region.outputs), found)


def _owner(view: Tensor, base: Tensor, region: _Makers, storage: Storage) -> Tensor | None:
    """Whose bytes both are: a view costs nothing where both sides are stored in row-major order.

    A result of the region has bytes of its own; what is only a step on the way to it is made there.
    """
    if not (storage.is_dense(view) and storage.is_dense(base)):
        return None
    if view not in region.outputs:
        return base
    makers = region.groups.get(base, [])
    taken = base in region.outputs or storage.tensor(base) in storage.aliases
    return view if makers and not any(g.view for g in makers) and not taken else None


def _call(nodes: tuple[str, ...], stages: tuple[Stage, ...], work: _Work) -> Call:
    """The call of some stages' kernel: a new one, or the one of earlier stages that do the same."""
    what, tensors = signature(stages)
    choices = work.choose(stages, work.storage)
    own = parameters_of_layers(stages)
    rooms = tuple(map(room, computes(stages))) if work.target.routines else ()
    key = (what, rooms, *choices.values(), *(_key(t, work.storage, t in own) for t in tensors))
    if key not in work.kernels:
        made = _kernel(nodes, stages, work, choices)
        work.kernels[key] = made, tensors
        return Call(made, made.parameters)
    made, first = work.kernels[key]
    others = dict(zip(first, tensors, strict=True))
    return Call(made, tuple(work.storage.again(p, others) for p in made.parameters), nodes)


def _key(t: Tensor, storage: Storage, is_parameter: bool) -> Hashable:
    """All that generators ask of a tensor."""
    layout, pitch = replace(storage.layout(t), place=None), storage.tensor(t).pitch
    is_inner = t in storage.inner
    own = None if t.codebook is None else t  # how an encoded constant is stored depends on its elements
    return t.type.name, t.shape, layout, pitch, t.value is None, in_common(t, is_parameter), is_inner, own


def _kernel(nodes: tuple[str, ...], stages: tuple[Stage, ...], work: _Work, choices: Choices) -> Kernel:
    """The kernel of some stages; its parameters are the physical tensors they touch."""
    storage = work.storage
    whole = [c.out for c in computes(stages) if choices[c].is_whole]
    halos = tuple(dict.fromkeys(t for t in whole if storage.layout(t).has_halo))
    filled = (f for t in halos for f in fill_halo(t, storage, at_once(t, work.target)))
    twice = (c.out for c in computes(stages) if is_cut(c, storage, work.target))
    storage.fixed = frozenset(map(storage.tensor, (*halos, *_shared(stages), *twice)))
    served = list[str]()
    written = generate(stages, storage, work.target, None, choices, served)
    body = with_byte_maps(without_single_iterations((*filled, *written)), work.target)
    if work.target.lanes(FLOAT32.bytes) == 1:
        body = rewritten(body, for_scalars(work.target))
    parameters, params = _touched(body)
    scratch = frozenset(storage.scratches.intersection(parameters))
    how = work.choose.named(choices)
    made_by = tuple(dict.fromkeys(served))
    return Kernel(nodes[0], parameters, body, nodes, macs(stages), params, "", scratch, how, made_by)


def _shared(stages: tuple[Stage, ...]) -> Iterator[Tensor]:
    """What is written and touched elsewhere in the kernel too."""
    every = list(computes(stages))
    touched = Counter(t for c in every for t in {c.out, *reads(c)})
    yield from (c.out for c in every if touched[c.out] > 1 or c.out in reads(c))


def _touched(body: tuple[Statement, ...]) -> tuple[tuple[Tensor, ...], tuple[Param, ...]]:
    """Every tensor the statements touch: what is only read first, then what is written, in order of
    appearance; and the run-time extents they need.
    """
    read: dict[Tensor, None] = {}
    written: dict[Tensor, None] = {}
    params: set[Param] = set()
    for s in flatten(body):
        for n in (n for e in expressions(s) for n in walk(e)):
            if isinstance(n, Load):
                read[n.tensor] = None
            elif isinstance(n, Param):
                params.add(n)
        if isinstance(s, Store):
            written[s.to.tensor] = None
    extents = (d for t in read for d in t.shape if not isinstance(d, int))
    params.update(n for d in extents for n in walk(d) if isinstance(n, Param))
    tensors = (*(t for t in read if t not in written), *written)
    return tensors, tuple(sorted(params, key=lambda p: p.name))


def _outputs(region: Region, storage: Storage) -> tuple[tuple[Tensor, ...], list[Step]]:
    """Physical outputs; one that is an input, a constant or a second output of the same value is copied."""
    out: list[Tensor] = []
    given: set[Tensor] = set()
    copies: list[Step] = []
    made = {t for item in region.items for t in (item.results if isinstance(item, Either) else item.writes)}
    for t in region.outputs:
        physical = storage.tensor(t)
        if t not in made or physical in given:
            fresh = Tensor(t.name, t.type, t.shape)
            copies.append(Copy(physical, fresh))
            physical = fresh
        given.add(physical)
        out.append(physical)
    return tuple(out), copies


def _constants(program: Program) -> tuple[Tensor, ...]:
    """Every tensor with known elements that a step touches, views of such included through their base."""
    found: dict[Tensor, None] = {}
    for t in touched(program.steps):
        base = program.place(t).base
        if base.value is not None:
            found[base] = None
    return tuple(found)


def _params(program: Program) -> tuple[Param, ...]:
    """The run-time extents of kernels, copies, inputs and outputs."""
    found = {p for k in program.kernels for p in k.params}
    edge = (*program.inputs, *program.outputs)
    found.update(p for t in (*touched(program.steps), *edge) for p in params_of(t))
    return tuple(sorted(found, key=lambda p: p.name))
