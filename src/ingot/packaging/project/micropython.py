"""The words of the MicroPython module's templates: buffers, the call in C, and arrays in Python.

In: a manifest of fixed shapes. Out: words by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ingot.formula.types import DType, dtype_named

Manifest = Mapping[str, Any]
Described = Mapping[str, Any]
INTEGERS = {1: "B", 2: "H", 4: "I", 8: "Q"}
STATE = "struct {name}_state {name}_module_state;\nbool {name}_module_started;\n"
RESET = """
/* Back to the state before the first run. */
static mp_obj_t module_reset(void)
{{
    {name}_state_init(&{name}_module_state);
    {name}_module_started = true;
    return mp_const_none;
}}
static MP_DEFINE_CONST_FUN_OBJ_0(module_reset_obj, module_reset);
"""
ENTRY = "\n    { MP_ROM_QSTR(MP_QSTR_reset), MP_ROM_PTR(&module_reset_obj) },"
STORE = "\n    mp_store_global(MP_QSTR_reset, MP_OBJ_FROM_PTR(&module_reset_obj));"
START = "\n    if (!{name}_module_started) module_reset();"
RESETS = "\n\nThe network keeps a state from one run to the next; `{name}.reset()` sets it back to the start."


def micropython_words(m: Manifest) -> dict[str, str]:
    """Return the words for a bundle whose inputs and outputs are numbers of whole bytes and fixed shapes."""
    name, ins, outs = m["name"], m["inputs"], m["outputs"]
    state, everything = bool(m["state"]), [*ins, *outs]
    places = [f"memory[{i}]" for i in range(len(everything))]
    return {
        "c_state": STATE.format(name=name) if state else "",
        "c_reset": RESET.format(name=name) if state else "",
        "c_reset_entry": ENTRY if state else "",
        "c_reset_store": STORE if state else "",
        "c_start": START.format(name=name) if state else "",
        "c_inputs": str(len(ins)),
        "c_count": str(len(everything)),
        "c_buffers": "\n".join(_buffer(t) for t in everything),
        "c_call": ", ".join([*places, *([f"&{name}_module_state"] if state else []), "arena"]),
        "py_inputs": _rows(ins),
        "py_outputs": _rows(outs),
        "py_usage": "\n".join(_made(t) for t in everything),
        "py_call": ", ".join(t["symbol"] for t in everything),
        "py_reset": RESETS.format(name=name) if state else "",
    }


def _code(dtype: DType) -> str:
    """Return the type code of the array that holds such elements; other floats are their bits."""
    if dtype.is_float and dtype.bits >= 32:
        return "f" if dtype.bits == 32 else "d"
    code = INTEGERS[dtype.bytes]
    return code.lower() if dtype.kind == "i" else code


def _count(t: Described) -> int:
    return prod(t["shape"])


def _buffer(t: Described) -> str:
    size = dtype_named(t["dtype"]).bytes
    return f'    {{ "{t["symbol"]}", {size * _count(t)}, {size} }},'


def _rows(tensors: Sequence[Described]) -> str:
    return "".join(f'("{t["symbol"]}", "{_code(dtype_named(t["dtype"]))}", {_count(t)}),' for t in tensors)


def _made(t: Described) -> str:
    dtype = dtype_named(t["dtype"])
    return f'{t["symbol"]} = array("{_code(dtype)}", bytes({dtype.bytes * _count(t)}))'
