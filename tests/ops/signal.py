"""Rows of windows and mel weights."""

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from tests.ops.rows import Array, Row


def windows() -> Iterator[Row]:
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for n in (1, 10, 17):
            for periodic in (0, 1):
                if op == "BlackmanWindow" and n == 1:
                    continue
                if n > 1 or periodic:
                    yield Row(op, [np.array(n)], {"periodic": periodic}, constant=[0], tolerance=1e-6)
        yield Row(op, [np.array(9)], declared=[(9,)], note="runtime", tolerance=1e-6)
        double = {"output_datatype": TensorProto.DOUBLE}
        yield Row(op, [np.array(9)], double, constant=[0], tolerance=1e-6)


def mel(*values: float) -> list[Array]:
    return [np.array(v, np.int64) for v in values[:3]] + [np.array(v, np.float32) for v in values[3:]]


NOTHING = [np.zeros(1, np.float32)]  # onnxruntime: 1.5e-8
ROWS = [
    *windows(),
    Row("BlackmanWindow", [np.array(1)], constant=[0], oracle=NOTHING, tolerance=0, note="ends at zero"),
    Row(
        "HannWindow", [np.array(4)], {"output_datatype": TensorProto.INT32}, constant=[0], oracle="reference"
    ),
    Row("MelWeightMatrix", mel(8, 16, 8192, 0, 4096), constant=range(5), opset=17),
    Row("MelWeightMatrix", mel(8, 16, 8192, 0, 4096), declared=[(9, 8)], opset=17, note="runtime"),
    Row("MelWeightMatrix", mel(20, 512, 16000, 80, 7600), constant=[0, 1], opset=17),
    Row(
        "MelWeightMatrix",
        mel(5, 64, 8000, 20, 4000),
        {"output_datatype": TensorProto.DOUBLE},
        constant=range(5),
        opset=17,
    ),
]
