"""From formulas to the Program: each group becomes a kernel and its call.

The one place where a group's tensors become kernel parameters. Which generator writes the loops is `choose`'s business.
"""

from __future__ import annotations

from ingot.formula.compute import Stage, computes, macs
from ingot.formula.expr import Param, Tensor, loads, walk
from ingot.formula.statements import Statement, Store, expressions, flatten
from ingot.loops.choose import generate
from ingot.loops.layout import Layout, Storage, fill_halo
from ingot.loops.program import Call, Copy, Kernel, Program, Step
from ingot.loops.region import Group, Region
from ingot.targets.record import Target


def lower(region: Region, layouts: dict[Tensor, Layout], name: str, target: Target) -> Program:
    """The program of a region."""
    storage = Storage(dict(layouts), {})
    aliases: dict[Tensor, Tensor] = {}
    steps = _steps(region, storage, aliases, target)
    inputs = tuple(storage.tensor(t) for t in region.inputs)
    outputs, copies = _outputs(region, storage, aliases)
    program = Program(name, inputs, outputs, (), (*steps, *copies), aliases)
    return Program(name, inputs, outputs, _constants(program), program.steps, aliases, _params(program))


def _steps(region: Region, storage: Storage, aliases: dict[Tensor, Tensor], target: Target) -> list[Step]:
    steps: list[Step] = []
    for item in region.items:
        assert isinstance(item, Group), "control flow is lowered by loops/control.py"
        if item.view is not None and _is_alias(item, region, storage):
            view, base = item.view
            aliases[storage.tensor(view)] = storage.tensor(base)
        else:
            steps.append(call(item.nodes, item.stages, storage, target))
    return steps


def _is_alias(group: Group, region: Region, storage: Storage) -> bool:
    """A view costs nothing where both sides are dense; an output of the bundle needs bytes of its own."""
    assert group.view is not None
    view, base = group.view
    return view not in region.outputs and storage.layout(view).is_dense and storage.layout(base).is_dense


def call(nodes: tuple[str, ...], stages: tuple[Stage, ...], storage: Storage, target: Target) -> Call:
    """The kernel of some stages, and the call that binds it to the program's tensors."""
    halos = tuple(dict.fromkeys(c.out for c in computes(stages) if storage.layout(c.out).has_halo))
    body = (*(f for t in halos for f in fill_halo(t, storage)), *generate(stages, storage, target))
    parameters = _parameters(body)
    kernel = Kernel(nodes[0], parameters, body, nodes, macs(stages), _kernel_params(body))
    return Call(kernel, parameters)


def _parameters(body: tuple[Statement, ...]) -> tuple[Tensor, ...]:
    """Every tensor the statements touch: what is only read first, then what is written, in order of appearance."""
    read: dict[Tensor, None] = {}
    written: dict[Tensor, None] = {}
    for s in flatten(body):
        for e in expressions(s):
            read.update(dict.fromkeys(load.tensor for load in loads(e)))
        if isinstance(s, Store):
            written[s.to.tensor] = None
    return (*(t for t in read if t not in written), *written)


def _kernel_params(body: tuple[Statement, ...]) -> tuple[Param, ...]:
    found = {n for s in flatten(body) for e in expressions(s) for n in walk(e) if isinstance(n, Param)}
    shapes = {n for t in _parameters(body) for d in t.shape if not isinstance(d, int) for n in walk(d)}
    return tuple(sorted({*found, *(n for n in shapes if isinstance(n, Param))}, key=lambda p: p.name))


def _outputs(
    region: Region, storage: Storage, aliases: dict[Tensor, Tensor]
) -> tuple[tuple[Tensor, ...], list[Step]]:
    """Physical outputs; one that is an input, a constant or a second output of the same value is copied."""
    out: list[Tensor] = []
    copies: list[Step] = []
    made = {t for item in region.items if isinstance(item, Group) for t in item.writes}
    for t in region.outputs:
        physical = storage.tensor(t)
        if t not in made or physical in out:
            fresh = Tensor(t.name, t.type, t.shape)
            copies.append(Copy(physical, fresh))
            physical = fresh
        out.append(physical)
    return tuple(out), copies


def _constants(program: Program) -> tuple[Tensor, ...]:
    from ingot.loops.program import calls

    found = [t for c in calls(program.steps) for t in c.arguments]
    found += [s.source for s in program.steps if isinstance(s, Copy)]
    return tuple(dict.fromkeys(t for t in found if t.value is not None))


def _params(program: Program) -> tuple[Param, ...]:
    return tuple(sorted({p for k in program.kernels for p in k.params}, key=lambda p: p.name))
