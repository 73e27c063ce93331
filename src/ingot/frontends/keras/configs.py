"""What a configuration says. In: JSON of Keras 2 or 3; out: `Layer`s, and `Network`s of layers.

Both ways of writing who reads whom are read: lists of [name, node, tensor, keywords] (Keras 2) and of args
and kwargs with `__keras_tensor__` in them (Keras 3). Nothing is evaluated: a Lambda is only named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ingot.errors import ModelError, UnsupportedError

MODELS = ("Functional", "Model", "Sequential")
CONSTANT = "_CONSTANT_VALUE"
LAYERS_LIMIT = 100_000
# Their configurations have a dtype, as those of layers do.
TYPED_OPERATIONS = ("Cast", "ConvertToTensor", "OnesLike", "Prod", "ZerosLike")
UNTYPED_LAYERS = ("SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D")  # theirs have none
BUILTIN = ("keras", "tf_keras", "tensorflow")


@dataclass(frozen=True, slots=True)
class Ref:
    """One tensor: which of the results of which call of which layer."""

    layer: str
    node: int
    tensor: int


@dataclass(frozen=True, slots=True)
class Node:
    """One call of a layer. Arguments are JSON with `Ref`s in it."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def refs(self) -> list[Ref]:
        return [*_refs_in(self.args), *_refs_in(self.kwargs)]


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """`kind` is the class, `registered` the name of a class that is not Keras' own, or of an operation."""

    kind: str
    name: str
    config: dict[str, Any]
    module: str = ""
    registered: str = ""
    nodes: tuple[Node, ...] = ()
    build: dict[str, Any] = field(default_factory=dict)

    @property
    def is_model(self) -> bool:
        return self.kind in MODELS or (isinstance(self.config.get("layers"), list) and not self.is_operation)

    @property
    def is_operation(self) -> bool:
        """Whether this is a function of keras.ops, which is saved like a layer: in .h5 without its module."""
        if not self.module:
            named = self.kind in TYPED_OPERATIONS or "dtype" not in self.config
            is_layer = "trainable" in self.config or self.kind in (*MODELS, *UNTYPED_LAYERS)
            return named and bool(self.nodes) and not is_layer
        return ".ops." in self.module or self.module.endswith(".ops")

    @property
    def label(self) -> str:
        return f"{self.kind} layer {self.name!r}"


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A model: `inputs` and `outputs` are JSON with `Ref`s; `is_chain`: a Sequential, layer after layer."""

    name: str
    layers: dict[str, Layer]
    inputs: Any
    outputs: Any
    is_chain: bool


def layer_of(document: Any, where: str) -> Layer:
    """A layer's configuration. Raises ModelError."""
    if not isinstance(document, dict):
        raise ModelError(f"{where}: {str(document)[:60]!r} is no configuration of a layer")
    kind, config = document.get("class_name"), document.get("config")
    if not isinstance(kind, str):
        raise ModelError(f"{where}: a layer without a class_name")
    if isinstance(config, list) and kind == "Sequential":  # Keras before 2.2.3
        config = {"layers": config}
    if not isinstance(config, dict):
        raise ModelError(f"{where}: the {kind[:60]} has no configuration")
    name = document.get("name") or config.get("name") or kind.lower()
    module, registered = document.get("module") or "", document.get("registered_name") or ""
    build = document.get("build_config") or {}
    if not all(isinstance(w, str) for w in (name, module, registered)) or not isinstance(build, dict):
        raise ModelError(f"{where}: the {kind[:60]} layer has a name, module or build_config of another type")
    nodes = document.get("inbound_nodes") or []
    if not isinstance(nodes, list):
        raise ModelError(f"{where}: {name!r} has inbound_nodes that are no list")
    made = tuple(_node(n, f"{kind} layer {name!r}") for n in nodes)
    own, _, last = kind.rpartition(">")
    if own and own in ("keras", "tf"):
        kind = last
    return Layer(kind, name, config, module, registered or (kind if ">" in kind else ""), made, build)


def network_of(layer: Layer) -> Network:
    """The model that a configuration with layers is. Raises ModelError."""
    given = layer.config.get("layers")
    if not isinstance(given, list) or len(given) > LAYERS_LIMIT:
        raise UnsupportedError(
            f"{layer.label}: the file does not say which layers it has",
            remedy="only Sequential and Functional models can be read; save such a one",
        )
    layers: dict[str, Layer] = {}
    for document in given:
        found = layer_of(document, layer.label)
        if found.name in layers:
            raise ModelError(f"{layer.label}: two layers are called {found.name!r}")
        layers[found.name] = found
    is_chain = "input_layers" not in layer.config and "output_layers" not in layer.config
    inputs, outputs = (_edge(layer.config.get(k), layer.label) for k in ("input_layers", "output_layers"))
    return Network(layer.name, layers, inputs, outputs, is_chain)


