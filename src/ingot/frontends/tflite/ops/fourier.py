"""Fourier transforms: RFFT2D and what becomes of its complex results, as TensorFlow's mappings have them."""

from __future__ import annotations

from ingot.frontends.builder import extents_of
from ingot.frontends.tensorflow.ops.fourier import transformed
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Complex
from ingot.frontends.tflite.ops.table import Call, op

NAMES = {"COMPLEX_ABS": "ComplexAbs", "REAL": "Real", "IMAG": "Imag"}


@op("RFFT2D")
def rfft2d(c: Call) -> Result:
    """Of one row each, which is TensorFlow's RFFT: the converter writes no others."""
    lengths, x = c.ints(1, "the lengths"), c.plain(0)
    shape = extents_of(x)
    c.require(len(shape) > 1 and len(lengths) == 2, f"lengths {list(lengths)} of {shape}")
    if lengths[0] != 1 or shape[-2] != 1:
        raise c.refuse(f"transforms of {lengths[0]} rows are not supported, only of one")
    return Complex(transformed(c, x, lengths[1]))


@op(*NAMES)
def of_complex(c: Call) -> Result:
    return c.standard(NAMES[c.operator.kind])
