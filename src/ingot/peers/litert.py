"""LiteRT with XNNPACK on one thread. The wheel shows no C interface: `invoke` is called from Python.

Images go in and come out channels-last, as LiteRT's own models have them: turning them is not timed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import onnx
from ai_edge_litert.interpreter import Interpreter

from ingot.peers.job import Array, Called, Job
from ingot.peers.tflite import IMAGE, flatbuffer, laid_out


@contextmanager
def open_session(job: Job) -> Iterator[Called]:
    """An interpreter with its inputs set."""
    model = flatbuffer(onnx.load(job.model), job.inputs, list(job.outputs))
    interpreter = Interpreter(model_content=model, num_threads=1)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), job.inputs.values(), strict=True):
        interpreter.set_tensor(detail["index"], laid_out(array))
    indices = [detail["index"] for detail in interpreter.get_output_details()]

    def read() -> dict[str, Array]:
        found = {name: interpreter.get_tensor(i).copy() for name, i in zip(job.outputs, indices, strict=True)}
        return {n: np.moveaxis(a, -1, 1).copy() if a.ndim == IMAGE else a for n, a in found.items()}

    yield Called(interpreter.invoke, read)
