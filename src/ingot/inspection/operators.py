"""Which operators can be compiled. In: the registry, the reader and ONNX's schemas; out: one row an operator.

Called by `ingot ops` and by `make conformance`, which writes docs/operators.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

import onnx

from ingot.frontends.onnx.sequences import SEQUENCES
from ingot.ops.infer import CONTROL
from ingot.ops.registry import operators

Key = tuple[str, str]
INTERNAL = "ingot"  # what the reader makes of inputs that are no tensors


class _Schema(Protocol):
    """What onnx's own stubs leave out of OpSchema."""

    has_function: bool
    has_context_dependent_function: bool
    function_body: onnx.FunctionProto


@dataclass(frozen=True, slots=True)
class Supported:
    """`opsets`: where its definitions begin, newest first. `how`: definition, function body, control flow, or
    reader: a sequence or an optional is tensors behind it.
    """

    domain: str
    name: str
    opsets: tuple[int, ...]
    how: str


def supported() -> list[Supported]:
    """By domain and name: what has a definition, and what ONNX spells out in operators that have one."""
    defined: dict[Key, tuple[int, ...]] = {}
    for o in (o for o in operators() if o.domain != INTERNAL):
        defined[o.domain, o.name] = (*defined.get((o.domain, o.name), ()), o.since)
    found = [Supported(d, n, opsets, "definition") for (d, n), opsets in defined.items()]
    since = {name: versions[-1:] for (domain, name), versions in defined.items() if domain == ""}
    found = [o for o in found if o.domain or o.name not in SEQUENCES]
    found += [Supported("", name, since.get(name) or (1,), "reader") for name in SEQUENCES]
    found += [Supported("", name, (1,), "control flow") for name in (*CONTROL, "Scan")]
    found += [Supported("", "Constant", (1,), "constant")]
    known = {(o.domain, o.name) for o in found}
    bodies = {key: body for key, body in _bodies().items() if key not in known}
    while new := {key for key, (_, needs) in bodies.items() if needs <= known} - known:
        known |= new
        found += [Supported(d, n, (bodies[d, n][0],), "function body") for d, n in new]
    return sorted(found, key=lambda o: (o.domain, o.name))


def _bodies() -> Mapping[Key, tuple[int, frozenset[Key]]]:
    """For each operator with a body: its opset, and what the body calls where that is always the same."""
    out: dict[Key, tuple[int, frozenset[Key]]] = {}
    for schema in onnx.defs.get_all_schemas():
        body = cast(_Schema, schema)
        needs: frozenset[Key] = frozenset()  # of a body that depends on the types of the call
        if body.has_function:
            needs = frozenset((n.domain, n.op_type) for n in body.function_body.node)
        if body.has_function or body.has_context_dependent_function:
            out[schema.domain, schema.name] = (schema.since_version, needs)
    return out
