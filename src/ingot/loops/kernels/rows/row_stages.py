"""Which stages go together along rows: what the generator of row reductions works on.

In: stages over logical tensors. Out: a `Run`: the longest beginning of them that walks the same rows, each
bound to physical tensors and with its axes renamed to the first one's.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeGuard

from ingot.formula.compute import LARGEST, Compute, Reduction, Scan, Stage, reads
from ingot.formula.expr import (
    Binary,
    Expr,
    Gathered,
    Load,
    Tensor,
    Var,
    loads,
    static,
    substitute,
    transform,
    walk,
)
from ingot.formula.index import Bounds, interval, simplify
from ingot.formula.types import FLOAT32, FLOAT64, INT32, DType
from ingot.loops.access import has_vector_form, step
from ingot.loops.axes import normal_axes
from ingot.loops.kernels.joint_axes import join
from ingot.loops.layout import Storage, bind, destination

COMBINED = frozenset({"sum", "max", "min", *LARGEST})


@dataclass(frozen=True, slots=True)
class Step:
    """One stage over physical tensors: it reduces a row, maps it, or makes a number of numbers.

    `out` is the logical tensor; where `is_private`, nobody but the run reads it: it need not be in memory.
    """

    out: Tensor
    kind: Literal["reduce", "map", "number"]
    to: Load
    value: Expr
    reduction: Reduction | None
    is_private: bool

    @property
    def expressions(self) -> tuple[Expr, ...]:
        r = self.reduction
        return (self.value,) if r is None else (r.term, r.init, self.value)


@dataclass(frozen=True, slots=True)
class Run:
    """Steps over the same rows: `outer` axes tell rows apart, `others` and `x` lie along them, `x` by one."""

    outer: tuple[Var, ...]
    others: tuple[Var, ...]
    x: Var
    dtype: DType
    bounds: Bounds
    steps: tuple[Step, ...]

    def reads(self, reader: int, writer: int) -> bool:
        """Whether one step reads what another makes."""
        made = self.steps[writer].to.tensor
        return any(load.tensor is made for e in self.steps[reader].expressions for load in loads(e))

    def without_last(self) -> Run:
        return replace(self, steps=self.steps[:-1])

    def before(self, stages: tuple[Stage, ...]) -> Run:
        """The run with what the stages after it read in memory."""
        wanted = {t for s in stages for t in reads(s)}
        steps = tuple(replace(s, is_private=s.is_private and s.out not in wanted) for s in self.steps)
        return replace(self, steps=steps)

    def stored(self, storage: Storage) -> Run:
        """The run as memory has it: the axes along a row are one where they run on, and a map that nobody
        else reads has scratch of one row, which stays in a near cache.
        """
        own = {s.to.tensor: k for k, s in enumerate(self.steps) if s.kind == "map" and s.is_private}

        def without(e: Expr) -> Expr:
            return transform(e, lambda n: _held(own[n.tensor], n) if _is_of(n, own) else None)

        run = _joined(self._over(without), own, storage)
        index = _in_order(run)
        shape = tuple(static(a.extent) for a in index)
        rows = {t: Load(storage.scratch(t, shape, "row"), index) for t in own}
        names = {f"map{k}": rows[t] for t, k in own.items()}
        steps = run._over(lambda e: substitute(e, names)).steps
        return replace(run, steps=tuple(replace(s, to=rows.get(s.to.tensor, s.to)) for s in steps))

    def _over(self, f: Callable[[Expr], Expr]) -> Run:
        """The run with each expression of its steps replaced, not where they are stored."""

        def put(s: Step) -> Step:
            return replace(s, value=f(s.value), reduction=s.reduction and s.reduction.over(f))

        return replace(self, steps=tuple(map(put, self.steps)))


def _held(k: int, e: Expr) -> Var:
    """What step k makes, wherever it will be stored."""
    return Var(f"map{k}", None, e.dtype)


def _is_of(e: Expr, tensors: Container[Tensor]) -> TypeGuard[Load]:
    return isinstance(e, Load) and e.tensor in tensors


def _joined(run: Run, own: Container[Tensor], storage: Storage) -> Run:
    """The run with `x` and an axis around it made one, where all that is read and written runs on."""
    places = tuple(s.to for s in run.steps if s.to.tensor not in own)
    moved = (*(e for s in run.steps for e in s.expressions), *places)
    for outer in run.others:
        joint = join(outer, run.x, moved, storage, run.bounds)
        if joint is not None:
            axis, made = joint
            bounds = {**run.bounds, axis.name: interval(axis)}
            others = tuple(a for a in run.others if a is not outer)
            longer = _replaced(run, dict(zip(moved, made, strict=True)))
            return _joined(replace(longer, others=others, x=axis, bounds=bounds), own, storage)
    return run


def _replaced(run: Run, made: Mapping[Expr, Expr]) -> Run:
    """The run with expressions, and loads where steps store, replaced."""

    def to(s: Step) -> Load:
        load = made.get(s.to, s.to)
        assert isinstance(load, Load)
        return load

    steps = run._over(made.__getitem__).steps
    return replace(run, steps=tuple(replace(s, to=to(s)) for s in steps))


def phases(run: Run) -> Iterator[list[int]]:
    """The steps in order, parted where one waits for a statistic of the walk before it."""
    current: list[int] = []
    waiting = False  # whether numbers of this phase have been made already
    for k, s in enumerate(run.steps):
        waits = any(run.reads(k, j) and run.steps[j].kind != "map" for j in current)
        if current and s.kind != "number" and (waits or waiting):
            yield current
            current, waiting = [], False
        current.append(k)
        waiting = waiting or s.kind == "number"
    if current:
        yield current


def match(stages: tuple[Stage, ...], storage: Storage, bounds: Bounds) -> Run | None:
    """The run that the stages begin with, or None if the first does not reduce along a row."""
    if not isinstance(stages[0], Compute):
        return None
    first = normal_axes(stages[0])
    run = _begin(first, storage, bounds)
    if run is None:
        return None
    made: dict[Tensor, tuple[Expr, ...]] = {stages[0].out: first.index}
    for stage in stages[1:]:
        if isinstance(stage, Scan):
            break
        c = _renamed(normal_axes(stage), run, made)
        added = None if c is None else _step(c, storage, run)
        if c is None or added is None or not _is_fresh(added, run):
            break
        run = replace(run, steps=(*run.steps, added))
        made[stage.out] = c.index
    return run


def _begin(c: Compute, storage: Storage, bounds: Bounds) -> Run | None:
    """A run of one stage: a reduction one of whose axes every operand walks by one element, or stays."""
    r = c.reduction
    if r is None or r.combine not in COMBINED or r.term.dtype not in (FLOAT32, FLOAT64, INT32) or not r.axes:
        return None
    axes = (*c.axes, *r.axes)
    if not all(isinstance(a.extent, int) for a in axes):
        return None
    inner = {**bounds, **{a.name: interval(a) for a in axes}}
    term = bind(r.term, storage, inner)
    along = [a for a in r.axes if _walks(loads(term), a, needed=True)]
    if not along:
        return None
    x = max(along, key=lambda a: static(a.extent))
    run = Run(c.axes, tuple(a for a in r.axes if a is not x), x, r.term.dtype, inner, ())
    added = _step(c, storage, run)
    return None if added is None else replace(run, steps=(added,))


def _walks(operands: Iterable[Load], a: Var, needed: bool = False) -> bool:
    """Whether along an axis every read moves by one element or stays; `needed`: one of them moves."""
    moves = [step(load, a.name) for load in operands]
    return (1 in moves or not needed) and all(m in (0, 1) for m in moves)


def _renamed(c: Compute, run: Run, made: dict[Tensor, tuple[Expr, ...]]) -> Compute | None:
    """The stage over the run's axes, told by where it reads what the run made; the others in their order."""
    mine = (*c.axes, *(c.reduction.axes if c.reduction else ()))
    theirs = (*run.outer, *run.others, run.x)
    names: dict[str, Var] = {}
    free = {a.name for a in mine}
    for load in (x for e in c.expressions for x in loads(e) if x.tensor in made):
        for place, wrote in zip(load.index, made[load.tensor], strict=True):
            match place, wrote:
                case Var(name), Var() if name in free and names.setdefault(name, wrote) != wrote:
                    return None
    for a in mine:
        same = [t for t in theirs if t.name == a.name and t not in names.values()]
        if a.name not in names and same:
            names[a.name] = same[0]
    left = [t for t in (*run.outer, *_in_order(run)) if t not in names.values()]
    for a in mine:
        if a.name not in names and left:
            names[a.name] = left.pop(0)
    fits = all(a.name in names and names[a.name].extent == a.extent for a in mine)
    if not fits or len(set(names.values())) < len(names):
        return None
    return _over(c, names)


