"""Floats in integers: to the bit numpy's, as C of two compilers and on processors that have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingot.emit.expression import Printer
from ingot.emit.source import helper_texts
from ingot.formula.expr import Binary, Expr, Fma, Unary, Var
from ingot.formula.operations import fma
from ingot.formula.soft_floats import BINARY, UNARY
from ingot.formula.types import INT32
from ingot.targets import TARGETS
from ingot.targets.toolchain import compile_c, execute, link_executable
from tests.here import require_runs

Array = np.ndarray[Any, Any]
COUNT = 1 << 13
OPS = (*UNARY, *BINARY, "soft_fused")
NANS = ("soft_add", "soft_mul", "soft_div", "soft_fused")  # which of them is left open
THIRD = f"x[(i + 1) % {COUNT}]"  # of a fused product and sum
MAIN = """
long ingot_read(int file, void *to, long count);
long ingot_write(int file, const void *at, long count);
static int32_t x[{count}], y[{count}], z[{count}];
int main(void) {{
    ingot_read(0, x, sizeof x);
    ingot_read(0, y, sizeof y);
    {calls}
    return 0;
}}
"""


def operands() -> tuple[Array, Array]:
    """Bits of floats of every size, of neighbours, of whole numbers and ties; and small integers."""
    random = np.random.default_rng(5)
    part = COUNT // 8
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3e-39, 1.1754944e-38, 3.4e38, 1, -1, 0.5])
    anything = random.integers(-(2**31), 2**31, (2, part)).astype(np.int32)
    numbers = (random.standard_normal((2, 3 * part)) * 2.0 ** random.integers(-20, 20, (2, 3 * part))).astype(
        np.float32
    )
    halves = (random.integers(-300, 300, (2, part)) + 0.5).astype(np.float32)
    tiny = (random.standard_normal((2, part)) * 1e-38).astype(np.float32)
    some = random.choice(special.astype(np.float32), (2, part))
    whole = random.integers(-(2**24), 2**24, (2, part)).astype(np.int32)
    near = numbers[:, :part].view(np.int32) ^ random.integers(0, 4, (2, part)).astype(np.int32)
    bits = [a.view(np.int32) for a in (numbers[:, : 2 * part], halves, tiny, some)]
    x, y = np.concatenate([anything, *bits, whole, near], axis=1)
    y = np.where(random.random(COUNT) < 0.3, np.roll(x, 1) ^ np.int32(-(2**31)), y).astype(np.int32)
    return x, y


def scales() -> tuple[Array, Array]:
    """Sums, and scales that leave them within some bytes; many products are ties, or round to one."""
    random = np.random.default_rng(6)
    scale = (2.0 ** random.uniform(-24, -1, COUNT)).astype(np.float32)
    tied = (0.5 + random.integers(-200, 200, COUNT)) / scale.astype(np.float64)
    sums = np.where(random.random(COUNT) < 0.7, np.rint(tied), random.standard_normal(COUNT) * 300 / scale)
    powers = random.random(COUNT) < 0.2
    scale[powers] = np.float32(2.0) ** np.floor(np.log2(scale[powers]))
    return np.clip(sums, -(2**31), 2**31 - 1).astype(np.int32), scale.view(np.int32)


def expected(op: str, x: Array, y: Array) -> Array:
    if op == "soft_fused":
        return np.asarray(fma(x, y, np.roll(x, -1)))
    return np.asarray(UNARY[op](x) if op in UNARY else BINARY[op](x, y))


def products() -> tuple[Array, Array]:
    """Factors whose products nearly cancel with the next first factor, and such as lie far from it."""
    random = np.random.default_rng(7)
    x = (random.standard_normal(COUNT) * 2.0 ** random.integers(-30, 30, COUNT)).astype(np.float32)
    wanted = -np.roll(x, -1).astype(np.float64) * (1 + 2.0 ** -random.integers(1, 60, COUNT))
    near = (wanted / x).astype(np.float32)
    y = np.where(random.random(COUNT) < 0.7, near, near * 2.0 ** random.integers(-40, 40, COUNT))
    return x.view(np.int32), y.astype(np.float32).view(np.int32)


def program() -> str:
    p = Printer(TARGETS["c99"], lambda t: t.name)
    a, b, c = (Var(n, None, INT32) for n in "abc")
    forms = []
    for op in OPS:
        e: Expr = Fma(a, b, c) if op == "soft_fused" else Unary(op, a) if op in UNARY else Binary(op, a, b)
        body = f"const int32_t a = x[i], b = y[i], c = {THIRD}; (void)b, (void)c; z[i] = {p.scalar(e)};"
        forms.append(f"static void form_{op}(void) {{ for (int i = 0; i < {COUNT}; i++) {{ {body} }} }}")
    calls = " ".join(f"form_{op}(); ingot_write(1, z, sizeof z);" for op in OPS)
    head, *rest = MAIN.format(count=COUNT, calls=calls).partition("int main")
    texts = helper_texts(p.used, TARGETS["c99"])
    return "\n".join(["#include <stdint.h>", *texts, head, *forms, "".join(rest)])


@pytest.mark.parametrize("name", ["c99", "i386", "s390x", "cortex-m0", "cortex-m3", "cortex-m23", "rv32imc"])
def test_c_gives_the_bits_of_floats(name: str) -> None:
    target = TARGETS[name]
    require_runs(target)
    code = compile_c(program(), target, relocation="static", flags=("-Wall", "-Wextra", "-Werror"))
    binary = link_executable([code], target)
    order = np.dtype(np.int32).newbyteorder(">" if target.endian == "big" else "<")
    for x, y in (operands(), scales(), products()):
        sent = b"".join(v.astype(order).tobytes() for v in (x, y))
        found = np.frombuffer(execute(binary, target, sent), order).reshape(len(OPS), COUNT)
        for op, z in zip(OPS, found, strict=True):
            with np.errstate(all="ignore"):
                wanted = expected(op, x, y)
            both = np.isnan(z.astype(np.int32).view(np.float32)) & np.isnan(wanted.view(np.float32))
            wrong = np.flatnonzero((z != wanted) & ~(both & (op in NANS)))
            assert not wrong.size, (
                f"{op}({x[wrong[0]]:#x}, {y[wrong[0]]:#x}) = {z[wrong[0]]:#x}, not {wanted[wrong[0]]:#x}"
            )
