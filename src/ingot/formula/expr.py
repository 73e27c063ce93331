"""Expressions: the scalar language that formulas and loops share.

About a dozen frozen node classes. Every expression knows its element type; casts are explicit. Operators on
expressions build nodes and fold what is already known, so that shapes may be ints or bounded `Param`s alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from operator import is_
from typing import Any, Union, overload

import numpy as np

from ingot.formula.types import BOOL, INDEX, INT64, UINT8, DType, dtype_of

Array = np.ndarray[Any, Any]
Extent = Union[int, "Expr"]
Operand = Union["Expr", int, float, bool, bytes]

COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
FOLD: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,  # as everywhere: a bundle must not trap
    "mod": lambda a, b: a % b if b else 0,
    "max": max,
    "min": min,
}


@dataclass(frozen=True, slots=True)
class Expr:
    """Base class; carries the operators, and what messages show of an expression: its text."""

    @property
    def dtype(self) -> DType:
        raise NotImplementedError

    def __repr__(self) -> str:
        return text(self)

    def __add__(self, other: Operand) -> Expr:
        return binary("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return binary("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return binary("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return binary("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return binary("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return binary("div", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return binary("floordiv", self, other)

    def __mod__(self, other: Operand) -> Expr:
        return binary("mod", self, other)

    def __neg__(self) -> Expr:
        return Unary("neg", self)

    def __and__(self, other: Operand) -> Expr:
        return binary("and", self, other)

    def __or__(self, other: Operand) -> Expr:
        return binary("or", self, other)

    def __xor__(self, other: Operand) -> Expr:
        return binary("xor", self, other)

    def __lshift__(self, other: Operand) -> Expr:
        return binary("shl", self, other)

    def __rshift__(self, other: Operand) -> Expr:
        return binary("shr", self, other)

    def __lt__(self, other: Operand) -> Expr:
        return binary("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return binary("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return binary("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return binary("ge", self, other)


@dataclass(frozen=True, slots=True, repr=False)
class Const(Expr):
    """A literal. `value` is a Python int, float or bool that the type can hold."""

    value: int | float | bool
    type: DType = INDEX

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True, repr=False)
class Text(Expr):
    """A literal string: UTF-8 that the type can hold, without a zero."""

    value: bytes
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True, repr=False)
class Var(Expr):
    """A loop variable (then `extent` may be known: 0 <= name < extent), a register, or the accumulator."""

    name: str
    extent: Extent | None = field(default=None, compare=False)
    type: DType = INDEX

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True, repr=False)
class Param(Expr):
    """An integer known at run time only, lo <= name <= hi: a bounded dimension, a thread's range.

    `source` is the int64 scalar that holds it where it is data; what makes that tensor has checked the
    bounds. Without one the caller gives it.
    """

    name: str
    lo: int
    hi: int
    source: Tensor | None = field(default=None, compare=False, repr=False)

    @property
    def dtype(self) -> DType:
        return INDEX


@dataclass(frozen=True, slots=True, repr=False)
class Unary(Expr):
    """neg abs not invert exp log sqrt tanh ... floor ceil round (half to even) away (half away from 0) trunc
    isnan isinf sign; any: whether a condition holds in a lane of a vector.
    """

    op: str
    a: Expr
    known_type: DType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Keep the type, as `Binary` does."""
        of_operand = self.op not in ("isnan", "isinf", "not", "any")
        object.__setattr__(self, "known_type", self.a.dtype if of_operand else BOOL)

    @property
    def dtype(self) -> DType:
        return self.known_type