def _in_order(run: Run) -> tuple[Var, ...]:
    return (*run.others, run.x)


def _over(c: Compute, names: dict[str, Var]) -> Compute:
    def put(e: Expr) -> Expr:
        return simplify(substitute(e, names))

    r = c.reduction
    if r is not None:
        axes = tuple(names[a.name] for a in r.axes)
        r = Reduction(r.combine, axes, put(r.init), put(r.term))
    axes = tuple(names[a.name] for a in c.axes)
    return Compute(c.out, axes, put(c.value), r, tuple(map(put, c.index)))


def _step(c: Compute, storage: Storage, run: Run) -> Step | None:
    """The stage as a step of the run, or None if it is none."""
    kind = _kind(c, run)
    nodes = [n for e in c.expressions for n in walk(e)]
    if kind is None or any(isinstance(n, Gathered) or (isinstance(n, Load) and n.outside) for n in nodes):
        return None
    to, value = destination(c, storage, run.bounds), bind(c.value, storage, run.bounds)
    r = c.reduction and c.reduction.over(lambda e: bind(e, storage, run.bounds))
    if r is not None and r.term.dtype is INT32 and isinstance(r.term, Binary) and r.term.op == "mul":
        return None  # bytes are multiplied in groups
    made = Step(c.out, kind, to, value, r, c.out in storage.inner)
    along = value if r is None else r.term
    if kind != "number" and not (_is_row(along, run) and has_vector_form(along)):
        return None
    if c.out.type.compute is not c.out.type or (kind == "map" and step(to, run.x.name) != 1):
        return None  # what is stored narrow is rounded there
    return made if _reads_at_same_point(made, run) else None


