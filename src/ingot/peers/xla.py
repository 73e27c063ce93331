"""XLA's ahead-of-time objects: TensorFlow's `saved_model_cli aot_compile_cpu`, for this processor.

What it makes is linked with the runtime that TensorFlow ships as source: compiled once, with g++ for this
processor, in some minutes, and kept like the objects. Images go in and come out channels-last, as models of
TensorFlow have them: turning them is not timed.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import tensorflow as tf

from ingot.peers.job import Array, Job, Native, Refused
from ingot.peers.tensorflow import IMAGE, function_of, laid_out

TRIPLE, CPU = "x86_64-unknown-linux-gnu", "znver4"
FLAGS = ("-std=c++17", "-O3", "-march=znver3", "-fPIC", "-w")  # gcc 12 does not compile Eigen for AVX-512
RUNTIME = (
    "xla/backends/cpu/runtime/convolution_lib_f32_2d",
    "xla/backends/cpu/runtime/dot_lib_f32",
    "tensorflow/compiler/tf2xla/allocator",
    "tensorflow/compiler/tf2xla/xla_compiled_cpu_function",
    "xla/executable_run_options",
    "xla/service/custom_call_status",
    "xla/tsl/platform/default/env_time",
    "xla/tsl/concurrency/async_value",
    "xla/tsl/concurrency/async_value_ref",
)
"""What float32 nets call; the other sources are other types, sorting and random numbers."""
SHARED = ("-l:libtensorflow_framework.so.2", "-l:libtensorflow_cc.so.2")  # for what the runtime leaves open
SHIM = """\
#include "net.h"
extern "C" void *peer_make(void) {{ return new Net(); }}
extern "C" void peer_bind(Net *n, const void *const *p) {{ {binds} }}
extern "C" long peer_run(Net *n) {{ return n->Run() ? 0 : 1; }}
extern "C" void peer_results(Net *n, const void **p) {{ {results} }}
"""
SUCCESS_MASK = 0xFF
ALIGNMENT = 64


@contextmanager
def open_session(job: Job) -> Iterator[Native]:
    """The object, with its arguments bound."""
    library = ctypes.CDLL(str(_compiled(job)))
    library.peer_make.restype = ctypes.c_void_p
    net = ctypes.c_void_p(library.peer_make())
    given = [_aligned(laid_out(a)) for a in job.inputs.values()]
    library.peer_bind(net, (ctypes.c_void_p * len(given))(*(a.ctypes.data for a in given)))

    def read() -> dict[str, Array]:
        places = (ctypes.c_void_p * len(job.outputs))()
        library.peer_results(net, places)
        return {n: _output(p, like) for p, (n, like) in zip(places, job.outputs.items(), strict=True)}

    run = ctypes.cast(library.peer_run, ctypes.c_void_p).value
    assert run is not None, "a symbol that was found has an address"
    yield Native(job, run, (net,), read, mask=SUCCESS_MASK, raised=_failed)
    del given


def _failed(answer: int) -> None:
    raise Refused(f"Run answered {answer}")


def _output(place: int, like: Array) -> Array:
    shape = laid_out(like).shape
    flat = np.ctypeslib.as_array((ctypes.c_float * like.size).from_address(place))
    made: Array = flat.reshape(shape).copy()
    return np.moveaxis(made, -1, 1).copy() if like.ndim == IMAGE else made


def _compiled(job: Job) -> Path:
    """A shared library of the model's objects, the runtime and a shim."""
    version = importlib.metadata.version("tensorflow-cpu")
    made = f"{version}\0{CPU}\0{FLAGS}\0{SHIM}".encode() + Path(job.model).read_bytes()
    cache = Path(job.cache) / "xla"
    cache.mkdir(parents=True, exist_ok=True)
    library = cache / f"{hashlib.sha256(made).hexdigest()[:24]}.so"
    if not library.exists():
        runtime = _runtime(cache / f"runtime-{version}.a")
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            os.replace(_built(job, Path(folder), runtime), library)
    return library


def _built(job: Job, folder: Path, runtime: Path) -> Path:
    if any(a.dtype != np.float32 for a in (*job.inputs.values(), *job.outputs.values())):
        raise Refused("inputs and outputs of float32 only")
    _save(onnx.load(job.model), job, folder / "saved")
    tool = (str(Path(sys.executable).parent / "saved_model_cli"), "aot_compile_cpu")
    which = ("--dir", str(folder / "saved"), "--tag_set", "serve", "--signature_def_key", "serving_default")
    how = ("--target_triple", TRIPLE, "--target_cpu", CPU, "--multithreading", "False")
    _run([*tool, *which, "--output_prefix", str(folder / "net"), "--cpp_class", "Net", *how])
    binds = " ".join(f"n->set_arg_feed_in{i}_data(p[{i}]);" for i in range(len(job.inputs)))
    results = " ".join(f"p[{i}] = n->result_fetch_out{i}_data();" for i in range(len(job.outputs)))
    (folder / "shim.cc").write_text(SHIM.format(binds=binds, results=results))
    objects = [str(o) for o in sorted(folder.glob("*.o"))]
    home, made = _home(), folder / "net.so"
    sources = ("-shared", f"-I{folder}", f"-I{home}/include", str(folder / "shim.cc"), *objects, str(runtime))
    link = ("-o", str(made), f"-L{home}", *SHARED, f"-Wl,-rpath,{home}", "-Wl,--no-undefined")
    _run(["g++", *FLAGS, *sources, *link])
    return made


def _save(model: onnx.ModelProto, job: Job, to: Path) -> None:
    shapes = [laid_out(a).shape for a in job.inputs.values()]
    module = tf.Module()
    signature = [tf.TensorSpec(s, tf.float32, name=f"in{i}") for i, s in enumerate(shapes)]
    module.net = tf.function(function_of(model, list(job.inputs)), input_signature=signature)
    tf.saved_model.save(module, str(to), signatures={"serving_default": module.net})


def _runtime(archive: Path) -> Path:
    """The sources beside the wheel's headers, compiled; kept, as it takes minutes."""
    if archive.exists():
        return archive
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        objects = []
        for source in RUNTIME:
            objects.append(f"{folder}/{Path(source).name}.o")
            where = f"{_home()}/xla_aot_runtime_src/{source}.cc"
            _run(["g++", *FLAGS, f"-I{_home()}/include", "-c", where, "-o", objects[-1]])
        _run(["ar", "rcs", f"{folder}/runtime.a", *objects])
        os.replace(f"{folder}/runtime.a", archive)
    return archive


def _home() -> Path:
    return Path(tf.__file__).parent


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "rror" in line] or [f"status {done.returncode}"]
        raise Refused(f"{Path(command[0]).name}: {said[0][:300]}")


def _aligned(like: Array) -> Array:
    """A copy at an address that XLA asks for."""
    raw = np.zeros(like.nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    made: Array = raw[start : start + like.nbytes].view(like.dtype).reshape(like.shape)
    made[...] = like
    return made
