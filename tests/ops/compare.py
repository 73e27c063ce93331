"""Rows of comparisons, logic and bit operations."""

import numpy as np

from tests.ops.rows import Array, Row, extremes, floats, integers, special

INTEGERS = (np.int8, np.uint16, np.int32, np.uint64)  # every width, both kinds
ORDERS = {"Less": np.less, "Greater": np.greater, "Equal": np.equal}
ORDERS |= {"LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal}
LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
BITS = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}
BOTH = np.array([True, False])


def pairs(values: Array) -> tuple[Array, Array]:
    return values[:, None], values[None, :]


def name(t: type) -> str:
    return np.dtype(t).name


COMPARISONS = [
    *(Row(op, pairs(special()), note="special") for op in ORDERS),
    *(Row(op, pairs(special(np.float64)), note="special f64") for op in ORDERS),
    *(
        Row(op, pairs(special(np.float16)), oracle=[f(*pairs(special(np.float16)))], note="special f16")
        for op, f in ORDERS.items()
    ),
    *(
        Row(op, pairs(extremes(t)), oracle=[f(*pairs(extremes(t)))], note=name(t))
        for op, f in ORDERS.items()
        for t in INTEGERS
    ),
    *(Row(op, [floats(2, 1, 4), floats(3, 1, seed=1)]) for op in ORDERS),
    *(Row(op, [np.array(2, np.int32), np.array(3, np.int32)]) for op in ORDERS),
    Row("Equal", pairs(BOTH), note="bool"),
    Row("Less", [floats(0, 3), floats(3)]),
    *(
        Row(op, [floats(2, 3), floats(2, seed=1)], {"broadcast": 1, "axis": 0}, opset=6, oracle=[f(a, b)])
        for a, b in [(floats(2, 3), floats(2, 1, seed=1))]
        for op, f in [("Less", np.less), ("Greater", np.greater)]
    ),
    Row("Equal", [np.arange(6).reshape(2, 3), np.arange(3)], {"broadcast": 1}, opset=6, oracle="reference"),
]
LOGICAL = [
    *(Row(op, pairs(BOTH)) for op in LOGIC),
    *(Row(op, [np.ones((2, 0), bool), np.ones((1, 1), bool)]) for op in LOGIC),
    *(
        Row(
            op,
            [BOTH[:, None] & np.ones(3, bool), BOTH],
            {"broadcast": 1, "axis": 0},
            opset=1,
            oracle=[f(a, b)],
        )
        for a, b in [(BOTH[:, None] & np.ones(3, bool), BOTH[:, None])]
        for op, f in LOGIC.items()
    ),
    Row("Not", [BOTH]),
    Row("Not", [np.array(True)]),
]
BITWISE = [
    *(
        Row(op, pairs(extremes(t)), oracle=[f(*pairs(extremes(t)))], note=name(t))
        for op, f in BITS.items()
        for t in INTEGERS
    ),
    *(Row("BitwiseNot", [extremes(t)], oracle=[~extremes(t)], note=name(t)) for t in INTEGERS),
    *(Row(op, [integers(2, 3, dtype=np.int32), integers(3, dtype=np.int32, seed=1)]) for op in BITS),
]


def shifted(t: type, direction: str) -> Row:
    """Every extreme by -9 .. 70 (of a signed type), as a register of unlimited width would have it."""
    x, bits = extremes(t).astype(object)[:, None], np.iinfo(t).bits
    by = np.arange(-9 if np.iinfo(t).min else 0, 71).astype(t)
    far = np.where((by < 0) | (by >= bits), 200, by.astype(int)).astype(object)
    wanted = (x << far if direction == "LEFT" else x >> far) % (1 << bits)
    return Row(
        "BitShift",
        [extremes(t)[:, None], by],
        {"direction": direction},
        opset=28,
        oracle=[wanted.astype(f"uint{bits}").astype(t)],
        note=name(t),
    )


SHIFTS = [shifted(t, direction) for t in INTEGERS for direction in ("LEFT", "RIGHT")] + [
    Row(
        "BitShift",
        [extremes(t)[:, None], np.arange(np.iinfo(t).bits, dtype=t)],
        {"direction": d},
        note=f"ort {name(t)}",
    )
    for t in (np.uint8, np.uint32, np.uint64)
    for d in ("LEFT", "RIGHT")
]
CLASSES = [
    Row("IsNaN", [special()]),
    Row("IsNaN", [special(np.float64)], note="f64"),
    Row("IsNaN", [special(np.float16)], note="f16"),
    *(
        Row("IsInf", [special(t)], {"detect_negative": n, "detect_positive": p}, note=name(t))
        for t in (np.float32, np.float64)
        for n in (0, 1)
        for p in (0, 1)
    ),
    Row("IsInf", [special(np.float16)], note="f16"),
    Row("IsInf", [floats()]),
]
ROWS = [*COMPARISONS, *LOGICAL, *BITWISE, *SHIFTS, *CLASSES]
