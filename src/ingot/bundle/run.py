"""The shipped object, called from Python: linked unchanged into a shared library beside a few lines of harness."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from ingot.errors import InputError, MismatchError, ToolchainError
from ingot.formula.expr import Array
from ingot.formula.types import DTYPES
from ingot.targets.records import find
from ingot.targets.toolchain import compile_c, exported, link_shared

ERRORS = {-1: "ERR_NULL", -2: "ERR_ALIGN", -3: "ERR_INDEX", -4: "ERR_CAPACITY", -5: "ERR_WEIGHTS"}

HARNESS = """
typedef int (*clock_fn)(int, long *);
int harness_call(void **p, const int *n) {{ return {name}({arguments}); }}
/* nanoseconds of `samples` samples of `inner` calls each, per call */
void harness_time(void **p, const int *n, clock_fn now, double *ns, int samples, int inner) {{
    for (int s = 0; s < samples; s++) {{
        long t0[2], t1[2];
        now(1, t0);
        for (int i = 0; i < inner; i++) (void){name}({arguments});
        now(1, t1);
        ns[s] = ((double)(t1[0] - t0[0]) * 1e9 + (double)(t1[1] - t0[1])) / inner;
    }}
}}
"""


class Runner:
    """Loads a bundle's object into this process."""

    def __init__(self, name: str, files: Mapping[str, bytes], manifest: Mapping[str, Any]) -> None:
        self.manifest = manifest
        target = find(manifest["target"])
        params, pointers = len(manifest["params"]), len(manifest["inputs"]) + len(manifest["outputs"]) + 1
        arguments = ", ".join([f"n[{i}]" for i in range(params)] + [f"p[{i}]" for i in range(pointers)])
        text = f'#include "{name}.h"\n' + HARNESS.format(name=name, arguments=arguments)
        sources = {"harness.c": text, f"{name}.h": files[f"{name}.h"].decode()}
        harness = compile_c(sources, target, name="harness.c", relocation="pic")
        self._library = _load(link_shared([files[f"{name}.o"], harness], ["harness_call", "harness_time"]))
        self._call = getattr(self._library, exported("harness_call"))
        self._time = getattr(self._library, exported("harness_time"))
        self._arena = aligned(manifest["sizes"]["arena_bytes"], manifest["sizes"]["arena_align"])

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        arguments, extents, outputs, _keep = self._bind(inputs)
        status = self._call(arguments, extents)
        if status:
            raise MismatchError(f"{self.manifest['name']} returned {ERRORS.get(status, status)}")
        return outputs

    def time(self, inputs: Mapping[str, Array], repeat: int) -> list[float]:
        arguments, extents, _outputs, _keep = self._bind(inputs)
        ns = np.zeros(repeat)
        clock = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p)
        pointer = ns.ctypes.data_as(ctypes.c_void_p)
        self._time(arguments, extents, clock, pointer, 3, 1)
        inner = int(np.clip(2e4 / max(float(ns[:3].min()), 1.0), 1, 10000))  # at least 20 us a sample
        self._time(arguments, extents, clock, pointer, repeat, inner)
        return [float(v) * 1e-9 for v in ns]

    def _bind(self, inputs: Mapping[str, Array]) -> tuple[Any, Any, dict[str, Array], list[Array]]:
        unknown = inputs.keys() - {t["name"] for t in self.manifest["inputs"]}
        if unknown:
            raise InputError(
                f"unknown inputs {sorted(unknown)}; the model has {[t['name'] for t in self.manifest['inputs']]}"
            )
        extents = self._extents(inputs)
        arrays = [_checked(t, inputs, extents) for t in self.manifest["inputs"]]
        outputs = {
            t["name"]: np.zeros(_shape(t, extents), DTYPES[t["dtype"]].numpy)
            for t in self.manifest["outputs"]
        }
        everything = [*arrays, *outputs.values(), self._arena]
        pointers = (ctypes.c_void_p * len(everything))(*(a.ctypes.data for a in everything))
        numbers = (ctypes.c_int * max(len(extents), 1))(*extents.values())
        return pointers, numbers, outputs, everything

    def _extents(self, inputs: Mapping[str, Array]) -> dict[str, int]:
        """The run-time extents, read off the inputs' shapes."""
        found: dict[str, int] = {}
        for t in self.manifest["inputs"]:
            given = np.shape(inputs.get(t["name"], ()))
            found.update({n: int(g) for n, g in zip(t["shape"], given, strict=False) if isinstance(n, str)})
        return {p["name"]: found[p["name"]] for p in self.manifest["params"] if p["name"] in found}


def _shape(tensor: Mapping[str, Any], extents: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(n if isinstance(n, int) else int(eval_extent(n, extents)) for n in tensor["shape"])


def eval_extent(text: str, extents: Mapping[str, int]) -> int:
    """The value of an extent such as `N` or `((N + 2) // 2)`."""
    import ast
    import operator

    operations = {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.FloorDiv: operator.floordiv,
    }

    def value(node: ast.AST) -> int:
        match node:
            case ast.Constant(value=v):
                return int(str(v))
            case ast.Name(id=name):
                return extents[name]
            case ast.BinOp(left, op, right):
                return int(operations[type(op)](value(left), value(right)))
        raise InputError(f"extent {text!r} is not understood")

    return value(ast.parse(text, mode="eval").body)


def _checked(t: Mapping[str, Any], inputs: Mapping[str, Array], extents: Mapping[str, int]) -> Array:
    if t["name"] not in inputs:
        raise InputError(f"input {t['name']!r} is missing")
    array, dtype = np.asarray(inputs[t["name"]]), DTYPES[t["dtype"]].numpy
    if array.dtype != dtype or array.shape != _shape(t, extents):
        raise InputError(
            f"input {t['name']!r} is {array.dtype}{list(array.shape)}, the model takes {dtype}{list(_shape(t, extents))}"
        )
    return np.ascontiguousarray(array)


def aligned(size: int, alignment: int) -> Array:
    """Uninitialised memory for an arena: filled with 0xFF, for bundles must not rely on its content."""
    raw = np.full(size + alignment, 0xFF, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]


def _load(library: bytes) -> ctypes.CDLL:
    handle, path = tempfile.mkstemp(suffix=".so")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(library)
        return ctypes.CDLL(path)
    except OSError as e:
        raise ToolchainError(f"the object does not run on this machine: {e}") from None
    finally:
        os.unlink(path)
