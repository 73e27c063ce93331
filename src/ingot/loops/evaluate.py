"""The loop evaluator: a Program, run statement by statement, behaves as its C does.

In: a Program and its inputs by name. Out: its outputs. Loops whose iterations cannot see each other run as
one wide step: every value is then an array of shape (threads, lanes), every thread being one iteration. Each
thread does the C's scalar arithmetic in the C's order, so results are the same to the bit. Registers live in
`Frame`s; a frame inside such a loop, or under a condition, holds a subset of its parent's threads. Should a
wide step write a place twice, it is undone and run one by one, for then the order matters.

Used by tests and by `verify`; kernels are turned into closures once per binding of their parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ingot.errors import InternalError
from ingot.formula.evaluate import IndexOutOfRange, byte_of, size
from ingot.formula.expr import (
    Array,
    Binary,
    Bitcast,
    Byte,
    Cast,
    Const,
    Entry,
    Expr,
    Fma,
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
    loads,
)
from ingot.formula.operations import BINARY, UNARY, convert, fma
from ingot.formula.packing import pack, unpack
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
    flatten,
)
from ingot.formula.types import INDEX, DType
from ingot.loops.instructions import INSTRUCTIONS
from ingot.loops.program import Branch, Call, Copy, Kernel, Program, Repeat, Step, params_of

WIDEST = 1 << 16  # threads that run as one step: what keeps a handful of registers in the cache
Value = Any  # a numpy scalar (the same for every thread) or an array of shape (threads, lanes)
Evaluate = Callable[["Frame"], Value]
Execute = Callable[["Frame"], None]
Memory = dict[Tensor, tuple[Array, tuple[int, ...]]]  # flat elements, concrete shape
Log = list[tuple[Array, Array, Array]]  # elements, places written, what stood there


def run(
    program: Program, inputs: Mapping[str, Array], params: Mapping[str, int] | None = None
) -> list[Array]:
    """The outputs, then what the states are afterwards; `inputs` holds also what they are before.

    Raises IndexOutOfRange where a Check fails, InternalError where C is undefined.
    """
    machine = Machine(program, dict(params or {}))
    start(machine, inputs)
    with np.errstate(all="ignore"):
        machine.steps(program.steps)
    return [machine.array(t) for t in (*program.outputs, *(s.made for s in program.states))]


def start(machine: Machine, inputs: Mapping[str, Array]) -> None:
    """Put into memory what a run finds there: inputs, constants, the state as it is before."""
    program = machine.program
    for t in program.inputs:
        machine.give(t, _as_passed(t, inputs[t.name]))
    for t in program.constants:
        assert t.value is not None
        machine.give(t, t.value)
    for t in program.members:
        machine.give(t, _as_passed(t, inputs[t.name]))
        machine.memory[t].flags.writeable = True


def _as_passed(t: Tensor, array: Array) -> Array:
    """What the caller's memory holds: of elements below 8 bits, bytes."""
    return pack(array) if t.packed is not None and array.dtype != np.uint8 else array


