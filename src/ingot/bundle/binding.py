"""Arrays against a manifest: run-time extents, checked types and shapes, fresh outputs. Called by `run`."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.formula.packing import pack, packed_bytes, unpack
from ingot.formula.strings import decoded, encoded
from ingot.formula.types import DType, dtype_named

Manifest = Mapping[str, Any]
Extents = dict[str, int]
State = dict[str, Array]

_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def bind(
    manifest: Manifest, inputs: Mapping[str, Array], out: Mapping[str, Array]
) -> tuple[list[Array], dict[str, Array], Extents]:
    """Inputs in order, contiguous, packed below 8 bits; outputs by name, `out` or fresh; the extents.

    Fresh outputs have room for all that their run-time extents allow; `trim` cuts them down afterwards.
    InputError where the inputs or `out` do not fit.
    """
    unknown = inputs.keys() - {t["name"] for t in manifest["inputs"]}
    if unknown:
        names = ", ".join(repr(t["name"]) for t in manifest["inputs"])
        raise InputError(f"unknown inputs {sorted(unknown)}", remedy=f"the model's inputs are {names}")
    extents = _extents(manifest, inputs)
    arrays = [checked(t, inputs, extents) for t in manifest["inputs"]]
    _require_apart(arrays, out)
    return arrays, outputs_of(manifest, extents, out), extents


def outputs_of(manifest: Manifest, extents: Extents, out: Mapping[str, Array]) -> dict[str, Array]:
    """The caller's array of every output, or zeros.

    Zeros are in a row, as many as fit, where the extents are data, and bytes where elements are packed.
    """
    unknown = out.keys() - {t["name"] for t in manifest["outputs"]}
    if unknown:
        names = ", ".join(repr(t["name"]) for t in manifest["outputs"])
        raise InputError(f"out: unknown outputs {sorted(unknown)}", remedy=f"the model's outputs are {names}")
    measured = data_dependent(manifest)
    found = {}
    for t in manifest["outputs"]:
        size = None if t in measured else shape(t, extents)
        if t["name"] in out:
            found[t["name"]] = _own(t, out[t["name"]], size)
        else:
            found[t["name"]] = _zeros(_type(t), (t["room"],) if size is None else size)
    return found


def _own(t: Mapping[str, Any], array: Array, wanted: tuple[int, ...] | None) -> Array:
    """The caller's array for an output, which the bundle writes as it lies there."""
    name, dtype = t["name"], _type(t)
    if dtype.is_packed or dtype.is_text or wanted is None:
        raise InputError(
            f"out: {name!r} is {t['dtype']}{t['shape']}, for which no array can be given",
            remedy="leave it out; run returns it",
        )
    if not isinstance(array, np.ndarray) or array.dtype != dtype.numpy or array.shape != wanted:
        found = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
        made = f"np.empty({wanted}, {str(dtype.numpy)!r})"
        raise InputError(f"out: {name!r} is {found}, not {dtype.numpy}{list(wanted)}", remedy=f"give {made}")
    if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
        raise InputError(
            f"out: {name!r} is not contiguous, aligned and writeable", remedy="give np.empty(...)"
        )
    return array


def _require_apart(inputs: list[Array], out: Mapping[str, Array]) -> None:
    """InputError where a caller's output is in the memory of an input or of another output."""
    given = [(name, a) for name, a in out.items() if isinstance(a, np.ndarray)]
    for k, (name, array) in enumerate(given):
        if any(np.may_share_memory(array, other) for other in (*inputs, *(a for _, a in given[:k]))):
            raise InputError(
                f"out: {name!r} overlaps an input or another output", remedy="give an array of its own"
            )


def data_dependent(manifest: Manifest) -> list[Mapping[str, Any]]:
    """The outputs whose extents only the data tells."""
    data = {m["symbol"] for m in manifest.get("measured", ())}
    return [t for t in manifest["outputs"] if _symbols(t) & data]


