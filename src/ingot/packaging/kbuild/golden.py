"""Golden vectors for the module's selftest: inputs, and the outputs that the object gives in user space.

Inputs are ramps 0.0, 0.1, ... of the kind one reads in a log; a network with a state runs ten times on one
input, another once on each of three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingot.bundle.binding import checked, shape
from ingot.bundle.bundle import Bundle
from ingot.formula.expr import Array
from ingot.formula.types import DType, dtype_named
from ingot.packaging.kbuild.layout import layout

RUNS, STATEFUL_RUNS = 3, 10


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Bytes of all inputs, and of all outputs, as their structs have them, of each run."""

    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]


def golden(bundle: Bundle) -> SelfTest:
    """Run the bundle here. Raises ToolchainError where its object cannot run on this machine."""
    has_state = bool(bundle.manifest["state"])
    inputs, outputs = [], []
    session = bundle.session()
    for turn in range(STATEFUL_RUNS if has_state else RUNS):
        given = {
            t["name"]: ramp(dtype_named(t["dtype"]), shape(t, {}), 0 if has_state else turn)
            for t in bundle.manifest["inputs"]
        }
        found = session.run(given)
        inputs.append(_struct(bundle.manifest["inputs"], given))
        outputs.append(_struct(bundle.manifest["outputs"], found))
    return SelfTest(tuple(inputs[:1] if has_state else inputs), tuple(outputs))


def _struct(tensors: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array]) -> bytes:
    """What the bundle takes or gives, as the device does."""
    return layout(tensors, "").packed([checked(t, arrays, {}).tobytes() for t in tensors])


def ramp(dtype: DType, size: tuple[int, ...], turn: int) -> Array:
    """0.0, 0.1, ... 0.9 and again for floats, 0 and 1 for integers, "0" ... "9" for strings; each turn starts
    one further.
    """
    steps = (np.arange(int(np.prod(size))) + turn) % 10
    if dtype.is_text:
        return np.array([str(n) for n in steps], object).reshape(size)
    if dtype.is_float:
        values: Array = (steps.astype(np.float32) * np.float32(0.1)).astype(dtype.numpy)
    else:
        values = (steps % 2).astype(dtype.numpy)
    return values.reshape(size)
