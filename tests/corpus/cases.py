"""What a model of the corpus is, and the oracle's answer to it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.corpus.net import Array, Net
from tests.ops.rows import check
from tests.oracles import exact_session

Build = Callable[[Net], "str | tuple[str, ...]"]
Made = tuple[onnx.ModelProto, dict[str, Array]]


@dataclass(frozen=True, eq=False)
class Case:
    """A model, by the function that builds it or by its file, and how far it may be from onnxruntime.

    `given` are the inputs of a model from a file. `twin` is another model that the oracle runs in its place,
    where onnxruntime lacks the element type; its outputs are compared in the type of the model's own. `steps`
    is how far bytes may be off where onnxruntime rounds what it computes in floats.
    """

    name: str
    source: Build | Path
    opset: int = 17
    tolerance: float = 1e-4
    define: Mapping[str, Any] = field(default_factory=dict)
    given: Callable[[], dict[str, Array]] = dict
    twin: Build | None = None
    steps: int = 0

    @property
    def model(self) -> onnx.ModelProto:
        return _made(self)[0]

    @property
    def feeds(self) -> dict[str, Array]:
        return _made(self)[1]

    @property
    def wanted(self) -> list[Array]:
        """onnxruntime's outputs."""
        return _wanted(self)

    def check(self, found: Sequence[Array], level: str) -> None:
        """Whether answers are onnxruntime's."""
        wanted = self.wanted
        if self.steps:
            wanted = [near(f, w, self.steps) for f, w in zip(found, wanted, strict=True)]
        check(found, wanted, self.tolerance, level)


def near(found: Array, wanted: Array, steps: int) -> Array:
    """What is found, where it is wanted give or take some steps; elsewhere what is wanted."""
    if found.shape != wanted.shape or wanted.dtype.kind not in "iu":
        return wanted
    is_near = np.abs(found.astype(np.int64) - wanted.astype(np.int64)) <= steps
    return np.where(is_near, found, wanted).astype(wanted.dtype)


@functools.cache
def _made(case: Case) -> Made:
    if isinstance(case.source, Path):
        return onnx.load(case.source), case.given()
    return _build(case, case.source)


def _build(case: Case, build: Build) -> Made:
    net = Net(case.name, case.opset)
    outputs = build(net)
    return net.model(*([outputs] if isinstance(outputs, str) else outputs)), net.feeds


@functools.cache
def _wanted(case: Case) -> list[Array]:
    if case.twin is None:
        return onnxruntime_outputs(*_made(case))
    types = [
        onnx.helper.tensor_dtype_to_np_dtype(o.type.tensor_type.elem_type) for o in case.model.graph.output
    ]
    found = onnxruntime_outputs(*_build(case, case.twin))
    return [a.astype(t) for a, t in zip(found, types, strict=True)]


def onnxruntime_outputs(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """onnxruntime's answer, from one thread, on copies: it may write a running mean where it read the old."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = exact_session(model, options)
    return [np.asarray(a) for a in session.run(None, {n: a.copy() for n, a in feeds.items()})]
