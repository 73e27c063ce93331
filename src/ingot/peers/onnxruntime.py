"""onnxruntime, called through its C API. One thread, all graph optimisations, tensors bound in advance.

The wheel holds the library but no header: functions are called by their place in the table `OrtApi`, which
onnxruntime promises never to change.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ingot.peers.job import Array, Job, Native, Refused

API_VERSION = 16
SLOTS = {
    "GetErrorMessage": 2,
    "CreateEnv": 3,
    "CreateSession": 7,
    "Run": 9,
    "CreateSessionOptions": 10,
    "SetIntraOpNumThreads": 24,
    "SetInterOpNumThreads": 25,
    "CreateTensorWithDataAsOrtValue": 49,
    "CreateCpuMemoryInfo": 69,
    "ReleaseEnv": 92,
    "ReleaseStatus": 93,
    "ReleaseMemoryInfo": 94,
    "ReleaseSession": 95,
    "ReleaseValue": 96,
    "ReleaseSessionOptions": 100,
}
ERROR_LEVEL, ARENA_ALLOCATOR, DEFAULT_MEMORY = 3, 1, 0
WHOLE_WORD = (1 << 8 * ctypes.sizeof(ctypes.c_void_p)) - 1  # a status is a pointer


class _Api:
    """The functions of OrtApi, by name."""

    def __init__(self) -> None:
        base = _library().OrtGetApiBase
        base.restype = ctypes.POINTER(ctypes.c_void_p)
        get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(base()[0])
        table = get_api(API_VERSION)
        if not table:
            raise Refused(f"no version {API_VERSION} of the C API")
        self._table = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))

    def address(self, name: str) -> int:
        return int(self._table[SLOTS[name]] or 0)

    def call(self, name: str, *arguments: Any) -> Any:
        """What the function returns: a status, or nothing from the functions that release."""
        return ctypes.CFUNCTYPE(ctypes.c_void_p, *map(type, arguments))(self.address(name))(*arguments)

    def require(self, status: Any) -> None:
        """Raise Refused with the message of a status that is not null."""
        if status:
            at = ctypes.c_void_p(status)
            text = ctypes.string_at(self.call("GetErrorMessage", at)).decode(errors="replace")
            self.call("ReleaseStatus", at)
            raise Refused(text.splitlines()[0])

    def make(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """The object that a Create function writes through its last parameter."""
        made = ctypes.c_void_p()
        self.require(self.call(name, *arguments, ctypes.pointer(made)))
        return made


def _library() -> ctypes.CDLL:
    import onnxruntime

    folder = Path(onnxruntime.__file__).parent / "capi"
    found = sorted(folder.glob("libonnxruntime.so.*"))
    if not found:
        raise Refused(f"no shared library in {folder}")
    return ctypes.CDLL(str(found[0]))


@contextmanager
def open_session(job: Job) -> Iterator[Native]:
    """A session that reads the job's inputs where they are and writes arrays of its own."""
    api = _Api()
    made: list[tuple[str, ctypes.c_void_p]] = []

    def make(kind: str, create: str, *arguments: Any) -> ctypes.c_void_p:
        made.append((kind, api.make(create, *arguments)))
        return made[-1][1]

    try:
        env = make("Env", "CreateEnv", ctypes.c_int(ERROR_LEVEL), ctypes.c_char_p(b"ingot"))
        options = make("SessionOptions", "CreateSessionOptions")
        for setting in ("SetIntraOpNumThreads", "SetInterOpNumThreads"):
            api.require(api.call(setting, options, ctypes.c_int(1)))
        session = make("Session", "CreateSession", env, ctypes.c_char_p(job.model.encode()), options)
        kinds = (ctypes.c_int(ARENA_ALLOCATOR), ctypes.c_int(DEFAULT_MEMORY))
        memory = make("MemoryInfo", "CreateCpuMemoryInfo", *kinds)

        def tensor(array: Array) -> int:
            shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
            place = (ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
            dtype = ctypes.c_int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
            create, rank = "CreateTensorWithDataAsOrtValue", ctypes.c_size_t(array.ndim)
            value = make("Value", create, memory, *place, ctypes.pointer(shape), rank, dtype).value
            assert value is not None, "a tensor was made"
            return value

        if any(np.asarray(a).dtype == object for a in job.outputs.values()):
            raise Refused("outputs that are strings, sequences or maps cannot be given their place")
        given = {n: np.ascontiguousarray(a) for n, a in job.inputs.items()}
        written = {n: np.zeros_like(a) for n, a in job.outputs.items()}
        inputs, outputs = (_named({n: tensor(a) for n, a in part.items()}) for part in (given, written))
        arguments = (session, 0, *inputs, outputs[0], outputs[2], outputs[1])
        yield Native(
            job,
            api.address("Run"),
            arguments,
            lambda: {n: a.copy() for n, a in written.items()},
            mask=WHOLE_WORD,
            raised=api.require,
        )
    finally:
        for kind, thing in reversed(made):
            api.call(f"Release{kind}", thing)


def _named(values: Mapping[str, int]) -> tuple[Any, Any, ctypes.c_size_t]:
    """Names, values and count as `Run` takes them."""
    names = (ctypes.c_char_p * max(len(values), 1))(*(n.encode() for n in values))
    places = (ctypes.c_void_p * max(len(values), 1))(*values.values())
    return names, places, ctypes.c_size_t(len(values))
