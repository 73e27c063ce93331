"""Ingot behind onnx's standard backend interface, for its test runner and for whoever drives several runtimes
alike.

`prepare` compiles; every graph input stays an argument of the bundle, initializers of the same name included
unless shapes depend on them. It is given a model and nothing else, so what only `--define` and `--capacity`
could say has defaults here: a dynamic dimension is 0 to 64, so is an axis whose extent is data; a sequence
has up to 16 elements of up to 64 along each axis, less where that would be more than 2^22 in all, and of up
to four axes where the model does not say how many. The bundle returns an error for more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TypeProto, numpy_helper
from onnx.backend.base import Backend, BackendRep

import ingot
from ingot.bundle.bundle import Bundle
from ingot.errors import InputError, UnsupportedError
from ingot.formula.expr import Array
from ingot.frontends.onnx.shapes import dimension_name
from ingot.ops.refused import REFUSED

LENGTH, EXTENT, ROOM, RANK = 16, 64, 1 << 22, 4


class IngotBackendRep(BackendRep):
    """A compiled model, and the elements of the inputs that the model also has as initializers."""

    def __init__(self, bundle: Bundle, defaults: Mapping[str, Array]) -> None:
        self.bundle, self.defaults = bundle, defaults

    def run(self, inputs: Sequence[Array] | Mapping[str, Array], **kwargs: Any) -> tuple[Array, ...]:
        """Outputs in the model's order for inputs by name or in the model's order.

        Inputs with a default may be left out, in a sequence all of them or none.
        """
        if not isinstance(inputs, Mapping):
            inputs = dict(zip(self._names(len(inputs)), map(_given, inputs), strict=True))
        outputs = self.bundle.run({**self.defaults, **inputs})
        return tuple(outputs.values())

    def _names(self, count: int) -> list[str]:
        """The inputs that a sequence of so many values means. Raises InputError where none fit."""
        every = [t["name"] for t in _inputs(self.bundle)]
        needed = [name for name in every if name not in self.defaults]
        if count not in (len(every), len(needed)):
            raise InputError(f"{count} inputs; the model takes {', '.join(every)}")
        return every if count == len(every) else needed


class IngotBackend(Backend):
    """`prepare(model).run(inputs)`; options of `ingot.compile` may be given to `prepare`."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> IngotBackendRep:
        """Compile. Raises InputError where the model cannot be compiled: for operators that are refused on
        purpose one that is onnx's BackendIsNotSupposedToImplementIt too.

        Initializers that are inputs are constants only where shapes follow from one of them.
        """
        options: dict[str, Any] = {"name": "model", "emit": ("c", "obj", "weights-bin"), **kwargs}
        options["define"] = {**default_define(model), **options.get("define", {})}
        options["capacity"] = {**default_capacity(model), **options.get("capacity", {})}
        inputs = {i.name for i in model.graph.input}
        weights = [t for t in model.graph.initializer if t.name in inputs]
        given = {**options, "capacity": kwargs.get("capacity", {})} if weights else options
        try:
            bundle = ingot.compile(model, keep_inputs=True, **given)
        except InputError as error:
            if any((n.domain, n.op_type) in REFUSED for n in model.graph.node):
                raise _not_supposed(error) from None
            if not weights:
                raise
            bundle = ingot.compile(model, **options)
            kept = {t["name"] for t in _inputs(bundle)}
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


def _not_supposed(error: InputError) -> InputError:
    """The error in the form in which onnx's runner expects it: the case is none for this backend."""
    from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt  # slow, hence not at the top

    class NotSupposed(UnsupportedError, BackendIsNotSupposedToImplementIt):
        pass

    return NotSupposed(str(error))


def _given(value: Any) -> Any:
    """An input as the bundle takes it: arrays, lists of them, None."""
    if value is None or isinstance(value, Mapping):
        return value
    return [np.asarray(v) for v in value] if isinstance(value, list | tuple) else np.asarray(value)


def _inputs(bundle: Bundle) -> list[dict[str, Any]]:
    """The inputs as the model has them."""
    found: list[dict[str, Any]] = (bundle.manifest.get("ports") or bundle.manifest)["inputs"]
    return found


def _tensor_type(type_: TypeProto) -> TypeProto.Tensor:
    """The tensors in a sequence or an optional."""
    match type_.WhichOneof("value"):
        case "optional_type":
            return _tensor_type(type_.optional_type.elem_type)
        case "sequence_type":
            return _tensor_type(type_.sequence_type.elem_type)
    return type_.tensor_type


def default_define(model: ModelProto) -> dict[str, tuple[int, int]]:
    """A range for every dynamic dimension of the inputs."""
    weights = {t.name for t in model.graph.initializer}
    infos = [i for i in model.graph.input if i.name not in weights]
    return {
        dimension_name(d) or f"{i.name}:{axis}": (0, EXTENT)
        for i in infos
        for axis, d in enumerate(_tensor_type(i.type).shape.dim)
        if d.WhichOneof("value") != "dim_value" or d.dim_value == -1
    }


def default_capacity(model: ModelProto) -> dict[str, int | tuple[int, ...]]:
    """Room for sequences among the inputs, and for whatever else only data tells the extents of."""
    found: dict[str, int | tuple[int, ...]] = {"": EXTENT}
    for info in model.graph.input:
        type_ = info.type.optional_type.elem_type if info.type.HasField("optional_type") else info.type
        if type_.HasField("sequence_type"):
            inner = _tensor_type(type_)
            rank = len(inner.shape.dim) if inner.HasField("shape") else RANK
            extent = EXTENT
            while LENGTH * extent**rank > ROOM:
                extent //= 2
            found[info.name] = (LENGTH, *[extent] * rank)
    return found


prepare = IngotBackend.prepare
run_model = IngotBackend.run_model
supports_device = IngotBackend.supports_device
