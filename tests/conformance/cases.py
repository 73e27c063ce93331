"""The cases of onnx's backend tests: what the installed onnx package holds, without any download.

Out: `Case` records in a fixed order. Called by `runner` and by `tests/test_conformance.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.loader as loader
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")
DataSets = list[tuple[list[Any], list[Any]]]


@dataclass(frozen=True, slots=True)
class Case:
    """One test. `operator` is the row of the table that it counts in: an operator, or (kind) for a model."""

    kind: str
    operator: str
    test: TestCase

    @property
    def name(self) -> str:
        return self.test.name

    def load(self) -> tuple[onnx.ModelProto, DataSets]:
        """The model, and inputs with the outputs they must give."""
        if self.test.model is not None:
            return self.test.model, [(_arrays(i), _arrays(o)) for i, o in self.test.data_sets or ()]
        if self.test.url is not None:
            return _light(self.test.url)
        assert self.test.model_dir is not None, "a case has a model, a folder or an address"
        folder = Path(self.test.model_dir)
        model = onnx.load(folder / "model.onnx")
        sets = sorted(folder.glob("test_data_set_*"))
        graph = model.graph
        return model, [(_read(s, "input", graph.input), _read(s, "output", graph.output)) for s in sets]


def cases(kinds: Sequence[str] = KINDS) -> list[Case]:
    """All cases, by kind and name. The expanded form of an operator counts in the operator's row."""
    found: list[Case] = []
    for kind in kinds:
        with warnings.catch_warnings():  # cases of infinities and overflows compute them when they are made
            warnings.simplefilter("ignore")
            tests = {t.name: t for t in loader.load_model_tests(kind=kind)}
        for name in sorted(tests):
            base = tests.get(name.partition("_expanded")[0], tests[name])
            found.append(Case(kind, _operator(kind, base), tests[name]))
    return found


def _operator(kind: str, test: TestCase) -> str:
    """The operator that a node test is about: its only one, or the one that its name begins with."""
    if kind != "node" or test.model is None:
        return f"({kind})"
    operators = list(dict.fromkeys(str(n.op_type) for n in test.model.graph.node))
    plain = test.name.removeprefix("test_").replace("_", "")
    named = [o for o in operators if plain.startswith(o.lower())]
    return max(named, key=len) if named else operators[-1]


def _arrays(values: Sequence[Any]) -> list[Any]:
    return [numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in values]


def _read(folder: Path, stem: str, infos: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    """The values STEM_0.pb, STEM_1.pb, ... of a data set, as the graph declares them."""
    return [_value(p.read_bytes(), info) for p, info in zip(_files(folder, stem), infos, strict=False)]


def _files(folder: Path, stem: str) -> Iterator[Path]:
    for i in range(len(list(folder.glob(f"{stem}_*.pb")))):
        yield folder / f"{stem}_{i}.pb"


def _value(data: bytes, info: onnx.ValueInfoProto) -> Any:
    match info.type.WhichOneof("value"):
        case "sequence_type":
            return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        case "optional_type":
            return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _light(url: str) -> tuple[onnx.ModelProto, DataSets]:
    """A model whose weights are made by nodes, with the input that the standard runner makes up for it."""
    path = Path(onnx.__file__).parents[1] / url
    model = onnx.load(path)
    weights = {t.name for t in model.graph.initializer}
    inputs = [_ramp(i) for i in model.graph.input if i.name not in weights]
    outputs = [
        numpy_helper.to_array(onnx.load_tensor(f"{path.with_suffix('')}_output_{i}.pb"))
        for i in range(len(model.graph.output))
    ]
    return model, [(inputs, outputs)]


def _ramp(info: onnx.ValueInfoProto) -> np.ndarray[Any, Any]:
    dims = info.type.tensor_type.shape.dim
    shape = tuple(d.dim_value if d.HasField("dim_value") else 1 for d in dims)
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) / count).astype(np.float32)
