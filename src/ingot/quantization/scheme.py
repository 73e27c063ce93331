"""What a user asks of quantisation: one frozen record, and the readers of its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ingot.errors import InputError

Schema = Literal["asymmetric", "symmetric", "symmetric_with_uint8", "symmetric_with_power2_scale"]
Method = Literal["minmax", "percentile", "entropy", "mse"]
Precision = Literal["int8", "int16x8"]
BiasPrecision = Literal["int32", "int16", "int8"]
Edge = Literal["float", "int8", "uint8"]
Rounding = Literal["nearest", "adaptive"]
PERCENTILE = 99.99
OPTIONS = {
    "edge": "--io",
    "assert_all": "--assert-all-quantized",
    "bias_correction": "--no-bias-correction",
    "equalize": "--no-equalize",
    "max_drop": "--keep-float auto",
}
"""How the command line calls fields of a scheme; the others have their own name."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a range follows from a histogram; `share` is the percentage that `percentile` keeps."""

    method: Method = "mse"
    share: float = PERCENTILE


@dataclass(frozen=True, slots=True)
class Scheme:
    """Everything a user can say about the quantisation of a model.

    `schema` says which zero points and scales there are (the four of Glow), `calibration` how ranges follow
    from the profile. `precision` int16x8 gives activations 16 bits, `bias_precision` is the type of biases.
    `per_tensor` gives each weight one scale instead of one for each output channel. `keep_float` lists
    patterns of node names and operator types that stay float; `max_drop` is what the model may lose on data
    for layers to be searched that have to (with int16x8: that have to get 16 bits). `edge` is the type of the
    model's float inputs and outputs. `bias_correction` takes the mean error of rounded weights out of the
    biases; `equalize` rescales channels between layers where data shows that this helps; `rounding` adaptive
    rounds weights by data. `assert_all` refuses models with layers that stay float.
    """

    schema: Schema = "asymmetric"
    calibration: Calibration = Calibration()
    precision: Precision = "int8"
    bias_precision: BiasPrecision = "int32"
    per_tensor: bool = False
    keep_float: tuple[str, ...] = ()
    max_drop: float | None = None
    edge: Edge = "float"
    bias_correction: bool = True
    equalize: bool = True
    rounding: Rounding = "nearest"
    assert_all: bool = False


def parse_calibration(text: str) -> Calibration:
    """Return the calibration that a word says, or percentile with its share. Raises InputError."""
    method, colon, share = text.partition(":")
    known = get_args(Method)
    if method not in known or (colon and method != "percentile"):
        raise InputError(f"--calibration {text}: write one of {', '.join(known)}, or percentile:99.99")
    if not colon:
        return Calibration(method)  # type: ignore[arg-type]  # one of the words of Method
    try:
        percentage = float(share)
    except ValueError:
        percentage = 0.0
    if not 50 < percentage <= 100:
        raise InputError(f"--calibration {text}: a percentile must be above 50 and at most 100")
    return Calibration("percentile", percentage)


def parse_drop(text: str) -> float:
    """Return the share that `0.5%` or `0.005` says. Raises InputError."""
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1:
        raise InputError(f"--max-drop {text}: write a share such as 0.5%")
    return found
