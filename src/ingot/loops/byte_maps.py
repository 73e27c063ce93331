"""Loops of maps that end or begin with bytes, for routines that compute several elements at once.

    for c: to[c] = limited(round(((x[c] - zx) * sx + (y[c] - zy) * sy) / s) + z)      add_bytes(x, y, to, ..)
    for c: to[c] = limited(fixed(fixed(x[c] - zx) + fixed(y[c] - zy)) + z)            fixed_add(x, y, to, ..)
    for p: for c: to[p][c] = limited(round(x[c][p] / s) + z)          for c: for p:   to_bytes(x, to, ..)
    for c: to[c] = (x[c] - z) * s                                                     from_bytes(x, to, ..)

In: statements of a kernel. Out: equal ones, in which such loops have the routine of the target that does what
they do. A residual addition, the quantisation of inputs, and what outputs stand for are such maps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ingot.formula.expr import Binary, Cast, Const, Expr, Load, Unary, substitute, transform
from ingot.formula.statements import For, Routine, Statement, Store, When
from ingot.formula.types import FLOAT32, INT8, INT32, UINT8, DType
from ingot.loops.access import step
from ingot.loops.requantise import in_integers, without_zero_point
from ingot.targets.fixed_sums import LEFT, add_name
from ingot.targets.map_routines import FAR, SCALES
from ingot.targets.record import Target

HALF = 1 << 30  # of TFLite's multipliers
FEWEST = 4  # elements for which a call pays


def with_byte_maps(statements: tuple[Statement, ...], target: Target) -> tuple[Statement, ...]:
    """The statements, with routines where the target has them."""
    return tuple(_with_routine(s, target) for s in statements)


def _with_routine(s: Statement, target: Target) -> Statement:
    match s:
        case For(routine=None, body=body):
            found = _called(s, target)
            return replace(s, body=with_byte_maps(body, target)) if found is None else found
        case When(_, body, other):
            return replace(s, body=with_byte_maps(body, target), other=with_byte_maps(other, target))
    return s


@dataclass(frozen=True, slots=True)
class _Nest:
    """Loops around one store, the outermost first."""

    loops: tuple[For, ...]
    store: Store

    def joined(self, *loads: Load) -> tuple[For, int] | None:
        """The outermost loop from which on elements lie side by side in all accesses, and how many do."""
        found: tuple[For, int] | None = None
        count = 1
        for f in reversed(self.loops):
            if any(step(e, f.var) != count for e in loads):
                break
            count *= _count(f)
            found = f, count
        return found

    def called(self, outermost: For, routine: Routine) -> For:
        """The nest, one of whose loops has a routine for all that is inside."""
        body: Statement = self.store
        for f in reversed(self.loops):
            body = replace(f, body=(body,), routine=routine if f is outermost else None)
        assert isinstance(body, For)
        return body

    def first(self, outermost: For, *loads: Load) -> tuple[Load, ...]:
        """The accesses of the first iteration of a loop and of all inside."""
        inner = self.loops[self.loops.index(outermost) :]
        found = (substitute(load, {f.var: f.lo for f in inner}) for load in loads)
        return tuple(load for load in found if isinstance(load, Load))

    def inside(self, x: For, routine: Routine) -> For:
        """The nest with one of its loops as the innermost, which has a routine."""
        made = replace(x, body=(self.store,), routine=routine)
        for around in reversed([f for f in self.loops if f is not x]):
            made = replace(around, body=(made,))
        return made


def _called(outermost: For, target: Target) -> For | None:
    """The nest with a routine inside, or None."""
    nest = _nest(outermost)
    if nest is None:
        return None
    kind = nest.store.to.tensor.type
    if kind is FLOAT32:
        return _floats(nest, target)
    if (made := _fixed_sum(nest, target)) is not None:
        return made
    for name, call in ((f"add_bytes_{kind.name}", _sum), (f"to_bytes_{kind.name}", _bytes)):
        if name in target.routines and (found := call(nest, name, kind)) is not None:
            return found
    return None


def _nest(s: Statement) -> _Nest | None:
    loops: list[For] = []
    while isinstance(s, For) and s.routine is None and not s.parallel and len(s.body) == 1 and s.step == 1:
        if not isinstance(s.lo, Const) or not isinstance(s.hi, Const):
            return None
        loops.append(s)
        s = s.body[0]
    return _Nest(tuple(loops), s) if isinstance(s, Store) and loops else None


def _sum(nest: _Nest, name: str, kind: DType) -> For | None:
    """Loops add bytes that lie side by side."""
    to = nest.store.to
    match in_integers(_without_relu(nest.store.value), True):
        case Cast(Binary("min", Binary("max", moved, Const(lo)), Const(hi)), of) if of is kind:
            rounded, zero = without_zero_point(moved)
        case _:
            return None
    match rounded:
        case Cast(Unary("round", Binary("div", Binary("add", a, b), Const(scale)))):
            one, other = _scaled(a, kind), _scaled(b, kind)
        case _:
            return None
    if one is None or other is None or not _is_whole(kind, lo, hi, zero):
        return None
    scales = (one.scale, other.scale, float(scale))
    joined = nest.joined(one.load, other.load, to)
    if joined is None or joined[1] < FEWEST or not all(map(_is_moderate, scales)):
        return None
    numbers = (joined[1], one.zero, other.zero, zero, *scales, _reciprocal(float(scale)))
    addresses = nest.first(joined[0], one.load, other.load, to)
    return nest.called(joined[0], Routine(name, addresses, numbers))


def _fixed_sum(nest: _Nest, target: Target) -> For | None:
    """The same in fixed point."""
    to, kind = nest.store.to, nest.store.to.tensor.type
    plain = f"fixed_add_{kind.name}"
    if plain not in target.routines:
        return None
    match nest.store.value:
        case Cast(Binary("min", Binary("max", moved, Const(lo)), Const(hi)), of) if of is kind:
            rounded, zero = without_zero_point(moved)
        case _:
            return None
    match _fixed(rounded):
        case (Binary("add", a, b), by, shift) if shift > 0:
            operands = _operands(a, b, kind) or _operands(b, a, kind)
        case _:
            return None
    if operands is None or not _is_whole(kind, lo, hi, zero):
        return None
    x, y, numbers = operands
    joined = nest.joined(x, y, to)
    if joined is None or joined[1] < FEWEST:
        return None
    name = add_name(kind.name, target.accumulators == 0 and zero == kind.lowest)
    told = (joined[1], *numbers, by, shift, zero)
    return nest.called(joined[0], Routine(name, nest.first(joined[0], x, y, to), told))


def _operands(a: Expr, b: Expr, kind: DType) -> tuple[Load, Load, tuple[int, ...]] | None:
    """The operand by a half, the other one, and their zero points and the other's multiplier and shift."""
    match _fixed(a), _fixed(b):
        case ((one, by, 0), (other, other_by, shift)) if by == HALF and shift > 0:
            x, y = _shifted(one, kind), _shifted(other, kind)
            return None if x is None or y is None else (x[0], y[0], (x[1], y[1], other_by, shift))
    return None


