"""Float32 in integers: expressions and statements on the bits, for processors that have no floats.

    uint8(int32(round(min(larger(float32(acc) * m, -zero), 255 - zero))) + zero)
    ->  uint8(min(max(soft_scaled(acc, bits of m), -zero), 255 - zero) + zero)

In: what computes on float32. Out: what computes the same bits on int32, by the operations that
`formula/soft_floats.py` defines. Bytes that one byte decides are looked up. Called by
`program_passes/whole_numbers.py`, and for the math library's functions by `emit/mathematics.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import (
    COMPARISONS,
    Array,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expr,
    Fma,
    Load,
    Param,
    Select,
    Tensor,
    Unary,
    Var,
    cast,
    children,
    rebuild,
    transform,
    walk,
)
from ingot.formula.soft_floats import bits_of
from ingot.formula.statements import Assign, For, Madd, Statement, When
from ingot.formula.types import BOOL, FLOAT32, INDEX, INT32, DType
from ingot.loops.math import FAR, function, run
from ingot.loops.math import UNARY as LIBRARY
from ingot.loops.rewrite import rewritten
from ingot.loops.whole_sums import rounded

SIGN = Const(INT32.lowest, INT32)
ARITHMETIC = {"add": "soft_add", "mul": "soft_mul", "div": "soft_div"}
FEWEST = 6  # operations of a byte from which on it is looked up


class NotInIntegers(Exception):
    """Something has floats that are not done in integers; whoever asks leaves floats as they are."""


def is_in_library(op: str) -> bool:
    """Whether a function of the math library is straight-line code on the bits."""
    return op in LIBRARY and op not in FAR


@dataclass(slots=True)
class SoftFloats:
    """Rewrites expressions; `twins` are the tensors of bits that stand for tensors of floats."""

    twins: dict[Tensor, Tensor] = field(default_factory=dict)
    tables: dict[Tensor, None] = field(default_factory=dict)

    def statements(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return rewritten(tuple(map(_added, body)), self.expression)

    def tensor(self, t: Tensor) -> Tensor:
        """The tensor itself, or that of its bits."""
        if not t.type.is_float:
            return t
        if t.type is not FLOAT32 or t.packed is not None:
            raise NotInIntegers(f"{t.name} is {t.type}")
        if t not in self.twins:
            bits = None if t.value is None else np.ascontiguousarray(t.value, np.float32).view(np.int32)
            self.twins[t] = replace(t, type=INT32, value=bits, known=None, codebook=None)
        return self.twins[t]

    def expression(self, e: Expr) -> Expr:
        """The same, or the bits of what is a float32."""
        if isinstance(e, Cast) and (found := self._looked_up(e)) is not None:
            return found
        match e:
            case Const(v, t) if t is FLOAT32:
                return Const(int(bits_of(np.float32(v))), INT32)
            case Var(name, extent, t) if t is FLOAT32:
                return Var(name, extent, INT32)
            case Load(tensor, index, outside, lanes):
                other = None if outside is None else self.expression(outside)
                return Load(self.tensor(tensor), tuple(map(self.expression, index)), other, lanes)
            case Cast(Unary("round", x), to) if to is INT32 and x.dtype is FLOAT32:
                return self._nearest(x)
            case Cast(a, to) if to is FLOAT32 and not a.dtype.is_float:
                return Unary("soft_float", self._as_int32(a))
            case Cast(a, to) if a.dtype is FLOAT32 and not to.is_float:
                return self._whole(self.expression(a), to)
            case Bitcast(a, to) if {a.dtype, to} == {FLOAT32, INT32}:
                return self.expression(a)
            case Unary(op, a) if a.dtype is FLOAT32:
                return self._unary(op, self.expression(a))
            case Fma(a, b, c) if c.dtype is FLOAT32:
                return Fma(*map(self.expression, (a, b, c)))
            case Binary(op, a, b) if a.dtype is FLOAT32:
                return self._binary(op, self.expression(a), self.expression(b))
        if e.dtype.is_float and not (isinstance(e, Select) and e.dtype is FLOAT32):
            raise NotInIntegers(f"no {type(e).__name__} of {e.dtype} is done in integers")
        return rebuild(e, self.expression)

    def _as_int32(self, a: Expr) -> Expr:
        t = a.dtype
        if t not in (INDEX, BOOL, INT32) and not (t.kind in "iu" and t.bits < 32):
            raise NotInIntegers(f"{t} to float32")
        return cast(self.expression(a), INT32)

    def _nearest(self, x: Expr) -> Expr:
        """What rounds, as an int32; what is limited to whole numbers is limited behind it."""
        match x:
            case Binary("min", Binary("larger", y, Const(lo)), Const(hi)) if lo == int(lo) and hi == int(hi):
                whole = Binary("max", self._nearest(y), Const(int(lo), INT32))
                return Binary("min", whole, Const(int(hi), INT32))
            case Binary("mul", Cast(a, _), scale) if not a.dtype.is_float:
                return Binary("soft_scaled", self._as_int32(a), self.expression(scale))
        plain = Unary("soft_nearest", self.expression(x))
        if (found := rounded(x)) is None:
            return plain
        return Select(self.expression(found.is_near), plain, self.expression(found.whole))

    def _whole(self, bits: Expr, to: DType) -> Expr:
        """Truncated and limited; whether it is not 0, where bools are asked for."""
        if to is BOOL:
            return Binary("ne", bits & int(INT32.highest), Const(0, INT32))
        if to not in (INDEX, INT32) and to.bits >= 32:
            raise NotInIntegers(f"float32 to {to}")
        whole: Expr = Unary("soft_whole", bits)
        if to.bits < 32:
            low, high = (Const(int(v), INT32) for v in (to.lowest, to.highest))
            whole = Binary("min", Binary("max", whole, low), high)
        return cast(whole, to)

    def _unary(self, op: str, bits: Expr) -> Expr:
        match op:
            case "neg":
                return Binary("xor", bits, SIGN)
            case "abs":
                return bits & int(INT32.highest)
            case "isnan":
                return (bits & int(INT32.highest)) > 0x7F800000
        if not is_in_library(op):
            raise NotInIntegers(f"{op} of floats")
        return Unary(f"soft_{op}", bits)

    def _binary(self, op: str, a: Expr, b: Expr) -> Expr:
        if op in ARITHMETIC:
            return Binary(ARITHMETIC[op], a, b)
        if op in COMPARISONS:
            return _compared(op, a, b)
        match op:
            case "sub":
                return Binary("soft_add", a, Binary("xor", b, SIGN))
            case "larger":
                return Select(_compared("gt", a, b), a, b)
            case "max" | "min":  # NaN stays NaN
                away = _compared("lt" if op == "max" else "gt", a, b)
                is_nan = (b & int(INT32.highest)) > 0x7F800000
                return Select(Binary("or", away, is_nan), b, a)
        raise NotInIntegers(f"{op} of floats")

    def _looked_up(self, e: Cast) -> Expr | None:
        """A byte that another byte decides, by way of floats, from a table of all there are."""
        if e.type.bits != 8 or not any(n.dtype is FLOAT32 for n in walk(e)):
            return None
        inner = set(_bytes(e.a))
        if len(inner) != 1 or sum(1 for _ in walk(e)) - sum(1 for _ in walk(*inner)) < FEWEST:
            return None
        (byte,) = inner
        if any(isinstance(n, Load | Var | Param) for n in walk(_with(e, byte, Const(0, byte.dtype)))):
            return None  # where it stands decides, too
        values = np.ascontiguousarray(_of_every_byte(e, byte))
        table = Tensor("table", e.type, (256,), values)
        table = next((t for t in self.tables if _is_same(t, table)), table)
        self.tables[table] = None
        lowest = int(byte.dtype.lowest)
        return Load(table, (cast(self.expression(byte), INDEX) - lowest,))


def _bytes(e: Expr) -> Iterator[Expr]:
    """The outermost bytes that an expression is made of."""
    if isinstance(e, Load | Cast) and e.dtype.kind in "iu" and e.dtype.bits == 8:
        yield e
        return
    for child in children(e):
        yield from _bytes(child)


def _with(e: Expr, old: Expr, new: Expr) -> Expr:
    return transform(e, lambda n: new if n == old else None)


def _of_every_byte(e: Expr, byte: Expr) -> Array:
    """What e is for each value of the byte, from the lowest; functions are the math library's."""
    kind = byte.dtype
    registers = {"byte": np.arange(int(kind.lowest), int(kind.highest) + 1).astype(kind.numpy)}

    def known(n: Expr) -> Expr | None:
        if not (isinstance(n, Unary) and n.op in LIBRARY and n.dtype is FLOAT32):
            return None
        x = evaluate(transform(n.a, known), {}, registers)
        name = f"f{len(registers)}"
        registers[name] = run(function(n.op, FLOAT32), np.broadcast_to(x, (256,)).astype(np.float32))
        return Var(name, None, FLOAT32)

    with np.errstate(all="ignore"):
        found = evaluate(transform(_with(e, byte, Var("byte", None, kind)), known), {}, registers)
    return np.broadcast_to(np.asarray(found, e.dtype.numpy), (256,))


