"""The words of the crate's templates: Rust's types, arguments and golden values.

In: a manifest of fixed shapes, golden arrays. Out: words by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ingot.formula.expr import Array
from ingot.formula.types import DType, dtype_named

Manifest = Mapping[str, Any]
SHOWN = 10


def rust_words(m: Manifest, given: Mapping[str, Array], found: Mapping[str, Array]) -> dict[str, str]:
    name, state = m["name"], bool(m["state"])
    ins = [_argument(t, "in") for t in m["inputs"]]
    outs = [_argument(t, "out") for t in m["outputs"]]
    pointers = [f"{a.name}: *const {a.element}" for a in ins] + [f"{a.name}: *mut {a.element}" for a in outs]
    call = [f"{a.name}.as_ptr()" for a in ins] + [f"{a.name}.as_mut_ptr()" for a in outs]
    middle, address = (
        (["state: *mut c_void"], ["self.state.0.as_mut_ptr() as *mut c_void"]) if state else ([], [])
    )
    room = max(m["sizes"]["state_bytes"], 1)
    made = f"state: Box::new(Memory([0; {room}]))"
    return {
        "arena_room": str(max(m["sizes"]["arena_bytes"], 1)),
        "rust_parameters": ", ".join([*pointers, *middle, "arena: *mut c_void"]),
        "rust_state_init": f"fn {name}_state_init(state: *mut c_void);" if state else "",
        "rust_state_field": f"state: Box<Memory<{room}>>," if state else "",
        "rust_state_made": made if state else "",
        "rust_reset": f"unsafe {{ {name}_state_init({address[0]}) }}" if state else "",
        "rust_arguments": ", ".join(
            [f"{a.name}: &{a.type}" for a in ins] + [f"{a.name}: &mut {a.type}" for a in outs]
        ),
        "rust_call": ", ".join([*call, *address, "arena"]),
        "rust_usage": ", ".join([f"&{a.name}" for a in ins] + [f"&mut {a.name}" for a in outs]),
        "rust_golden": "\n".join(
            [_constant("IN", a, given[a.tensor]) for a in ins]
            + [_constant("OUT", a, found[a.tensor]) for a in outs]
        ),
        "rust_outputs": "\n".join(f"    let mut {a.name}: {a.type} = [{a.zero}; {a.count}];" for a in outs),
        "rust_golden_call": ", ".join([f"&IN_{i}" for i in _numbers(ins)] + [f"&mut {a.name}" for a in outs]),
        "rust_checks": "\n".join(_check(a) for a in outs),
    }


class _Argument:
    """A tensor as Rust has it."""

    def __init__(self, t: Mapping[str, Any], side: str) -> None:
        self.tensor, self.symbol = t["name"], t["symbol"]
        self.name = f"{side}_{t['symbol']}"
        self.dtype: DType = dtype_named(t["dtype"])
        self.element, self.count = _element(self.dtype), max(prod(t["shape"]), 1)
        self.type = f"[{self.element}; {self.count}]"
        self.zero = "0.0" if self.element.startswith("f") else "0"


_argument = _Argument


def _numbers(arguments: Sequence[_Argument]) -> list[str]:
    return [a.symbol.upper() for a in arguments]


def _element(dtype: DType) -> str:
    """Floats below 32 bits are passed as their bits, bools as bytes."""
    if dtype.is_float and dtype.bits >= 32:
        return f"f{dtype.bits}"
    return f"{'i' if dtype.kind == 'i' else 'u'}{8 * dtype.bytes}"


def _constant(prefix: str, a: _Argument, array: Array) -> str:
    flat = np.ascontiguousarray(array).reshape(-1)
    if not a.element.startswith("f"):
        flat = flat.view(f"{a.element[0]}{a.dtype.bytes}")
    rows = ", ".join(_literal(v, a.element) for v in flat.tolist()) or a.zero
    return f"const {prefix}_{a.symbol.upper()}: {a.type} = [{rows}];"


def _literal(value: float, element: str) -> str:
    if element.startswith("f") and not np.isfinite(value):
        return f"{element}::NAN" if value != value else f"{element}::{'' if value > 0 else 'NEG_'}INFINITY"
    return repr(float(np.float32(value)) if element == "f32" else value)


def _check(a: _Argument) -> str:
    """Floats may be 1e-4 of the largest apart; integers not at all."""
    want = f"OUT_{a.symbol.upper()}"
    same = f"{a.name}[i] == {want}[i]"
    if a.element.startswith("f"):
        fold = f"fold(0.0 as {a.element}, |m, v| if v.abs() > m {{ v.abs() }} else {{ m }})"
        head = f"    let most = {want}.iter().{fold};\n"
        same += f" || ({a.name}[i] - {want}[i]).abs() <= 1e-4 * most"
        same += f" || ({a.name}[i].is_nan() && {want}[i].is_nan())"
    else:
        head = ""
    shown = f'    println!("{a.symbol}: {{:?}}", &{a.name}[..{min(a.count, SHOWN)}]);\n'
    return f"{head}{shown}    wrong += (0..{a.count}).filter(|&i| !({same})).count();"
