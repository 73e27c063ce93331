"""Well-formed files of the other formats: TFLite, Keras, Caffe2, PyTorch; how they are read and mutated."""

from __future__ import annotations

import random
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format

from ingot.driver import front
from ingot.frontends.pytorch.archive import open_archive
from ingot.options import Options
from tests.frontends.caffe2_networks import NETWORKS, Network
from tests.frontends.test_caffe2 import described, fill, net
from tests.fuzz.containers import mutate_archive, mutate_hdf5, mutate_json, packed
from tests.fuzz.mutate import mutate_bytes
from tests.keras import files
from tests.pytorch import archives
from tests.tflite.cases import cases
from tests.tflite.test_variables import SAME, branch, grown

LITE = ("CONV_2D", "LSTM", "STRIDED", "SPLIT", "TRANSPOSE_CONV", "SVDF", "RESHAPE", "MEAN")
"""Beginnings of operators, one model of each."""


@cache
def lite() -> tuple[bytes, ...]:
    """Models of TFLite: of one operator each, and one with branches and a variable."""
    made = cases()
    first = (next((made[n] for n in sorted(made) if word in n.upper()), None) for word in LITE)
    return (*(data for data in first if data is not None), branch(grown(), SAME))


def weights(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


LAYERS = (
    files.layer("Conv2D", "c", batch_input_shape=[None, 6, 6, 2], filters=3, kernel_size=[3, 3]),
    files.layer("BatchNormalization", "b"),
    files.layer("LeakyReLU", "l", negative_slope=0.2),
    files.layer("Flatten", "f"),
    files.layer("Dense", "d", units=2, activation="softmax"),
)
CONV, NORM, DENSE = [weights(3, 3, 2, 3), weights(3)], [abs(weights(3))] * 4, [weights(48, 2), weights(2)]
NORMS = ("gamma", "beta", "moving_mean", "moving_variance")


@cache
def hdf5() -> tuple[bytes, ...]:
    """A Sequential in HDF5, as Keras 2 writes it."""
    named = {
        "c": list(zip(("c/kernel", "c/bias"), CONV, strict=True)),
        "b": list(zip((f"b/{n}" for n in NORMS), NORM, strict=True)),
        "l": [],
        "f": [],
        "d": list(zip(("d/kernel", "d/bias"), DENSE, strict=True)),
    }
    with tempfile.TemporaryDirectory() as folder:
        return (files.hdf5(Path(folder) / "m.h5", files.sequential(*LAYERS), named).read_bytes(),)


@cache
def keras() -> tuple[bytes, ...]:
    """The same as an archive of Keras 3."""
    parts = {"conv2d": CONV, "batch_normalization": NORM, "dense": DENSE}
    held = {f"layers/{k}/vars/{i}": a for k, arrays in parts.items() for i, a in enumerate(arrays)}
    with tempfile.TemporaryDirectory() as folder:
        path = files.archive(Path(folder) / "m.keras", files.sequential(*LAYERS), held)
        with zipfile.ZipFile(path) as read:
            return (packed({i.filename: read.read(i) for i in read.infolist()}),)


def mutate_keras(data: bytes, rng: random.Random) -> bytes:
    return mutate_archive(data, rng, _member)


def _member(name: str, data: bytes, rng: random.Random) -> bytes:
    if name.endswith(".json"):
        return mutate_json(data, rng)
    return mutate_hdf5(data, rng) if name.endswith(".h5") else mutate_bytes(data, rng)


def programs() -> tuple[bytes, ...]:
    """An archive of torch.export.save, without PyTorch."""
    return (packed({f"{archives.ROOT}/{name}": data for name, data in archives.members().items()}),)


def read_program(path: Path) -> object:
    """What Ingot itself reads of an archive, which is all that reaches PyTorch."""
    return open_archive(path)


# ---- Caffe2: two nets, one of which is the case


@cache
def nets() -> tuple[Any, Any, tuple[str, ...]]:
    """The nets of a small residual network, and what its inputs are."""
    made = Network(1)
    output = NETWORKS[next(iter(NETWORKS))](made)
    init = net(*(fill(w, array) for w, array in made.fills.items()))
    return init, net(*made.operators, outputs=output), described(made.inputs)


def put_init(folder: Path) -> None:
    (folder / "init_net.pb").write_bytes(nets()[0].SerializeToString())


def put_predict(folder: Path) -> None:
    (folder / "predict_net.pbtxt").write_bytes(as_text(nets()[1]))


def as_text(made: Any) -> bytes:
    return bytes(text_format.MessageToString(made).encode())


def read_nets(path: Path) -> object:
    return front(path.parent, Options(target="c99", name="net", model_inputs=nets()[2]))
