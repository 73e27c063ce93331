"""The math library's C on every target that runs here: to the bit what `run` makes of the definitions."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from ingot.emit.mathematics import native_operations
from ingot.emit.source import helper_texts
from ingot.emit.vector import VectorPrinter
from ingot.formula.expr import Binary, Expr, Unary, Var
from ingot.formula.types import FLOAT32, FLOAT64, DType
from ingot.loops.math import BINARY, UNARY, function, run
from ingot.targets import TARGETS, Target
from ingot.targets.toolchain import compile_c, execute, link_executable, obstacle
from tests.test_math import samples

Array = np.ndarray[Any, Any]
COUNT = 4096
OPS = (*sorted(UNARY), *sorted(BINARY))
RUN = [
    (name, dtype)
    for name, target in TARGETS.items()
    for dtype in (FLOAT32, FLOAT64)
    if target.runs and (name, dtype) != ("armv7e-m", FLOAT64)  # whose compiler calls functions for float64
]
MAIN = """
long ingot_read(int file, void *to, long count);
long ingot_write(int file, const void *at, long count);
static {c} x[{count}], y[{count}], z[{count}];
int main(void) {{
    ingot_read(0, x, sizeof x);
    ingot_read(0, y, sizeof y);
    {calls}
    return 0;
}}
"""


def program(target: Target, dtype: DType) -> str:
    """C that reads two arrays of arguments and writes the results of every function."""
    lanes = target.lanes(dtype.bytes)
    p = VectorPrinter(target, lambda t: t.name, registers=dict.fromkeys("ab", (lanes, dtype)))
    a, b = Var("a", type=dtype), Var("b", type=dtype)
    kind = dtype.c if lanes == 1 else p.vector_type(dtype, lanes)
    forms = []
    for op in OPS:
        e: Expr = Unary(op, a) if op in UNARY else Binary(op, a, b)
        value = p.scalar(e) if lanes == 1 else p.vector(e, lanes)
        load = f"const {kind} a = *(const {kind} *)(x + i), b = *(const {kind} *)(y + i); (void)b;"
        loop = f"for (int i = 0; i < {COUNT}; i += {lanes}) {{ {load} *({kind} *)(z + i) = {value}; }}"
        forms.append(f"static void form_{op}(void) {{ {loop} }}")
    calls = " ".join(f"form_{op}(); ingot_write(1, z, sizeof z);" for op in OPS)
    head, *rest = MAIN.format(c=dtype.c, count=COUNT, calls=calls).partition("int main")
    texts = helper_texts(p.used, target)
    return "\n".join(["#include <stdint.h>", target.header, *texts, head, *forms, "".join(rest)])


def arguments(dtype: DType) -> tuple[Array, Array]:
    """Of all ranges: a part of the samples of one function of each kind."""
    random = np.random.default_rng(1)
    (one,), (first, second) = samples("sin", dtype), samples("fmod", dtype)
    some, other = random.choice(len(one), COUNT // 2), random.choice(len(first), COUNT // 2)
    return np.concatenate([one[some], first[other]]), np.concatenate([one[some], second[other]])


@pytest.mark.parametrize(("name", "dtype"), RUN, ids=lambda v: str(v))
def test_printed_as_defined(name: str, dtype: DType) -> None:
    target = TARGETS[name]
    if (reason := obstacle(target)) and not os.environ.get("CI"):
        pytest.skip(reason)
    x, y = arguments(dtype)
    code = compile_c(
        program(target, dtype), target, relocation="static", flags=("-Wall", "-Wextra", "-Werror")
    )
    order = dtype.numpy.newbyteorder(">" if target.endian == "big" else "<")
    sent = b"".join(v.astype(order).tobytes() for v in (x, y))
    received = np.frombuffer(execute(link_executable([code], target), target, sent), order)
    width = target.lanes(dtype.bytes)
    for op, found in zip(OPS, received.reshape(len(OPS), COUNT), strict=True):
        if target.spelling(op, dtype.name, 0 if width == 1 else None):
            continue  # an instruction
        f = function(op, dtype, native_operations(target, dtype, width))
        wanted = run(f, *((x,) if op in UNARY else (x, y)))
        same = (found == wanted) & (np.signbit(found) == np.signbit(wanted)) | np.isnan(found) & np.isnan(
            wanted
        )
        i = int(np.argmin(same))
        assert same.all(), f"{op} of {x[i]!r}, {y[i]!r}: {found[i]!r} is printed, {wanted[i]!r} defined"
