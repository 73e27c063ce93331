"""Files of Keras' written without Keras: archives of version 3, HDF5 of version 2 and of 3's old way."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Array = np.ndarray[Any, Any]
Lists = Mapping[str, Sequence[tuple[str, Array]]]


def archive(path: Path, config: Any, weights: Mapping[str, Array], version: str = "3.15.1") -> Path:
    """A .keras file; `weights` by their paths, as in layers/dense/vars/0."""
    data = io.BytesIO()
    with h5py.File(data, "w") as file:
        for name, array in weights.items():
            file.create_dataset(name, data=array)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("metadata.json", json.dumps({"keras_version": version}))
        made.writestr("config.json", json.dumps(config))
        made.writestr("model.weights.h5", data.getvalue())
    return path


def hdf5(path: Path, config: Any, lists: Lists, version: str = "2.11.0") -> Path:
    """A .h5 file; `lists` has a layer's weights by name, in order."""
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"], file.attrs["backend"] = version, "tensorflow"
        file.attrs["model_config"] = json.dumps(config)
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [name.encode() for name in lists]
        for layer, arrays in lists.items():
            inner = group.create_group(layer)
            inner.attrs["weight_names"] = [name.encode() for name, _ in arrays]
            for name, array in arrays:
                inner.create_dataset(name, data=array)
    return path


def sequential(*layers: dict[str, Any]) -> dict[str, Any]:
    """A Sequential as Keras 2 writes it: (class, config) each with a name."""
    return {"class_name": "Sequential", "config": {"name": "net", "layers": list(layers)}}


def layer(kind: str, name: str, *read: str, **config: Any) -> dict[str, Any]:
    """One layer; `read` are the layers that its one call reads, for a Functional model."""
    made: dict[str, Any] = {"class_name": kind, "config": {"name": name, "trainable": True, **config}}
    if read:
        made |= {"name": name, "inbound_nodes": [[[r, 0, 0, {}] for r in read]]}
    elif kind == "InputLayer":
        made |= {"name": name, "inbound_nodes": []}
    return made


def functional(inputs: Sequence[str], outputs: Sequence[str], *layers: dict[str, Any]) -> dict[str, Any]:
    """A Functional model as Keras 2 writes it."""
    ends = {"input_layers": [[n, 0, 0] for n in inputs], "output_layers": [[n, 0, 0] for n in outputs]}
    return {"class_name": "Functional", "config": {"name": "net", "layers": list(layers), **ends}}
