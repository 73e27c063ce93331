"""Apache TVM: imported through Relax, compiled by LLVM for this processor, timed by its own evaluator in C++.

As it comes: no schedules are tuned.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from ingot.peers.job import MOST_REPEATS, SAMPLE_NS, Array, Job


@contextmanager
def open_session(job: Job) -> Iterator[_Session]:
    """A Relax virtual machine on one thread."""
    module = from_onnx(onnx.load(job.model), keep_params_in_input=False)
    module = relax.transform.DecomposeOpsForInference()(module)
    target = tvm.target.Target({"kind": "llvm", "mcpu": _processor()})
    yield _Session(job, relax.VirtualMachine(tvm.compile(module, target), tvm.cpu()))


def _processor() -> str:
    """LLVM's name of this processor."""
    return str(tvm.get_global_func("target.llvm_get_system_cpu")())


class _Session:
    def __init__(self, job: Job, machine: Any) -> None:
        self._job, self._machine = job, machine
        self._inputs = [tvm.runtime.tensor(np.ascontiguousarray(a)) for a in job.inputs.values()]

    def run(self) -> dict[str, Array]:
        made = self._machine["main"](*self._inputs)
        results = [made] if hasattr(made, "numpy") else list(made)
        return {name: r.numpy() for name, r in zip(self._job.outputs, results, strict=True)}

    def time(self, repeat: int) -> list[float]:
        fastest = max(min(self._samples(1, 3)), 1e-9)
        inner = int(np.clip(SAMPLE_NS * 1e-9 / fastest, 1, MOST_REPEATS))
        return self._samples(inner, repeat)

    def _samples(self, number: int, repeat: int) -> list[float]:
        timer = self._machine.time_evaluator("main", tvm.cpu(), number=number, repeat=repeat)
        return [float(seconds) for seconds in timer(*self._inputs).results]
