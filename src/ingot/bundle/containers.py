"""Sequences, optionals and maps at the edge of a bundle: lists of arrays, None and dicts, as tensors.

In: what a caller gives for the model's inputs; out: arrays for the bundle's, and back for its outputs. The
manifest's `ports` say which tensors belong together; without them every input and output is a tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ingot.bundle.binding import texts
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.formula.types import dtype_named
from ingot.graph.ir import Port

Manifest = Mapping[str, Any]
Described = Mapping[str, Any]
FEW = 3  # elements of a random sequence


@dataclass(frozen=True, slots=True)
class Value:
    """An input or an output of a bundle, as the model has it.

    `kind` is "tensor", "sequence", "optional", "map" or "maps". `type` and `shape` are those of a tensor, and
    empty for the other kinds; an extent that is set at run time is a name or an expression.
    """

    name: str
    type: str = ""
    shape: tuple[int | str, ...] = ()
    kind: str = "tensor"


def values_of(manifest: Manifest, side: str) -> tuple[Value, ...]:
    """The values at one side of a bundle: "inputs" or "outputs"."""
    tensors = {t["name"]: Value(t["name"], t["dtype"], tuple(t["shape"])) for t in manifest[side]}
    ports = (manifest.get("ports") or {}).get(side)
    if not ports:
        return tuple(tensors.values())
    return tuple(
        replace(tensors[p["members"]["data"]], name=p["name"])
        if p["kind"] == "tensor"
        else Value(p["name"], kind=p["kind"])
        for p in ports
    )


def described(port: Port) -> dict[str, Any]:
    """A port as the manifest shows it."""
    found: dict[str, Any] = {"name": port.name, "kind": port.kind, "members": dict(port.members)}
    if port.kind == "maps":
        found["keys"] = list(port.keys)
    return found if port.content is None else {**found, "content": described(port.content)}


def packed(manifest: Manifest, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """The bundle's inputs, made of the model's. InputError where a value is not what its port takes."""
    if not isinstance(inputs, Mapping):
        named = ", ".join(f"{t['name']!r}: ..." for t in manifest["inputs"])
        raise InputError(f"the inputs are a {type(inputs).__name__}", remedy=f"give a dict: {{{named}}}")
    ports = (manifest.get("ports") or {}).get("inputs", ())
    known = {p["name"] for p in ports}
    tensors = {t["name"]: t for t in manifest["inputs"]}
    if ports and inputs.keys() - known:
        raise InputError(f"unknown inputs {sorted(inputs.keys() - known)}; the model has {sorted(known)}")
    out: dict[str, Array] = {} if ports else dict(inputs)
    for port in ports:
        if port["name"] in inputs:
            _pack(port, inputs[port["name"]], tensors, out)
        elif port["kind"] == "optional":
            _pack(port, None, tensors, out)
        elif port["kind"] == "sequence":
            raise InputError(f"input {port['name']!r} is missing")
    return out


def _pack(port: Described, value: Any, tensors: Mapping[str, Described], out: dict[str, Array]) -> None:
    members = port["members"]
    match port["kind"]:
        case "tensor":
            if value is None or isinstance(value, list | tuple | Mapping):
                raise InputError(f"input {port['name']!r} is a tensor, not {type(value).__name__}")
            out[members["data"]] = np.asarray(value)
        case "sequence":
            if not isinstance(value, list | tuple):
                raise InputError(f"input {port['name']!r} is a sequence: give a list of arrays")
            _pack_list(port, [np.asarray(v) for v in value], tensors, out)
        case "map":
            if not isinstance(value, Mapping):
                raise InputError(f"input {port['name']!r} is a map: give a dict")
            _pack_map(port, value, tensors, out)
        case "optional":
            out[members["present"]] = np.array(value is not None)
            _pack(
                port["content"], _nothing(port["content"], tensors) if value is None else value, tensors, out
            )


def _nothing(port: Described, tensors: Mapping[str, Described]) -> Any:
    """What a bundle is given for an element that is not there."""
    if port["kind"] == "sequence":
        return []
    t = tensors[port["members"]["data"]]
    return np.zeros([n if isinstance(n, int) else 0 for n in t["shape"]], dtype_named(t["dtype"]).numpy)


def _pack_list(
    port: Described, items: Sequence[Array], tensors: Mapping[str, Described], out: dict[str, Array]
) -> None:
    names = port["members"]
    data = tensors[names["data"]]
    dtype, (count, *room) = dtype_named(data["dtype"]).numpy, data["shape"]
    if dtype.kind == "S":
        items = [texts(port["name"], item, dtype_named(data["dtype"])) for item in items]
    if len(items) > count:
        raise InputError(f"input {port['name']!r} has {len(items)} elements, the bundle has room for {count}")
    whole, extents = np.zeros((count, *room), dtype), np.zeros((count, len(room)), np.int64)
    for k, item in enumerate(items):
        fits = item.ndim <= len(room) and all(n <= m for n, m in zip(item.shape, room, strict=False))
        if item.dtype != dtype or not fits:
            found = f"element {k} of {port['name']!r} is {item.dtype}{list(item.shape)}"
            raise InputError(f"{found}, the bundle has room for {dtype}{list(room)}")
        extents[k] = [*item.shape, *[-1] * (len(room) - item.ndim)]
        at = (k, *corner(extents[k]))
        whole[at] = item
    out[names["data"]], out[names["extents"]] = whole, extents
    out[names["length"]] = np.array(len(items), np.int64)


def _pack_map(
    port: Described, value: Mapping[Any, Any], tensors: Mapping[str, Described], out: dict[str, Array]
) -> None:
    """Keys in ascending order, their values, and how many."""
    names, keys = port["members"], sorted(value)
    room = tensors[names["keys"]]["shape"][0]
    if len(keys) > room:
        raise InputError(f"input {port['name']!r} has {len(keys)} entries, the bundle has room for {room}")
    for what, items in (("keys", keys), ("values", [value[k] for k in keys])):
        dtype = dtype_named(tensors[names[what]]["dtype"])
        whole = np.zeros(room, object if dtype.is_text else dtype.numpy)
        if dtype.is_text:
            whole[:] = ""
        whole[: len(items)] = items
        out[names[what]] = whole
    out[names["length"]] = np.array(len(keys), np.int64)


def corner(extents: Array) -> tuple[slice | int, ...]:
    """Where an element of these extents lies in the room for it."""
    return tuple(slice(int(n)) if n >= 0 else 0 for n in extents)


def unpacked(manifest: Manifest, outputs: Mapping[str, Array]) -> dict[str, Any]:
    """The model's outputs: lists of arrays for sequences, None for optionals without an element."""
    ports = (manifest.get("ports") or {}).get("outputs", ())
    return {p["name"]: _unpack(p, outputs) for p in ports} if ports else dict(outputs)


