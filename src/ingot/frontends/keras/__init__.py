"""Keras' files without Keras or TensorFlow. In: a path; out: canonical ONNX, as a ModelProto.

`.keras` archives, and `.h5` files of Keras 2 and 3, of Sequential and Functional models. The model's edge
is as Keras has it: names, channels last, the batch in front.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import onnx

from ingot.errors import UnsupportedError
from ingot.frontends.keras import layers as _layers  # enters them in the table
from ingot.frontends.keras.archive import open_source
from ingot.frontends.keras.configs import layer_of
from ingot.frontends.keras.importing import import_model
from ingot.frontends.keras.table import CUSTOM, Call, Kind, Mapping, Weights, no_weights
from ingot.frontends.keras.weights import Spec

__all__ = ["Call", "Spec", "import_keras", "register"]
assert _layers


def import_keras(path: Path, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> onnx.ModelProto:
    """The ONNX of a model of Keras'.

    `inputs` are NAME:SHAPE for extents that the model leaves open (an open batch is 1 without a word);
    `outputs` are names of layers, where others than the model's own are wanted. Raises InputError for what
    cannot be read or imported.
    """
    source = open_source(path)
    try:
        return import_model(source, layer_of(source.config, source.label), inputs, outputs)
    except RecursionError:
        raise UnsupportedError(f"{path}: layers and models are nested too deeply") from None


def register(name: str, *, weights: Weights = no_weights, mask: str = "drop") -> Callable[[Mapping], Mapping]:
    """Say what a class of your own computes, by its registered name ("Package>Name") or the class's name.

    The function gets a `Call` and returns an `ingot.frontends.orders.Tensor`, or lists and dicts of them;
    `weights` returns a `Spec` of the layer's variables in the order in which it creates them. See
    docs/keras.md.
    """

    def enter(mapping: Mapping) -> Mapping:
        CUSTOM[name] = Kind(mapping, weights, mask)
        return mapping

    return enter
