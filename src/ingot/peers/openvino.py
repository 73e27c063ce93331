"""OpenVINO, called through its C API. One thread, one stream, for latency, float32 kept as float32."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ingot.peers.job import Array, Job, Native, Refused

STATUS = 0xFFFFFFFF  # an enum
PROPERTIES = {
    "PERFORMANCE_HINT": "LATENCY",
    "INFERENCE_NUM_THREADS": "1",
    "NUM_STREAMS": "1",
    "INFERENCE_PRECISION_HINT": "f32",
    "ENABLE_CPU_PINNING": "NO",
}


class _Api:
    """The C library; every function answers a status."""

    def __init__(self) -> None:
        import openvino

        found = sorted((Path(openvino.__file__).parent / "libs").glob("libopenvino_c.so*"))
        if not found:
            raise Refused("this openvino has no C library")
        self.library = ctypes.CDLL(str(found[0]))
        self.library.ov_get_last_err_msg.restype = ctypes.c_char_p

    def make(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """The object that a function writes through its last parameter."""
        made = ctypes.c_void_p()
        self.call(function, *arguments, ctypes.byref(made))
        return made

    def call(self, function: str, *arguments: Any) -> None:
        self.require(getattr(self.library, function)(*arguments))

    def require(self, status: int) -> None:
        """Raise Refused with the library's last message if a status is not 0."""
        if status:
            said = (self.library.ov_get_last_err_msg() or b"").decode(errors="replace").split()
            raise Refused(" ".join(said)[:300] or f"status {status}")


@contextmanager
def open_session(job: Job) -> Iterator[Native]:
    """A request whose tensors are OpenVINO's own; the inputs are copied into them once."""
    api = _Api()
    core = api.make("ov_core_create")
    model = api.make("ov_core_read_model", core, job.model.encode(), None)
    compiled = ctypes.c_void_p()
    words = [ctypes.c_char_p(word.encode()) for pair in PROPERTIES.items() for word in pair]
    count = ctypes.c_size_t(len(words))
    api.call("ov_core_compile_model", core, model, b"CPU", count, ctypes.byref(compiled), *words)
    request = api.make("ov_compiled_model_create_infer_request", compiled)

    def place(name: str, array: Array) -> int:
        """Where the request keeps a tensor, which must be as large as ours."""
        tensor = api.make("ov_infer_request_get_tensor", request, name.encode())
        size = ctypes.c_size_t()
        api.call("ov_tensor_get_byte_size", tensor, ctypes.byref(size))
        if size.value != array.nbytes:
            raise Refused(f"{name} takes {size.value} bytes there and {array.nbytes} here")
        return int(api.make("ov_tensor_data", tensor).value or 0)

    def outputs() -> dict[str, Array]:
        found = {name: like.copy() for name, like in job.outputs.items()}
        for name, array in found.items():
            ctypes.memmove(array.ctypes.data, place(name, array), array.nbytes)
        return found

    for name, array in job.inputs.items():
        ctypes.memmove(place(name, array), array.ctypes.data, array.nbytes)
    infer = ctypes.cast(api.library.ov_infer_request_infer, ctypes.c_void_p).value
    assert infer is not None, "the library has the function"
    try:
        yield Native(job, infer, (request,), outputs, mask=STATUS, raised=api.require)
    finally:
        for free, thing in (
            ("ov_infer_request_free", request),
            ("ov_compiled_model_free", compiled),
            ("ov_model_free", model),
            ("ov_core_free", core),
        ):
            getattr(api.library, free)(thing)
