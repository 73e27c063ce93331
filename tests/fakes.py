"""Stand-ins for the peers' packages, so that their adapters run where the packages are not installed.

In: an empty folder. Out: an interpreter that finds the fakes in it. Every fake takes one model only, x + x of
four numbers, and does what the adapter asks of the real package in the least way. Called by test_bench.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

OPENVINO = """
#include <string.h>
static float x[4], y[4];
const char *ov_get_last_err_msg(void) { return "no such\\n tensor"; }
int ov_core_create(void **p) { *p = x; return 0; }
int ov_core_read_model(void *c, const char *path, const char *bin, void **p) { *p = x; return bin != 0; }
int ov_core_compile_model(void *c, void *m, const char *d, unsigned long n, void **p, ...)
{ *p = x; return strcmp(d, "CPU") != 0 || n != 10; }
int ov_compiled_model_create_infer_request(void *k, void **p) { *p = x; return 0; }
int ov_infer_request_get_tensor(void *r, const char *name, void **p)
{ *p = *name == 'x' ? x : y; return *name < 'x'; }
int ov_tensor_get_byte_size(void *t, unsigned long *n) { *n = 16; return 0; }
int ov_tensor_data(void *t, void **p) { *p = t; return 0; }
int ov_infer_request_infer(void *r) { for (int i = 0; i < 4; i++) y[i] = x[i] + x[i]; return 0; }
void ov_infer_request_free(void *p) {}
void ov_compiled_model_free(void *p) {}
void ov_model_free(void *p) {}
void ov_core_free(void *p) {}
"""
ANY_NAME = """
import numpy as np
class Anything:
    def __getattr__(self, name): return getattr(np, name, Anything())
    def __call__(self, *a, **k): return self
"""
FILES = {
    "torch/__init__.py": f"""{ANY_NAME}
import contextlib
class Tensor(np.ndarray):
    def numpy(self): return np.asarray(self)
def from_numpy(a): return np.asarray(a).view(Tensor)
def set_num_threads(n): assert n == 1
def inference_mode(): return contextlib.nullcontext()
def __getattr__(name): return getattr(Anything(), name)
""",
    "torch/nn/__init__.py": "",
    "torch/nn/functional.py": f"{ANY_NAME}\ndef __getattr__(name): return Anything()\n",
    "tvm/__init__.py": """
import types
class Tensor:
    def __init__(self, a): self.a = a
    def numpy(self): return self.a
runtime = types.SimpleNamespace(tensor=Tensor)
target = types.SimpleNamespace(Target=dict)
def get_global_func(name): return lambda: "generic"
def cpu(): return "cpu"
def compile(module, target): return module
""",
    "tvm/relax/__init__.py": """
import types, tvm
class Machine:
    def __init__(self, made, device): self.made = made
    def __getitem__(self, name): return lambda x: tvm.Tensor(x.a + x.a)
    def time_evaluator(self, name, device, number, repeat):
        return lambda x: types.SimpleNamespace(results=[1e-6] * repeat)
VirtualMachine = Machine
transform = types.SimpleNamespace(DecomposeOpsForInference=lambda: lambda m: m)
""",
    "tvm/relax/frontend/__init__.py": "",
    "tvm/relax/frontend/onnx.py": "def from_onnx(model, keep_params_in_input): return model\n",
    "iree/runtime.py": """
import types, numpy as np
class Config:
    vm_instance = device = None
    def __init__(self, name): assert name == "local-sync"
def create_hal_module(*a): return None
VmModule = types.SimpleNamespace(mmap=lambda instance, path: open(path).read())
class SystemContext:
    def __init__(self, config, vm_modules):
        self.modules = types.SimpleNamespace(module={vm_modules[1]: lambda x: x + x})
""",
    "iree/compiler/tools/import_onnx/__main__.py": """
import sys
open(sys.argv[3], "w").write("func.func @double(%x")
""",
    "iree/compiler/tools/scripts/iree_compile/__main__.py": """
import sys
assert "--iree-llvmcpu-target-cpu=host" in sys.argv
open(sys.argv[-1], "w").write(open(sys.argv[1]).read().split("@")[1].split("(")[0])
""",
    "_runtime_libs/iree-benchmark-module": """#!/bin/sh
echo 'noise {"benchmarks": [
 {"run_type": "iteration", "real_time": 3.0, "cpu_time": 2.0, "time_unit": "us"},
 {"run_type": "aggregate", "real_time": 9.0, "cpu_time": 9.0, "time_unit": "ms"}]}'
""",
    "ai_edge_litert/__init__.py": "",
    "ai_edge_litert/interpreter.py": """
import numpy as np
class Interpreter:
    def __init__(self, model_content, num_threads):
        assert model_content == b"TFL3 1 operators" and num_threads == 1
    def allocate_tensors(self): pass
    def get_input_details(self): return [{"index": 0}]
    def get_output_details(self): return [{"index": 1}]
    def set_tensor(self, at, a): self.x = a
    def invoke(self): self.y = self.x + self.x
    def get_tensor(self, at): return self.y
""",
    "ai_edge_litert/schema_py_generated.py": """
class Codes:
    def __getattr__(self, name): return sum(map(ord, name))
class Table:
    def Pack(self, builder): return len(self.subgraphs[0].operators)
def __getattr__(name): return type(name, (Table,), {}) if name.endswith("T") else Codes()
""",
    "flatbuffers.py": """
class Builder:
    def __init__(self, size): pass
    def Finish(self, n, identifier): self.made = identifier + f" {n} operators".encode()
    def Output(self): return bytearray(self.made)
""",
    "openvino/__init__.py": "",
}
VERSIONS = {
    "torch": "9.1",
    "apache-tvm": "9.2",
    "iree-base-compiler": "9.3",
    "ai-edge-litert": "9.4",
    "openvino": "9.5",
}


def interpreter(folder: Path) -> str:
    """The command of a Python that has the fakes in front of its own packages."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "_runtime_libs" / "iree-benchmark-module").chmod(0o755)
    for package, version in VERSIONS.items():
        info = folder / f"{package.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    libs = folder / "openvino" / "libs"
    libs.mkdir()
    (libs / "fake.c").write_text(OPENVINO)
    library = libs / "libopenvino_c.so.9"
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", str(libs / "fake.c"), "-o", str(library)], check=True)
    command = folder / "python"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    command.chmod(0o755)
    return str(command)
