"""One row per operator case, and what "agree" means. The families beside this file hold the rows,
`test_ops.py` runs them.

A row is checked three ways: the formula's own evaluation, the loops' evaluation and the compiled C, each
against an oracle (onnxruntime first, onnx's reference evaluator where it has no kernel or is known to be
wrong, or expected arrays).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ingot.formula.types import STRING, dtype_of
from ingot.frontends.onnx import read_model
from ingot.ops.infer import infer
from tests.oracles import exact_outputs

Array = np.ndarray[Any, Any]
SEED = 20261121
NEWEST_IN_ORT = 21  # later opsets have kernels for few operators


@dataclass(frozen=True, eq=False)
class Row:
    """A node, its inputs, and how well its outputs must agree.

    `constant`: which inputs are initializers (None: all that the operator needs statically are named by the
    family). `declared`: the shapes that the model states for its outputs, where they cannot be inferred.
    `oracle`: "ort", "reference", or the expected outputs. `tolerance` is relative to the largest output;
    integers, bools and rows with tolerance 0 are compared exactly.
    """

    op: str
    inputs: Sequence[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    constant: Sequence[int] = ()
    outputs: int | Sequence[bool] = 1
    opset: int = 21
    domain: str = ""
    oracle: Any = "ort"
    tolerance: float = 1e-5
    note: str = ""
    declared: Sequence[tuple[int, ...]] = ()

    @property
    def id(self) -> str:
        shapes = "_".join(
            "x".join(map(str, a.shape)) or "s" if a is not None else "none" for a in self.inputs
        )
        attributes = "_".join(
            f"{k}{v}" for k, v in self.attributes.items() if not isinstance(v, onnx.GraphProto)
        )
        return "-".join(
            p for p in (self.op, str(self.opset), shapes, attributes[:60].replace(" ", ""), self.note) if p
        )


def rng(*key: Any) -> np.random.Generator:
    """A generator that depends on nothing but the key, so that rows never change each other."""
    return np.random.default_rng(
        [SEED, *(abs(hash(str(k))) % 1000 if not isinstance(k, int) else k for k in key)]
    )


def floats(*shape: int, seed: int = 0, dtype: Any = np.float32, scale: float = 1.0) -> Array:
    """Standard normal values."""
    values = np.random.default_rng(SEED + seed).standard_normal(shape) * scale
    return np.asarray(values).astype(dtype)


def special(dtype: Any = np.float32) -> Array:
    """NaN, infinities, zeros of both signs, denormals, halves, large and small values."""
    tiny = np.finfo(dtype).tiny
    values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        -2.5,
        1e-3,
        -1e-3,
        3.7,
        -3.7,
        88.0,
        -88.0,
        1e4,
        -1e4,
    ]
    return np.array([*values, tiny, -tiny, tiny / 4, -tiny / 4, np.inf, -np.inf, np.nan], dtype)


def integers(
    *shape: int, seed: int = 0, dtype: Any = np.int64, low: int | None = None, high: int | None = None
) -> Array:
    """Integers over the whole type unless bounds are given (high is exclusive)."""
    info = np.iinfo(dtype)
    lo, hi = (info.min if low is None else low), (info.max if high is None else high)
    return np.random.default_rng(SEED + seed).integers(lo, hi, shape, dtype, endpoint=high is None)


def extremes(dtype: Any) -> Array:
    """The ends of an integer type and their neighbours."""
    info = np.iinfo(dtype)
    return np.array(
        sorted(
            {info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, 7}
            | ({-1, -2, -7} if info.min else set())
        ),
        dtype,
    )


def model(row: Row) -> onnx.ModelProto:
    """The one-node model of a row."""
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(row.inputs)]
    wanted = [True] * row.outputs if isinstance(row.outputs, int) else list(row.outputs)
    outputs = [f"y{i}" if w else "" for i, w in enumerate(wanted)]
    node = helper.make_node(row.op, names, outputs, name="node", domain=row.domain, **row.attributes)
    inputs = [
        helper.make_tensor_value_info(n, onnx_type(a), a.shape)
        for i, (n, a) in enumerate(zip(names, row.inputs, strict=True))
        if a is not None and i not in row.constant
    ]
    constants = [
        numpy_helper.from_array(row.inputs[i], names[i]) for i in row.constant if row.inputs[i] is not None
    ]
    results = [helper.make_empty_tensor_value_info(o) for o in outputs if o]
    for info, shape in zip(results, row.declared, strict=False):
        info.type.tensor_type.shape.dim.extend([onnx.TensorShapeProto.Dimension(dim_value=n) for n in shape])
        info.type.tensor_type.shape.SetInParent()
    graph = helper.make_graph([node], "row", inputs, results, constants)
    imports = (
        [helper.make_opsetid(row.domain, row.opset)]
        if row.domain == ""
        else [helper.make_opsetid("", 21), helper.make_opsetid(row.domain, row.opset)]
    )
    made = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def onnx_type(a: Array) -> int:
    return int(
        TensorProto.BFLOAT16 if a.dtype == ml_dtypes.bfloat16 else helper.np_dtype_to_tensor_dtype(a.dtype)
    )


def texts(*values: str, shape: tuple[int, ...] | None = None) -> Array:
    """Strings as onnx has them."""
    flat = np.empty(len(values), object)
    flat[:] = values
    return flat.reshape((len(values),) if shape is None else shape)


def inside(a: Array, like: np.dtype[Any] = STRING.numpy) -> Array:
    """An array as it is between the ends of a bundle: strings have a fixed capacity."""
    if a.dtype != object:
        return a
    return np.array([v.encode() for v in a.reshape(-1)], like).reshape(a.shape)


def feeds(row: Row) -> dict[str, Array]:
    """The inputs as evaluators and C take them."""
    return {name: inside(a) for name, a in given(row).items()}


def given(row: Row) -> dict[str, Array]:
    """The inputs as oracles and bundles take them."""
    return {f"x{i}": a for i, a in enumerate(row.inputs) if a is not None and i not in row.constant}


def expected(row: Row, proto: onnx.ModelProto) -> list[Array]:
    """The oracle's outputs."""
    if row.oracle == "ort":
        return exact_outputs(proto, given(row))
    if row.oracle == "any":
        return first_of(row, proto)
    if row.oracle == "reference":
        from onnx.reference import ReferenceEvaluator

        return list(ReferenceEvaluator(proto).run(None, given(row)))
    return list(row.oracle)