def _unpack(port: Described, outputs: Mapping[str, Array]) -> Any:
    members = port["members"]
    match port["kind"]:
        case "optional":
            return _unpack(port["content"], outputs) if outputs[members["present"]] else None
        case "sequence":
            data, extents = outputs[members["data"]], outputs[members["extents"]]
            count = int(outputs[members["length"]])
            corners = [(k, *corner(extents[k])) for k in range(count)]
            return [np.array(data[at], data.dtype) for at in corners]  # one string is no array by itself
        case "maps":
            return [dict(zip(port["keys"], row, strict=True)) for row in outputs[members["data"]].tolist()]
    return outputs[members["data"]]


def flattened(values: Mapping[str, Any]) -> dict[str, Array]:
    """Values as arrays: element k of a list is called NAME[k], what is not there is left out; maps are rows
    under their sorted keys.
    """
    out: dict[str, Array] = {}
    for name, value in values.items():
        if isinstance(value, list) and value and all(isinstance(m, Mapping) for m in value):
            keys = sorted({k for m in value for k in m})
            out[name] = np.array([[m.get(k, np.nan) for k in keys] for m in value], np.float32)
            out[f"{name} keys"] = np.array(keys, object)
        elif isinstance(value, list):
            out.update((f"{name}[{k}]", element) for k, element in enumerate(value))
        elif value is not None:
            out[name] = value
    return out


def random_values(manifest: Manifest, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Values for the model's inputs, of random arrays for the bundle's: few elements, as large as can be."""
    ports = (manifest.get("ports") or {}).get("inputs", ())
    return {p["name"]: _random_value(p, arrays) for p in ports} if ports else dict(arrays)


def _random_value(port: Described, arrays: Mapping[str, Array]) -> Any:
    if port["kind"] == "optional":
        return _random_value(port["content"], arrays)
    members = port["members"]
    if port["kind"] == "map":
        keys, values = (arrays[members[m]][:FEW].tolist() for m in ("keys", "values"))
        return dict(zip(keys, values, strict=True))
    data = arrays[members["data"]]
    return list(data[:FEW]) if port["kind"] == "sequence" else data


def inputs_of(manifest: Manifest) -> list[dict[str, Any]]:
    """Name, element type and kind of every input of the model."""
    types = {t["name"]: t["dtype"] for t in manifest["inputs"]}
    ports = (manifest.get("ports") or {}).get("inputs")
    if ports is None:
        return [{"name": name, "dtype": dtype, "kind": "tensor"} for name, dtype in types.items()]
    found = []
    for port in ports:
        inner = port["content"] if port["kind"] == "optional" else port
        content = inner["members"]["values" if inner["kind"] == "map" else "data"]
        found.append({"name": port["name"], "dtype": types[content], "kind": inner["kind"]})
    return found