def _fixed(e: Expr) -> tuple[Expr, int, int] | None:
    """What is multiplied and shifted, by what, and by how many bits, which are 0 where it is not shifted."""
    match e:
        case Binary("rounding_shr", Binary("doubling_high", x, Const(by)), Const(shift)):
            return x, int(by), int(shift)
        case Binary("doubling_high", x, Const(by)):
            return x, int(by), 0
    return None


def _shifted(e: Expr, kind: DType) -> tuple[Load, int] | None:
    """A byte whose zero point is taken off, shifted to the left, and that zero point."""
    match e:
        case Binary("mul", moved, Const(by)) if by == 1 << LEFT:
            whole, negative = without_zero_point(moved)
            match whole:
                case Cast(Load(tensor, outside=None) as load, of) if of is INT32 and tensor.type is kind:
                    return load, -negative
    return None


def _without_relu(value: Expr) -> Expr:
    """The value without a Relu of what is quantised, where the zero point is the smallest byte.

    round(max(x, 0) / s) + lo = max(round(x / s) + lo, lo): the limit of the bytes says the same.
    """
    relu: Expr | None = None
    match value:
        case Cast(Binary("min", Binary("larger", Binary("add", Unary("round", y), Const(z)), Const(lo)), _)):
            match y:
                case Binary("div", Binary("max", x, Const(0)) as relu, Const(scale)) if scale > 0 and z == lo:
                    return transform(value, lambda e: x if e == relu else None)
    return value


