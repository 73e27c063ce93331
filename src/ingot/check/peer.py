"""onnxruntime, timed as fairly as a bundle is: called through its C API, from a loop in C.

In: a model's message and inputs. Out: a `Peer` that runs it and takes samples. Called by `bench`. Python
makes the session and the tensors; a few lines of C, built by the pinned compiler, call `Run` and read the
clock, so that no interpreter stands between two inferences. The wheel holds the library but no header:
functions are called by their place in the table `OrtApi`, which onnxruntime promises never to change.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ingot.bundle.run import load_library
from ingot.check.oracle import stamped
from ingot.errors import UnsupportedError
from ingot.formula.expr import Array
from ingot.formula.types import dtype_of
from ingot.graph.onnx_types import dtype_to_onnx
from ingot.targets.records import native
from ingot.targets.toolchain import compile_c, exported, link_shared

API_VERSION = 16
SLOTS = {
    "GetErrorMessage": 2,
    "CreateEnv": 3,
    "CreateSessionFromArray": 8,
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

TIMER = """
typedef __SIZE_TYPE__ size;
typedef void *(*run_fn)(void *session, void *options, const char **inputs, void **values, size n,
                        const char **outputs, size m, void **results);
typedef int (*clock_fn)(int, long *);
/* nanoseconds per call of `samples` samples of `inner` calls each; a status that is not null ends it */
void *peer_time(run_fn run, void *session, const char **inputs, void **values, size n, const char **outputs,
                size m, void **results, clock_fn now, double *ns, int samples, int inner)
{
    for (int s = 0; s < samples; s++) {
        long t0[2], t1[2];
        now(1, t0);
        for (int i = 0; i < inner; i++) {
            void *status = run(session, 0, inputs, values, n, outputs, m, results);
            if (status) return status;
        }
        now(1, t1);
        ns[s] = ((double)(t1[0] - t0[0]) * 1e9 + (double)(t1[1] - t0[1])) / inner;
    }
    return 0;
}
"""


class _Api:
    """The functions of OrtApi, by name."""

    def __init__(self) -> None:
        base = _library().OrtGetApiBase
        base.restype = ctypes.POINTER(ctypes.c_void_p)
        get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(base()[0])
        table = get_api(API_VERSION)
        if not table:
            raise UnsupportedError(f"onnxruntime does not offer version {API_VERSION} of its C API")
        self._table = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))

    def address(self, name: str) -> int:
        return int(self._table[SLOTS[name]] or 0)

    def call(self, name: str, *arguments: Any) -> Any:
        """What the function returns: a status, or nothing from the functions that release."""
        return ctypes.CFUNCTYPE(ctypes.c_void_p, *map(type, arguments))(self.address(name))(*arguments)

    def require(self, status: Any) -> None:
        """Raise UnsupportedError with the message of a status that is not null."""
        if status:
            at = ctypes.c_void_p(status)
            text = ctypes.string_at(self.call("GetErrorMessage", at)).decode(errors="replace")
            self.call("ReleaseStatus", at)
            raise UnsupportedError(f"onnxruntime: {text.splitlines()[0]}")

    def make(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """The object that a Create function writes through its last parameter."""
        made = ctypes.c_void_p()
        self.require(self.call(name, *arguments, ctypes.pointer(made)))
        return made


def _library() -> ctypes.CDLL:
    try:
        import onnxruntime
    except ImportError:
        raise UnsupportedError("onnxruntime is not installed; pip install onnxruntime") from None
    folder = Path(onnxruntime.__file__).parent / "capi"
    found = sorted(folder.glob("libonnxruntime.so.*"))
    if not found:
        raise UnsupportedError(f"this onnxruntime has no shared library in {folder}")
    return ctypes.CDLL(str(found[0]))


@contextmanager
def onnxruntime_peer(
    model: onnx.ModelProto, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
) -> Iterator[Peer]:
    """A session on one thread with all optimisations; `outputs` are arrays of the right types to write to."""
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
        data = stamped(model)
        size = ctypes.c_size_t(len(data))
        session = make("Session", "CreateSessionFromArray", env, ctypes.c_char_p(data), size, options)
        kinds = (ctypes.c_int(ARENA_ALLOCATOR), ctypes.c_int(DEFAULT_MEMORY))
        memory = make("MemoryInfo", "CreateCpuMemoryInfo", *kinds)

        def tensor(array: Array) -> int:
            shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
            place = (ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
            rank, dtype = ctypes.c_size_t(array.ndim), ctypes.c_int(dtype_to_onnx(dtype_of(array)))
            create = "CreateTensorWithDataAsOrtValue"
            value = make("Value", create, memory, *place, ctypes.pointer(shape), rank, dtype).value
            assert value is not None, "a tensor was made"
            return value

        given = {n: np.ascontiguousarray(a) for n, a in inputs.items()}
        written = {n: np.zeros_like(a) for n, a in outputs.items()}
        bound = [_named({n: tensor(a) for n, a in part.items()}) for part in (given, written)]
        yield Peer(api, session, bound[0], bound[1], given, written)
    finally:
        for kind, thing in reversed(made):
            api.call(f"Release{kind}", thing)


Names = tuple[Any, Any, ctypes.c_size_t]


def _named(values: Mapping[str, int]) -> Names:
    """Names, values and count as `Run` takes them."""
    names = (ctypes.c_char_p * max(len(values), 1))(*(n.encode() for n in values))
    places = (ctypes.c_void_p * max(len(values), 1))(*values.values())
    return names, places, ctypes.c_size_t(len(values))


class Peer:
    """A session bound to its inputs and outputs."""

    def __init__(
        self,
        api: _Api,
        session: ctypes.c_void_p,
        inputs: Names,
        outputs: Names,
        given: Mapping[str, Array],
        written: dict[str, Array],
    ) -> None:
        self._api, self._session, self._given, self._written = api, session, given, written
        self._arguments = (session, *inputs, outputs[0], outputs[2], outputs[1])
        harness = compile_c(TIMER, native(), name="peer.c", relocation="pic")
        self._library = load_library(link_shared([harness], ["peer_time"]))
        self._time = getattr(self._library, exported("peer_time"))
        self._time.restype = ctypes.c_void_p

    def run(self) -> dict[str, Array]:
        """The outputs of one inference."""
        self._sample(1, 1)
        return {n: a.copy() for n, a in self._written.items()}

    def time(self, repeat: int) -> list[float]:
        """Seconds per inference of `repeat` samples, each of at least 20 us."""
        fastest = min(self._sample(3, 1))
        inner = int(np.clip(2e4 / max(fastest, 1.0), 1, 10000))
        return [v * 1e-9 for v in self._sample(repeat, inner)]

    def _sample(self, samples: int, inner: int) -> list[float]:
        ns = np.zeros(samples)
        clock = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p)
        run = ctypes.c_void_p(self._api.address("Run"))
        counts = (ctypes.c_int(samples), ctypes.c_int(inner))
        to = ctypes.c_void_p(ns.ctypes.data)
        self._api.require(self._time(run, *self._arguments, clock, to, *counts))
        found: list[float] = ns.tolist()
        return found
