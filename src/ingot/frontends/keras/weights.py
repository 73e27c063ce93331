"""Which variables a layer has, and where a file keeps them. In: specifications; out: a tree of variables.

A `.keras` file keeps a layer's variables by number below the layer's own path, `layers/dense_1/vars/0`, where
the name is that of the class, counted; an `.h5` file keeps a list for each layer of the model, those that are
trained first. Both become the same tree, from which a variable is read once when a layer asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ingot.errors import ModelError
from ingot.formula.expr import Array
from ingot.frontends.keras.hdf5 import Hdf5

OLD_LAYERS = "_layer_checkpoint_dependencies"


@dataclass(frozen=True, slots=True)
class Spec:
    """Variables in the order of their creation: trained ones, others, and layers inside by attribute.

    `is_trained` is the layer's own word; `is_model`: the layers inside are those of a model; `repeated`:
    how many variables of a layer inside a `.keras` file has here once more, before the layer's own.
    """

    own: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    inside: tuple[tuple[str, Spec], ...] = ()
    is_trained: bool = True
    is_model: bool = False
    repeated: int = 0


@dataclass(slots=True, eq=False)
class Tree:
    """The variables of one layer, by name: paths in `file`; and those of layers inside it."""

    file: Hdf5 | None = None
    paths: dict[str, str] = field(default_factory=dict)
    inside: dict[str, Tree] = field(default_factory=dict)
    read: dict[str, Array] = field(default_factory=dict)

    def variable(self, name: str, label: str) -> Array:
        """Raises ModelError where the file has none."""
        if name not in self.read:
            if self.file is None or name not in self.paths:
                raise ModelError(f"{label}: the file has no weights for its {name!r}")
            self.read[name] = self.file.array(self.paths[name])
        return self.read[name]

    def child(self, name: str) -> Tree:
        return self.inside.get(name) or Tree()


# ---- .keras


RENAMED = {"GroupQueryAttention": "GroupedQueryAttention"}  # a configuration has the one, paths the other


def snake_case(name: str) -> str:
    """
    >>> snake_case("MultiHeadAttention"), snake_case("Conv2D"), snake_case("ReLU")
    ('multi_head_attention', 'conv2d', 're_lu')
    """
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def counted(kinds: Sequence[str]) -> list[str]:
    """What a list of layers is called in a file: by class, and counted.

    >>> counted(["Dense", "ReLU", "Dense"])
    ['dense', 're_lu', 'dense_1']
    """
    used: dict[str, int] = {}
    names = []
    for kind in (snake_case(RENAMED.get(k, k)) for k in kinds):
        count = used.get(kind, 0)
        used[kind] = count + 1
        names.append(f"{kind}_{count}" if count else kind)
    return names


def by_number(file: Hdf5, spec: Spec, path: str, label: str) -> Tree:
    """The tree of a `.keras` file. Raises ModelError where there are more or fewer variables."""
    names = [*spec.own, *spec.other]
    held = [n for n in file.names(f"{path}/vars") if n.isdecimal()]
    first = spec.repeated if len(held) == len(names) + spec.repeated else 0
    if len(held) != len(names) + first and (held or names):
        raise ModelError(
            f"{label}: the file has {len(held)} weights in {path or '/'!r}, the configuration {len(names)}"
        )
    root = path
    if spec.is_model:
        root = f"{path}/{OLD_LAYERS if file.has(f'{path}/{OLD_LAYERS}') else 'layers'}"
    tree = Tree(file, {name: f"{path}/vars/{i}" for i, name in enumerate(names, first)})
    for name, child in spec.inside:
        where, _, _ = name.partition("=")
        if where and not file.has(f"{root}/{where}") and file.has(f"{root}/_{where}"):
            where = f"_{where}"  # Keras 3.0 to 3.3
        tree.inside[name] = by_number(file, child, f"{root}/{where}", f"{label}: {name}")
    return tree


# ---- .h5


def by_layer(file: Hdf5, spec: Spec, names: Sequence[str], prefix: str, label: str) -> Tree:
    """The tree of a `.h5` file: `names` are those of the layers that `spec` has inside, in order."""
    tree = Tree(file)
    for name, (key, child) in zip(names, spec.inside, strict=True):
        group = f"{prefix}/{name}"
        held = file.listed(group, "weight_names") or []
        paths = iter([f"{group}/{w}" for w in held])
        who = f"{label}: layer {name!r}"
        wanted = _count(child)
        if len(held) != wanted:
            raise ModelError(f"{who}: the file has {len(held)} weights, the configuration {wanted}")
        trained = _trained(file, child, paths, True)
        tree.inside[key] = _others(trained, child, paths, True)
    return tree


def _count(spec: Spec) -> int:
    return len(spec.own) + len(spec.other) + sum(_count(s) for _, s in spec.inside)


def _trained(file: Hdf5, spec: Spec, paths: Iterator[str], is_trained: bool) -> Tree:
    """First come all variables that are trained, of the layers inside too."""
    on = is_trained and spec.is_trained
    tree = Tree(file, dict(zip(spec.own, paths, strict=False)) if on else {})
    for key, child in spec.inside:
        tree.inside[key] = _trained(file, child, paths, on)
    return tree


def _others(tree: Tree, spec: Spec, paths: Iterator[str], is_trained: bool) -> Tree:
    """Then the rest, layer by layer."""
    on = is_trained and spec.is_trained
    rest = spec.other if on else (*spec.own, *spec.other)
    tree.paths.update(zip(rest, paths, strict=False))
    for key, child in spec.inside:
        _others(tree.inside[key], child, paths, on)
    return tree
