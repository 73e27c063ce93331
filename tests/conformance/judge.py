"""One case through `ingot.onnx_backend`, judged as onnx's standard runner does.

In: a `Case`; out: a `Verdict`. The tolerances are the runner's (rtol 1e-3 and atol 1e-7 unless the case says
otherwise, two ULP for bfloat16); element types and shapes must agree exactly. Of random operators the
distribution is judged instead of values.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

import numpy as np
import onnx

from ingot import onnx_backend
from ingot.errors import InputError, UnsupportedError

from .cases import Case
from .randomness import random_reason

Result = Literal["pass", "exception", "unsupported", "wrong", "crash"]
RESULTS: tuple[Result, ...] = ("pass", "exception", "unsupported", "wrong", "crash")
EXCEPTIONS = {"ImageDecoder", "Gradient", "Adagrad", "Adam", "Momentum"}
BFLOAT16_RTOL = 2.0**-6
REASON_LENGTH = 400


class Verdict(NamedTuple):
    """`unsupported` is a clean refusal, an InputError while compiling; every other exception is a crash.

    `exception`: the model holds an operator that freestanding C for inference cannot express (EXCEPTIONS),
    and the refusal is an UnsupportedError that names it.
    """

    result: Result
    reason: str = ""


def judge(case: Case, **options: Any) -> Verdict:
    """Compile the case and run all its data sets; `options` are those of `ingot.compile`."""
    try:
        model, sets = case.load()
        try:
            prepared = onnx_backend.prepare(model, **options)
        except InputError as error:
            return Verdict(_refusal(model, error), _one_line(str(error)))
        for inputs, wanted in sets:
            found = prepared.run(inputs)
            reason = random_reason(model, inputs, found, wanted)
            if reason is None:
                reason = compare(found, wanted, case.test.rtol, case.test.atol)
            if reason:
                return Verdict("wrong", reason)
    except Exception as error:  # what escapes here would have escaped to a user
        return Verdict("crash", _one_line(f"{type(error).__name__}: {error}"))
    return Verdict("pass")


def _refusal(model: onnx.ModelProto, error: InputError) -> Result:
    named = {n.op_type for n in model.graph.node if re.search(rf"\b{n.op_type}\b", str(error))}
    return "exception" if isinstance(error, UnsupportedError) and named & EXCEPTIONS else "unsupported"


def compare(outputs: tuple[Any, ...], wanted: list[Any], rtol: float, atol: float) -> str:
    """What is wrong with the outputs, or nothing."""
    if len(outputs) != len(wanted):
        return f"{len(outputs)} outputs instead of {len(wanted)}"
    for i, (found, expected) in enumerate(zip(outputs, wanted, strict=True)):
        if isinstance(found, list) and isinstance(expected, list):
            reason = compare(tuple(found), expected, rtol, atol)
            if reason:
                return f"output {i}: {reason}"
            continue
        if found is None or expected is None:
            if found is not expected:
                return f"output {i} is {found} instead of {expected}"
            continue
        expected = np.asarray(expected)
        if found.shape != expected.shape or found.dtype != expected.dtype:
            is_, want = f"{found.dtype}{list(found.shape)}", f"{expected.dtype}{list(expected.shape)}"
            return f"output {i} is {is_} instead of {want}"
        if found.dtype == object:
            if not np.array_equal(found, expected):
                return f"output {i}: {found.reshape(-1)[:5]} instead of {expected.reshape(-1)[:5]}"
            continue
        if found.dtype.name == "bfloat16":
            found, expected, rtol = *_float32(found, expected), max(rtol, BFLOAT16_RTOL)
        try:
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
        except AssertionError as error:
            lines = [line.strip() for line in str(error).splitlines()]
            return f"output {i}: " + ", ".join(s for s in lines if s.startswith(("Mismatch", "Max ", "nan")))
    return ""


def _float32(*arrays: Any) -> list[Any]:
    return [a.astype(np.float32) for a in arrays]


def _one_line(text: str) -> str:
    return " ".join(text.split())[:REASON_LENGTH]
