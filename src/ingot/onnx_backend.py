"""Ingot behind onnx's standard backend interface, for its test runner and for whoever drives several runtimes
alike.

`prepare` compiles; every graph input stays an argument of the bundle, initializers of the same name included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep

import ingot
from ingot.bundle.bundle import Bundle
from ingot.errors import InputError
from ingot.formula.expr import Array


class IngotBackendRep(BackendRep):
    """A compiled model."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle

    def run(self, inputs: Sequence[Array] | Mapping[str, Array], **kwargs: Any) -> tuple[Array, ...]:
        """Outputs in the model's order for inputs in the model's order, or by name."""
        names = [t["name"] for t in self.bundle.manifest["inputs"]]
        if not isinstance(inputs, Mapping):
            inputs = dict(zip(names, map(np.asarray, inputs), strict=True))
        outputs = self.bundle.run(inputs)
        return tuple(outputs[t["name"]] for t in self.bundle.manifest["outputs"])


class IngotBackend(Backend):
    """`prepare(model).run(inputs)`; options of `ingot.compile` may be given to `prepare`."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> IngotBackendRep:
        """Compile. Raises InputError where the model cannot be compiled."""
        return IngotBackendRep(ingot.compile(model, name="model", keep_inputs=True, **kwargs))

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Array, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every operator is known, by trying."""
        try:
            cls.prepare(model, device, **kwargs)
        except InputError:
            return False
        return True


prepare = IngotBackend.prepare
run_model = IngotBackend.run_model
supports_device = IngotBackend.supports_device
