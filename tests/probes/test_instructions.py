"""Instructions that multiply groups of integers: what the C of a target computes is what they mean."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.formula.expr import Const, Load, Tensor, Var
from ingot.formula.statements import Instruction, Let, Store
from ingot.formula.types import INT8, INT16, INT32, UINT8, DType
from ingot.loops.instructions import GROUP, INSTRUCTIONS
from ingot.loops.program import Call, Kernel, Program
from ingot.targets.records import TARGETS
from tests.here import require_runs
from tests.probes.levels import agree_from_loops

OPERANDS: dict[tuple[str, str], tuple[DType, DType]] = {
    ("dot2", "int16"): (INT16, INT16),
    ("dot4", "uint8"): (UINT8, INT8),
    ("dot4", "int8"): (INT8, INT8),
    ("dot4s", "uint8"): (UINT8, INT8),
}
NAMES = ("x86-64", "x86-64-v3", "x86-64-v3-vnni", "x86-64-v4", "x86-64-v4-vnni", "aarch64-dotprod")
SPELLED = [
    (name, op, dtype, width)
    for name in NAMES
    for op, dtype in OPERANDS
    for width in (16, 32, 64)
    if TARGETS[name].spelling(op, dtype, width)
]


@pytest.mark.parametrize("shared", [False, True], ids=["every lane", "one group"])
@pytest.mark.parametrize("name, op, dtype, width", SPELLED)
def test_an_instruction_means_what_it_says(name: str, op: str, dtype: str, width: int, shared: bool) -> None:
    """With the largest and the smallest operands among them; `one group` of the second serves every lane."""
    require_runs(name)
    lanes, group = width // INT32.bytes, GROUP[op]
    kinds = OPERANDS[op, dtype]
    counts = (lanes * group, group if shared else lanes * group)
    a, b = (Tensor(n, t, (k,)) for n, t, k in zip("ab", kinds, counts, strict=True))
    start, y = (Tensor(n, INT32, (lanes,)) for n in ("start", "y"))
    zero = (Const(0),)
    body = (
        Let("acc", Load(start, zero, lanes=lanes), lanes, mutable=True),
        Let("one", Load(a, zero, lanes=counts[0]), counts[0]),
        Let("other", Load(b, zero, lanes=counts[1]), counts[1]),
        Instruction(op, "acc", Var("one", None, kinds[0]), Var("other", None, kinds[1]), lanes),
        Store(Load(y, zero), Var("acc", None, INT32), lanes),
    )
    kernel = Kernel("multiply", (start, a, b, y), body, ("multiply",))
    program = Program("probe", (start, a, b), (y,), (), (Call(kernel, (start, a, b, y)),))
    given = [_integers(kind, n, i) for i, (kind, n) in enumerate(zip(kinds, counts, strict=True))]
    first = np.arange(lanes, dtype=np.int32) * 1000 - 3000
    wanted = INSTRUCTIONS[op](first, *given)
    agree_from_loops(program, dict(zip(("start", "a", "b"), (first, *given), strict=True)), [wanted], 0, name)


def _integers(kind: DType, count: int, seed: int) -> np.ndarray:
    ends = np.iinfo(kind.numpy)
    made = np.random.default_rng(seed).integers(ends.min, ends.max, count, kind.numpy, endpoint=True)
    made[: count // 4], made[-1] = ends.max, ends.min
    return made
