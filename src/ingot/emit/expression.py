"""Expressions as C text, scalar and vector.

The printer notes what it used (helpers, vector types, library functions) in `used`; `emit/helpers.py`
prints those once per file. Index arithmetic is printed in normal form, everything else keeps the shape of
its tree.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ingot.emit.literals import literal
from ingot.formula.expr import (
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
)
from ingot.formula.index import flat_index, linear
from ingot.formula.statements import Routine
from ingot.formula.types import BOOL, FLOAT32, INDEX, INT32, DType
from ingot.loops.access import is_scaled_sum, is_small
from ingot.targets.record import Target

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
LOGICAL = {"and": "&&", "or": "||"}
WRAPPING = ("add", "sub", "mul")
ELEMENT = re.compile(r"\w+(\[[^\[\]]*\])*")
COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
INDEX_CALLS = {"max": "imax", "min": "imin", "floordiv": "ifloordiv", "mod": "imod"}


@dataclass(slots=True)
class Printer:
    """Prints expressions of one function.

    `name_of` gives the identifier of a tensor, `params` those of run-time extents whose names are no
    identifiers or are taken; `registers` holds lanes and type of each register declared so far, `repeated`
    what stands in every lane of some; `pause` is the function that a `Pause` calls.
    """

    target: Target
    name_of: Callable[[Tensor], str]
    used: set[tuple[str, ...]] = field(default_factory=set)
    registers: dict[str, tuple[int, DType]] = field(default_factory=dict)
    repeated: dict[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    pause: str = ""

    def width(self, e: Expr) -> int:
        """Lanes of an expression: 1 for a scalar."""
        match e:
            case Var(name):
                return self.registers.get(name, (1, INDEX))[0]
            case Load(lanes=lanes) | Lane(lanes=lanes):
                return lanes
            case Unary("any", _):
                return 1
            case Unary(_, a) | Cast(a, _) | Bitcast(a, _):
                return self.width(a)
            case Binary(_, a, b):
                return max(self.width(a), self.width(b))
            case Shuffle(_, _, index):
                return len(index)
            case Pick(_, index) | Entry(_, index, _):
                return self.width(index)
            case Fma(a, b, c) | Select(a, b, c):
                return max(self.width(a), self.width(b), self.width(c))
        return 1

    def scalar(self, e: Expr) -> str:
        """C text of a scalar expression."""
        if e.dtype is INDEX and not isinstance(e, Cast | Select):
            return self.index(e)
        match e:
            case Const(value, dtype):
                return literal(value, dtype)
            case Var(name):
                return name
            case Param(name):
                return self.params.get(name, name)
            case Load():
                return self._load(e)
            case Unary(op, a):
                return self._unary(op, a)
            case Binary(op, a, b):
                return self._binary(op, a, b)
            case Fma(a, b, c):
                return self.fused(a, b, c, 1)
            case Select(c, a, b):
                return f"({self.scalar(c)} ? {self.scalar(a)} : {self.scalar(b)})"
            case Cast(Unary("round", a) as rounded, dtype) if dtype is INT32 and _has_nearest(rounded):
                return self._nearest_scalar(a, dtype)
            case Cast(a, dtype):
                return self._cast(a, dtype)
            case Byte(a, k):
                return f"({self.address(a)})->bytes[{self.index(k)}]"
            case Lane(a, lane):
                return f"{self.scalar(a)}[{lane}]"
            case Bitcast(a, dtype) if a.dtype.c == dtype.c:
                return self.scalar(a)
            case Bitcast(a, dtype):
                return self.call("bits", (a.dtype.name, dtype.name), self.scalar(a))
        raise TypeError(f"no C for {e!r}")

    def fused(self, a: Expr, b: Expr, c: Expr, lanes: int) -> str:
        """a * b + c by the target's instruction, or by a helper."""
        t = c.dtype
        x, y, z = (self.scalar(e) if lanes == 1 else self.vector(e, lanes) for e in (a, b, c))
        spelled = self.target.spelling("madd", t.name, 0 if lanes == 1 else lanes * t.bytes)
        if spelled is None:
            return self.fused_by_helper((x, y, z), t, lanes)
        return spelled.format(a=bare(x), b=bare(y), c=bare(z))

    def fused_by_helper(self, parts: tuple[str, str, str], t: DType, lanes: int) -> str:
        """The same without an instruction: of float32, or of its bits."""
        if t is INT32:
            return self.call("soft_fused", (t.name,), *parts)
        assert t is FLOAT32, f"{self.target.name} has no fused multiply-add on {lanes} of {t}"
        return self.call("fused", (t.name,), *parts)

    def vector(self, e: Expr, lanes: int) -> str:
        """C text of `e` as a vector: only `VectorPrinter` has vectors."""
        raise NotImplementedError

    def call(self, op: str, types: tuple[str, ...], *arguments: str) -> str:
        """A call of one of our helpers, noted as used."""
        self.used.add((op, *types))
        return f"{helper_name(op, *types)}({', '.join(map(bare, arguments))})"

    def routine(self, routine: Routine) -> str:
        """A call of a function that the target's record spells."""
        addresses = (f"&{self.element(a)}" for a in routine.arguments)
        constants = (Const(n, FLOAT32) if isinstance(n, float) else n for n in routine.numbers)
        numbers = (self.scalar(n) if isinstance(n, Expr) else str(n) for n in constants)
        return self.call("routine", (routine.name,), *addresses, *numbers)

    def not_vectorized(self) -> str:
        """What stands before a loop that a compiler must not vectorize: `helpers` says why."""
        self.used.add(("not_vectorized",))
        return "NOT_VECTORIZED"

    # -- indices

    def index(self, e: Expr) -> str:
        """An integer index in normal form: `oh + kh - 1`, `imax(0, 1 - oh)`."""
        form = linear(e)
        if form.keys() == {e} and form[e] == 1:
            return self._atom(e)
        out = ""
        for atom, c in sorted(form.items(), key=lambda t: (t[1] < 0, t[0] is None)):
            magnitude = str(abs(c)) if atom is None else self._atom(atom)
            if atom is not None and abs(c) != 1:
                magnitude = f"{abs(c)} * {self._factor(atom)}"
            out += f" {'-' if c < 0 else '+'} {magnitude}"
        return "-" + out[3:] if out.startswith(" - ") else out[3:] or "0"

    def _atom(self, e: Expr) -> str:
        match e:
            case Const(value, _):
                return str(value)
            case Var(name):
                return name
            case Param(name):
                return self.params.get(name, name)
            case Binary("mul", a, b):
                return f"{self._factor(a)} * {self._factor(b)}"
            case Binary("floordiv" | "mod" as op, a, Const(k, _)) if _never_negative(a):
                return f"{self._divided(a)} {'/' if op == 'floordiv' else '%'} {k}"
            case Binary(op, a, b) if op in INDEX_CALLS:
                self.used.add((INDEX_CALLS[op],))
                return f"{INDEX_CALLS[op]}({self.index(a)}, {self.index(b)})"
            case Cast(a, _):
                return self._cast(a, INDEX)
            case Select():
                return self.scalar(e)
        raise TypeError(f"no C for index {e!r}")

    def _divided(self, e: Expr) -> str:
        text = self.index(e)
        return text if text.isidentifier() else f"({text})"

    def _factor(self, e: Expr) -> str:
        """The index as an operand of * / %: C reads `2 * h % 2` as `(2 * h) % 2`."""
        text = self.index(e)
        return f"({text})" if any(f" {sign} " in text for sign in "+-*/%") or text[0] == "-" else text

    def _parenthesised(self, e: Expr) -> str:
        text = self.scalar(e)
        return text if ELEMENT.fullmatch(text) or bare(text) != text else f"({text})"

    # -- memory

    def element(self, load: Load) -> str:
        """The element as an lvalue: `x[0][oh + kh][ic]`, or flat where a dimension is known at run time
        only."""
        shape, name = load.tensor.shape, self.name_of(load.tensor)
        if not shape:
            return f"{name}[0]"
        if all(isinstance(n, int) for n in shape):
            return name + "".join(f"[{self.index(i)}]" for i in load.index)
        return f"{name}[{self.index(flat_index(load))}]"

    def _load(self, load: Load) -> str:
        t = load.tensor.type
        return self.widened(self.element(load), t) if t.is_narrow else self.element(load)

    def widened(self, text: str, t: DType) -> str:
        """A narrow float as it is computed with; narrow integers are stored so."""
        return self.call("widen", (t.name,), text) if t.is_float else text

    def narrowed(self, e: Expr, t: DType) -> str:
        """C text of what a tensor of the type stores of an expression."""
        if isinstance(e, Load) and e.tensor.type is t:  # moved, not widened and rounded
            return self.element(e)
        if e.dtype is t or not t.is_narrow:
            return self.scalar(e)
        return self.call("narrow", (t.name,), self.scalar(e))

    def address(self, e: Expr) -> str:
        """Where a string stands: they are compared and copied from place to place."""
        match e:
            case Text(value, dtype):
                return self.call("text", (dtype.name, value.hex()))
            case Select(c, a, b):
                return f"({self.scalar(c)} ? {self.address(a)} : {self.address(b)})"
            case Joined(row, dtype):
                return f"(const {dtype.c} *)&{self.element(row)}"
        assert isinstance(e, Load), f"{e!r} is no place"
        return f"&{self.element(e)}"

    def copy(self, to: str, value: Expr) -> str:
        """A string into its place, by a loop of our own: an assignment may become a call of memcpy."""
        return self.call("copy", (value.dtype.name,), to, self.address(value)) + ";"

    # -- operations

    def _unary(self, op: str, a: Expr) -> str:
        x, t = self.scalar(a), a.dtype
        match op:
            case "neg" if t.is_float:
                return f"(-{x})"
            case "not":
                return f"(!{x})"
            case "invert":
                return f"(({t.c})~{x})"
            case _ if spelled := self.target.spelling(op, t.name, 0):
                return spelled.format(a=x)
        return self.call(op, (t.name,), x)

    def _binary(self, op: str, a: Expr, b: Expr) -> str:
        if a.dtype.is_text:
            both = (self.address(a), self.address(b))
            return f"({self.call('compare', (a.dtype.name,), *both)} {COMPARE[op]} 0)"
        t = a.dtype
        if op in WRAPPING and not t.is_float:
            return f"({t.c})({self._modular(a)} {INFIX[op]} {self._modular(b)})"
        x, y = (
            self.scalar(a),
            self.scalar(b),
        )  # once: text that is made twice at each level takes 2^depth steps
        if op in COMPARE:
            return f"({x} {COMPARE[op]} {y})"
        if op in LOGICAL and _is_condition(a) and _is_condition(b):  # compilers warn of & between those
            return f"({x} {LOGICAL[op]} {y})"
        if op in ("and", "or", "xor") or (t.is_float and op in INFIX):
            text = f"({x} {INFIX[op]} {y})"
            return text if t.is_float or t.bits >= 32 or t is BOOL else f"({t.c}){text}"
        if op in ("max", "min") and isinstance(a, Const):  # second: what a compiler knows to be no NaN
            x, y = y, x
        return self.call(op, (t.name,), x, y)

    def _modular(self, e: Expr) -> str:
        """The operand of an operation that wraps instead of overflowing: as an unsigned number."""
        if isinstance(e, Binary) and e.op in WRAPPING and e.dtype is not INDEX and e.dtype.bits >= 32:
            return f"({self._modular(e.a)} {INFIX[e.op]} {self._modular(e.b)})"
        return f"(uint{max(e.dtype.bits, 32)}_t){self.scalar(e)}"

    def _nearest_scalar(self, a: Expr, to: DType) -> str:
        """A float that fits as the nearest integer, ties to even."""
        spelled = self.target.spelling("nearest_int32", a.dtype.name, 0)
        if spelled is not None:
            return spelled.format(a=bare(self.scalar(a)))
        if is_small(a):
            return self.call("nearest", (a.dtype.name,), self.scalar(a))
        return self._cast(Unary("round", a), to)

    def _cast(self, a: Expr, to: DType) -> str:
        if to.is_narrow:
            return self.narrowed(a, to)
        if a.dtype.is_narrow:
            assert to is a.dtype.compute, f"{a.dtype} becomes {to} by way of {a.dtype.compute}"
            return self.widened(self.scalar(a), a.dtype)
        t = a.dtype
        if to is BOOL:
            return f"({self.scalar(a)} != 0)"
        if t.is_float and not to.is_float:  # one name, one helper
            return self.call("to", (t.name, INT32.name if to is INDEX else to.name), self.scalar(a))
        return f"({to.c}){self._parenthesised(a)}" if t is not to else self.scalar(a)


