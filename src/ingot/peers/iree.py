"""IREE: compiled ahead of time for this processor, timed by its own `iree-benchmark-module`.

The wheel has no C interface; the tool repeats the module in C and reports means of MEAN_SECONDS or more.
Compiled modules are kept: large models take a minute.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ingot.peers.job import LONG_NS, Array, Job, Refused, first_line

MEAN_SECONDS = 0.02
MOST_MEANS = 8
OPTIONS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
)
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@contextmanager
def open_session(job: Job) -> Iterator[_Session]:
    """A module on `local-sync`: everything in the calling thread."""
    import iree.runtime

    module = _compiled(job)
    tool = Path(iree.runtime.__file__).parent.parent / "_runtime_libs" / "iree-benchmark-module"
    with tempfile.TemporaryDirectory(prefix="ingot-iree-") as folder:
        yield _Session(job, module, tool, Path(folder))


class _Session:
    def __init__(self, job: Job, module: Path, tool: Path, folder: Path) -> None:
        import iree.runtime as runtime

        self._job, config = job, runtime.Config("local-sync")
        hal = runtime.create_hal_module(config.vm_instance, config.device)
        loaded = runtime.VmModule.mmap(config.vm_instance, str(module))
        context = runtime.SystemContext(config=config, vm_modules=[hal, loaded])
        name = module.with_suffix(".name").read_text()
        self._function = context.modules.module[name]
        self._command = [str(tool), "--device=local-sync", f"--module={module}", f"--function={name}"]
        for i, array in enumerate(job.inputs.values()):
            np.save(folder / f"{i}.npy", array)
            self._command.append(f"--input=@{folder / f'{i}.npy'}")

    def run(self) -> dict[str, Array]:
        made = self._function(*self._job.inputs.values())
        results = made if isinstance(made, tuple | list) else [made]
        return {name: np.asarray(r) for name, r in zip(self._job.outputs, results, strict=True)}

    def time(self, repeat: int) -> list[float]:
        means = max(1, min(repeat, MOST_MEANS))
        said = _output(
            [
                *self._command,
                f"--benchmark_min_time={MEAN_SECONDS}s",
                f"--benchmark_repetitions={means}",
                "--benchmark_format=json",
            ]
        )
        found = json.loads(said[said.index("{") :])["benchmarks"]
        rows = [b for b in found if b.get("run_type", "iteration") == "iteration"]
        real = [float(b["real_time"]) * UNITS[b["time_unit"]] for b in rows]
        if min(real) < LONG_NS * 1e-9:
            return real
        return [float(b["cpu_time"]) * UNITS[b["time_unit"]] for b in rows]


def _compiled(job: Job) -> Path:
    """The module file, and beside it the name of its function."""
    version = importlib.metadata.version("iree-base-compiler")
    key = hashlib.sha256(f"{version}\0{OPTIONS}\0".encode() + Path(job.model).read_bytes()).hexdigest()
    folder = Path(job.cache) / "iree"
    folder.mkdir(parents=True, exist_ok=True)
    module = folder / f"{key[:24]}.vmfb"
    if module.exists() and module.with_suffix(".name").exists():
        return module
    with tempfile.TemporaryDirectory(dir=folder) as made:
        text, part = Path(made) / "model.mlir", Path(made) / "model.vmfb"
        _output([sys.executable, "-m", "iree.compiler.tools.import_onnx", job.model, "-o", str(text)])
        with text.open() as file:
            found = re.search(r'func\.func @([\w$.\-]+|"[^"]+")\(', file.read(100_000))
        if found is None:
            raise Refused("the imported model has no function")
        compiler = [sys.executable, "-m", "iree.compiler.tools.scripts.iree_compile"]
        _output([*compiler, str(text), *OPTIONS, "-o", str(part)])
        module.with_suffix(".name").write_text(found[1].strip('"'))
        os.replace(part, module)
    return module


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error" in line.lower()] or [done.stderr]
        raise Refused(f"{Path(command[2]).name}: {first_line(Exception(said[0]))}")
    return done.stdout