def _kind(c: Compute, run: Run) -> Literal["reduce", "map", "number"] | None:
    outer, along = set(run.outer), {*run.others, run.x}
    r = c.reduction
    if r is not None:
        same = set(c.axes) == outer and set(r.axes) == along
        known = r.combine in COMBINED and r.term.dtype is run.dtype
        return "reduce" if same and known and not (run.steps and _is_product(r.term)) else None
    if set(c.axes) == outer | along:
        return "map"
    return "number" if set(c.axes) == outer else None


def _is_product(e: Expr) -> bool:
    """A product of two tensors, which the contraction generator may do better."""
    return isinstance(e, Binary) and e.op == "mul" and isinstance(e.a, Load) and isinstance(e.b, Load)


def _is_row(e: Expr, run: Run) -> bool:
    return e.dtype is run.dtype and _walks(loads(e), run.x)


def _reads_at_same_point(s: Step, run: Run) -> bool:
    """What the run made is read only where it was made."""
    places = {earlier.to.tensor: earlier.to.index for earlier in run.steps}
    found = [load for e in s.expressions for load in loads(e) if load.tensor in places]
    return all(load.index == places[load.tensor] for load in found)


def _is_fresh(s: Step, run: Run) -> bool:
    """Whether no earlier step touched what this one writes."""
    touched: Iterator[Tensor] = (
        load.tensor for p in run.steps for e in (*p.expressions, p.to) for load in loads(e)
    )
    return s.to.tensor not in set(touched)