def bare(text: str) -> str:
    """Without one pair of parentheses around the whole."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1]


def _is_condition(e: Expr) -> bool:
    """Whether C sees a truth value, not an integer that holds one."""
    match e:
        case Unary("not", _):
            return True
        case Binary(op, a, b) if op in LOGICAL:
            return _is_condition(a) and _is_condition(b)
    return isinstance(e, Binary) and e.op in COMPARE


def _never_negative(e: Expr) -> bool:
    from ingot.formula.index import interval

    try:
        return interval(e)[0] >= 0
    except ValueError:
        return False


SHORT = {
    "float32": "f32",
    "float64": "f64",
    "bool": "u8",
    "index": "i32",
    "float16": "f16",
    "bfloat16": "bf16",
}
NARROW = ("float8", "float6", "float4")


def short(dtype: str) -> str:
    """f32, i8, u64, ...: the types in the names of helpers."""
    if dtype in SHORT:  # float64 begins like the types of six bits
        return SHORT[dtype]
    if dtype.startswith(NARROW):
        return dtype[len(NARROW[0]) :]
    return dtype.replace("uint", "u").replace("int", "i")


def helper_name(op: str, *types: str) -> str:
    """`max_f32`, `bits_f32_i32`, `imax`; a literal string is named by its digest."""
    if op == "routine":
        return types[0]
    if op == "text":
        return f"text_{hashlib.sha256(types[1].encode()).hexdigest()[:16]}_{types[0]}"
    return "_".join([op, *map(short, types)])


def _has_nearest(a: Expr) -> bool:
    """Whether what a float is rounded to is known to be an int32."""
    match a:
        case Unary("round", x):
            return is_scaled_sum(a) or is_small(x)
    return False
