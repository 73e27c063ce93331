"""What the selftests of modules must have told the log, by onnxruntime.

In: a model, its state, and the log. Out: whether every line is there, with these numbers and no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import onnx
import onnxruntime
from onnx import parser

from ingot.formula.expr import Array
from ingot.formula.types import dtype_of
from ingot.packaging.kbuild.golden import RUNS, STATEFUL_RUNS, ramp
from tests.corpus import CASES

from .mixed import KEPT, SHOWN
from .mixed import STATE as KEPT_STATE
from .modules import DIGITS, POLICY, STATE

NAMES = ("policy", "digits", "kept", "integers")
TOLERANCE = 2e-5
"""Five decimals, cut off."""


def models() -> dict[str, tuple[onnx.ModelProto, Mapping[str, str], float]]:
    """The modules whose log is compared: model, state, and how far numbers may be off."""
    (integers,) = (c.model for c in CASES if c.name == "mobilenet_bytes")
    return {
        "policy": (parser.parse_model(POLICY), STATE, TOLERANCE),
        "digits": (onnx.load(DIGITS), {}, TOLERANCE),
        "kept": (parser.parse_model(KEPT), KEPT_STATE, TOLERANCE),
        "integers": (integers, {}, 1),
    }


@cache
def answers(module: str) -> tuple[tuple[str, Array], ...]:
    """The beginning of each line, and its numbers, in order."""
    model, state, _ = models()[module]
    return tuple(_answers(module, model, state))


def _answers(module: str, model: onnx.ModelProto, state: Mapping[str, str]) -> Iterator[tuple[str, Array]]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names, before = [o.name for o in model.graph.output], dict[str, Array]()
    for run in range(STATEFUL_RUNS if state else RUNS):
        feeds = {}
        for value in model.graph.input:
            tensor = value.type.tensor_type
            dtype = dtype_of(np.zeros(0, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)))
            feeds[value.name] = ramp(dtype, tuple(d.dim_value for d in tensor.shape.dim), 0 if state else run)
        for name in state.values():
            feeds[name] = before.get(name, np.zeros_like(feeds[name]))
        found = dict(zip(names, session.run(None, feeds), strict=True))
        before = {name: found[output] for output, name in state.items()}
        for name in (n for n in names if n not in state):
            start = f"{module}: run {run}, {re.sub(r'[^0-9A-Za-z]', '_', name)}:"
            yield start, np.asarray(found[name], np.float64).reshape(-1)[:SHOWN]


def is_told(module: str, said: str) -> bool:
    """Whether the log has these lines of the module's selftest, and no others."""
    found = re.findall(rf" ({module}: run \d+, \w+:)(.*)$", said, re.M)
    near = models()[module][2]
    return len(found) == len(answers(module)) and all(
        start == here and len(words.split()) == numbers.size and _agree(words.split(), numbers, near)
        for (here, words), (start, numbers) in zip(found, answers(module), strict=True)
    )


def _agree(words: list[str], numbers: Array, near: float) -> bool:
    return bool(np.all(np.abs(np.array(words, np.float64) - numbers) <= near))