@dataclass(frozen=True, slots=True, repr=False)
class Binary(Expr):
    """add sub mul div (C's truncating division on integers) floordiv mod fmod max min pow and or xor shl shr
    mulhi scalef (a * 2^floor(b)) larger (a > b ? a : b) doubling_high rounding_shr (gemmlowp's steps in
    fixed point, of int32) and the comparisons. Integers wrap. max and min propagate NaN."""

    op: str
    a: Expr
    b: Expr
    known_type: DType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Keep the type: a chain of operators that asks its operand for it each time costs its square."""
        object.__setattr__(self, "known_type", BOOL if self.op in COMPARISONS else self.a.dtype)

    @property
    def dtype(self) -> DType:
        return self.known_type


@dataclass(frozen=True, slots=True, repr=False)
class Fma(Expr):
    """a * b + c, rounded once: of float32, or of the bits of float32 as int32; of float64 made only for
    targets that have the instruction.
    """

    a: Expr
    b: Expr
    c: Expr

    @property
    def dtype(self) -> DType:
        return self.c.dtype


@dataclass(frozen=True, slots=True, repr=False)
class Select(Expr):
    """`a` where `condition` holds, else `b`; only the chosen side is read."""

    condition: Expr
    a: Expr
    b: Expr

    @property
    def dtype(self) -> DType:
        return self.a.dtype


@dataclass(frozen=True, slots=True, repr=False)
class Cast(Expr):
    """The value in another type: floats round half to even; float to integer truncates and saturates, NaN is
    0. Of an element cast to the narrow type it is stored in: the element as it stands, no bit changed.
    """

    a: Expr
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True, repr=False)
class Bitcast(Expr):
    """The same bits read as another type of the same width; of a narrow float, the low ones of a byte."""

    a: Expr
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class Packed:
    """What bytes hold: elements below 8 bits in row-major order, the first in the lowest bits."""

    type: DType
    shape: tuple[Extent, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A named array that formulas and loops read and write. `value` holds the elements of a constant.

    `known` holds them as index expressions where they follow from run-time extents. `pitch` are the extents
    of the larger array of which this is a corner, where it is one: they give the strides. Compared by
    identity: two tensors of one name are two tensors. `within` says between which numbers, ends included, all
    its integers lie: whoever writes it must prove that, whoever reads it may rely on it. `packed` says what
    bytes at the boundary of a bundle mean. `codebook` are the few values that all elements of a constant are
    among, where the model's encoding says so.
    """

    name: str
    type: DType
    shape: tuple[Extent, ...]
    value: Array | None = None
    known: tuple[Expr, ...] | None = field(default=None, repr=False)
    pitch: tuple[int, ...] | None = None
    within: tuple[int, int] | None = field(default=None, repr=False)
    packed: Packed | None = None
    codebook: Array | None = field(default=None, repr=False)

    def __getitem__(self, index: Operand | tuple[Operand, ...]) -> Load:
        return self.at(index)

    def at(self, index: Operand | tuple[Operand, ...], outside: Operand | None = None) -> Load:
        """The element at `index`; a read beyond the shape yields `outside` (None: provably never happens)."""
        index = index if isinstance(index, tuple) else (index,)
        assert len(index) == len(self.shape), f"{self.name}: {len(index)} indices for rank {len(self.shape)}"
        other = None if outside is None else wrap(outside, self.type.compute)
        return Load(self, tuple(wrap(i, INDEX) for i in index), other)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def spans(self) -> tuple[Extent, ...]:
        """The extents of the array in memory: what strides are products of."""
        return self.pitch or self.shape

    @property
    def lane_axis(self) -> int:
        """The axis along which the lanes of a vector lie: the last that has more than one element."""
        return next((d for d in range(self.rank - 1, 0, -1) if self.spans[d] != 1), 0)

    @property
    def count(self) -> int:
        """Elements, at the upper bound of every bounded dimension."""
        from ingot.formula.index import upper  # the algebra of the expressions that tensors stand in

        return prod(map(upper, self.shape))

    @property
    def bytes(self) -> int:
        return self.count * self.type.bytes


@dataclass(frozen=True, slots=True, repr=False)
class Load(Expr):
    """One element of a tensor, or `lanes` of them along its `lane_axis`. Narrow floats arrive widened."""

    tensor: Tensor
    index: tuple[Expr, ...]
    outside: Expr | None = None
    lanes: int = 1

    @property
    def dtype(self) -> DType:
        return self.tensor.type.compute


