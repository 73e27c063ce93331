"""The math library's C on every target that runs here: to the bit what `run` makes of the definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from ingot.emit.mathematics import native_operations
from ingot.emit.source import helper_texts
from ingot.emit.vector import VectorPrinter
from ingot.formula.expr import Binary, Expr, Unary, Var
from ingot.formula.types import FLOAT32, FLOAT64, DType
from ingot.loops.math import BINARY, UNARY, function, run
from ingot.targets import TARGETS, Target
from ingot.targets.toolchain import compile_c, execute, link_executable
from tests import program as members
from tests.bundle.build import need
from tests.here import require_runs
from tests.test_math import samples

Array = np.ndarray[Any, Any]
COUNT = 4096
NONPOSITIVE = {"exp_nonpositive", "exp_steady"}  # defined for these arguments alone
OPS = (*sorted(UNARY), *sorted(BINARY))
OWN = [t for t in TARGETS.values() if t.runs and t.format == "elf" and (t.operations or t.scalar_operations)]
RUN = [(t.name, dtype) for t in (TARGETS["c99"], *OWN) for dtype in (FLOAT32, FLOAT64)]
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
        first: Expr = -Unary("abs", a) if op in NONPOSITIVE else a
        e: Expr = Unary(op, first) if op in UNARY else Binary(op, a, b)
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
    require_runs(target)
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
        first = -np.abs(x) if op in NONPOSITIVE else x
        wanted = run(f, *((first,) if op in UNARY else (x, y)))
        same = (found == wanted) & (np.signbit(found) == np.signbit(wanted)) | np.isnan(found) & np.isnan(
            wanted
        )
        i = int(np.argmin(same))
        assert same.all(), f"{op} of {x[i]!r}, {y[i]!r}: {found[i]!r} is printed, {wanted[i]!r} defined"


def far_model(size: int) -> onnx.ModelProto:
    """Sin, Cos, Tan and Mod in both types."""
    nodes, values = [], []
    for code in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE):
        x, y = (f"{name}{code}" for name in "xy")
        values += [helper.make_tensor_value_info(name, code, [size]) for name in (x, y)]
        nodes += [helper.make_node(op, [x], [f"{op}{code}"]) for op in ("Sin", "Cos", "Tan")]
        nodes.append(helper.make_node("Mod", [x, y], [f"Mod{code}"], fmod=1))
    outputs = [helper.make_tensor_value_info(n.output[0], int(n.output[0][3:]), [size]) for n in nodes]
    graph = helper.make_graph(nodes, "far", values, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("target", ["c99", "x86-64-v3"])
def test_no_undefined_behaviour(target: str) -> None:
    """gcc's sanitizers look on while every lane takes the longer way, NaN and infinities included."""
    need("gcc")
    feeds: dict[str, Array] = {}
    for dtype, code in ((FLOAT32, onnx.TensorProto.FLOAT), (FLOAT64, onnx.TensorProto.DOUBLE)):
        feeds[f"x{code}"], feeds[f"y{code}"] = (v[::3][:1001] for v in arguments(dtype))
    model = far_model(1001)
    (answer,) = members.run([members.member(model, feeds, "far", target)])
    assert answer.status == 0
    with np.errstate(invalid="ignore"):
        for node, found in zip(model.graph.node, answer.runs[0], strict=True):
            operands = [feeds[name] for name in node.input]
            op = {"Mod": "fmod"}.get(node.op_type, node.op_type.lower())
            wanted = getattr(np, op)(*(v.astype(np.longdouble) for v in operands)).astype(found.dtype)
            limit = 0 if op == "fmod" else 4 * np.finfo(found.dtype).eps
            np.testing.assert_allclose(found, wanted, rtol=limit, atol=0)
