"""The runtimes a bundle is measured against: one small adapter module each, imported in a process of its own.

An adapter has a function `open_session(job)`, a context manager that yields a `Session`. It runs in a worker
process, where only the standard library, numpy, onnx and the peer itself need be installed: adapters import
nothing else, and nothing of Ingot's but what stands in this package. `check/opponent.py` starts the workers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """`module` holds the adapter, `package` is what pip installs, `needs` what it installs besides."""

    module: str
    package: str
    needs: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """How a user gets it."""
        return f"pip install {' '.join((self.package, *self.needs))}"


KINDS = {
    "onnxruntime": Kind("onnxruntime", "onnxruntime"),
    "openvino": Kind("openvino", "openvino"),
    "tvm": Kind("tvm", "apache-tvm"),
    "iree": Kind("iree", "iree-base-compiler", ("iree-base-runtime",)),
    "torch": Kind("torch", "torch"),
    "litert": Kind("litert", "ai-edge-litert", ("flatbuffers",)),
    "xla": Kind("xla", "tensorflow-cpu"),
}
SOURCE = Kind("source", "")
"""C from disk, as onnx2c and others generate it: `c:PATH.c`."""
PREFIX = "c:"
