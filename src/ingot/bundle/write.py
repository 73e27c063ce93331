"""From a planned program to the files of a bundle: C, header, weights, object, manifest."""

from __future__ import annotations

from typing import Any

from ingot.bundle.bundle import Bundle
from ingot.emit.header import header
from ingot.emit.source import Unit, source
from ingot.emit.weights import image, size, weights_source
from ingot.formula.expr import Tensor, text
from ingot.loops.program import Call, Program, calls
from ingot.memory.plan import ALIGN, Plan
from ingot.options import Options
from ingot.targets.objects import sections
from ingot.targets.record import Target
from ingot.targets.stack import stack_usage
from ingot.targets.toolchain import compile_c, relocatable

SCHEMA = 1


def write(program: Program, plan: Plan, target: Target, options: Options, sha256: str) -> Bundle:
    """Print, compile and describe."""
    name = program.name
    unit = Unit(program, plan, target, name, _provenance(target, sha256))
    code = source(unit, f"{name}.h")
    weights = weights_source(unit, f"{name}.h")
    draft = header(unit, sha256, None)
    files: dict[str, bytes] = {f"{name}.c": code.encode(), f"{name}_weights.c": weights.encode()}
    objects = [
        compile_c(
            {f"{name}.h": draft, f: files[f].decode()}, target, name=f, cc=options.cc, flags=options.cflags
        )
        for f in (f"{name}.c", f"{name}_weights.c")
    ]
    obj = relocatable(objects)
    stack = stack_usage(obj).bytes(name)
    files[f"{name}.h"] = header(unit, sha256, stack).encode()
    files[f"{name}.o"] = obj
    files[f"{name}.weights.bin"] = image(unit)
    manifest = _manifest(unit, options, sha256, obj, stack)
    return Bundle(name, files, manifest)


def _provenance(target: Target, sha256: str) -> tuple[str, ...]:
    from importlib.metadata import version

    return (
        f"Made by Ingot {version('ingot')} for {target.name}.",
        f"Model SHA-256 {sha256}.",
        "This file belongs to you: 0BSD.",
    )


def _manifest(unit: Unit, options: Options, sha256: str, obj: bytes, stack: int | None) -> dict[str, Any]:
    part = sections(obj)
    program = unit.program
    return {
        "schema": SCHEMA,
        "name": unit.name,
        "target": unit.target.name,
        "api": options.api,
        "model_sha256": sha256,
        "inputs": [_tensor(unit, t) for t in program.inputs],
        "outputs": [_tensor(unit, t) for t in program.outputs],
        "params": [{"name": p.name, "lo": p.lo, "hi": p.hi} for p in program.params],
        "state": [],
        "sizes": {
            "flash_bytes": part.text + part.rodata,
            "arena_bytes": unit.plan.arena_bytes,
            "arena_bound_bytes": unit.plan.bound_bytes,
            "arena_align": ALIGN,
            "stack_bytes": stack,
            "weights_bytes": size(unit),
        },
        "kernels": [_kernel(unit, c) for c in calls(program.steps)],
    }


def _tensor(unit: Unit, t: Tensor) -> dict[str, Any]:
    shape = [n if isinstance(n, int) else text(n) for n in t.shape]
    return {"name": t.name, "symbol": unit.argument(t), "dtype": t.type.name, "shape": shape}


def _kernel(unit: Unit, call: Call) -> dict[str, Any]:
    k = call.kernel
    moved = sum(t.bytes for t in call.arguments)
    return {"name": unit.function(k), "nodes": list(k.nodes), "macs": k.macs, "bytes": moved}
