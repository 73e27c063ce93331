"""The Program: a tree of kernel calls, branches and loops over physical tensors, and the kernels they call.

A kernel's parameters are physical tensors (what C sees as arrays); a call binds them to the program's own.
Two calls may share one kernel. Offsets are added by `memory.plan`; nothing here knows C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ingot.formula.box import Box, meet
from ingot.formula.expr import Array, Param, Tensor, Var, loads, text, walk
from ingot.formula.index import upper
from ingot.formula.statements import (
    Check,
    For,
    Pause,
    Remark,
    Statement,
    flatten,
    loaded,
    statements_text,
    stored,
)


@dataclass(frozen=True, eq=False)
class Kernel:
    """One C function. `nodes` are the model's nodes it computes, `macs` its multiply-accumulates per call.

    `scratch` are the parameters that hold nothing before the call and nothing after it (`Storage.scratch`);
    `choices` says how it computes the stages that could be computed otherwise, by their keys. `generators`
    are the families that wrote it (`loops/generate.py`), outer ones first.
    `numbers` are what it is given in C where it stands for several (`loops/alike.py`).
    What it reads and writes is found once: every call of it asks.
    """

    name: str
    parameters: tuple[Tensor, ...]
    body: tuple[Statement, ...]
    nodes: tuple[str, ...] = ()
    macs: int = 0
    params: tuple[Param, ...] = ()
    remark: str = ""
    scratch: frozenset[Tensor] = frozenset()
    choices: tuple[tuple[str, str], ...] = ()
    generators: tuple[str, ...] = ()
    numbers: tuple[Param | Var, ...] = ()

    @cached_property
    def read(self) -> frozenset[Tensor]:
        """The parameters it loads from."""
        return frozenset(load.tensor for s in flatten(self.body) for e in loaded(s) for load in loads(e))

    @cached_property
    def written(self) -> frozenset[Tensor]:
        """The parameters it stores to."""
        return frozenset(stored(self.body))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What its generators remark: formats of weights, algorithms."""
        return tuple(s.text for s in flatten(self.body) if isinstance(s, Remark))

    @cached_property
    def may_fail(self) -> bool:
        """Whether it can end the run: a check fails, or the caller says so at a pause."""
        return any(isinstance(s, Check | Pause) for s in flatten(self.body))


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """kernel(arguments): the program's tensors in the order of the kernel's parameters.

    `nodes` are the model's nodes this call computes, and `notes` what the generators of its own kernel
    remark, where they are not the kernel's: several calls share it.
    `pauses`: the caller of the bundle may take the processor behind it, or end the run.
    """

    kernel: Kernel
    arguments: tuple[Tensor, ...]
    nodes: tuple[str, ...] = ()
    pauses: bool = False
    notes: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """What the call reads; a parameter that is also written counts, for its old content may matter."""
        wanted = self.kernel.read
        return tuple(a for p, a in zip(self.kernel.parameters, self.arguments, strict=True) if p in wanted)

    @property
    def writes(self) -> tuple[Tensor, ...]:
        written = self.kernel.written
        return tuple(a for p, a in zip(self.kernel.parameters, self.arguments, strict=True) if p in written)


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """to = source, byte for byte.

    `pauses`: behind so many elements, and at the end, the caller of the bundle may take the processor or end
    the run (0: nowhere).
    """

    source: Tensor
    to: Tensor
    pauses: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """if (condition[0]) then else other."""

    condition: Tensor
    then: tuple[Step, ...]
    other: tuple[Step, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """for (counter = 0; counter < trips && condition; counter++) body; absent trips or condition are None.

    `pauses`: so may the caller of the bundle behind every iteration, however many the data ask for.
    """

    counter: Tensor
    trips: Tensor | None
    condition: Tensor | None
    body: tuple[Step, ...]
    pauses: bool = False


Step = Call | Copy | Branch | Repeat


@dataclass(frozen=True, slots=True)
class Alias:
    """Memory inside another tensor's: from its element `start` on, the strides being those of the `pitch`."""

    base: Tensor
    start: int = 0


@dataclass(frozen=True, slots=True)
class Area:
    """Elements of a tensor: a box of it, seen as an array of the extents `spans`."""

    base: Tensor
    spans: tuple[int, ...]
    box: Box

    def meets(self, other: Area) -> bool:
        """Whether an element may belong to both."""
        if self.base is not other.base:
            return False
        if self.spans == other.spans:
            return meet(self.box, other.box)
        (a, b), (c, d) = self.hull(), other.hull()
        return max(a, c) < min(b, d)

    def hull(self) -> tuple[int, int]:
        """From the first element to behind the last, in row-major order."""
        first = last = 0
        for (lo, hi), n in zip(self.box, self.spans, strict=True):
            first, last = first * n + lo, last * n + hi - 1
        return first, last + 1


def neighbours(areas: Sequence[Area]) -> Iterator[tuple[int, int]]:
    """The numbers of areas of one base that may have elements in common, in pairs.

    They are found in the order in which they begin, along the axis that parts most of them.
    """
    ranges = [a.hull() for a in areas]
    if len({a.spans for a in areas}) == 1 and areas[0].box:
        axes = range(len(areas[0].box))
        along = max(axes, key=lambda d: len({a.box[d] for a in areas}))
        ranges = [a.box[along] for a in areas]
    open_: list[int] = []
    for i in sorted(range(len(areas)), key=ranges.__getitem__):
        open_ = [k for k in open_ if ranges[k][1] > ranges[i][0]]
        yield from ((min(i, k), max(i, k)) for k in open_)
        open_.append(i)


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A member of the caller's state: read as `member`, and `made` is what it holds after the run.

    Where `made` is not an alias of the member, it is copied there after the last step. `initial` is its first
    content, None for zeros.
    """

    member: Tensor
    made: Tensor
    initial: Array | None = None


@dataclass(frozen=True, eq=False)
class Program:
    """Everything the bundle does, in order. `constants` are the weights in the order they are stored.

    `aliases` are the tensors that have no bytes of their own. `params` are the extents that the caller
    gives, `measured` those that are data: an int64 scalar holds each. `states` live in the caller's memory
    like inputs and outputs, which they are not.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    aliases: dict[Tensor, Alias] = field(default_factory=dict)
    params: tuple[Param, ...] = ()
    measured: dict[Param, Tensor] = field(default_factory=dict)
    states: tuple[Kept, ...] = ()

    @property
    def members(self) -> tuple[Tensor, ...]:
        return tuple(s.member for s in self.states)

    def extents(self, step: Step) -> tuple[Tensor, ...]:
        """The scalars that a step reads to know how far it goes."""
        match step:
            case Call(kernel):
                params = kernel.params
            case Copy(_, to):
                params = tuple(params_of(to))
            case _:
                params = ()
        return tuple(self.measured[p] for p in params if p in self.measured)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Each kernel once, in the order of first call."""
        return tuple(dict.fromkeys(c.kernel for c in calls(self.steps)))

    def place(self, t: Tensor) -> Alias:
        """The tensor that owns the bytes of `t`, and where in it they begin."""
        on_the_way: list[Tensor] = []
        while t not in self._places and t in self.aliases:
            on_the_way.append(t)
            t = self.aliases[t].base
        found = self._places.setdefault(t, Alias(t))
        for t in reversed(on_the_way):
            found = self._places[t] = Alias(found.base, found.start + self.aliases[t].start)
        return found

    @cached_property
    def _places(self) -> dict[Tensor, Alias]:
        """What `place` has answered: views of views of views are followed once."""
        return {}

    def area(self, t: Tensor) -> Area:
        """The bytes that `t` may touch."""
        views: list[Tensor] = []
        while t not in self._areas and t in self.aliases and t.bytes == self.aliases[t].base.bytes:
            views.append(t)  # a view of all there is
            t = self.aliases[t].base
        if t not in self._areas:
            self._areas[t] = self._area(t)
        self._areas.update(dict.fromkeys(views, self._areas[t]))
        return self._areas[t]

    @cached_property
    def _areas(self) -> dict[Tensor, Area]:
        """What `area` has answered."""
        return {}

    def _area(self, t: Tensor) -> Area:
        place = self.place(t)
        spans = tuple(map(upper, t.spans))
        corner, rest = list[int](), place.start
        for n in reversed(spans):
            corner.append(rest % max(n, 1))
            rest //= max(n, 1)
        box = tuple((k, k + upper(n)) for k, n in zip(reversed(corner), t.shape, strict=True))
        return Area(place.base, spans, box)


def params_of(t: Tensor) -> Iterator[Param]:
    """The run-time extents in a tensor's shape."""
    for n in t.shape:
        if not isinstance(n, int):
            yield from (p for p in walk(n) if isinstance(p, Param))


def steps_of(step: Step) -> tuple[Step, ...]:
    match step:
        case Branch(_, then, other):
            return then + other
        case Repeat(body=body):
            return body
    return ()


def calls(steps: tuple[Step, ...]) -> Iterator[Call]:
    """Every call of the tree, in order."""
    for step in steps:
        if isinstance(step, Call):
            yield step
        yield from calls(steps_of(step))


def calls_routines(kernel: Kernel) -> bool:
    """Whether routines of the target do work of a kernel."""
    return any(isinstance(s, For) and s.routine for s in flatten(kernel.body))


def may_fail(steps: tuple[Step, ...]) -> bool:
    """Whether the run can end in one of these steps, or at a pause behind one."""
    return any(
        (isinstance(s, Call) and s.kernel.may_fail)
        or (isinstance(s, Call | Copy | Repeat) and s.pauses)
        or may_fail(steps_of(s))
        for s in steps
    )


def operands(step: Step) -> tuple[Tensor, ...]:
    """The tensors a step reads or writes itself."""
    match step:
        case Call(_, arguments):
            return arguments
        case Copy(source, to):
            return (source, to)
        case Branch(condition):
            return (condition,)
        case Repeat(counter, trips, active):
            return tuple(t for t in (counter, trips, active) if t is not None)


def touched(steps: tuple[Step, ...]) -> Iterator[Tensor]:
    """The operands of steps and of the steps inside them."""
    for step in steps:
        yield from operands(step)
        yield from touched(steps_of(step))


def program_text(program: Program) -> str:
    """The text form: the kernels, then the steps."""
    lines: list[str] = []
    for kernel in program.kernels:
        lines.append(f"kernel {kernel.name}({', '.join(describe(t) for t in kernel.parameters)})")
        lines += statements_text(kernel.body)
    lines.append(f"program {program.name}({', '.join(describe(t) for t in program.inputs)})")
    lines += [f"  state {describe(s.member)}, then {s.made.name}" for s in program.states]
    lines += [f"  {t.name} is {a.base.name} from element {a.start}" for t, a in program.aliases.items()]
    lines += _steps_text(program.steps, "  ")
    return "\n".join(lines)


def describe(t: Tensor) -> str:
    within = "" if t.pitch is None else f" in [{', '.join(map(text, t.pitch))}]"
    return f"{t.name}: {t.type}[{', '.join(map(text, t.shape))}]{within}"


def _steps_text(steps: tuple[Step, ...], indent: str) -> Iterator[str]:
    for step in steps:
        match step:
            case Call(kernel, arguments):
                yield f"{indent}{kernel.name}({', '.join(t.name for t in arguments)})"
                yield from [f"{indent}pause"] if step.pauses else []
            case Copy(source, to):
                yield f"{indent}{to.name} = {source.name}"
                yield from [f"{indent}pause, every {step.pauses} elements"] if step.pauses else []
            case Branch(condition, then, other):
                yield f"{indent}if {condition.name}"
                yield from _steps_text(then, indent + "  ")
                yield f"{indent}else"
                yield from _steps_text(other, indent + "  ")
            case Repeat(counter, trips, active, body):
                limits = ", ".join(t.name for t in (trips, active) if t is not None)
                yield f"{indent}repeat {counter.name} while {limits}"
                yield from _steps_text(body, indent + "  ")
                yield from [f"{indent}  pause"] if step.pauses else []
