"""Scales and zero points from ranges: value = (q - zero point) * scale.

In: a range of numbers, a schema, a width. Out: `Parameters`. The schemas are those of Glow
(docs/Quantization.md, `chooseQuantizationParams`), but that a range which never goes below 0 is uint8 itself
under symmetric_with_uint8, not int8 with an offset of -128.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ingot.formula.expr import Array
from ingot.quantization.scheme import Schema

DEGENERATE = 0.1  # the scale of a range that holds 0 alone, as in Glow
SMALLEST = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """What integers of a numpy type stand for; `axis` is the one that several scales go along."""

    scale: Array
    zero: Array
    type: str
    axis: int | None = None

    @property
    def lowest(self) -> int:
        """The lowest integer of the type."""
        return int(np.iinfo(self.type).min)

    @property
    def highest(self) -> int:
        """The highest integer of the type."""
        return int(np.iinfo(self.type).max)

    def along(self, rank: int) -> tuple[Array, Array]:
        """Return scale and zero point in a shape that broadcasts against a tensor of this rank."""
        shape = [-1 if d == self.axis else 1 for d in range(rank)] if self.axis is not None else []
        return self.scale.reshape(shape), self.zero.astype(np.int64).reshape(shape)

    def quantised(self, values: Array) -> Array:
        """Return the integers of numbers, rounded half to even and saturated, as QuantizeLinear does."""
        scale, zero = self.along(values.ndim)
        q = np.rint(values.astype(np.float32) / scale).astype(np.float64) + zero
        return np.asarray(np.clip(q, self.lowest, self.highest).astype(self.type))

    def numbers(self, integers: Array) -> Array:
        """Return what integers stand for, in float32."""
        scale, zero = self.along(integers.ndim)
        return np.asarray((integers.astype(np.int64) - zero).astype(np.float32) * scale, np.float32)

    def rounded(self, values: Array) -> Array:
        """Return the numbers nearest to `values` that integers stand for."""
        return self.numbers(self.quantised(values))


def parameters(low: float, high: float, schema: Schema, bits: int = 8) -> Parameters:
    """Return scale and zero point for a range, which is widened to hold 0.

    Activations of 16 bits have no zero point under any schema.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if bits == 16 or schema == "symmetric":
        return _symmetric(low, high, bits)
    if schema == "asymmetric":
        return _asymmetric(low, high)
    if schema == "symmetric_with_uint8":
        return _made(high / 255, 0, "uint8") if low >= 0 else _symmetric(low, high, bits)
    return _power_of_two(_symmetric(low, high, bits))


def fixed(low: float, high: float, schema: Schema, bits: int = 8) -> Parameters:
    """Return the parameters of a range known beforehand, with steps that are powers of two.

    The end of [0, 1] or [-1, 1] falls one step short, as in TensorFlow Lite's Softmax and Tanh.
    """
    steps = 1 << bits
    if bits == 16 or schema != "asymmetric":
        if low >= 0 and schema == "symmetric_with_uint8" and bits == 8:
            return _made(high / steps, 0, "uint8")
        return _made(2 * max(-low, high) / steps, 0, f"int{bits}")
    scale = (high - low) / steps
    return _made(scale, round(-steps / 2 - low / scale), f"int{bits}")


def as_type(found: Parameters, wanted: str) -> Parameters:
    """Return the same 8-bit parameters for int8 or uint8: zero points differ by 128."""
    if found.type == wanted or {found.type, wanted} != {"int8", "uint8"}:
        return found
    moved = found.zero.astype(np.int64) + (128 if wanted == "uint8" else -128)
    return replace(found, zero=moved.astype(wanted), type=wanted)


def weights_per_channel(
    weights: Array, axis: int | None, is_power: bool, least: Array | float = 0.0
) -> Parameters:
    """Return symmetric int8 parameters of weights, one scale for each index of `axis`, or one for all.

    `least` is a lower bound of the scales, which keeps biases in units of sums within 32 bits.
    """
    others = tuple(d for d in range(weights.ndim) if d != axis) if axis is not None else None
    most = np.abs(weights.astype(np.float64)).max(axis=others, initial=0.0)
    scale = np.maximum(most / 127, least)
    scale = np.where(scale > SMALLEST, scale, DEGENERATE)
    if is_power:
        scale = 2.0 ** np.ceil(np.log2(scale))
    scale = np.asarray(scale, np.float32)
    return Parameters(scale, np.zeros(scale.shape, np.int8), "int8", axis)


def _made(scale: float, zero: int, type_: str) -> Parameters:
    found = scale if scale > SMALLEST else DEGENERATE
    return Parameters(np.array(found, np.float32), np.array(zero, type_), type_)


def _symmetric(low: float, high: float, bits: int) -> Parameters:
    """The end that saturates first says the scale."""
    half = 1 << (bits - 1)
    return _made(max(-low / half, high / (half - 1)), 0, f"int{bits}")


def _asymmetric(low: float, high: float) -> Parameters:
    """The zero point follows from the end whose error is smaller, and is an integer."""
    scale = (high - low) / 255
    if not scale > SMALLEST:
        return _made(DEGENERATE, 0, "int8")
    from_low, from_high = -128 - low / scale, 127 - high / scale
    is_low = abs(-128) + abs(low / scale) < abs(127) + abs(high / scale)
    zero = int(np.clip(np.rint(from_low if is_low else from_high), -128, 127))
    return _made(scale, zero, "int8")


def _power_of_two(found: Parameters) -> Parameters:
    return replace(found, scale=np.exp2(np.ceil(np.log2(found.scale))).astype(np.float32))