def _symbols(t: Mapping[str, Any]) -> set[str]:
    """The run-time extents that a tensor's shape follows from."""
    texts_of = (ast.parse(n, mode="eval") for n in t["shape"] if isinstance(n, str))
    return {node.id for tree in texts_of for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _zeros(dtype: DType, size: tuple[int, ...]) -> Array:
    if dtype.is_packed:
        return np.zeros(packed_bytes(math.prod(size), dtype), np.uint8)
    return np.zeros(size, dtype.numpy)


def trim(manifest: Manifest, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> dict[str, Array]:
    """The model's outputs in their true extents, which other outputs of the bundle hold; unpacked."""
    measured = {m["symbol"]: int(outputs[m["name"]]) for m in manifest.get("measured", ())}
    extents, found = {**_extents(manifest, inputs), **measured}, {}
    for t in manifest["outputs"]:
        if t["symbol"] not in measured:
            found[t["name"]] = opened(t, outputs[t["name"]], shape(t, extents))
    return found


def _extents(manifest: Manifest, inputs: Mapping[str, Array]) -> Extents:
    """The run-time extents, read off the inputs' shapes."""
    found: Extents = {}
    for t in manifest["inputs"]:
        given = np.shape(inputs.get(t["name"], ()))
        found.update({n: int(g) for n, g in zip(t["shape"], given, strict=False) if isinstance(n, str)})
    return {p["symbol"]: found[p["symbol"]] for p in manifest["params"] if p["symbol"] in found}


def capacity(manifest: Manifest) -> list[int]:
    """Bytes of every input, output and member of the state at the upper bounds of the extents."""
    counts = (t["room"] if "room" in t else math.prod(t["shape"]) for t in tensors_of(manifest))
    return [packed_bytes(n, _type(t)) for n, t in zip(counts, tensors_of(manifest), strict=True)]


def tensors_of(manifest: Manifest) -> list[Mapping[str, Any]]:
    """What the harness is handed, in its order: inputs, outputs, members of the state."""
    return [*manifest["inputs"], *manifest["outputs"], *manifest["state"]]


def blank(manifest: Manifest) -> State:
    """Arrays for the members of the state, to be filled."""
    return {t["name"]: _zeros(_type(t), shape(t, {})) for t in manifest["state"]}


def opened(t: Mapping[str, Any], data: Array, size: tuple[int, ...]) -> Array:
    """What memory of a bundle holds, as an array of the model's type and of this shape."""
    dtype, count, elements = _type(t), math.prod(size), data.reshape(-1)
    if dtype.is_packed:
        return unpack(elements[: packed_bytes(count, dtype)], dtype, size)
    return elements[:count].reshape(size)


def shape(tensor: Mapping[str, Any], extents: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(n if isinstance(n, int) else evaluate(n, extents) for n in tensor["shape"])


def evaluate(text: str, extents: Mapping[str, int]) -> int:
    """The value of an extent such as `N` or `((N + 2) // 2)`.

    >>> evaluate("((N + 2) // 2)", {"N": 5})
    3
    >>> evaluate("max((N % 3), -1)", {"N": 7})
    1
    """

    def value(node: ast.AST) -> int:
        match node:
            case ast.Constant(value=v):
                return int(str(v))
            case ast.UnaryOp(ast.USub(), operand):
                return -value(operand)
            case ast.Name(id=name):
                return extents[name]
            case ast.BinOp(left, op, right):
                return int(_OPERATIONS[type(op)](value(left), value(right)))
            case ast.Call(ast.Name(id="max" | "min" as f), arguments):
                return (max if f == "max" else min)(value(a) for a in arguments)
        raise InputError(f"extent {text!r} is not understood")

    return value(ast.parse(text, mode="eval").body)


def presented(outputs: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs as Python has them: strings are objects."""
    return {name: decoded(a) if a.dtype.kind == "S" else a for name, a in outputs.items()}


def _type(t: Mapping[str, Any]) -> DType:
    return dtype_named(t["dtype"])


def texts(name: str, array: Array, dtype: DType) -> Array:
    """Strings in any of numpy's ways as those of the bundle."""
    try:
        flat: Array = encoded(array.reshape(-1).tolist(), dtype)
        return np.asarray(flat.reshape(array.shape))
    except InputError as error:
        raise InputError(f"input {name!r}: {error}") from None


def checked(t: Mapping[str, Any], inputs: Mapping[str, Array], extents: Mapping[str, int]) -> Array:
    if t["name"] not in inputs:
        raise InputError(
            f"input {t['name']!r} is missing", remedy=f"give its array: {t['dtype']}{list(shape(t, extents))}"
        )
    array, dtype = np.asarray(inputs[t["name"]]), _type(t).numpy
    wanted = shape(t, extents)
    if dtype.kind == "S" and array.dtype.kind in "OSUT" and array.shape == wanted:
        return texts(t["name"], array, _type(t))
    if array.dtype != dtype or array.shape != wanted:
        raise InputError(
            f"input {t['name']!r} is {array.dtype}{list(array.shape)}, the model takes {dtype}{list(wanted)}",
            remedy=_quantisation(t, array, dtype) or _conversion(array, wanted, dtype.name),
        )
    return pack(array) if _type(t).is_packed else np.ascontiguousarray(array).reshape(wanted)


def _quantisation(t: Mapping[str, Any], array: Array, dtype: np.dtype[Any]) -> str:
    """Return how floats become the integers of a quantised input; nothing where they are something else."""
    if t.get("scale") is None or array.dtype.kind != "f" or dtype.kind not in "iu":
        return ""
    limits = np.iinfo(dtype)
    steps = f"np.rint(x / {t['scale']:.9g}) + {t['zero_point']}"
    return f"quantise it: np.clip({steps}, {limits.min}, {limits.max}).astype('{dtype}')"


def _conversion(array: Array, wanted: tuple[int, ...], dtype: str) -> str:
    """Return what makes an array of the type and shape that the model takes.

    >>> _conversion(np.zeros((2, 224, 200, 3)), (2, 3, 224, 200), "float32")
    "convert it: .transpose(0, 3, 1, 2).astype('float32')"
    >>> _conversion(np.zeros((360, 64)), (1, 64), "float64")
    'give it in parts of 1 along the first axis'
    """
    found = array.shape
    convert = "" if array.dtype.name == dtype else f".astype({dtype!r})"
    if found == wanted:
        return f"convert it: {convert}"
    if _longer(found) == _longer(wanted):
        return f"convert it: .reshape{wanted}{convert}"
    if sorted(found) == sorted(wanted):
        return f"convert it: .transpose{_permutation(found, wanted)}{convert}"
    if wanted and found[1:] == wanted[1:] and found[0] > wanted[0]:
        return f"give it in parts of {wanted[0]} along the first axis"
    return f"resize, crop or pad it to {list(wanted)}"


def _longer(shape: tuple[int, ...]) -> list[int]:
    """Return the extents above 1, which a reshape leaves in their order."""
    return [n for n in shape if n != 1]


def _permutation(found: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of `found` in the order of `wanted`; equal extents keep their order."""
    axes = list(range(len(found)))
    return tuple(axes.pop(next(k for k, axis in enumerate(axes) if found[axis] == n)) for n in wanted)
