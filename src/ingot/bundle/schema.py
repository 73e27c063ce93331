"""What a manifest must be before anything in it is believed: a schema, and what must hold between its parts.

In: the text of a file NAME.json. Out: its content as a dict, or one InputError that names the first place
that differs. Called by `stored`; `manifest.py` writes what is read here, `docs/bundle.md` says what it means.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ingot.bundle.binding import evaluate
from ingot.bundle.manifest import SCHEMA
from ingot.errors import InputError
from ingot.files import conform, parse_json
from ingot.formula.types import dtype_named
from ingot.graph.verify import COUNT_LIMIT
from ingot.options import Api

AGAIN = "compile the model again"
SEAL = "manifest_sha256"

Count = Annotated[int, Meta(ge=0, lt=COUNT_LIMIT)]
Bytes = Annotated[int, Meta(ge=0, lt=1 << 62)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Identifier = Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$", max_length=4096)]
Processor = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_.+-]*$", max_length=255)]
FileName = Annotated[
    str, Meta(pattern=r"^\.?[A-Za-z0-9_][A-Za-z0-9_.-]*(/\.?[A-Za-z0-9_][A-Za-z0-9_.-]*)*$", max_length=255)
]
"""In a package it may lie in directories of its own."""
Extent = Count | Annotated[str, Meta(pattern=r"^[A-Za-z0-9_ ()+*/%,-]+$", max_length=4096)]


class Tensor(Struct):
    """An input, an output or a member of the state."""

    name: str
    symbol: Identifier
    dtype: str
    shape: Annotated[list[Extent], Meta(max_length=64)]
    room: Count | None = None
    packed_bits: Count | None = None
    scale: float | None = None
    zero_point: int | None = None
    offset: Bytes | None = None
    next: str | None = None


class Range(Struct):
    """A run-time extent."""

    name: str
    symbol: Identifier
    lo: Count
    hi: Count


class Port(Struct):
    """What an input or output is to the model."""

    name: str
    kind: Literal["tensor", "sequence", "optional", "map", "maps"]
    members: dict[str, str]
    content: Port | None = None
    keys: list[int | str] = []


class Ports(Struct):
    inputs: list[Port]
    outputs: list[Port]


class LeftLayer(Struct):
    """A layer with encoded weights that is computed otherwise than was asked for."""

    layer: str
    why: str


class Sizes(Struct):
    flash_bytes: Bytes
    code_bytes: Bytes
    static_bytes: Bytes
    arena_bytes: Bytes
    arena_bound_bytes: Bytes
    arena_align: Bytes
    mutable_bytes: Bytes
    state_bytes: Bytes
    stack_bytes: Bytes | None
    weights_bytes: Bytes
    arena_whole_bytes: Bytes | None = None


class Ram(Struct):
    """A region of RAM."""

    name: Identifier
    section: str
    arena_bytes: Bytes
    state_bytes: Bytes
    room_bytes: Bytes


class Flash(Struct):
    """A region of flash."""

    name: Identifier
    section: str
    code_bytes: Bytes
    weights_bytes: Bytes
    room_bytes: Bytes


class Kernel(Struct):
    name: Identifier
    nodes: list[str]
    macs: Bytes
    scalar_share: float
    bytes: Bytes
    weights_bytes: Bytes
    choices: dict[str, str]
    notes: list[str]
    generators: list[str] = []


class Choices(Struct):
    """Of the options as given, those that decide how a bundle is run or compiled again."""

    relocation: Literal["static", "pic"] | None
    profile: bool
    cflags: list[str]
    cpu: str | None = None
    features: list[str] = []
    float_abi: Literal["hard", "softfp", "soft"] | None = None
    code_model: Literal["tiny", "small", "kernel", "medium", "large"] | None = None


class Manifest(Struct):
    """The whole; a key that is not here may stand in the file too."""

    name: Identifier
    ingot: str
    target: Processor
    api: Api
    weights: Literal["embedded", "external"]
    model_sha256: Hash
    opsets: dict[str, Count]
    byte_layers: Count
    options: Choices
    inputs: list[Tensor]
    outputs: list[Tensor]
    measured: list[Range]
    ports: Ports | None
    params: list[Range]
    state: list[Tensor]
    threaded: bool
    symbols: list[Identifier]
    sizes: Sizes
    kernels: list[Kernel]
    files: dict[FileName, Hash]
    manifest_sha256: Hash
    variants: list[Processor] = []
    float_layers: list[LeftLayer] = []
    expanded_layers: list[LeftLayer] = []
    memory: list[Ram] = []
    flash: list[Flash] = []
    group: Identifier | None = None
    package: Annotated[str, Meta(pattern="^[a-z-]+$")] | None = None


# What each kind of port is made of.
_MEMBERS = {
    "tensor": {"data"},
    "sequence": {"data", "extents", "length"},
    "optional": {"present"},
    "map": {"keys", "values", "length"},
    "maps": {"data"},
}


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest with its own hash, which is how an edited one is told."""
    content = {key: value for key, value in manifest.items() if key != SEAL}
    return {**content, SEAL: hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}


