"""Casts out of range mean the same everywhere: docs/math.md has the rule, targets and sanitizers agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import ingot
from ingot.formula.types import DTYPES
from tests import program
from tests.bundle.build import need
from tests.here import require_runs
from tests.ops.rows import onnx_type

Array = np.ndarray[Any, Any]
FLOATS = ("float16", "bfloat16", "float32", "float64")
WHOLE = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
SMALL = ("int4", "uint2")
ON = ("c99", "x86-64-v4", "i386", "aarch64", "s390x", "riscv64", "armv7e-m", "armv8.1m")


def numbers(name: str) -> Array:
    """The borders of all integer types, their neighbours in the float type, and the type's own extremes."""
    borders = [sign * 2.0**k for k in (1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 100) for sign in (1, -1)]
    halves = [b + step for b in borders for step in (-1, -0.5, 0, 0.5)]
    with np.errstate(over="ignore"):
        x = np.array([*halves, 0.0, -0.0, 1e-3, 1e300, -1e300, np.inf, -np.inf, np.nan]).astype(
            DTYPES[name].numpy
        )
    up, down = (np.nextafter(x, x.dtype.type(v)) for v in (np.inf, -np.inf))
    return np.concatenate([x, up, down])


def whole(x: Array, to: str) -> Array:
    """Truncated, the nearest number of the type, 0 for NaN; below 8 bits the low ones of an int32."""
    t = DTYPES["int32" if to in SMALL else to]
    wide = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e300, neginf=-1e300)
    clipped = [min(max(int(v), int(t.lowest)), int(t.highest)) for v in wide]
    return low_bits(np.array(clipped, object), to)


def low_bits(values: Array, to: str) -> Array:
    t = DTYPES[to]
    found = [int(v) & (1 << t.bits) - 1 for v in values]
    signed = [v - (1 << t.bits) if t.kind == "i" and v >> t.bits - 1 else v for v in found]
    return np.array(signed, object).astype(t.numpy)


def integers(name: str) -> Array:
    t = DTYPES[name]
    near = {
        b + d for b in (int(t.lowest), int(t.highest), 0, 8, 128, 255, 1 << 15, 1 << 31) for d in range(-3, 4)
    }
    return np.array(sorted(v for v in near if t.lowest <= v <= t.highest), t.numpy)


FEEDS = {name: numbers(name) for name in FLOATS} | {name: integers(name) for name in ("int64", "uint32")}
WANTED = {
    f"{a}_{b}": whole(x, b) if a in FLOATS else low_bits(x, b)
    for a, x in FEEDS.items()
    for b in (*WHOLE, *SMALL)
}


def model() -> onnx.ModelProto:
    """Every float and integer type to every integer type."""
    pairs = [(a, b, onnx_type(np.zeros(1, DTYPES[b].numpy))) for a in FEEDS for b in (*WHOLE, *SMALL)]
    nodes = [helper.make_node("Cast", [a], [f"{a}_{b}"], to=code) for a, b, code in pairs]
    inputs = [helper.make_tensor_value_info(a, onnx_type(x), x.shape) for a, x in FEEDS.items()]
    outputs = [helper.make_tensor_value_info(f"{a}_{b}", code, FEEDS[a].shape) for a, b, code in pairs]
    graph = helper.make_graph(nodes, "casts", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)


@pytest.mark.parametrize("name", ON)
def test_every_target_follows_the_rule(name: str) -> None:
    require_runs(name)
    found = ingot.compile(model(), name="casts", target=name).run(FEEDS)
    for output, wanted in WANTED.items():
        np.testing.assert_array_equal(found[output], wanted, err_msg=output)


@pytest.mark.parametrize("target", ["c99", "native"])
@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64"])
def test_integers_are_rounded_once(name: str, target: str) -> None:
    """Between two bfloat16, in the middle and one beside it, as float32 does not tell apart."""
    t = DTYPES[name]
    exact = [1 << k for k in range(9, t.bits - 1)]
    middles = [
        (b + (2 * a + 1 << k - 8), b + (a << k - 7), k - 7) for k, b in enumerate(exact, 9) for a in range(4)
    ]
    rows = [(m, low + ((low >> step & 1) << step)) for m, low, step in middles]
    rows += [(m + d, low + ((d > 0) << step)) for m, low, step in middles for d in (1, -1) if step > 0]
    rows += [(-x, -y) for x, y in rows if t.kind == "i"]
    x = np.array([x for x, _ in rows], t.numpy)
    wanted = np.array([float(y) for _, y in rows])
    node = helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.BFLOAT16)
    ends = [helper.make_tensor_value_info("x", onnx_type(x), x.shape)]
    made = [helper.make_tensor_value_info("y", onnx.TensorProto.BFLOAT16, x.shape)]
    graph = helper.make_graph([node], "casts", ends, made)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)
    found = ingot.compile(proto, target=target).run({"x": x})["y"]
    np.testing.assert_array_equal(found.astype(np.float64), wanted)


def test_no_undefined_behaviour() -> None:
    need("gcc")
    (answer,) = program.run([program.member(model(), FEEDS, "casts")])
    for found, (output, wanted) in zip(answer.runs[0], WANTED.items(), strict=True):
        if output.rpartition("_")[2] not in SMALL:  # those are packed
            np.testing.assert_array_equal(found, wanted, err_msg=output)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4-vnni"])
@pytest.mark.parametrize("groups", [1, 16])
def test_sums_of_bytes_keep_their_low_bits(groups: int, target: str) -> None:
    """No product of bytes packs its sums with saturation where the model says a plain cast."""
    require_runs(target)
    rng = np.random.default_rng(1)
    x = rng.integers(0, 255, (1, 16, 9, 7)).astype(np.uint8)
    w = rng.integers(-100, 100, (16, 16 // groups, 3, 3)).astype(np.int8)
    nodes = [
        helper.make_node("ConvInteger", ["x", "w"], ["a"], pads=[1] * 4, group=groups),
        helper.make_node("Cast", ["a"], ["y"], to=onnx.TensorProto.UINT8),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", onnx.TensorProto.UINT8, x.shape)],
        [info("y", onnx.TensorProto.UINT8, x.shape)],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found, wanted = (ingot.compile(proto, target=t).run({"x": x})["y"] for t in (target, "c99"))
    np.testing.assert_array_equal(found, wanted)
