"""Operators that map elements to elements, inputs broadcast: one line each."""

from __future__ import annotations

from ingot.formula.expr import call, maximum
from ingot.ops.registry import elementwise

elementwise("Identity", lambda x: x)
elementwise("Relu", lambda x: maximum(x, 0))
elementwise("Add", lambda a, b: a + b, since=7)
elementwise("Sub", lambda a, b: a - b, since=7)
elementwise("Mul", lambda a, b: a * b, since=7)
elementwise("Div", lambda a, b: a / b, since=7)
elementwise("Exp", lambda x: call("exp", x))
elementwise("Tanh", lambda x: call("tanh", x))
elementwise("Sigmoid", lambda x: 1 / (call("exp", -x) + 1))