@dataclass(frozen=True, slots=True)
class _Scaled:
    """(load - zero) * scale, in floats."""

    load: Load
    zero: int
    scale: float


def _scaled(e: Expr, kind: DType) -> _Scaled | None:
    """A byte as the number that it stands for."""
    match e:
        case Binary("mul", Cast(whole, to), Const(scale)) if to is FLOAT32:
            zero = 0
            match whole:
                case Binary("sub", inner, Const(z)):
                    whole, zero = inner, int(z)
            match whole:
                case Cast(Load(tensor, outside=None) as load, of) if of is INT32 and tensor.type is kind:
                    return _Scaled(load, zero, float(scale))
    return None


def _bytes(nest: _Nest, name: str, kind: DType) -> For | None:
    """Some loop walks floats that lie side by side."""
    match nest.store.value:
        case Cast(
            Binary("min", Binary("larger", Binary("add", Unary("round", y), Const(z)), Const(lo)), Const(hi)),
            of,
        ) if of is kind and _is_whole(kind, lo, hi, z):
            pass
        case _:
            return None
    match y:
        case Binary("div", Load(tensor, outside=None) as x, Const(by)) if tensor.type is FLOAT32:
            scale, to = float(by), nest.store.to
        case _:
            return None
    walks = [f for f in nest.loops if step(x, f.var) == 1 and (step(to, f.var) or 0) > 0]
    along = max(walks, key=_count, default=None)
    if along is None or _count(along) < FEWEST or not _is_moderate(scale):
        return None
    far = float(np.float32(FAR) * np.float32(scale))
    numbers = (_count(along), step(to, along.var) or 0, int(z), scale, _reciprocal(scale), far)
    return nest.inside(along, Routine(name, _at_first(along, x, to), numbers))


def _floats(nest: _Nest, target: Target) -> For | None:
    """The innermost loop makes numbers of bytes that lie side by side."""
    x, to = nest.loops[-1], nest.store.to
    found = next((f for kind in (UINT8, INT8) if (f := _scaled(nest.store.value, kind)) is not None), None)
    if found is None or _count(x) < FEWEST or not _is_moderate(found.scale):
        return None
    name = f"from_bytes_{found.load.tensor.type.name}"
    if name not in target.routines or any(step(e, x.var) != 1 for e in (found.load, to)):
        return None
    return nest.inside(x, Routine(name, _at_first(x, found.load, to), (_count(x), found.zero, found.scale)))


def _is_whole(kind: DType, lo: float, hi: float, zero: float) -> bool:
    """Whether limits are those of the type, and a zero point is one of its numbers."""
    return (lo, hi) == (kind.lowest, kind.highest) and lo <= zero <= hi and zero == int(zero)


def _count(f: For) -> int:
    assert isinstance(f.lo, Const) and isinstance(f.hi, Const), "a nest has loops of known lengths"
    return int(f.hi.value) - int(f.lo.value)


def _at_first(f: For, *loads: Load) -> tuple[Load, ...]:
    """The accesses of the first iteration."""
    found = (substitute(load, {f.var: f.lo}) for load in loads)
    return tuple(load for load in found if isinstance(load, Load))


def _is_moderate(scale: float) -> bool:
    return SCALES[0] <= scale <= SCALES[1]


def _reciprocal(scale: float) -> float:
    return float(np.float32(1) / np.float32(scale))
