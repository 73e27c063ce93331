"""Nodes that contradict themselves: one clear error that names the node and what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot
from ingot.errors import InputError
from ingot.formula.expr import Array
from tests.ops.rows import Row, floats, model

F, Q, B = floats(2, 3), np.zeros((2, 3), np.int32), np.zeros((2, 3), bool)
ZERO = np.array(0.0, np.float32)

CASES: list[tuple[str, list[Array | None], dict[str, Any], int, str]] = [
    ("Add", [F, F.astype(np.float64)], {}, 21, "of different types, float32 and float64"),
    ("Add", [B, B], {}, 21, "an input is bool, the operator takes floats or signed integers"),
    ("Exp", [Q], {}, 21, "an input is int32, the operator takes floats"),
    ("And", [F, F], {}, 21, "an input is float32, the operator takes bool"),
    ("Where", [F, F, F], {}, 21, "an input is float32, the operator takes bool"),
    ("Mul", [F, floats(4)], {}, 21, "shapes [2, 3] and [4] do not broadcast"),
    ("Add", [F, floats(3)], {}, 6, "broadcast is not set"),
    ("Add", [F, floats(4)], {"broadcast": 1}, 6, "does not fit"),
    ("Sub", [F], {}, 21, "the input 'b' is missing"),
    ("Cast", [F], {}, 21, "the attribute to is missing"),
    ("Cast", [F], {"to": 99}, 21, "99"),
    ("Gelu", [F], {"approximate": "guess"}, 21, "approximate='guess'"),
    ("PRelu", [F, floats(2, 2, 3)], {}, 21, "does not broadcast"),
    ("Clip", [F, floats(3), None], {}, 21, "the bounds must be scalars"),
    ("Dropout", [F, ZERO + 1, np.array(True)], {}, 21, "bundles are for inference"),
    ("ReduceSum", [F, np.array([5])], {}, 21, "computed at run time"),
    ("ReduceMax", [F], {"axes": [2]}, 11, "axis 2 is out of range for rank 2"),
    ("ArgMax", [F], {"axis": -3}, 21, "axis -3 is out of range for rank 2"),
    ("LpNormalization", [F], {"p": 3}, 21, "p is 3"),
    ("QuantizeLinear", [F, floats(2), np.zeros(2, np.uint8)], {"axis": 1}, 21, "2 scales for 3 elements"),
    ("QuantizeLinear", [F, ZERO, np.zeros(3, np.uint8)], {}, 21, "zero point (3,), scale ()"),
    ("DequantizeLinear", [Q, ZERO, np.array(0, np.int8)], {}, 21, "of different types, int32 and int8"),
]


@pytest.mark.parametrize(("op", "inputs", "attributes", "opset", "message"), CASES)
def test_error(
    op: str, inputs: list[Array | None], attributes: dict[str, Any], opset: int, message: str
) -> None:
    proto = model(Row(op, inputs, attributes, opset=opset))
    with pytest.raises(InputError) as caught:
        ingot.compile(proto)
    assert message in str(caught.value) and f"{op} node" in str(caught.value)