@dataclass(slots=True)
class Machine:
    """The memory of a run: flat bytes per tensor, shared by views."""

    program: Program
    params: dict[str, int]
    memory: dict[Tensor, Array] = field(default_factory=dict)
    compiled: dict[tuple[Kernel, tuple[Tensor, ...]], Execute] = field(default_factory=dict)

    def shape(self, t: Tensor) -> tuple[int, ...]:
        grid = {k: np.int64(v) for k, v in self.params.items()}
        counts = {p.source: self.flat(t) for p, t in self.measured(params_of(t)) if p.source is not None}
        return tuple(size(n, grid, counts) for n in t.shape)

    def measured(self, params: Iterable[Param]) -> Iterator[tuple[Param, Tensor]]:
        """Of some extents those that are data, and what holds them."""
        return ((p, self.program.measured[p]) for p in params if p in self.program.measured)

    def give(self, t: Tensor, array: Array) -> None:
        """Content that only the caller may write."""
        assert array.shape == self.shape(t), f"{t.name} has shape {self.shape(t)}, given {array.shape}"
        self.memory[t] = np.array(array, t.type.numpy).reshape(-1)
        self.memory[t].flags.writeable = False

    def flat(self, t: Tensor) -> Array:
        """The elements; memory that was never written holds 0xFF bytes, which is NaN in floats."""
        place = self.program.place(t)
        base = place.base
        if base not in self.memory:
            count = base.count if any(self.measured(params_of(base))) else self.size(base)
            self.memory[base] = np.full(count * base.type.bytes, 0xFF, np.uint8).view(base.type.numpy)
        elements: Array = self.memory[base].view(t.type.numpy)
        return elements[place.start :]

    def size(self, t: Tensor) -> int:
        return int(np.prod(self.shape(t), dtype=object))

    def array(self, t: Tensor) -> Array:
        whole: Array = self.flat(t)[: self.size(t)].reshape(self.shape(t)).copy()
        if t.packed is not None:
            return unpack(whole, t.packed.type, self.shape(replace(t, shape=t.packed.shape)))
        return whole

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Call():
                    self.call(step)
                case Copy(source, to):
                    count = self.size(to)
                    self.flat(to)[:count] = self.flat(source)[:count]
                case Branch(condition, then, other):
                    self.steps(then if self.flat(condition)[0] else other)
                case Repeat(counter, _, _, body):
                    self.flat(counter)[0] = 0
                    while self.goes_on(step):
                        self.steps(body)
                        self.flat(counter)[0] += 1

    def goes_on(self, step: Repeat) -> bool:
        if step.trips is not None and self.flat(step.counter)[0] >= self.flat(step.trips)[0]:
            return False
        return step.condition is None or bool(self.flat(step.condition)[0])

    def call(self, step: Call) -> None:
        kernel = step.kernel
        bound = dict(zip(kernel.parameters, step.arguments, strict=True))
        bases = {p: self.program.place(a).base for p, a in bound.items()}
        key = (kernel, tuple(bases.values()))
        if key not in self.compiled:
            self.compiled[key] = Compiler(kernel, bases).block(kernel.body)
        memory = {p: (self.flat(a), self.shape(p)) for p, a in bound.items()}
        values: dict[str, Value] = {
            p.name: np.int64(self.params[p.name]) for p in kernel.params if p.source is None
        }
        values.update((p.name, np.int64(self.flat(t)[0])) for p, t in self.measured(kernel.params))
        self.compiled[key](Frame(1, memory, values))


@dataclass(slots=True)
class Frame:
    """The registers of some threads. `index` says which of the parent's threads they are."""

    threads: int
    memory: Memory
    own: dict[str, Value] = field(default_factory=dict)
    parent: Frame | None = None
    index: Any = None
    seen: dict[str, Value] = field(default_factory=dict)
    log: Log | None = None

    def child(self, index: Array) -> Frame:
        return Frame(len(index), self.memory, {}, self, index, log=self.log)

    def read(self, name: str) -> Value:
        value = self.own.get(name)
        if value is None:
            value = self.seen.get(name)
        if value is None:
            assert self.parent is not None, f"register {name} is read before it is declared"
            value = gather(self.parent.read(name), self.index)
            self.seen[name] = value
        return value

    def assign(self, name: str, value: Value) -> None:
        """A new value for a register of this frame or of one around it."""
        if name in self.own:
            self.own[name] = value
            return
        assert self.parent is not None, f"register {name} is assigned before it is declared"
        old = self.parent.read(name)
        lanes = max(np.shape(old)[-1] if np.ndim(old) else 1, np.shape(value)[-1] if np.ndim(value) else 1)
        whole = np.broadcast_to(old, (self.parent.threads, lanes)).copy()
        whole[self.index] = value
        self.parent.assign(name, whole)
        self.seen[name] = value


def writes_twice(log: Log) -> bool:
    """Whether a place was written more than once, by whatever threads."""
    places: dict[int, list[Array]] = {}
    for elements, at, _ in log:
        places.setdefault(elements.ctypes.data, []).append(np.ravel(at))
    written = [np.concatenate(parts) for parts in places.values()]
    return any(len(np.unique(at)) < len(at) for at in written)


def gather(value: Value, index: Array) -> Value:
    """The value as the threads `index` see it; one that all threads share stays as it is."""
    return value[index] if np.ndim(value) and value.shape[0] > 1 else value


