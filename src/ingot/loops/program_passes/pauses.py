"""Places where the entry may pause: after about LIMIT operations each, whatever the model.

In: a finished program. Out: the same one, with a `Pause` inside kernels that take longer than LIMIT, and
calls and copies that pause where they add up to it. A small network has none, unless data says
how often something is repeated: every iteration pauses. A long loop is cut:

    for i in 0 .. n: body   ->   for piece in 0 .. k: { for i in piece * s .. (piece + 1) * s: body; pause }

What is never cut: a loop around which more registers live than the stack may take, such as the sum of one
register tile. Called by the driver, where somebody asked for pauses, on the program in its final order and
before states get their places: a run may end at a pause, and must leave the old state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ingot.formula.expr import Binary, Const, Expr, Var
from ingot.formula.index import simplify
from ingot.formula.statements import For, Let, Pause, Statement, When
from ingot.loops.operations import Ranges, inside, instructions, iterations
from ingot.loops.program import Branch, Call, Copy, Kernel, Program, Repeat, Step

LIMIT = 20_000  # operations from one pause to the next: microseconds, 20 of them where one takes a nanosecond
COPY_BYTES = 16  # of one operation of a copy
ANY_ROOM = 1 << 30


def pausing(program: Program, frame_bytes: int) -> Program:
    """The program with pauses. What lives around one takes at most half a frame of the stack (0: any)."""
    room = frame_bytes // 2 if frame_bytes else ANY_ROOM
    made = {k: _kernel(k, room) for k in program.kernels}
    costs = {k: instructions(k.body, {}) for k in program.kernels}
    return replace(program, steps=_steps(program.steps, _Made(made, costs), 0)[0])


@dataclass(frozen=True, slots=True)
class _Made:
    """What became of each kernel, and the operations that it takes."""

    kernels: Mapping[Kernel, Kernel]
    costs: Mapping[Kernel, int]


def _steps(steps: tuple[Step, ...], made: _Made, since: int) -> tuple[tuple[Step, ...], int]:
    """The steps, `since` operations after the last pause, and how many it is behind them."""
    out: list[Step] = []
    for s in steps:
        match s:
            case Call(kernel):
                since += made.costs[kernel]
                s = replace(s, kernel=made.kernels[kernel], pauses=since >= LIMIT)
                since = 0 if s.pauses else since
            case Copy(_, to):
                since += to.bytes // COPY_BYTES
                if since >= LIMIT:
                    s, since = replace(s, pauses=max(LIMIT * COPY_BYTES // to.type.bytes, 1)), 0
            case Branch(_, then, other):
                (then, a), (other, b) = _steps(then, made, since), _steps(other, made, since)
                s, since = replace(s, then=then, other=other), max(a, b)
            case Repeat(body=body):
                s = replace(s, body=_steps(body, made, since)[0], pauses=True)
        out.append(s)
    return tuple(out), since


def _kernel(kernel: Kernel, room: int) -> Kernel:
    if instructions(kernel.body, {}) < LIMIT:
        return kernel
    return replace(kernel, body=_cut(kernel.body, {}, room))


def _cut(statements: tuple[Statement, ...], ranges: Ranges, room: int) -> tuple[Statement, ...]:
    """Statements that add up to LIMIT or more; `room` is for the registers that live around them."""
    out: list[Statement] = []
    since = 0
    for s in statements:
        own = instructions((s,), ranges)
        if since and since + own >= LIMIT and room >= 0:
            out.append(Pause())
            since = 0
        if isinstance(s, Let):
            room -= s.lanes * s.value.dtype.bytes
        elif isinstance(s, For) and room >= 0 and own >= LIMIT:
            s, own = _loop(s, ranges, room), 0
        elif isinstance(s, When) and own >= LIMIT:
            s = When(s.condition, _cut(s.body, ranges, room), _cut(s.other, ranges, room))
        out.append(s)
        since += own
    return tuple(out)


def _loop(s: For, ranges: Ranges, room: int) -> For:
    """A loop of at least LIMIT operations."""
    inner, count = inside(s, ranges), iterations(s, ranges)
    each = instructions(s.body, inner)
    if each >= LIMIT or s.parallel or not isinstance(s.lo, Const):
        return replace(s, body=(*_cut(s.body, inner, room), Pause()))
    size = -(-LIMIT // max(each, 1)) * s.step
    pieces, piece = -(-count * s.step // size), Var(f"{s.var}_piece")
    lo = simplify(s.lo + piece * size, {piece.name: (0, pieces - 1)})
    return For(piece.name, Const(0), Const(pieces), 1, (_piece(s, lo, size), Pause()))


def _piece(s: For, lo: Expr, size: int) -> For:
    return replace(s, lo=lo, hi=Binary("min", s.hi, lo + size))