def text_of(manifest: Mapping[str, Any]) -> str:
    """The manifest's file."""
    return json.dumps(manifest, indent=2) + "\n"


def parsed(text: str, path: Path) -> dict[str, Any]:
    """The manifest in the file `path`. Raises InputError."""
    document = parse_json(text, path)
    if not isinstance(document, dict) or "schema" not in document:
        raise InputError(f"{path} is not the manifest of a bundle")
    if type(document["schema"]) is not int or document["schema"] != SCHEMA:
        raise InputError(f"{path}: the schema is {_short(document['schema'])}, not {SCHEMA}", remedy=AGAIN)
    manifest = conform(document, Manifest, f"the manifest {path}")
    _require_sense(manifest, path)
    if text_of(sealed(document)) != text:
        raise InputError(f"{path} is not as it was written: it was edited, or damaged", remedy=AGAIN)
    return document


def _require_sense(m: Manifest, path: Path) -> None:
    """What no type says: names agree, extents can be computed, ports are made of tensors that there are."""
    tensors = [*m.inputs, *m.outputs, *m.state]
    extents = {r.symbol: r.hi for r in (*m.params, *m.measured)}
    try:
        _require(m.name == path.stem, f"it is of the bundle {_short(m.name)}")
        for names in (_names(m.inputs), _names(m.outputs), _names(m.state), [r.symbol for r in m.params]):
            _require(len(set(names)) == len(names), "two tensors have one name")
        _require({r.name for r in m.measured} <= set(_names(m.outputs)), "a measured extent is no output")
        _require(all(r.lo <= r.hi for r in (*m.params, *m.measured)), "an extent's bounds are in disorder")
        for t in tensors:
            _require_tensor(t, extents)
        for ports, held in ((m.ports and m.ports.inputs, m.inputs), (m.ports and m.ports.outputs, m.outputs)):
            for port in ports or ():
                _require_port(port, set(_names(held)))
    except ValueError as error:
        raise InputError(f"the manifest {path}: {error}", remedy=AGAIN) from None


def _require_tensor(t: Tensor, extents: Mapping[str, int]) -> None:
    try:
        dtype_named(t.dtype)
        sizes = [n if isinstance(n, int) else evaluate(n, extents) for n in t.shape]
    except (KeyError, SyntaxError, ArithmeticError, InputError, RecursionError, MemoryError, TypeError):
        raise ValueError(f"{_short(t.name)}: of no type or shape that there is") from None
    _require(min(sizes, default=0) >= 0, f"{_short(t.name)} has a negative extent")
    _require(t.room is not None or all(isinstance(n, int) for n in t.shape), f"{_short(t.name)} has no room")


def _require_port(port: Port, names: set[str]) -> None:
    _require(set(port.members) == _MEMBERS[port.kind], f"the port {_short(port.name)} has other members")
    _require(set(port.members.values()) <= names, f"the port {_short(port.name)} is of no tensor")
    _require((port.content is not None) == (port.kind == "optional"), f"{_short(port.name)}: its content")
    if port.content is not None:
        _require_port(port.content, names)


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise ValueError(reason)


def _names(tensors: list[Tensor]) -> list[str]:
    return [t.name for t in tensors]


def _short(value: object) -> str:
    return repr(value)[:60]