def _is_same(a: Tensor, b: Tensor) -> bool:
    return (
        a.type is b.type and a.value is not None and b.value is not None and bool((a.value == b.value).all())
    )


def _compared(op: str, a: Expr, b: Expr) -> Expr:
    """A comparison of floats; of NaN only `ne` holds."""

    def asked(name: str, a: Expr, b: Expr) -> Expr:
        return Binary("ne", Binary(name, a, b), Const(0, INT32))

    forms: dict[str, Callable[[], Expr]] = {
        "lt": lambda: asked("soft_less", a, b),
        "gt": lambda: asked("soft_less", b, a),
        "le": lambda: Binary("or", asked("soft_less", a, b), asked("soft_equal", a, b)),
        "ge": lambda: Binary("or", asked("soft_less", b, a), asked("soft_equal", a, b)),
        "eq": lambda: asked("soft_equal", a, b),
        "ne": lambda: Unary("not", asked("soft_equal", a, b)),
    }
    return forms[op]()


def _added(s: Statement) -> Statement:
    """Products of floats that are added, as two operations."""
    match s:
        case Madd(name, a, b, lanes) if a.dtype is FLOAT32:
            return Assign(name, Var(name, None, FLOAT32) + a * b, lanes)
        case For(body=body):
            return replace(s, body=tuple(map(_added, body)))
        case When(_, body, other):
            return replace(s, body=tuple(map(_added, body)), other=tuple(map(_added, other)))
    return s