@dataclass(frozen=True, slots=True, repr=False)
class Lane(Expr):
    """One element of a vector register, or `lanes` of them from `lane` on."""

    a: Expr
    lane: int
    lanes: int = 1

    @property
    def dtype(self) -> DType:
        return self.a.dtype


@dataclass(frozen=True, slots=True, repr=False)
class Shuffle(Expr):
    """A vector of lanes picked from two vector registers of one width: those of `b` count on from `a`'s."""

    a: Expr
    b: Expr
    index: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        return self.a.dtype


@dataclass(frozen=True, slots=True, repr=False)
class Pick(Expr):
    """A vector of lanes picked by data: lane i is element `index[i]` of the registers `tables` in a row. A
    table that is a Load, of any power of two lanes, is left in memory where the target gathers.

    The index is an integer as wide as the elements; whoever makes it sees to it that it picks what is there.
    """

    tables: tuple[Expr, ...]
    index: Expr

    @property
    def dtype(self) -> DType:
        return self.tables[0].dtype


@dataclass(frozen=True, slots=True, repr=False)
class Entry(Expr):
    """An element of a table of constants that a register holds: `values[index % len(values)]`."""

    values: tuple[float, ...]
    index: Expr
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True, repr=False)
class Byte(Expr):
    """Byte `k` of a string: what a view of strings as bytes holds."""

    a: Expr
    k: Expr

    @property
    def dtype(self) -> DType:
        return UINT8


@dataclass(frozen=True, slots=True, repr=False)
class Joined(Expr):
    """The string that a row of bytes is, from the element `row` on: what a view of bytes as strings holds."""

    row: Load
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True, repr=False)
class Gathered(Expr):
    """An integer that comes from data: lo <= value < hi is checked before use; `error` is returned if not."""

    value: Expr
    lo: Expr
    hi: Expr
    error: str = "ERR_INDEX"

    @property
    def dtype(self) -> DType:
        return INDEX


def wrap(x: Operand, dtype: DType) -> Expr:
    """A Python number (of strings: bytes; 0 is the empty one) as a constant of `dtype`; an expression as it
    is.
    """
    if isinstance(x, Expr):
        return x
    if isinstance(x, bytes) or dtype.is_text:
        assert dtype.is_text and (isinstance(x, bytes) or x == 0), f"no {dtype} is {x!r}"
        return Text(x if isinstance(x, bytes) else b"", dtype)
    return Const(float(x) if dtype.is_float else int(x), dtype)


def constant(array: Array, name: str = "constant") -> Tensor:
    """A tensor with known elements."""
    return Tensor(name, dtype_of(array), tuple(array.shape), array)


def binary(op: str, a: Operand, b: Operand) -> Expr:
    """A Binary node; a Python number takes the other side's type, index arithmetic is folded."""
    dtype = a.dtype if isinstance(a, Expr) else b.dtype if isinstance(b, Expr) else INDEX
    x, y = wrap(a, dtype), wrap(b, dtype)
    assert x.dtype is y.dtype, f"{op} of {x.dtype} and {y.dtype}"
    if dtype is INDEX:
        return _fold_index(op, x, y)
    return Binary(op, x, y)


def _fold_index(op: str, x: Expr, y: Expr) -> Expr:
    match op, x, y:
        case _, Const(a), Const(b) if op in FOLD:
            return Const(FOLD[op](int(a), int(b)))
        case ("add", Const(0), e) | ("add" | "sub", e, Const(0)) | ("mul" | "floordiv", e, Const(1)):
            return e  # 0 + x == x, x - 0 == x, x * 1 == x
        case "mul", Const(1), e:
            return e
        case ("mul", Const(0), _) | ("mul", _, Const(0)) | ("mod", _, Const(1)):
            return Const(0)
    return Binary(op, x, y)


