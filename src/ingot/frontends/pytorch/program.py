"""The JSON of a program of torch.export's, checked. In: what was parsed; out: the same, or a ModelError.

PyTorch looks names of functions up by attributes, and lets sympy evaluate expressions as Python: a file could
name `torch.os.system`. So a function is an operator of PyTorch's own, or arithmetic on sizes; an expression
consists of symbols, numbers and known functions; a structure of tuples, lists and dicts. Guards (Python code)
and notes on the source, which are not needed, are taken out.
"""

from __future__ import annotations

import re
from typing import Any

from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.files import parse_json

EXPRESSION_LENGTH = 1000
BITS = "__i?(?:and|or|xor|lshift|rshift)__"
TARGET = re.compile(
    rf"torch\.ops\.(?:aten|prims|quantized_decomposed)\.(?!from_file\b)(?:{BITS}|(?!__)\w+)(?:\.(?!__)\w+)?"
    r"|torch\.ops\.higher_order\.(?:associative_scan|cond|invoke_subgraph|map_impl|scan|while_loop"
    r"|wrap_with_autocast|wrap_with_set_grad_enabled)"
    r"|torch\._?sym_[a-z0-9_]+"
    r"|_operator\.(?:abs|add|and_|eq|floordiv|ge|getitem|gt|le|lshift|lt|mod|mul|ne|neg|not_|or_|pos|pow|rshift"
    r"|sub|truediv)"
    r"|math\.(?:ceil|exp|floor|log|log2|pow|sqrt|trunc)",
    re.ASCII,
)
FUNCTIONS = (
    "FloorDiv|ModularIndexing|Where|PythonMod|Mod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|LShift|RShift|PowByNatural"
    "|FloatPow|FloatTrueDiv|IntTrueDiv|IsNonOverlappingAndDenseIndicator|TruncToFloat|TruncToInt|RoundToInt"
    "|RoundDecimal|ToFloat|Identity|Integer|Rational|Add|Mul|Pow|Max|Min|And|Or|Not|Abs|Piecewise|ceiling|floor"
    "|Equality|Unequality|StrictLessThan|StrictGreaterThan|LessThan|GreaterThan"
)
ASSUMED = "positive|nonnegative|nonzero|integer|real|finite"
SYMBOL = re.compile(r"[a-z]{1,3}\d{1,5}", re.ASCII)
EXPRESSION = re.compile(
    rf"(?:\b(?:{FUNCTIONS})\b(?=\()|\b{SYMBOL.pattern}\b|\b(?:True|False|true|false|int_oo|oo)\b"
    rf"|\bSymbol\('{SYMBOL.pattern}'|\bFloat\('-?\d{{1,19}}(?:\.\d{{0,19}})?', precision=53|\b(?:{ASSUMED})="
    r"|\b\d{1,19}(?:\.\d{0,19})?\b|\*\*\d{1,2}\b|\*(?!\*)|[-+/(),<>=!&|~ ])*",
    re.ASCII,
)
STRUCTURES = {
    *("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", None),
    *("torch.fx.immutable_collections.immutable_list", "torch.fx.immutable_collections.immutable_dict"),
}
FUNCTION_REMEDY = "operators of your own: ingot.compile(module, example_inputs) where they are registered"
STRUCTURE_REMEDY = "let the module take and return tensors, tuples, lists and dicts"
TRAINED = re.compile(r"torch\.ops\.aten\.(?:\w*dropout\w*|\w*batch_norm\w*)\.default", re.ASCII)
TRAINING_REMEDY = "call eval() of the module before torch.export.export"
DEVICE_REMEDY = "move the module and the example inputs to the CPU, and export it there"


def checked(document: Any, where: str, is_program: bool = True) -> Any:
    """The JSON as PyTorch may read it. Raises InputError for what is none of a program's."""
    if not isinstance(document, dict):
        raise ModelError(f"{where}: the JSON is no object")
    if is_program:
        _without_notes(document, where)
    stack = [document]
    while stack:
        found = stack.pop()
        if isinstance(found, dict):
            for key, value in found.items():
                _require_known(key, value, where)
            if isinstance(found.get("target"), str) and "metadata" in found:
                found["metadata"] = {}
                _require_inference(found, where)
        stack += found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return document


def _require_inference(node: dict[str, Any], where: str) -> None:
    """Raise UnsupportedError for a dropout or a batch normalisation in training mode: its results are those
    of training, some of them drawn at random.
    """
    if not TRAINED.fullmatch(node["target"]) or not isinstance(node.get("inputs"), list):
        return
    for given in (g for g in node["inputs"] if isinstance(g, dict)):
        if given.get("name") in ("train", "training") and given.get("arg") == {"as_bool": True}:
            operator = node["target"].split(".")[3]
            said = f"{where} was exported in training mode: its {operator} is that of training"
            raise UnsupportedError(said, remedy=TRAINING_REMEDY)


def _without_notes(program: dict[str, Any], where: str) -> None:
    """What is not needed to compute goes; what names ranges is names of symbols."""
    module, ranges = program.get("graph_module"), program.get("range_constraints")
    if not isinstance(module, dict) or not isinstance(ranges, dict):
        raise ModelError(f"{where}: the JSON is no program of torch.export's")
    for name in ranges:
        if not SYMBOL.fullmatch(name):
            raise ModelError(f"{where}: {name[:100]!r} is no name of a size")
    program["guards_code"], module["metadata"] = [], {}


def _require_known(key: str, value: Any, where: str) -> None:
    """Raise InputError for a value that PyTorch would look up or evaluate, and that is not harmless."""
    match key, value:
        case ("target" | "as_operator", str()) if not TARGET.fullmatch(value):
            said = f"{where} calls {value[:100]!r}, no operator of PyTorch's that computes on tensors"
            raise UnsupportedError(said, remedy=FUNCTION_REMEDY)
        case "expr_str", str() if len(value) > EXPRESSION_LENGTH or not EXPRESSION.fullmatch(value):
            raise ModelError(f"{where}: {value[:100]!r} is no expression of sizes")
        case ("in_spec" | "out_spec", str()):
            _require_plain(value, where)
        case ("device" | "as_device", {"type": str(kind)}) if kind != "cpu":
            raise UnsupportedError(f"{where}: a tensor lies on {kind[:20]!r}", remedy=DEVICE_REMEDY)
        case "as_custom_obj", _:
            raise UnsupportedError(f"{where} holds an object of a class of its own", remedy=STRUCTURE_REMEDY)


def _require_plain(text: str, where: str) -> None:
    """Raise InputError for a structure of anything but tuples, lists and dicts of tensors."""
    try:
        stack = [parse_json(text, where)]
    except InputError as error:
        raise ModelError(f"{where}: the structure of an argument: {error.message[:200]}") from None
    while stack:
        found = stack.pop()
        if isinstance(found, dict):
            kind, context = found.get("type"), found.get("context")
            is_known = isinstance(kind, str | None) and kind in STRUCTURES and "__enum__" not in str(context)
            if not is_known:
                said = f"{where}: inputs or outputs are a {str(kind)[:60]!r}"
                raise UnsupportedError(said, remedy=STRUCTURE_REMEDY)
            stack.append(found.get("children_spec"))
        stack += found if isinstance(found, list) else ()
