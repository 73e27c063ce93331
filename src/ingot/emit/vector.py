"""Vector expressions as GNU C: named vector types, the target's own spelling where it has one."""

from __future__ import annotations

from dataclasses import dataclass

from ingot.emit.expression import COMPARE, INFIX, Printer, bare, short
from ingot.emit.literals import literal
from ingot.formula.expr import (
    Binary,
    Bitcast,
    Cast,
    Const,
    Entry,
    Expr,
    Fma,
    Lane,
    Load,
    Pick,
    Select,
    Shuffle,
    Unary,
    Var,
)
from ingot.formula.types import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, INT64, DType
from ingot.loops.instructions import GROUP, GROUP_BYTES, packed_lanes


def mask_type(t: DType) -> DType:
    """The type of a mask of comparisons, 0 or -1."""
    return INT64 if t.bits == 64 else INT32


@dataclass(slots=True)
class VectorPrinter(Printer):
    """Adds vectors to `Printer`. A scalar met where a vector is needed is broadcast."""

    def vector_type(self, dtype: DType, lanes: int) -> str:
        """`f32x8`, declared once per file."""
        self.used.add(("type", dtype.name, str(lanes)))
        return f"{short(dtype.name)}x{lanes}"

    def vector(self, e: Expr, lanes: int) -> str:
        """C text of `e` as a vector of `lanes`."""
        if self.width(e) == 1:
            return self._splat(self.scalar(e), e.dtype, lanes)
        match e:
            case Var(name):
                return name
            case Load():
                return f"*(const {self.vector_type(e.tensor.type, lanes)} *)&{self.element(e)}"
            case Lane(a, lane, _):
                return self._part(a, lane, lanes)
            case Unary(op, a):
                return self._vector_unary(op, a, lanes)
            case Binary(op, a, b):
                return self._vector_binary(op, a, b, lanes)
            case Fma(a, b, c):
                return self.fused(a, b, c, lanes)
            case Shuffle():
                return self._shuffle(e)
            case Pick():
                return self._pick(e, lanes)
            case Entry():
                return self._entry(e, lanes)
            case Select(c, a, b) if self.width(c) == 1:  # gcc wants one type of two sums of one type
                t, x, y = self.vector_type(e.dtype, lanes), self.vector(a, lanes), self.vector(b, lanes)
                return f"({self.scalar(c)} ? ({t}){x} : ({t}){y})"
            case Select(c, a, b):
                return self._select(self.mask(c, lanes), a, b, lanes)
            case Cast(Unary("round", a), dtype) if dtype is INT32 and (spelled := self._nearest(a, lanes)):
                return spelled
            case Cast(Binary("min", Binary("max", a, Const(lo)), Const(hi)), dtype) if (
                lo == dtype.lowest and hi == dtype.highest and (spelled := self._saturating(a, dtype, lanes))
            ):
                return spelled
            case Cast(Shuffle() as a, dtype) if spelled := self._widening_half(a, dtype, lanes):
                return f"(({self.vector_type(dtype, lanes)}){spelled})"
            case Cast(a, dtype) if spelled := self._widening(a, dtype, lanes):
                return spelled.format(a=bare(self.vector(a, lanes)))
            case Cast(a, dtype):
                t, x = self.vector_type(dtype, lanes), self.vector(a, lanes)
                if a.dtype is FLOAT32 and dtype.is_integer and dtype.bits < 32 and self.target.widens:
                    x = f"__builtin_convertvector({x}, {self.vector_type(INT32, lanes)})"
                return f"__builtin_convertvector({x}, {t})"
            case Bitcast(a, dtype):
                return f"(({self.vector_type(dtype, lanes)}){self.vector(a, lanes)})"
        raise TypeError(f"no vector C for {e!r}")

    def _shuffle(self, e: Shuffle) -> str:
        """Lanes picked from two registers; gcc widens through memory unless the wider register is spelled."""
        width, wanted, t = self.width(e.a), len(e.index), e.dtype
        x, y = (self.vector(v, width) for v in (e.a, e.b))
        index = e.index
        spelled = self.target.spelling(f"extend{width * t.bytes}", t.name, wanted * t.bytes)
        if wanted > width and spelled:
            x, y = (spelled.format(a=v) for v in (x, y))
            index = tuple(i if i < width else i - width + wanted for i in index)
        return f"__builtin_shufflevector({x}, {y}, {', '.join(map(str, index))})"

    def _pick(self, e: Pick, lanes: int) -> str:
        """Lanes picked by data: the target's table look-up, or the helper that means the same."""
        width, t, index = self.width(e.tables[0]), e.dtype, self.vector(e.index, lanes)
        gather = self.target.spelling("gather", t.name, lanes * t.bytes)
        if gather and isinstance(e.tables[0], Load) and len(e.tables) == 1:
            made = gather.format(a=f"&{self.element(e.tables[0])}", c=bare(index))
            return f"({self.vector_type(t, lanes)}){made}"
        tables = [self.vector(v, width) for v in e.tables]
        spelled = self.target.spelling(f"pick{width * len(tables)}", t.name, lanes * t.bytes)
        if spelled:
            a, *_, b = texts = [*map(bare, tables)] * (1 + (len(tables) == 1))
            made = spelled.format(a=a, b=b, c=bare(index), tables=", ".join(texts))
            return f"({self.vector_type(t, lanes)}){made}"
        for dtype, n in ((t, width), (t, lanes), (e.index.dtype, lanes)):
            self.vector_type(dtype, n)
        types = (t.name, e.index.dtype.name, str(width), str(len(tables)), str(lanes))
        return self.call("pick", types, *tables, index)

    def _entry(self, e: Entry, lanes: int) -> str:
        """A look-up in a table that fills one register, which the target has."""
        numbers = ", ".join(literal(v, e.type) for v in e.values)
        held = f"({self.vector_type(e.type, len(e.values))}){{{numbers}}}"
        spelled = self.target.spelling(f"pick{len(e.values)}", e.type.name, lanes * e.type.bytes)
        assert spelled is not None
        return spelled.format(a=held, c=bare(self.vector(e.index, lanes)))

    def _widening(self, a: Expr, to: DType, lanes: int) -> str | None:
        """How integers become wider ones, where compilers may not find it."""
        if not a.dtype.is_integer or to.bits <= a.dtype.bits:
            return None
        return self.target.spelling(f"widen_{to.name}", a.dtype.name, lanes * to.bytes)

    def _widening_half(self, e: Shuffle, to: DType, lanes: int) -> str | None:
        """Every other lane of a register, widened to fill one: the even ones, or the odd."""
        which = {tuple(range(k, 2 * lanes, 2)): name for k, name in enumerate(("even", "odd"))}.get(e.index)
        if which is None or e.a != e.b or self.width(e.a) != 2 * lanes:
            return None
        spelled = self.target.spelling(f"widen_{which}_{to.name}", e.dtype.name, lanes * to.bytes)
        return None if spelled is None else spelled.format(a=bare(self.vector(e.a, 2 * lanes)))

    def _nearest(self, a: Expr, lanes: int) -> str | None:
        """A float that fits as the nearest integer."""
        spelled = self.target.spelling("nearest_int32", a.dtype.name, lanes * a.dtype.bytes)
        return None if spelled is None else spelled.format(a=bare(self.vector(a, lanes)))

    def _saturating(self, a: Expr, to: DType, lanes: int) -> str | None:
        """Integers limited to a narrower type, of one register or of two that are packed."""
        if not a.dtype.is_integer or a.dtype.bits <= to.bits:
            return None
        if isinstance(a, Shuffle) and a.index == packed_lanes(lanes, GROUP_BYTES // a.dtype.bytes):
            width = self.width(a.a)
            spelled = self.target.spelling(f"pack_{to.name}", a.dtype.name, width * a.dtype.bytes)
            x, y = (bare(self.vector(v, width)) for v in (a.a, a.b))
            return None if spelled is None else spelled.format(a=x, b=y)
        spelled = self.target.spelling(f"saturate_{to.name}", a.dtype.name, lanes * a.dtype.bytes)
        return None if spelled is None else spelled.format(a=bare(self.vector(a, lanes)))

    def _splat(self, text: str, dtype: DType, lanes: int) -> str:
        self.vector_type(dtype, lanes)
        return self.call("splat", (dtype.name, str(lanes)), text)

    def _part(self, a: Expr, lane: int, lanes: int) -> str:
        if isinstance(a, Var) and a.name in self.repeated:
            return self._narrower(a, lanes)
        whole = self.width(a)
        self.vector_type(a.dtype, whole)
        self.vector_type(a.dtype, lanes)
        return self.call("part", (a.dtype.name, str(whole), str(lanes), str(lane)), self.vector(a, whole))

    def _narrower(self, a: Var, lanes: int) -> str:
        """Some lanes of a register whose lanes are all equal, and what they are."""
        whole = self.width(a)
        self.vector_type(a.dtype, whole)
        self.vector_type(a.dtype, lanes)
        return self.call("narrower", (a.dtype.name, str(whole), str(lanes)), a.name, self.repeated[a.name])

    def _vector_unary(self, op: str, a: Expr, lanes: int) -> str:
        x, t = self.vector(a, lanes), a.dtype
        if op == "neg" and t.kind == "i":
            return f"(({self.vector_type(t, lanes)})-({self._modular_type(t, lanes)}){x})"
        if op == "neg":
            return f"(-{x})"
        if op == "invert":
            return f"(~{x})"
        spelled = self.target.spelling(op, t.name, lanes * t.bytes)
        if spelled:
            return spelled.format(a=x)
        self.vector_type(t, lanes)
        self.vector_type(mask_type(t), lanes)
        return self.call(op, (t.name, str(lanes)), x)

    def _vector_binary(self, op: str, a: Expr, b: Expr, lanes: int) -> str:
        t = a.dtype
        if op in ("add", "sub", "mul") and t.kind == "i":
            wraps, x, y = self._modular_type(t, lanes), self.vector(a, lanes), self.vector(b, lanes)
            return f"(({self.vector_type(t, lanes)})(({wraps}){x} {INFIX[op]} ({wraps}){y}))"
        if op in INFIX:
            return f"({self.vector(a, lanes)} {INFIX[op]} {self.vector(b, lanes)})"
        if op in ("shl", "shr"):
            return f"({self.vector(a, lanes)} {'<<' if op == 'shl' else '>>'} {self.vector(b, lanes)})"
        if op in ("max", "min"):
            return self._extreme(op, a, b, lanes)
        if spelled := self.target.spelling(op, t.name, lanes * t.bytes):
            return spelled.format(a=bare(self.vector(a, lanes)), b=bare(self.vector(b, lanes)))
        self.vector_type(t, lanes)
        self.vector_type(mask_type(t), lanes)
        return self.call(op, (t.name, str(lanes)), self.vector(a, lanes), self.vector(b, lanes))

    def _modular_type(self, t: DType, lanes: int) -> str:
        """The type under which signed integers wrap instead of overflowing."""
        return self.vector_type(DTYPES[f"uint{t.bits}"], lanes)

    def _extreme(self, op: str, a: Expr, b: Expr, lanes: int) -> str:
        """max and min propagate NaN: the spelled instruction answers its second operand, so a constant goes
        first.
        """
        t = a.dtype
        spelled = self.target.spelling(op, t.name, lanes * t.bytes)
        if spelled and (not t.is_float or _is_number(a) or _is_number(b)):
            first, second = (b, a) if _is_number(b) else (a, b)
            return spelled.format(a=bare(self.vector(first, lanes)), b=bare(self.vector(second, lanes)))
        self.vector_type(t, lanes)
        self.vector_type(mask_type(t), lanes)
        return self.call(op, (t.name, str(lanes)), self.vector(a, lanes), self.vector(b, lanes))

    def mask(self, c: Expr, lanes: int) -> str:
        """A condition as a vector of 0 and -1, as wide as what was compared."""
        match c:
            case Binary(op, a, b) if op in COMPARE:
                return f"({self.vector(a, lanes)} {COMPARE[op]} {self.vector(b, lanes)})"
            case Binary("and" | "or" as op, a, b) if c.dtype is BOOL:
                return f"({self._condition(a, b, lanes)} {INFIX[op]} {self._condition(b, a, lanes)})"
            case Unary("not", a):
                return f"(~{self.mask(a, lanes)})"
            case Unary("isnan", a):
                x = self.vector(a, lanes)
                return f"({x} != {x})"
        raise TypeError(f"no vector mask for {c!r}")

    def _condition(self, c: Expr, other: Expr, lanes: int) -> str:
        """One of two conditions as a mask: a bool that all lanes share is one as wide as the other."""
        if self.width(c) > 1:
            return self.mask(c, lanes)
        return self._splat(f"-({self.scalar(c)})", mask_type(_compared(other)), lanes)

    def _select(self, mask: str, a: Expr, b: Expr, lanes: int) -> str:
        return self.blend(mask, self.vector(a, lanes), self.vector(b, lanes), a.dtype, lanes)

    def blend(self, mask: str, x: str, y: str, t: DType, lanes: int) -> str:
        """x where the mask is set, else y."""
        spelled = self.target.spelling("select", t.name, lanes * t.bytes)
        if spelled:
            return spelled.format(a=mask, b=x, c=y)
        bits = self.vector_type(mask_type(t), lanes)
        return f"(({self.vector_type(t, lanes)})(({mask} & ({bits}){x}) | (~{mask} & ({bits}){y})))"

    def any(self, mask: str, t: DType, lanes: int) -> str:
        """Whether the mask is set in any lane."""
        bits = mask_type(t)
        spelled = self.target.spelling("any", bits.name, lanes * t.bytes)
        return spelled.format(a=mask) if spelled else self.call("any", (bits.name, str(lanes)), mask)

    def _unary(self, op: str, a: Expr) -> str:
        if op != "any":
            return Printer._unary(self, op, a)  # super() does not work in a dataclass with slots
        lanes, t = self.width(a), mask_type(_compared(a))
        self.vector_type(t, lanes)
        return self.any(self.mask(a, lanes), t, lanes)

    def madd(self, name: str, a: Expr, b: Expr, lanes: int) -> str:
        """name + a * b, as the fused instruction where the target has it."""
        t = a.dtype
        if lanes == 1:
            spelled = self.target.spelling("madd", t.name, 0)
            x, y = self.scalar(a), self.scalar(b)
            return spelled.format(a=x, b=y, c=name) if spelled else f"{name} + {x} * {y}"
        spelled = self.target.spelling("madd", t.name, lanes * t.bytes)
        if spelled:
            return spelled.format(a=bare(self.vector(a, lanes)), b=bare(self.vector(b, lanes)), c=name)
        return f"{name} + {self.vector(a, lanes)} * {self.vector(b, lanes)}"

    def fused_by_helper(self, parts: tuple[str, str, str], t: DType, lanes: int) -> str:
        if lanes == 1:
            return Printer.fused_by_helper(self, parts, t, lanes)
        for wide in (FLOAT32, FLOAT64):
            self.vector_type(wide, lanes)
        return self.call("fused", (t.name, str(lanes)), *parts)

    def instruction(self, operation: str, name: str, a: Expr, b: Expr, lanes: int) -> str:
        """An accumulating instruction of the target, or the helper that means the same."""
        k = GROUP[operation]
        x, y = (self._group(e, k, lanes) for e in (a, b))
        total = self.registers[name][1]
        spelled = self.target.spelling(operation, a.dtype.name, k * lanes * a.dtype.bytes)
        if spelled:
            return spelled.format(a=x, b=y, c=name)
        if lanes > 1:
            self.vector_type(total, lanes)
        return self.call(operation, (a.dtype.name, b.dtype.name, str(lanes)), x, y, name)

    def _group(self, e: Expr, k: int, lanes: int) -> str:
        """The operand with k elements a lane; k that serve every lane are repeated as one 32-bit unit."""
        if k == lanes == 1:
            return self.scalar(e)
        width = k * lanes
        if self.width(e) == width:
            self.vector_type(e.dtype, width)
            return self.vector(e, width)
        unit = self.vector_type(INT32, 1)
        one = f"(({unit})({self.vector(e, k)}))[0]"
        return f"(({self.vector_type(e.dtype, width)}){self._splat(one, INT32, lanes)})"

    def store(self, to: Load, value: Expr, lanes: int) -> str:
        """Store `lanes` elements from `to` on."""
        t = self.vector_type(to.tensor.type, lanes)
        return f"*({t} *)&{self.element(to)} = {bare(self.vector(value, lanes))};"


def _compared(c: Expr) -> DType:
    """The type of what a condition compares."""
    match c:
        case Binary("and" | "or", Load(), b) if c.dtype is BOOL:
            return _compared(b)
        case Unary(_, a) | Binary("and" | "or", a, _):
            return _compared(a) if a.dtype is BOOL else a.dtype
        case Binary(_, a, _):
            return a.dtype
    raise TypeError(f"no comparison: {c!r}")


def _is_number(e: Expr) -> bool:
    """Whether an operand is known to be no NaN: a literal that is none, an entry of a function's table."""
    return isinstance(e, Entry) or (isinstance(e, Const) and e.value == e.value)
