"""Ingot behind onnx's standard backend interface, for its test runner and for whoever drives several runtimes
alike.

`prepare` compiles; every graph input stays an argument of the bundle, initializers of the same name included
unless shapes depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper
from onnx.backend.base import Backend, BackendRep

import ingot
from ingot.bundle.bundle import Bundle
from ingot.errors import InputError, UnsupportedError
from ingot.formula.expr import Array


class IngotBackendRep(BackendRep):
    """A compiled model, and the elements of the inputs that the model also has as initializers."""

    def __init__(self, bundle: Bundle, defaults: Mapping[str, Array]) -> None:
        self.bundle, self.defaults = bundle, defaults

    def run(self, inputs: Sequence[Array] | Mapping[str, Array], **kwargs: Any) -> tuple[Array, ...]:
        """Outputs in the model's order for inputs by name or in the model's order.

        Inputs with a default may be left out, in a sequence all of them or none.
        """
        if not isinstance(inputs, Mapping):
            inputs = dict(zip(self._names(len(inputs)), map(np.asarray, inputs), strict=True))
        outputs = self.bundle.run({**self.defaults, **inputs})
        return tuple(outputs.values())

    def _names(self, count: int) -> list[str]:
        """The inputs that a sequence of so many values means. Raises InputError where none fit."""
        every = [t["name"] for t in self.bundle.manifest["inputs"]]
        needed = [name for name in every if name not in self.defaults]
        if count not in (len(every), len(needed)):
            raise InputError(f"{count} inputs; the model takes {', '.join(every)}")
        return every if count == len(every) else needed


class IngotBackend(Backend):
    """`prepare(model).run(inputs)`; options of `ingot.compile` may be given to `prepare`."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> IngotBackendRep:
        """Compile. Raises InputError where the model cannot be compiled.

        Initializers that are inputs are constants only where shapes follow from one of them.
        """
        options = {"name": "model", "emit": ("c", "obj", "weights-bin"), **kwargs}
        inputs = {i.name for i in model.graph.input}
        weights = [t for t in model.graph.initializer if t.name in inputs]
        try:
            bundle = ingot.compile(model, keep_inputs=True, **options)
        except UnsupportedError:
            if not weights:
                raise
            bundle = ingot.compile(model, **options)
            kept = {t["name"] for t in bundle.manifest["inputs"]}
            weights = [t for t in weights if t.name in kept]
        return IngotBackendRep(bundle, {t.name: numpy_helper.to_array(t) for t in weights})

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