def leaves(tree: Any) -> list[Any]:
    """What hangs in a structure of lists, tuples and dicts, dicts by sorted key, as Keras flattens them."""
    if isinstance(tree, list | tuple):
        return [leaf for item in tree for leaf in leaves(item)]
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    return [tree]


# ---- references


def _node(document: Any, label: str) -> Node:
    if isinstance(document, dict):  # Keras 3
        args, kwargs = document.get("args", []), document.get("kwargs", {})
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise ModelError(f"{label}: a call without args and kwargs")
        return Node(
            tuple(_argument(a, label) for a in args), {k: _argument(v, label) for k, v in kwargs.items()}
        )
    if not isinstance(document, list) or not document:
        raise ModelError(f"{label}: {str(document)[:60]!r} is no call of a layer")
    keywords: dict[str, Any] = {}
    if isinstance(document[0], str):
        return Node((_old(document, label, keywords),), keywords)
    found = [_old_tree(d, label, keywords) for d in document]
    return Node((found[0] if len(found) == 1 else found,), keywords)


def _old_tree(document: Any, label: str, keywords: dict[str, Any]) -> Any:
    """Nested lists and dicts of Keras 2's records."""
    if isinstance(document, dict):
        return {k: _old_tree(v, label, keywords) for k, v in document.items()}
    if isinstance(document, list) and document and isinstance(document[0], str):
        return _old(document, label, keywords)
    if isinstance(document, list):
        return [_old_tree(d, label, keywords) for d in document]
    raise ModelError(f"{label}: {str(document)[:60]!r} is no reference to a layer")


def _old(record: list[Any], label: str, keywords: dict[str, Any]) -> Any:
    """[name, node, tensor] and perhaps the keywords of the call; or a constant."""
    if len(record) > 3:
        if not isinstance(record[3], dict):
            raise ModelError(f"{label}: keywords {str(record[3])[:60]!r}")
        keywords.update({k: _keyword(v) for k, v in record[3].items()})
    if record[0] == CONSTANT and len(record) > 2:
        return record[2]
    return _reference(record, label)


def _keyword(value: Any) -> Any:
    """A keyword of Keras 2: a list of a name and two numbers is a tensor."""
    if isinstance(value, list):
        if len(value) in (3, 4) and isinstance(value[0], str) and all(_is_index(n) for n in value[1:3]):
            return Ref(value[0], value[1], value[2])
        if len(value) in (3, 4) and value[0] == CONSTANT:
            return value[2]
        return [_keyword(v) for v in value]
    return {k: _keyword(v) for k, v in value.items()} if isinstance(value, dict) else value


def _argument(value: Any, label: str) -> Any:
    """An argument of Keras 3."""
    if isinstance(value, dict) and value.get("class_name") == "__keras_tensor__":
        config = value.get("config")
        history = config.get("keras_history") if isinstance(config, dict) else None
        return _reference(history, label)
    if isinstance(value, dict):
        return {k: _argument(v, label) for k, v in value.items()}
    return [_argument(v, label) for v in value] if isinstance(value, list) else value


def _edge(value: Any, label: str) -> Any:
    """The inputs or outputs of a model: one record, or lists and dicts of them."""
    if value is None:
        return []
    if isinstance(value, list) and value and isinstance(value[0], str):
        return _reference(value, label)
    if isinstance(value, list):
        return [_edge(v, label) for v in value]
    if isinstance(value, dict):
        return {k: _edge(v, label) for k, v in value.items()}
    raise ModelError(f"{label}: {str(value)[:60]!r} is no input or output")


def _reference(record: Any, label: str) -> Ref:
    if isinstance(record, list) and len(record) >= 3 and isinstance(record[0], str):
        name, node, tensor = record[:3]
        if _is_index(node) and _is_index(tensor):
            return Ref(name, node, tensor)
    raise ModelError(f"{label}: {str(record)[:60]!r} is no reference to a layer")


def _is_index(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 31


def _refs_in(value: Any) -> Iterator[Ref]:
    for leaf in leaves(value):
        if isinstance(leaf, Ref):
            yield leaf
