"""One operator of Caffe2's that is being imported: its inputs, its arguments, and what its result stands for.

In: a message and values. Out: what the rows of the table ask for; InputErrors that name the operator.
Integers that stand for real numbers are int8 here, as in Glow: Caffe2's bytes are uint8, and 128 is taken off
both the bytes and their zero points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.expr import Array
from ingot.formula.types import FLOAT32, INT8, INT64, DType, dtype_named
from ingot.frontends.builder import Builder, extents_of
from ingot.graph.ir import Value

SHIFT = 128
TO_NCHW, TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
# the numbers of caffe2.TensorProto.DataType
TYPES = {1: "float32", 2: "int32", 3: "uint8", 5: "bool", 6: "uint8", 7: "int8", 8: "uint16", 9: "int16"} | {
    10: "int64",
    12: "float16",
    13: "float64",
}
Quantisation = tuple[float, int]
"""Scale and zero point of int8 or int32 elements."""


@dataclass(slots=True)
class Call:
    """`quantised` says what integers stand for, by value; it is the same for all calls of a net."""

    b: Builder
    op: Any
    inputs: list[Value]
    quantised: dict[Value, Quantisation] = field(default_factory=dict)
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.b.names.label

    # ---- arguments

    def number(self, name: str, default: float) -> float:
        """A float; Caffe2 lets an integer stand for one."""
        a = self.args.get(name)
        return default if a is None else float(a.f if a.HasField("f") else a.i)

    def integer(self, name: str, default: int | None = None) -> int:
        a = self.args.get(name)
        if a is None:
            if default is None:
                raise ModelError(f"{self.label}: the argument {name!r} is missing")
            return default
        return int(a.i if a.HasField("i") or not a.HasField("f") else a.f)

    def text(self, name: str, default: str) -> str:
        a = self.args.get(name)
        return default if a is None else a.s.decode(errors="replace")

    def integers(self, name: str) -> list[int] | None:
        a = self.args.get(name)
        return None if a is None else list(a.ints)

    def floats(self, name: str) -> list[float]:
        a = self.args.get(name)
        return [] if a is None else list(a.floats)

    # ---- operands

    def x(self, i: int = 0) -> Value:
        """Input i. Raises ModelError where there is none."""
        if i >= len(self.inputs):
            raise ModelError(f"{self.label}: input {i} is missing")
        return self.inputs[i]

    def shape(self, i: int = 0) -> list[int]:
        return extents_of(self.x(i))

    def elements(self, i: int, what: str) -> Array:
        """The elements of an input that must be known. Raises UnsupportedError where they are not."""
        found = self.x(i).constant
        if found is None:
            raise UnsupportedError(f"{self.label}: {what} must be a constant of the init net")
        return np.asarray(found)

    @property
    def is_nhwc(self) -> bool:
        order = self.text("order", "NCHW")
        if order not in ("NCHW", "NHWC"):
            raise ModelError(f"{self.label}: order {order[:40]!r} is neither NCHW nor NHWC")
        return order == "NHWC"

    def axis(self, default: int, name: str = "axis", rank: int | None = None) -> int:
        rank = len(self.shape()) if rank is None else rank
        found = self.integer(name, default)
        if not -rank <= found < rank + (rank == 0):
            raise ModelError(f"{self.label}: {name} {found} of a tensor of {rank} axes")
        return found % max(rank, 1)

    # ---- writing

    def const(self, value: Any, dtype: DType = FLOAT32) -> Value:
        return self.b.constant(value, dtype)

    def like(self, value: float, x: Value) -> Value:
        """A number in the type of a value."""
        return self.b.constant(value, x.type)

    def two_axes(self, value: Value, axis: int) -> Value:
        """A matrix: the axes before `axis`, and those from it on."""
        extents = extents_of(value)
        return self.b.reshape(value, [int(np.prod(extents[:axis])), int(np.prod(extents[axis:]))])

    # ---- integers for real numbers

    def stands_for(self, i: int) -> Quantisation:
        """Scale and zero point of input i. Raises ModelError for one that is not quantised."""
        found = self.quantised.get(self.x(i))
        if found is None:
            raise ModelError(f"{self.label}: input {i}, {self.op.input[i]!r}, is not quantised")
        return found

    def output(self) -> Quantisation:
        """What the result stands for: Y_scale and Y_zero_point."""
        scale, zero = self.number("Y_scale", 0.0), self.integer("Y_zero_point") - SHIFT
        if not 0 < scale < np.inf or not -128 <= zero <= 127:
            raise ModelError(
                f"{self.label}: Y_scale {scale} and Y_zero_point {zero + SHIFT} are no quantisation"
            )
        return scale, zero

    def pair(self, q: Quantisation) -> tuple[Value, Value]:
        """Scale and zero point as constants."""
        return self.const(q[0]), self.const(q[1], INT8)

    def quantise(self, value: Value, q: Quantisation) -> Value:
        made = self.b.one("QuantizeLinear", value, *self.pair(q))
        self.quantised[made] = q
        return made

    def real(self, i: int = 0) -> Value:
        """Input i as floats."""
        scale, zero = self.stands_for(i)
        return self.b.one("DequantizeLinear", self.x(i), *self.pair((scale, zero)))

    def bias(self, i: int, scale: float) -> Value | None:
        """A bias in units of the sums, as int32: the product of the scales of both factors."""
        if i >= len(self.inputs):
            return None
        found = self.elements(i, "the bias").astype(np.float64)
        if self.x(i) in self.quantised:
            unit, zero = self.quantised[self.x(i)]
            found = (found - zero) * unit
        made = np.clip(np.rint(found / scale), -(2**31), 2**31 - 1)
        return self.b.constant(made.astype(np.int32))


Row = Callable[[Call], "Value | list[Value]"]
OPS: dict[str, Row] = {}


def row(*names: str) -> Callable[[Row], Row]:
    """The function imports these operators."""

    def add(function: Row) -> Row:
        OPS.update(dict.fromkeys(names, function))
        return function

    return add


def named_type(call: Call, number: int) -> DType:
    """A type by Caffe2's number. Raises UnsupportedError."""
    if number not in TYPES:
        raise UnsupportedError(f"{call.label}: the type {number} of Caffe2's is not supported")
    return dtype_named(TYPES[number])


def whole(values: Sequence[int]) -> Array:
    return np.asarray(values, INT64.numpy)