@dataclass(slots=True)
class Compiler:
    """Turns the statements of one kernel into closures. `bases`: whose bytes each parameter is bound to."""

    kernel: Kernel
    bases: Mapping[Tensor, Tensor]

    def block(self, body: tuple[Statement, ...]) -> Execute:
        parts = [self.statement(s) for s in body if not isinstance(s, Barrier | Pause | Prefetch | Remark)]

        def execute(f: Frame) -> None:
            for part in parts:
                part(f)

        return execute

    def statement(self, s: Statement) -> Execute:
        match s:
            case For():
                return self.for_loop(s)
            case Let(name, value, lanes):
                return self.let(name, self.expression(value), lanes)
            case Assign(name, value):
                return self.update(name, self.expression(value))
            case Madd(name, a, b):
                x, y = self.expression(a), self.expression(b)
                return lambda f: f.assign(name, f.read(name) + x(f) * y(f))
            case Instruction(operation, name, a, b):
                x, y, meaning = self.expression(a), self.expression(b), INSTRUCTIONS[operation]
                return lambda f: f.assign(name, meaning(f.read(name), x(f), y(f)))
            case Store():
                return self.store(s)
            case When():
                return self.when(s)
            case Check(condition, error):
                return self.check(self.expression(condition), error)
        raise TypeError(f"no meaning for {s!r}")

    def let(self, name: str, value: Evaluate, lanes: int) -> Execute:
        def execute(f: Frame) -> None:
            v = value(f)
            f.own[name] = v if lanes == 1 else _spread(v, (len(v) if np.ndim(v) else 1, lanes))

        return execute

    def update(self, name: str, value: Evaluate) -> Execute:
        return lambda f: f.assign(name, value(f))

    # -- control

    def for_loop(self, s: For) -> Execute:
        lo, hi, body = self.expression(s.lo), self.expression(s.hi), self.block(s.body)
        one_by_one = self.loop(s, lo, hi, body)
        if not self.is_independent(s):
            return one_by_one
        wide = self.wide_loop(s, lo, hi, body)

        def execute(f: Frame) -> None:
            if f.log is not None:
                wide(f)
                return
            f.log = []
            wide(f)
            log, f.log = f.log, None
            if writes_twice(log):
                for elements, places, old in reversed(log):
                    elements[places] = old
                one_by_one(f)

        return execute

    def is_independent(self, loop: For) -> bool:
        """No iteration reads what another wrote: registers are its own, memory only read or only written."""
        inside = list(flatten(loop.body))
        declared = {s.name for s in inside if isinstance(s, Let)}
        assigned = {s.name for s in inside if isinstance(s, Assign | Madd | Instruction)}
        stores = {self.bases[s.to.tensor] for s in inside if isinstance(s, Store)}
        return assigned <= declared and not stores & {self.bases[t] for s in inside for t in self.read_by(s)}

    @staticmethod
    def read_by(s: Statement) -> list[Tensor]:
        parts = (*s.to.index, s.value) if isinstance(s, Store) else expressions(s)
        return [load.tensor for e in parts for load in loads(e)]

    def loop(self, s: For, lo: Evaluate, hi: Evaluate, body: Execute) -> Execute:
        """One iteration after the other; threads that are through sit out."""
        name = s.var

        def execute(f: Frame) -> None:
            first, end = lo(f), hi(f)
            if np.ndim(first) == 0 and np.ndim(end) == 0:
                for i in range(int(first), int(end), s.step):
                    f.own[name] = np.int64(i)
                    body(f)
                return
            at, end = (np.broadcast_to(v, (f.threads, 1)) for v in (first, end))
            while (active := np.flatnonzero(at < end)).size:
                inner = f.child(active)
                inner.own[name] = at[active]
                body(inner)
                at = at + s.step

        return execute

    def wide_loop(self, s: For, lo: Evaluate, hi: Evaluate, body: Execute) -> Execute:
        """All iterations at once, in pieces of at most WIDEST threads."""
        name = s.var

        def execute(f: Frame) -> None:
            first, end = lo(f), hi(f)
            trips = np.maximum(-((first - end) // s.step), 0)
            per_thread = np.broadcast_to(trips[:, 0] if np.ndim(trips) else trips, f.threads)
            piece = max(1, WIDEST // f.threads)
            for begin in range(0, int(per_thread.max(initial=0)), piece):
                counts = np.clip(per_thread - begin, 0, piece)
                index = np.repeat(np.arange(f.threads), counts)
                turn = begin + np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
                inner = f.child(index)
                inner.own[name] = gather(first, index) + s.step * turn[:, None]
                body(inner)

        return execute

    def when(self, s: When) -> Execute:
        condition, body, other = self.expression(s.condition), self.block(s.body), self.block(s.other)

        def execute(f: Frame) -> None:
            c = condition(f)
            if np.ndim(c) == 0:
                (body if c else other)(f)
                return
            chosen = np.broadcast_to(c, (f.threads, 1))[:, 0]
            for part, index in ((body, np.flatnonzero(chosen)), (other, np.flatnonzero(~chosen))):
                if index.size:
                    part(f.child(index))

        return execute

    def check(self, condition: Evaluate, error: str) -> Execute:
        def execute(f: Frame) -> None:
            if not np.all(condition(f)):
                raise IndexOutOfRange(f"kernel {self.kernel.name} returns {error}")

        return execute

    # -- memory

    def address(self, load: Load, lanes: int) -> Callable[[Frame], tuple[Array, Value]]:
        """The flat elements of a tensor and the places of an access in them; every index is checked."""
        tensor, index = load.tensor, [self.expression(i) for i in load.index]
        lane = np.arange(lanes)[None, :] if lanes > 1 else np.int64(0)

        def locate(f: Frame) -> tuple[Array, Value]:
            flat, shape = f.memory[tensor]
            at: Value = np.int64(0)
            for axis, (place, n, pitch) in enumerate(zip(index, shape, tensor.pitch or shape, strict=True)):
                i = place(f)
                if _leaves(i, n):
                    self.fail(tensor, f"index {np.ravel(i)[:4]} of axis {axis}, which has {n} elements")
                if tensor.pitch and axis == tensor.lane_axis and _leaves(i, n - lanes + 1):
                    self.fail(
                        tensor, f"{lanes} lanes from {np.ravel(i)[:4]} of axis {axis}, which ends at {n}"
                    )
                at = at * pitch + i
            if lanes > 1 and _leaves(at, flat.size - lanes + 1):
                self.fail(tensor, f"{lanes} lanes from element {np.max(at)} of {flat.size}")
            return flat, at + lane

        return locate

    def fail(self, tensor: Tensor, what: str) -> None:
        raise InternalError(f"kernel {self.kernel.name}: {tensor.name} is accessed at {what}")

    def fetch(self, load: Load, dtype: DType) -> Evaluate:
        """The element as `dtype`: the tensor's own, or the one it is computed with."""
        locate, wanted = self.address(load, load.lanes), dtype.numpy
        widens = dtype is not load.tensor.type

        def fetch(f: Frame) -> Value:
            flat, at = locate(f)
            return flat[at].astype(wanted) if widens else flat[at]

        return fetch

    def store(self, s: Store) -> Execute:
        value = Cast(s.value, s.to.tensor.type) if s.to.tensor.type.is_narrow else s.value
        locate, evaluate = self.address(s.to, s.lanes), self.expression(value)

        def execute(f: Frame) -> None:
            flat, at = locate(f)
            if not flat.flags.writeable:
                raise InternalError(f"kernel {self.kernel.name}: {s.to.tensor.name} is written but constant")
            v = evaluate(f)
            if np.shape(at) != np.shape(v):
                at = np.broadcast_to(at, np.broadcast_shapes(np.shape(at), np.shape(v)))
            if f.log is not None:
                f.log.append((flat, at, flat[at]))
            flat[at] = v

        return execute

    # -- expressions

    def expression(self, e: Expr) -> Evaluate:
        match e:
            case Const(v, dtype) | Text(v, dtype):
                literal = dtype.numpy.type(v)
                return lambda f: literal
            case Var(name) | Param(name):
                return lambda f: f.read(name)
            case Unary("any", a):
                x = self.expression(a)
                return lambda f: _scalar(np.any(x(f), axis=-1, keepdims=True))
            case Unary(op, a):
                x, one = self.expression(a), UNARY[op]
                return lambda f: one(x(f))
            case Binary(op, a, b):
                return self.binary(op, a, b)
            case Fma(a, b, c):
                x, y, z = self.expression(a), self.expression(b), self.expression(c)
                return lambda f: _scalar(fma(x(f), y(f), z(f)))
            case Select():
                return self.select(e)
            case Cast(Load() as a, dtype) if dtype is a.tensor.type:
                return self.fetch(a, dtype)
            case Cast(a, dtype):
                x = self.expression(a)
                return lambda f: _scalar(convert(x(f), dtype))
            case Bitcast(a, dtype):
                return bits(self.expression(a), dtype.numpy)
            case Byte(a, k):
                x, place, strings = self.expression(a), self.expression(k), a.dtype
                return lambda f: _scalar(byte_of(x(f), strings, place(f)))
            case Joined(row, dtype):
                return self.join(row, dtype)
            case Lane(a, lane, lanes):
                x = self.expression(a)
                return lambda f: x(f)[:, lane : lane + lanes]
            case Shuffle(a, b, index):
                x, y, picked = self.expression(a), self.expression(b), list(index)
                return lambda f: _beside(x(f), y(f))[:, picked]
            case Entry(numbers, index, dtype):
                table, place = np.asarray(numbers, dtype.numpy), self.expression(index)
                return lambda f: table[place(f) % len(table)]
            case Pick(tables, index):
                return self.pick([self.expression(t) for t in tables], self.expression(index))
            case Load():
                return self.fetch(e, e.dtype)
        raise TypeError(f"no meaning for {e!r}")

    def pick(self, tables: list[Evaluate], index: Evaluate) -> Evaluate:
        """Each lane of `index` says which lane of the tables."""

        def execute(f: Frame) -> Value:
            wanted = index(f).astype(np.int64)
            whole = tables[0](f)
            for t in tables[1:]:
                whole = _beside(whole, t(f))
            if np.any(wanted < 0) or np.any(wanted >= whole.shape[1]):
                raise InternalError(f"kernel {self.kernel.name}: a lane is picked that is not there")
            threads = max(len(whole), len(wanted))
            whole, wanted = (np.broadcast_to(v, (threads, v.shape[1])) for v in (whole, wanted))
            return np.take_along_axis(whole, wanted, 1)

        return execute

    def join(self, row: Load, dtype: DType) -> Evaluate:
        """The strings whose first bytes are those of `row`."""
        locate, columns = self.address(row, 1), np.arange(dtype.bytes)

        def execute(f: Frame) -> Value:
            flat, at = locate(f)
            rows = np.ascontiguousarray(flat[np.asarray(at)[..., None] + columns])
            return _scalar(rows.view(dtype.numpy)[..., 0])

        return execute

    def binary(self, op: str, a: Expr, b: Expr) -> Evaluate:
        x, y, two = self.expression(a), self.expression(b), BINARY[op]
        if a.dtype is INDEX and op == "floordiv":
            return lambda f: x(f) // y(f)
        if a.dtype is INDEX and op == "mod":
            return lambda f: x(f) % y(f)
        return lambda f: _scalar(two(x(f), y(f)))

    def select(self, e: Select) -> Evaluate:
        """Of a scalar condition only the chosen side is read; a vector's sides are both read, as in the C."""
        c, a, b = self.expression(e.condition), self.expression(e.a), self.expression(e.b)

        def execute(f: Frame) -> Value:
            chosen = c(f)
            if np.ndim(chosen) == 0:
                return a(f) if chosen else b(f)
            if chosen.shape[1] > 1:
                return np.where(chosen, a(f), b(f))
            mask = np.broadcast_to(chosen, (f.threads, 1))[:, 0]
            if mask.all() or not mask.any():
                return a(f) if mask.all() else b(f)
            sides = [
                (i, side(f.child(i))) for i, side in ((np.flatnonzero(mask), a), (np.flatnonzero(~mask), b))
            ]
            lanes = max(v.shape[1] if np.ndim(v) else 1 for _, v in sides)
            out = np.empty((f.threads, lanes), e.dtype.numpy)
            for i, v in sides:
                out[i] = v
            return out

        return execute


def bits(value: Evaluate, dtype: np.dtype[Any]) -> Evaluate:
    def execute(f: Frame) -> Value:
        v = value(f)
        return _scalar(np.ascontiguousarray(v).view(dtype).reshape(np.shape(v)))

    return execute


def _leaves(i: Value, n: int) -> bool:
    """Whether an index, of any thread, is not in 0 to n - 1."""
    if np.ndim(i) == 0:
        return not 0 <= i < n
    return i.size > 0 and bool(i.min() < 0 or i.max() >= n)


def _spread(v: Value, shape: tuple[int, ...]) -> Array:
    return v if np.shape(v) == shape else np.broadcast_to(v, shape)


def _beside(x: Array, y: Array) -> Array:
    """The lanes of two registers in a row, for threads of either."""
    threads = max(len(x), len(y))
    return np.concatenate([np.broadcast_to(v, (threads, v.shape[1])) for v in (x, y)], axis=1)


def _scalar(v: Value) -> Value:
    """Operations written with np.where answer 0-dimensional arrays for scalars."""
    return v[()] if isinstance(v, np.ndarray) and v.ndim == 0 else v