def first_of(row: Row, proto: onnx.ModelProto) -> list[Array]:
    """What onnxruntime says, if not of these types then of wider ones, else the reference evaluator."""
    older = replace(row, opset=min(row.opset, NEWEST_IN_ORT))
    wide = [widened(older), *(widened(older, t, bools=True) for t in (np.int32, np.int64))]
    errors = []
    for name, given in (("ort", older), *(("ort", w) for w in wide), ("reference", row)):
        try:
            found = expected(replace(given, oracle=name), model(given))
        except Exception as error:  # each of them raises what it likes
            errors.append(f"{name}: {str(error).splitlines()[0]}")
            continue
        with np.errstate(all="ignore"):
            return [a.astype(t, copy=False) for a, t in zip(found, _types(proto), strict=True)]
    raise AssertionError(f"no oracle takes the row: {'; '.join(errors)}")


def _types(proto: onnx.ModelProto) -> list[np.dtype[Any]]:
    """What onnx says of the outputs, else what we infer."""
    ours = [v.type.numpy for v in infer(read_model(proto)).outputs if v.type is not None]
    said = [o.type.tensor_type.elem_type for o in proto.graph.output]
    return [helper.tensor_dtype_to_np_dtype(s) if s else t for s, t in zip(said, ours, strict=True)]


def widened(row: Row, whole: Any = np.int32, bools: bool = False) -> Row:
    """The row with numbers in types that every kernel of onnxruntime has."""

    def wide(a: Array | None) -> Array | None:
        if a is None or a.dtype.kind in "SUO" or (a.dtype.kind == "b" and not bools):
            return a
        return a.astype(np.float32 if dtype_of(a).is_float else whole)

    return replace(row, inputs=[wide(a) for a in row.inputs])


def check(found: Sequence[Array], wanted: Sequence[Array], tolerance: float, level: str) -> None:
    """Shapes and types equal, values as near as asked; NaN agrees with NaN, an infinity with itself."""
    assert len(found) >= len(wanted), f"{level}: {len(found)} outputs, {len(wanted)} expected"
    for i, (f, w) in enumerate(zip(found, wanted, strict=False)):
        if w.dtype.kind in "OSU":
            w, f = inside(np.asarray(w, object)), inside(f)
        assert f.shape == w.shape, f"{level}: output {i} has shape {f.shape}, expected {w.shape}"
        assert f.dtype == w.dtype, f"{level}: output {i} is {f.dtype}, expected {w.dtype}"
        f, w = (a.astype(dtype_of(a).compute.numpy) if dtype_of(a).bits <= 8 else a for a in (f, w))
        if w.dtype.kind not in "fV" or tolerance == 0:
            assert np.array_equal(f, w, equal_nan=w.dtype.kind in "fV"), (
                f"{level}: output {i}: {f} expected {w}"
            )
            continue
        a, b = f.astype(np.float64), w.astype(np.float64)
        assert np.array_equal(np.isnan(a), np.isnan(b)), f"{level}: output {i}: NaNs differ: {a} expected {b}"
        same = (a == b) | np.isnan(b)
        scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
        with np.errstate(invalid="ignore"):
            worst = float(np.max(np.where(same, 0.0, np.abs(a - b)), initial=0.0))
        assert worst <= tolerance * max(scale, 1e-30), (
            f"{level}: output {i}: off by {worst:.3g} of {scale:.3g}"
        )
