"""The inputs of nets that do not describe them, as Glow's users write them: NAME,TYPE,[SHAPE].

In: words of the command line. Out: types and shapes by name, or an InputError that says how to write it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ingot.errors import InputError
from ingot.formula.types import DType, dtype_named

TYPES = {
    "float": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "int8q": "int8",
    "int16q": "int16",
    "int32q": "int32",
    "int32": "int32",
    "int64": "int64",
    "bool": "bool",
    "uint8": "uint8",
}
_SHAPE = re.compile(r"^\[?\s*(\d+(?:\s*[,x]\s*\d+)*)?\s*\]?$")
DIMENSION_LIMIT = 1 << 31


@dataclass(frozen=True, slots=True)
class ModelInput:
    """`quantisation` is the scale and the zero point of int8 elements that stand for real numbers."""

    dtype: DType
    shape: tuple[int, ...]
    quantisation: tuple[float, int] | None = None


def parse_model_inputs(words: Sequence[str]) -> dict[str, ModelInput]:
    """`data,float,[1,3,224,224]`, `data,int8q,0.5,-3,[1,3]`; a shape may be written 1x3x224x224 too."""
    found: dict[str, ModelInput] = {}
    for word in words:
        name, _, rest = word.partition(",")
        kind, _, rest = rest.partition(",")
        if not name or kind not in TYPES:
            raise _bad(word)
        quantisation = None
        if kind.endswith("q"):
            scale, _, rest = rest.partition(",")
            offset, _, rest = rest.partition(",")
            try:
                quantisation = float(scale), int(offset)
            except ValueError:
                raise _bad(word) from None
        shape = _SHAPE.match(rest)
        if not rest or shape is None or name in found:
            raise InputError(f"--model-input {name} is given twice") if name in found else _bad(word)
        extents = tuple(int(n) for n in re.findall(r"\d+", shape[1] or ""))
        if any(not 0 < n < DIMENSION_LIMIT for n in extents):
            raise InputError(f"--model-input {word}: an extent is no dimension")
        found[name] = ModelInput(dtype_named(TYPES[kind]), extents, quantisation)
    return found


def _bad(word: str) -> InputError:
    return InputError(
        f"--model-input {word}: write NAME,TYPE,[SHAPE], as in data,float,[1,3,224,224]",
        remedy=f"types are {', '.join(TYPES)}; those that end in q take SCALE,OFFSET before the shape",
    )
