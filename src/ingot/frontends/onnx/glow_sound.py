"""AudioSpectrogram and MFCC as Glow has them in ONNX's default domain: TensorFlow's, of one channel.

In: a node; out: the function that it means. Called by `glow.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from ingot.errors import ModelError, UnsupportedError
from ingot.frontends.audio import coefficients, spectrogram

SPECTROGRAM = {"window_size": None, "stride": None, "magnitude_squared": 1}
COEFFICIENTS = {
    "sample_rate": None,
    "lower_frequency_limit": None,
    "upper_frequency_limit": None,
    "filterbank_channel_count": None,
    "dct_coefficient_count": None,
}
"""Attributes and what they are where they are not given; None: they must be."""
HELD = {onnx.AttributeProto.INT: "i", onnx.AttributeProto.FLOAT: "f"}


def sound_function(call: onnx.NodeProto) -> onnx.FunctionProto | None:
    """What the node means; None if it is not one of these. Raises InputError where attributes do not fit."""
    label = f"{call.op_type} node {call.name or next(iter(call.output), '')!r}"
    if call.op_type == "AudioSpectrogram":
        window, stride, squared = _numbers(call, label, SPECTROGRAM)
        return _flat(spectrogram(label, int(window), int(stride), bool(squared)))
    if call.op_type == "MFCC":
        rate, low, high, filters, count = _numbers(call, label, COEFFICIENTS)
        return coefficients(label, rate, low, high, int(filters), int(count))
    return None


def _numbers(call: onnx.NodeProto, label: str, wanted: Mapping[str, int | None]) -> list[float]:
    """The attributes in the order in which they are wanted."""
    given: dict[str, float | None] = dict(wanted)
    for a in call.attribute:
        if a.name not in wanted or a.type not in HELD:
            raise UnsupportedError(f"{label}: the attribute {a.name!r} is not read, or not with that value")
        given[a.name] = getattr(a, HELD[a.type])
    if missing := [name for name, value in given.items() if value is None]:
        raise ModelError(f"{label}: the attribute {missing[0]!r} is missing")
    return [value for value in given.values() if value is not None]


def _flat(function: onnx.FunctionProto) -> onnx.FunctionProto:
    """The same of samples without channels, whatever their axes: to [slice, frequency]."""
    node = onnx.helper.make_node
    before = [
        node("Constant", [], ["row"], value_ints=[1, -1]),
        node("Reshape", ["sound", "row"], [function.input[0]]),
    ]
    nodes = [*before, *function.node, node("Squeeze", [function.output[0], "first"], ["flat"])]
    return onnx.helper.make_function(
        function.domain, function.name, ["sound"], ["flat"], nodes, function.opset_import
    )
