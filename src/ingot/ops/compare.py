"""Comparisons, logic, and operations on bits: one line each."""

from __future__ import annotations

from ingot.formula.expr import Const, Expr, call, equal, select
from ingot.formula.types import BOOL
from ingot.ops.elementwise import binary_operator
from ingot.ops.registry import elementwise

# Equal took no floats before opset 7, the orders nothing else; old models get what the types mean today

binary_operator("Equal", equal, kinds="fiubs")
binary_operator("Less", lambda a, b: a < b)
binary_operator("Greater", lambda a, b: a > b)
elementwise("LessOrEqual", lambda a, b: a <= b, since=12)
elementwise("GreaterOrEqual", lambda a, b: a >= b, since=12)

binary_operator("And", lambda a, b: a & b, kinds="b")
binary_operator("Or", lambda a, b: a | b, kinds="b")
binary_operator("Xor", lambda a, b: a ^ b, kinds="b")
elementwise("Not", lambda x: call("not", x), kinds="b")

elementwise("BitwiseAnd", lambda a, b: a & b, since=18, kinds="iu")
elementwise("BitwiseOr", lambda a, b: a | b, since=18, kinds="iu")
elementwise("BitwiseXor", lambda a, b: a ^ b, since=18, kinds="iu")
elementwise("BitwiseNot", lambda x: call("invert", x), since=18, kinds="iu")


def _shift(x: Expr, by: Expr, *, direction: str) -> Expr:
    """BitShift-28: by a negative number or by the width and more, only what the sign extends to is left."""
    assert direction in ("LEFT", "RIGHT"), f"direction={direction!r}"
    shifted, far = (x << by, Const(0, x.dtype)) if direction == "LEFT" else (x >> by, x >> (x.dtype.bits - 1))
    return select(by < 0, far, shifted) if x.dtype.kind == "i" else shifted


elementwise("BitShift", _shift, since=11, kinds="iu")


def _is_inf(x: Expr, *, detect_negative: int = 1, detect_positive: int = 1) -> Expr:
    match detect_negative, detect_positive:
        case 0, 0:
            return Const(False, BOOL)
        case 0, _:
            return equal(x, float("inf"))
        case _, 0:
            return equal(x, float("-inf"))
    return call("isinf", x)


elementwise("IsInf", _is_inf, since=10, kinds="fn")
elementwise("IsNaN", lambda x: call("isnan", x), since=9, kinds="fn")
