"""The manifest NAME.json: everything about a bundle that a program may want to know, as plain data.

`schema` counts the changes that break readers; new keys may appear under the same number.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from math import prod
from typing import Any

import numpy as np

from ingot.binary.objects import sections
from ingot.bundle.containers import described
from ingot.emit.conventions import public
from ingot.emit.unit import Unit
from ingot.emit.weights import room_of, size
from ingot.formula.expr import Expr, Param, Tensor, text, transform
from ingot.formula.index import upper
from ingot.graph.ir import Port, Scale
from ingot.loops.operations import work
from ingot.loops.program import Call, Kept, calls, params_of
from ingot.memory.plan import ALIGN
from ingot.memory.regions import Region
from ingot.memory.tree import base_of
from ingot.options import Options

SCHEMA = 1
SHOWN_ELEMENTS = 16


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a program came from: the model's hash, the opsets of its nodes, its own inputs and outputs.

    `byte_layers`: how many layers behind each other are computed in bytes instead of floats. `scales`: what
    the integers of inputs and outputs stand for. `float_layers`: which layers with encoded weights stay in
    floats though bytes were asked for, and why; `expanded_layers`: of which the elements are stored.
    """

    sha256: str
    opsets: Mapping[str, int]
    ports: tuple[tuple[Port, ...], tuple[Port, ...]] = ((), ())
    byte_layers: int = 0
    scales: Mapping[str, Scale] = field(default_factory=dict)
    float_layers: Mapping[str, str] = field(default_factory=dict)
    expanded_layers: Mapping[str, str] = field(default_factory=dict)


def manifest(unit: Unit, options: Options, origin: Origin, code: bytes, stack: int | None) -> dict[str, Any]:
    """The content of the manifest, without `files`."""
    program = unit.program
    return {
        "schema": SCHEMA,
        "ingot": version("ingot"),
        "name": unit.name,
        "target": unit.target.name,
        "api": unit.api,
        "weights": "external" if unit.external else "embedded",
        "model_sha256": unit.sha256,
        "opsets": dict(sorted(origin.opsets.items())),
        "byte_layers": origin.byte_layers,
        "float_layers": [{"layer": layer, "why": why} for layer, why in origin.float_layers.items()],
        "expanded_layers": [{"layer": layer, "why": why} for layer, why in origin.expanded_layers.items()],
        "options": _options(options),
        "inputs": [_tensor(unit, t) for t in program.inputs],
        "outputs": [_tensor(unit, t) for t in program.outputs],
        "measured": _measured(unit),
        "ports": _ports(unit, origin),
        "params": [
            {"name": p.name.removeprefix("$"), "symbol": unit.extent(p), "lo": p.lo, "hi": p.hi}
            for p in program.params
        ],
        "state": [_state(unit, s) for s in program.states],
        "threaded": unit.is_threaded,
        "symbols": public(unit),
        "sizes": _sizes(unit, code, stack),
        "memory": [_region(unit, r) for r in unit.plan.regions],
        "flash": _flash(unit, sections(code).text),
        "kernels": [_kernel(unit, c) for c in calls(program.steps)],
    }


def facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a caller of the object relies on, which the object therefore says too (`binary/note.py`)."""
    keys = "name target api weights inputs outputs measured ports params state threaded symbols sizes"
    regions = {"memory": manifest["memory"]} if manifest.get("memory") else {}
    return {**{key: manifest[key] for key in keys.split()}, **regions, "kernels": len(manifest["kernels"])}


def _ports(unit: Unit, origin: Origin) -> dict[str, Any] | None:
    """What the inputs and outputs are to the model, where not all of them are tensors."""
    sides = {"inputs": unit.program.inputs, "outputs": unit.program.outputs}
    names = {side: {t.name for t in tensors} for side, tensors in sides.items()}
    pairs = zip(sides, origin.ports, strict=True)
    found = {side: [described(p) for p in ports if p.names <= names[side]] for side, ports in pairs}
    return found if any(found.values()) else None


def _options(options: Options) -> dict[str, Any]:
    """Every option as given; the target is resolved elsewhere."""
    found = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
    found["fix"] = {name: _fixed(value) for name, value in options.fix.items()}
    return {
        k: dict(v) if isinstance(v, Mapping) else list(v) if isinstance(v, tuple) else v
        for k, v in found.items()
    }


def _fixed(value: Any) -> Any:
    """What an input was fixed to: its elements, or for many of them their hash."""
    array = np.asarray(value)
    if array.size <= SHOWN_ELEMENTS:
        return array.tolist()
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{array.dtype}{list(array.shape)} sha256:{digest}"


def _sizes(unit: Unit, code: bytes, stack: int | None) -> dict[str, Any]:
    part = sections(code)
    return {
        "flash_bytes": part.text + part.rodata + part.data,
        "code_bytes": part.text,
        "static_bytes": part.data + part.bss,
        "arena_bytes": unit.plan.arena_bytes,
        "arena_bound_bytes": unit.plan.bound_bytes,
        "arena_whole_bytes": unit.plan.whole_bytes,
        "arena_align": ALIGN,
        "mutable_bytes": max(unit.mutable_bytes, ALIGN) if unit.api in ("static", "dynamic") else 0,
        "state_bytes": unit.state_bytes,
        "stack_bytes": stack,
        "weights_bytes": size(unit),
    }


def _region(unit: Unit, region: Region) -> dict[str, Any]:
    """A region of RAM: its section, what the arena and the state take of it, and what there is."""
    return {
        "name": region.name,
        "section": f".ingot.{region.name}",
        "arena_bytes": region.bytes,
        "state_bytes": region.state_bytes,
        "room_bytes": region.room,
    }


def _flash(unit: Unit, code_bytes: int) -> list[dict[str, Any]]:
    """The regions of flash: the code is in the first."""
    return [
        {
            "name": name,
            "section": f".ingot.{name}",
            "code_bytes": 0 if i else code_bytes,
            "weights_bytes": sum(map(room_of, constants)),
            "room_bytes": room,
        }
        for i, (name, (constants, room)) in enumerate(unit.flash.items())
    ]


def _measured(unit: Unit) -> list[dict[str, Any]]:
    """The extents of outputs that are data: the output that holds each, and its bounds."""
    shown = dict.fromkeys(p for t in unit.program.outputs for p in params_of(t))
    held = {p: t for p, t in unit.program.measured.items() if p in shown}
    return [{"name": t.name, "symbol": unit.argument(t), "lo": p.lo, "hi": p.hi} for p, t in held.items()]


def _tensor(unit: Unit, t: Tensor) -> dict[str, Any]:
    """Run-time extents appear in the shape by their symbols.

    `room`: the most elements there can be, where the extents are known at run time only. `packed_bits`: the
    elements have so many bits each in a stream of bytes, the first in the lowest.
    """
    measured = unit.program.measured

    def symbol(e: Expr) -> Expr | None:
        if not isinstance(e, Param):
            return None
        held = measured.get(e)
        return Param(unit.extent(e) if held is None else unit.argument(held), e.lo, e.hi)

    dtype, extents = (t.type, t.shape) if t.packed is None else (t.packed.type, t.packed.shape)
    shape = [n if isinstance(n, int) else text(transform(n, symbol)) for n in extents]
    found: dict[str, Any] = {"name": t.name, "symbol": unit.argument(t), "dtype": dtype.name, "shape": shape}
    if any(isinstance(n, Expr) for n in extents):
        found["room"] = prod(map(upper, extents))
    if (scale := unit.scales.get(t.name)) is not None:
        found |= {"scale": scale.scale, "zero_point": scale.zero_point}
    if t.packed is not None:
        found["packed_bits"] = dtype.bits
    if unit.api in ("static", "dynamic"):
        found["offset"] = unit.mutable[t]
    return found


def _state(unit: Unit, kept: Kept) -> dict[str, Any]:
    """Named as the input is; `next` is the output that it holds after a run."""
    symbol = unit.member(kept.member)
    return {**_tensor(unit, kept.member), "symbol": symbol, "next": kept.made.name}


def _kernel(unit: Unit, call: Call) -> dict[str, Any]:
    k = call.kernel
    pairs = zip(k.parameters, call.arguments, strict=True)
    moved = [t for parameter, t in pairs if parameter not in k.scratch]
    weights = sum(t.bytes for t in moved if base_of(unit.program, t) in unit.constants)
    return {
        "name": unit.function(k),
        "nodes": list(call.nodes or k.nodes),
        "macs": k.macs,
        "scalar_share": round(work(k.body, {}).scalar_share, 3),
        "bytes": sum(t.bytes for t in moved),
        "weights_bytes": weights,
        "choices": dict(k.choices),
        "notes": list(call.notes or k.notes),
        "generators": list(k.generators),
    }
