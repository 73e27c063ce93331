"""The verifier of the Program: what the C compiler, the sanitizers or the user would find, found here.

In: a Program. Out: the accesses that could be neither proved inside nor shown outside, or InternalError
naming kernel and statement. Registers are declared once, before use, and used with their lanes and type;
every access of every iteration lies inside its tensor; kernels write only their parameters, calls never a
constant or an input; what is read was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from ingot.errors import InternalError
from ingot.formula.box import Box, covered
from ingot.formula.compute import Stage
from ingot.formula.expr import (
    Binary,
    Bitcast,
    Byte,
    Cast,
    Const,
    Entry,
    Expr,
    Fma,
    Gathered,
    Joined,
    Lane,
    Load,
    Param,
    Pick,
    Select,
    Shuffle,
    Tensor,
    Text,
    Unary,
    Var,
    children,
    text,
    walk,
)
from ingot.formula.index import as_expr
from ingot.formula.prove import Scope, keeps_within
from ingot.formula.statements import (
    Assign,
    Barrier,
    Check,
    For,
    Instruction,
    Let,
    Madd,
    Pause,
    Prefetch,
    Remark,
    Statement,
    Store,
    When,
    expressions,
    statements_text,
)
from ingot.formula.types import BOOL, INDEX, DType
from ingot.formula.verify import check_types, verify_stages
from ingot.log import strictness
from ingot.loops.instructions import GROUP, INSTRUCTIONS
from ingot.loops.program import Area, Branch, Call, Copy, Kernel, Program, Repeat, Step, neighbours
from ingot.loops.region import Either, Group, Iterate, Region


@dataclass(frozen=True)
class Register:
    dtype: DType
    lanes: int
    mutable: bool


Proved = dict[Kernel, list[str]]
"""Kernels that were verified already, and the accesses in them that could not be proved."""


def verify_program(program: Program, proved: Proved | None = None) -> list[str]:
    """Every kernel once, then the steps in order; the accesses left to trust, as text. `proved` grows."""
    proved = {} if proved is None else proved
    for kernel in program.kernels:
        if kernel not in proved:
            proved[kernel] = verify_kernel(kernel)
    steps = _Steps(program, {*program.inputs, *program.constants})
    written = _Written()
    for t in (*steps.foreign, *program.members):
        written.add(program.area(t))
    steps.follow(program.steps, written)
    for t in (*program.outputs, *(s.made for s in program.states)):
        if not written.covers(program.area(t)):
            raise InternalError(f"program {program.name}: output {t.name} is never written")
    return [access for kernel in program.kernels for access in proved[kernel]]


def require_proved(program: Program, proved: Proved | None = None) -> None:
    """Verify; with INGOT_CHECK=2 an access that could not be proved is an InternalError too."""
    unproved = verify_program(program, proved)
    if unproved and strictness() > 1:
        raise InternalError(f"{len(unproved)} accesses cannot be proved: " + "; ".join(unproved[:4]))


# -- the steps


@dataclass(slots=True)
class _Written:
    """What stands in memory: areas by their tensor, in the order in which they were added.

    `whole` says of tensors that were looked at how many areas they had then, and whether these are all of it.
    """

    added: list[Area] = field(default_factory=list)
    areas: dict[Tensor, dict[Area, None]] = field(default_factory=dict)
    whole: dict[Tensor, tuple[int, bool]] = field(default_factory=dict)

    def add(self, area: Area) -> None:
        known = self.areas.setdefault(area.base, {})
        if area not in known:
            known[area] = None
            self.added.append(area)

    def undo(self, before: int) -> dict[Area, None]:
        """Forget, and return, all but the first so many areas."""
        gone = dict.fromkeys(self.added[before:])
        del self.added[before:]
        for area in gone:
            del self.areas[area.base][area]
            self.whole.pop(area.base, None)
        return gone

    def covers(self, area: Area) -> bool:
        """Whether every element of an area was written: by itself, with all of the tensor, or by parts."""
        known = self.areas.get(area.base, {})
        if area in known or self.is_whole(area.base):
            return True
        found = covered(area.box, [other.box for other in known if other.spans == area.spans])
        if found:
            self.add(area)
        return found

    def is_whole(self, base: Tensor) -> bool:
        known = self.areas.get(base, {})
        count, found = self.whole.get(base, (0, False))
        if not found and count < len(known):
            boxes: dict[tuple[int, ...], list[Box]] = {}
            for area in known:
                boxes.setdefault(area.spans, []).append(area.box)
            found = any(covered(tuple((0, n) for n in spans), some) for spans, some in boxes.items())
            self.whole[base] = len(known), found
        return found


@dataclass(frozen=True)
class _Steps:
    """The program whose steps are followed; `foreign` are its inputs and constants."""

    program: Program
    foreign: set[Tensor]

    def fail(self, where: str, message: str) -> InternalError:
        return InternalError(f"program {self.program.name}, {where}: {message}")

    def follow(self, steps: Iterable[Step], written: _Written) -> None:
        """Add to `written` what stands in memory after the steps."""
        for step in steps:
            for count in self.program.extents(step):
                self.require_written(count, written, "an extent")
            match step:
                case Call():
                    self.call(step, written)
                case Copy(source, to):
                    where = f"{to.name} = {source.name}"
                    self.require_written(source, written, where)
                    if source.type is not to.type or not _fits(source, to):
                        raise self.fail(where, "one does not fit the other")
                    self.write(to, written, where)
                case Branch(condition, then, other):
                    self.require_written(condition, written, "if")
                    sides = [self.side(then, written), self.side(other, written)]
                    for area in sides[0]:
                        if area in sides[1]:
                            written.add(area)
                case Repeat(counter, trips, active, body):
                    for t in (trips, active):
                        if t is not None:
                            self.require_written(t, written, "repeat")
                    written.add(self.program.area(counter))
                    self.follow(body, written)  # slices of no iteration at all: nobody reads them

    def call(self, call: Call, written: _Written) -> None:
        where = f"call of {call.kernel.name}"
        if len(call.arguments) != len(call.kernel.parameters):
            raise self.fail(where, f"{len(call.arguments)} arguments")
        for p, a in zip(call.kernel.parameters, call.arguments, strict=True):
            if p.type is not a.type or p.shape != a.shape or p.pitch != a.pitch:
                raise self.fail(where, f"{a.name} {a.type}{_shape(a)} for {p.name} {p.type}{_shape(p)}")
        made = frozenset(call.writes)
        self.require_apart(call.arguments, made, where)
        for t in call.reads:
            if t not in made:
                self.require_written(t, written, where)
        for t in call.writes:
            self.write(t, written, where)

    def side(self, steps: tuple[Step, ...], written: _Written) -> dict[Area, None]:
        """What one side of a branch adds; `written` stays as it is."""
        before = len(written.added)
        self.follow(steps, written)
        return written.undo(before)

    def require_apart(self, arguments: tuple[Tensor, ...], made: frozenset[Tensor], where: str) -> None:
        """Parameters are `restrict`: what a call makes shares no element with anything else it touches."""
        beside: dict[Tensor, list[Tensor]] = {}  # in one piece of memory
        for t in arguments:
            beside.setdefault(self.program.place(t).base, []).append(t)
        for some in beside.values():
            areas = [self.program.area(t) for t in some] if not made.isdisjoint(some) else []
            for i, k in neighbours(areas) if len(areas) > 1 else ():
                if (some[i] in made or some[k] in made) and areas[i].meets(areas[k]):
                    raise self.fail(where, f"its arguments {some[k].name} and {some[i].name} share elements")

    def require_written(self, t: Tensor, written: _Written, where: str) -> None:
        if not written.covers(self.program.area(t)):
            raise self.fail(where, f"{t.name} is read before it is written")

    def write(self, t: Tensor, written: _Written, where: str) -> None:
        area = self.program.area(t)
        if area.base.value is not None or area.base in self.foreign:
            raise self.fail(where, f"{t.name} is written but belongs to others")
        written.add(area)


def _fits(source: Tensor, to: Tensor) -> bool:
    """Whether extents are equal as far as they are known: those that are data are copied before.

    A loop's condition may be a scalar here and have one element there.
    """
    if source.count == to.count == 1:
        return True
    pairs = zip(source.shape, to.shape, strict=False)
    return len(source.shape) == len(to.shape) and all(
        m == n or not (isinstance(m, int) and isinstance(n, int)) for m, n in pairs
    )


def _shape(t: Tensor) -> str:
    return f"[{', '.join(map(text, t.shape))}]"


# -- a kernel


def verify_kernel(kernel: Kernel) -> list[str]:
    """The accesses that could not be proved. Raises InternalError for everything that is wrong."""
    if len(set(kernel.parameters)) != len(kernel.parameters):
        raise InternalError(f"kernel {kernel.name}: a parameter stands twice")
    checker = _Checker(kernel)
    checker.block(kernel.body, {}, Scope())
    return checker.unproved


@dataclass
class _Checker:
    kernel: Kernel
    unproved: list[str] = field(default_factory=list)
    statement: Statement = field(default_factory=Barrier)

    @cached_property
    def parameters(self) -> frozenset[Tensor]:
        return frozenset(self.kernel.parameters)

    def fail(self, message: str) -> InternalError:
        line = next(statements_text((self.statement,), ""), "")
        return InternalError(f"kernel {self.kernel.name}, `{line}`: {message}")

    def block(self, body: tuple[Statement, ...], outer: dict[str, Register], scope: Scope) -> None:
        """Statements in order; what they declare is known to those after them and inside them."""
        known = dict(outer)
        for s in body:
            self.statement = s
            scope = self.one(s, known, scope)

    def one(self, s: Statement, known: dict[str, Register], scope: Scope) -> Scope:
        """Check a statement; the scope after it."""
        for e in (*s.to.index, s.value) if isinstance(s, Store) else expressions(s):
            self.expression(e, known, scope)
        match s:
            case For(var, lo, hi, step, body):
                self.declare(var, Register(INDEX, 1, False), known)
                if step < 1 or lo.dtype is not INDEX or hi.dtype is not INDEX:
                    raise self.fail("not a loop over indices")
                self.block(body, known, scope.variable(var, lo, hi, step))
                del known[var]
            case Let(name, value, lanes, mutable):
                self.width(value, lanes, known)
                self.declare(name, Register(value.dtype, lanes, mutable), known)
                if value.dtype is INDEX and not mutable:
                    return scope.let(name, value)
            case Assign() | Madd() | Instruction():
                self.update(s, known)
            case Store(to, value, lanes):
                self.store(to, value, lanes, known, scope)
            case When(condition, body, other):
                self.boolean(condition)
                self.block(body, known, scope.given(condition))
                self.block(other, known, scope.given(condition, False))
            case Check(condition):
                self.boolean(condition)
                return scope.given(condition)
            case Barrier() | Pause() | Prefetch() | Remark():
                pass
        return scope

    def boolean(self, condition: Expr) -> None:
        if condition.dtype is not BOOL:
            raise self.fail(f"a condition of type {condition.dtype}")

    def declare(self, name: str, register: Register, known: dict[str, Register]) -> None:
        if name in known or any(p.name == name for p in self.kernel.params):
            raise self.fail(f"{name} is declared twice")
        known[name] = register

    def update(self, s: Assign | Madd | Instruction, known: dict[str, Register]) -> None:
        register = known.get(s.name)
        if register is None or not register.mutable:
            raise self.fail(f"{s.name} is not a mutable register")
        if register.lanes != s.lanes:
            raise self.fail(f"{s.name} has {register.lanes} lanes")
        if isinstance(s, Instruction):
            self.instruction(s, register, known)
            return
        for e in expressions(s):
            self.width(e, s.lanes, known)
            if e.dtype is not register.dtype:
                raise self.fail(f"a {e.dtype} value for {s.name}, which is {register.dtype}")

    def instruction(self, s: Instruction, register: Register, known: dict[str, Register]) -> None:
        if s.operation not in INSTRUCTIONS or register.dtype.bits != 32:
            raise self.fail("no such instruction")
        k = GROUP[s.operation]
        for e in (s.a, s.b):
            if self.lanes(e, known) not in (k, k * s.lanes):
                raise self.fail(f"an operand has {self.lanes(e, known)} elements, not {k} or {k * s.lanes}")

    def store(self, to: Load, value: Expr, lanes: int, known: dict[str, Register], scope: Scope) -> None:
        self.access(replace(to, lanes=lanes), scope)
        self.width(value, lanes, known)
        if value.dtype not in (to.tensor.type, to.tensor.type.compute):
            raise self.fail(f"a {value.dtype} value for {to.tensor.name}, which is {to.tensor.type}")
        if to.tensor.value is not None:
            raise self.fail(f"{to.tensor.name} is a constant")
        if not keeps_within(to.tensor, value, scope):
            raise self.fail(f"{text(value)} may lie beyond {to.tensor.within}")

    # -- expressions

    def expression(self, e: Expr, known: dict[str, Register], scope: Scope) -> None:
        try:
            check_types(e, "")
        except InternalError as error:
            raise self.fail(str(error).removeprefix(": ")) from None
        match e:
            case Var(name, _, dtype):
                if name not in known:
                    raise self.fail(f"{name} is used before it is declared")
                if known[name].dtype is not dtype:
                    raise self.fail(f"{name} is {known[name].dtype}, used as {dtype}")
            case Param() if e not in self.kernel.params:
                raise self.fail(f"{e.name} is not a parameter of the kernel")
            case Gathered():
                raise self.fail("a data-dependent index without its check")
            case Select(condition, a, b):
                self.expression(condition, known, scope)
                self.expression(a, known, scope.given(condition))
                self.expression(b, known, scope.given(condition, False))
                return
            case Load():
                self.access(e, scope)
        for child in children(e):
            self.expression(child, known, scope)

    def access(self, load: Load, scope: Scope) -> None:
        """Every lane of every iteration inside the tensor: along the last index, or in row-major order."""
        t = load.tensor
        if t not in self.parameters:
            raise self.fail(f"{t.name} is not a parameter")
        if load.outside is not None or len(load.index) != t.rank:
            raise self.fail(f"{text(load)} is not a plain access")
        pairs = list(zip(load.index, t.shape, strict=True))
        wrong = [(i, n) for i, n in pairs if not scope.inside(i, n)]
        if any(scope.proves(Const(-1) - i) or scope.proves(i - as_expr(n)) for i, n in wrong):
            raise self.fail(f"{text(load)} lies outside {_shape(t)}")
        if not wrong and load.lanes > 1 and not self.lanes_inside(load, scope):
            wrong = pairs[-1:]
        self.unproved += [f"{self.kernel.name}: {text(load)} of {_shape(t)}: {text(i)}" for i, _ in wrong]

    @staticmethod
    def lanes_inside(load: Load, scope: Scope) -> bool:
        d = load.tensor.lane_axis
        if scope.inside(load.index[d], load.tensor.shape[d], load.lanes):
            return True
        if load.tensor.pitch is not None:
            return False
        flat, total = as_expr(0), as_expr(1)
        for i, n in zip(load.index, load.tensor.shape, strict=True):
            flat, total = flat * as_expr(n) + i, total * n
        return scope.proves(total - load.lanes - flat)

    def width(self, e: Expr, lanes: int, known: dict[str, Register]) -> None:
        """A value is as wide as its register, or a scalar that is broadcast."""
        if self.lanes(e, known) not in (1, lanes):
            raise self.fail(f"{self.lanes(e, known)} lanes where {lanes} are needed")

    def lanes(self, e: Expr, known: dict[str, Register]) -> int:
        match e:
            case Var(name):
                return known[name].lanes
            case Load(lanes=lanes):
                return lanes
            case Lane(a, lane, lanes):
                if lane + lanes > self.lanes(a, known):
                    raise self.fail(f"{text(e)}: no such lane")
                return lanes
            case Shuffle(a, b, index):
                width = self.lanes(a, known)
                if self.lanes(b, known) != width or not all(0 <= i < 2 * width for i in index):
                    raise self.fail(f"{text(e)}: no such lanes")
                return len(index)
            case Pick(tables, index):
                if len({self.lanes(t, known) for t in tables}) > 1:
                    raise self.fail(f"{text(e)}: registers of several widths")
                return self.lanes(index, known)
            case Const() | Text() | Param() | Unary("any", _):
                return 1
            case Unary() | Binary() | Fma() | Select() | Cast() | Bitcast() | Entry() | Byte() | Joined():
                widths = {self.lanes(c, known) for c in children(e)} - {1}
                if len(widths) > 1:
                    raise self.fail(f"{text(e)} mixes {sorted(widths)} lanes")
                return max(widths, default=1)
        raise self.fail(f"{e!r} has no place in loops")


# -- vector registers


def pressure(body: tuple[Statement, ...]) -> int:
    """The most vector registers live at once, temporaries of an expression not counted."""
    spans: dict[str, list[int]] = {}
    _spans(body, 0, spans, {})
    edges = sorted((at, sign) for lo, hi in spans.values() for at, sign in ((lo, 1), (hi + 1, -1)))
    live = most = 0
    for _, sign in edges:
        live += sign
        most = max(most, live)
    return most


def _spans(
    body: tuple[Statement, ...], now: int, spans: dict[str, list[int]], depth: dict[str, int], level: int = 0
) -> int:
    """First to last position of vector registers; one used in a loop it outlives lives through the loop."""
    for s in body:
        begin, now = now, now + 1
        if isinstance(s, Let) and s.lanes > 1:
            spans[s.name], depth[s.name] = [begin, begin], level
        names = {n.name for e in expressions(s) for n in walk(e) if isinstance(n, Var)}
        names |= {s.name} if isinstance(s, Assign | Madd | Instruction) else set()
        for name in names & spans.keys():
            spans[name][1] = max(spans[name][1], begin)
        if isinstance(s, For | When):
            inner = s.body + (s.other if isinstance(s, When) else ())
            older = {k: v[1] for k, v in spans.items()}
            now = _spans(inner, now, spans, depth, level + 1)
            for name, last in older.items():
                if isinstance(s, For) and spans[name][1] > last:
                    spans[name][1] = now
    return now


# -- the formulas of a region


def verify_region(region: Region, sound: set[Stage] | None = None) -> None:
    """Every formula of the tree, in the order in which it runs; results are written before they are read.

    Stages of `sound` are proved already; it grows.
    """
    known: set[Tensor] = set()
    _region(region, known, set() if sound is None else sound, Scope())
    for t in region.outputs:
        if t not in known and t.value is None:
            raise InternalError(f"output {t.name} is never written")


def _region(region: Region, known: set[Tensor], sound: set[Stage], outside: Scope) -> None:
    known.update(region.inputs)
    for item in region.items:
        match item:
            case Group():
                verify_stages(item.stages, known, " + ".join(item.nodes), sound, outside)
                _, base = item.view or (None, None)
                if base is not None and base not in known and base.value is None:
                    raise InternalError(
                        f"{' + '.join(item.nodes)}: a view of {base.name}, which nothing writes"
                    )
            case Either():
                _region(item.then, set(known), sound, outside)
                _region(item.other, set(known), sound, outside)
                known.update(item.results)
            case Iterate():
                _region(item.body, set(known), sound, outside)
                known.update(item.writes)