def maximum(a: Operand, b: Operand) -> Expr:
    return binary("max", a, b)


def minimum(a: Operand, b: Operand) -> Expr:
    return binary("min", a, b)


def select(condition: Expr, a: Operand, b: Operand) -> Expr:
    dtype = a.dtype if isinstance(a, Expr) else b.dtype if isinstance(b, Expr) else INDEX
    return Select(condition, wrap(a, dtype), wrap(b, dtype))


def equal(a: Operand, b: Operand) -> Expr:
    return binary("eq", a, b)


def cast(a: Expr, dtype: DType) -> Expr:
    return a if a.dtype is dtype else Cast(a, dtype)


def call(op: str, a: Expr) -> Expr:
    """A named function of one argument, `call("exp", x)`."""
    return Unary(op, a)


def static(n: Extent | None) -> int:
    """An extent that the caller knows to be a plain int."""
    assert isinstance(n, int), f"{n} is known at run time only"
    return n


def extent_name(name: str) -> str:
    """What an extent is called: loop variables and registers begin with a small letter, it does not."""
    return name if name[:1].isupper() else f"${name}"


def data_extent(name: str, most: int) -> Param:
    """An extent between 0 and `most` that is data, and the int64 scalar of that name to hold it."""
    return Param(extent_name(name), 0, most, Tensor(name, INT64, ()))


def measures(e: Extent) -> Iterator[Tensor]:
    """The tensors that hold run-time extents in an expression."""
    if isinstance(e, Expr):
        yield from (n.source for n in walk(e) if isinstance(n, Param) and n.source is not None)


def _load_children(e: Load) -> tuple[Expr, ...]:
    return (*e.index, e.outside) if e.outside is not None else e.index


CHILDREN: dict[type[Expr], Callable[[Any], tuple[Expr, ...]]] = {
    **dict.fromkeys((Unary, Cast, Bitcast, Lane), lambda e: (e.a,)),
    **dict.fromkeys((Binary, Shuffle), lambda e: (e.a, e.b)),
    Fma: lambda e: (e.a, e.b, e.c),
    Select: lambda e: (e.condition, e.a, e.b),
    Load: _load_children,
    Byte: lambda e: (e.a, e.k),
    Joined: lambda e: (e.row,),
    Gathered: lambda e: (e.value, e.lo, e.hi),
    Pick: lambda e: (*e.tables, e.index),
    Entry: lambda e: (e.index,),
}
"""How each kind of node that has children gives them: a table, for they are asked for a million times."""


def children(e: Expr) -> tuple[Expr, ...]:
    of = CHILDREN.get(type(e))
    return () if of is None else of(e)


def walk(e: Expr) -> Iterator[Expr]:
    """Every node of the expression, parents first."""
    waiting = [e]
    while waiting:
        node = waiting.pop()
        yield node
        of = CHILDREN.get(type(node))
        if of is not None:
            waiting += of(node)[::-1]


def node_count(e: Expr) -> int:
    """How many nodes `walk` yields."""
    waiting, count = [e], 0
    while waiting:
        count += 1
        of = CHILDREN.get(type(node := waiting.pop()))
        if of is not None:
            waiting += of(node)
    return count


def loads(e: Expr) -> Iterator[Load]:
    return (n for n in walk(e) if isinstance(n, Load))


