"""The table of Keras' layers, and what a mapping gets: a `Call`.

    @layer("Dense", weights=kernel_and_bias)
    def dense(c): return Tensor(c.b.one("MatMul", c.plain(c.x), c.weight("kernel", ...)))

A mapping returns a tensor, or a list, tuple or dict of them where the layer does. `weights` says which
variables a layer of this configuration has. A mask goes through a layer that keeps it ("keep"), is dropped
as Keras drops it ("drop"), or is the mapping's own business ("own"), which notes it with `Call.mask`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ingot.errors import ModelError, ShapeError, UnsupportedError
from ingot.formula.expr import Array
from ingot.formula.types import DType
from ingot.frontends.keras.configs import Layer, leaves
from ingot.frontends.keras.settings import Settings
from ingot.frontends.keras.weights import Spec, Tree
from ingot.frontends.orders import Builder, Order, Tensor, channels_first
from ingot.graph.ir import Value

Result = Any
"""A Tensor, or lists, tuples and dicts of them."""
Mapping = Callable[["Call"], Result]
DEPTH_LIMIT = 32
PREFIXES = ("keras.layers", "tf.keras.layers")


class Weights(Protocol):
    """What variables a layer of this configuration has."""

    def __call__(self, layer: Layer, settings: Settings) -> Spec: ...


def no_weights(layer: Layer, settings: Settings) -> Spec:
    return Spec()


@dataclass(frozen=True, slots=True)
class Kind:
    mapping: Mapping
    weights: Weights
    mask: str


LAYERS: dict[str, Kind] = {}
CUSTOM: dict[str, Kind] = {}
"""What users registered, by registered name or class name."""


def layer(*names: str, weights: Weights = no_weights, mask: str = "drop") -> Callable[[Mapping], Mapping]:
    """Enter a mapping under the names of classes."""

    def enter(mapping: Mapping) -> Mapping:
        LAYERS.update(dict.fromkeys(names, Kind(mapping, weights, mask)))
        return mapping

    return enter


@dataclass(slots=True, eq=False)
class World:
    """What all calls of an import share: masks by tensor (bool values), and states that runs hand on."""

    version: tuple[int, int]
    masks: dict[Tensor, Value] = field(default_factory=dict)
    states: list[tuple[Value, Value]] = field(default_factory=list)
    constants: dict[tuple[Tree, str, DType | None], Value] = field(default_factory=dict)
    depth: int = 0

    @property
    def is_3(self) -> bool:
        return self.version >= (3, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of a layer: its arguments hold tensors where the configuration refers to them."""

    b: Builder
    layer: Layer
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tree: Tree
    world: World

    @property
    def settings(self) -> Settings:
        return Settings(self.layer.config, self.layer.label)

    # ---- arguments

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors of the first argument."""
        first = self.args[0] if self.args else next(iter(self.kwargs.values()), None)
        found = [t for t in leaves(first) if isinstance(t, Tensor)]
        if not found:
            raise ModelError(f"{self.layer.label}: it is called without a tensor")
        return found

    @property
    def x(self) -> Tensor:
        """The one tensor that the layer reads. Raises ModelError where there are more."""
        found = self.tensors
        if len(found) != 1:
            raise ModelError(f"{self.layer.label}: it reads one tensor and is given {len(found)}")
        return found[0]

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An argument by position or by name."""
        if len(self.args) > position:
            return self.args[position]
        return self.kwargs.get(name, default)

    def tensor_at(self, position: int, name: str) -> Tensor | None:
        found = self.argument(position, name)
        if found is None or isinstance(found, Tensor):
            return found
        raise ModelError(f"{self.layer.label}: its {name!r} is no tensor")

    # ---- weights

    def array(self, name: str, shape: Sequence[int] | None) -> Array:
        """A variable of the layer. Raises ModelError where it has another shape."""
        found = self.tree.variable(name, self.layer.label)
        if shape is not None and found.shape != tuple(shape):
            raise ModelError(
                f"{self.layer.label}: its {name!r} is {_shown(found.shape)} in the file, the configuration "
                f"and the input make it {_shown(shape)}"
            )
        return found

    def weight(self, name: str, shape: Sequence[int] | None, dtype: DType | None = None) -> Value:
        """A variable of the layer as a constant of the type that the layer computes in."""
        dtype = dtype or self.settings.compute
        found = self.array(name, shape)
        key = (self.tree, name, dtype)
        if key not in self.world.constants:
            made = found if found.dtype == dtype.numpy else found.astype(dtype.numpy)
            self.world.constants[key] = self.b.brought(self.b.names.fresh(f"{self.layer.name}/{name}"), made)
        return self.world.constants[key]

    def held(self, name: str, array: Array) -> Value:
        """A constant made of variables, under the layer's name."""
        return self.b.brought(self.b.names.fresh(f"{self.layer.name}/{name}"), np.ascontiguousarray(array))

    # ---- masks

    def mask_of(self, tensor: Tensor | None) -> Value | None:
        return None if tensor is None else self.world.masks.get(tensor)

    def mask(self, tensor: Tensor, mask: Value | None) -> Tensor:
        """The tensor with this mask."""
        made = replace(tensor)
        if mask is not None:
            self.world.masks[made] = mask
        return made

    # ---- words

    def plain(self, t: Tensor) -> Value:
        return self.b.plain(t)

    def order(self, rank: int) -> Order | None:
        """How a tensor with channels is held so that they come first: data_format says where they are."""
        found = self.settings.choice("data_format", ("channels_last", "channels_first"), "channels_last")
        return channels_first(rank) if found == "channels_last" else None

    def require(self, condition: bool, message: str) -> None:
        """Raise ShapeError naming the layer unless `condition` holds."""
        if not condition:
            shapes: list[tuple[int | str, ...]] = [
                t.shape for t in leaves(self.args) if isinstance(t, Tensor)
            ]
            raise ShapeError(f"{self.layer.label}: {message}", shapes=shapes)

    def refuse(self, message: str, remedy: str = "") -> UnsupportedError:
        return UnsupportedError(f"{self.layer.label}: {message}", remedy=remedy)

    def inner(
        self, layer: Layer, tree: Tree, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> Result:
        """Call a layer that is inside this one."""
        label, place = self.b.names.label, self.b.names.place
        try:
            return call(self.b, self.world, layer, tree, args, kwargs or {})
        finally:
            self.b.at(label, place)


def call(
    b: Builder, world: World, layer: Layer, tree: Tree, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Result:
    """What a layer returns, its masks noted. Raises UnsupportedError for one that is not known."""
    kind = kind_of(layer)
    if world.depth > DEPTH_LIMIT:
        raise UnsupportedError(f"{layer.label}: layers are nested deeper than {DEPTH_LIMIT}")
    b.at(layer.label, layer.name)
    world.depth += 1
    dtype = Settings(layer.config, layer.label).compute
    if not layer.is_model and not layer.is_operation:
        args, kwargs = (_cast(b, world, tree_, dtype) for tree_ in (args, kwargs))
    made = kind.mapping(Call(b, layer, args, kwargs, tree, world))
    world.depth -= 1
    if kind.mask == "own":
        return made
    masks = [world.masks.get(t) for t in leaves(args) if isinstance(t, Tensor)]
    mask = masks[0] if kind.mask == "keep" and masks else None
    return mapped(made, lambda t: _masked(world, t, mask))


def kind_of(layer: Layer) -> Kind:
    """The entry of a layer. Raises UnsupportedError that says how to add one."""
    for name in (layer.registered, layer.kind):
        if name in CUSTOM:
            return CUSTOM[name]
    if layer.is_model:
        return LAYERS["Functional"]
    if layer.is_operation:
        return LAYERS["TFOpLambda"]
    is_own = ">" in layer.registered or (
        layer.module and not layer.module.startswith(("keras", "tf_keras", "tensorflow"))
    )
    if layer.kind in LAYERS and not is_own:
        return LAYERS[layer.kind]
    name = layer.registered if is_own and layer.registered else layer.kind
    raise UnsupportedError(
        f"{layer.label} is {'a class of your own' if is_own else 'not supported'}",
        remedy=f"say what it computes: ingot.frontends.keras.register({name!r})(function), see docs/keras.md",
    )


def mapped(tree: Any, change: Callable[[Tensor], Any]) -> Any:
    """A structure with its tensors changed."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, list | tuple):
        return type(tree)(mapped(item, change) for item in tree)
    return {k: mapped(v, change) for k, v in tree.items()} if isinstance(tree, dict) else tree


def _masked(world: World, t: Tensor, mask: Value | None) -> Tensor:
    made = replace(t)
    if mask is not None:
        world.masks[made] = mask
    return made


def _cast(b: Builder, world: World, tree: Any, dtype: DType) -> Any:
    """Layers turn floats into the type they compute in."""

    def cast(t: Tensor) -> Tensor:
        if t.dtype.kind != "f" or t.dtype == dtype or dtype.kind != "f":
            return t
        return _masked(world, Tensor(b.cast(t.value, dtype), t.order), world.masks.get(t))

    return mapped(tree, cast)


def _shown(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a scalar"
