"""One small model of each format that Ingot reads without its framework, written by the tests' own writers.

The models are files only: nothing of this package is needed where they are compiled.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from tests.frontends.test_caffe2 import fill, net
from tests.keras.files import archive, hdf5, layer, sequential
from tests.tensorflow.graphs import FLOAT, Graph, save_model
from tests.tflite.writer import Op, T, model

RNG = np.random.default_rng(4)
COLUMNS = 3


def _weights() -> np.ndarray:
    return RNG.standard_normal((4, COLUMNS)).astype(np.float32)


def keras(path: Path) -> Path:
    """A Dense layer as Keras 3 saves it, and in the same folder as Keras 2 did (`net.h5`)."""
    bias = np.zeros(COLUMNS, np.float32)
    dense = layer("Dense", "d", batch_input_shape=[None, 4], units=COLUMNS, activation="relu")
    config = sequential(dense)
    hdf5(path.with_suffix(".h5"), config, {"d": [("d/kernel:0", _weights()), ("d/bias:0", bias)]})
    weights = {"layers/dense/vars/0": _weights(), "layers/dense/vars/1": bias}
    return archive(path, config, weights)


def tflite(path: Path) -> Path:
    """A fully connected layer in floats."""
    tensors = [
        T("FLOAT32", (1, 4)),
        T("FLOAT32", (COLUMNS, 4), data=_weights().T),
        T("FLOAT32", (1, COLUMNS)),
    ]
    path.write_bytes(
        model(tensors, [Op("FULLY_CONNECTED", (0, 1, -1), (2,), "FullyConnectedOptions")], (0,), (2,))
    )
    return path


def tensorflow(path: Path) -> Path:
    """A frozen graph: a matrix product and a ReLU."""
    graph = Graph()
    graph.input("x", 1, 4)
    graph.const("w", _weights())
    graph.node("p", "MatMul", "x", "w", T=FLOAT)
    graph.node("y", "Relu", "p", T=FLOAT)
    return graph.save(path)


def caffe2(folder: Path) -> Path:
    """Two nets in a folder, as Caffe2 exported them."""
    folder.mkdir()
    init = net(fill("w", _weights().T), fill("b", np.zeros(COLUMNS, np.float32)))
    predict = net(("FC", "x w b", "h", {}), ("Relu", "h", "y", {}), outputs="y")
    (folder / "init_net.pb").write_bytes(init.SerializeToString())
    (folder / "predict_net.pb").write_bytes(predict.SerializeToString())
    return folder


def write_models(folder: Path) -> dict[str, Path]:
    """Write every model and a picture of 8x8 pixels into a folder; return their paths by format."""
    Image.fromarray(RNG.integers(0, 255, (8, 8), np.uint8)).save(folder / "picture.png")
    return {
        "keras": keras(folder / "net.keras"),
        "tflite": tflite(folder / "net.tflite"),
        "tensorflow": tensorflow(folder / "net.pb"),
        "SavedModel": save_model(folder / "saved", _weights(), rows=1),
        "caffe2": caffe2(folder / "caffe2"),
    }