def rebuild(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """The node with `f` applied to each child: the very node where that changes none of them."""
    old = children(e)
    new = tuple(map(f, old))
    return e if all(map(is_, new, old)) else _with_children(e, new)


def _with_children(e: Expr, new: tuple[Expr, ...]) -> Expr:
    match e, new:
        case Unary(op, _), (a,):
            return Unary(op, a)
        case Binary(op, _, _), (a, b):
            return binary(op, a, b)
        case Fma(), (a, b, c):
            return Fma(a, b, c)
        case Select(), (c, a, b):
            return Select(c, a, b)
        case Cast(_, dtype), (a,):
            return cast(a, dtype)
        case Bitcast(_, dtype), (a,):
            return Bitcast(a, dtype)
        case Lane(_, lane, lanes), (a,):
            return Lane(a, lane, lanes)
        case Shuffle(_, _, index), (a, b):
            return Shuffle(a, b, index)
        case Pick(), (*tables, index):
            return Pick(tuple(tables), index)
        case Entry(values, _, dtype), (index,):
            return Entry(values, index, dtype)
        case Load(tensor, _, None, lanes), index:
            return Load(tensor, index, None, lanes)
        case Load(tensor, _, _, lanes), (*index, outside):
            return Load(tensor, tuple(index), outside, lanes)
        case Byte(), (a, k):
            return Byte(a, k)
        case Joined(_, dtype), (Load() as row,):
            return Joined(row, dtype)
        case Gathered(error=error), (value, lo, hi):
            return Gathered(value, lo, hi, error)
    raise TypeError(f"{e!r} has no children")


@overload
def substitute(e: Load, environment: Mapping[str, Expr]) -> Load: ...


@overload
def substitute(e: Expr, environment: Mapping[str, Expr]) -> Expr: ...


def substitute(e: Expr, environment: Mapping[str, Expr]) -> Expr:
    """The expression with every variable that `environment` names replaced."""
    if isinstance(e, Var):
        return environment.get(e.name, e)
    return rebuild(e, lambda child: substitute(child, environment)) if environment else e


def transform(e: Expr, f: Callable[[Expr], Expr | None]) -> Expr:
    """Top down: a node for which `f` gives an answer is replaced by it, the others are descended into."""
    found = f(e)
    return found if found is not None else rebuild(e, lambda child: transform(child, f))


def with_lanes(load: Load, lanes: int) -> Load:
    return replace(load, lanes=lanes)


SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}


def text(e: Expr | int) -> str:
    """The expression as one line of text, for dumps and golden tests."""
    match e:
        case Const(value, _) | Text(value, _):
            return str(value)
        case Var(name) | Param(name):
            return name
        case Unary(op, a):
            return f"-{text(a)}" if op == "neg" else f"{op}({text(a)})"
        case Binary(op, a, b) if op in SYMBOLS:
            return f"({text(a)} {SYMBOLS[op]} {text(b)})"
        case Binary(op, a, b):
            return f"{op}({text(a)}, {text(b)})"
        case Fma(a, b, c):
            return f"fma({text(a)}, {text(b)}, {text(c)})"
        case Select(c, a, b):
            return f"({text(a)} if {text(c)} else {text(b)})"
        case Cast(a, dtype) | Bitcast(a, dtype):
            return f"{'bits_' if isinstance(e, Bitcast) else ''}{dtype}({text(a)})"
        case Load(tensor, index, outside, lanes):
            inner = ", ".join(map(text, index)) + ("" if outside is None else f" else {text(outside)}")
            return f"{tensor.name}[{inner}]" + (f":{lanes}" if lanes > 1 else "")
        case Lane(a, lane, lanes):
            return f"{text(a)}.{lane}" + (f":{lanes}" if lanes > 1 else "")
        case Shuffle(a, b, index):
            return f"shuffle({text(a)}, {text(b)}, {', '.join(map(str, index))})"
        case Pick(tables, index):
            return f"pick({', '.join(map(text, tables))}; {text(index)})"
        case Entry(values, index):
            return f"entry({', '.join(map(str, values))}; {text(index)})"
        case Byte(a, k):
            return f"{text(a)}.bytes[{text(k)}]"
        case Joined(row, dtype):
            return f"{dtype}({text(row)}...)"
        case Gathered(value, lo, hi):
            return f"gathered({text(value)}, {text(lo)}, {text(hi)})"
    assert not isinstance(e, Expr), f"no text for {type(e).__name__}"
    return str(e)
